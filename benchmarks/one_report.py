"""One large report by more and more workers, from SQLite and from Parquet.

    python benchmarks/one_report.py FOLDER [--repeat 10] [--turns 3] [--write FILE]

The report, so many times the long one of `compare.py`, is made in FOLDER where it is not there yet. The commands take
turns; of their wall times (s) the least is kept, and each is told how many times faster it is than one worker.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from compare import MB, Run, machine, measure
from formats import in_parquet
from length import long_report
from scaling import COMMAND, arguments, remove, tell


def numbers_of_workers() -> list[int]:
    """1, 2, 4 and so on, as many as the machine has cores."""
    cores = len(os.sched_getaffinity(0))
    return [1 << n for n in range(cores.bit_length())]


def table(runs: dict[tuple[str, int], list[Run]], report: Path) -> str:
    """The measurements as Markdown."""
    best = {case: min(found, key=lambda run: run.seconds) for case, found in runs.items()}
    rows = [
        f"| {form}, {jobs} | {run.seconds:.2f} | {best[form, 1].seconds / run.seconds:.2f} | {run.cpu_seconds:.2f} "
        f"| {run.peak_bytes / MB:.0f} |"
        for (form, jobs), run in best.items()
    ]
    turns = max(map(len, runs.values()))
    return "\n".join(
        [
            f"One report, {report.stat().st_size / MB:.0f} MB as SQLite; {machine()}; {turns} turns.",
            "",
            "| from, workers | seconds | times faster | CPU seconds | peak MB |",
            "| --- | --: | --: | --: | --: |",
            *rows,
        ]
    )


def main() -> None:
    given = arguments(__doc__, turns=3, repeat=10)
    given.folder.mkdir(parents=True, exist_ok=True)
    report = long_report(given.folder, given.repeat)
    forms = {"SQLite": report, "Parquet": in_parquet(report)}
    cases = [(form, jobs) for form in forms for jobs in numbers_of_workers()]
    runs: dict[tuple[str, int], list[Run]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        out = Path(name, "trace")
        for _ in range(given.turns):
            bodies = set()
            for form, jobs in cases:
                command = [*COMMAND, "translate", str(forms[form]), "-o", str(out), "--jobs", str(jobs), "--quiet"]
                runs[form, jobs].append(measure(command, Path(name)))
                bodies.add(out.with_suffix(".prv").read_bytes())
                remove(out)
            if len(bodies) > 1:
                sys.exit("the traces differ")
    tell(table(runs, report), given.write)


if __name__ == "__main__":
    main()
