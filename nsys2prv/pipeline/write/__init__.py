"""The files of a trace."""
