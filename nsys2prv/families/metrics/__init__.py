"""Families of counters: GPU and network metrics, memory in use, estimates."""
