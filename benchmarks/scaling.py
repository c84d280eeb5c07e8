"""One worker against two, and the process pool against Dask, to translate and to analyze a run of eight reports.

    python benchmarks/scaling.py FOLDER [--repeat 20] [--turns 3] [--write FILE]

The reports are made in FOLDER where they are not there yet: the four of sample_reports/gpt-ddp, each repeated in time
(`make_long.py`), and the same again on two more hosts. With --repeat 20 each is about a third of the long report of
`compare.py`, with 60 about its size. The commands take turns; of their wall times (s) the least is kept, with the CPU
time (s) of that run. What else the machine does counts: the last column says how many cores a command got.

`1 core` is one worker with one core to itself: `--jobs 1` alone reads ahead and lets Polars use every core.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import construct
from compare import MB, Run, machine, measure
from make_long import make_long

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "sample_reports" / "gpt-ddp").glob("*.sqlite"))
HOSTS = ("gpu-node2", "gpu-node2", "gpu-node3", "gpu-node3")
COMMAND = [sys.executable, "-c", "from nsys2prv.cli.script import script; script()"]
FIRST = "1 core"


@dataclass
class Case:
    """A way to run a translation, and its runs so far."""

    name: str
    options: str
    before: tuple[str, ...] = ()
    runs: list[Run] = field(default_factory=list)


def cases() -> tuple[Case, ...]:
    """The ways that are compared, without runs."""
    return (
        Case(FIRST, "--jobs 1", ("taskset", "-c", "0")),
        Case("1 worker", "--jobs 1"),
        Case("2 workers", "--jobs 2"),
        Case("Dask, 2 workers", "--dask local --jobs 2"),
    )


def translated(case: Case, reports: list[Path], folder: Path) -> bytes:
    """Measure a translation, and return the trace."""
    out = folder / "trace"
    command = [*case.before, *COMMAND, "translate", *map(str, reports), "-o", str(out), *shlex.split(case.options)]
    case.runs.append(measure([*command, "--quiet", "--align", "utc"], folder))
    body = out.with_suffix(".prv").read_bytes()
    remove(out)
    return body


def analyzed(case: Case, reports: list[Path], folder: Path) -> bytes:
    """Measure an analysis, and return its JSON."""
    command = [*case.before, *COMMAND, "analyze", *map(str, reports), "--json", *shlex.split(case.options)]
    case.runs.append(measure(["sh", "-c", 'exec "$@" > analysis.json', "sh", *command], folder))
    return (folder / "analysis.json").read_bytes()


def make_reports(folder: Path, repetitions: int) -> list[Path]:
    """The eight reports, made unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / source.name for source in SOURCES] + [folder / f"more.{n}.sqlite" for n in range(len(HOSTS))]
    if all(name.exists() for name in names):
        return names
    for source, long in zip(SOURCES, names, strict=False):
        make_long(source, long, repetitions, 1_000_000, {"OSRT_API": 1000 * repetitions})
    for number, host in enumerate(HOSTS):
        (more,) = construct.on_hosts(names[number], folder / "one", [host])
        more.replace(folder / f"more.{number}.sqlite")
    (folder / "one").rmdir()
    return names


def remove(trace: Path) -> None:
    """Remove a trace: to give back what it writes over would take the next command time."""
    for ending in (".prv", ".pcf", ".row", ".align.json"):
        trace.with_suffix(ending).unlink()


def table(reports: list[Path], cases: tuple[Case, ...]) -> str:
    """The measurements as Markdown."""
    best = {case.name: min(case.runs, key=lambda run: run.seconds) for case in cases}
    rows = []
    for name, run in best.items():
        ratio = best[FIRST].seconds / run.seconds
        cores = run.cpu_seconds / run.seconds
        memory = run.peak_bytes / MB
        rows.append(
            f"| {name} | {run.seconds:.2f} | {ratio:.2f} | {run.cpu_seconds:.2f} | {memory:.0f} | {cores:.2f} |"
        )
    size = sum(report.stat().st_size for report in reports) / MB
    return "\n".join(
        [
            f"{len(reports)} reports, {size:.0f} MB; {machine()}; {len(cases[0].runs)} turns.",
            "",
            "| | seconds | times faster | CPU seconds | peak MB | cores |",
            "| --- | --: | --: | --: | --: | --: |",
            *rows,
        ]
    )


def arguments(about: str | None, turns: int, repeat: int = 20) -> argparse.Namespace:
    """What a benchmark of repeated reports is told; commands run in folders of their own, hence an absolute path."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("folder", type=lambda name: Path(name).absolute(), help="where the reports are, or are made")
    often = f"how often a report's events occur ({repeat})"
    parser.add_argument("--repeat", type=int, default=repeat, metavar="N", help=often)
    parser.add_argument("--turns", type=int, default=turns, metavar="N", help=f"how often each command runs ({turns})")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table there, too")
    return parser.parse_args()


def tell(text: str, file: Path | None) -> None:
    """Print a table, and write it where that is asked for."""
    print(text)
    if file:
        file.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    given = arguments(__doc__, turns=3)
    reports = make_reports(given.folder, given.repeat)
    tables = []
    with tempfile.TemporaryDirectory(dir=given.folder.parent) as name:
        for measured in (translated, analyzed):
            compared = cases()
            for _ in range(given.turns):
                if len({measured(case, reports, Path(name)) for case in compared}) > 1:
                    sys.exit("the results differ")
            tables += [f"{measured.__name__}:", "", table(reports, compared), ""]
    tell("\n".join(tables), given.write)


if __name__ == "__main__":
    main()
