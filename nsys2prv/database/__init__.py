"""A database of runs: their figures in SQLite or PostgreSQL, written by many jobs at once. Imported when it is used."""
