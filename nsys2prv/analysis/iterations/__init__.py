"""Iterations, phases and NVTX ranges: found, timed, and the window that they make."""
