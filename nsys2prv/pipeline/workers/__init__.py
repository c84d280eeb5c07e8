"""Where the maps run, and what the processes that run them share."""
