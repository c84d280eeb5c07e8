"""Figures of profiled kernels, made of the metrics of Nsight Compute.

Formulas of the rooflines are those of the sections that Nsight Compute comes with
(`SpeedOfLight_RooflineChart.section`, `SpeedOfLight_HierarchicalTensorRooflineChart.section`;
https://docs.nvidia.com/nsight-compute/ProfilingGuide): a fused multiply-add is two
operations, a roof is `peak_sustained` (by cycle) times the clock of the unit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import add

import polars as pl

from nsys2prv.report.ncu.pages import KERNEL_ID

_NUMBER = pl.Float64()
# Kinds of arithmetic: instructions of threads by type, and tensor cores.
PIPES = ("fp16", "fp32", "fp64", "tensor")
# Columns of a profiled kernel beside KERNEL_ID. `ns`: its time under the profiler; shares are %; `flop`: floating-point
# operations (null: not all were measured), `flop_*` those of each pipe; `peak_*`: the most that the GPU can do at the
# clocks of that time, in operations a second; `peak_bytes`: of DRAM, in bytes a second; `stall`: the reason that kept
# the most warps waiting.
FIGURES = {
    "registers": pl.Int64(),
    "ns": _NUMBER,
    "sm_percent": _NUMBER,
    "tensor_percent": _NUMBER,
    "dram_bytes": _NUMBER,
    "l2_bytes": _NUMBER,
    "occupancy_percent": _NUMBER,
    "stall": pl.String(),
    "flop": _NUMBER,
    **{f"flop_{pipe}": _NUMBER for pipe in PIPES},
    **{f"peak_{pipe}": _NUMBER for pipe in PIPES},
    "peak_bytes": _NUMBER,
}
_SECTOR_BYTES = 32
# Larger ones are no measurements: a share of a peak, and a number that a trace can hold.
MOST_PERCENT, MOST = 1e6, 1e18
_NS, _SM_CLOCK = "gpu__time_duration.sum", "sm__cycles_elapsed.avg.per_second"
_SMSP_CLOCK, _DRAM_CLOCK = "smsp__cycles_elapsed.avg.per_second", "dram__cycles_elapsed.avg.per_second"
_INSTRUCTIONS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_FMA_PEAK = "sm__sass_thread_inst_executed_op_{}fma_pred_on.sum.peak_sustained"
_LETTERS = {"fp16": "h", "fp32": "f", "fp64": "d"}
# Operations of tensor cores by type of the inputs, of all instructions or of one (`op_hgmma`).
_TENSOR = re.compile(
    r"sm__ops_path_tensor_(?P<op>op_\w+?_)?src_(?P<type>(?:bf|tf|fp)\d+)\w*?(?P<sparse>_sparsity_on)?"
    r"\.sum(?P<peak>\.peak_sustained)?"
)
# Two spellings: by instructions issued, and by cycles of latency. `selected` is a warp that issues.
_STALL = re.compile(r"smsp__average_warps?_(?:latency_)?issue_stalled_(?!selected)(\w+?)(?:_per_issue_active)?\.ratio")
_SINGLE = (
    *(_NS, _SM_CLOCK, _SMSP_CLOCK, _DRAM_CLOCK, "launch__registers_per_thread"),
    *(f"dram__bytes{part}.sum" for part in ("", "_read", "_write")),
    *("dram__bytes.sum.per_second", "dram__bytes.sum.peak_sustained", "lts__t_bytes.sum", "lts__t_sectors.sum"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)
_ARITHMETIC = re.compile(r"sm(?:sp)?__sass_thread_inst_executed_op_[hfd](add|mul|fma)_pred_on\.sum(\.\w+)?")


def is_read(metric: str) -> bool:
    """Return True for a metric that figures are made of."""
    return metric in _SINGLE or any(p.fullmatch(metric) for p in (_TENSOR, _STALL, _ARITHMETIC))


def figures(page: pl.DataFrame) -> pl.DataFrame:
    """Return KERNEL_ID and FIGURES of the kernels of a page (see pages.read_page); null where a metric is missing."""
    held = page.columns
    bytes_by_time = _metric(held, "dram__bytes.sum.per_second") * _metric(held, _NS) / 1e9
    parts = [_metric(held, f"dram__bytes_{side}.sum") for side in ("read", "write")]
    found = page.select(
        *KERNEL_ID,
        registers=_metric(held, "launch__registers_per_thread"),
        ns=_metric(held, _NS),
        sm_percent=_metric(held, "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        tensor_percent=_metric(held, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"),
        dram_bytes=pl.coalesce(_metric(held, "dram__bytes.sum"), parts[0] + parts[1], bytes_by_time),
        l2_bytes=pl.coalesce(_metric(held, "lts__t_bytes.sum"), _metric(held, "lts__t_sectors.sum") * _SECTOR_BYTES),
        occupancy_percent=_metric(held, "sm__warps_active.avg.pct_of_peak_sustained_active"),
        stall=_main_stall(held),
        **{f"flop_{pipe}": _thread_operations(held, letter) for pipe, letter in _LETTERS.items()},
        **{
            f"peak_{pipe}": 2 * _metric(held, _FMA_PEAK.format(letter)) * _metric(held, _SM_CLOCK)
            for pipe, letter in _LETTERS.items()
        },
        **_tensor(held),
        peak_bytes=_metric(held, "dram__bytes.sum.peak_sustained") * _metric(held, _DRAM_CLOCK),
    )
    # A kernel that used tensor cores did more than its threads' instructions say.
    without_tensor = pl.when(pl.col("tensor_percent") == 0).then(0.0)
    threads = pl.col("flop_fp32") + pl.col("flop_fp64") + pl.col("flop_fp16").fill_null(0)
    whole = found.with_columns(flop=threads + pl.coalesce("flop_tensor", without_tensor))
    return whole.select(*KERNEL_ID, *(_sound(c).cast(t, strict=False) for c, t in FIGURES.items()))


def _sound(column: str) -> pl.Expr:
    """Return a figure, null where no kernel can have it: below 0, a peak or time of 0, a share or number too large."""
    value = pl.col(column)
    if FIGURES[column] == pl.String():
        return value
    most = MOST_PERCENT if column.endswith("_percent") else MOST
    known = value.is_between(0, most)
    return pl.when(known & (value > 0) if column == "ns" or column.startswith("peak_") else known).then(value)


def _metric(held: Sequence[str], name: str) -> pl.Expr:
    return pl.col(name) if name in held else pl.lit(None, _NUMBER)


def _thread_operations(held: Sequence[str], letter: str) -> pl.Expr:
    """Return operations of threads of one type: additions, multiplications and two for each fused multiply-add."""
    cycles = _metric(held, _SMSP_CLOCK) * _metric(held, _NS) / 1e9
    counts = []
    for name, weight in (("add", 1), ("mul", 1), ("fma", 2)):
        metric = _INSTRUCTIONS.format(letter + name)
        counted = pl.coalesce(_metric(held, metric), _metric(held, f"{metric}.per_cycle_elapsed") * cycles)
        counts.append(weight * counted)
    return reduce(add, counts)


def _tensor(held: Sequence[str]) -> dict[str, pl.Expr]:
    """Return operations of tensor cores and their peak.

    For each type of inputs the metric of all instructions counts, else the sum of those of single instructions. The
    peak is that of dense inputs: the mean of the types that the kernel used, weighted by the time that each takes at
    its own peak (null if one is not known); for a kernel that used none the highest of 16-bit types.
    """
    operations: dict[str, dict[bool, list[str]]] = {}
    peaks: dict[str, dict[bool, list[str]]] = {}
    for name in held:
        if (found := _TENSOR.fullmatch(name)) is None or (found["peak"] and found["sparse"]):
            continue
        of = peaks if found["peak"] else operations
        of.setdefault(found["type"], {}).setdefault(found["op"] is not None, []).append(name)
    done = {kind: _sum(by.get(False) or by[True]) for kind, by in sorted(operations.items())}
    most = {kind: pl.max_horizontal(by.get(True) or by[False]) for kind, by in sorted(peaks.items())}
    nothing = pl.lit(None, _NUMBER)
    if not done:
        return {"flop_tensor": nothing, "peak_tensor": nothing}
    total = _sum(list(done.values()))
    # Null if the peak of a type that the kernel used is not known.
    parts = [pl.when(own > 0).then(own / most.get(kind, nothing)).otherwise(0.0) for kind, own in done.items()]
    cycles = reduce(add, parts)
    of_16_bits = pl.max_horizontal([most[k] for k in ("bf16", "fp16") if k in most] or [nothing])
    peak = pl.when(total > 0).then(total / cycles).otherwise(of_16_bits)
    return {"flop_tensor": total, "peak_tensor": peak * _metric(held, _SM_CLOCK)}


def _sum(columns: Sequence[str] | Sequence[pl.Expr]) -> pl.Expr:
    return pl.sum_horizontal(columns)


def _main_stall(held: Sequence[str]) -> pl.Expr:
    """Return the reason for which the most warps waited, such as `long_scoreboard`."""
    reasons = sorted((found[1], name) for name in held if (found := _STALL.fullmatch(name)))
    if not reasons:
        return pl.lit(None, pl.String)
    names = pl.Series([reason for reason, _ in reasons])
    ratios = pl.concat_list([pl.col(name).fill_null(-1) for _, name in reasons])
    at = ratios.list.arg_max()
    waited = ratios.list.max() > 0
    return pl.when(waited).then(pl.lit(names).implode().list.get(at))
