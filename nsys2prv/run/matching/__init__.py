"""Matching across ranks: collectives and messages joined by communicator and sequence number."""
