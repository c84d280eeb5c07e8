"""Match: ends of all reports, one partition of their keys at a time."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from nsys2prv.model.losses import Loss
from nsys2prv.pipeline.store.combinations import Points
from nsys2prv.pipeline.store.spill import read_spill, write_spill
from nsys2prv.pipeline.workers.partial_files import replacing
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.run.matching.match_keys import KEY_LIMIT, Keys
from nsys2prv.run.matching.messages import JOINED, Findings, check_collectives, match_messages
from nsys2prv.run.objects import NO_ROW
from nsys2prv.run.plan import Plan
from nsys2prv.run.report_summary import Spill

# Ends that one partition holds, about: what matching keeps in memory at once.
PARTITION_ENDS = 1_000_000


class Matched(NamedTuple):
    """What one partition gave: messages that are drawn (times merged ns, rows of the trace), and findings."""

    spills: tuple[Spill, ...]
    findings: Findings


def partition_borders(plan: Plan) -> Keys:
    """Borders of partitions of the keys, each [b[i], b[i + 1]) with about PARTITION_ENDS ends."""
    total = sum(spill.rows for summary in plan.summaries for spill in summary.ends)
    count = -(-total // PARTITION_ENDS)
    return np.array([KEY_LIMIT // max(count, 1) * n for n in range(count)] + [KEY_LIMIT], dtype=np.int64)


@on_polars_thread
def match(plan: Plan, borders: Keys, folder: Path, number: int) -> Matched:
    """Match the ends of partition `number`; the messages that are drawn go to files in `folder`."""
    ends = _ends(plan, int(borders[number]), int(borders[number + 1]))
    findings = Findings()
    messages = match_messages(ends, findings)
    check_collectives(ends, plan.communicators.ranks.tolist(), findings)
    drawn = messages.filter((pl.col("row") != NO_ROW) & (pl.col("to_row") != NO_ROW))
    findings.leave(messages.filter((pl.col("row") == NO_ROW) | (pl.col("to_row") == NO_ROW)), Loss.MESSAGE_WITHOUT_ROW)
    lasting = pl.min_horizontal("time", "received") >= 0, pl.max_horizontal("time", "received") <= plan.duration
    inside = drawn.filter(*lasting)
    findings.leave(drawn.filter(~(lasting[0] & lasting[1])), Loss.OUTSIDE)
    findings.draw(inside)
    spills = []
    for (family,), part in inside.group_by("family"):
        path = folder / f"matched.{family}.{number}.arrow"
        points = Points(part.drop("family").sort(pl.all()))
        with replacing(path) as beside:
            spill = write_spill(beside, "messages", str(family), points, ())
        spills.append(spill._replace(path=path))
    return Matched(tuple(spills), findings)


def _ends(plan: Plan, low: int, high: int) -> pl.DataFrame:
    """Ends of all reports with keys in [low, high): columns of JOINED."""
    known = plan.communicators
    parts = [pl.DataFrame(schema=JOINED)]
    for r, summary in enumerate(plan.summaries):
        for spill in summary.ends:
            chosen = np.flatnonzero((spill.last >= low) & (spill.first < high))
            if not len(chosen):
                continue
            ends = read_spill(spill, chosen.tolist()).filter((pl.col("key") >= low) & (pl.col("key") < high))
            member = ends["member"].to_numpy()
            joined = ends.with_columns(
                family=pl.lit(spill.family),
                communicator=pl.Series(known.number[r][member]),
                rank=pl.Series(known.rank[r][member]),
                task=pl.Series(known.task[r][member]),
                device=pl.Series(known.device[r][member]),
                time=pl.Series(plan.clocks[r].merged(ends["time"].to_numpy())),
                row=pl.Series(plan.objects.row_of[r][ends["place"].to_numpy()]),
            )
            parts.append(joined.select(*JOINED))
    return pl.concat(parts)
