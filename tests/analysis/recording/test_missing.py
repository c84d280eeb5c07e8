"""What a run lacks is named with the option of `nsys profile` that records it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from analysis_cases import Activity, run_of, work_of

from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.conclude import conclude
from nsys2prv.analysis.question import Question
from nsys2prv.analysis.recording.missing import HowToRecord

# (device, start, end, kind, launched), (task, row, start, end, kind, name), (task, row, start, end, text).
KERNEL: Activity = (0, 0, 50, "kernel", 0)
CALLS = [(0, 0, 0, 5, "mpi", "MPI_Send"), (0, 0, 5, 9, "os", "read")]
RANGES = [(0, 0, 0, 100, "step 1")]


def missing(
    work: Sequence[Activity], calls: Sequence[Any] = CALLS, ranges: Sequence[Any] = RANGES
) -> dict[str, HowToRecord]:
    return dict(analyze_run(run_of(work_of(work), calls, ranges), Question()).missing)


@pytest.mark.parametrize(
    ("lacking", "what", "option"),
    [
        (missing([]), "device activity", "--trace=cuda"),
        (missing([KERNEL[:4]]), "CUDA API calls", "--trace=cuda"),
        (missing([KERNEL], ranges=[]), "NVTX ranges", "--trace=nvtx"),
        (missing([KERNEL], CALLS[:1]), "OS calls", "--trace=osrt"),
        (missing([KERNEL], CALLS[1:]), "communication between ranks", "--trace=mpi"),
        (missing([(0, 0, 50, "graph", 0)]), "kernels inside CUDA graphs", "--cuda-graph-trace=node"),
        (missing([KERNEL, (0, 50, 60, "nccl", 0)]), "NCCL calls", "--trace=nvtx"),
        (missing([KERNEL]), "GPU metrics", "--gpu-metrics-devices=all"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_lacking_is_named_with_its_option(lacking: dict[str, HowToRecord], what: str, option: str) -> None:
    assert [how.option for name, how in lacking.items() if name.startswith(what)] == [option]


def test_what_is_there_is_not_named() -> None:
    """All but samples and memory events, which this run does not have."""
    assert [name.partition(" (")[0] for name in missing([KERNEL])] == ["GPU metrics", "device memory in use"]


@pytest.mark.parametrize(
    ("work", "recorded", "named"),
    [
        ([KERNEL], {"cuda_api", "kernels"}, True),
        ([KERNEL], {"kernels", "mpi"}, False),
        ([KERNEL], {"kernels", "nccl"}, False),
        ([], {"nvtx", "nccl"}, False),
        ([], {"nvtx", "kernels"}, False),
        ([], {"nvtx"}, True),
    ],
)
def test_communication_that_was_left_out_was_recorded(work: list[Activity], recorded: set[str], named: bool) -> None:
    """Families are left out by --skip and --only. Kernels that are may be of NCCL."""
    run = run_of(work_of(work), CALLS[1:], RANGES)._replace(recorded_families=frozenset(recorded))
    assert any(lacking.startswith("communication") for lacking in analyze_run(run, Question()).missing) == named


@pytest.mark.parametrize(
    ("recorded", "title"),
    [
        ({"gpu_metrics", "memory_usage"}, None),
        ({"memory_usage"}, "Not recorded: GPU metrics (tensor activity by class)"),
        (set(), "Not recorded: GPU metrics (tensor activity by class) and 1 more (--show missing)"),
    ],
    ids=["nothing", "one", "two"],
)
def test_the_finding_names_the_first_and_counts_the_others(recorded: set[str], title: str | None) -> None:
    run = run_of(work_of([KERNEL]), CALLS, RANGES)._replace(recorded_families=frozenset(recorded))
    assert [one.title for one in conclude(run, Question()).findings if one.id == "missing-data"] == [title] * bool(
        title
    )


def test_the_command_has_only_options() -> None:
    run = run_of(work_of([KERNEL[:4]]), CALLS, RANGES)
    found = {one.id: one for one in conclude(run, Question()).findings}["missing-data"]
    assert found.advice == "Record with nsys profile --trace=cuda (API calls not left out)."
    assert found.command == "nsys profile --trace=cuda ..."


@pytest.mark.parametrize(
    ("recorded", "severity"),
    [({"cuda_api"}, "high"), ({"nccl"}, "high"), ({"nvtx"}, "low"), ({"cuda_api", "kernels"}, "low")],
)
def test_a_program_that_calls_cuda_lost_its_device_activity(recorded: set[str], severity: str) -> None:
    """Calls of NCCL are ranges on the host, and need a device, too. Kernels may lie outside a chosen time."""
    run = run_of(work_of([]), CALLS, RANGES)._replace(recorded_families=frozenset(recorded))
    found = {one.id: one for one in conclude(run, Question()).findings}["missing-data"]
    assert found.severity == severity
    lost = "device activity (efficiency, overlap, kernels), of a program that calls CUDA"
    assert (lost in found.title) == (severity == "high")
