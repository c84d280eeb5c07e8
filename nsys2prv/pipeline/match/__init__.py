"""Matching by key, the stage: read the match keys of all reports, a span of keys at a time, and store messages."""
