"""Frames, places, labels and the algebra of intervals. Knows nothing of reports or Paraver."""
