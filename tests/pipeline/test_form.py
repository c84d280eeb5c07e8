"""What every trace must be, whatever it shows: balanced, sorted, within its header."""

from __future__ import annotations

import gzip
from pathlib import Path

import drawn
import polars as pl
import pytest
from runs import ALL_RUNS, Runs, Translated

# Types whose value is held until the next one: they have no end.
METRICS = pl.col("type").is_in(list(drawn.HELD))


@pytest.mark.parametrize("run", ALL_RUNS)
def test_every_begin_has_its_end_on_the_same_row_and_type(run: str, translations: Runs) -> None:
    for made in (translations.default(run), translations.whole(run)):
        events = made.trace.events.filter(~METRICS)
        step = pl.when(pl.col("value") != 0).then(1).otherwise(-1)
        depth = events.with_columns(depth=step.cum_sum().over("task", "thread", "type"))
        assert depth.filter(pl.col("depth") < 0).is_empty()
        last = depth.group_by("task", "thread", "type").agg(pl.col("depth").last())
        assert last.filter(pl.col("depth") != 0).is_empty()


@pytest.mark.parametrize("run", ALL_RUNS)
def test_an_end_says_the_types_that_its_begin_said(run: str, translations: Runs) -> None:
    trace = translations.whole(run).trace
    for number in (63000001, 63000006, 63000007, 63000008):
        lines = trace.events.filter(pl.col("type") == number).select("line", "task", "thread", begins="value")
        # On a stream's row these never overlap: an end follows its begin.
        said = trace.events.filter(pl.col("type") != number).group_by("line").agg(pl.col("type").sort())
        pairs = lines.join(said, on="line", how="left", maintain_order="left").sort("task", "thread", "line")
        begins, ends = pairs.filter(pl.col("begins") != 0), pairs.filter(pl.col("begins") == 0)
        assert begins["type"].to_list() == ends["type"].to_list()


@pytest.mark.parametrize("run", ALL_RUNS)
def test_kernels_and_memory_operations_of_a_row_never_overlap(run: str, translations: Runs) -> None:
    trace = translations.whole(run).trace
    work = pl.concat(trace.intervals(n) for n in (63000001, 63000006, 63000007, 63000008))
    following = work.sort("task", "thread", "start").with_columns(next=pl.col("start").shift(-1).over("task", "thread"))
    assert following.filter(pl.col("end") > pl.col("next")).is_empty()


def order(made: Translated) -> pl.DataFrame:
    """Fields of every record by which a body is sorted, in the order of the file."""
    opened = gzip.open if made.prv.suffix == ".gz" else open
    with opened(made.prv, "rt") as file:
        lines = [line.rstrip("\n").split(":", 8) for line in file if not line.startswith("#")]
    return pl.DataFrame(
        [(int(f[5]), int(f[3]), int(f[4]), int(f[6]), int(f[7]), f[0]) for f in lines],
        schema=["time", "task", "thread", "type", "value", "record"],
        orient="row",
    )


@pytest.mark.parametrize("run", ALL_RUNS)
def test_body_is_sorted_by_time_and_ends_come_before_begins(run: str, translations: Runs) -> None:
    records = order(translations.default(run))
    assert records["time"].is_sorted()
    events = records.filter(pl.col("record") == "2")
    # A kernel that ends when the next one begins ends first, on every row of that instant.
    phase = events.filter(~METRICS).with_columns(begins=(pl.col("value") != 0).cast(pl.Int8))
    assert phase.filter(pl.col("begins") < pl.col("begins").shift(1).over("time")).is_empty()


@pytest.mark.parametrize("run", ALL_RUNS)
def test_outer_intervals_begin_before_and_end_after_what_they_enclose(run: str, translations: Runs) -> None:
    """Last in, first out pairs give intervals that nest, and so the lengths that SQL says (tested apart)."""
    trace = translations.whole(run).trace
    for number in [t for t in trace.types if t in drawn.NVTX or t in drawn.KINDS]:
        rows = trace.intervals(number)
        assert rows.filter(pl.col("end").is_null() | (pl.col("end") <= pl.col("start"))).is_empty()


@pytest.mark.parametrize("run", ALL_RUNS)
def test_every_object_is_in_the_header_and_has_a_name(run: str, translations: Runs) -> None:
    for made in (translations.default(run), translations.whole(run)):
        trace = made.trace
        threads = [n for n, _ in trace.header.tasks]
        nodes = [node for _, node in trace.header.tasks]
        sizes = {level: len(names) for level, names in trace.names.items()}
        assert sizes == {
            "CPU": sum(trace.header.cpus),
            "NODE": len(trace.header.cpus),
            "APPL": 1,
            "TASK": len(threads),
            "THREAD": sum(threads),
        }
        assert set(nodes) == set(range(1, len(trace.header.cpus) + 1))
        lines = trace.messages.select("cpu", "task", "thread")
        to = trace.messages.select(cpu="to_cpu", task="to_task", thread="to_thread")
        used = pl.concat([trace.events.select("cpu", "task", "thread"), lines, to]).unique()
        # A CPU of its own for every row, on the node of its task.
        assert used.height == used["cpu"].n_unique() == sum(threads)
        ends = [sum(trace.header.cpus[:n]) for n in range(len(trace.header.cpus) + 1)]
        for cpu, task, thread in used.rows():
            assert 1 <= thread <= threads[task - 1]
            assert ends[nodes[task - 1] - 1] < cpu <= ends[nodes[task - 1]]


@pytest.mark.parametrize("run", ALL_RUNS)
def test_every_type_and_value_has_a_label(run: str, translations: Runs) -> None:
    trace = translations.whole(run).trace
    assert set(trace.events["type"]) <= set(trace.types)
    for number, labels in trace.values.items():
        assert set(trace.events.filter(pl.col("type") == number)["value"]) <= set(labels)
        assert all(0 <= value < 2**31 and label for value, label in labels.items())


def test_labelled_values_are_dense_from_1_in_label_order(translations: Runs) -> None:
    values = translations.default("gpt-ddp").trace.values
    for number, ended in ((63000000, "End"), (63000006, "Idle"), (9600, "End")):
        labels = values[number]
        assert sorted(labels) == list(range(len(labels)))
        assert labels[0] == ended
        names = [labels[n] for n in range(1, len(labels))]
        assert names == sorted(names)


@pytest.mark.parametrize("run", ALL_RUNS)
def test_window_of_interest_is_the_same_on_all_rows_and_within_what_is_drawn(run: str, translations: Runs) -> None:
    made = translations.default(run)
    window = made.trace.intervals(70000000)
    spans = window.select("start", "end").unique()
    assert window.height == spans.height * sum(n for n, _ in made.trace.header.tasks)
    low, high = spans["start"].min(), spans["end"].max()
    assert (low, high) == made.result.window_ns
    assert made.intervals["start"].min() <= low < high <= made.intervals["end"].max()


@pytest.mark.parametrize("run", ALL_RUNS)
def test_what_is_said_to_be_written_is_what_is_in_the_trace(run: str, translations: Runs) -> None:
    made = translations.default(run)
    drawn_rows = dict(made.intervals.group_by("kind").len().rows())
    families = {
        "api": "cuda_api", "kernel": "kernels", "memory": "memory", "graph": "graphs",
        "sync": "synchronization", "os call": "osrt", "mpi": "mpi", "openmp": "openmp",
    }  # fmt: skip
    for kind, family in families.items():
        assert drawn_rows.get(kind, 0) == made.result.rows.get(family, 0), family
    ranges = sum(n for kind, n in drawn_rows.items() if kind.lower().startswith("nvtx"))
    assert ranges + drawn_rows.get("nccl kernel", 0) == made.result.rows["nvtx"] + made.result.rows.get("nccl", 0)
    assert made.trace.messages.filter(pl.col("tag") == 55001).height == made.result.rows["correlation"]
    assert made.prv.stat().st_size == made.result.size
    lines = made.trace.events["line"].n_unique() + made.trace.messages.height
    assert lines == made.result.lines


def test_nothing_but_the_trace_and_its_alignment_is_written(
    gpt_ddp: list[Path], output: Path, translations: Runs
) -> None:
    folder = translations.default("gpt-ddp").prv.parent
    assert {entry.suffix for entry in folder.iterdir()} == {".prv", ".pcf", ".row", ".json"}
