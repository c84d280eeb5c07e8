"""Families of the host: CUDA and library calls, OS calls, scheduling, samples, OpenMP, OpenACC."""
