"""The encode stage: from points to lines."""
