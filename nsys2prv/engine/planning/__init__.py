"""Plan and match: what needs all reports before any line is made."""
