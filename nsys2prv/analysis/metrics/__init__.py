"""GPU metrics by class of kernels: fits of the samples."""
