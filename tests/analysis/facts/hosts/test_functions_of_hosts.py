"""Findings on busy hosts name the functions that samples show in the times of which they speak."""

from __future__ import annotations

import polars as pl
import pytest
from programs import Sampled, analysis_of, findings_of, program, with_samples

from nsys2prv.analysis.facts.case import case_of
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen, seen_functions
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.errors import ReportError
from nsys2prv.intervals.spans import one_span
from nsys2prv.run.trace_rows import NO_ROW

OF_LAUNCHING = "samples of launching threads in these times"
BUSY = "k @0 5-100, k @800 805-990"
WAITS = "k @0 5-100, os:sem_wait 100-800, k @800 805-990"


def found_in(line: str, finding: str, *each: Sampled, family: str = "cpu_samples", row: int = 0) -> Finding:
    return findings_of(with_samples(program(f"0| {line}"), *each, family=family, row=row))[finding]


def test_functions_of_the_launching_thread_are_named() -> None:
    """30 of 60 samples, 18, 6 and 6 in the idle times; those while the device works do not count."""
    found = found_in(
        BUSY,
        "host-bound",
        ("fill", "_image.cpython-312-x86_64-linux-gnu.so", range(200, 700, 100)),
        ("sort", "app", range(250, 550, 100)),
        ("[libc.so.6]", "libc.so.6", [600]),
        ("copy", "app", [650]),
        ("launch", "libcuda.so.1", [10, 50, 90, 850, 900]),
    )
    assert (
        ": of the 60 samples of launching threads in these times 50 % are in `fill` (_image), 30 % in `sort` (app), "
        "10 % in libc (functions unknown); move that work" in found.advice
    )
    assert found.evidence["samples"] == 60
    assert found.evidence["functions"][:2] == [
        ["fill", "_image.cpython-312-x86_64-linux-gnu.so", 0.5],
        ["sort", "app", 0.3],
    ]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("libgomp.so.1", "libgomp (OpenMP: operators that compute on the CPU; functions unknown)"),
        ("libcupti.so.13", "libcupti (the profiler; functions unknown)"),
        ("libToolsInjection64.so", "libToolsInjection64 (the profiler; functions unknown)"),
        ("python3.12", "python3.12 (the interpreter; functions unknown)"),
        ("libcudart.so.13", "libcudart (functions unknown)"),
    ],
)
def test_what_a_library_is_for_is_said_where_its_name_does_not(file: str, said: str) -> None:
    advice = found_in(BUSY, "host-bound", (f"[{file}]", file, range(200, 700, 100))).advice
    assert f"100 % are in {said};" in advice


@pytest.mark.parametrize(
    ("each", "says"),
    [
        # Three samples an iteration: 18 are too few.
        ([("fill", "app", [200, 300, 400])], "the reports hold samples"),
        # No function has a fifth, and one file has most.
        (
            [(f"f{n}", "app", [200 + n]) for n in range(12)],
            f"of the 72 {OF_LAUNCHING} 100 % are in app;",
        ),
        ([(f"f{n}", f"lib{n}.so", [200 + n]) for n in range(12)], "the reports hold samples"),
    ],
    ids=["few", "one file", "everywhere"],
)
def test_functions_without_a_share_are_not(each: list[Sampled], says: str) -> None:
    found = found_in(BUSY, "host-bound", *each)
    assert says in found.advice
    assert found.evidence["samples"] == 6 * sum(len(list(times)) for *_, times in each)


def test_python_samples_come_first() -> None:
    run = with_samples(program(f"0| {BUSY}"), ("memcpy", "libc.so.6", range(200, 700, 10)))
    both = with_samples(run, ("load", "data.py", range(200, 700, 50)), family="python_samples")
    advice = findings_of(both)["host-bound"].advice
    assert "of the 60 Python samples of launching threads in these times 100 % are in `load` (data.py)" in advice
    few = with_samples(run, ("load", "data.py", [200]), family="python_samples")
    assert "in `memcpy` (libc)" in findings_of(few)["host-bound"].advice


def test_of_a_thread_that_waits_the_others_of_its_process_tell() -> None:
    """Python samples are of the thread itself, which is in a function all the same."""
    sampled = ("augment", "libdata.so", range(200, 700, 100))
    advice = found_in(WAITS, "system-waiting", sampled, row=NO_ROW).advice
    assert "of the 30 samples of other threads of these processes meanwhile 100 % are in `augment` (libdata)" in advice
    assert "the reports hold samples" in found_in(WAITS, "system-waiting", sampled).advice
    sampled = ("get", "queue.py", range(200, 700, 100))
    advice = found_in(WAITS, "system-waiting", sampled, family="python_samples").advice
    assert f"of the 30 Python {OF_LAUNCHING} 100 % are in `get` (queue.py)" in advice


def test_of_a_late_rank_its_own_samples_tell() -> None:
    """Rank 1 launches late."""
    late = program("0| k @0 5-300, n @10 300-905, wait 20-905\n1| k @0 5-300, n @890 895-905, wait 892-905")
    run = with_samples(late, ("parse", "json.so", range(400, 800, 50)), row=3, task=1)
    run = with_samples(run, ("spin", "libcuda.so.1", range(400, 800, 10)))
    found = findings_of(run)["late-rank"]
    assert found.ranks == (1,)
    assert f"before it launches: of the 48 {OF_LAUNCHING} 100 % are in `parse` (json)." in found.advice
    assert found.evidence["samples"] == 48
    assert "data, Python, other processes" in findings_of(late)["late-rank"].advice


@pytest.mark.parametrize(("functions", "named"), [(2, True), (30, False)])
def test_of_launches_the_functions_in_the_pause_are_named(functions: int, named: bool) -> None:
    """Kernels of 10 us leave gaps of 60 us, and another of 3 ms. Samples of the other gaps do not count."""
    kernels = [(7 * n + 300 * (n >= 50), "embed" if n == 50 else "kernel") for n in range(100)]
    run = program("0| " + ", ".join(f"k:{name} @{at} {at + 1}-{at + 2}" for at, name in kernels))
    launching = ("launch", "libtorch.so", [at + 4 for at, _ in kernels if at < 340])
    in_pause = [(f"save{n}", f"app{n}", range(360 + n, 640, functions)) for n in range(functions)]
    advice = findings_of(with_samples(run, launching, *in_pause))["launch-bound"].advice
    place = "see what the host does after `kernel` and before `embed` (34 % of that time)"
    said = f": of the 1,680 {OF_LAUNCHING} 50 % are in `save0` (app0), 50 % in `save1` (app1)"
    assert f"{place}{said if named else ''}. Launch less often" in advice


@pytest.mark.parametrize(
    ("in_pause", "samples"), [([200, 300, 400, 500], 24), ([200, 300], 36)], ids=["enough", "few in the pause"]
)
def test_where_a_pause_has_few_samples_those_of_all_idle_time_count(in_pause: list[int], samples: int) -> None:
    """One pause has most of the idle time, and another the rest."""
    line = "k:a:GEMM @0 5-100, k:b:GEMM @600 605-700, k:c:GEMM @980 985-990"
    advice = found_in(line, "host-bound", ("fill", "app", in_pause), ("other", "app", [750, 800, 850, 900])).advice
    assert f"of the {samples} {OF_LAUNCHING}" in advice


def test_samples_beside_a_pause_in_which_the_host_waits_say_nothing_of_it() -> None:
    """The pause has most of the idle time, and a fifth of the samples."""
    line = "k:a:GEMM @0 5-100, k:b:GEMM @600 605-700, k:c:GEMM @980 985-990"
    found = found_in(line, "host-bound", ("fill", "app", [200]), ("other", "app", [750, 800, 850, 900]))
    assert OF_LAUNCHING not in found.advice
    assert "after `a` and before `b`" in found.advice


@pytest.mark.parametrize(
    ("function", "file", "said"),
    [
        ("at::CPUGeneratorImpl::random()", "libtorch_cpu.so", True),
        ("void at::native::templates::cpu::normal_fill<float>", "libtorch_cpu.so", True),
        ("fill", "_mt19937.cpython-312-x86_64-linux-gnu.so", True),
        ("at::native::cpu::norm_kernel", "libtorch_cpu.so", False),
    ],
)
def test_random_numbers_are_better_made_by_the_device(function: str, file: str, said: bool) -> None:
    own, other = (function, file, range(200, 600, 100)), ("sort", "app", [650])
    advice = found_in(BUSY, "host-bound", own, other).advice
    assert ("; 80 % make random numbers, which the device can do; move that work" in advice) == said


def test_a_run_without_device_work_has_no_launching_threads() -> None:
    run = program("0| k @0 5-300, mpi:MPI_Barrier 300-900\n1| k @0 5-300, mpi:MPI_Barrier 890-900")
    alone = run._replace(work=run.work.clear(), devices=())
    case = case_of(analysis_of(with_samples(alone, ("parse", "app", range(400, 800, 10)), row=3, task=1)))
    for waiting in (False, True):
        assert seen_functions(case, one_span(0, case.run.duration), 1, waiting) == Seen()


def test_reports_that_cannot_be_read_again_leave_a_hint() -> None:
    """As where workers on other machines read them."""

    def unread() -> pl.DataFrame:
        raise ReportError("a.sqlite", "there is no such file", "give another one")

    run = program(f"0| {BUSY}")._replace(host_samples=unread, recorded_families=frozenset({"cpu_samples"}))
    assert "the reports hold samples" in findings_of(run)["host-bound"].advice
