"""Python stacks in real reports, against the payloads read one by one."""

from __future__ import annotations

import html
import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from exports import query

import nsys2prv

DATA = Path(__file__).parents[1] / "data"
SAMPLING = DATA / "python-sampling" / "python-sampling.sqlite"
ON_CUDA = DATA / "python-sampling" / "python-cuda.sqlite"
FUNCTION, CALLER, STATE, CUDA_FUNCTION = 70000270, 70000271, 70000278, 70000280
EVERY_THREAD = nsys2prv.RunOptions(every_thread=True)


def drawn(report: Path, folder: Path) -> tuple[nsys2prv.Translation, nsys2prv.Trace]:
    chosen = nsys2prv.Selection((*nsys2prv.Selection().families, "python_samples"))
    result = nsys2prv.translate(report, folder / "trace", selection=chosen, options=EVERY_THREAD)
    assert result.prv is not None
    return result, nsys2prv.read_prv(result.prv)


def said(report: Path, depth: int) -> Counter[str]:
    """Functions at a depth of the stacks of a report, as the standard library reads them."""
    names = {n: html.unescape(text) for n, text in query(report, "SELECT id, value FROM StringIds")}
    found: Counter[str] = Counter()
    for (text,) in query(report, "SELECT jsonText FROM NVTX_EVENTS WHERE jsonText IS NOT NULL"):
        frames = next(iter(json.loads(text).values()))["Frames"]
        if depth < len(frames):
            frame = frames[depth]
            found[f"{names[frame['Function']]} ({names[frame['File']].rsplit('/', 1)[-1]})"] += 1
    return found


@pytest.mark.parametrize(
    ("report", "kind", "depth"), [(SAMPLING, FUNCTION, 0), (SAMPLING, CALLER, 1), (ON_CUDA, CUDA_FUNCTION, 0)]
)
def test_functions_are_those_of_the_payloads(report: Path, kind: int, depth: int, tmp_path: Path) -> None:
    _, trace = drawn(report, tmp_path)
    assert Counter(trace.intervals(kind)["label"].to_list()) == said(report, depth)


def test_a_program_is_seen_as_it_is_written(tmp_path: Path) -> None:
    """Two threads compute in leaf, called by middle; a third naps. 248 samples, none drawn as an NVTX mark."""
    result, trace = drawn(SAMPLING, tmp_path)
    functions = trace.intervals(FUNCTION)
    assert functions["label"].value_counts(sort=True).rows()[:2] == [("leaf (busy.py)", 156), ("naps (busy.py)", 79)]
    assert functions.select("task", "thread").n_unique() == 3
    assert (functions["end"] - functions["start"]).unique().to_list() == [1]
    assert (result.rows["python_samples"], result.rows["nvtx"]) == (248, 0)
    assert Counter(trace.intervals(STATE)["label"])["Uninterruptible"] == 3


def test_samples_without_their_stack_are_counted(tmp_path: Path) -> None:
    """As an export without payloads has them."""
    report = Path(shutil.copy(ON_CUDA, tmp_path))
    with closing(sqlite3.connect(report)) as connection, connection:
        connection.execute("UPDATE NVTX_EVENTS SET jsonText = NULL, binaryData = NULL")
    result, _ = drawn(report, tmp_path)
    (reason,) = result.dropped["python_samples"]
    assert "--include-json" in reason
    assert result.dropped["python_samples"][reason] == 5


def test_off_samples_are_counted_and_are_no_nvtx(tmp_path: Path) -> None:
    result = nsys2prv.translate(ON_CUDA, tmp_path / "trace")
    assert (result.off["python_samples"], result.rows["nvtx"]) == (5, 0)


def test_the_sampling_thread_has_no_row(tmp_path: Path) -> None:
    """It is the profiler's own: `NSys PySampling`."""
    chosen = nsys2prv.Selection(("python_samples", "overhead"))
    nsys2prv.translate(SAMPLING, tmp_path / "trace", selection=chosen, options=EVERY_THREAD)
    assert nsys2prv.read_prv(tmp_path / "trace.prv").names["THREAD"] == ("python3 822", "thread 842", "thread 843")
