"""The recording itself: machines, circumstances, what it lacks, remarks on it."""
