"""When the tables of a report are read."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import nsys2prv
from nsys2prv.activities import FAMILIES, Family, Source
from nsys2prv.engine import extract
from nsys2prv.engine.gathered import Gathered
from nsys2prv.report.report import Report
from nsys2prv.report.schema import Table

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
    table, take = Report.table, Gathered.take

    def reading(self: Report, wanted: Table, columns: object = None) -> pl.DataFrame:
        asked.add(wanted.name)
        return table(self, wanted, columns)  # type: ignore[arg-type]

    def taking(self: Gathered, family: Family, source: Source) -> None:
        found.append((family.name, asked | set(source.ahead)))
        take(self, family, source)

    monkeypatch.setattr(Report, "table", reading)
    monkeypatch.setattr(Gathered, "take", taking)
    return found


@pytest.mark.parametrize(("cores", "ahead"), [(1, 0), (2, 1)])
def test_parquet_is_read_a_family_ahead_at_most(
    cores: int, ahead: int, begun: list[tuple[str, set[str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extract.pl, "thread_pool_size", lambda: cores)
    nsys2prv.translate(PARQUET, tmp_path / "trace", jobs=1)
    own = {f.name: {t.name for t in f.reads} for f in FAMILIES}
    turn = next(n for n, (name, _) in enumerate(begun) if LATER in own[name])
    assert turn > 1
    assert [n for n, (_, there) in enumerate(begun[:turn]) if LATER in there] == list(range(turn - ahead, turn))


def test_sqlite_is_read_from_the_beginning(
    begun: list[tuple[str, set[str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extract.pl, "thread_pool_size", lambda: 2)
    nsys2prv.translate(SQLITE, tmp_path / "trace", jobs=1)
    assert LATER in begun[0][1]
