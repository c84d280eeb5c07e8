"""The families of NCCL: its calls and kernels (nccl), and its operations on the device (nccl_operations)."""
