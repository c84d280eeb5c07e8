"""Operations of NCCL kernels without payload, matched by order and time."""
