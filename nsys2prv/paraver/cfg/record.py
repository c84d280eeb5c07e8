"""What to tell `nsys profile` so that a cfg finds what it shows."""

from __future__ import annotations

CUDA = "nsys profile -t cuda"
GRAPH = "nsys profile -t cuda --cuda-graph-trace=graph"
GRAPH_NODES = "nsys profile -t cuda --cuda-graph-trace=node"
NVTX = "nsys profile -t nvtx; NVTX ranges in the program"
CUDA_NVTX = "nsys profile -t cuda,nvtx; NVTX ranges in the program"
NCCL = "nsys profile -t cuda; a program that communicates with NCCL"
NCCL_CALLS = "nsys profile -t cuda,nvtx; a program that communicates with NCCL"
MPI = "nsys profile -t mpi"
HOST = "nsys profile -t cuda,mpi"
OPENMP = "nsys profile -t openmp"
OSRT = "nsys profile -t osrt"
METRICS = "nsys profile --gpu-metrics-devices=cuda-visible"
CUDA_METRICS = "nsys profile -t cuda --gpu-metrics-devices=cuda-visible"
ANYTHING = "anything"
