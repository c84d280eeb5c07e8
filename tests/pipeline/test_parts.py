"""A report that several processes extract, a part of its families each, gives the trace of the whole, byte for byte."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from exports import in_parquet
from runs import ALL_RUNS, reports_of

import nsys2prv
from nsys2prv.commands import extraction, translate
from nsys2prv.commands.translation import Used
from nsys2prv.families.family import Family
from nsys2prv.families.registry import FAMILIES
from nsys2prv.model.event_types import EVENT_TYPES
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.pipeline.extract import parts
from nsys2prv.pipeline.extract.parts import divided
from nsys2prv.pipeline.workers.input_size import input_size
from nsys2prv.run.report_summary import Summary
from nsys2prv.run.run_options import RunOptions

NCU = Path(__file__).parents[1] / "data" / "ncu"
EVERYTHING = nsys2prv.Selection(tuple(f.name for f in FAMILIES))
Made = tuple[list[bytes], nsys2prv.Translation]


def made(reports: list[Path], stem: Path, jobs: int = 1, limits: Limits = DEFAULT_LIMITS, **how: object) -> Made:
    """The files, and what was said that depends on the reports alone."""
    execution = nsys2prv.Execution(jobs=jobs, limits=limits)
    told = nsys2prv.translate(reports, stem, execution=execution, **how)  # type: ignore[arg-type]
    files = [stem.with_name(stem.name + ending).read_bytes() for ending in (".prv", ".pcf", ".row", ".align.json")]
    return files, told._replace(prv=None, seconds={}, used=Used(0, 0))


@pytest.fixture
def all_parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As many parts as possible from now on, of all reports; how many there were of each."""
    counts: list[int] = []

    def dividing(paths: list[Path], families: list[str], jobs: int, limits: Limits) -> dict[Path, list[list[str]]]:
        found = divided(paths, families, 10**9, replace(limits, least_part=-1))
        counts.extend(map(len, found.values()))
        return found

    monkeypatch.setattr(translate, "divided", dividing)
    return counts


@pytest.mark.parametrize("run", ALL_RUNS)
@pytest.mark.parametrize("everything", [False, True], ids=["default", "everything"])
def test_parts_equal_whole(run: str, everything: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    how = {"selection": EVERYTHING, "options": RunOptions(every_thread=True)} if everything else {}
    reports = reports_of(run)[:2]
    whole = made(reports, tmp_path / "whole", **how)
    counts = request.getfixturevalue("all_parts")
    assert made(reports, tmp_path / "parts", **how) == whole
    assert min(counts) > 5


@pytest.mark.parametrize("nvtx", [None, "step 4"])
def test_parts_have_the_figures_of_nsight_compute(
    nvtx: str | None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    files = (nsys2prv.ProfileFile(NCU / "steps.csv"),)
    how = {"selection": nsys2prv.Selection(nvtx=nvtx), "options": RunOptions(ncu=files)}
    whole = made([NCU / "gpt.sqlite"], tmp_path / "whole", **how)
    counts = request.getfixturevalue("all_parts")
    assert made([NCU / "gpt.sqlite"], tmp_path / "parts", **how) == whole
    assert min(counts) > 5
    assert whole[1].rows["ncu"] > 100
    small = Limits(slice_bytes=20_000, whole_bytes=0, piece_bytes=10_000)
    assert made([NCU / "gpt.sqlite"], tmp_path / "sliced", limits=small, **how)[0] == whole[0]


@pytest.mark.parametrize(
    "chosen",
    [
        nsys2prv.Selection(time=(40_000_000, 200_000_000)),
        nsys2prv.Selection(nvtx="backward"),
        nsys2prv.Selection(("osrt", "gpu_metrics", "nvtx")),
        nsys2prv.Selection(("cuda_api",)),
    ],
    ids=["time", "range", "few families", "one family"],
)
def test_parts_equal_whole_of_a_selection(
    chosen: nsys2prv.Selection, gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole = made(gpt_ddp[:2], tmp_path / "whole", selection=chosen)
    request.getfixturevalue("all_parts")
    assert made(gpt_ddp[:2], tmp_path / "parts", selection=chosen) == whole


def test_lines_begin_on_threads_that_another_part_draws(
    gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    how = {
        "selection": nsys2prv.Selection(("kernels", "correlation", "osrt")),
        "options": RunOptions(every_thread=True),
    }
    whole = made(gpt_ddp[:1], tmp_path / "whole", **how)
    assert whole[1].rows["correlation"] > 0
    request.getfixturevalue("all_parts")
    assert made(gpt_ddp[:1], tmp_path / "parts", **how) == whole


def test_sliced_parts_equal_whole(gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    whole = made(gpt_ddp[:2], tmp_path / "whole")
    request.getfixturevalue("all_parts")
    limits = Limits(slice_bytes=300_000, whole_bytes=0, piece_bytes=100_000)
    assert made(gpt_ddp[:2], tmp_path / "parts", limits=limits) == whole


def test_parts_equal_whole_of_a_report_given_twice(
    gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    twice = shutil.copy(gpt_ddp[0], tmp_path / "again.sqlite")
    whole = made([*gpt_ddp[:2], twice], tmp_path / "whole")
    request.getfixturevalue("all_parts")
    assert made([*gpt_ddp[:2], twice], tmp_path / "parts") == whole


def test_rows_that_are_left_out_are_counted_once(
    gpt_ddp: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    damaged = shutil.copy(gpt_ddp[0], tmp_path / "damaged.sqlite")
    with sqlite3.connect(damaged) as db:
        for table, condition in (("CUPTI_ACTIVITY_KIND_RUNTIME", "rowid % 50 = 0"), ("OSRT_API", "rowid % 30 = 0")):
            db.execute(f"UPDATE {table} SET start = 1 << 62 WHERE {condition}")
        # Calls and kernels without a name are left out by those, too, who would not read it.
        for table, name in (("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"), ("CUPTI_ACTIVITY_KIND_KERNEL", "shortName")):
            db.execute(f"CREATE TABLE copy AS SELECT * FROM {table}")
            db.execute(f"UPDATE copy SET {name} = NULL WHERE rowid % 40 = 3")
            db.execute(f"DROP TABLE {table}")
            db.execute(f"ALTER TABLE copy RENAME TO {table}")
        # Ranges that are still open are closed at the last event of all tables.
        db.execute("UPDATE NVTX_EVENTS SET end = NULL WHERE rowid % 9 = 0 AND eventType = 59")
        db.execute("UPDATE OSRT_API SET end = end + 5000000000 WHERE rowid % 40 = 1")
    whole = made([damaged], tmp_path / "whole")
    assert whole[1].dropped
    request.getfixturevalue("all_parts")
    assert made([damaged], tmp_path / "parts") == whole


def test_workers_take_parts_of_a_report_that_is_more_than_their_share(
    gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = made([gpt_ddp[0]], tmp_path / "whole")
    tasks: list[int] = []
    whole_of = parts.summary_of_parts

    def counting(found: list[Summary]) -> Summary:
        tasks.append(len(found))
        return whole_of(found)

    monkeypatch.setattr(extraction, "summary_of_parts", counting)
    assert made([gpt_ddp[0]], tmp_path / "parts", jobs=2, limits=Limits(process_bytes=1_000_000)) == whole
    assert tasks[0] > 1


def test_a_report_is_as_much_work_in_parquet_as_in_sqlite(gpt_ddp: list[Path], tmp_path: Path) -> None:
    assert 1 / 3 < input_size([in_parquet(gpt_ddp[0], tmp_path)]) / input_size([gpt_ddp[0]]) < 3


def test_only_what_is_more_than_a_share_is_divided(gpt_ddp: list[Path]) -> None:
    default = nsys2prv.Selection().families
    alone = divided(gpt_ddp[:1], default, 2, DEFAULT_LIMITS)[gpt_ddp[0]]
    assert len(alone) > 1
    assert sorted(name for part in alone for name in part) == sorted(default)
    assert "kernels" in alone[0]
    assert divided(gpt_ddp[:1], default, 4, DEFAULT_LIMITS)[gpt_ddp[0]] == alone
    many = divided(gpt_ddp[:1], default, 64, DEFAULT_LIMITS)[gpt_ddp[0]]
    assert len(many) > len(alone)
    assert sorted(name for part in many for name in part) == sorted(default)
    assert list(map(len, divided(gpt_ddp[:1], default, 1, DEFAULT_LIMITS).values())) == [1]
    assert set(map(len, divided([gpt_ddp[0]] * 2, default, 2, DEFAULT_LIMITS).values())) == {1}


@pytest.mark.parametrize("apart", [parts._apart, parts._naming_alike])
def test_families_of_two_parts_name_nothing_alike(apart: Callable[[Sequence[Family]], list[list[Family]]]) -> None:
    groups = apart(FAMILIES)
    assert len(groups) > 5
    emitted = [{t.key for f in group for t in f.emits} for group in groups]
    labelled = [{k for k in keys if k not in EVENT_TYPES or EVENT_TYPES[k].labelled} for keys in emitted]
    assert sum(map(len, labelled)) == len(set().union(*labelled))


def test_a_report_that_cannot_be_read_is_told_of_when_it_is(tmp_path: Path) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"SQLite format 3\0" + bytes(5000))
    assert divided([broken], ["kernels", "osrt"], 4, DEFAULT_LIMITS) == {broken: [["kernels", "osrt"]]}
