"""Explanation of a run's time by its dependencies: waiting, critical path, causes of idle time, and predictions."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from nsys2prv.analysis.communication.communication_efficiency import CommunicationEfficiency, communication_efficiency
from nsys2prv.analysis.communication.exposed_waits import exposed_waits, waiting_of_gpus
from nsys2prv.analysis.communication.pipeline import pipelines
from nsys2prv.analysis.communication.wait_causes import wait_causes
from nsys2prv.analysis.communication.waiting import carried, communication, find_exchanges, waiting_matrix
from nsys2prv.analysis.efficiency import Efficiency, efficiency
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.graph.critical_path import critical_path
from nsys2prv.analysis.graph.dependencies import dependencies
from nsys2prv.analysis.idle.idle_causes import idle_causes
from nsys2prv.analysis.iterations.window import kept_steps
from nsys2prv.analysis.predict.model import Model, model_of
from nsys2prv.analysis.predict.whatif import HIDDEN_BY_HOSTS, STANDARD, Prediction, predict
from nsys2prv.run.iterations.steady import Window

# Transfers of so large a part of the window that gain less than this alone may gain together with hosts.
LEAST_EXPOSED, LEAST_GAIN = 0.1, 0.01
# Number of the longest pieces of the critical path that are listed.
PIECES_LISTED = 20


class Explanation(NamedTuple):
    """The time of a window by its causes, and the gain of changes. Times are ns of the trace."""

    # With NCCL as communication, whatever was asked for.
    efficiency: Efficiency
    # Factors of its communication efficiency; None where nothing computes.
    factors: CommunicationEfficiency | None
    # COMMUNICATION.
    communication: pl.DataFrame
    # WAITING_MATRIX.
    waiting: pl.DataFrame
    # EXPOSED.
    exposed: pl.DataFrame
    # CAUSE of the waiting, the longest first.
    causes: pl.DataFrame
    # PIECE of the critical path.
    path: pl.DataFrame
    # IDLE_CAUSES.
    idle: pl.DataFrame
    # CONTENTION.
    contention: pl.DataFrame
    # STAGE of the pipelines.
    stages: pl.DataFrame
    # Of the STANDARD changes; a run without device work and MPI has none.
    predictions: tuple[Prediction, ...]
    # EXCHANGE of the whole run.
    exchanges: pl.DataFrame
    # CALLS of the whole run in which host threads wait for their devices.
    device_waits: pl.DataFrame

    def path_by(self, *columns: str) -> pl.DataFrame:
        """Return the time of the critical path by some columns of PIECE, with `ns`, the longest first."""
        ns = (pl.col("end") - pl.col("start")).sum().alias("ns")
        return self.path.group_by(columns).agg(ns).sort("ns", *columns, descending=[True, *[False] * len(columns)])

    def as_json(self, run: Run) -> dict[str, Any]:
        """Return all tables as JSON values."""
        rank = run.rank_of("task").alias("rank")
        pieces = self.path.with_columns(rank, ns=pl.col("end") - pl.col("start")).sort(
            "ns", "start", descending=[True, False]
        )
        shown = pieces.select("rank", "kind", "family", "name", "ns", start_ns="start").head(PIECES_LISTED)
        return {
            "communication": self.communication.to_dicts(),
            "waiting": self.waiting.to_dicts(),
            "waiting_of_gpus": waiting_of_gpus(run, self.exposed).to_dicts(),
            "clock_error_ns": run.clocks.error,
            "causes": self.causes.to_dicts(),
            "critical_path": {
                "length_ns": int((self.path["end"] - self.path["start"]).sum()),
                "replay_error": max((p.replay_error for p in self.predictions), default=0.0),
                "by_kind": self.path_by("kind").to_dicts(),
                "by_class": self.path_by("kind", "family").filter(pl.col("family").is_not_null()).to_dicts(),
                "by_rank": self.path_by("task").select(rank, "ns").to_dicts(),
                "pieces": shown.to_dicts(),
            },
            "idle_causes": self.idle.to_dicts(),
            "contention": self.contention.to_dicts(),
            "pipeline": self.stages.to_dicts(),
            "what_if": [
                {"change": ", ".join(p.changes), "iteration_ns": round(p.iteration_ns), "gain": p.gain}
                for p in self.predictions
            ],
        }


def explain(run: Run, main: pl.DataFrame, steps: pl.DataFrame, window: Window, by_ends: bool) -> Explanation:
    """Explain the time of a window.

    `main`: ranges of the main threads; `steps`: OCCURRENCE of the iterations; `by_ends`: see last_by_ends.
    """
    operations = carried(run)
    exchanges, graph = find_exchanges(run, operations), dependencies(run, operations)
    model = model_of(run, graph, main, steps, window, by_ends)
    exposed = exposed_waits(run, exchanges, window.spans)
    whole = efficiency(run.work, run.devices, window.spans, "communication")
    return Explanation(
        efficiency=whole,
        factors=communication_efficiency(run, exchanges, window.spans, whole),
        communication=communication(run, exchanges, window.spans),
        waiting=waiting_matrix(run, exchanges, window.spans),
        exposed=exposed,
        causes=wait_causes(run, graph, exchanges, main, steps, window.spans),
        path=critical_path(run, graph, window.spans),
        idle=idle_causes(run, graph, window.spans),
        contention=model.slowdown.table,
        stages=pipelines(run, main, kept_steps(steps, window)),
        predictions=_predictions(model, exposed, window) if len(graph.time) else (),
        exchanges=exchanges,
        device_waits=graph.device_waits,
    )


def _predictions(model: Model, exposed: pl.DataFrame, window: Window) -> tuple[Prediction, ...]:
    """Predict the STANDARD changes; and those HIDDEN_BY_HOSTS, if transfers gain nothing alone and yet are long.

    `exposed`: EXPOSED.
    """
    found = predict(model, [[change] for change in STANDARD])
    gain = {prediction.changes: prediction.gain for prediction in found}
    transfers, hosts = (gain[(change.text,)] for change in HIDDEN_BY_HOSTS)
    by_rank = exposed.group_by("rank").agg(pl.col("exposed_transfer_ns").sum())["exposed_transfer_ns"]
    longest = float(by_rank.max() or 0)  # type: ignore[arg-type]
    if transfers < LEAST_GAIN < hosts and longest >= LEAST_EXPOSED * window.spans.total():
        found += predict(model, [HIDDEN_BY_HOSTS])
    return tuple(found)
