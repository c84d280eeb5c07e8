"""Clocks recovered from real reports that were made wrong on purpose, judged against what was done to them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import construct
import oracle
import polars as pl
import pytest

from nsys2prv.commands.align import align
from nsys2prv.run.clocks import Alignment, ReportClock
from nsys2prv.run.clocks.sharing import disagreeing
from nsys2prv.run.run_options import RunOptions

SHARED = Path(__file__).parents[3] / "shared" / "reports"
SAMPLES = Path(__file__).parents[2] / "sample_reports"
# What no clock is judged by, and most of the bytes.
BULKY = ("GPU_METRICS", "OSRT_API", "OSRT_CALLCHAINS", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
WORLD, PIPELINES = 9713923386916009739, (290635252639150519, 6949892509242780976)

Change = Callable[[Sequence[Path], Path], list[Path]]


class Reports:
    """The reports of a run by rank, changed step by step in folders of their own."""

    def __init__(self, paths: Sequence[Path], folder: Path) -> None:
        self.folder, self.turn = folder, 0
        first = self._next()
        self.paths = [Path(shutil.copy(p, first / p.name)) for p in paths]

    def _next(self) -> Path:
        self.turn += 1
        folder = self.folder / f"turn{self.turn}"
        folder.mkdir(parents=True)
        return folder

    def change(self, ranks: Sequence[int], case: Callable[..., list[Path]], **options: object) -> Reports:
        """Apply a construct case to some of the reports, together."""
        folder = self._next()
        for rank, made in zip(ranks, case([self.paths[r] for r in ranks], folder, **options), strict=True):
            self.paths[rank] = made
        # In one folder, so that the reports stay in the order of their ranks.
        self.paths = [p if p.parent == folder else p.rename(folder / p.name) for p in self.paths]
        return self

    def aligned(self, **options: object) -> Alignment:
        """As `nsys2prv align` finds them."""
        return align(self.paths, options=RunOptions(**options))  # type: ignore[arg-type]


def slim(report: construct.report.Report) -> None:
    report.drop(*BULKY)


def reports(folder: Path, run: str, tmp_path: Path, hosts: str | None = None) -> Reports:
    """A run without its bulk; `hosts` names the host of each report by a letter."""
    found = sorted((folder / run).glob("*.sqlite"))
    if not found:
        pytest.skip(f"no reports of {run}")
    made = Reports(found, tmp_path)
    for path in made.paths:
        with construct.report.Report(path) as report:
            slim(report)
            report.run("VACUUM")
    return made.change(range(len(found)), construct.on_hosts, names=list(hosts)) if hosts else made


@pytest.fixture
def gpt(tmp_path: Path) -> Reports:
    """Ranks 0 and 1 on gpu-node0, 2 and 3 on gpu-node1; 64 synchronous collectives within 0.7 s."""
    return reports(SAMPLES, "gpt-ddp", tmp_path)


@pytest.fixture
def long_gpt(gpt: Reports) -> Reports:
    """The same four times over: anchors over more than 4 s."""
    return gpt.change(range(4), construct.repeated, n=4)


def check(found: Alignment, truth: Sequence[int], within_us: float = 50, ppm: Sequence[float] | None = None) -> None:
    """Offsets are those against the first report's, to so many microseconds; slopes to 5 ppm; nothing is left early."""
    first = found.reports[0].offset_ns
    errors = [(r.offset_ns - first - t) / 1e3 for r, t in zip(found.reports, truth, strict=True)]
    assert max(map(abs, errors)) < within_us, errors
    slopes = [r.slope_ppm - found.reports[0].slope_ppm for r in found.reports]
    wanted = ppm or [0.0] * len(slopes)
    assert all(abs(s - w) < 5 for s, w in zip(slopes, wanted, strict=True)), slopes
    assert sum(r.violations_after for r in found.reports) == 0, [r.violations_after for r in found.reports]


def two_hosts(offset: int) -> list[int]:
    return [0, 0, offset, offset]


def medians(found: Alignment) -> list[int | None]:
    return [r.residual_median_ns for r in found.reports]


def test_gpt_ddp_as_it_is_keeps_its_clock(gpt: Reports) -> None:
    found = gpt.aligned()
    check(found, [0, 0, 0, 0])
    assert {r.method for r in found.reports} == {"collectives"}
    assert all(m is not None and m < 30_000 for m in medians(found))
    assert found.warnings == ()


@pytest.mark.shared
@pytest.mark.parametrize("hosts", ["aabb", "abab", "abca", "abcd"])
def test_mesh_tp_pp_as_it_is_keeps_its_clock(hosts: str, tmp_path: Path) -> None:
    found = reports(SHARED, "mesh-tp-pp", tmp_path, hosts).aligned()
    check(found, [0, 0, 0, 0])
    assert all(m is not None and m < 30_000 for m in medians(found))


@pytest.mark.parametrize("shift", [3_700_000, -1_200_000, 2_000_000_000])
def test_a_host_whose_wall_clock_is_wrong(gpt: Reports, shift: int) -> None:
    found = gpt.change([2, 3], construct.with_clock, utc_shift_ns=shift).aligned()
    check(found, two_hosts(-shift))
    assert sum(r.violations_before for r in found.reports) > 0


def test_the_reference_host_is_the_wrong_one(gpt: Reports) -> None:
    check(gpt.change([0, 1], construct.with_clock, utc_shift_ns=3_700_000).aligned(), two_hosts(3_700_000))


@pytest.mark.shared
def test_three_hosts_each_with_its_own_error(tmp_path: Path) -> None:
    run = reports(SHARED, "mesh-tp-pp", tmp_path, "abcc")
    run.change([1], construct.with_clock, utc_shift_ns=3_700_000)
    run.change([2, 3], construct.with_clock, utc_shift_ns=-1_200_000)
    check(run.aligned(), [0, -3_700_000, 1_200_000, 1_200_000])


@pytest.mark.parametrize("shift", [0, 3_700_000])
@pytest.mark.parametrize("ppm", [20.0, -35.0])
def test_a_clock_that_runs_fast(long_gpt: Reports, ppm: float, shift: int) -> None:
    found = long_gpt.change([2, 3], construct.with_clock, utc_shift_ns=shift, stretch_ppm=ppm).aligned()
    check(found, two_hosts(-shift), ppm=[0, 0, -ppm, -ppm])


def test_no_slope_without_drift_or_from_anchors_close_together(gpt: Reports, long_gpt: Reports) -> None:
    assert [r.slope_ppm for r in long_gpt.aligned().reports] == [0, 0, 0, 0]


def test_a_slope_needs_anchors_far_apart(gpt: Reports) -> None:
    found = gpt.change([2, 3], construct.with_clock, stretch_ppm=20.0).aligned()
    assert [r.slope_ppm for r in found.reports] == [0, 0, 0, 0]


def test_a_rank_with_few_anchors(gpt: Reports) -> None:
    gpt.change([2, 3], construct.with_clock, utc_shift_ns=3_700_000)
    check(gpt.change([3], construct.few_collectives, keep=5).aligned(), two_hosts(-3_700_000))


@pytest.mark.shared
def test_a_host_with_few_anchors(tmp_path: Path) -> None:
    run = reports(SHARED, "mesh-tp-pp", tmp_path, "abcd").change([3], construct.few_collectives, keep=5)
    check(run.change([3], construct.with_clock, utc_shift_ns=-1_200_000).aligned(), [0, 0, 0, 1_200_000])


@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank_that_leaves_every_collective_late(gpt: Reports, rank: int) -> None:
    gpt.change([2, 3], construct.with_clock, utc_shift_ns=3_700_000)
    check(gpt.change([rank], construct.straggling, up_to_ns=500_000).aligned(), two_hosts(-3_700_000))


@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank_that_enters_every_collective_late(gpt: Reports, rank: int) -> None:
    gpt.change([2, 3], construct.with_clock, utc_shift_ns=3_700_000)
    found = gpt.change([rank], construct.entering_late).aligned()
    errors = [r.offset_ns + (3_700_000 if n > 1 else 0) for n, r in enumerate(found.reports)]
    assert max(map(abs, errors)) < 50_000, errors


def test_reports_that_began_two_seconds_apart(gpt: Reports) -> None:
    gpt.change([2, 3], construct.with_clock, utc_shift_ns=3_700_000)
    check(gpt.change([1, 3], construct.began_later, by_ns=2_000_000_000).aligned(), two_hosts(-3_700_000))


def test_a_drift_of_reports_that_began_two_seconds_apart(long_gpt: Reports) -> None:
    long_gpt.change([2, 3], construct.began_later, by_ns=-2_000_000_000)
    long_gpt.change([2, 3], construct.with_clock, utc_shift_ns=3_700_000, stretch_ppm=20.0)
    check(long_gpt.aligned(), two_hosts(-3_700_000), ppm=[0, 0, -20, -20])


@pytest.mark.shared
def test_hosts_that_only_a_third_connects(tmp_path: Path) -> None:
    """Rank 0 shares a communicator with 1 and another with 2; 1 and 2 share none."""
    run = reports(SHARED, "mesh-tp-pp", tmp_path, "abcd").change(
        range(4), construct.without_communicator, communicator=WORLD
    )
    run.paths = run.paths[:3]
    run.change([1], construct.with_clock, utc_shift_ns=3_700_000)
    run.change([2], construct.with_clock, utc_shift_ns=-1_200_000)
    check(run.aligned(), [0, -3_700_000, 1_200_000])


@pytest.mark.shared
def test_hosts_that_nothing_connects_stay_on_utc(tmp_path: Path) -> None:
    """Without the communicators between the stages, 0 and 1 are connected, and 2 and 3."""
    run = reports(SHARED, "mesh-tp-pp", tmp_path, "abcd")
    for communicator in (WORLD, *PIPELINES):
        run.change(range(4), construct.without_communicator, communicator=communicator)
    found = run.change([1], construct.with_clock, utc_shift_ns=3_700_000).aligned()
    check(found, [0, -3_700_000, 0, 0])
    assert any("2 groups of hosts" in w for w in found.warnings)


def test_jitter_on_every_anchor(gpt: Reports) -> None:
    gpt.change([2, 3], construct.with_clock, utc_shift_ns=-1_200_000)
    found = gpt.change(range(4), construct.jittered, sigma_ns=20_000).aligned()
    first = found.reports[0].offset_ns
    assert all(abs(r.offset_ns - first - t) < 50_000 for r, t in zip(found.reports, two_hosts(1_200_000), strict=True))


@pytest.mark.parametrize("size", [1_000_000, -200_000])
def test_a_clock_step_is_reported(gpt: Reports, size: int) -> None:
    found = gpt.change([2, 3], construct.stepped, by_ns=size, at_fraction=0.6).aligned()
    (warning,) = [w for w in found.warnings if "steps by" in w]
    assert "gpu-node1" in warning
    assert all(abs(r.offset_ns) < 50_000 for r in found.reports)


@pytest.mark.shared
def test_a_clock_step_is_put_to_the_host_that_all_differ_from(tmp_path: Path) -> None:
    run = reports(SHARED, "mesh-tp-pp", tmp_path, "aabc")
    run.change(range(4), construct.repeated, n=4)
    found = run.change([2], construct.stepped, by_ns=500_000, at_fraction=0.7).aligned()
    (warning,) = [w for w in found.warnings if "steps by" in w]
    assert warning.startswith("the clock of b steps by 5")
    assert all(abs(r.offset_ns) < 50_000 for r in found.reports)


@pytest.mark.parametrize("run", ["mpi-cpu", "mpi-halo"])
@pytest.mark.parametrize("hosts", ["aabb", "abcd"])
def test_mpi_alone_aligns_hosts(run: str, hosts: str, tmp_path: Path) -> None:
    made = reports(SAMPLES if run == "mpi-halo" else SHARED, run, tmp_path, hosts)
    made.change([2], construct.with_clock, utc_shift_ns=3_700_000)
    made.change([3], construct.with_clock, utc_shift_ns=3_700_000 if hosts == "aabb" else -1_200_000)
    truth = [0, 0, -3_700_000, -3_700_000 if hosts == "aabb" else 1_200_000]
    check(made.aligned(), truth, within_us=100)


def test_reports_of_one_host_share_its_clock(tmp_path: Path) -> None:
    found = reports(SAMPLES, "mpi-halo", tmp_path).aligned()
    assert [(r.offset_ns, r.slope_ppm, r.method) for r in found.reports] == [(0, 0.0, "host")] * 4
    assert found.units == (0,) * 4
    assert found.error == 0


def test_reports_of_one_name_that_cannot_be_of_one_host(tmp_path: Path) -> None:
    run = reports(SAMPLES, "mpi-halo", tmp_path).change([2], construct.with_clock, utc_shift_ns=3_700_000)
    found = run.aligned()
    check(found, [0, 0, -3_700_000, 0])
    assert any("do not share a clock" in w for w in found.warnings)
    assert found.units == (0, 1, 2, 3)
    assert found.error > 0


def test_reports_of_one_name_are_compared_with_each_other() -> None:
    """The first report of the name has no operation."""
    entered = [n * 1_000_000 for n in range(20)]
    rows = [(r, "collective", 0, n, t, t + 1000, 0) for r in (1, 2) for n, t in enumerate(entered)]
    columns = ["report", "kind", "group", "operation", "start", "end", "origin"]
    anchors = pl.DataFrame(rows, schema=columns, orient="row")
    assert disagreeing(anchors, [[0, 1, 2]]) == set()
    ahead = pl.when(pl.col("report") == 2).then(500_000_000).otherwise(0)
    assert disagreeing(anchors.with_columns(pl.col("start", "end") + ahead), [[0, 1, 2]]) == {0}


@pytest.mark.parametrize("change", ["", "DROP TABLE PROCESSES", "INSERT INTO PROCESSES VALUES (7 << 24, 7, 'worker')"])
def test_reports_in_two_parts_are_judged_by_the_first(change: str, tmp_path: Path) -> None:
    """The second parts number their collectives anew, each from another one; they may list other processes."""
    run = reports(SAMPLES, "mpi-halo", tmp_path)
    run.paths = construct.cut_in_two(run.paths, tmp_path / "cut")
    for second in run.paths[1::2]:
        with construct.report.Report(second) as report:
            report.run(change)
    found = run.aligned()
    assert [(r.offset_ns, r.method) for r in found.reports] == [(0, "host")] * 8
    assert found.warnings == ()


def test_exports_on_utc_are_not_shifted_twice(gpt: Reports) -> None:
    gpt.change([1, 2], construct.normalized, extra_shift=1000)
    check(gpt.change([2, 3], construct.with_clock, utc_shift_ns=0).aligned(), [0, 0, 0, 0])


def test_nothing_to_align_by(gpt: Reports) -> None:
    gpt.change(range(4), construct.without_table, table="NVTX_EVENTS")
    found = gpt.change([2, 3], construct.with_clock, utc_shift_ns=3_700_000).aligned()
    assert [(r.method, r.offset_ns, r.anchors) for r in found.reports] == [("utc", 0, 0)] * 4
    assert any("no anchors between hosts" in w for w in found.warnings)


def test_align_utc_leaves_wall_clocks_as_they_are(gpt: Reports) -> None:
    found = gpt.change([2, 3], construct.with_clock, utc_shift_ns=3_700_000).aligned(align="utc")
    assert [(r.method, r.offset_ns) for r in found.reports] == [("utc", 0)] * 4
    assert isinstance(found.reports[0], ReportClock)


@pytest.mark.parametrize("ranks", [[1], [2, 3], [0, 1, 2]])
def test_reports_without_a_wall_clock_are_placed_by_collectives(ranks: list[int], gpt: Reports) -> None:
    """On the host of reports that have one, on a host of their own, and where one report alone has one."""
    starts = [oracle.epoch(path) for path in gpt.paths]
    found = gpt.change(ranks, construct.without_wall_clock).aligned()
    assert any(f"{len(ranks)} of 4 reports have no wall clock" in w for w in found.warnings)
    placed = [clock.offset - start for clock, start in zip(found.clocks, starts, strict=True)]
    assert max(placed) - min(placed) < 100_000


def test_one_report_that_states_both_clocks_places_its_host(tmp_path: Path) -> None:
    halo, boot = reports(SAMPLES, "mpi-halo", tmp_path), -1_700_000_000_000_000_000
    starts = [oracle.epoch(path) for path in halo.paths]
    with construct.report.Report(halo.paths[0]) as first:
        first.run("ALTER TABLE TARGET_INFO_SESSION_START_TIME ADD COLUMN systemClockNs INTEGER")
        first.run("UPDATE TARGET_INFO_SESSION_START_TIME SET systemClockNs = utcEpochNs + :ahead", ahead=boot)
    found = halo.change([1, 2, 3], construct.without_wall_clock, system_ahead_ns=boot).aligned()
    assert found.warnings == ()
    assert [clock.offset for clock in found.clocks] == [start - min(starts) for start in starts]
