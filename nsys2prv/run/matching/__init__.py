"""Matching by key, the rules: collectives and messages joined by communicator and sequence number."""
