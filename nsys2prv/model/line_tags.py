"""Tags of lines (communication records), which tell what a line joins."""

from __future__ import annotations

# From a CUDA call to what it launched.
CORRELATION_TAG = 55001
# From a cudaEventRecord to the cudaStreamWaitEvent that waits for it, and between the work on their streams.
EVENT_WAIT_TAG, STREAM_WAIT_TAG = 55002, 55003
NCCL_TAG = 55100
# An MPI message has its own tag above this.
MPI_TAG = 100_000
