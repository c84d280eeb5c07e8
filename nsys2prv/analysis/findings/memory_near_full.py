"""Device memory near full: allocators then free, defragment and synchronize, and a larger input does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import MEMORY_FULL
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.analysis.frames import Device, Hardware
from nsys2prv.model.units import bytes_text

LESS = Words(
    general="give a GPU less of it, use more GPUs, compute again or offload what is kept, and free what is not needed",
    pytorch="a smaller batch, recomputed or offloaded activations, sharded optimizer states, and "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragments",
    jax="a smaller batch, recomputed activations (jax.checkpoint), sharded parameters and optimizer states, and "
    "donated arguments (donate_argnums). JAX may have taken it all at the start (XLA_PYTHON_CLIENT_PREALLOCATE)",
)


def memory_near_full(case: Case) -> Iterator[Finding]:
    """Yield the device whose memory was filled most, if it was near full. What that costs shows in `allocations`.

    Of several processes on a device it is known what each held at most, not when: all together held no more than the
    sum. Where only that is near what the GPU has, its memory may have been near full.
    """
    known = [
        (hardware, device)
        for device, hardware in zip(case.run.devices, case.run.hardware, strict=False)
        if hardware.memory_peaks and hardware.capacity.memory
    ]
    full = _filled(
        (hardware.memory_peaks[0] / hardware.capacity.memory, device, hardware) for hardware, device in known
    )
    perhaps = _filled(
        (sum(hardware.memory_peaks) / hardware.capacity.memory, device, hardware) for hardware, device in known
    )
    if not perhaps:
        return
    _, worst, hardware = max(full or perhaps)
    memory, (peak, *others) = hardware.capacity.memory, hardware.memory_peaks
    held = f"{bytes_text(peak)} of {bytes_text(memory)}, {100 * peak / memory:.0f} %"
    if others:
        most = bytes_text(min(peak + sum(others), memory))
        held = f"one process held {held}, and {len(others) + 1} together up to {most}, if at one time"
    yield Finding(
        "memory-near-full",
        f"Memory of GPU {worst.gpu} of {worst.host} {'is' if full else 'may be'} nearly full: {held}",
        0.0,
        f"Expect allocations that fail or synchronize with a larger input: {LESS.of(case.framework)}.",
        ranks=named_ranks(device.rank for _, device, _ in full or perhaps),
        evidence={
            "peak_bytes": peak,
            "memory_bytes": memory,
            "filled": round(peak / memory, 4),
            "processes": len(others) + 1,
            "sum_of_peaks_bytes": peak + sum(others),
            "devices": len(full or perhaps),
        },
        confidence="high" if full else "low",
        command="nsys2prv analyze RUN --show api",
        cfg="basics/memory_in_use",
        at_ns=hardware.peak_at,
        severity="medium" if full else "low",
    )


def _filled(parts: Iterable[tuple[float, Device, Hardware]]) -> list[tuple[float, Device, Hardware]]:
    """Return the devices of whose memory a large part is in use: the part (of 1), device and hardware."""
    return [one for one in parts if one[0] >= MEMORY_FULL.value]
