"""Forecast of the size of a trace, and of the time and memory to load it, before it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nsys2prv.errors import UsageError
from nsys2prv.families.whole_run import TENSOR_ESTIMATE_FAMILY
from nsys2prv.model.units import bytes_text
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Spill
from nsys2prv.run.trace_rows import NO_ROW

# Measured with Paraver on real traces: bytes it loads a second, bytes of memory a byte of trace.
LOAD_BYTES_PER_SECOND = 6_000_000
LOAD_MEMORY_FACTOR = 4.5

# Bytes in the traces of real reports: a line with its time and objects, each pair of an event after the first, the rest
# of a line by kind of its point.
_LINE_BYTES, _PAIR_BYTES = 24, 9
_REST_BYTES = {"events": 12, "samples": 0, "messages": 32, "states": 13}
# gzip's gain on PRV text.
_GZIP_GAIN = 0.15


def load_seconds(size: int) -> float:
    """Return the seconds that Paraver takes to load a trace of so many bytes."""
    return size / LOAD_BYTES_PER_SECOND


def load_bytes(size: int) -> int:
    """Return the bytes of memory that Paraver takes for a trace of so many bytes."""
    return int(size * LOAD_MEMORY_FACTOR)


def forecast(plan: Plan, matched: Sequence[Spill], estimated: int) -> Mapping[str, int]:
    """Forecast the bytes of each family: lines on drawn rows, times the bytes of such a line.

    `matched`: messages between ranks, and events of waiting; `estimated`: kernels that get an estimate.
    """
    sizes: dict[str, int] = {}
    for r, summary in enumerate(plan.summaries):
        uses = summary.uses
        drawn = plan.objects.row_of[r][uses["place"].to_numpy()] != NO_ROW
        total = dict.fromkeys(summary.counts, 0)
        kept = dict(total)
        for family, rows, shown in zip(uses["family"], uses["rows"], drawn, strict=True):
            total[family] += rows
            kept[family] += rows if shown else 0
        for spill in summary.spills:
            share = kept[spill.family] / total[spill.family] if total.get(spill.family) else 1.0
            sizes[spill.family] = sizes.get(spill.family, 0) + int(_bytes(spill) * share)
    for spill in matched:
        sizes[spill.family] = sizes.get(spill.family, 0) + _bytes(spill)
    if estimated:
        sizes[TENSOR_ESTIMATE_FAMILY.name] = estimated * 2 * _PAIR_BYTES
    return sizes


def _bytes(spill: Spill) -> int:
    """Return the bytes that the points of a spill take in the trace, about."""
    return spill.rows * (_LINE_BYTES + _REST_BYTES[spill.kind]) + spill.pairs * _PAIR_BYTES


def trace_size(sizes: Mapping[str, int], compress: bool) -> int:
    """Estimate the bytes of the whole trace, or of it as gzip, from those of each family."""
    return int(sum(sizes.values()) * (_GZIP_GAIN if compress else 1))


def check_size(sizes: Mapping[str, int], compress: bool, limit: int) -> int:
    """Return the forecast bytes of the whole trace (see trace_size). Raises UsageError above a limit, with remedies."""
    size = trace_size(sizes, compress)
    if size > limit:
        largest = sorted(sizes, key=lambda f: -sizes[f])[:3]
        less = {f: trace_size({f: sizes[f]}, compress) for f in largest}
        effects = ", ".join(f"--skip {f} (-{bytes_text(saved, 2)})" for f, saved in less.items())
        raise UsageError(
            f"the trace would be about {bytes_text(size, 2)}, above --max-size {bytes_text(limit, 2)}; "
            f"what would help: {effects}, --time, --nvtx, --ranks, or a larger --max-size"
        )
    return size
