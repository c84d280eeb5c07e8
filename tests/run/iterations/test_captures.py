"""Between two captures of a process nothing was recorded: that time is in no figure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

import nsys2prv
from nsys2prv.intervals.spans import Span, Spans
from nsys2prv.run.clocks import Clock
from nsys2prv.run.iterations.steady import all_recorded
from nsys2prv.run.iterations.window_of_interest import SHORTEST_PAUSE, captures_of

REPEATED = Path(__file__).parents[2] / "data" / "repeat-capture"


def test_the_window_of_three_captures_is_three_spans(tmp_path: Path) -> None:
    """Of the analysis and of the trace. The captures are 3 s apart, and each lasts half a millisecond."""
    found = nsys2prv.analyze(REPEATED)
    spans = list(zip(found.window.spans.start.tolist(), found.window.spans.end.tolist(), strict=True))
    assert len(spans) == 3
    assert all(end - start < 10**6 for start, end in spans)
    assert found.efficiency.parallel > 0.4
    result = nsys2prv.translate(REPEATED, tmp_path / "trace")
    assert result.prv is not None
    window = nsys2prv.read_prv(result.prv).intervals(70000000).filter(pl.col("value") == 1)
    assert window.select("start", "end").unique().sort("start").rows() == spans


def test_time_in_which_a_task_paused_is_left_out() -> None:
    pieces = Spans(np.array([0, 600]), np.array([400, 900]))
    both = all_recorded([(0, 1000), (0, 900)], Span(100, 950), [pieces])
    assert [x.tolist() for x in both] == [[100, 600], [400, 900]]
    assert [x.tolist() for x in all_recorded([(0, 1000)], Span(450, 500), [pieces])] == [[450], [500]]
    assert SHORTEST_PAUSE > 900


def test_captures_without_length_are_none() -> None:
    """Each report of the task recorded one instant, such as a sample."""
    drawn = pl.DataFrame({"report": [0, 1], "row": [0, 0], "first": [5, 90], "last": [5, 90]})
    objects: Any = SimpleNamespace(rows=SimpleNamespace(task=np.array([1])))
    assert captures_of(drawn, objects, [Clock(start=0, offset=0)] * 2) == ()
