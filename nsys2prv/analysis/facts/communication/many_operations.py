"""Many short NCCL operations in a row: their launches cost more than what they send."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.common_advice import CommonAdvice, parts_on
from nsys2prv.analysis.facts.communication.nccl_transfers import nccl_transfers
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import IN_ONE_ROW, MANY_OPERATIONS, SHORT_KERNEL

MERGE = Words(
    general="one buffer, ncclGroupStart",
    pytorch="one buffer, larger bucket_cap_mb, torch.distributed._coalescing_manager",
    jax="one array, XLA_FLAGS=--xla_gpu_all_reduce_combine_threshold_bytes=...",
)
# In place of MERGE for exchanges, which no library merges by itself.
MERGE_EXCHANGES = Words(
    general="one buffer, ncclGroupStart",
    pytorch="one all_to_all_single for all, batch_isend_irecv",
    jax="one array for one all_to_all",
)
# Where parameters are sharded: those of one part of a model are gathered before it computes, and its gradients reduced.
LARGER_PARTS = Words(
    general="gather the parameters of larger parts of the model at once",
    pytorch="wrap larger ones, as a whole block of a transformer (fully_shard, auto_wrap_policy)",
    jax="gather the parameters of larger parts at once, as of a whole layer "
    "(XLA_FLAGS=--xla_gpu_all_gather_combine_threshold_bytes=...)",
)
_SHARDING = ("AllGather", "ReduceScatter")
_EXCHANGES = ("AlltoAll", "Send", "Recv", "Send and Recv")


def advice_on_operations(case: Case, rank: int | None = None) -> str:
    """Return advice on short NCCL kernels if a rank (None: any) launches many, else an empty text."""
    return _in_rows(case, rank) or _of_small_parts(case, rank)


def _in_rows(case: Case, rank: int | None) -> str:
    """Return advice on short NCCL kernels if a rank (None: any) launches many in rows; else an empty text.

    In a row, a kernel follows another one of its operation, and hardly anything computes between, as where gradients
    or parameters are sent one by one. Casts and copies, which pack what is sent, do not count as compute. Without
    iterations the text is empty. Transfers count, not waiting for others.
    """
    operations, launches = _of_rank(case, rank)
    alike = pl.col("operation").eq(pl.col("operation").shift(1).over("device"))
    computed = pl.col("between_ns") - pl.col("packing_ns")
    operations = operations.with_columns(follows=alike & (computed <= IN_ONE_ROW.value * pl.col("transfer_ns")))
    # The first one of a row is in it, too.
    followed = pl.col("follows").shift(-1).over("device")
    rows = operations.filter((pl.col("follows") | followed).fill_null(False))
    each = _median(rows["transfer_ns"])
    in_rows, count = (n / launches for n in (rows.height, operations.height))
    if in_rows < MANY_OPERATIONS.value or each >= SHORT_KERNEL.value:
        return ""
    merge = MERGE_EXCHANGES if rows["operation"].cast(pl.String).is_in(_EXCHANGES).all() else MERGE
    in_a_row = "all" if round(in_rows) == round(count) else f"{in_rows:.0f}"
    return (
        f"A rank launches {count:.0f} NCCL kernels an iteration, {in_a_row} of them one after another "
        f"({each / 1000:.0f} us each): merge what they send into fewer, larger messages ({merge.of(case.framework)})"
        f"{_packed_at_once(rows)}."
    )


def _of_small_parts(case: Case, rank: int | None) -> str:
    """Return advice on all-gathers and reduce-scatters if a rank (None: any) launches many short ones; else ""."""
    operations, launches = _of_rank(case, rank)
    own = operations.filter(pl.col("operation").cast(pl.String).is_in(_SHARDING))
    count, each = own.height / launches, _median(own["transfer_ns"])
    if own["operation"].n_unique() < len(_SHARDING) or count < MANY_OPERATIONS.value or each >= SHORT_KERNEL.value:
        return ""
    return (
        f"A rank launches {count:.0f} all-gathers and reduce-scatters an iteration ({each / 1000:.0f} us each "
        "without waiting), as where each small part of a model is sharded by itself: "
        f"{LARGER_PARTS.of(case.framework)}."
    )


def _of_rank(case: Case, rank: int | None) -> tuple[pl.DataFrame, int]:
    """Return NCCL_TRANSFER of a rank (None: all), none without iterations, and the iterations of all its ranks."""
    if not case.analysis.window.iterations:
        return nccl_transfers(case).clear(), 1
    own = pl.lit(True) if rank is None else pl.col("task").replace_strict(case.run.ranks, default=None) == rank
    operations = nccl_transfers(case).filter(own)
    return operations, max(operations["task"].n_unique(), 1) * case.step_count


def _packed_at_once(rows: pl.DataFrame) -> str:
    """Return advice where kernels pack or unpack what most NCCL kernels of some rows (NCCL_TRANSFER) send; else ""."""
    packed = int((rows["packing_ns"] > 0).sum())
    return ", and pack all of it at once, as each has a copy of its own now" if 2 * packed > rows.height else ""


def common_operations(case: Case, advice: str, rank: int | None = None) -> tuple[CommonAdvice, ...]:
    """Return what an advice has of advice_on_operations, which a late rank and launches share."""
    return (
        *parts_on("operations", _in_rows(case, rank), "Merge NCCL kernels, as said above.", advice),
        *parts_on(
            "small-parts",
            _of_small_parts(case, rank),
            "Gather larger parts of the model at once, as said above.",
            advice,
        ),
    )


def _median(ns: pl.Series) -> float:
    """Return the median of times (ns), 0 of none."""
    return float(ns.median() or 0)  # type: ignore[arg-type]
