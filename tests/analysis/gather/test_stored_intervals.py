"""A chosen time reads the stored intervals that reach into it, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from analysis_cases import SAMPLES

import nsys2prv
from nsys2prv.analysis.frames import Run, restricted
from nsys2prv.analysis.gather import stored_intervals
from nsys2prv.analysis.gather.joined_reports import _in_order
from nsys2prv.commands.analyze import open_run
from nsys2prv.model.limits import Limits
from nsys2prv.run.report_summary import Spill

GPT = SAMPLES / "gpt-ddp"
SMALL = nsys2prv.Execution(jobs=1, limits=Limits(batch_rows=16))


class Read:
    """Counts the rows that are read from stored intervals."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        self._read = stored_intervals.read_spill
        monkeypatch.setattr(stored_intervals, "read_spill", self._counting)

    def _counting(self, spill: Spill, batches: Sequence[int]) -> pl.DataFrame:
        found = self._read(spill, batches)
        self.rows += found.height
        return found


def frames_of(run: Run) -> dict[str, pl.DataFrame]:
    return {name: getattr(run, name) for name in ("work", "calls", "other_calls", "ranges")}


@pytest.mark.parametrize(
    "time",
    [
        # In the middle, with calls, ranges and kernels that began before; before most begin; behind the last of them.
        (500_000_000, 520_000_000),
        (0, 100_000_000),
        (690_000_000, 10_000_000_000),
    ],
)
def test_part_equals_restricted_whole(time: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    read = Read(monkeypatch)
    with open_run(GPT, execution=SMALL) as whole:
        rows, read.rows = read.rows, 0
    with open_run(GPT, nsys2prv.Selection(time=time), execution=SMALL) as part:
        assert part.chosen
        wanted = restricted(whole, *part.chosen)
    for name, frame in frames_of(part).items():
        assert frame.equals(frames_of(wanted)[name]), name
    assert 0 < read.rows < 0.7 * rows
    low, high = part.chosen
    called = whole.waits.filter(pl.col("time") >= low, pl.col("time") < high)
    assert called.join(part.waits, on=["row", "time"], how="anti").is_empty()


@pytest.mark.parametrize(
    ("rows", "ordered"),
    [
        ([], True),
        ([(5, 1)], True),
        ([(5, 1), (5, 1), (5, 2), (6, 0)], True),
        ([(5, 2), (5, 1)], False),
        ([(5, 1), (6, 1), (5, 9)], False),
    ],
)
def test_rows_in_order_of_start_and_row_are_known(rows: list[tuple[int, int]], ordered: bool) -> None:
    frames = [pl.DataFrame([row], schema=["start", "row"], orient="row") for row in rows]
    frame = pl.concat([pl.DataFrame(schema={"start": pl.Int64(), "row": pl.Int64()}), *frames])
    assert _in_order(frame) == ordered
