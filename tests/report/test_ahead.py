"""Tables that are read before who works on them is loaded."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

from nsys2prv.activities import FAMILIES
from nsys2prv.activities.reads import read_columns
from nsys2prv.cli.main import cli
from nsys2prv.engine.catalogue import reads_of
from nsys2prv.engine.running import early
from nsys2prv.engine.selection import BY_DEFAULT
from nsys2prv.report import ahead
from nsys2prv.report.report import open_report
from nsys2prv.report.schema import Table

REPORT = Path(__file__).parents[2] / "sample_reports" / "single" / "saxpy.sqlite"
READ = read_columns(FAMILIES)
# Small tables that nobody asks for where GENERIC_EVENTS is empty, as in this report.
ONLY_WITH_EVENTS = ('"GENERIC_EVENT_TYPES"', '"GENERIC_EVENT_SOURCES"')


@pytest.fixture(autouse=True)
def _small_reports_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "WORTH", 1)
    monkeypatch.setattr(early, "WORTH", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Queries that were answered by what was read ahead."""
    queries: list[str] = []
    take = ahead.take

    def watched(path: Path, query: str) -> ahead.Asked | None:
        asked = take(path, query)
        queries.extend([query] * (asked is not None))
        return asked

    monkeypatch.setattr(ahead, "take", watched)
    return queries


def _idle(reading: ahead._Reading) -> None:
    """Wait until everything that was begun has been read."""
    reading._thread.submit(lambda: None).result()


def _wrong_values(path: Path) -> None:
    with closing(sqlite3.connect(path)) as report, report:
        report.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = 'none' WHERE rowid = 3")
        report.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 1.5, gridX = 2.0")


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _nothing(path: Path) -> None:
    pass


@pytest.mark.parametrize("change", [_nothing, _wrong_values])
def test_what_was_read_ahead_is_what_would_have_been_read(
    change: Callable[[Path], None], tmp_path: Path, taken: list[str]
) -> None:
    path = shutil.copy(REPORT, tmp_path / "r.sqlite")
    change(path)
    with open_report(path) as report:
        present = [t for t in READ if report.has(t) and report.rows(t)]
        expected = [report.table(t, READ[t]) for t in present]
    assert not taken
    with ahead.reading(path, READ), open_report(path) as report:
        _idle(ahead._under_way[0])
        found = [report.table(t, READ[t]) for t in present]
        assert len(taken) == len(present) > 10
        # Each is handed out once.
        report.table(present[0], READ[present[0]])
        assert len(taken) == len(present)
    for one, other in zip(found, expected, strict=True):
        assert_frame_equal(one, other)


def test_what_has_not_been_begun_is_read_by_who_wants_it(tmp_path: Path, taken: list[str]) -> None:
    busy = threading.Event()
    with ahead.reading(REPORT, {}), open_report(REPORT) as report:
        reading = ahead._under_way[0]
        reading._thread.submit(busy.wait)
        table = next(t for t in READ if report.has(t) and report.rows(t))
        query = next(iter(ahead._queries(REPORT, {table: READ[table]})))
        reading._begun[query] = reading._thread.submit(reading._ask, query, 1)
        assert report.table(table, READ[table]).height
        assert not taken
        busy.set()


@pytest.mark.parametrize("command", ["translate", "analyze"])
@pytest.mark.parametrize("name", ["none.sqlite", "text.sqlite", "half.sqlite"])
def test_what_cannot_be_read_is_told_as_ever(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.sqlite").write_text("this is not a report" * 100)
    _truncated(shutil.copy(REPORT, tmp_path / "half.sqlite"))
    path = str(tmp_path / name)
    words = [command, path, *(["-o", str(tmp_path / "o")] if command == "translate" else [])]
    told = CliRunner().invoke(cli, words).exception
    monkeypatch.setattr("nsys2prv.engine.running.early.ahead.reading", lambda *_: nullcontext())
    assert str(told) == str(CliRunner().invoke(cli, words).exception)
    assert str(told).startswith(path)
    assert not ahead._under_way


def test_nothing_is_read_ahead_of_a_report_that_is_cut_into_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ahead._queries(REPORT, READ)
    monkeypatch.setattr(ahead, "WHOLE_BYTES", 1000)
    assert not ahead._queries(REPORT, READ)


def test_nothing_is_handed_out_afterwards(taken: list[str]) -> None:
    with ahead.reading(REPORT, READ):
        _idle(ahead._under_way[0])
    with open_report(REPORT) as report:
        assert all(report.table(t, READ[t]).width for t in READ)
    assert not taken


@pytest.mark.parametrize(
    "words",
    [
        "translate {} -o o",
        "translate {} -o o -t cuda_api_trace,nvtx_pushpop_trace,gpu_metrics,nccl",
        "translate {} -o o --also states",
        "analyze {}",
        "analyze {} --jobs 2",
        "analyze {} --skip nccl,osrt",
    ],
)
def test_the_command_line_reads_ahead_what_is_then_asked_for(
    words: str, tmp_path: Path, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table once, in the very words: whatever differed would be read in vain."""
    monkeypatch.chdir(tmp_path)
    begun: list[str] = []
    begin, asked = ahead._Reading.__init__, ahead._Reading._ask

    def whole(self: ahead._Reading, path: Path, columns: Mapping[Table, tuple[str, ...]]) -> None:
        begin(self, path, columns)
        # Else how many were begun would be a matter of who is faster.
        _idle(self)

    def recorded(self: ahead._Reading, query: str, rows: int) -> ahead.Asked:
        begun.append(query)
        return asked(self, query, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead._Reading, "__init__", whole)
        patch.setattr(ahead._Reading, "_ask", recorded)
        done = CliRunner().invoke(cli, words.format(REPORT).split())
    assert done.exit_code == 0, done.output
    assert len(begun) > 3
    assert {query for query in set(begun) - set(taken) if not query.endswith(ONLY_WITH_EVENTS)} == set()


@pytest.mark.parametrize(
    ("many", "jobs", "dask", "cores", "size"),
    [(2, 1, None, 2, 1), (1, 1, "local", 2, 1), (1, 1, None, 1, 1), (1, 1, None, 2, 10**9)],
    ids=["several reports", "on Dask", "one core", "a small report"],
)
def test_only_what_gains_by_it_is_read_ahead(
    many: int, jobs: int, dask: str | None, cores: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(early, "WORTH", size)
    with early.reading_early([REPORT] * many, BY_DEFAULT, jobs, dask):
        assert not ahead._under_way
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(early, "WORTH", 1)
    with early.reading_early([REPORT], BY_DEFAULT, jobs, None):
        assert len(ahead._under_way) == 1


def test_the_catalogue_knows_what_families_read() -> None:
    for families in ([f for f in FAMILIES if f.default], list(FAMILIES), *([f] for f in FAMILIES)):
        assert reads_of(f.name for f in families) == read_columns(families)
