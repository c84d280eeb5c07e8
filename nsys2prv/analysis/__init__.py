"""What people open a trace for: efficiency, overlap, metrics by class, iterations. Frames in, tables out."""
