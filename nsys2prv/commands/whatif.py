"""Predictions for a run: from its reports to iteration times under changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from nsys2prv.analysis.communication.waiting import carried
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.graph.dependencies import dependencies
from nsys2prv.analysis.iterations.iteration_lengths import work_lasts_by_ends
from nsys2prv.analysis.iterations.located import locate
from nsys2prv.analysis.predict.change import HOST, Change, parse_change
from nsys2prv.analysis.predict.model import model_of
from nsys2prv.analysis.predict.no_effect import changed_by, why_nothing_changes
from nsys2prv.analysis.predict.whatif import Prediction, WithoutHosts, predict
from nsys2prv.analysis.question import Question
from nsys2prv.commands.analyze import open_run
from nsys2prv.errors import UsageError
from nsys2prv.families.selection import Selection
from nsys2prv.model.metric_names import TENSOR
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.run.run_options import RunOptions

# Busy hosts may hide what other changes gain.
NO_HOST_WORK = parse_change("host=0")


def what_if(
    inputs: Iterable[Path | str] | Path | str,
    changes: Sequence[str],
    *,
    question: Question = Question(),
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
) -> Prediction:
    """Predict the iteration times of a run if all `changes` are made together.

    A change is `transfer*F`, `launch*F`, `host*F`, `imbalance*F`, `delay*F`, `rank N*F` or `rank N=median` for what a
    rank computes, or `NAME*F` for kernels by family, class, name or phase; `TARGET=0` is `TARGET*0`. The other
    parameters are those of `analyze`. Raises Nsys2prvError.
    """
    # To read a run takes long: a change that cannot be read is told before.
    parsed = [parse_change(text) for text in changes]
    # Time 0 is the first event of all that is read, and a chosen time has to be that of `analyze`.
    metrics = (TENSOR,) if selection.time else ()
    with open_run(inputs, selection, options, metrics, execution) as run:
        return on_polars_thread(predictions_of)(run, question, parsed)


def predictions_of(run: Run, question: Question, changes: Sequence[Change]) -> Prediction:
    """Predict the iteration times of an open run if all changes are made together.

    With an NVTX range as window these are the iterations with work that it is about; of a range in none of them, all.
    Raises UsageError, also where there is no time to predict.
    """
    located = locate(run, question)
    graph = dependencies(run, carried(run))
    by_ends = work_lasts_by_ends(located.occurring, located.steps)
    model = model_of(run, graph, located.main, located.steps, located.window, by_ends)
    # Of three scenarios the graph is prepared once.
    of_hosts = any(change.target == HOST for change in changes)
    found, *others = predict(model, [changes] if of_hosts else [changes, [NO_HOST_WORK], [*changes, NO_HOST_WORK]])
    if not found.measured_ns:
        raise UsageError(
            "the reports hold no device activity and no MPI call whose times could change; "
            "record them with `nsys profile --trace=cuda,mpi,nvtx`, or see `nsys2prv analyze` for what they hold"
        )
    idle = [change for change in changes if not changed_by(model, [change]).pieces]
    without_hosts = WithoutHosts(*(one.iteration_ns for one in others)) if others else None
    return found._replace(
        without_effect=tuple(change.text for change in idle),
        why=tuple(map(why_nothing_changes, idle)),
        without_hosts=without_hosts,
        changed=changed_by(model, changes),
    )
