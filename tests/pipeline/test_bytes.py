"""The same reports give the same bytes, however the work is divided."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import construct
import drawn
import oracle
import polars as pl
import pytest
from exports import in_parquet
from polars.testing import assert_frame_equal
from runs import REPORTS, Runs, parameters, records, reports_of

import nsys2prv
from nsys2prv.families.columns_read import read_columns
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.source import Source
from nsys2prv.families.source_tables import SourceTables
from nsys2prv.model.event_types import EVENT_TYPES
from nsys2prv.model.frames import Intervals
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.pipeline.extract import extract
from nsys2prv.pipeline.workers.input_size import input_size
from nsys2prv.run import plan

# Event types that the oracle knows, by the keys under which families make them.
KEYS = {t.key for t in EVENT_TYPES.values() if t.number in drawn.KINDS}
ENDINGS = (".prv", ".pcf", ".row")


def bytes_of(stem: Path) -> list[bytes]:
    """The three files of a trace."""
    return [stem.with_name(stem.name + ending).read_bytes() for ending in ENDINGS]


def records_of(stem: Path) -> list[bytes]:
    """The same without the comments, which name the reports."""
    return [records(stem.with_name(stem.name + ".prv")), *bytes_of(stem)[1:]]


def made(reports: list[Path], stem: Path, jobs: int, limits: Limits = DEFAULT_LIMITS) -> list[bytes]:
    """Return the three files of a translation."""
    nsys2prv.translate(reports, stem, execution=nsys2prv.Execution(jobs=jobs, limits=limits))
    return bytes_of(stem)


def test_two_runs_and_any_order_of_the_inputs_give_the_same_bytes(gpt_ddp: list[Path], tmp_path: Path) -> None:
    first = made(gpt_ddp, tmp_path / "a", jobs=1)
    assert made(gpt_ddp[::-1], tmp_path / "b", jobs=1) == first


def test_two_workers_give_the_bytes_of_one(gpt_ddp: list[Path], tmp_path: Path) -> None:
    # Several windows, so that both workers encode some.
    limits = Limits(window_points=30_000)
    assert made(gpt_ddp, tmp_path / "a", jobs=2, limits=limits) == made(gpt_ddp, tmp_path / "b", jobs=1)


def test_two_workers_give_the_bytes_of_one_for_captures_of_one_process(mpi_halo: list[Path], tmp_path: Path) -> None:
    """The numbers of MPI's collectives go on from one capture to the next."""
    captures = construct.cut_in_two(mpi_halo, tmp_path / "captures")
    limits = Limits(window_points=1_000)
    assert made(captures, tmp_path / "a", jobs=2, limits=limits) == made(captures, tmp_path / "b", jobs=1)


def test_points_made_apart_are_the_same(gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cores in (1, 2):
        monkeypatch.setattr(extract.pl, "thread_pool_size", lambda cores=cores: cores)
        nsys2prv.translate(gpt_ddp, tmp_path / str(cores), execution=nsys2prv.Execution(jobs=1))
    assert bytes_of(tmp_path / "1") == bytes_of(tmp_path / "2")


def test_points_in_files_give_the_bytes_of_points_in_memory(gpt_ddp: list[Path], tmp_path: Path) -> None:
    in_memory = nsys2prv.translate(gpt_ddp, tmp_path / "a", execution=nsys2prv.Execution(jobs=1))
    on_disk = nsys2prv.Execution(jobs=1, limits=Limits(in_memory_bytes=0))
    in_files = nsys2prv.translate(gpt_ddp, tmp_path / "b", execution=on_disk)
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")
    assert in_memory.used.temporary < in_files.used.temporary


def test_points_of_parquet_stay_in_memory_where_those_of_as_much_sqlite_do(tmp_path: Path) -> None:
    report = in_parquet(reports_of("saxpy")[0], tmp_path)
    for more, held in ((1, True), (0, False)):
        limits = Limits(in_memory_bytes=input_size([report]) + more)
        took = nsys2prv.translate(report, tmp_path / str(more), execution=nsys2prv.Execution(jobs=1, limits=limits))
        assert (took.used.temporary == 0) == held


@pytest.mark.parametrize(
    ("run", "points", "windows"),
    [("saxpy", 1_000, 4), ("mpi-halo", 1_000, 6), ("gpt-ddp", 10_000, 15), ("gpt-ddp", 1_000_000, 1)],
)
def test_any_window_size_gives_the_same_bytes(
    run: str, points: int, windows: int, translations: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where batches of points begin tells where windows do.
    limits = Limits(window_points=points, in_memory_windows=1, batch_rows=97)
    borders: list[int] = []
    cut = plan.window_borders

    def counted(*given: Any, **how: Any) -> object:
        found = cut(*given, **how)
        borders.append(len(found))
        return found

    monkeypatch.setattr(plan, "window_borders", counted)
    default = translations.default(run)
    assert made(default.reports, tmp_path / "t", jobs=1, limits=limits) == bytes_of(default.prv.with_suffix(""))
    assert borders[-1] > windows


@pytest.mark.parametrize("run", parameters("gpt-ddp", "saxpy", "mpi-halo", "openmp", "mpi-cpu", "threads-cpu-sampling"))
def test_shuffled_rows_give_the_same_bytes(run: str, translations: Runs, tmp_path: Path) -> None:
    shuffled = construct.shuffled(reports_of(run), tmp_path / "shuffled", seed=7)
    assert made(shuffled, tmp_path / "t", jobs=1) == bytes_of(translations.default(run).prv.with_suffix(""))


@pytest.mark.parametrize("run", parameters("gpt-ddp", "mpi-halo"))
def test_times_that_the_export_made_utc_give_the_same_bytes(run: str, translations: Runs, tmp_path: Path) -> None:
    normalized = construct.normalized(reports_of(run), tmp_path / "normalized", extra_shift=1_234_567)
    assert made(normalized, tmp_path / "t", jobs=1) == bytes_of(translations.default(run).prv.with_suffix(""))


@pytest.mark.parametrize("run", parameters("gpt-ddp", "mpi-halo", "graph-graph", "threads-cpu-sampling"))
def test_reading_a_trace_back_gives_the_frames_that_were_written(run: str, translations: Runs) -> None:
    """Frames of every family as they came from the reports, against Trace.intervals: begin, end, label."""
    whole = translations.whole(run)
    wanted = []
    for report in whole.reports:
        with nsys2prv.open_report(report) as opened:
            source = Source(SourceTables(opened, read_columns(FAMILIES)))
            frames = [f for family in FAMILIES if family.default for f in family.frames(source, family.state())]
            labels = source.labels.texts()
            begin = (opened.identity.utc_epoch_ns or 0) - opened.identity.time_shift_ns
        for frame in (f for f in frames if isinstance(f, Intervals)):
            for (slot,), part in frame.data.partition_by("slot", as_dict=True).items():
                key = source.slots.keys[slot]
                if key not in KEYS and not key.startswith("nvtx:"):
                    continue
                texts = labels.get(key)
                label = (
                    part["value"].cast(pl.String)
                    if texts is None
                    else part["value"].replace_strict(dict(enumerate(texts, start=1)), return_dtype=pl.String)
                )
                wanted.append(part.select(pl.col("start", "end") + begin, label=label))
    types = [n for n in whole.trace.types if n in drawn.NVTX or n in drawn.KINDS]
    got = pl.concat(
        whole.trace.intervals(n).with_columns(
            label=pl.col("value").cast(pl.String) if n in (63000001, 70000004) else pl.col("label")
        )
        for n in types
    ).select("start", "end", "label")
    want = pl.concat(wanted)
    want = want.with_columns(pl.col("start", "end") - want["start"].min() + got["start"].min())
    cleaned = want.with_columns(
        label=pl.col("label").str.replace_all(r"[\x00-\x1f]+", " ").str.strip_chars().replace("", "(no text)")
    )
    assert_frame_equal(got.sort(got.columns), cleaned.sort(cleaned.columns))


@pytest.mark.parametrize("jobs", [1, 2])
def test_compressed_traces_are_the_same_bytes_and_hold_the_same_records(
    jobs: int, mpi_halo: list[Path], translations: Runs, tmp_path: Path
) -> None:
    limits = Limits(window_points=500, batch_rows=97)
    for name in ("a", "b"):
        nsys2prv.translate(
            mpi_halo,
            tmp_path / name,
            writing=nsys2prv.TraceOutput(compress=True),
            execution=nsys2prv.Execution(jobs=jobs, limits=limits),
        )
    packed = (tmp_path / "a.prv.gz").read_bytes()
    assert packed == (tmp_path / "b.prv.gz").read_bytes()
    plain = translations.default("mpi-halo").trace
    assert nsys2prv.read_prv(tmp_path / "a.prv.gz").events.equals(plain.events)
    assert nsys2prv.read_prv(tmp_path / "a.prv.gz").messages.equals(plain.messages)


@pytest.mark.parametrize("run", ["gpt-ddp", "mpi-halo"])
def test_a_report_that_is_given_twice_is_drawn_once(run: str, translations: Runs, tmp_path: Path) -> None:
    once = translations.default(run)
    again = [Path(shutil.copy(report, tmp_path)) for report in once.reports[1:3]]
    twice = nsys2prv.translate([*once.reports, *again], tmp_path / "t", execution=nsys2prv.Execution(jobs=1))
    assert records_of(tmp_path / "t") == records_of(once.prv.with_suffix(""))
    assert (twice.rows, twice.messages, twice.warnings) == (once.result.rows, once.result.messages, ())


@pytest.mark.parametrize("run", ["gpt-ddp", "mpi-halo"])
def test_what_a_second_report_of_a_process_repeats_is_drawn_once(run: str, tmp_path: Path) -> None:
    whole = reports_of(run)
    ends = [part for part in construct.cut_in_two(whole, tmp_path) if part.stem.endswith(".2")]
    # Of two reports' samples of a GPU those of one are drawn.
    chosen = nsys2prv.Selection(tuple(f for f in nsys2prv.Selection().families if f != "gpu_metrics"))
    for name, reports in (("once", whole), ("twice", [*whole, *ends])):
        nsys2prv.translate(reports, tmp_path / name, selection=chosen, execution=nsys2prv.Execution(jobs=1))
    assert records_of(tmp_path / "twice") == records_of(tmp_path / "once")


@pytest.mark.shared
def test_unrelated_runs_at_once_make_one_trace(tmp_path: Path) -> None:
    """The shared reports as they lie, nine programs on several machines, one report twice: everything is there once."""
    if not REPORTS.is_dir():
        pytest.skip("no shared reports")
    # Results of other tools, reports of another profiler, and archives lie beside them.
    runs = [f for f in REPORTS.iterdir() if f.is_dir() and f.name not in ("gpt-ddp-oracle", "nvprof")]
    nsys2prv.translate(runs, tmp_path / "t", options=nsys2prv.RunOptions(one_run=True))
    trace = nsys2prv.read_prv(tmp_path / "t.prv")
    for table, numbers in ((oracle.KERNEL, (63000006, 63000007)), (oracle.RUNTIME, (63000000,))):
        held = [r for r in REPORTS.rglob("*.sqlite") if table in oracle.tables(r)]
        want = sum(oracle.sql(r, f"SELECT count(*) FROM {table}")[0][0] for r in held)
        assert sum(trace.intervals(n).height for n in numbers) == want
