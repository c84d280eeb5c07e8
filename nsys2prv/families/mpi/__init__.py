"""The families of MPI and UCX."""
