"""Encode: points in, lines out."""
