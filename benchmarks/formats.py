"""From Parquet against from SQLite: the long report, and a run of eight reports.

    python benchmarks/formats.py FOLDER [--repeat 20] [--turns 5] [--write FILE]

The reports are made in FOLDER where they are not there yet, as `compare.py` (the long one) and `scaling.py` (the eight)
have them, and each again as a parquetdir export, with the types that `nsys export` gives its columns. The commands take
turns. Of wall times (s) the least and the median are kept; the ratio is SQLite's by Parquet's, of each.
Needs PyArrow, which writes Parquet with those types.
"""

from __future__ import annotations

import shlex
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))

import polars as pl
import pyarrow.parquet
from compare import PEER_FAMILIES, machine, measure
from exports import tables_of
from length import long_report
from runs import records
from scaling import COMMAND, ROOT, arguments, make_reports, remove, tell

# A real export, whose types are taken; those of a table that it lacks are given here.
EXPORT = ROOT / "tests" / "data" / "formats" / "rep.1_pqtdir"
METRIC_TYPES = {"rawTimestamp": pl.UInt64, "timestamp": pl.Int64, "typeId": pl.UInt64, "metricId": pl.UInt32}
ONE_CORE = ("taskset", "-c", "0")


@dataclass
class Case:
    """Reports in both formats, how they are translated, and the wall times (s) of each format."""

    name: str
    reports: dict[str, list[Path]]
    options: str
    before: tuple[str, ...] = ()
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def row(self) -> str:
        """The case as a row of the table."""
        sqlite, parquet = (self.seconds[form] for form in self.reports)
        least, median = (of(sqlite) / of(parquet) for of in (min, statistics.median))
        return f"| {self.name} | {min(sqlite):.2f} | {min(parquet):.2f} | {least:.2f} | {median:.2f} |"


def types_of(table: str) -> dict[str, pl.DataType]:
    """What nsys gives the columns of a table, where it is known."""
    if table == "GPU_METRICS":
        return {name: kind() for name, kind in METRIC_TYPES.items()}
    known = EXPORT / f"{table}.parquet"
    return dict(pl.read_parquet_schema(known)) if known.exists() else {}


def in_parquet(report: Path) -> Path:
    """The report as a parquetdir export beside it, made unless it is there."""
    folder = report.with_name(f"{report.stem}_pqtdir")
    if folder.exists():
        return folder
    folder.mkdir()
    for name, table in tables_of(report):
        wanted = {c: t for c, t in types_of(name).items() if c in table.columns and t.is_integer()}
        typed = table.with_columns(pl.col(c).cast(t, wrap_numerical=True) for c, t in wanted.items())
        # As nsys writes them: by Arrow's own library.
        arrow = typed.to_arrow(compat_level=pl.CompatLevel.oldest())
        pyarrow.parquet.write_table(arrow, folder / f"{name}.parquet")
    return folder


def cases(folder: Path, repetitions: int) -> list[Case]:
    """What is measured, with its reports."""
    long = long_report(folder, 1)
    eight = make_reports(folder / "eight", repetitions)
    one = {"sqlite": [long], "parquet": [in_parquet(long)]}
    several = {"sqlite": eight, "parquet": [in_parquet(report) for report in eight]}
    return [
        Case("long report, 1 core", one, "--jobs 1", ONE_CORE),
        Case("the public tool's families of it, 1 core", one, f"--jobs 1 -t {PEER_FAMILIES}", ONE_CORE),
        Case("long report, all cores", one, "--jobs 1"),
        Case("the public tool's families of it, all cores", one, f"--jobs 1 -t {PEER_FAMILIES}"),
        Case("8 reports, 1 core", several, "--jobs 1", ONE_CORE),
        Case("8 reports, 2 workers", several, "--jobs 2"),
    ]


def main() -> None:
    given = arguments(__doc__, turns=5)
    given.folder.mkdir(parents=True, exist_ok=True)
    measured = cases(given.folder, given.repeat)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        for turn in range(given.turns):
            for case in measured:
                bodies = set()
                # Neither is always the one after the other.
                for form, reports in sorted(case.reports.items(), reverse=turn % 2 == 0):
                    out = Path(name, "trace")
                    command = [
                        *case.before,
                        *COMMAND,
                        "translate",
                        *map(str, reports),
                        "-o",
                        str(out),
                        *shlex.split(case.options),
                    ]
                    run = measure([*command, "--quiet"], Path(name))
                    case.seconds.setdefault(form, []).append(run.seconds)
                    bodies.add(records(out.with_suffix(".prv")))
                    remove(out)
                if len(bodies) > 1:
                    sys.exit(f"{case.name}: the traces differ")
    head = ["| | SQLite | Parquet | ratio of least | of medians |", "| --- | --: | --: | --: | --: |"]
    text = "\n".join([f"{machine()}; {given.turns} turns.", "", *head, *(case.row() for case in measured)])
    tell(text, given.write)


if __name__ == "__main__":
    main()
