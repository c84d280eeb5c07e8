"""Device memory near full: allocators then free, defragment and synchronize, and a larger input does not fit."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.findings.case import Case
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.analysis.findings.thresholds import MEMORY_FULL
from nsys2prv.errors import bytes_text


def memory_near_full(case: Case) -> Iterator[Finding]:
    """Yield the device whose memory was filled most, if it was near full. What that costs shows in `allocations`."""
    known = [
        (hardware.memory_peak / hardware.capacity.memory, device, hardware)
        for device, hardware in zip(case.run.devices, case.run.hardware, strict=False)
        if hardware.memory_peak is not None and hardware.capacity.memory
    ]
    full = [(filled, device, hardware) for filled, device, hardware in known if filled >= MEMORY_FULL.value]
    if not full:
        return
    filled, worst, hardware = max(full)
    peak = hardware.memory_peak or 0
    yield Finding(
        "memory-near-full",
        f"Memory of GPU {worst.gpu} of {worst.host} is nearly full: {bytes_text(peak)} of "
        f"{bytes_text(hardware.capacity.memory)}, {100 * filled:.0f} %",
        0.0,
        "Expect allocations that fail or synchronize with a larger input: a smaller batch, recomputed or offloaded "
        "activations, sharded optimizer states, and PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against "
        "fragments.",
        ranks=named_ranks(device.rank for _, device, _ in full),
        evidence={
            "peak_bytes": peak,
            "memory_bytes": hardware.capacity.memory,
            "filled": round(filled, 4),
            "devices": len(full),
        },
        command="nsys2prv analyze RUN --show api",
        cfg="basics/memory_in_use",
        at_ns=hardware.peak_at,
        severity="medium",
    )
