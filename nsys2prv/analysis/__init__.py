"""Answers about a whole run: efficiency, overlap, metrics by class, iterations. Frames in, tables out."""
