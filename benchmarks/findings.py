"""Precision and recall of the first finding, over runs whose worst loss is known.

    python benchmarks/findings.py

Precision: of the runs whose first finding is of severity high, the part in which it is the true one. Recall: of the
runs that have a true one, the part in which it comes first. Runs whose reports are not there are left out.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))

import first_findings
import pytest
from runs import reports_of

import nsys2prv


def first_of(known: first_findings.Known, folder: Path) -> str | None:
    """Return the id of a run's first finding of severity high; None without one. Skips without the reports."""
    reports = reports_of(known.run)
    paths = known.made(reports, folder) if known.made else reports
    found = nsys2prv.analyze(paths, execution=nsys2prv.Execution(quiet=True)).findings
    return found[0].id if found and found[0].severity == "high" else None


def main() -> None:
    """Analyze each run, and print a table and the figures."""
    told = right = with_truth = 0
    for known in first_findings.runs():
        with tempfile.TemporaryDirectory() as folder:
            try:
                first = first_of(known, Path(folder))
            except pytest.skip.Exception as skipped:
                print(f"{known.name:18} left out: {skipped}")
                continue
        is_right = first in known.first if known.first else first is None
        print(f"{known.name:18} {'right' if is_right else 'WRONG'}  {first or '-':18} {known.known}", flush=True)
        told += first is not None
        right += first in known.first
        with_truth += bool(known.first)
    print(f"precision {right}/{told} = {right / max(told, 1):.2f}")
    print(f"recall {right}/{with_truth} = {right / max(with_truth, 1):.2f}")


if __name__ == "__main__":
    main()
