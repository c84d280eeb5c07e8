"""Clocks fitted to anchors whose truth is known, estimators, stated clocks, offsets by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import SECOND, UTC, Clocks, aligned, collectives, run, summary

from nsys2prv.errors import UsageError
from nsys2prv.run.clocks import Alignment, Clock, read_offsets
from nsys2prv.run.clocks.estimate import location, slope
from nsys2prv.run.clocks.graph import Edge, keep_bounds, solve
from nsys2prv.run.clocks.offsets import GivenOffset, given_for
from nsys2prv.run.clocks.plot import plot_svg
from nsys2prv.run.clocks.renumbering import renumbered
from nsys2prv.run.clocks.steps import find_step
from nsys2prv.run.report_summary import ANCHOR

SKEWED = [Clocks(), Clocks(3_700_000), Clocks(-1_200_000), Clocks(40_000)]
Late = Callable[[np.random.Generator, int, int], np.ndarray]


def errors_us(found: Alignment, hosts: list[Clocks], ranks: int) -> list[float]:
    return [(r.offset_ns + hosts[n // ranks].ahead - hosts[0].ahead) / 1e3 for n, r in enumerate(found.reports)]


def worst(found: Alignment, hosts: list[Clocks], ranks: int) -> float:
    return max(abs(e) for e in errors_us(found, hosts, ranks))


def late(ranks: set[int], draw: Late) -> Late:
    return lambda dice, rank, count: draw(dice, rank, count) if rank in ranks else np.zeros(count)


def test_skewed_hosts() -> None:
    found = aligned(run(SKEWED))
    assert worst(found, SKEWED, 2) < 5
    assert all(r.slope_ppm == 0 for r in found.reports)
    assert sum(r.violations_before for r in found.reports) > 0
    assert sum(r.violations_after for r in found.reports) == 0


@pytest.mark.parametrize("ppm", [-30.0, 20.0])
def test_drifting_hosts(ppm: float) -> None:
    hosts = [Clocks(), Clocks(3_700_000, ppm), Clocks(0, -ppm)]
    found = aligned(run(hosts, span=4.0))
    assert worst(found, hosts, 2) < 20
    assert all(abs(r.slope_ppm + hosts[n // 2].ppm) < 1 for n, r in enumerate(found.reports))


@pytest.mark.parametrize(
    ("draw", "within_us"),
    [
        pytest.param(lambda dice, rank, count: dice.uniform(0, 500_000, count), 30, id="up to 0.5 ms"),
        pytest.param(lambda dice, rank, count: dice.exponential(200_000, count), 30, id="0.2 ms on average"),
        pytest.param(lambda dice, rank, count: 5e6 * (dice.uniform(0, 1, count) < 0.3), 5, id="5 ms now and then"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_late_rank_alone_on_its_host(draw: Late, within_us: float, seed: int) -> None:
    """Its lateness only adds: neither its mean nor its median is where its clock is."""
    found = aligned(run(SKEWED, ranks_per_host=1, late=late({1}, draw), seed=seed))
    assert worst(found, SKEWED, 1) < within_us


@pytest.mark.parametrize(("span", "slope"), [(0.68, 0.0), (5.0, -20.0)])
def test_reports_of_a_host_that_begin_apart_count_from_one_epoch(span: float, slope: float) -> None:
    """A second between two sessions is no second of anchors, and a host has one drift, not one from each session on."""
    # Its first report leaves operations first in the second half of the run, the other one in the first half.
    by_turns = late({2}, lambda dice, rank, count: 20_000.0 * (np.arange(count) < count // 2))
    *others, first, second = run([Clocks(), Clocks(0, 20.0)], span=span, late=by_turns)
    moved = first.anchors.with_columns(pl.col("start", "end") + SECOND)
    earlier = first.identity._replace(utc_epoch_ns=(first.identity.utc_epoch_ns or 0) - SECOND)
    found = aligned([*others, first._replace(anchors=moved, identity=earlier), second])
    slopes = {r.slope_ppm for r in found.reports if r.host == "host1"}
    assert len(slopes) == 1
    assert slopes.pop() == pytest.approx(slope, abs=1)
    assert all(r.residual_median_ns is not None and abs(r.residual_median_ns) < 20_000 for r in found.reports)


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda dice, rank, count: np.zeros(count), id="fair"),
        pytest.param(lambda dice, rank, count: dice.uniform(0, 500_000, count), id="up to 0.5 ms"),
        pytest.param(lambda dice, rank, count: dice.exponential(200_000, count), id="0.2 ms on average"),
        pytest.param(lambda dice, rank, count: np.full(count, 142_000.0), id="always 142 us"),
    ],
)
@pytest.mark.parametrize("hosts", [2, 4])
def test_the_error_bound_covers_lateness(draw: Late, hosts: int) -> None:
    found = aligned(run(SKEWED[:hosts], ranks_per_host=1, late=late({1}, draw)))
    assert found.reports[0].error_bound_ns == 0
    for report, clocks in zip(found.reports, SKEWED, strict=False):
        error = abs(report.offset_ns + clocks.ahead)
        assert error <= (report.error_bound_ns or 0) < 400_000


def test_clocks_of_two_hosts_differ_by_no_more_than_the_bound() -> None:
    often = late({1}, lambda dice, rank, count: 5e6 * (dice.uniform(0, 1, count) < 0.3))
    found = aligned(run(SKEWED[:2], ranks_per_host=1, late=often))
    assert found.error is not None
    assert found.error == found.reports[1].error_bound_ns
    assert found.error < (found.reports[1].residual_p95_ns or 0)


@pytest.mark.parametrize("seed", range(3))
def test_jitter_on_every_end(seed: int) -> None:
    jitter = late(set(range(8)), lambda dice, rank, count: dice.normal(0, 20_000, count))
    assert worst(aligned(run(SKEWED, late=jitter, seed=seed)), SKEWED, 2) < 50


def test_communicators_that_span_some_ranks() -> None:
    """Hosts 0 and 3 share no communicator; the chain 0-1-2-3 connects them."""
    chain = [[0, 1, 2, 3], [3, 4], [5, 6], [4, 5]]
    found = aligned(run(SKEWED, communicators=chain))
    assert worst(found, SKEWED, 2) < 10


def test_hosts_without_anchors_keep_utc_and_are_named() -> None:
    found = aligned(run(SKEWED, communicators=[[0, 1, 2, 3]]))
    assert [r.method for r in found.reports] == ["collectives"] * 4 + ["utc"] * 4
    assert [r.offset_ns for r in found.reports[4:]] == [0] * 4
    assert any("host2, host3 stay on UTC" in w for w in found.warnings)
    assert found.components == (0, 0, 0, 0, 2, 2, 3, 3)
    assert [r.error_bound_ns is None for r in found.reports] == [False] * 4 + [True] * 4
    assert found.error is not None


def test_the_error_of_clocks_that_nothing_compares_is_not_known() -> None:
    """Each host has collectives of its own, whose residuals tell nothing of the other's clock."""
    alone = run(SKEWED[:2], communicators=[[0, 1], [2, 3]])
    for found in (aligned(alone), aligned([s._replace(anchors=s.anchors.clear()) for s in alone], "utc")):
        assert found.error is None
        assert found.warnings
    assert aligned(run(SKEWED[:1]), "utc").error == 0


def test_two_groups_of_hosts_are_named() -> None:
    found = aligned(run(SKEWED, communicators=[[0, 1, 2, 3], [4, 5, 6, 7]]))
    assert any("2 groups of hosts" in w for w in found.warnings)
    assert found.components == (0, 0, 0, 0, 2, 2, 2, 2)
    assert [r.error_bound_ns is None for r in found.reports] == [False] * 4 + [True] * 4


def test_nothing_to_align_by() -> None:
    found = aligned([summary("a", "x"), summary("b", "y", utc=UTC + 5)])
    assert [(r.method, r.offset_ns, r.residual_median_ns) for r in found.reports] == [("utc", 0, None)] * 2
    assert [c.offset for c in found.clocks] == [0, 5]
    assert any("no anchors between hosts" in w for w in found.warnings)


@pytest.mark.parametrize(("hosts", "uncertain"), [(2, True), (1, False)])
def test_a_poor_alignment_is_said_to_be(hosts: int, uncertain: bool) -> None:
    """Ranks of one host have one clock, however far apart they leave a collective."""
    apart = late({0, 1}, lambda dice, rank, count: dice.uniform(0, 2_000_000, count))
    found = aligned(run([Clocks()] * hosts, ranks_per_host=2 // hosts, late=apart))
    assert max(r.residual_median_ns or 0 for r in found.reports) > 100_000
    assert any("uncertain" in w for w in found.warnings) == uncertain


def test_messages_alone_bound_a_clock_from_both_sides() -> None:
    """A ping takes 30 us there and 30 us back: the middle of the two bounds is the offset."""
    sent = np.arange(10) * SECOND // 100 + SECOND

    def messages(kind: str, name: str, start: np.ndarray, end: np.ndarray) -> pl.DataFrame:
        return collectives(end, end - start, name, kind)

    ping, pong = sent + 30_000, sent + 90_000
    here = pl.concat([messages("send", "a>b", sent, sent + 1_000), messages("recv", "b>a", pong, pong + 30_000)])
    there = pl.concat([messages("recv", "a>b", sent, ping), messages("send", "b>a", pong, pong + 1_000)])
    found = aligned([summary("a", "x", here), summary("b", "y", there, utc=UTC + 3_700_000)])
    assert abs(found.reports[1].offset_ns + 3_700_000) < 1_000
    assert found.reports[1].method == "messages"
    assert found.error == found.reports[1].error_bound_ns
    assert found.error
    assert [r.violations_before for r in found.reports] == [10, 0]
    assert [r.violations_after for r in found.reports] == [0, 0]


def test_a_message_in_one_direction_moves_nothing_that_is_possible() -> None:
    sent = np.arange(5) * 1_000_000 + SECOND
    here = collectives(sent + 10, np.full(5, 10), "a>b", "send")
    there = collectives(sent + 50_000, np.full(5, 10), "a>b", "recv")
    found = aligned([summary("a", "x", here), summary("b", "y", there)])
    assert [r.offset_ns for r in found.reports] == [0, 0]


def test_a_thousand_ranks() -> None:
    dice = np.random.default_rng(3)
    hosts = [Clocks()] + [Clocks(int(dice.normal(0, 2e6)), float(dice.normal(0, 20))) for _ in range(127)]
    found = aligned(run(hosts, ranks_per_host=8, operations=100, span=20.0))
    assert worst(found, hosts, 8) < 20
    assert found.warnings == ()


def test_many_operations_are_sampled_and_still_right() -> None:
    hosts = [Clocks(), Clocks(3_700_000, 20.0)]
    assert worst(aligned(run(hosts, operations=30_000, span=60.0)), hosts, 2) < 5


@pytest.mark.parametrize("how", ["auto", "collectives"])
def test_mpi_init_is_an_anchor_only_when_asked_for(how: str) -> None:
    one = collectives(np.array([SECOND * 1.0]), np.array([1e8]), "mpi init", "init")
    found = aligned([summary("a", "x", one), summary("b", "y", one, utc=UTC + 3_700_000)], how)
    assert found.reports[1].offset_ns == (-3_700_000 if how == "collectives" else 0)


class TestStatedClocks:
    def test_system_clocks_of_one_host_overrule_utc_that_was_set(self) -> None:
        """UTC was set back by 2 ms between the two session starts."""
        reports = [
            summary("a", "x", system=5 * SECOND),
            summary("b", "x", utc=UTC + SECOND - 2_000_000, system=6 * SECOND),
        ]
        assert [c.offset for c in aligned(reports).clocks] == [2_000_000 - 2_000_000, SECOND]

    def test_a_system_clock_of_its_own_is_not_believed(self) -> None:
        reports = [summary("a", "x", system=5 * SECOND), summary("b", "x", utc=UTC + SECOND, system=900 * SECOND)]
        found = aligned(reports)
        assert [c.offset for c in found.clocks] == [0, SECOND]
        assert any("clock of their own" in w for w in found.warnings)

    def test_system_clocks_of_two_hosts_are_not_compared(self) -> None:
        reports = [summary("a", "x", system=5 * SECOND), summary("b", "y", utc=UTC + 7, system=9 * SECOND)]
        assert [c.offset for c in aligned(reports).clocks] == [0, 7]

    def test_a_report_without_utc_is_placed_by_its_hosts_system_clock(self) -> None:
        reports = [summary("a", "x", system=5 * SECOND), summary("b", "x", utc=None, system=7 * SECOND)]
        found = aligned(reports)
        assert [c.offset for c in found.clocks] == [0, 2 * SECOND]
        assert not any("wall clock" in w for w in found.warnings)

    def test_shifted_exports(self) -> None:
        """EXPORT_CONFIG_TIME_SHIFT is in the event times, and is taken out once."""
        found = aligned([summary("a", "x"), summary("b", "x", utc=UTC + 10, shift=UTC)])
        assert [c.merged_one(t) for c, t in zip(found.clocks, (100, UTC + 100), strict=True)] == [100, 110]

    def test_reports_without_a_wall_clock_begin_with_the_earliest(self) -> None:
        found = aligned(
            [summary("a", "x", utc=None), summary("b", "y", utc=UTC), summary("c", "y", utc=UTC + 3)], "utc"
        )
        assert [c.offset for c in found.clocks] == [0, 0, 3]
        assert any("1 of 3 reports have no wall clock" in w for w in found.warnings)

    def test_none_lets_all_sessions_begin_at_once(self) -> None:
        found = aligned([summary("a", "x"), summary("b", "y", utc=UTC + 3)], "none")
        assert [(c.offset, c.method) for c in found.clocks] == [(0, "none")] * 2


class TestOffsets:
    def test_lines(self, tmp_path: Path) -> None:
        file = tmp_path / "offsets"
        file.write_text("# by hand\nrank0 0\nhost1 -3.7ms 20  # the second host\n")
        found = aligned(run([Clocks(), Clocks(3_700_000)]), offsets=read_offsets(file))
        assert [(r.offset_ns, r.slope_ppm) for r in found.reports[2:]] == [(-3_700_000, pytest.approx(20.0))] * 2
        assert [r.method for r in found.reports] == ["file", "utc", "file", "file"]
        assert any("rank1: no offset given" in w for w in found.warnings)

    def test_the_first_line_of_a_pattern_counts(self, tmp_path: Path) -> None:
        file = tmp_path / "offsets"
        file.write_text("node* 1\nrank0 2\nnode* 3\n")
        assert given_for(read_offsets(file), "rank0", "node7") == GivenOffset(1)

    def test_patterns_that_match_nothing_are_told(self, tmp_path: Path) -> None:
        file = tmp_path / "offsets"
        file.write_text("rank[0-3] 0\nhost7 1ms\nrnak2 1ms\n")
        found = aligned(run([Clocks(), Clocks()]), offsets=read_offsets(file))
        assert found.warnings == ("--offsets: no report or host matches host7, rnak2",)

    def test_what_align_printed(self, tmp_path: Path) -> None:
        first = aligned(run([Clocks(), Clocks(3_700_000, 20.0)]))
        file = tmp_path / "trace.align.json"
        file.write_text(json.dumps(first.to_json()))
        again = aligned(run([Clocks(), Clocks(3_700_000, 20.0)]), offsets=read_offsets(file))
        assert [r.offset_ns for r in again.reports] == [r.offset_ns for r in first.reports]

    def test_reports_of_one_name_are_told_apart_by_their_hosts(self, tmp_path: Path) -> None:
        reports = [{"name": "run[1]", "host": f"node{n}", "offset_ns": n * 10**18 + 1} for n in (0, 2)]
        file = tmp_path / "trace.align.json"
        file.write_text(json.dumps({"reports": reports}))
        offsets = read_offsets(file)
        assert [given_for(offsets, "run[1]", f"node{n}") for n in (0, 1, 2)] == [
            GivenOffset(1),
            None,
            GivenOffset(2 * 10**18 + 1),
        ]
        file.write_text(json.dumps({"reports": [*reports, reports[0] | {"offset_ns": 5}]}))
        with pytest.raises(UsageError, match=r"two reports run\[1\] of host node0 have different offsets"):
            read_offsets(file)

    def test_a_large_offset_is_exact(self, tmp_path: Path) -> None:
        file = tmp_path / "offsets"
        file.write_text("node*/report1 1700000000000000001ns\n")
        assert given_for(read_offsets(file), "report1", "node7") == GivenOffset(1_700_000_000_000_000_001)

    @pytest.mark.parametrize("text", ["rank0", "rank0 soon", "rank0 1 2 3", '{"reports": [{}]}', "{"])
    def test_unreadable(self, text: str, tmp_path: Path) -> None:
        file = tmp_path / "offsets"
        file.write_text(text)
        with pytest.raises(UsageError, match="offsets"):
            read_offsets(file)


class TestClock:
    @settings(deadline=None)
    @given(st.integers(-(10**12), 10**12), st.integers(-(10**6), 10**15), st.sampled_from([1.0, 1.00002, 0.99998]))
    def test_local_time_inverts_merged_time(self, offset: int, time: int, slope: float) -> None:
        clock = Clock(5, offset, slope)
        assert abs(clock.merged_one(clock.local_one(time)) - time) <= 1

    @settings(deadline=None)
    @given(st.integers(0, 10**15), st.integers(0, 10**9), st.sampled_from([-500e-6, -2e-5, 2e-5, 500e-6]))
    def test_a_duration_is_stretched_to_a_nanosecond(self, time: int, duration: int, stretch: float) -> None:
        clock = Clock(0, 0, 1 + stretch)
        merged = clock.merged_one(time + duration) - clock.merged_one(time)
        assert abs(merged - duration * (1 + stretch)) <= 1.001


class TestEstimates:
    @given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=60), st.integers(-(10**9), 10**9))
    @settings(max_examples=50, deadline=None)
    def test_a_location_moves_with_its_values(self, values: list[int], by: int) -> None:
        here = location(np.array(values, dtype=np.float64) * 1e3)
        there = location(np.array(values, dtype=np.float64) * 1e3 + by)
        assert abs(there.value - here.value - by) < 1
        assert there.error == pytest.approx(here.error)

    def test_a_slope_has_an_error_that_covers_it(self) -> None:
        dice, inside = np.random.default_rng(5), 0
        time = np.linspace(0, 3e9, 300)
        for _ in range(50):
            found = slope(time, 20e-6 * time + dice.normal(0, 20_000, 300))
            assert found is not None
            inside += abs(found.value - 20e-6) < 3 * found.error
        assert inside >= 48

    def test_a_drift_is_no_step_and_a_step_no_drift(self) -> None:
        dice = np.random.default_rng(5)
        time = np.linspace(0, 1e9, 200)
        drift = 200e-6 * time + dice.normal(0, 5_000, 200)
        assert find_step(time, drift) is None
        found = find_step(time, drift + 300_000 * (time > 0.4e9))
        assert found is not None
        assert found[0] == pytest.approx(0.4e9, abs=0.1e9)
        assert found[1] == pytest.approx(300_000, abs=30_000)

    def test_one_contradicting_pair_hardly_matters(self) -> None:
        edges = [Edge(a, b, 100.0 * (b - a), 1.0) for a in range(5) for b in range(a + 1, 5)]
        value, error = solve(5, [*edges, Edge(0, 4, 90_000.0, 1.0)])
        assert value == pytest.approx([0, 100, 200, 300, 400], abs=2)
        assert error[0] == 0
        assert all(e < 1.5 for e in error[1:])

    def test_bounds_are_kept_where_they_do_not_contradict_each_other(self) -> None:
        moved = keep_bounds(np.array([0.0, 50.0, 0.0]), {(1, 0): 10.0, (0, 1): 5.0, (2, 0): -5.0, (0, 2): -5.0})
        assert moved[1] - moved[0] <= 10.5
        assert moved[2] == 0


def test_clocks_that_agree_exactly_are_solved() -> None:
    """As copies of a report do."""
    value, error = solve(3, [Edge(0, 1, 5.0, 0.0), Edge(1, 2, 7.0, 0.0)])
    assert value.tolist() == pytest.approx([0, 5, 12])
    assert np.isfinite(error).all()


def test_plot_has_a_point_for_each_end_and_a_name_for_each_host() -> None:
    text = plot_svg(aligned(run(SKEWED, operations=20)))
    assert text.count('r="2"') == 20 * 8
    assert all(f">{host}</text>" in text for host in ("host0", "host1", "host2", "host3"))


def test_plot_of_nothing_says_so() -> None:
    assert "nothing to compare" in plot_svg(aligned([summary("a", "x")]))


def test_json_has_what_is_promised() -> None:
    found = aligned(run([Clocks(), Clocks(3_700_000)])).to_json()
    promised = ["name", "host", "rank", "method", "offset_ns", "slope_ppm", "anchors", "residual_median_ns"]
    promised += ["residual_p95_ns", "error_bound_ns", "violations_before", "violations_after"]
    assert found["reference"] == "rank0"
    assert all(set(promised) <= set(r) for r in found["reports"])
    assert set(ANCHOR) == {"kind", "communicator", "sequence", "ranks", "start", "end"}


def anchors_of(ends: dict[int, dict[int, int]], kind: str = "collective") -> pl.DataFrame:
    """Anchors of one communicator, by report and number."""
    rows = [(report, kind, "world", n, end) for report, own in ends.items() for n, end in own.items()]
    return pl.DataFrame(rows, schema=["report", "kind", "communicator", "sequence", "end"], orient="row")


# Ends (ns) of operations of a run that nearly repeats itself every 100 us, by number; each third one is no anchor.
ENDS = {k: 1000 * (100 * (k // 3) + (0, 20, 50)[k % 3] + 7 * k * k % 11) for k in range(1, 31) if k % 3}


@pytest.mark.parametrize(
    ("other", "later"),
    [
        ({k: end + 7000 for k, end in ENDS.items()}, 0),  # another clock
        ({k: end + 7000 for k, end in ENDS.items() if k < 20}, 0),  # stopped early
        ({k - 9: end + 7000 for k, end in ENDS.items() if k > 9}, 9),  # began three iterations later
        ({k - 27: end + 3000 for k, end in ENDS.items() if k > 27}, 27),  # the last two
    ],
)
def test_a_report_that_began_in_mid_run_is_numbered_on(other: dict[int, int], later: int) -> None:
    rows = anchors_of({0: ENDS, 1: other})
    moved = renumbered(rows).filter(pl.col("report") == 1)["sequence"].to_list()
    assert moved == [k + later for k in other]
    messages = rows.with_columns(kind=pl.lit("send"))
    assert renumbered(messages).equals(messages)
