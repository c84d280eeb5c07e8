"""Tables of the page: every figure of the JSON, in the sections and the units of the terminal.

A table's values are those of the JSON, unrounded; each column says how they are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.model.units import COUNT, NUMBER, head_of, unit_of

Records = Sequence[Mapping[str, Any]]


class PageColumn(NamedTuple):
    """A column: its title; `scale` that values are multiplied by and `digits` behind the point, None for texts."""

    title: str
    scale: float | None
    digits: int | None
    values: list[Any]


class PageTable(NamedTuple):
    """A table of a section. `key`: its name, the same on every page; `note`: what a reader has to know."""

    section: str
    key: str
    title: str
    columns: tuple[PageColumn, ...]
    note: str = ""

    @property
    def height(self) -> int:
        """Return the number of rows."""
        return len(self.columns[0].values) if self.columns else 0


# Text in place of a number that is not known.
_NONE = {"rank": "all", "waited_for": "another rank", "span": "all"}
_TITLES = {
    "med_ns": "p50 us",
    "waited_for": "waits for rank",
    "gpu_waited_for": "waits for gpu",
    "call": "longest call of the host",
    "wait_p50_ns": "to start p50 us",
    "wait_p90_ns": "to start p90 us",
    "wait_p99_ns": "to start p99 us",
    "start_ns": "at ms",
}
_ALL_RANKS = "The first rows, whose rank is `all`, are sums over all ranks."


def tables(analysis: Analysis, values: Mapping[str, Any]) -> Iterator[PageTable]:
    """Yield the tables of an analysis that have rows, in the order of the terminal. `values`: its JSON."""
    for table in (*_verdict(values), *_of_time(analysis, values), *_explained(values), *_work(analysis, values)):
        if table.height:
            yield table
    yield from _remarks(values)


def table_of(section: str, key: str, title: str, rows: Records, note: str = "", /, **titles: str) -> PageTable:
    """Return rows with the same names as a table, each column shown in the unit that its name says.

    `titles`: titles of columns that are not those of all tables.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = tuple(_column(name, [row.get(name) for row in rows], titles.get(name)) for name in names)
    return PageTable(section, key, title, columns, note)


def _column(name: str, values: list[Any], title: str | None) -> PageColumn:
    head = title or _TITLES.get(name) or head_of(name)
    listed = [" + ".join(map(str, value)) if isinstance(value, list) else value for value in values]
    kinds = {type(value) for value in listed if value is not None}
    if not kinds <= {int, float}:
        return PageColumn(head, None, None, listed)
    unit = unit_of(name) or (COUNT if kinds == {int} else NUMBER)
    return PageColumn(head, unit.scale, unit.digits, [_NONE.get(name) if v is None else v for v in listed])


def _verdict(values: Mapping[str, Any]) -> Iterator[PageTable]:
    findings = [
        {n: one[n] for n in ("severity", "id", "cost_ns", "share", "confidence", "title", "ranks", "iterations")}
        for one in values["findings"]
    ]
    yield table_of("findings", "findings", "Findings", findings, title="finding", share="%")
    yield table_of("window", "left_out", "Iterations left out", values["window"]["left_out"])
    yield table_of("defects", "defects", "Wrong or missing in the reports, the worst first", values["defects"])


def _of_time(analysis: Analysis, values: Mapping[str, Any]) -> Iterator[PageTable]:
    e = values["efficiency"]
    if values["devices"]:
        whole = {"name": analysis.question.window, "window_ns": analysis.efficiency.window_ns}
        parts = ("parallel", "load_balance", "communication", "orchestration")
        rows = [{**whole, **{n: e[n] for n in parts}}]
        rows += [
            {"name": p["name"], "window_ns": p["window_ns"], **p["efficiency"], "occurrences": p["occurrences"]}
            for p in (*values["phases"], *values["iterations"]["efficiency"])
        ]
        signs = {"load_balance": "= load balance", "communication": "x communication",
                 "orchestration": "x orchestration"}  # fmt: skip
        yield table_of("efficiency", "efficiency", "Device efficiency", rows, name="of", **signs)
    if "serialization" in e:
        factors = [{n: e[n] for n in ("communication", "serialization", "transfer")}]
        heads = {"serialization": "= serialization", "transfer": "x transfer"}
        yield table_of("efficiency", "factors", "Communication efficiency of the window", factors, **heads)
    yield table_of("devices", "devices", "Device time", values["devices"])
    host = values["host"]
    named = {
        "offload": "device offload (upper bound)",
        "mpi": "MPI parallel",
        "mpi_balance": "= load balance",
        "mpi_communication": "x communication",
    }
    rows = [{"factor": title, "value": host[n]} for n, title in named.items() if host[n] is not None]
    yield table_of("host", "host", "Host side", rows, factor="host efficiency", value=" ")
    titles = {"mpi_ns": "MPI ms", "cuda_ns": "CUDA calls ms", "synchronization_ns": "waiting in synchronization ms"}
    yield table_of("host", "main_threads", "Time of main threads", host["ranks"], **titles)
    every = [{"rank": r["rank"], "communicator": None, "operation": "all", **r} for r in values["overlap"]]
    both = [
        {**r, "overlapped_percent": 100 * r["overlapped_ns"] / r["communication_ns"]}
        for r in (*every, *values["overlap_by_operation"])
        if r["communication_ns"]
    ]
    yield table_of("overlap", "overlap", "Communication", both, communication_ns="ms")


def _explained(values: Mapping[str, Any]) -> Iterator[PageTable]:
    split = [
        {**r, "waiting_percent": 100 * r["waiting_ns"] / r["ns"] if r["ns"] else None} for r in values["communication"]
    ]
    title = "Waiting and transfer of NCCL kernels and MPI calls (those at one time count twice)"
    yield table_of("communication", "communication", title, split)
    note = ""
    if values["clock_error_ns"]:
        error = values["clock_error_ns"] / 1e6
        note = f"Waits for another host under {error:.3f} ms are below the error of the clocks."
    yield table_of("waiting", "waiting", "Who waits for whom", values["waiting"], note)
    title = "Who waits for whom among the GPUs of a rank"
    yield table_of("waiting", "waiting_of_gpus", title, values["waiting_of_gpus"])
    total = max(sum(r["ns"] for r in values["causes"]), 1)
    causes = [{**r, "percent": 100 * r["ns"] / total} for r in values["causes"]]
    heads = {"kind": "work", "name": "in", "ns": "waiting ms", "ranks": "ranks that wait"}
    yield table_of(
        "causes",
        "causes",
        "Causes of waiting, by the rank that came late (sums over the ranks that wait)",
        causes,
        **heads,
    )
    path = values["critical_path"]
    length = max(path["length_ns"], 1)
    by_kind = [{**r, "percent": 100 * r["ns"] / length} for r in path["by_kind"]]
    yield table_of("critical-path", "critical_path", "Critical path", by_kind)
    by_class = [{**r, "percent": 100 * r["ns"] / length} for r in path["by_class"]]
    yield table_of(
        "critical-path", "critical_path_classes", "Critical path by family of kernels", by_class, family="kernels"
    )
    by_rank = [r for r in path["by_rank"] if r["rank"] is not None]
    yield table_of("critical-path", "critical_path_ranks", "Critical path by rank", by_rank)
    yield table_of("critical-path", "critical_path_pieces", "Longest pieces of the critical path", path["pieces"])
    idle = values["idle_causes"]
    note = "Span `all` is the whole window; the others are its spans of time, counted from 0."
    yield table_of("idle-causes", "idle_causes", "Causes of idle time, by device", idle, note)
    changes = [{**r, "replay_error_percent": 100 * path["replay_error"]} for r in values["what_if"]]
    yield table_of("what-if", "what_if", "What if", changes, iteration_ns="predicted ms")
    beside = [{**r, "lost_ns": r["waiting_ns"] + r["transfer_ns"]} for r in values["contention"]]
    heads = {"waiting": "beside waiting", "waiting_error": "+-", "transfer": "beside transfer", "transfer_error": "+-"}
    yield table_of("contention", "contention", "Kernels beside communication, all ranks, by family", beside, **heads)
    yield table_of("pipeline", "pipeline", "Pipeline, mean of an iteration", values["pipeline"])


def _work(analysis: Analysis, values: Mapping[str, Any]) -> Iterator[PageTable]:
    yield from _metrics(values)
    rows = values["iterations"]["rows"]
    yield table_of("iterations", "iteration_means", "Iterations, mean by rank", _means(rows))
    yield table_of("iterations", "iterations", "Iterations", rows)
    yield table_of("iterations", "delays", "Late ranks, by iteration", values["iterations"]["delays"])
    yield table_of("classes", "classes", "Kernel classes", values["classes"], _ALL_RANKS)
    yield table_of("kernels", "kernels", "Kernels", values["kernels"], _ALL_RANKS)
    yield from _of_ncu(values.get("ncu", {}))
    yield table_of("memory", "memory", "Memory operations", values["memory"], _ALL_RANKS)
    yield table_of("memory-kinds", "memory_kinds", "Memory operations by kinds of memory", values["memory_kinds"])
    launched = [{**r, "name": r["name"] or "(all)"} for r in values["launches"]["kernels"]]
    yield table_of("launches", "launches", "Launches", launched, _ALL_RANKS, call_ns="calls ms", kernel_ns="kernels ms")
    yield table_of("queues", "queues", "Queues of streams: launched and not started", values["launches"]["queues"])
    yield table_of(
        "nccl-bandwidths",
        "nccl_bandwidths",
        "NCCL bandwidths of whole kernels, with the time in which they wait",
        values["nccl_bandwidths"],
    )
    yield table_of("api", "api", "Host calls", values["api"], _ALL_RANKS)
    yield table_of("ranges", "ranges", "NVTX ranges on the device (by process)", values["ranges"])
    yield table_of("nvtx", "nvtx", "NVTX ranges on the host", analysis.nvtx.to_dicts(), _ALL_RANKS)
    yield table_of("idle", "idle", "Longest idle times by device", values["idle"], call_ns="for ms")


def _of_ncu(ncu: Mapping[str, Any]) -> Iterator[PageTable]:
    """Yield the tables of files of Nsight Compute; none without such files."""
    title = "Kernels by class, as Nsight Compute measured them"
    yield table_of("ncu", "ncu_files", "Files of Nsight Compute", ncu.get("files", ()))
    yield table_of("ncu", "ncu", title, ncu.get("classes", ()), "Shares are weighted by time, bytes are of a kernel.")
    yield table_of("roofline", "roofline", "Roofline by class", ncu.get("roofline", ()), profiled_ns="alone ms")


def _metrics(values: Mapping[str, Any]) -> Iterator[PageTable]:
    """Yield one table a metric, a row for each GPU and class."""
    for number, metric in enumerate(dict.fromkeys(fit["metric"] for fit in values["metrics"])):
        rows = []
        for fit in (one for one in values["metrics"] if one["metric"] == metric):
            of = {"rank": fit["rank"], "host": fit["host"], "gpu": fit["gpu"]}
            shown = ("mean", "std_error", "held", "samples", "periods", "note")
            rows += [{**of, "class": " + ".join(c["classes"]), **{n: c[n] for n in shown}} for c in fit["classes"]]
        fits = [{n: fit[n] for n in ("rank", "host", "gpu", "samples", "period_ns", "r2", "r2_left_out")}
                for fit in values["metrics"] if fit["metric"] == metric]  # fmt: skip
        note = "Estimate while a class runs, its standard error, and the samples held inside its kernels."
        titles = {"std_error": "+-", "held": "held samples", "mean": "estimate"}
        yield table_of("metrics", f"metric_{number}", f"{metric} by class", rows, note, **titles)
        yield table_of("metrics", f"fit_{number}", f"{metric}: quality of the estimate", fits)


def _means(rows: Records) -> list[dict[str, Any]]:
    """Return the mean times of each rank over its steady iterations."""
    steady: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["steady"]:
            steady.setdefault(row["rank"], []).append(row)
    names = [n for n in (rows[0] if rows else ()) if n.endswith("_ns") and n != "start_ns"]
    shown = [n for n in names if any(row[n] for own in steady.values() for row in own)]
    found = []
    for rank in sorted(steady):
        own = steady[rank]
        times = {n: [row[n] for row in own if row[n] is not None] for n in shown}
        means = {n: sum(known) / len(known) if known else None for n, known in times.items()}
        found.append({"rank": rank, "iterations": len(own), **means})
    return found


def _remarks(values: Mapping[str, Any]) -> Iterator[PageTable]:
    """Yield what the run lacks and its remarks, which are worth a look where there are none, too."""
    for key, title in (("warnings", "Warnings"), ("details", "Details")):
        if values[key]:
            yield table_of("warnings", key, title, [{"text": text} for text in values[key]])
    if values["missing"]:
        yield table_of("missing", "missing", "Not recorded", values["missing"], record="nsys profile")
