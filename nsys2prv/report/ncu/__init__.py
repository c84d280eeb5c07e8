"""Reports of Nsight Compute: metrics of single kernels, as CSV or `.ncu-rep`."""
