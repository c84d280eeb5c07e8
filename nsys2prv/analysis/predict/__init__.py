"""Predictions: the dependency graph replayed with other lengths."""
