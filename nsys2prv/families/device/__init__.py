"""Families of the device: kernels, memory, graphs, synchronization, page faults."""
