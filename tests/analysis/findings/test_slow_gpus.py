"""GPUs that are slow, and GPUs that processes share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl
import pytest
from programs import UNIT, analysis_of, findings_of, program

from nsys2prv.analysis.facts.case import case_of
from nsys2prv.analysis.findings.slow_gpu import slow_gpu
from nsys2prv.analysis.frames import Sampled
from nsys2prv.intervals.spans import Times


@pytest.mark.parametrize(
    ("pauses", "named"),
    [
        ({0: 250, 2: 250, 3: 250, 5: 255, 7: 248, 8: 250}, True),
        ({0: 100, 2: 250, 3: 180, 5: 400, 7: 320, 8: 60}, False),
        ({0: 250, 2: 250, 3: 250}, False),
    ],
    ids=["alike", "of any length", "three"],
)
def test_a_gpu_whose_kernels_pause_for_time_slices_is_named(pauses: dict[int, int], named: bool) -> None:
    """Now the one and now the other of two kernels takes longer by 2.5 ms."""
    lines = {
        f"step{n}_rank0": f"k:a:k @0 5-{15 + pause}, k:b:k @20 500-510"
        if n % 2
        else f"k:a:k @0 5-15, k:b:k @20 500-{510 + pause}"
        for n, pause in pauses.items()
    }
    found = findings_of(program("0| k:a:k @0 5-15, k:b:k @20 500-510", steps=11, **lines))
    assert ("shared-gpu" in found) == named
    if named:
        assert (
            "Another process shares GPU 0 of host in time slices: the kernels of rank 0 pause once in 2 iterations, "
            "most for 2.50 ms, in all 1.37 ms an iteration" in found["shared-gpu"].title
        )
        assert found["shared-gpu"].evidence["slice_ns"] == 2_500_000
        assert found["shared-gpu"].cost_ns / 1e6 == pytest.approx(sum(pauses.values()) / 100 / 11, rel=0.01)


@pytest.mark.parametrize(
    ("pauses", "kernels", "named"),
    [((190, 250), 6, True), ((190, 250), 3, False), ((60, 400), 6, False)],
    ids=["two lengths", "of few kernels", "of any length"],
)
def test_pauses_of_two_lengths_are_time_slices_if_they_stop_many_kernels(
    pauses: tuple[int, int], kernels: int, named: bool
) -> None:
    def line(slow: int = -1, pause: int = 0) -> str:
        every = range(kernels)
        return ", ".join(f"k:a{n}:k @0 {5 + 50 * n}-{15 + 50 * n + (pause if n == slow else 0)}" for n in every)

    lines = {f"step{n}_rank0": line(n % kernels, pauses[n % 2]) for n in range(12)}
    found = findings_of(program(f"0| {line()}", steps=24, **lines))
    assert ("shared-gpu" in found) == named
    if named:
        assert found["shared-gpu"].evidence["kernels"] == kernels


@pytest.mark.parametrize(("steps", "often"), [(150, "once in 25 iterations"), (8, "6 times in 8 iterations")])
def test_rare_pauses_are_told_by_the_iterations_between_them(steps: int, often: str) -> None:
    work = "k:a:k @0 5-{0}, k:b:k @20 500-{1}, k:a:k @30 810-820, k:b:k @40 820-830"
    lines = {f"step{n}_rank0": work.format(*((265, 510) if n % 2 else (15, 760))) for n in range(6)}
    found = findings_of(program(f"0| {work.format(15, 510)}", steps=steps, every=900, **lines))
    assert f"the kernels of rank 0 pause {often}, " in found["shared-gpu"].title


def test_a_shared_gpu_costs_what_others_wait_for() -> None:
    """Rank 0 pauses for 2.5 ms in half of the iterations, of which rank 1 computes 1 ms itself."""

    def line(rank: int, paused: str = "", pause: int = 0) -> str:
        first = 15 + (pause if paused == "a" else 0)
        second = first + 10 + (pause if paused == "b" else 0)
        own, last = f"k:a:k @0 5-{first}, k:b:k @0 {first}-{second}", max(second, 125)
        more, ready = (", k:c:k @0 25-125", 125) if rank else ("", second)
        return f"{own if rank == 0 else 'k:a:k @0 5-15, k:b:k @0 15-25'}{more}, n @10 {ready}-{last + 5}"

    slow = {f"step{n}_rank{rank}": line(rank, "ab"[n % 4 // 2], 250) for n in range(0, 12, 2) for rank in (0, 1)}
    for n in range(0, 12, 2):
        slow[f"step{n}_rank1"] = slow[f"step{n}_rank1"].replace("-130", "-280")
    found = findings_of(program(f"0| {line(0)}\n1| {line(1)}", steps=12, **slow))["shared-gpu"]
    assert "most for 2.50 ms, in all 1.25 ms an iteration, of which 0.38 ms can be saved" in found.title
    assert found.cost_ns == pytest.approx(0.5 * 0.75e6)


@pytest.mark.parametrize(("steps", "named"), [(11, False), (4, True)], ids=["in each iteration", "few iterations"])
def test_kernels_that_sum_up_more_at_one_place_do_not_pause(steps: int, named: bool) -> None:
    """Products of one name and grid: one of four takes 2.5 ms longer in each iteration. Few iterations cannot tell."""
    line = ", ".join(f"k:{n}:k @0 {b + x}-{b + x + 9}" for n, b in (("a", 5), ("b", 400)) for x in (0, 10, 20))
    long = ", ".join(f"k:{n}:k @0 {b}-{b + 259}" for n, b in (("a", 40), ("b", 435)))
    assert ("shared-gpu" in findings_of(program(f"0| {line}, {long}", steps=steps))) == named


@pytest.mark.parametrize(("share", "named"), [(0, False), (400, True)])
def test_pauses_of_a_shared_gpu_are_no_unequal_share(share: int, named: bool) -> None:
    """Rank 0's kernels pause now and then, and others wait. Where it also computes longer, that is said, too."""

    def line(rank: int, pauses: tuple[int, int] = (0, 0)) -> str:
        first, second = pauses if rank == 0 else (0, 0)
        ends = [15 + first, 25 + first + second, 125 + first + second + (0 if rank else share)]
        last = 130 + sum(pauses) + share
        kernels = [f"k:{name}:k @0 {x}-{y}" for name, x, y in zip("abc", [5, *ends], ends, strict=False)]
        return ", ".join([*kernels, f"n @10 {ends[-1]}-{last}", f"wait 20-{last + 1}"])

    slow = {n: (250, 0) if n % 2 else (0, 250) for n in (1, 2, 4, 5, 7, 8)}
    lines = {f"step{n}_rank{rank}": line(rank, pauses) for n, pauses in slow.items() for rank in (0, 1)}
    found = findings_of(program(f"0| {line(0)}\n1| {line(1)}", steps=11, **lines))
    assert found["shared-gpu"].ranks == (0,)
    assert ("imbalance" in found) == named


def test_processes_on_one_gpu_share_it_whatever_the_length_of_pauses() -> None:
    """Only rank 0 loses time: the other one's kernels always take as long."""
    pauses = {0: 100, 2: 250, 3: 180, 5: 250, 7: 320, 8: 60}
    lines = {f"step{n}_rank0": f"k:a:k @0 5-{15 + pause}, k:b:k @20 500-510" for n, pause in pauses.items() if n % 2}
    lines |= {f"step{n}_rank0": f"k:a:k @0 5-15, k:b:k @20 500-{510 + p}" for n, p in pauses.items() if not n % 2}
    run = program("0| k:a:k @0 5-15, k:b:k @20 500-510\n1| k:c:k @0 5-500", steps=11, **lines)
    assert "shared-gpu" not in findings_of(run)
    shared = findings_of(run._replace(work=run.work.with_columns(device=pl.lit(0, pl.Int64))))["shared-gpu"]
    assert shared.title == (
        "Ranks 0 and 1 share GPU 0 of host in time slices: their kernels pause once in 2 iterations, most for "
        "2.15 ms, of which one loses 1.05 ms an iteration"
    )
    assert shared.cost_ns / 1e6 == pytest.approx(sum(pauses.values()) / 100 / 11, rel=0.01)


@pytest.mark.parametrize(("slower", "named"), [(300, True), (206, False)])
def test_a_gpu_on_which_all_kernels_take_longer_is_named(slower: int, named: bool) -> None:
    """Three kernels of one grid take 2 ms on rank 0; rank 1 is late by all of them."""
    others = ", ".join(f"k:{name}:k @0 {5 + 200 * n}-{205 + 200 * n}" for n, name in enumerate("abc"))
    slow = ", ".join(f"k:{name}:k @0 {5 + slower * n}-{5 + slower * (n + 1)}" for n, name in enumerate("abc"))
    end = 5 + 3 * slower
    found = findings_of(
        program(f"0| {others}, n @10 605-{end + 5}, wait 20-{end + 6}\n1| {slow}, n @10 {end}-{end + 5}")
    )
    if not named:
        assert "slow-gpu" not in found
        return
    assert next(reversed(found)) == "slow-gpu"
    assert (found["slow-gpu"].ranks, found["slow-gpu"].severity) == ((1,), "high")
    assert "takes 1.50 times as long as its peers" in found["slow-gpu"].title
    assert found["slow-gpu"].cost_ns / 1e6 == pytest.approx(3.0)


def test_a_rank_with_other_input_is_no_slow_gpu() -> None:
    """A larger batch launches one kernel under another name; the others take longer under the same one."""
    first = ", ".join(f"k:{name}:k @0 {5 + 200 * n}-{205 + 200 * n}" for n, name in enumerate("abcd"))
    second = ", ".join(f"k:{name}:k @0 {5 + 300 * n}-{5 + 300 * (n + 1)}" for n, name in enumerate("abce"))
    found = findings_of(
        program(f"0| {first}, n @10 805-1210, wait 20-1211\n1| {second}, n @10 1205-1210, wait 20-1211")
    )
    assert next(reversed(found)) == "imbalance"
    assert "slow-gpu" not in found


def test_a_kernel_that_takes_far_longer_is_no_slow_gpu() -> None:
    """One of four kernels takes 6 ms in place of 0.5, most of what rank 1 computes, and the others as long."""
    usual = [f"k:{name}:k @0 {5 + 50 * n}-{55 + 50 * n}" for n, name in enumerate("abcd")]
    lines = {0: f"{', '.join(usual)}, n @10 205-760", 1: f"{', '.join(usual[:3])}, k:d:k @0 155-755, n @10 755-760"}
    found = findings_of(program("\n".join(f"{rank}| {line}, wait 20-761" for rank, line in lines.items())))
    assert "imbalance" in found
    assert "slow-gpu" not in found


@pytest.mark.parametrize("often", [1, 3])
def test_a_rank_that_launches_kernels_more_often_is_no_slow_gpu(often: int) -> None:
    """Three kernels take 1 ms each once, and 2 ms wherever a rank repeats them: attention without a mask, say."""
    once = [f"k:{name}:k @0 {5 + 100 * n}-{105 + 100 * n}" for n, name in enumerate("abc")]
    more = [f"k:{name}:k @0 {5 + 200 * n}-{205 + 200 * n}" for n, name in enumerate("abc" * often)]
    found = findings_of(
        program(
            "\n".join(f"{rank}| {', '.join(rows)}, n @10 1850-1900" for rank, rows in enumerate([once, once, more]))
        )
    )
    assert ("slow-gpu" in found) == (often == 1)


def test_a_gpu_whose_kernels_run_beside_communication_is_no_slow_gpu() -> None:
    """Kernels that take 2 ms alone take 3 ms on rank 1 beside a kernel of NCCL that waits, but not by themselves."""
    alone = ", ".join(f"k:{name}:k @0 {5 + 200 * n}-{205 + 200 * n}" for n, name in enumerate("abc"))
    longer = ", ".join(f"k:{name}:k @0 {5 + 300 * n}-{5 + 300 * (n + 1)}" for n, name in enumerate("abc"))
    for begin, named in ((2, False), (906, True)):
        found = findings_of(program(f"0| {alone}, n @900 907-910\n1| {longer}, n @1 {begin}-910"))
        assert ("slow-gpu" in found) == named


def test_a_slow_gpu_is_named_though_its_peers_wait_beside_some_of_their_kernels() -> None:
    """Rank 1 takes 1.5 times as long; rank 0 waits for it, now and then beside kernels."""
    usual = ", ".join(f"k:{name}:k @0 {5 + 200 * n}-{205 + 200 * n}" for n, name in enumerate("abc"))
    slow = ", ".join(f"k:{name}:k @0 {5 + 300 * n}-{5 + 300 * (n + 1)}" for n, name in enumerate("abc"))
    waits = {f"step{n}_rank0": f"{usual}, n @10 400-910, wait 20-911" for n in (0, 2, 4, 6)}
    picture = f"0| {usual}, n @10 605-910, wait 20-911\n1| {slow}, n @10 905-910"
    assert findings_of(program(picture, steps=12, **waits))["slow-gpu"].ranks == (1,)


@pytest.mark.parametrize(("clock", "named"), [(1000, True), (1950, False)])
def test_a_gpu_with_a_low_clock_is_named(clock: int, named: bool) -> None:
    """By its samples while it computes, though kernels of one name are too few to tell."""
    run = program("0| k:a:k @0 5-405, n @10 605-610, wait 20-612\n1| k:a:k @0 5-605, n @10 605-610, wait 20-612")
    times = np.arange(0, run.duration, UNIT)
    clocks = {0: np.full(len(times), 2000), 1: np.full(len(times), clock)}
    samples = [Sampled(n, "Tensor Active", 0, lambda: iter(()), partial(pieces, times, clocks[n])) for n in clocks]
    found = [*slow_gpu(case_of(analysis_of(run)._replace(run=run._replace(samples=tuple(samples)))))]
    assert [(one.ranks, one.confidence) for one in found] == ([((1,), "high")] if named else [])


def pieces(times: Times, values: Times) -> Iterator[tuple[Times, Times]]:
    """All samples in one piece."""
    yield times, values
