"""Storage between the stages: points and match keys, on disk or in memory."""
