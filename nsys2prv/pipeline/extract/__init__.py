"""The extract stage: from one report to spilled points and a summary."""
