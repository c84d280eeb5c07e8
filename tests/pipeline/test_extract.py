"""When the tables of a report are read."""

from __future__ import annotations

import weakref
from pathlib import Path

import polars as pl
import pytest

import nsys2prv
from nsys2prv.families.family import Family
from nsys2prv.families.source_tables import SourceTables
from nsys2prv.pipeline.extract import extract
from nsys2prv.pipeline.extract.report_extraction import ReportExtraction
from nsys2prv.report.columnar import ColumnarTables
from nsys2prv.report.declaration import Column, Table
from nsys2prv.report.report import Report
from nsys2prv.report.slicing import slices

DATA = Path(__file__).parents[1] / "data"
PARQUET = DATA / "formats" / "rep.1_pqtdir"
SQLITE = DATA / "repeat-capture" / "rep.1.sqlite"
# No family before NVTX's reads it.
LATER = "NVTX_EVENTS"


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, set[str]]]:
    """Each family with the tables that were read or on their way when its turn came."""
    asked: set[str] = set()
    found: list[tuple[str, set[str]]] = []
    table, take = Report.table, ReportExtraction.extract_family

    def reading(self: Report, wanted: Table, columns: object = None) -> pl.DataFrame:
        asked.add(wanted.name)
        return table(self, wanted, columns)  # type: ignore[arg-type]

    def taking(self: ReportExtraction, family: Family) -> None:
        found.append((family.name, asked | set(self.source.tables._ahead)))
        take(self, family)

    monkeypatch.setattr(Report, "table", reading)
    monkeypatch.setattr(ReportExtraction, "extract_family", taking)
    return found


@pytest.mark.parametrize(("report", "cores", "early"), [(PARQUET, 1, True), (SQLITE, 1, False), (SQLITE, 2, True)])
def test_tables_are_read_from_the_beginning_where_that_is_quicker(
    report: Path,
    cores: int,
    early: bool,
    begun: list[tuple[str, set[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extract.pl, "thread_pool_size", lambda: cores)
    nsys2prv.translate(report, tmp_path / "trace", execution=nsys2prv.Execution(jobs=1))
    assert (LATER in begun[0][1]) == early


def test_parquet_is_read_by_one_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables: list[str] = []
    read = ColumnarTables.read

    def reading(self: ColumnarTables, name: str, columns: dict[str, tuple[str, Column]]) -> pl.DataFrame:
        tables.append(name)
        return read(self, name, columns)

    monkeypatch.setattr(ColumnarTables, "read", reading)
    nsys2prv.translate(PARQUET, tmp_path / "trace", execution=nsys2prv.Execution(jobs=1))
    # One by one are read those that say who recorded the report, and those of families that are not asked for.
    assert list(PARQUET.glob("CUPTI_*"))
    assert not [name for name in tables if name.startswith("CUPTI_")]


@pytest.mark.parametrize(("cores", "readers"), [(1, 1), (2, 1), (4, 3), (16, 4)])
def test_readers_leave_a_core_to_what_works_on_tables(
    cores: int, readers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    threads = slices.ThreadPoolExecutor
    monkeypatch.setattr(extract.pl, "thread_pool_size", lambda: cores)
    monkeypatch.setattr(slices, "ThreadPoolExecutor", lambda count: made.append(count) or threads(count))
    nsys2prv.translate(SQLITE, tmp_path / "trace", execution=nsys2prv.Execution(jobs=1))
    assert made == [readers]


def test_a_table_is_forgotten_with_the_last_family_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, weakref.ref[pl.DataFrame]] = {}
    together, release = Report.tables_together, SourceTables.release

    def reading(self: Report, columns: dict[Table, tuple[str, ...]]) -> dict[str, pl.DataFrame] | None:
        found = together(self, columns)
        kept.update({name: weakref.ref(frame) for name, frame in (found or {}).items()})
        return found

    def releasing(self: SourceTables, table: Table) -> None:
        release(self, table)
        assert table.name not in kept or kept[table.name]() is None

    monkeypatch.setattr(Report, "tables_together", reading)
    monkeypatch.setattr(SourceTables, "release", releasing)
    nsys2prv.translate(PARQUET, tmp_path / "trace", execution=nsys2prv.Execution(jobs=1))
    assert kept
