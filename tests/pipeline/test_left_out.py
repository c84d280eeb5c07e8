"""Rows that are left out of tables are told, and counted once, however the report is read."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from exports import MAIN, export

import nsys2prv
from nsys2prv.families.registry import FAMILIES
from nsys2prv.intervals.reduction_options import Reduction
from nsys2prv.model.limits import Limits

# Rows of each table that lose their time, and the family that tells it: the one that draws nothing else.
TABLES = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "cuda_api",
    "CUPTI_ACTIVITY_KIND_KERNEL": "kernels",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "memory",
    "NVTX_EVENTS": "nvtx",
    "OSRT_API": "osrt",
}
EVERY = 50
EVERYTHING = nsys2prv.Selection(tuple(f.name for f in FAMILIES))


@pytest.fixture
def damaged(gpt_ddp: list[Path], tmp_path: Path) -> tuple[Path, dict[str, int]]:
    """A report, and how many of its rows are without a time, by family."""
    path = Path(shutil.copy(gpt_ddp[0], tmp_path / "damaged.sqlite"))
    lost: dict[str, int] = {}
    with closing(sqlite3.connect(path)) as db, db:
        for table, family in TABLES.items():
            changed = db.execute(f"UPDATE {table} SET start = 1 << 62 WHERE rowid % {EVERY} = 0").rowcount
            lost[family] = lost.get(family, 0) + changed
    return path, lost


def without_a_time(told: nsys2prv.Translation) -> Mapping[str, int]:
    return {family: why["without a time"] for family, why in told.dropped.items() if "without a time" in why}


@pytest.mark.parametrize("chosen", [nsys2prv.Selection(), EVERYTHING], ids=["default", "everything"])
@pytest.mark.parametrize("sliced", [False, True], ids=["whole", "in slices"])
@pytest.mark.parametrize("others", [0, 1], ids=["alone", "with another report"])
def test_rows_without_a_time_are_counted_once(
    chosen: nsys2prv.Selection,
    sliced: bool,
    others: int,
    damaged: tuple[Path, dict[str, int]],
    gpt_ddp: list[Path],
    tmp_path: Path,
) -> None:
    """Beside another report its clock is looked for first, in the same tables."""
    report, lost = damaged
    limits = Limits(slice_bytes=300_000, whole_bytes=0, piece_bytes=100_000) if sliced else Limits()
    reports = [report, *gpt_ddp[1 : 1 + others]]
    told = nsys2prv.translate(
        reports, tmp_path / "trace", selection=chosen, execution=nsys2prv.Execution(limits=limits)
    )
    assert min(lost.values()) > 0
    assert without_a_time(told) == lost


def test_rows_without_a_time_are_told_where_a_range_is_chosen(
    damaged: tuple[Path, dict[str, int]], tmp_path: Path
) -> None:
    report, lost = damaged
    told = nsys2prv.translate(report, tmp_path / "trace", selection=nsys2prv.Selection(nvtx="backward"))
    assert without_a_time(told) == lost


def test_where_it_is_not_chosen_whoever_reads_the_table_tells_them(
    damaged: tuple[Path, dict[str, int]], tmp_path: Path
) -> None:
    report, lost = damaged
    told = nsys2prv.translate(report, tmp_path / "trace", selection=nsys2prv.Selection(("nccl",)))
    assert without_a_time(told) == {"nccl": sum(lost.values()) - lost["osrt"]}


def test_what_is_still_open_is_told_by_the_family_that_draws_it(tmp_path: Path) -> None:
    rows = [(0, None, 75, "NCCL", 1), (10, None, 59, "ncclGroupEnd", 1), (11, None, 59, "a", 0), (12, None, 59, "b", 0)]
    report = export(
        tmp_path / "open.sqlite",
        NVTX_EVENTS=("start end eventType globalTid text domainId", [(*r[:3], MAIN, *r[3:]) for r in rows]),
    )
    told = nsys2prv.translate(report, tmp_path / "trace", selection=nsys2prv.Selection(("nccl", "nvtx"))).dropped
    reason = "still open at the end (drawn to the last event)"
    assert {family: why.get(reason) for family, why in told.items()} == {"nccl": 1, "nvtx": 2}


def test_they_are_told_in_alphabetical_order(gpt_ddp: list[Path], tmp_path: Path) -> None:
    """Which was met first depends on how the report is read."""
    chosen = nsys2prv.Selection(
        EVERYTHING.families, time=(40_000_000, 200_000_000), reduction=Reduction(1000, 1_000_000)
    )
    told = nsys2prv.translate(
        gpt_ddp[:2], tmp_path / "out", selection=chosen, execution=nsys2prv.Execution(jobs=1)
    ).dropped
    assert max(map(len, told.values())) > 1
    assert [list(told), *map(list, told.values())] == [sorted(told), *map(sorted, told.values())]


def test_what_other_ranks_have_is_told_as_that(mpi_halo: list[Path], tmp_path: Path) -> None:
    """Not as what a thread without a row has, which --threads all would draw."""
    chosen = nsys2prv.Selection(("mpi", "cuda_api", "kernels"))
    whole, some, other = (
        nsys2prv.translate(
            mpi_halo,
            tmp_path / str(ranks),
            options=nsys2prv.RunOptions(align="utc", ranks=frozenset(ranks) or None),
            selection=chosen,
        )
        for ranks in ((), (0, 3), (1, 2))
    )
    of_other_ranks = "of other ranks than --ranks chooses"
    assert {f: why[of_other_ranks] for f, why in some.dropped.items() if of_other_ranks in why} == dict(other.rows)
    assert {f: n - some.rows[f] for f, n in whole.rows.items()} == dict(other.rows)


@pytest.mark.parametrize("bytes_each", [None, 1_000, 300], ids=["whole", "some slices", "many slices"])
def test_rows_that_every_slice_reads_are_counted_once(bytes_each: int | None, tmp_path: Path) -> None:
    """Names of metrics and of domains, and a table that no slice can read since it lacks a column."""
    calls = [(n, n + 1, MAIN, "cudaFree") for n in range(100)]
    report = export(
        tmp_path / "r.sqlite",
        lacking={"OSRT_API": "nameId"},
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId", calls),
        OSRT_API=("start end globalTid", [(5, 6, MAIN), (7, 8, MAIN)]),
        GPU_METRICS=("timestamp typeId metricId value", [(n, 1, 3, n) for n in range(100)]),
        TARGET_INFO_GPU_METRICS=("typeId metricId metricName", [(1, 3, "a"), (1, None, "b")]),
        NVTX_EVENTS=(
            "start end eventType globalTid text domainId",
            [(None, None, 75, MAIN, "named", 4), (None, None, 59, MAIN, "range", 4), (50, 60, 59, MAIN, "range", 4)],
        ),
    )
    limits = Limits() if bytes_each is None else Limits(slice_bytes=bytes_each, whole_bytes=0)
    execution = nsys2prv.Execution(jobs=1, limits=limits)
    told = nsys2prv.translate(report, tmp_path / "trace", selection=EVERYTHING, execution=execution).dropped
    assert {family: list(why.values()) for family, why in told.items()} == {
        "osrt": [2],
        "gpu_metrics": [1],
        "nvtx": [2],
    }
