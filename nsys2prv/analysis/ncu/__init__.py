"""Metrics of Nsight Compute on the kernels of a run: where each profiled kernel was launched, tables, a roofline."""
