"""The window of a trace without ranges that number iterations: from one launch of repeating work to the next."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from bisect import bisect_right
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from runs import SAMPLES, reports_of

import nsys2prv
from nsys2prv.errors import OutputError
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.extract.extract import extract
from nsys2prv.pipeline.extract.report_part import ReportPart, Storage
from nsys2prv.pipeline.report_repeats import store_repeating

REPORTS = sorted((SAMPLES / "gpt-ddp").glob("*.sqlite"))
KERNEL, WINDOW = 63000006, 70000000


def without_ranges(reports: list[Path], folder: Path, *others: str) -> list[Path]:
    """Copies of reports without NVTX events, and without other tables."""
    copies = [Path(shutil.copy(report, folder / report.name)) for report in reports]
    for copy in copies:
        with closing(sqlite3.connect(copy)) as database:
            for table in ("NVTX_EVENTS", *others):
                database.execute(f"DROP TABLE {table}")
            database.commit()
    return copies


def window_of(reports: list[Path], trace: Path, **given: Any) -> list[tuple[int, int]]:
    made = nsys2prv.translate(reports, trace, **given)
    assert made.prv is not None
    marked = nsys2prv.read_prv(made.prv).intervals(WINDOW).filter(pl.col("value") == 1)
    return marked.select("start", "end").unique().sort("start").rows()


by_execution = pytest.mark.parametrize(
    "execution",
    [
        nsys2prv.Execution(jobs=1),
        nsys2prv.Execution(jobs=2),
        nsys2prv.Execution(jobs=1, limits=Limits(slice_bytes=300_000, whole_bytes=0, piece_bytes=100_000)),
    ],
    ids=["one process", "two workers", "slices"],
)


@by_execution
def test_the_window_is_that_of_the_analysis(execution: nsys2prv.Execution, tmp_path: Path) -> None:
    reports = without_ranges(REPORTS, tmp_path)
    found = nsys2prv.analyze(reports).as_json()
    assert found["iterations"]["found_by"] == "multi_tensor_apply_kernel"
    assert len(found["window"]["iterations"]) >= 2
    assert window_of(reports, tmp_path / "trace", execution=execution) == [*map(tuple, found["window"]["spans"])]


@by_execution
@pytest.mark.parametrize("run", ["late-in-turns", "interpreter-lock"])
def test_the_window_by_the_order_of_launches_is_that_of_the_analysis(
    run: str, execution: nsys2prv.Execution, tmp_path: Path
) -> None:
    """One rank pauses for a while now and then, so that nothing comes at regular times."""
    reports = reports_of(run)
    found = nsys2prv.analyze(reports).as_json()
    assert len(found["window"]["iterations"]) >= 13
    assert window_of(reports, tmp_path / "trace", execution=execution) == [*map(tuple, found["window"]["spans"])]


@by_execution
def test_the_window_by_calls_of_mpi_is_that_of_the_analysis(execution: nsys2prv.Execution, tmp_path: Path) -> None:
    """Without kernels that repeat all the time from one call to the next counts."""
    reports = without_ranges(sorted((SAMPLES / "mpi-halo").glob("*.sqlite")), tmp_path, "CUPTI_ACTIVITY_KIND_KERNEL")
    found = nsys2prv.analyze(reports).as_json()
    assert found["iterations"]["found_by"] == "MPI_Allreduce"
    assert len(found["window"]["iterations"]) >= 10
    assert window_of(reports, tmp_path / "trace", execution=execution) == [*map(tuple, found["window"]["spans"])]


def test_the_window_goes_from_the_first_optimizer_kernel_to_the_last_one(tmp_path: Path) -> None:
    """By plain SQL, with the ranges that the copy lacks: the work between the first launches in `optimizer`."""
    with closing(sqlite3.connect(REPORTS[0])) as database:
        steps = database.execute(
            'SELECT start, "end" FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId'
            " WHERE coalesce(text, value) = 'optimizer' AND eventType = 59 ORDER BY start"
        ).fetchall()
        named = "(SELECT value FROM StringIds WHERE id = demangledName)"
        tables = (("KERNEL", named), ("MEMCPY", "''"), ("MEMSET", "''"))
        work = database.execute(
            " UNION ALL ".join(
                f'SELECT w.start, w."end", c.start, {name} FROM CUPTI_ACTIVITY_KIND_{table} w'
                " JOIN CUPTI_ACTIVITY_KIND_RUNTIME c USING (correlationId)"
                for table, name in tables
            )
        ).fetchall()
    of_optimizer = sorted(called for _, _, called, name in work if "FusedOptimizer" in name)
    milestones = [of_optimizer[bisect_right(of_optimizer, start)] for start, _ in steps]
    parts = [
        [(start, end) for start, end, called, _ in work if low <= called < high]
        for low, high in itertools.pairwise(milestones)
    ]
    expected = [(min(start for start, _ in part), max(end for _, end in part)) for part in parts]
    first_kernel = min(start for start, _, _, name in work if name and not name.startswith("nccl"))
    found = window_of(without_ranges(REPORTS[:1], tmp_path), tmp_path / "trace")
    kernels = nsys2prv.read_prv(tmp_path / "trace.prv").intervals(KERNEL)
    begin = int(kernels["start"].min()) - first_kernel  # type: ignore[arg-type]
    assert len(found) > 1
    assert found == [(start + begin, end + begin) for start, end in expected]


def test_without_launches_the_window_is_the_time_in_which_all_ranks_recorded(tmp_path: Path) -> None:
    reports = without_ranges(REPORTS, tmp_path)
    with_lines, without = (
        window_of(reports, tmp_path / name, selection=nsys2prv.Selection(families))
        for name, families in (("with", ("kernels", "correlation")), ("without", ("kernels",)))
    )
    assert len(with_lines) == len(without) == 1
    assert with_lines[0][1] - with_lines[0][0] < without[0][1] - without[0][0]


def test_steps_of_a_lost_worker_spoil_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Dask worker that is given up for lost may still write when another one has written the file."""
    whole = ReportPart(REPORTS[0], ("cuda_api", "kernels", "correlation"), Storage("00000", tmp_path))
    summary = extract(whole)
    stored = store_repeating(tmp_path, (0, summary))
    assert stored.path is not None
    whole = stored.path.read_bytes()
    begun: list[Path] = []

    def write_a_part(steps: pl.DataFrame, path: Path) -> None:
        begun.append(path)
        path.write_bytes(b"ARROW1")
        raise OSError("killed")

    monkeypatch.setattr(pl.DataFrame, "write_ipc", write_a_part)
    with pytest.raises(OutputError, match="cannot write intermediate files"):
        store_repeating(tmp_path, (0, summary))
    assert len(begun) == 1
    assert stored.path.read_bytes() == whole
