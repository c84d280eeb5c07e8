"""Command line: `python tests/fuzz [--runs N] [--first N] [--cases N,N] [--workers N] [--seconds S]`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from itertools import takewhile
from pathlib import Path

# Of each defect: cases that are shown, and cases that are listed at the end.
SHOWN, LISTED = 3, 30


def main() -> None:
    """Run cases; say what came of them, and of each defect the first ones. Exit 1 if there is any."""
    # A thread a worker: their number is chosen, and small tables need no more.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    tests = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(tests), str(tests / "helpers"), str(tests.parent)]
    from fuzz.case import REFUSED, RIGHT
    from fuzz.run import verdicts

    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, which is its seed")
    parser.add_argument("--cases", help="numbers of cases, with commas: these and no others")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="take no new case after this time")
    parser.add_argument("--loud", action="store_true", help="show what the workers write")
    given = parser.parse_args()
    started, found, numbers_of = time.monotonic(), Counter[str](), dict[str, list[int]]()
    cases = map(int, given.cases.split(",")) if given.cases else range(given.first, given.first + given.runs)
    numbers = takewhile(lambda _: time.monotonic() - started < given.seconds, cases)
    for verdict in verdicts(numbers, given.workers, not given.loud):
        found[verdict.what] += 1
        if verdict.what in (RIGHT, REFUSED):
            continue
        same = numbers_of.setdefault(verdict.what, [])
        same.append(verdict.number)
        if given.cases or len(same) <= SHOWN:
            print(f"case {verdict.number}: {verdict.what}\n  {verdict.done}\n  {verdict.detail}", flush=True)
    seconds = time.monotonic() - started
    print(f"{found.total()} cases in {seconds:.0f} s, {found[RIGHT]} right, {found[REFUSED]} refused")
    for what, n in found.most_common():
        if what in numbers_of:
            print(f"{n:>8}  {what}: {', '.join(map(str, sorted(numbers_of[what])[:LISTED]))}")
    sys.exit(1 if numbers_of else 0)


if __name__ == "__main__":
    main()
