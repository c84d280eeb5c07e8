"""Facts on communication: single operations, those of NCCL that are many, shared normalization, repeated passes."""
