"""The frames of a whole run, gathered from its reports."""
