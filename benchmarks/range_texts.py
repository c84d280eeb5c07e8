"""Time of `analyze` on a report with many distinct range texts, against the same report with one text.

    python benchmarks/range_texts.py FOLDER [--texts 200000] [--long 20]

Each range launches a kernel. Every second one is named as PyTorch's autograd names operations, with sequence numbers
and sizes; the others are operations of their own. So many `--long` texts have a megabyte. Prints wall times of whole
commands (s), the least of three.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

PUSH_POP, PROCESS, THREAD = 59, 1 << 48 | 1 << 24, 1 << 48 | 1 << 24 | 1
MEGABYTE = 1 << 20
OPERATIONS, GAP, TURNS = 200, 1000, 3
TABLES = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "NVTX_EVENTS": "start INT, end INT, eventType INT, globalTid INT, domainId INT, text TEXT",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INT, end INT, eventClass INT, globalTid INT, correlationId INT, nameId INT",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT, "
        "demangledName INT, shortName INT"
    ),
}


def texts(count: int, long: int) -> Iterator[str]:
    """Yield distinct texts, the first of them long."""
    for n in range(count):
        if n < long:
            yield "words " * (MEGABYTE // 6) + str(n)
        elif n % 2:
            yield f"aten::op{n % OPERATIONS}, seq = {n}, op_id = {n}, sizes = [[{n}, 64], []]"
        else:
            yield f"request {n:08x}h"


def make(path: Path, named: list[str]) -> Path:
    """Write a report with a range, a call and a kernel a text."""
    path.unlink(missing_ok=True)
    rows = {
        "StringIds": [(1, "cudaLaunchKernel_v7000"), (2, "kernel")],
        "NVTX_EVENTS": ((GAP * n, GAP * n + 900, PUSH_POP, THREAD, 0, text) for n, text in enumerate(named)),
        "CUPTI_ACTIVITY_KIND_RUNTIME": ((GAP * n + 1, GAP * n + 9, 0, THREAD, n, 1) for n in range(len(named))),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            (GAP * n + 50, GAP * n + 500, 0, 1, 7, n, PROCESS, 2, 2) for n in range(len(named))
        ),
    }
    with closing(sqlite3.connect(path)) as report, report:
        for table, columns in TABLES.items():
            report.execute(f"CREATE TABLE {table} ({columns})")
            marks = ", ".join("?" * len(columns.split(", ")))
            report.executemany(f"INSERT INTO {table} VALUES ({marks})", rows[table])
    return path


def seconds(report: Path) -> float:
    """Return the least wall time of `analyze` (s)."""
    command = [sys.executable, "-m", "nsys2prv", "analyze", str(report), "--format", "json"]
    times = []
    for _ in range(TURNS):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=200_000)
    parser.add_argument("--long", type=int, default=20)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    one = seconds(make(given.folder / "one_text.sqlite", ["range"] * given.texts))
    many = seconds(make(given.folder / "many_texts.sqlite", list(texts(given.texts, 0))))
    long = seconds(make(given.folder / "long_texts.sqlite", list(texts(given.texts, given.long))))
    print(f"{given.texts:,} ranges of one text: {one:.1f} s")
    print(f"{given.texts:,} texts: {many:.1f} s, {many - one:.1f} s more")
    print(f"{given.texts:,} texts, {given.long} of them of a megabyte: {long:.1f} s, {long - one:.1f} s more")


if __name__ == "__main__":
    main()
