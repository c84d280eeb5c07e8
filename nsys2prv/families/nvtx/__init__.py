"""The families of NVTX: ranges, marks, projected ranges, Python samples."""
