"""Facts on communication: how long single operations take, and which of them an iteration repeats."""
