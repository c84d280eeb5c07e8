"""Idle time of devices: its causes, the longest pieces, launches and their queues."""
