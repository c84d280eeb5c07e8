"""Matching by order and time: operations of NCCL kernels without payload, which have no match keys."""
