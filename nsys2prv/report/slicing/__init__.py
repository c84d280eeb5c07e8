"""Cutting a large report into slices of time."""
