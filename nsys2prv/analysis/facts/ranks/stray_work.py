"""Work of ranks on the GPUs of other ranks, as where each process makes tensors on `cuda:0`."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.ranks.chief_cause import ChiefCause
from nsys2prv.analysis.facts.thresholds import STRAY, STRAY_KERNELS
from nsys2prv.analysis.frames import BETWEEN_DEVICES, KERNEL
from nsys2prv.analysis.graph.critical_path import COPYING
from nsys2prv.analysis.interval_frames import cut_with_ns

OWN_DEVICE = Words(
    general="Choose the GPU of each process before anything else (cudaSetDevice(local rank), or CUDA_VISIBLE_DEVICES), "
    "and keep its buffers there.",
    pytorch="Choose the GPU of each process before anything else (torch.cuda.set_device(local_rank), or "
    "CUDA_VISIBLE_DEVICES); make tensors on device='cuda', not 'cuda:0', and load checkpoints with map_location.",
    jax="Give each process its GPU (CUDA_VISIBLE_DEVICES, or local_device_ids of jax.distributed.initialize).",
    cupy="Choose the GPU of each process before anything else (cupy.cuda.Device(local_rank).use(), or "
    "CUDA_VISIBLE_DEVICES), and keep arrays there.",
)


class StrayWork(NamedTuple):
    """Work of ranks on a GPU that is another rank's. `device`: its index in Run.devices; `ranks`: those that stray.

    `owner`: the rank that works there most; `kernels`: of all `ranks` in an iteration; `path_ns`: what the critical
    path takes to get through that work and through copies between GPUs (ns of an iteration); `at`: when the first of it
    begins (ns).
    """

    device: int
    ranks: tuple[int, ...]
    owner: int
    kernels: float
    path_ns: float
    at: int


@once
def stray_work(case: Case) -> StrayWork | None:
    """Return the stray work on the GPU that has the most of it, in kernels; None without any.

    A rank is at home on the GPU on which it works longest. It strays where it launches a kernel an iteration or more on
    a GPU on which another rank is at home, and works there for a small part of the time of its home. In a window
    without iterations it launches a share of its kernels there: set-up may launch some.
    """
    work = cut_with_ns(case.run.work, case.analysis.window.spans)
    kernels = (pl.col("kind") == KERNEL).sum()
    used = work.group_by("task", "device").agg(pl.col("ns").sum(), kernels=kernels, at=pl.col("start").min())
    used = used.sort("task", "ns", "device", descending=[False, True, False])
    homes = used.group_by("task", maintain_order=True).first()
    owners = homes.sort("ns", "task", descending=[True, False]).unique("device", keep="first", maintain_order=True)
    away = used.join(homes.select("task", home="device", home_ns="ns", home_kernels="kernels"), on="task")
    away = away.join(owners.select("device", owner="task"), on="device")
    strays = away.filter(
        pl.col("device") != pl.col("home"),
        pl.col("kernels") >= (case.step_count if case.iterations else STRAY_KERNELS.value * pl.col("home_kernels")),
        pl.col("ns") < STRAY.value * pl.col("home_ns"),
    )
    if strays.is_empty():
        return None
    of_device = (
        strays.group_by("device").agg(pl.col("kernels").sum()).sort("kernels", "device", descending=[True, False])
    )
    here = strays.filter(device=of_device["device"][0]).sort("task")
    ranks = [case.run.tasks[task].rank for task in here["task"]]
    return StrayWork(
        device=here["device"][0],
        ranks=tuple(sorted(ranks)),
        owner=case.run.tasks[here["owner"][0]].rank,
        kernels=int(here["kernels"].sum()) / case.step_count,
        path_ns=_on_path(case, here),
        at=here["at"].min(),  # type: ignore[arg-type]
    )


def advice_on_peer_copies(case: Case, rank: int, cause: ChiefCause | None) -> str:
    """Return what to do about a rank that is late as it copies between GPUs; else ""."""
    if cause is None or cause.kind != COPYING or cause.name != BETWEEN_DEVICES:
        return ""
    if (stray := stray_work(case)) and rank in stray.ranks:
        return (
            f"Rank {rank} works on GPU {case.run.devices[stray.device].gpu}, too: see the finding on its kernels there."
        )
    return (
        f"See why rank {rank} copies between GPUs, and others do not: its data lies on the GPU of another rank. "
        f"{OWN_DEVICE.of(case.framework)}"
    )


def _on_path(case: Case, strays: pl.DataFrame) -> float:
    """Return how long (ns of an iteration) the critical path leads to work of `strays` (task, device) and their copies.

    Of their copies those between GPUs count, on whichever GPU they run. The time before a piece of work counts, too, as
    processes take turns on a GPU: the work waits for the kernels of the rank that is at home there.
    """
    path = case.analysis.explanation.path.filter(pl.col("task").is_in(strays["task"].implode()))
    copying = (pl.col("kind") == COPYING) & (pl.col("name") == BETWEEN_DEVICES)
    rows = _stray(case, strays).filter("stray")["row"].unique()
    known = _copies_of(case, strays)
    copies = path.filter(copying).sort("start").join_asof(known, on="start", by="row", check_sortedness=False)
    own = pl.concat(
        [
            path.filter(~copying, pl.col("row").is_in(rows.implode())).select("start", "end"),
            copies.filter(pl.col("start") < pl.col("until"), "own").select("start", "end"),
        ]
    )
    return float((own["end"] - own["start"]).sum()) / case.step_count


def _stray(case: Case, strays: pl.DataFrame) -> pl.DataFrame:
    """Return the work of the tasks of `strays` with `copy` (between GPUs), and `stray`: other work on their devices."""
    there = strays.select("task", "device", stray=pl.lit(True))
    own = case.run.work.filter(pl.col("task").is_in(strays["task"].implode())).join(
        there, on=["task", "device"], how="left", maintain_order="left"
    )
    copy = pl.col("name") == BETWEEN_DEVICES
    return own.with_columns(copy=copy, stray=pl.col("stray").fill_null(False) & ~copy)


def _copies_of(case: Case, strays: pl.DataFrame) -> pl.DataFrame:
    """Return row, start, until and `own` of copies between GPUs: True of those that belong to stray work.

    A thread launches them next to it, as a tensor that is made on `cuda:0` and moved; programs that exchange data by
    such copies launch these between kernels of their own GPU.
    """
    together = pl.col("copy") | pl.col("stray")
    launched = _stray(case, strays).sort("caller_row", "launched", "start")
    beside = launched.with_columns(part=pl.struct("caller_row", together.alias("together")).rle_id())
    own = pl.col("stray").any().over("part")
    return beside.with_columns(own=own).filter("copy").select("row", "start", "own", until="end").sort("start")
