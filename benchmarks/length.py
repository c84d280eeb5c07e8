"""What length and number of reports cost in time and memory: 1, 10, 50 times the long report; 1,024 reports.

    python benchmarks/length.py FOLDER [--times 1 10 50] [--reports 1024] [--nested 0] [--analyze] [--memory 1GiB]
        [--limit 1.5] [--write FILE]

The inputs are made in FOLDER where they are not there yet: the long report of `make_long.py`, repeated, and copies of
sample_reports/single/saxpy.sqlite, each of a host of its own; with `--nested N` also a report of N times the 81,600
kernels of the long one, whose launches each have seven NVTX ranges around them. Every translation runs with
`--memory`, all of its processes in a control group that kills them beyond --limit GiB where one can be made (root,
cgroup v1 or v2). `--analyze` measures analyses, too, in the memory that they want. Peak is the resident memory of all
processes added up every 200 ms. With --write the table goes to a file, and a plot beside it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import construct
from compare import MB, Run, machine, measure
from make_long import make_long
from scaling import remove

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "sample_reports" / "gpt-ddp" / "gpt-ddp.0.0.sqlite"
SMALL = ROOT / "sample_reports" / "single" / "saxpy.sqlite"
LONG_REPETITIONS = 60
LONG_ROWS = {"GPU_METRICS": 1_200_000, "OSRT_API": 60_000}
COMMAND = [sys.executable, "-c", "from nsys2prv.cli.script import script; script()"]
# What limits a control group's memory, by where the groups are: version 1, version 2.
GROUPS = {Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes", Path("/sys/fs/cgroup"): "memory.max"}


@dataclass(frozen=True)
class Row:
    """One translation: what of, what it took, and the size of its trace; and what an analysis of the same took."""

    name: str
    run: Run
    trace_bytes: int
    analysis: Run | None = None


def long_report(folder: Path, times: int) -> Path:
    """The long report, repeated so many times."""
    one, wanted = folder / "long1.sqlite", folder / f"long{times}.sqlite"
    if not one.exists():
        make_long(SOURCE, one, LONG_REPETITIONS, 1_000_000, LONG_ROWS)
    if not wanted.exists():
        make_long(one, wanted, times, 1_000_000, {})
    return wanted


def nested_report(folder: Path, times: int) -> Path:
    """A report of so many times the kernels of the long one, each launch in seven NVTX ranges."""
    made = folder / f"nested{times}.sqlite"
    if not made.exists():
        rows = {"GPU_METRICS": 100_000, "OSRT_API": 60_000}
        make_long(SOURCE, made, times * LONG_REPETITIONS, 1_000_000, rows, nested=7)
    return made


def small_reports(folder: Path, count: int) -> Path:
    """A folder with so many reports of as many hosts."""
    made = folder / f"small{count}"
    if not made.exists():
        made.mkdir()
        construct.on_many_hosts([SMALL], made, count)
    return made


@contextmanager
def limited(gib: float) -> Iterator[list[str]]:
    """The beginning of a command that runs in a control group with so much memory; nothing where there can be none."""
    for parent, name in GROUPS.items():
        group = parent / f"nsys2prv-{os.getpid()}"
        try:
            group.mkdir()
            (group / name).write_text(str(int(gib * 2**30)))
        except OSError:
            continue
        try:
            yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        finally:
            _remove(group)
        return
    print("no control group can be made: memory is measured, but not limited", file=sys.stderr)
    yield []


def _remove(group: Path) -> None:
    """Remove a control group as soon as its last process has ended."""
    for _ in range(100):
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)
    group.rmdir()


def translated(inputs: Path, name: str, folder: Path, memory: str, limit: float, jobs: int) -> Row:
    """Measure one translation."""
    out = folder / "out"
    options = ["--memory", memory, "--jobs", str(jobs), "--max-size", "1TB", "--quiet"]
    with limited(limit) as within:
        run = measure([*within, *COMMAND, "translate", str(inputs), "-o", str(out), *options], folder)
    row = Row(name, run, out.with_suffix(".prv").stat().st_size)
    remove(out)
    return row


def analyzed(row: Row, inputs: Path, folder: Path, jobs: int) -> Row:
    """Measure an analysis of the same input as well."""
    run = measure([*COMMAND, "analyze", str(inputs), "--jobs", str(jobs)], folder)
    return replace(row, analysis=run)


def table(rows: list[Row], limit: float) -> str:
    """The measurements as Markdown."""
    lines = [
        f"Machine: {machine()}. All processes of a translation within {limit} GiB.",
        "",
        "| input | seconds | CPU seconds | peak MB | trace MB | analyze: seconds | CPU seconds | peak MB |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for row in rows:
        run = row.run
        lines.append(
            f"| {row.name} | {run.seconds:.1f} | {run.cpu_seconds:.1f} | {run.peak_bytes / MB:.0f} "
            f"| {row.trace_bytes / MB:.0f} | {_of_analysis(row.analysis)} |"
        )
    return "\n".join(lines) + "\n"


def _of_analysis(run: Run | None) -> str:
    return f"{run.seconds:.1f} | {run.cpu_seconds:.1f} | {run.peak_bytes / MB:.0f}" if run else " | | "


def plot(rows: list[Row]) -> str:
    """Peak memory and time of each input as SVG: bars of memory for `translate` and, where it ran, `analyze`."""
    width, step, left = 720, 24, 230
    bars = [(row.name, "translate", "#4477aa", row.run) for row in rows]
    bars += [(row.name, "analyze", "#ee6677", row.analysis) for row in rows if row.analysis]
    bars.sort(key=lambda bar: [row.name for row in rows].index(bar[0]))
    scale = (width - left - 130) / max(run.peak_bytes for *_, run in bars)
    drawn = []
    for n, (name, command, color, run) in enumerate(bars):
        y, long = 30 + n * step, run.peak_bytes * scale
        drawn.append(
            f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{name}: {command}</text>'
            f'<rect x="{left}" y="{y}" width="{long:.0f}" height="18" fill="{color}"/>'
            f'<text x="{left + long + 6:.0f}" y="{y + 14}">{run.peak_bytes / MB:,.0f} MB, {run.seconds:.0f} s</text>'
        )
    height = 40 + len(bars) * step
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        f'font-size="13"><rect width="100%" height="100%" fill="white"/><text x="{left}" y="18">Peak memory of all '
        f"processes, and time</text>{''.join(drawn)}</svg>\n"
    )


def main() -> None:
    """Make the inputs, translate them, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=lambda name: Path(name).absolute())
    parser.add_argument("--times", type=int, nargs="*", default=[1, 10, 50])
    parser.add_argument("--reports", type=int, nargs="*", default=[1024], help="how many small reports in one trace")
    parser.add_argument("--nested", type=int, default=0, metavar="N", help="N times the kernels, in nested ranges")
    parser.add_argument("--analyze", action="store_true", help="measure analyses, too")
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--limit", type=float, default=1.5, metavar="GIB")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path, metavar="FILE")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    how = (given.folder, given.memory, given.limit, given.jobs)
    inputs = {f"long report x {n}": long_report(given.folder, n) for n in given.times}
    if given.nested:
        inputs[f"kernels x {given.nested}, nested ranges"] = nested_report(given.folder, given.nested)
    inputs |= {f"{n:,} small reports": small_reports(given.folder, n) for n in given.reports}
    rows = []
    for name, path in inputs.items():
        row = translated(path, name, *how)
        rows.append(analyzed(row, path, given.folder, given.jobs) if given.analyze else row)
    print(table(rows, given.limit))
    if given.write:
        given.write.write_text(table(rows, given.limit))
        given.write.with_suffix(".svg").write_text(plot(rows))


if __name__ == "__main__":
    main()
