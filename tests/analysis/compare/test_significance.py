"""The test of significance between iterations of two runs, and conditions on a comparison."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from analysis_cases import Analysed

from nsys2prv.analysis.compare.compare_figures import figures_per_iteration
from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.conditions import condition_of, judge
from nsys2prv.analysis.compare.run_figures import RunFigures, run_figures
from nsys2prv.analysis.compare.significance import LEVEL, Change, least_iterations, significance
from nsys2prv.analysis.compare.stated_finding import StatedFinding
from nsys2prv.analysis.iterations.iteration_times import ITERATION
from nsys2prv.errors import UsageError

KEY = ["repeat", "iteration"]
# More would be against a level of 1 %: chance gives 4 or more of 100 in one case of fifty.
A_FEW = 3


def table(lengths: np.ndarray, computes: np.ndarray | None = None) -> pl.DataFrame:
    """ITERATION of times (ns), a row an iteration and a column a rank."""
    iterations, ranks = lengths.shape
    (number, rank), slowest = np.indices(lengths.shape), lengths.max(axis=1)
    columns = {
        "rank": rank.ravel(),
        "iteration": number.ravel(),
        "steady": [True] * lengths.size,
        # One iteration begins when the slowest rank has done the one before.
        "device_start_ns": np.repeat(np.cumsum(slowest) - slowest, ranks),
        "device_ns": lengths.ravel(),
        "compute_ns": (lengths if computes is None else computes).ravel(),
    }
    missing = {name: pl.lit(0, kind) for name, kind in ITERATION.items() if name not in columns}
    made = pl.DataFrame(columns).with_columns(**missing).cast({n: k for n, k in ITERATION.items() if n != "steady"})
    assert made.height == iterations * ranks
    return made.select(*ITERATION)


def compared(a: pl.DataFrame, b: pl.DataFrame, patterns: tuple[str, str] = ("step #", "step #")) -> Comparison:
    """A comparison of runs with these ITERATION and patterns of iterations."""
    runs = [
        RunFigures(name, ("app",), 1, 1, "communication", "steady", run["iteration"].n_unique(), pattern, {}, run)
        for name, run, pattern in zip("ab", (a, b), patterns, strict=True)
    ]
    return Comparison(*runs)


def random(iterations: int, ranks: int, seed: int) -> np.ndarray:
    """Times around 10 ms with a spread of 1 %, some of it of all ranks of an iteration."""
    chance = np.random.default_rng(seed)
    spread = 1 + 0.007 * chance.standard_normal((iterations, 1)) + 0.007 * chance.standard_normal((iterations, ranks))
    return np.rint(1e7 * spread)


def with_outlier(times: np.ndarray) -> np.ndarray:
    """The times with one iteration three times as long."""
    return np.concatenate([3 * times[:1], times[1:]])


def halves(run: pl.DataFrame, seed: int) -> list[pl.DataFrame]:
    keys = run.filter("steady").select(KEY).unique(maintain_order=True)
    order = np.random.default_rng(seed).permutation(keys.height)
    parts = order[: keys.height // 2], order[keys.height // 2 :]
    return [run.join(keys[part], on=KEY, maintain_order="left") for part in parts]


def false_alarms(run: pl.DataFrame) -> tuple[int, int]:
    """Of 100 random halves: how often an iteration, and how often a rank, has changed significantly."""
    found = [significance(*halves(run, seed)) for seed in range(100)]
    return sum(bool(f.iteration and f.iteration.significant) for f in found), sum(
        any(rank.significant for rank in f.ranks) for f in found
    )


def test_halves_of_many_iterations_hardly_ever_differ() -> None:
    of_iteration, of_ranks = false_alarms(table(with_outlier(random(40, 4, seed=1))))
    assert of_iteration <= A_FEW
    assert of_ranks <= A_FEW


@pytest.mark.parametrize("name", ["gpt-ddp", "mpi-halo"])
def test_halves_of_a_run_hardly_ever_differ(name: str, analysed: Analysed) -> None:
    of_iteration, of_ranks = false_alarms(analysed(name, window="steady").iterations)
    assert of_iteration <= A_FEW
    assert of_ranks <= A_FEW


def test_equal_runs_of_few_iterations_hardly_ever_differ() -> None:
    """Also where one rank varies twice as much as the others."""
    runs = [table(np.full((3, 4), 1e8), 1e7 + (random(3, 4, n) - 1e7) * [2, 1, 1, 1]) for n in range(200)]
    found = [significance(a, b).ranks for a, b in zip(runs[::2], runs[1::2], strict=True)]
    assert sum(any(rank.significant for rank in ranks) for ranks in found) <= A_FEW


def test_p_is_as_often_below_a_value_as_that_value_says() -> None:
    """Of 400 pairs of equal runs: 5 % have a p of at most 0.05, within three standard deviations."""
    pairs = [significance(table(random(8, 1, 2 * n)), table(random(8, 1, 2 * n + 1))).iteration for n in range(400)]
    below = sum(one is not None and one.p is not None and one.p <= 0.05 for one in pairs)
    assert 7 <= below <= 33


def test_the_p_of_runs_that_do_not_overlap_is_that_of_two_arrangements() -> None:
    times = np.arange(1, 11, dtype=np.float64)[:, None] * 1e6
    found = significance(table(times[:5]), table(times[5:])).iteration
    assert found == Change(None, 3e6, 8e6, pytest.approx(2 / 252))
    assert found.significant


@pytest.mark.parametrize(("iterations", "ranks"), [(12, 1), (12, 2), (3, 4)])
def test_two_runs_have_one_p_in_both_orders(iterations: int, ranks: int) -> None:
    """Random arrangements of the labels made a p of 0.034 one of 0.036 in the other order, on each side of a level."""
    a, b = (table(random(iterations, ranks, seed)) for seed in (1, 2))
    found, reverse = significance(a, b), significance(b, a)
    assert found.iteration
    assert reverse.iteration
    assert found.iteration.p == reverse.iteration.p
    assert [one.p for one in found.ranks] == [one.p for one in reverse.ranks]


def test_the_own_time_of_a_rank_is_not_said_to_be_compute() -> None:
    """Where the launches of kernels are unknown, an iteration has no time of devices."""
    times = np.arange(1, 11, dtype=np.float64)[:, None] * 1e6
    runs = [table(times[:5]), table(times[5:])]
    without = [run.with_columns(pl.lit(0, pl.Int64).alias("compute_ns")) for run in runs]
    assert [one.subject for one in significance(*runs).ranks] == ["rank 0 computes"]
    assert [one.subject for one in significance(*without).ranks] == ["rank 0's own time is"]


@pytest.mark.parametrize(("a", "b", "told"), [(4, 4, False), (5, 5, True), (2, 20, True), (1, 100, False)])
def test_too_few_iterations_tell_nothing(a: int, b: int, told: bool) -> None:
    found = significance(table(np.full((a, 1), 1e6)), table(np.full((b, 1), 2e6))).iteration
    assert found is not None
    assert (found.p is not None, found.significant) == (told, told)


def test_five_iterations_tell() -> None:
    assert least_iterations() == 5


def test_a_slower_iteration_is_found() -> None:
    found = significance(table(with_outlier(random(20, 4, 3))), table(np.rint(1.05 * random(20, 4, 4)))).iteration
    assert found is not None
    assert found.significant
    assert found.share == pytest.approx(0.05, abs=0.01)


def test_a_small_difference_does_not_count_however_sure_it_is() -> None:
    found = significance(table(np.full((50, 1), 1e7)), table(np.full((50, 1), 1.002e7))).iteration
    assert found is not None
    assert found.p is not None
    assert found.p <= LEVEL
    assert not found.significant


def test_a_small_difference_that_is_sure_is_called_real() -> None:
    """Its p says that the spread of iterations does not explain it, and so does the verdict."""
    found = compared(table(np.full((50, 1), 1e8)), table(np.full((50, 1), 1.002e8)))
    assert found.verdict.change == "none"
    times = "the median iteration takes 100.2 ms instead of 100.0 (+0.2 %, real but below 0.5 %: p < 0.001)."
    assert found.verdict.text == f"No difference that counts: {times}"
    (judged,) = judge(found, [condition_of("iteration > 0.1%")])
    assert judged.holds is False
    assert judged.text.endswith("(real but below 0.5 %)")


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ((40, 40, 40, 40, 40, 120), "B is probably faster, but that is not proven: the median iteration takes 40.0"),
        # It is as rare, and small.
        ((97, 97, 97, 97, 97, 120), "No difference that the spread of iterations does not explain"),
        # The average is longer.
        ((40, 40, 40, 40, 40, 500), "It is open if B is slower or faster: an iteration takes 116.667 ms on average"),
        # Chance makes it often.
        ((40, 40, 40, 120, 120, 120), "No difference that the spread of iterations does not explain"),
    ],
)
def test_a_large_difference_that_chance_seldom_makes_is_not_called_none(times: tuple[int, ...], told: str) -> None:
    """Exit codes and conditions go by the level all the same."""
    before = np.array([98, 99, 100, 100, 101, 102])[:, None] * 1e6
    found = compared(table(before), table(np.array(times)[:, None] * 1e6))
    assert found.verdict.change == "none"
    assert found.verdict.text.startswith(told)
    if "probably" in told:
        assert f"p = {found.significance.iteration.p:.3f}; proven from {LEVEL:g} on" in found.verdict.text
    (judged,) = judge(found, [condition_of("iteration < -1%")])
    assert judged.holds is False


@pytest.mark.parametrize(
    ("change", "told", "why"),
    [
        (1.002, "No difference that counts", "+0.2 %, real but below 0.5 %: p < 0.001"),
        (1, "No difference that the spread of iterations does not explain", "+0.0 %, not significant: p = 1.000"),
    ],
)
def test_the_verdict_on_a_slower_rank_says_first_that_the_iteration_did_not_change(
    change: float, told: str, why: str
) -> None:
    computes = np.full((20, 3), 1e7) + np.arange(20)[:, None]
    same = np.full_like(computes, 1e8)
    found = compared(table(same, computes), table(same * change, computes * [1, 1.08, 1]))
    assert found.verdict.change == "rank slower"
    times = f"the median iteration takes {100 * change:.1f} ms instead of 100.0 ({why})."
    alone = "But rank 1 computes 10.8 ms instead of 10.0 (+8.0 %, significant: p < 0.001) an iteration"
    assert found.verdict.text == f"{told}: {times} {alone}: 0.8 % of the iteration."
    both = compared(table(same, computes), table(same, computes * [1, 1.08, 1.04]))
    assert both.verdict.text.endswith(" an iteration: 0.8 % of the iteration at most.")


@pytest.mark.parametrize(("change", "told"), [(1.2, 1), (1, 0)])
def test_costs_that_spread_with_iterations_are_no_change_where_these_take_as_long(change: float, told: int) -> None:
    times = np.full((20, 1), 1e7) + np.arange(20)[:, None]
    found = compared(table(times), table(times * change))
    costs = (StatedFinding("launch-bound", "high", "Launch-bound", ns) for ns in (5_000_000, 4_000_000))
    found.a, found.b = (run._replace(findings=(one,)) for run, one in zip((found.a, found.b), costs, strict=True))
    assert len(found.changed_findings.changed) == told


@pytest.mark.parametrize("iterations", [3, 20])
def test_one_slower_rank_is_found_among_others(iterations: int) -> None:
    """Also with iterations too few for a test of each rank by itself."""
    run = random(iterations, 4, 5)
    slower = np.rint(random(iterations, 4, 6) * [1, 1, 1.08, 1])
    same = np.full_like(run, 1e8)
    found = significance(table(same, run), table(same, slower)).ranks
    assert [one.rank for one in found if one.significant] == [2]


def test_nothing_is_said_of_ranks_that_only_two_iterations_show() -> None:
    times = random(2, 2, 7)
    found = significance(table(times), table(np.rint(times * [1, 1.5]))).ranks
    assert [one.p for one in found] == [None, None]


@pytest.mark.parametrize(
    "text", ["iteration", "iteration > 3", "> 3%", "iteration >= 3%", "iteration > x%", "iteration > 3 hours"]
)
def test_a_condition_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be read; a condition is NAME > N%"):
        condition_of(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("iteratoin > 3%", "did you mean 'iteration'?"),
        ("GEM > 3%", "did you mean 'GEMM'?"),
        ("parallel < -1 ms", "parallel is no time"),
    ],
)
def test_a_condition_on_no_figure_is_refused(text: str, said: str, analysed: Analysed) -> None:
    run = run_figures(analysed("gpt-ddp", window="steady"), "gpt-ddp")
    with pytest.raises(UsageError) as refused:
        judge(Comparison(run, run), [condition_of(text)])
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("parallel < 1%", True),
        ("parallel < -2%", False),
        ("exposed > 0.5 ms", False),
        ("exposed < 0.5ms", True),
        ("GEMM > -1us", True),
        ("memory > 1%", False),
        ("idle > 1%", False),
        ("compute > 1%", False),
        ("iteration > 1%", None),
    ],
)
def test_a_condition_on_a_run_beside_itself(text: str, holds: bool | None, analysed: Analysed) -> None:
    run = run_figures(analysed("gpt-ddp", window="steady"), "gpt-ddp")
    (judged,) = judge(Comparison(run, run), [condition_of(text)])
    assert judged.holds is holds, judged.text


USUAL = table(np.full((10, 2), 1e7))
# Rank 1 alone, and iterations of which rank 0 has the first half and rank 1 the others, or the last two with it.
ALONE = USUAL.filter(pl.col("rank") == 1)
IN_TURNS = USUAL.filter((pl.col("iteration") < 5) == (pl.col("rank") == 0))
TWO = USUAL.filter((pl.col("rank") == 0) | (pl.col("iteration") >= 8))


@pytest.mark.parametrize(
    ("text", "a", "b", "reason"),
    [
        ("compute > 1%", USUAL.filter(pl.col("rank") == 0), ALONE, "the runs share no rank; compare runs of the same"),
        (
            "compute > 1%",
            USUAL,
            IN_TURNS,
            "10 and 0 steady iterations of all ranks that the runs share are too few; record 5",
        ),
        (
            "compute > 1%",
            TWO,
            USUAL,
            "2 and 10 steady iterations of all ranks that the runs share are too few; record 5",
        ),
        ("compute > 1%", USUAL[:6], USUAL[:6], "3 and 3 steady iterations are too few; record 5 or more of each run"),
        ("iteration > 1%", USUAL[:6], USUAL[:6], "3 and 3 steady iterations are too few; record 5 or more of each run"),
        ("iteration > 1%", USUAL.clear(), USUAL, "no steady iterations in A; --iteration names their NVTX range"),
    ],
)
def test_what_cannot_be_told_has_its_own_reason(text: str, a: pl.DataFrame, b: pl.DataFrame, reason: str) -> None:
    (judged,) = judge(compared(a, b), [condition_of(text)])
    assert judged.holds is None
    assert judged.text.startswith(f"{text}: cannot be told, {reason}")


@pytest.mark.parametrize("name", ["iteration", "compute"])
def test_iterations_of_other_ranges_are_no_lack_of_iterations(name: str) -> None:
    found = compared(USUAL, USUAL, ("step #", "epoch #"))
    (judged,) = judge(found, [condition_of(f"{name} > 1%")])
    reason = (
        "the iterations are of other work, 'step #' in A, 'epoch #' in B; --iteration names an NVTX range of both, and "
        "--window device compares without iterations"
    )
    assert judged == (judged.condition, None, f"{name} > 1%: cannot be told, {reason}")
    assert found.verdict.text == f"It cannot be told if B is slower: {reason}."


@pytest.mark.parametrize("unit", ["%", "ns", "us", "ms", "s"])
def test_the_advice_names_all_units(unit: str) -> None:
    assert condition_of(f"iteration > 3 {unit}").unit == unit
    with pytest.raises(UsageError, match=rf"with.*[ ,]{unit}[ ,]"):
        condition_of("iteration")


def test_sums_of_iterations_of_other_work_have_no_change() -> None:
    """An efficiency compares whatever the iterations are."""
    rows = [
        ("window", "duration_ns", 10.0, 4.0),
        ("kernel, total_ns", "k", 6.0, 2.0),
        ("efficiency", "parallel", 0.5, 0.4),
    ]
    table = pl.DataFrame(rows, schema=["what", "name", "a", "b"], orient="row")
    alike, other = (figures_per_iteration(table, (2, 1), same) for same in (True, False))
    assert alike["change_percent"].to_list() == pytest.approx([-20, -100 / 3, -20])
    assert other["change_percent"].to_list()[:2] == other["difference"].to_list()[:2] == [None, None]
    assert other["change_percent"][2] == pytest.approx(-20)
    assert other["a"].to_list() == [5.0, 3.0, 0.5]
