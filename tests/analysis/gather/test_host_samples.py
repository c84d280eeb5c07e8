"""Samples of host threads are read with the process, the row and the time of the trace, and one function each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from exports import MAIN, PROCESS, export, in_parquet, tid

import nsys2prv
from nsys2prv.commands.analyze import open_run
from nsys2prv.families.host.stacks import NO_STACK
from nsys2prv.run.trace_rows import NO_ROW

DATA = Path(__file__).parents[2] / "data"
WORKER, PROFILER, STRANGER = tid(101), tid(102), tid(7, 7)
STACKS = [
    (1, "void np::sort<pair<double, int>, 8>(double*, long, bool)", "/usr/lib/_umath.so", 0, 0),
    (1, "main", "/bin/app", 0, 1),
    (2, "0x7f50", "/usr/lib/libc.so.6", 1, 0),
    (2, "main", "/bin/app", 0, 1),
    (3, "operator new(unsigned long)", "/usr/lib/libstdc++.so.6", 0, 0),
    (4, "ml::(anonymous namespace)::fill<8>(float*, bool)::{lambda(long)#1}::operator()(long) const", "/bin/app", 0, 0),
    (5, "[Broken backtraces]", "[Broken backtraces]", 0, 0),
]
SAMPLES = [(1, 2000, MAIN), (2, 3000, MAIN), (3, 4000, MAIN), (4, 5000, WORKER), (5, 6000, MAIN), (6, 7000, MAIN)]


LAUNCH = ("start end globalTid nameId correlationId", [(1000, 1500, MAIN, "cudaLaunchKernel", 1)])
KERNEL = (
    "start end deviceId contextId streamId correlationId globalPid shortName",
    [(1600, 9000, 0, 1, 7, 1, PROCESS, "k")],
)
WORK = {"CUPTI_ACTIVITY_KIND_RUNTIME": LAUNCH, "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL}


def report_with_samples(folder: Path) -> Path:
    others = [(7, 2500, PROFILER), (8, 2500, STRANGER), (9, 2500, None)]
    return export(
        folder / "samples.sqlite",
        **WORK,
        ThreadNames=("nameId globalTid", [("app", MAIN), ("[NSys]", PROFILER)]),
        COMPOSITE_EVENTS=("id start globalTid", [*SAMPLES, *others]),
        SAMPLING_CALLCHAINS=("id symbol module unresolved stackDepth", STACKS),
    )


@pytest.mark.parametrize("parquet", [False, True])
def test_cpu_samples_have_their_innermost_function(tmp_path: Path, parquet: bool) -> None:
    """A stack that is broken from its begin has none; threads of nsys and processes without a row are left out."""
    report = report_with_samples(tmp_path)
    with open_run(in_parquet(report, tmp_path) if parquet else report) as run:
        assert run.host_samples is not None
        samples = run.host_samples()
        row = run.row_labels.index("app 100")
        assert samples.drop("task", "family").rows() == [
            (row, 1000, "np::sort", "_umath.so"),
            (row, 2000, "[libc.so.6]", "libc.so.6"),
            (row, 3000, "operator new", "libstdc++.so.6"),
            (NO_ROW, 4000, "ml::fill", "app"),
            (row, 5000, NO_STACK, None),
            (row, 6000, NO_STACK, None),
        ]
        assert set(samples["task"]) == {0}
        assert set(samples["family"]) == {"cpu_samples"}
        assert run.host_samples() is samples


def test_only_samples_of_a_chosen_time_are_read(tmp_path: Path) -> None:
    with open_run(report_with_samples(tmp_path), nsys2prv.Selection(time=(2000, 4000))) as run:
        assert run.host_samples is not None
        assert run.host_samples()["time"].to_list() == [2000, 3000]


def test_python_samples_name_the_code_of_the_program() -> None:
    """Two threads compute in `leaf`, one naps in `threading.py` of Python; nothing is in frozen modules alone."""
    with open_run(DATA / "python-sampling" / "python-sampling.sqlite") as run:
        assert run.host_samples is not None
        samples = run.host_samples()
    assert samples.height == 248
    assert set(samples["family"]) == {"python_samples"}
    found = Counter(samples.select("function", "file").rows())
    assert found.most_common(2) == [(("leaf", "busy.py"), 156), (("naps", "busy.py"), 79)]
    assert not [file for _, file in found if "frozen" in file or file in ("threading.py", "pathlib.py")]


def test_a_run_without_samples_has_none(tmp_path: Path) -> None:
    with open_run(export(tmp_path / "plain.sqlite", **WORK)) as run:
        assert run.host_samples is not None
        assert run.host_samples().is_empty()
