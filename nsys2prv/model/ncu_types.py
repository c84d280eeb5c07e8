"""Event types of what Nsight Compute measured of kernels, drawn on the kernels of the trace."""

from __future__ import annotations

from nsys2prv.model.event_type import EventType

# How a kernel got its figures: it was profiled itself, or others like it were.
NCU_JOINED = EventType(
    "ncu_joined",
    70000130,
    "Nsight Compute: figures are those of",
    {1: "this launch", 2: "the same kernel (mean)", 3: "the kernel's class (mean)"},
)
# By the column of a kernel's figures (report/ncu/figures.py).
NCU_FIGURES = {
    "sm_percent": EventType("ncu_sm", 70000131, "Nsight Compute: SM throughput [% of peak]", precision=2, unique=True),
    "tensor_percent": EventType(
        "ncu_tensor", 70000132, "Nsight Compute: tensor activity [%]", precision=2, unique=True
    ),
    "dram_bytes": EventType("ncu_dram", 70000133, "Nsight Compute: DRAM bytes [B]", unique=True),
    "l2_bytes": EventType("ncu_l2", 70000134, "Nsight Compute: L2 bytes [B]", unique=True),
    "occupancy_percent": EventType(
        "ncu_occupancy", 70000135, "Nsight Compute: achieved occupancy [%]", precision=2, unique=True
    ),
    "flop": EventType("ncu_flop", 70000137, "Nsight Compute: floating-point operations", unique=True),
}
_STALLS = (
    "barrier branch_resolving dispatch_stall drain gmma imc_miss lg_throttle long_scoreboard math_pipe_throttle membar "
    "mio_throttle misc no_instruction not_selected short_scoreboard sleeping tex_throttle wait"
)
OTHER_STALL = 100
# https://docs.nvidia.com/nsight-compute/ProfilingGuide, Warp Stall Reasons.
NCU_STALL = EventType(
    "ncu_stall",
    70000136,
    "Nsight Compute: main stall reason",
    {**dict(enumerate(_STALLS.split(), 1)), OTHER_STALL: "another reason"},
)
