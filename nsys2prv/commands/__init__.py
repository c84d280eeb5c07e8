"""The commands: each module does the work of one command and returns its result."""
