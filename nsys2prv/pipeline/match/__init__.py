"""The match stage: reads match keys of all reports, a span of keys at a time, and stores messages."""
