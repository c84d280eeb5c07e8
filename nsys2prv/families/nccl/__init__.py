"""The family of NCCL: calls, kernels, payloads."""
