"""A run in memory: its frames on one clock, and the questions about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.conclude import conclude
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.frames import COPY, KERNEL, NCCL, Run, Sampled, devices_of
from nsys2prv.analysis.predict.change import parse_change
from nsys2prv.analysis.predict.whatif import Prediction
from nsys2prv.analysis.question import Question
from nsys2prv.commands.analyze import open_run
from nsys2prv.commands.frames_written import FRAMES, FrameFile, write_frames
from nsys2prv.commands.inputs import inputs_in_commands, run_name
from nsys2prv.commands.record import checked_name, prepare_database, record_analysis, spelled_options
from nsys2prv.commands.translate import translate
from nsys2prv.commands.translation import Translation
from nsys2prv.commands.whatif import predictions_of
from nsys2prv.database.recorded import Recorded
from nsys2prv.families.selection import Selection
from nsys2prv.model.frames import COLLECTIVE, COMPLETION, RECEIVE, SEND
from nsys2prv.model.metric_names import holds_any
from nsys2prv.model.whole_file import write_whole
from nsys2prv.page.page import page
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread
from nsys2prv.run.run_options import RunOptions

# The part of metric names that matches all of them.
EVERY_METRIC = ("",)
_PLACE = ("rank", "host", "gpu", "stream")
# Samples of GPU metrics on GPUs of ranks; `time`: ns from the run's begin.
SAMPLE = {
    "rank": pl.Int64(),
    "host": pl.String(),
    "gpu": pl.Int64(),
    "metric": pl.String(),
    "time": pl.Int64(),
    "value": pl.Int64(),
}


class LoadedRun:
    """A run in memory. Times are ns on the merged clock, from the run's begin.

    Temporary files with the metrics' samples exist until `close()`, or the end of a `with` block.
    """

    def __init__(self, run: Run, inputs: tuple[Path, ...], parameters: Mapping[str, Any], opened: ExitStack) -> None:
        self._run, self._inputs, self._parameters, self._opened = run, inputs, dict(parameters), opened

    def __enter__(self) -> LoadedRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the temporary files. Frames that were read stay."""
        self._opened.close()

    @property
    def kernels(self) -> pl.DataFrame:
        """Return kernels but NCCL's: rank, host, gpu, stream, start, end, launched, name, class, family.

        A CUDA graph that was recorded whole is one row.
        """
        own = self._work.filter(~pl.col("kind").is_in([NCCL, COPY]))
        return own.select(*_PLACE, "start", "end", "launched", "name", "class", "family")

    @property
    def nccl(self) -> pl.DataFrame:
        """Return NCCL kernels: rank, host, gpu, stream, start, end, launched, name, communicator, operation, bytes."""
        own = self._work.filter(pl.col("kind") == NCCL)
        return own.select(*_PLACE, "start", "end", "launched", "name", "communicator", "operation", "bytes")

    @property
    def copies(self) -> pl.DataFrame:
        """Return memory operations: rank, host, gpu, stream, start, end, launched, name, bytes, memory (its kinds)."""
        own = self._work.filter(pl.col("kind") == COPY)
        return own.select(*_PLACE, "start", "end", "launched", "name", "bytes", "memory")

    @property
    def calls(self) -> pl.DataFrame:
        """Return calls of host threads: rank, thread, start, end, kind and name.

        `kind`: cuda, synchronization, mpi, os or openmp.
        """
        return self._placed(self._run.calls).select("rank", "thread", "start", "end", "kind", "name")

    @property
    def ranges(self) -> pl.DataFrame:
        """Return NVTX push/pop ranges: rank, thread, start, end, domain, text."""
        domain = pl.col("domain").cast(pl.String)
        return self._placed(self._run.ranges).select("rank", "thread", "start", "end", domain, "text")

    @property
    def messages(self) -> pl.DataFrame:
        """Return parts of collectives and messages: operation, family, kind, rank, start, end, communicator, bytes.

        Parts of one operation have one number there. `kind`: collective, send, receive, or completion (the call
        that waits for a nonblocking collective).
        """
        kinds = {COLLECTIVE: "collective", SEND: "send", RECEIVE: "receive", COMPLETION: "completion"}
        named = self._placed(self._run.parts.rename({"began": "start", "ended": "end"})).with_columns(
            pl.col("kind").replace_strict(kinds, default=None, return_dtype=pl.String)
        )
        return named.select("operation", "family", "kind", "rank", "start", "end", "communicator", "bytes")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what is odd about the run, and what is left out of it."""
        return self._run.remarks

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of the GPU metrics."""
        return self._run.metrics

    def samples(self, metric: str) -> pl.DataFrame:
        """Return the samples of the metrics with a text in their name: rank, host, gpu, metric, time, value."""
        parts = [self._sampled(one) for one in self._run.samples if holds_any(one.metric, [metric])]
        return pl.concat([pl.DataFrame(schema=SAMPLE), *parts])

    def _samples(self, metric: str) -> pl.DataFrame:
        """Return the samples of the metric of that name, as `samples` does."""
        return pl.concat([self._sampled(one) for one in self._run.samples if metric == one.metric])

    def analyze(self, question: Question = Question(), **changes: Any) -> Analysis:
        """Answer a question. `changes` are fields of Question, such as `window="step 5"`. Raises Nsys2prvError."""
        asked = replace(question, **changes)
        chosen = tuple(s for s in self._run.samples if holds_any(s.metric, asked.metrics))
        return on_polars_thread(conclude)(self._run._replace(samples=chosen), asked)

    @cached_property
    def _analysis(self) -> Analysis:
        return self.analyze()

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings of the steady part, the worst first."""
        return self._analysis.findings

    def critical_path(self) -> pl.DataFrame:
        """Return the critical path of the steady part: see critical_path.PIECE."""
        return self._analysis.explanation.path

    def what_if(self, *changes: str, question: Question = Question()) -> Prediction:
        """Predict the iteration times if all changes are made together, see `what_if`. Raises Nsys2prvError."""
        return on_polars_thread(predictions_of)(self._run, question, [parse_change(text) for text in changes])

    def translate(self, output: Path | str, **parameters: Any) -> Translation:
        """Write the trace of the run. `parameters` are those of `translate`. Raises Nsys2prvError."""
        return translate(self._inputs, output, **{**self._parameters, **parameters})

    def export(self, folder: Path | str, *, force: bool = False) -> tuple[FrameFile, ...]:
        """Write the frames as Parquet files into a folder, see `export`. Raises Nsys2prvError."""
        frames = {name: partial(getattr, self, name) for name in FRAMES}
        samples = {name: partial(self._samples, name) for name in sorted({s.metric for s in self._run.samples})}
        return write_frames(frames, samples, Path(folder), force)

    def record(
        self,
        db: str | Path,
        *,
        name: str | None = None,
        trace: Path | str | None = None,
        question: Question = Question(),
    ) -> Recorded:
        """Record the answer to a question in a database of runs, see `record`. Raises Nsys2prvError."""
        called = checked_name(name or run_name(self._inputs))
        prepare_database(db)
        groups = (self._parameters["selection"], self._parameters["options"], question)
        return record_analysis(self.analyze(question), db, called, trace, spelled_options(*groups))

    def to_html(self, path: Path | str) -> None:
        """Write the page of the analysis of the steady part. Raises Nsys2prvError."""
        write_whole(Path(path), page(self._analysis, run_name(self._inputs), inputs_in_commands(self._inputs)))

    def __repr__(self) -> str:
        rows = {name: getattr(self, name).height for name in ("kernels", "nccl", "copies", "calls", "ranges")}
        counted = ", ".join(f"{count:,} {name}" for name, count in rows.items())
        ranks, devices = self._run.rank_count, len(self._run.devices)
        return f"<nsys2prv run: {ranks} ranks, {devices} GPUs, {self._run.duration / 1e9:.3f} s; {counted}>"

    def _repr_html_(self) -> str:
        return self._ranks()._repr_html_()

    def _ranks(self) -> pl.DataFrame:
        """Return rank, name, host and number of kernels of each process."""
        named = [(t.rank, t.name, t.host) for t in self._run.tasks]
        tasks = pl.DataFrame(named, schema=["rank", "name", "host"], orient="row")
        counts = self._work.filter(pl.col("kind") == KERNEL).group_by("rank").len("kernels")
        return tasks.join(counts, on="rank", how="left").with_columns(pl.col("kernels").fill_null(0)).sort("rank")

    @cached_property
    def _work(self) -> pl.DataFrame:
        """Return device work with rank, host, gpu, and the label of its stream."""
        devices = devices_of(self._run).drop("rank")
        placed = self._placed(self._run.work).rename({"thread": "stream"})
        return placed.join(devices, on="device", how="left", maintain_order="left")

    def _placed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add the rank of each task, and the label of each row as `thread`."""
        rank = pl.col("task").replace_strict(self._run.ranks, default=None, return_dtype=pl.Int64)
        labels = pl.Series("thread", self._run.row_labels, dtype=pl.String)
        return frame.with_columns(rank=rank, thread=labels.gather(frame["row"]))

    def _sampled(self, sampled: Sampled) -> pl.DataFrame:
        """Return the samples of one metric of one GPU: SAMPLE."""
        device = self._run.devices[sampled.device]
        pieces = list(sampled.pieces())
        times, values = (np.concatenate([piece[n] for piece in pieces] or [np.zeros(0, np.int64)]) for n in (0, 1))
        return pl.DataFrame({"time": times, "value": values}).select(
            pl.lit(device.rank, pl.Int64).alias("rank"),
            pl.lit(device.host).alias("host"),
            pl.lit(device.gpu, pl.Int64).alias("gpu"),
            pl.lit(sampled.metric).alias("metric"),
            pl.col("time", "value").cast(pl.Int64),
        )


def load(
    inputs: Iterable[Path | str] | Path | str,
    *,
    selection: Selection = Selection(),
    options: RunOptions = RunOptions(),
    execution: Execution = Execution(),
    metrics: Sequence[str] = EVERY_METRIC,
) -> LoadedRun:
    """Load a run: its frames on one clock, and the questions about it.

    `inputs` are files and folders; a folder means every report below it. `selection`: the part of the run; `options`:
    how the reports become one run; `execution`: how the work is done; `metrics`: texts that names of GPU metrics
    contain. Raises Nsys2prvError.
    """
    given = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    paths = tuple(Path(item).absolute() for item in given)
    opened = ExitStack()
    run = opened.enter_context(open_run(paths, selection, options, metrics, execution))
    return LoadedRun(run, paths, {"selection": selection, "options": options, "execution": execution}, opened)
