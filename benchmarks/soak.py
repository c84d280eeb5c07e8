"""A thousand translations in one process, by the Python API: memory, descriptors and files must not grow.

`python benchmarks/soak.py [--runs N] [REPORT]` prints what the process holds as it goes. Reports of several kinds of
run take turns, each translated alone, and every fifth time something fails: a report that cannot be read.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import nsys2prv

SAMPLES = Path(__file__).resolve().parents[1] / "sample_reports"
REPORTS = (
    SAMPLES / "mpi-halo/mpi-halo.0.sqlite",
    SAMPLES / "single/graph-node.sqlite",
    SAMPLES / "single/nvtx-attributes.sqlite",
    SAMPLES.parent / "tests/data/formats/rep.1_pqtdir",
)


@dataclass(frozen=True)
class Held:
    """What the process holds: bytes of memory, open descriptors, threads, files below the temporary folder."""

    runs: int
    memory: int
    descriptors: int
    threads: int
    files: int


def held(runs: int, folder: Path) -> Held:
    """Now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    descriptors, threads = (len(list(Path("/proc/self", of).iterdir())) for of in ("fd", "task"))
    return Held(runs, pages * os.sysconf("SC_PAGE_SIZE"), descriptors, threads, len(list(folder.rglob("*"))))


def soak(runs: int, reports: tuple[Path, ...], folder: Path, every: int) -> Iterator[Held]:
    """Translate so many times into a folder; what is held at first, and after each `every` runs."""
    broken = folder / "broken.sqlite"
    broken.write_bytes(b"SQLite format 3\0 and no more")
    for number, report in zip(range(runs + 1), cycle(reports), strict=False):
        if number % every == 0:
            yield held(number, folder)
        nsys2prv.translate(report, folder / "trace", force=True, execution=nsys2prv.Execution(jobs=1))
        if number % 5 == 0:
            try:
                nsys2prv.translate(broken, folder / "trace", force=True, execution=nsys2prv.Execution(jobs=1))
            except nsys2prv.Nsys2prvError:
                continue
            raise AssertionError("a broken report was translated")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", type=Path, default=REPORTS)
    parser.add_argument("--runs", type=int, default=1000)
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        for now in soak(given.runs, tuple(given.reports), Path(folder), max(1, given.runs // 20)):
            print(
                f"{now.runs:>5} runs {time.monotonic() - started:>6.0f} s  {now.memory / 1e6:>7.1f} MB"
                f"  {now.descriptors} descriptors  {now.threads} threads  {now.files} files",
                flush=True,
            )


if __name__ == "__main__":
    main()
