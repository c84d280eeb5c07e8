"""Iterations, by ranges that number them or by work that repeats, and the window of interest that they make."""
