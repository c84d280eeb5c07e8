"""Runs that were changed so that the truth about them is known, against the traces of what they were made from."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import construct
import drawn
import oracle
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from runs import FOLDERS, SINGLE, Runs, Translated, parameters, records, reports_of

import nsys2prv
from nsys2prv.analysis.graph.streams import streams_of


def translate(reports: list[Path], folder: Path, **how: object) -> Translated:
    """A trace of constructed reports, as whole as the runs' that it is compared with."""
    options = nsys2prv.RunOptions(align="utc", every_thread=True, **how)  # type: ignore[arg-type]
    return Translated(
        reports, nsys2prv.translate(reports, folder / "made", options=options, execution=nsys2prv.Execution(jobs=1))
    )


def file(made: Translated, ending: str) -> bytes:
    return records(made.prv) if ending == ".prv" else made.prv.with_suffix(ending).read_bytes()


@pytest.mark.parametrize("run", parameters("gpt-ddp", "saxpy", "graph-node", "mesh-tp-pp", "threads-cpu-sampling"))
def test_a_report_cut_in_two_gives_the_uncut_trace(run: str, translations: Runs, tmp_path: Path) -> None:
    report = reports_of(run)[0]
    uncut = translations.alone(report)
    parts = construct.cut_in_two(report, tmp_path / "parts")
    made = translate(parts, tmp_path)
    assert made.result.tasks == 1
    assert file(made, ".row") == file(uncut, ".row")
    # Attributes that a part cannot know (which call made a graph's node, which payload is a kernel's) may lack.
    assert_frame_equal(made.intervals.sort(pl.all()), uncut.intervals.sort(pl.all()))
    assert_frame_equal(drawn.metrics(made.trace).sort(pl.all()), drawn.metrics(uncut.trace).sort(pl.all()))
    assert made.trace.messages.sort(pl.all()).equals(uncut.trace.messages.sort(pl.all()))


@pytest.mark.parametrize("run", parameters("gpt-ddp", "saxpy"))
def test_a_report_cut_in_two_gives_the_same_bytes(run: str, translations: Runs, tmp_path: Path) -> None:
    """Where no event explains one of the other part, as a graph's creation explains its kernels."""
    report = reports_of(run)[0]
    made = translate(construct.cut_in_two(report, tmp_path / "parts"), tmp_path)
    for ending in (".prv", ".pcf", ".row"):
        assert file(made, ending) == file(translations.alone(report), ending), ending


@pytest.mark.parametrize("at", [0.3, 0.7])
def test_a_cut_that_parts_launches_from_kernels_loses_only_their_lines(
    at: float, translations: Runs, tmp_path: Path
) -> None:
    report = reports_of("gpt-ddp")[0]
    uncut = translations.alone(report)
    parts = construct.cut_in_two(report, tmp_path / "parts", at, quiet=False, whole_launches=False)
    made = translate(parts, tmp_path)
    # A synchronisation record whose call is in the other part is drawn on the main thread: all else is where it was.
    here = pl.col("kind") != "sync"
    assert_frame_equal(
        made.intervals.filter(here).sort(pl.all()), uncut.intervals.filter(here).sort(pl.all()), check_exact=True
    )
    assert made.trace.messages.height <= uncut.trace.messages.height
    assert_frame_equal(drawn.metrics(made.trace).sort(pl.all()), drawn.metrics(uncut.trace).sort(pl.all()))


@pytest.mark.parametrize("case", ["metrics_to_first", "metrics_to_last"])
def test_metrics_in_another_ranks_report_give_the_same_bytes(
    case: str, gpt_ddp: list[Path], translations: Runs, tmp_path: Path
) -> None:
    made = translate(construct.CASES[case](gpt_ddp, tmp_path / "moved"), tmp_path)
    whole = translations.whole("gpt-ddp")
    for ending in (".prv", ".pcf", ".row"):
        assert file(made, ending) == file(whole, ending), ending


def test_equal_pids_and_streams_on_two_hosts_stay_apart(
    gpt_ddp: list[Path], translations: Runs, tmp_path: Path
) -> None:
    made = translate(construct.equal_pids(gpt_ddp, tmp_path / "equal"), tmp_path)
    whole = translations.whole("gpt-ddp")
    pids = [re.search(r":(\d+)$", name)[1] for name in made.trace.names["TASK"]]  # type: ignore[index]
    assert len(set(pids)) == 2
    assert made.trace.header.tasks == whole.trace.header.tasks
    device = pl.col("place").str.starts_with("CUDA")
    row = ["host", "place", "label", "start", "end"]
    assert_frame_equal(
        made.intervals.filter(device).select(row).sort(row), whole.intervals.filter(device).select(row).sort(row)
    )
    assert_frame_equal(
        drawn.metrics(made.trace).drop("pid").sort(pl.all()), drawn.metrics(whole.trace).drop("pid").sort(pl.all())
    )
    assert oracle.counts(made.intervals) == oracle.counts(whole.intervals)


@pytest.mark.parametrize("run", ["gpt-ddp", "mpi-halo"])
def test_equal_streams_of_two_contexts_stay_apart(run: str, translations: Runs, tmp_path: Path) -> None:
    reports = reports_of(run)
    made = translate(construct.two_contexts(reports, tmp_path / "contexts"), tmp_path)
    whole = translations.whole(run)
    # A row more for each task, with the same label; the work of the two is that of the one.
    assert [n for n, _ in made.trace.header.tasks] == [n + 1 for n, _ in whole.trace.header.tasks]
    assert_frame_equal(made.intervals.sort(pl.all()), whole.intervals.sort(pl.all()))
    rows = pl.concat(made.trace.intervals(n) for n in (63000001, 63000006, 63000007) if n in made.trace.types)
    work = rows.group_by("task", "thread").len().join(drawn.places(made.trace), on=["task", "thread"])
    for (_,), streams in work.group_by("task"):
        doubled = streams.filter(pl.col("place").is_duplicated())["len"].to_list()
        assert max(doubled) - min(doubled) in (0, 1)


def test_equal_streams_of_two_contexts_count_apart_in_analysis(tmp_path: Path) -> None:
    found = nsys2prv.analyze(construct.two_contexts(reports_of("saxpy"), tmp_path / "contexts"))
    whole = nsys2prv.analyze(reports_of("saxpy"))
    assert streams_of(found.run).with_work.height == streams_of(whole.run).with_work.height + 1
    by_label = found.queues.group_by("rank", "stream").agg(pl.col("activities").sum())
    assert by_label.sort(pl.all()).rows() == whole.queues.select("rank", "stream", "activities").sort(pl.all()).rows()
    assert found.queues.height == whole.queues.height + 1


@pytest.mark.parametrize("run", parameters("gpt-ddp", "mpi-halo", "mesh-tp-pp"))
def test_equal_streams_on_two_gpus_of_one_process_stay_apart(run: str, translations: Runs, tmp_path: Path) -> None:
    two = reports_of(run)[:2]
    made = translate(construct.two_gpus_one_process(two, tmp_path / "one"), tmp_path)
    assert made.result.tasks == 1
    apart = translate(two, tmp_path / "one")
    device = pl.col("place").str.starts_with("CUDA")
    row = ["host", "place", "kind", "label", "start", "end"]
    got, want = (frame.intervals.filter(device).select(row).sort(row) for frame in (made, apart))
    shift = int(want["start"].min() - got["start"].min())  # type: ignore[operator]
    assert_frame_equal(got.with_columns(pl.col("start", "end") + shift), want)
    streams = Counter(name for name in made.trace.names["THREAD"] if name.startswith("CUDA"))
    assert streams == Counter(name for name in apart.trace.names["THREAD"] if name.startswith("CUDA"))
    metrics = [name for name in made.trace.names["THREAD"] if name.startswith("Metrics")]
    assert metrics == [name for name in apart.trace.names["THREAD"] if name.startswith("Metrics")]


def test_swapped_host_names_give_a_trace_with_swapped_nodes(
    gpt_ddp: list[Path], translations: Runs, tmp_path: Path
) -> None:
    made = translate(construct.hosts_swapped(gpt_ddp, tmp_path / "swapped"), tmp_path)
    whole = translations.whole("gpt-ddp")
    assert file(made, ".row") != file(whole, ".row")
    assert made.trace.names["NODE"] == whole.trace.names["NODE"][::-1]
    assert made.trace.names["TASK"] == whole.trace.names["TASK"]
    other = dict(zip(made.trace.names["NODE"], whole.trace.names["NODE"], strict=True))
    swapped = made.intervals.with_columns(pl.col("host").replace(other))
    assert_frame_equal(swapped.sort(pl.all()), whole.intervals.sort(pl.all()))


@pytest.mark.parametrize("run", ["gpt-ddp", "mpi-halo"])
def test_without_ranks_in_the_environment_everything_is_still_there(
    run: str, translations: Runs, tmp_path: Path
) -> None:
    bare = construct.without_rank_env(reports_of(run), tmp_path / "bare", mpi_ranks=True)
    made = translate(bare, tmp_path)
    # The last number in the files' names is the rank here.
    assert [name.split(" ")[1] for name in made.trace.names["TASK"]] == ["0", "1", "2", "3"]
    assert_frame_equal(made.intervals.sort(pl.all()), translations.whole(run).intervals.sort(pl.all()))


def test_without_any_rank_tasks_are_in_order_of_host_and_pid(gpt_ddp: list[Path], tmp_path: Path) -> None:
    bare = construct.without_rank_env(gpt_ddp, tmp_path / "bare")
    named = [path.rename(path.with_name(name)) for path, name in zip(bare, "dbca", strict=True)]
    made = translate(named, tmp_path)
    names = made.trace.names["TASK"]
    assert not any(name.startswith("rank") for name in names)
    nodes = [node for _, node in made.trace.header.tasks]
    keys = [(node, int(name.rpartition(":")[2])) for node, name in zip(nodes, names, strict=True)]
    assert keys == sorted(keys)


@pytest.mark.parametrize("ppm", [0.0, 20.0])
def test_a_clock_that_is_ahead_moves_its_host_as_a_whole(ppm: float, mpi_halo: list[Path], tmp_path: Path) -> None:
    ahead = 5_000_000
    late = construct.with_clock(mpi_halo[:2], tmp_path / "late", utc_shift_ns=ahead, stretch_ppm=ppm)
    made = translate([*late, *mpi_halo[2:]], tmp_path)
    truth = pl.concat(oracle.intervals(report) for report in made.reports)
    assert oracle.counts(made.intervals) == oracle.counts(truth)
    row = ["host", "pid", "place", "kind", "label"]
    for (pid,), got in made.intervals.group_by("pid"):
        want = truth.filter(pl.col("pid") == pid)
        shift = truth["start"].min() - made.intervals["start"].min()  # type: ignore[operator]
        moved = got.with_columns(pl.col("start", "end") + shift).select(*row, "start", "end")
        assert_frame_equal(moved.sort(pl.all()), want.select(moved.columns).sort(pl.all()))


UNREAD = ("ENUM_", "ANALYSIS_", "NVTX_PAYLOAD_")


def rows_of(reports: list[Path], stem: Path) -> dict[str, int] | str:
    """Rows by family of a translation, NCCL kernels with the others (without names nothing tells them apart); or what
    was said instead.
    """
    try:
        rows = dict(nsys2prv.translate(reports, stem, execution=nsys2prv.Execution(jobs=1), force=True).rows)
    except nsys2prv.Nsys2prvError as error:
        return str(error)
    return {**rows, "kernels": rows.get("kernels", 0) + rows.pop("nccl", 0)}


@pytest.mark.parametrize("run", parameters(*FOLDERS, *SINGLE))
def test_with_any_one_table_missing_a_report_translates_or_says_what_is_wrong(run: str, tmp_path: Path) -> None:
    report = reports_of(run)[-1]
    before = rows_of([report], tmp_path / "t")
    assert isinstance(before, dict)
    for table in sorted(t for t in oracle.tables(report) if not t.startswith(UNREAD)):
        made = construct.without_table(report, tmp_path / "without", table=table)
        after = rows_of(made, tmp_path / "t")
        if isinstance(after, str):
            assert "no events" in after, table
            assert str(made[0]) in after
        else:
            # What the table held is gone, and what hung on it; nothing comes instead. Without their names, calls of
            # NCCL's are ranges like any other, and kernels are of one class, for whose tensor activity samples suffice.
            allowed = {**before, "nvtx": before["nvtx"] + before["nccl"]}
            allowed["tensor_estimate"] = before["kernels"] + before["nccl"]
            assert {f: n for f, n in after.items() if n > allowed[f]} == {}, table
            assert nsys2prv.read_prv(tmp_path / "t.prv").events.height > 0


def test_without_unread_tables_the_bytes_are_the_same(saxpy: Path, translations: Runs, tmp_path: Path) -> None:
    report = saxpy
    for n, table in enumerate(sorted(t for t in oracle.tables(saxpy) if t.startswith(UNREAD))):
        (report,) = construct.without_table(report, tmp_path / str(n), table=table)
    made = Translated([report], nsys2prv.translate(report, tmp_path / "t", execution=nsys2prv.Execution(jobs=1)))
    assert file(made, ".prv") == file(translations.default("saxpy"), ".prv")
