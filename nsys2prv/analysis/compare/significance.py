"""A test of significance for the difference between the iterations of two runs.

Iterations are ranked over both runs (Mann and Whitney, Ann. Math. Stat. 18, 1947), and the labels of the runs permuted
(Good, Permutation, Parametric and Bootstrap Tests of Hypotheses, 2005): nothing is assumed of the distribution, and one
long iteration counts no more than its place in the order. Ranks are tested together by the largest statistic (Westfall
and Young, Resampling-Based Multiple Testing, 1993), so that many ranks do not make a difference likelier.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.analysis.compare.average import Average, average
from nsys2prv.analysis.iterations.iteration_lengths import iteration_lengths
from nsys2prv.model.units import change_text

# A difference counts if chance makes as large a one this rarely, and if it is this large: clocks of GPUs, which follow
# temperature and power, move runs by some tenths of a percent.
LEVEL, LEAST_CHANGE = 0.01, 0.005
# Below the first one a difference of the second or more is probable, though not proven.
PROBABLE_LEVEL, LEAST_PROBABLE_CHANGE = 0.1, 0.05
# Level of the test for few iterations: it takes ranks to vary alike. Where one rank varies four times as much as the
# others, chance made 8 % of comparisons significant at a level of 0.01, and 2 % at this one.
STRICT_LEVEL = 0.001
# All arrangements are tried if there are no more than this, else so many at random, fewer of many iterations.
ARRANGEMENTS, LEAST_ARRANGEMENTS, LABELS = 9_999, 999, 20_000_000
# Labels at once in memory.
BATCH = 2_000_000
SEED = 20_240_229
# With fewer ranks the others do not show how much a rank varies.
LEAST_RANKS = 3
TOLERANCE = 1e-9
_KEY = ["repeat", "iteration"]

Floats = npt.NDArray[np.float64]
Statistics = Callable[[int, np.random.Generator], Floats]


class Change(NamedTuple):
    """A time (ns) in both runs: medians over the iterations.

    `rank`: the rank, None for an iteration of all ranks; `p`: the probability that chance alone makes as large a
    difference, None if there are too few iterations to tell; `level`: the p from which on the difference counts;
    `computing`: the times are those in which the rank computes on devices, else its own time in an iteration.
    """

    rank: int | None
    a: float
    b: float
    p: float | None
    level: float = LEVEL
    computing: bool = True

    @property
    def subject(self) -> str:
        """Return the begin of a sentence that goes on with the time: whose it is, and of what."""
        if self.rank is None:
            return "the median iteration takes"
        return f"rank {self.rank} computes" if self.computing else f"rank {self.rank}'s own time is"

    @property
    def share(self) -> float:
        """Return the difference as a fraction of a; 0 where a is 0."""
        return (self.b - self.a) / self.a if self.a else 0.0

    @property
    def difference(self) -> str:
        """Return the difference in percent of a, or how many times as long b takes, as text."""
        return change_text(self.share) if self.a else "from 0"

    @property
    def real(self) -> bool:
        """Return True if chance does not explain the difference, however small it is."""
        return self.p is not None and self.p <= self.level

    @property
    def significant(self) -> bool:
        """Return True if chance does not explain the difference and it is large enough to matter."""
        return self.real and (not self.a or abs(self.share) >= LEAST_CHANGE)

    @property
    def probable(self) -> bool:
        """Return True if chance seldom makes a large difference like this, though too often for a proof."""
        seldom = self.p is not None and self.level < self.p < PROBABLE_LEVEL
        return seldom and abs(self.share) >= LEAST_PROBABLE_CHANGE


class Significance(NamedTuple):
    """The changes from one run to another.

    `iterations`: their number in both runs; `iteration`: the change of an iteration, None if a run has none; `ranks`:
    the change of each rank's compute time in an iteration (own time, if no device computes); `average`: None if a run
    has no iteration.
    """

    iterations: tuple[int, int]
    iteration: Change | None
    ranks: tuple[Change, ...]
    average: Average | None = None


def significance(a: pl.DataFrame, b: pl.DataFrame) -> Significance:
    """Test the steady iterations of two runs, each as ITERATION of all of them."""
    lengths = (iteration_lengths(a), iteration_lengths(b))
    counts = (len(lengths[0]), len(lengths[1]))
    if not all(counts):
        return Significance(counts, None, ())
    (p,) = _p_values(_in_one_order([one[:, None] for one in lengths])) or [None]
    iteration = Change(None, float(np.median(lengths[0])), float(np.median(lengths[1])), p)
    ranks = _ranks(*(run.filter("steady") for run in (a, b)))
    return Significance(counts, iteration, ranks, average(lengths[0], lengths[1], enough=p is not None))


def least_iterations() -> int:
    """Return the number of iterations of each run from which a difference can be told."""
    return next(n for n in range(1, 100) if _can_tell(n, n))


def shared_ranks(a: pl.DataFrame, b: pl.DataFrame) -> list[int]:
    """Return the ranks that two runs' ITERATION both have."""
    return sorted({*a["rank"]} & {*b["rank"]})


def whole_iterations(iterations: pl.DataFrame, ranks: list[int]) -> pl.DataFrame:
    """Return ITERATION of these ranks, of the iterations that all of them have, in order of iteration and rank."""
    own = iterations.filter(pl.col("rank").is_in(ranks)).sort(*_KEY, "rank")
    return own.filter(pl.len().over(_KEY) == len(ranks))


def _ranks(a: pl.DataFrame, b: pl.DataFrame) -> tuple[Change, ...]:
    """Test the compute times of the ranks that both runs have."""
    ranks = shared_ranks(a, b)
    column = "compute_ns" if any(run["compute_ns"].sum() for run in (a, b)) else "own_ns"
    times = [_by_rank(run, ranks, column) for run in (a, b)]
    if not ranks or not all(len(one) for one in times):
        return ()
    ordered = _in_one_order(times)
    level, found = LEVEL, _p_values(ordered)
    if not found:
        level, found = STRICT_LEVEL, _p_values_over_ranks(ordered) or [None] * len(ranks)
    medians = [np.median(one, axis=0).tolist() for one in times]
    computing = column == "compute_ns"
    of_ranks = zip(ranks, *medians, found, strict=True)
    return tuple(Change(rank, old, new, p, level, computing) for rank, old, new, p in of_ranks)


def _by_rank(iterations: pl.DataFrame, ranks: list[int], column: str) -> Floats:
    """Return an array of the iterations that all ranks have, a column a rank."""
    return whole_iterations(iterations, ranks)[column].to_numpy().astype(np.float64).reshape(-1, max(len(ranks), 1))


def _in_one_order(times: list[Floats]) -> list[Floats]:
    """Return the times of two runs in an order of their own, so that random arrangements give both orders one p."""
    return sorted(times, key=lambda one: (len(one), one.tobytes()))


def _can_tell(a: int, b: int) -> bool:
    return 2 / comb(a + b, a) <= LEVEL


def _p_values(times: list[Floats]) -> list[float | None]:
    """Return a p-value a column of both runs' times, a row an iteration; empty if there are too few rows.

    Rows are permuted whole, for the ranks of an iteration are slow or fast together.
    """
    first, count = len(times[0]), len(times[0]) + len(times[1])
    if not _can_tell(first, count - first):
        return []
    columns = [pl.Series(one).rank("average").to_numpy() for one in np.concatenate(times).T]
    scores = np.stack(columns, axis=1) - (count + 1) / 2
    spread = scores.std(axis=0)
    scores = np.divide(scores, spread, out=np.zeros_like(scores), where=spread > 0)
    observed = np.abs(scores[:first].sum(axis=0))
    if comb(count, first) <= ARRANGEMENTS:
        members = np.array([*combinations(range(count), first)])
        return _exceeding(observed, np.abs(scores[members].sum(axis=1)).max(axis=1), exact=True)

    def statistics(tries: int, random: np.random.Generator) -> Floats:
        labels = random.permuted(np.tile(np.arange(count) < first, (tries, 1)), axis=1)
        largest: Floats = np.abs(labels.astype(np.float64) @ scores).max(axis=1)
        return largest

    return _exceeding(observed, _sampled(statistics, count), exact=False)


def _p_values_over_ranks(times: list[Floats]) -> list[float | None]:
    """Return a p-value a rank, of few iterations of several ranks; empty if there are too few ranks.

    What a time is above the usual one of its rank and of its iteration is permuted over ranks and iterations (residuals
    of a two-way layout; Good, 2005, chapter 7). This takes ranks to vary alike.
    """
    first, ranks = len(times[0]), times[0].shape[1]
    both = np.concatenate(times)
    if ranks < LEAST_RANKS or not (both > 0).all():
        return []
    excess = np.log(both) - np.median(np.log(both), axis=0)
    excess -= np.median(excess, axis=1)[:, None]
    usual = float(np.median(_spreads(excess[None], first)))

    def statistics(tries: int, random: np.random.Generator) -> Floats:
        shuffled = random.permuted(np.tile(excess.ravel(), (tries, 1)), axis=1).reshape(tries, *excess.shape)
        largest: Floats = _studentized(shuffled, first, usual).max(axis=1)
        return largest

    observed = _studentized(excess[None], first, usual)[0]
    return _exceeding(observed, _sampled(statistics, excess.size), exact=False)


def _studentized(excess: Floats, first: int, usual: float) -> Floats:
    """Return the difference of the runs' means by their spread: an array (arrangement, rank).

    `excess`: (arrangement, iteration, rank), the first iterations of run a; `usual`: the usual spread, which keeps a
    rank that hardly varies from weighing much (Tusher, Tibshirani and Chu, PNAS 98, 2001).
    """
    means = excess[:, first:].mean(axis=1) - excess[:, :first].mean(axis=1)
    spreads = _spreads(excess, first) + usual
    found: Floats = np.divide(np.abs(means), spreads, out=np.zeros_like(means), where=spreads > 0)
    return found


def _spreads(excess: Floats, first: int) -> Floats:
    """Return the standard deviation of each rank within the runs: an array (arrangement, rank)."""
    within = [run - run.mean(axis=1, keepdims=True) for run in (excess[:, :first], excess[:, first:])]
    spreads: Floats = np.sqrt((np.concatenate(within, axis=1) ** 2).mean(axis=1))
    return spreads


def _sampled(statistics: Statistics, size: int) -> Floats:
    """Return the statistics of random arrangements of some values, in batches that fit in memory."""
    random = np.random.default_rng(SEED)
    wanted = int(np.clip(LABELS // size, LEAST_ARRANGEMENTS, ARRANGEMENTS))
    batch = max(1, BATCH // size)
    return np.concatenate([statistics(min(batch, wanted - done), random) for done in range(0, wanted, batch)])


def _exceeding(observed: Floats, arranged: Floats, exact: bool) -> list[float | None]:
    """Return for each statistic the share of arrangements with as large a one. Random ones count the observed, too."""
    more = (arranged[:, None] >= observed - TOLERANCE).sum(axis=0)
    shares = more / len(arranged) if exact else (more + 1) / (len(arranged) + 1)
    return [float(share) for share in shares]
