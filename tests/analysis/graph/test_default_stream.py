"""Work on the legacy default stream waits for that of blocking streams, and theirs for it."""

from __future__ import annotations

import polars as pl
import pytest
from analysis_cases import Analysed, sql
from pictures import US, drawn
from runs import reports_of

from nsys2prv.analysis.communication.waiting import carried
from nsys2prv.analysis.frames import STREAM_KIND
from nsys2prv.analysis.graph.dependencies import dependencies
from nsys2prv.analysis.predict.joins import find_joins
from nsys2prv.analysis.predict.replay import Lengths, measured_lengths, replay
from nsys2prv.model.stream_kinds import StreamKind

NULL, BLOCKING, NON_BLOCKING = StreamKind.NULL, StreamKind.BLOCKING, StreamKind.NON_BLOCKING
# The second kernel begins 20 us after the first one: too late to tell that it waits, if nothing else does.
PICTURE = "0| k @0 10-110, k @1 130-200"
KINDS = """
    SELECT DISTINCT streamId, flag FROM TARGET_INFO_CUDA_STREAM JOIN CUPTI_ACTIVITY_KIND_MEMCPY
    USING (streamId, contextId) ORDER BY streamId
"""


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        (NULL, BLOCKING, True),
        (BLOCKING, NULL, True),
        (BLOCKING, BLOCKING, False),
        (NULL, NON_BLOCKING, False),
        (NON_BLOCKING, NULL, False),
    ],
)
def test_half_as_long_kernels_end_earlier_where_one_waits_for_the_other(first: int, second: int, waits: bool) -> None:
    run = drawn(PICTURE)
    row = int(run.work["row"][0])
    own = pl.Series([row, row + 8], dtype=pl.Int64)
    kinds = pl.DataFrame({"row": own, "context": [0, 0], "kind": [int(first), int(second)]}, schema=STREAM_KIND)
    graph = dependencies(run._replace(work=run.work.with_columns(row=own), stream_kinds=kinds), carried(run))
    lengths = measured_lengths(graph)
    along = lengths.along.copy()
    runs = graph.at_ends(along)
    runs[:] = runs // 2
    usual, halved = replay(find_joins(graph), [lambda: lengths, lambda: Lengths(along, lengths.crossing)])
    assert int(usual.max()) == 200 * US
    # Half of 100 and 70 us with the 20 us between; or half of the second one alone.
    assert int(halved.max()) == (115 if waits else 165) * US


def test_reports_say_which_streams_wait_for_the_default_stream(analysed: Analysed) -> None:
    (report,) = reports_of("saxpy")
    run = analysed("single/saxpy.sqlite").run
    labels = [run.row_labels[row].rpartition(".S")[2] for row in run.stream_kinds["row"]]
    found = sorted(zip(map(int, labels), run.stream_kinds["kind"], strict=True))
    assert found == sql(report, KINDS) == [(7, NULL), (16, BLOCKING), (17, BLOCKING)]
    assert run.stream_kinds["context"].n_unique() == 1
