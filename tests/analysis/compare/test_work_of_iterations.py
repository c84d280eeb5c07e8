"""Iterations of one run may do the work of several of the other: then no verdict says that they take longer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from exports import MAIN, PROCESS, export

import nsys2prv
from nsys2prv.analysis.compare.work_of_iterations import CommonWork, LaunchedWork, common_work, more_work, same_launches

ONE = {"gemm": LaunchedWork(10, 1000), "add": LaunchedWork(30, 300), "adam": LaunchedWork(1, 50)}


def times(number: float, *, longer: float, but: tuple[str, ...] = ()) -> dict[str, LaunchedWork]:
    """The work of an iteration with so many times the launches, but of some kernels, and so many times the time."""
    return {k: w if k in but else LaunchedWork(number * w.launches, longer * w.ns) for k, w in ONE.items()}


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (times(10, longer=10), (True, 10, "add", (30, 300))),
        (times(10, longer=10, but=("adam",)), (True, 10, "add", (30, 300))),  # the work that bounds the iterations
        (times(0.5, longer=0.5), (False, 2, "add", (15, 30))),
        (times(2, longer=2.4), (True, 2, "add", (30, 60))),  # and somewhat slower
        (times(1, longer=2), None),
        (times(1.5, longer=1.5), None),
        (times(4, longer=1.2), None),  # the same batch in four parts
        (times(2, longer=2, but=("add",)), None),  # some kernels come twice
        ({"other": LaunchedWork(10, 10)}, None),
        ({}, None),
    ],
)
def test_a_whole_factor_of_nearly_all_launches_is_more_work(
    other: dict[str, LaunchedWork], found: tuple[bool, int, str, tuple[int, int]] | None
) -> None:
    assert more_work(ONE, other) == found


@pytest.mark.parametrize(
    ("launches", "found", "same"),
    [
        ({"gemm": 10, "add": 30, "adam": 1}, (3, 3, 0), True),
        ({"gemm": 10, "add": 3, "adam": 1, "copy": 8}, (3, 2, 1), True),  # a part of the program has changed
        ({"gemm": 10.1, "add": 30.5, "adam": 1.1}, (3, 2, 1), True),
        ({"gemm": 20, "add": 60, "adam": 1}, (3, 1, 2), False),
        ({"gemm": 20, "add": 30, "adam": 5}, (3, 1, 1), False),
        ({"gemm": 9.3, "add": 28, "adam": 1}, (3, 1, 2), False),
        ({"gemm": 10}, (1, 1, 0), False),  # by chance
        ({"copy": 10}, (0, 0, 0), False),
    ],
)
def test_work_is_the_same_if_more_of_it_comes_equally_often_than_in_another_way(
    launches: dict[str, float], found: tuple[int, int, int], same: bool
) -> None:
    common = common_work(ONE, {name: LaunchedWork(number, 1) for name, number in launches.items()})
    assert (tuple(common), common.is_same) == ((*found, ()), same)


@pytest.mark.parametrize(
    ("launches", "pairs"),
    [
        ({"gemm": 10, "sum": 30.5, "lamb": 1}, (("add", "sum"), ("adam", "lamb"))),
        ({"gemm": 20, "sum": 30, "adam": 1}, ()),  # another kernel comes more often
        ({"gemm": 10, "sum": 20, "adam": 1}, ()),
        ({"gemm": 10, "sum": 30}, ()),
        ({"gemm": 10, "sum": 30, "lamb": 1, "copy": 1}, ()),
        ({"tensor": 10, "sum": 30, "lamb": 1}, ()),  # two programs that have nothing in common
    ],
)
def test_a_kernel_is_replaced_by_one_of_as_many_launches_where_all_others_are_equal(
    launches: dict[str, float], pairs: tuple[tuple[str, str], ...]
) -> None:
    common = common_work(ONE, {name: LaunchedWork(number, 1) for name, number in launches.items()})
    assert common.replaced == pairs
    if pairs:
        assert common.is_same


def test_iterations_that_a_replaced_kernel_marks_compare(tmp_path: Path) -> None:
    runs = [
        marked(tmp_path / f"{name}.sqlite", 2, ns, name, ("evolve", kernel))
        for name, ns, kernel in (("step", 50_000, "shared"), ("turn", 95_000, "global"))
    ]
    found = nsys2prv.compare(*runs)
    assert found.verdict.change == "rank slower"
    assert found.verdict.text.endswith(
        " in an iteration the only kernel or graph with the same name in both is launched equally often, and `global` "
        "as often as `shared`, which it replaces."
    )


@pytest.mark.parametrize(("every", "same"), [(4, True), (6, False)])
def test_work_is_not_the_same_if_less_than_half_of_it_comes_equally_often(every: int, same: bool) -> None:
    """As two kernels that most programs launch, in programs that have nothing to do with each other."""
    assert CommonWork(every, 2, 1).is_same == same


def marked(path: Path, every: int, ns: int = 50_000, name: str = "step", kernels: Sequence[str] = ("gemm",)) -> Path:
    """A run of 120 kernels of these names in turn, one each 100 us, with a range `step #` around so many each."""
    begins = [100_000 * n for n in range(120)]
    return export(
        path,
        NVTX_EVENTS=(
            "start end eventType globalTid text",
            [(at, at + every * 100_000 - 1000, 59, MAIN, f"{name} {n}") for n, at in enumerate(begins[::every])],
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start end globalTid nameId correlationId",
            [(at + 10, at + 5000, MAIN, "cudaLaunchKernel", n) for n, at in enumerate(begins, 1)],
        ),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            "start end deviceId streamId correlationId globalPid shortName demangledName",
            [
                (at + 9000, at + 9000 + ns, 0, 7, n, PROCESS, *[kernels[n % len(kernels)]] * 2)
                for n, at in enumerate(begins, 1)
            ],
        ),
    )


def test_ranges_around_ten_iterations_are_not_slower_than_those_around_one(tmp_path: Path) -> None:
    one, ten = marked(tmp_path / "one.sqlite", 1), marked(tmp_path / "ten.sqlite", 10)
    found = nsys2prv.compare(one, ten)
    assert found.verdict.change == "unknown"
    assert (
        "an iteration of B does the work of 10 iterations of A, 10 launches of gemm instead of 1;" in found.verdict.text
    )
    means = (
        found.per_iteration.filter(what="iteration, mean", name="total_ns").select("a", "b", "change_percent").row(0)
    )
    assert means == (99_000, 999_000, None)
    # Ten times 100 us, but for the end of the last one.
    assert "The work of 10 iterations of A takes 0.999 ms instead of 0.999 (-0.0 %) on average." in found.verdict.text
    other = "an iteration of A does the work of 10 iterations of B, 10 launches of gemm instead of 1;"
    assert other in nsys2prv.compare(ten, one).verdict.text


def test_iterations_of_other_marks_compare_if_they_do_the_same(tmp_path: Path) -> None:
    runs = [
        marked(tmp_path / f"{name}.sqlite", 2, ns, name, ("gemm", "add"))
        for name, ns in (("step", 50_000), ("turn", 95_000))
    ]
    found = nsys2prv.compare(*runs)
    assert found.verdict.change == "rank slower"
    assert found.verdict.text.endswith(
        " Iterations are found by 'step #' in A, by 'turn #' in B; in an iteration 2 of the 2 kernels and graphs with "
        "the same names in both are launched equally often."
    )
    assert found.per_iteration.filter(what="iteration, mean", name="idle_ns").height == 1


def test_iterations_of_other_marks_and_work_do_not_compare(tmp_path: Path) -> None:
    """What the runs did from begin to end is said in their place."""
    one = marked(tmp_path / "one.sqlite", 2, name="step", kernels=("gemm", "add"))
    other = marked(tmp_path / "other.sqlite", 3, name="turn", kernels=("gemm", "add"))
    found = nsys2prv.compare(one, other)
    known = "in an iteration none of the 2 kernels and graphs with the same names in both are launched equally often"
    assert found.verdict.change == "unknown"
    assert found.as_json()["findings"]["costs_compare"] is False
    assert f"'step #' in A, 'turn #' in B, and {known}; --iteration names an NVTX range" in found.verdict.text
    assert found.verdict.text.startswith(
        "In B the same 120 launches of 2 kernels and graphs take 6.000 ms instead of 6.000 (+0.0 %), and all from the "
        "first activity to the last 11.9 ms instead of 11.9 (+0.0 %). Whether that is chance cannot be told: the iter"
    )
    assert "the first" not in nsys2prv.compare(one, other, question=nsys2prv.Question("useful", "trace")).verdict.text


def test_runs_that_launch_other_work_are_compared_from_first_to_last_activity(tmp_path: Path) -> None:
    one = marked(tmp_path / "one.sqlite", 2, name="step", kernels=("gemm", "add"))
    other = marked(tmp_path / "other.sqlite", 5, name="turn", kernels=("gemm", "copy", "add"))
    assert nsys2prv.compare(one, other).verdict.text.endswith(
        " From the first activity to the last it takes 11.9 ms instead of 11.9 (+0.0 %), and in all of that none of "
        "the 2 kernels and graphs with the same names in both are launched equally often."
    )


@pytest.mark.parametrize(
    ("other", "names"),
    [
        ({"gemm": LaunchedWork(10, 50), "add": LaunchedWork(30, 20), "adam": LaunchedWork(1, 5)}, "gemm add adam"),
        # What was changed beside them takes little time in both.
        ({"gemm": LaunchedWork(10, 50), "add": LaunchedWork(3, 10)}, ""),
        ({"gemm": LaunchedWork(10, 50), "add": LaunchedWork(30, 20), "copy": LaunchedWork(1, 10)}, "gemm add"),
        ({"gemm": LaunchedWork(10, 50), "add": LaunchedWork(30, 20), "copy": LaunchedWork(1, 90)}, ""),
        ({}, ""),
    ],
)
def test_the_same_launches_are_those_of_most_of_the_time_of_both_runs(
    other: dict[str, LaunchedWork], names: str
) -> None:
    found = same_launches(ONE, other)
    assert " ".join(found.names if found else ()) == names
    if found:
        assert found.launches == sum(ONE[name].launches for name in found.names)
        assert (found.a, found.b) == tuple(sum(run[name].ns for name in found.names) for run in (ONE, other))


def test_an_iteration_with_the_same_work_may_be_slower(tmp_path: Path) -> None:
    runs = [marked(tmp_path / f"{ns}.sqlite", 1, ns) for ns in (50_000, 95_000)]
    assert nsys2prv.compare(*runs).verdict.change == "rank slower"


def test_more_ranks_are_not_more_work_of_an_iteration(gpt_ddp: list[Path]) -> None:
    found = nsys2prv.compare(gpt_ddp[0], gpt_ddp, anyway=True)
    assert "does the work of" not in found.verdict.text
    assert found.verdict.text.startswith("It cannot be told if B is slower: 3 and 3 steady iterations are too few")
