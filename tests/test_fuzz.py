"""A short run of tests/fuzz: no defect in cases that differ from those of `python tests/fuzz` by their numbers."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from fuzz.case import REFUSED, RIGHT, Verdict, run_case
from fuzz.inputs import SOURCES, small
from fuzz.judge import wrong
from fuzz.run import verdicts

import nsys2prv

SEED, RUNS = 7_000_000, 120


def test_broken_reports_give_a_right_trace_or_a_line_that_says_why_not() -> None:
    found = [v for v in verdicts(range(SEED, SEED + RUNS), workers=2) if isinstance(v, Verdict)]
    assert [v for v in found if v.what not in (RIGHT, REFUSED)] == []
    counted = Counter(v.what for v in found)
    assert counted.total() == RUNS
    assert counted[RIGHT] > RUNS // 2
    assert counted[REFUSED] > 0


def test_a_case_is_made_again_by_its_number(tmp_path: Path) -> None:
    made = []
    for place in ("one", "other"):
        folder = tmp_path / place
        folder.mkdir()
        before = os.environ.copy()
        verdict = run_case(SEED + 1, folder)
        assert os.environ == before
        made.append((verdict.what, verdict.done, {p.name: p.read_bytes() for p in (folder / "in").iterdir()}))
    assert made[0] == made[1]


def test_the_judge_sees_a_trace_that_lost_an_event(tmp_path: Path) -> None:
    """What would pass a judge that looks at nothing."""
    report = tmp_path / "r.sqlite"
    report.write_bytes(small(SOURCES[1]))
    families = ("cuda_api", "kernels", "nccl", "memory")
    chosen, options = nsys2prv.Selection(families), nsys2prv.RunOptions(align="utc", every_thread=True)
    result = nsys2prv.translate(report, tmp_path / "trace", selection=chosen, options=options, jobs=1)
    assert result.prv is not None
    with closing(sqlite3.connect(report)) as database:
        assert wrong(database, result.prv, families, {}, ()) == []
        database.execute("BEGIN")
        database.execute("UPDATE StringIds SET value = 'cudaOther' WHERE value LIKE 'cudaLaunchKernel%'")
        assert wrong(database, result.prv, families, {}, ()) == ["names: 'cudaOther' is in no label"]
        database.execute("ROLLBACK")
        database.execute('UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET "end" = "end" + 1 WHERE rowid = 3')
        assert wrong(database, result.prv, families, {}, ()) != []
        database.execute("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE rowid = 3")
        assert wrong(database, result.prv, families, {}, ()) != []
