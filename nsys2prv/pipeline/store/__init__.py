"""What lies between the stages: points and ends, on disk or in memory."""
