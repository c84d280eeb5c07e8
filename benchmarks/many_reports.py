"""A run of few long reports against one of many short ones that holds as much: what the number of reports costs.

    python benchmarks/many_reports.py FOLDER [--jobs 2] [--reports 8 64 384] [--write FILE]

Of N reports each is one of sample_reports/gpt-ddp, repeated 384 / N times in time (`make_long.py`), on a host of its
own. All are busy at the same time, as ranks are. A row has the seconds of two stages, the peak memory of all processes,
each at its worst time, and the size of the trace.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import construct
from compare import MB, machine
from make_long import make_long
from scaling import SOURCES, remove, tell

import nsys2prv
from nsys2prv.run.run_options import RunOptions

TIMES = 384


class Row(NamedTuple):
    """So many reports, and what their translation said."""

    reports: int
    told: nsys2prv.Translation

    def text(self) -> str:
        """The row as Markdown."""
        extract, encode = (self.told.seconds[stage] for stage in ("extract", "encode"))
        peak = self.told.used.memory / MB
        return f"| {self.reports} | {extract:.1f} | {encode:.1f} | {peak:.0f} | {self.told.size / MB:.0f} |"


def many_reports(folder: Path, count: int) -> Path:
    """A folder with so many reports, made unless it is there."""
    made, one = folder / f"reports{count}", folder / f"one{TIMES // count}.sqlite"
    if not made.exists():
        made.mkdir(parents=True)
        make_long(SOURCES[1], one, TIMES // count, 1_000_000, {"OSRT_API": 1000 * TIMES // count})
        construct.on_many_hosts([one], made, count)
        one.unlink()
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the reports are, or are made")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="workers (2)")
    parser.add_argument(
        "--reports", type=int, nargs="+", default=[8, 64, TIMES], metavar="N", help="how many (8 64 384)"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table there, too")
    given = parser.parse_args()
    rows = []
    for count in given.reports:
        inputs = many_reports(given.folder, count)
        with tempfile.TemporaryDirectory(dir=given.folder) as name:
            out = Path(name, "trace")
            told = nsys2prv.translate(
                inputs, out, execution=nsys2prv.Execution(jobs=given.jobs, quiet=False), options=RunOptions(align="utc")
            )
            rows.append(Row(count, told))
            remove(out)
    head = ["| reports | extract, s | encode, s | peak MB | trace MB |", "| --: | --: | --: | --: | --: |"]
    text = "\n".join([f"{machine()}; {given.jobs} workers.", "", *head, *(row.text() for row in rows)])
    tell(text, given.write)


if __name__ == "__main__":
    main()
