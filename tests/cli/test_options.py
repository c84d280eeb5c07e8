"""What each option of `translate` does to a trace, and what `inspect` prints."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import drawn
import oracle
import polars as pl
import pytest
from exports import MAIN, export
from polars.testing import assert_frame_equal
from runs import Command, Runs, in_process, left_in

import nsys2prv
from nsys2prv.cli.main import COMMANDS
from nsys2prv.cli.options import HEADINGS, OWN
from nsys2prv.families.registry import FAMILIES

NVTX_STEP = 'SELECT min(start), max("end") FROM NVTX_EVENTS LEFT JOIN StringIds s ON s.id = textId WHERE {}'


def kinds(output: Path) -> set[str]:
    """Kinds of what is drawn, NVTX domains as one, NCCL's calls apart."""
    trace = nsys2prv.read_prv(output.with_suffix(".prv"))
    named = {number: kind for number in trace.types if (kind := drawn.kind_of(trace, number)) is not None}
    ranges = {n: "nvtx" for n, kind in named.items() if kind.lower().startswith("nvtx")}
    return set({**named, **ranges, **({9500: "nccl call"} if 9500 in named else {})}.values())


def test_what_analyze_prints_comes_before_how_metrics_are_averaged(cli: Command) -> None:
    """A user who reads the help from its begin meets `--show` first, and what counting NCCL as it does means."""
    text = cli("analyze", "--help").out
    assert text.index("  --show ") < text.index("  --held ")
    assert "which lowers efficiency" in text


SELECTED = {
    "--only kernels": {"kernel"},
    "--only kernels,nccl": {"kernel", "nccl kernel", "nccl call"},
    "--only nvtx": {"nvtx"},
    "--only memory,correlation": {"memory"},
    "--skip kernels,nvtx,gpu_metrics": {"api", "memory", "nccl kernel", "nccl call", "os call", "sync"},
    "-t cuda_api_trace": {"api", "kernel", "memory"},
    "-t nvtx_pushpop_trace": {"nvtx"},
    "-t nccl,nvtx_startend_trace": {"nccl kernel", "nccl call", "nvtx"},
}


@pytest.mark.parametrize("options", SELECTED)
def test_families_are_chosen_by_name(options: str, cli: Command, gpt_ddp: list[Path], output: Path) -> None:
    said = cli("translate", gpt_ddp[1], "-o", output, *options.split())
    assert said.code == 0
    assert kinds(output) == SELECTED[options]
    assert "Not translated" in said.out


@pytest.mark.parametrize("family", [f.name for f in FAMILIES if f.emits])
def test_every_family_is_translated_by_itself(
    family: str, cli: Command, gpt_ddp: list[Path], mpi_halo: list[Path], output: Path
) -> None:
    holds = {"mpi": mpi_halo[0]}.get(family, gpt_ddp[1])
    said = cli("translate", holds, "-o", output, "--only", family, "--quiet", "--threads", "all")
    if said.code == 0:
        trace = nsys2prv.read_prv(output.with_suffix(".prv"))
        assert trace.events.height + trace.messages.height > 0
        return
    with nsys2prv.open_report(holds) as report:
        assert not next(f for f in FAMILIES if f.name == family).rows_in(report)
    assert (said.code, "nothing to draw" in said.err) == (2, True)


def test_ranks_keep_their_times_and_names(cli: Command, gpt_ddp: list[Path], output: Path, translations: Runs) -> None:
    cli("translate", *gpt_ddp, "-o", output, "--ranks", "1,3-9", "--threads", "all", "--align", "utc", "--quiet")
    trace = nsys2prv.read_prv(output.with_suffix(".prv"))
    whole = translations.whole("gpt-ddp")
    assert [name.split()[1] for name in trace.names["TASK"]] == ["1", "3"]
    want = whole.intervals.filter(pl.col("pid").is_in([1038, 1017]))
    got = drawn.intervals(trace)
    assert len(trace.header.cpus) == 2
    moved = want.with_columns(pl.col("start", "end") - (want["start"].min() - got["start"].min()))  # type: ignore[operator]
    assert_frame_equal(got.sort(pl.all()), moved.sort(pl.all()))


def test_ranks_that_are_not_there_are_a_warning(cli: Command, mpi_halo: list[Path], output: Path) -> None:
    said = cli("translate", *mpi_halo, "-o", output, "--ranks", "0,3,96-99", "--dry-run")
    assert "warning: --ranks: no report is of rank 96, 97, 98 and 1 more\n" in said.out
    assert "--ranks" not in cli("translate", *mpi_halo, "-o", output, "--ranks", "0-3", "--dry-run").out


def clipped(truth: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """What of intervals lies in [low, high), as the trace cut there should have it."""
    inside = truth.filter((pl.col("end") > low) & (pl.col("start") < high))
    return inside.with_columns(
        start=pl.max_horizontal("start", pl.lit(low)) - low, end=pl.min_horizontal("end", pl.lit(high)) - low
    )


def assert_cut(output: Path, whole: pl.DataFrame, low: int, high: int) -> None:
    """The trace is the whole one's part, balanced, every row where it was."""
    trace = nsys2prv.read_prv(output.with_suffix(".prv"))
    got = drawn.intervals(trace)
    assert got.filter(pl.col("end").is_null()).is_empty()
    assert_frame_equal(got.sort(pl.all()), clipped(whole, low, high).sort(pl.all()))
    assert trace.header.duration == high - low
    step = pl.when(pl.col("value") != 0).then(1).otherwise(-1)
    events = trace.events.filter(~pl.col("type").is_in(list(drawn.HELD)))
    assert (
        events.group_by("task", "thread", "type").agg(step.sum().alias("left")).filter(pl.col("left") != 0).is_empty()
    )


SPANS = {"200ms:0.3s": (200_000_000, 300_000_000), ":50000us": (0, 50_000_000), "600ms:": (600_000_000, None)}


@pytest.mark.parametrize("span", SPANS)
def test_a_span_of_time_cuts_what_crosses_its_borders(
    span: str, cli: Command, gpt_ddp: list[Path], output: Path, translations: Runs
) -> None:
    said = cli("translate", *gpt_ddp, "-o", output, "--time", span, "--threads", "all", "--align", "utc")
    assert "outside the chosen time" in said.out
    whole = translations.whole("gpt-ddp")
    low, high = SPANS[span]
    begins = f"Time 0 of this trace is {low / 1e6:.3f} ms of the run"
    assert (begins in said.out) == (low > 0)
    assert_cut(output, whole.intervals, low, high or whole.trace.header.duration)


def test_metrics_hold_their_value_at_the_border(
    cli: Command, gpt_ddp: list[Path], output: Path, translations: Runs
) -> None:
    low, high = 500_000_033, 550_000_000
    cli("translate", *gpt_ddp, "-o", output, "--time", f"{low}ns:{high}ns", "--threads", "all", "--align", "utc")
    key = ["host", "place", "metric"]
    held = drawn.metrics(translations.whole("gpt-ddp").trace).sort("time").drop("pid")
    got = drawn.metrics(nsys2prv.read_prv(output.with_suffix(".prv"))).sort("time").drop("pid")
    first = got.group_by(key).agg(pl.col("time").min(), pl.col("value").sort_by("time").first())
    assert (first["time"] == 0).all()
    before = held.filter(pl.col("time") <= low).group_by(key).agg(pl.col("value").sort_by("time").last())
    assert_frame_equal(first.select(*key, "value").sort(key), before.sort(key), check_row_order=False)
    inside = held.filter((pl.col("time") > low) & (pl.col("time") < high)).with_columns(pl.col("time") - low)
    assert inside.join(got, on=[*key, "time", "value"], how="anti").is_empty()


@pytest.mark.parametrize(
    ("range_", "where"),
    [
        ("step 5", "coalesce(text, value) = 'step 5' AND domainId = 0"),
        ("forward@default", "coalesce(text, value) = 'forward' AND domainId = 0"),
        ("ncclAllReduce@NCCL", "coalesce(text, value) = 'ncclAllReduce' AND domainId > 0"),
    ],
)
def test_an_nvtx_range_cuts_to_what_it_spans_over_all_ranks(
    range_: str, where: str, cli: Command, gpt_ddp: list[Path], output: Path, translations: Runs
) -> None:
    cli("translate", *gpt_ddp, "-o", output, "--nvtx", range_, "--threads", "all", "--align", "utc", "--quiet")
    spans = [(oracle.epoch(r), *oracle.sql(r, NVTX_STEP.format(where))[0]) for r in gpt_ddp]
    whole = translations.whole("gpt-ddp")
    origin = whole.truth["start"].min() - whole.intervals["start"].min()  # type: ignore[operator]
    low, high = min(e + a - origin for e, a, _ in spans), max(e + b - origin for e, _, b in spans)
    assert_cut(output, whole.intervals, low, high)


@pytest.mark.parametrize(
    ("wanted", "span"),
    [("fwd@layer1", (1000, 1800)), ("fwd@layer1@default", (1000, 1500)), ("a@b@layer", (1700, 1800))],
)
def test_a_text_with_an_at_sign_is_found_as_it_is(wanted: str, span: tuple[int, int], tmp_path: Path) -> None:
    """`fwd@layer1` is both a text of the default domain and the text `fwd` of another."""
    report = export(
        tmp_path / "r.sqlite",
        NVTX_EVENTS=(
            "start end eventType text globalTid domainId",
            [
                (0, None, 75, "layer1", MAIN, 1),
                (0, None, 75, "layer", MAIN, 2),
                (100, 5000, 59, "step", MAIN, 0),
                (1000, 1500, 59, "fwd@layer1", MAIN, 0),
                (1600, 1800, 59, "fwd", MAIN, 1),
                (1700, 1800, 59, "a@b", MAIN, 2),
                (1900, 2000, 59, "fwd", MAIN, 0),
            ],
        ),
    )
    made = nsys2prv.translate(report, tmp_path / "out", selection=nsys2prv.Selection(nvtx=wanted))
    assert made.duration_ns == span[1] - span[0]


def test_all_threads_are_drawn_on_request(cli: Command, saxpy: Path, output: Path, translations: Runs) -> None:
    said = cli("translate", saxpy, "-o", output, "--threads", "all")
    assert "on threads without a row" not in said.out
    threads = drawn.intervals(nsys2prv.read_prv(output.with_suffix(".prv"))).filter(pl.col("kind") == "os call")
    assert threads.height == oracle.sql(saxpy, "SELECT count(*) FROM OSRT_API")[0][0]
    assert translations.default("saxpy").result.dropped["osrt"]


def test_hosts_of_a_file_win(cli: Command, mpi_halo: list[Path], tmp_path: Path, output: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# pattern host\nmpi-halo.[01] left\nmpi-halo.* right\n")
    assert cli("translate", *mpi_halo, "-o", output, "--hosts", hosts, "--quiet").code == 0
    trace = nsys2prv.read_prv(output.with_suffix(".prv"))
    assert trace.names["NODE"] == ("left", "right")
    assert [node for _, node in trace.header.tasks] == [1, 1, 2, 2]


def test_hosts_that_no_report_is_of_are_told(cli: Command, mpi_halo: list[Path], tmp_path: Path, output: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("mpi-halo.* right\nmpi-hallo.0 left\n")
    told = "warning: --hosts: no report's name matches mpi-hallo.0\n"
    assert told in cli("translate", *mpi_halo[:1], "-o", output, "--hosts", hosts).out
    assert told in cli("align", *mpi_halo[:1], "--hosts", hosts).out


def test_a_line_that_is_no_host_is_told(cli: Command, mpi_halo: list[Path], tmp_path: Path, output: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# pattern host\nmpi-halo.0 node 0\n")
    found = cli("translate", *mpi_halo[:1], "-o", output, "--hosts", hosts)
    assert (found.code, found.err) == (
        2,
        f"nsys2prv: {hosts}, line 2: not a host; write PATTERN HOST, such as `rank[0-3].* node0`\n",
    )


def test_ranks_come_from_where_the_user_says(cli: Command, mpi_halo: list[Path], output: Path) -> None:
    names = {}
    for source in ("mpi", "env", "file", "pid"):
        assert cli("translate", *mpi_halo, "-o", output, "--rank-from", source, "--quiet", "--force").code == 0
        names[source] = nsys2prv.read_prv(output.with_suffix(".prv")).names["TASK"]
    by_rank = [oracle.sql(r, "SELECT rank, globalTid >> 24 & 0xFFFFFF FROM MPI_RANKS")[0] for r in mpi_halo]
    assert [(int(n.split()[1]), int(n.rpartition(":")[2])) for n in names["mpi"]] == sorted(by_rank)
    assert [n.split()[1] for n in names["file"]] == ["0", "1", "2", "3"]
    pids = [int(n.rpartition(":")[2]) for n in names["pid"]]
    assert pids == sorted(pids)


def test_without_a_clock_sessions_begin_at_once(cli: Command, mpi_halo: list[Path], output: Path) -> None:
    cli("translate", *mpi_halo, "-o", output, "--align", "none", "--quiet")
    got = drawn.intervals(nsys2prv.read_prv(output.with_suffix(".prv"))).group_by("pid").agg(pl.col("start").min())
    first = {}
    for report in mpi_halo:
        rows = oracle.intervals(report)
        first[rows["pid"][0]] = rows["start"].min() - oracle.epoch(report)  # type: ignore[operator]
    assert dict(got.rows()) == {pid: time - min(first.values()) for pid, time in first.items()}


def test_a_dry_run_writes_nothing_and_forecasts(cli: Command, gpt_ddp: list[Path], output: Path) -> None:
    said = cli("translate", *gpt_ddp, "-o", output, "--dry-run")
    assert said.code == 0
    assert "Would write 4 reports, 4 tasks on 2 nodes" in said.out
    assert "Paraver needs about" in said.out
    assert left_in(output.parent) == []
    result = nsys2prv.translate(gpt_ddp, output, dry_run=True)
    real = nsys2prv.translate(gpt_ddp, output)
    assert result.prv is None
    assert 0.5 < result.size / real.size < 2
    # Nor does it mind a trace that is there.
    assert cli("translate", *gpt_ddp, "-o", output, "--dry-run").code == 0


def test_too_large_a_trace_is_refused_with_what_helps(cli: Command, gpt_ddp: list[Path], output: Path) -> None:
    said = cli("translate", *gpt_ddp, "-o", output, "--max-size", "1MB", "--quiet")
    assert said.code == 2
    for word in ("--skip", "--time", "--nvtx", "--ranks", "--max-size"):
        assert word in said.err
    assert left_in(output.parent) == []


def test_quiet_is_silent(saxpy: Path, output: Path) -> None:
    said = in_process("translate", saxpy, "-o", output, "--quiet")
    assert (said.code, said.out, said.err) == (0, "", "")


def test_what_was_written_and_lost_is_said(cli: Command, gpt_ddp: list[Path], output: Path) -> None:
    said = cli("translate", *gpt_ddp, "-o", output, "--details")
    assert f"Wrote {output}.prv (.pcf, .row): 4 reports, 4 tasks on 2 nodes" in said.out
    assert "Not all CUDA events might have been collected" in said.out
    calls = sum(oracle.sql(r, f"SELECT count(*) FROM {oracle.RUNTIME}")[0][0] for r in gpt_ddp)
    assert f"{calls:>12,}  cuda_api" in said.out
    assert "reading reports: 4 in" in said.err


@pytest.mark.parametrize("name", ["trace", "trace.prv", "trace.prv.gz"])
def test_the_output_may_be_named_with_or_without_its_ending(name: str, cli: Command, saxpy: Path, output: Path) -> None:
    assert cli("translate", saxpy, "-o", output.parent / name, "--quiet").code == 0
    body = "trace.prv.gz" if name.endswith("gz") else "trace.prv"
    assert left_in(output.parent) == ["trace.align.json", "trace.pcf", body, "trace.row"]


def test_a_compressed_trace_holds_the_same_lines(cli: Command, saxpy: Path, output: Path, translations: Runs) -> None:
    cli("translate", saxpy, "-o", output, "--compress", "--quiet")
    assert gzip.decompress(output.with_suffix(".prv.gz").read_bytes()) == translations.default("saxpy").prv.read_bytes()


def test_inspect_prints_a_table_of_ranks_and_families(cli: Command, gpt_ddp: list[Path]) -> None:
    said = cli("inspect", *gpt_ddp[::-1])
    assert said.code == 0
    table = [
        line.split() for line in said.out.splitlines() if line.split()[:1] in (["rank"], ["0"], ["1"], ["2"], ["3"])
    ]
    head, *body = table
    assert [row[0] for row in body] == ["0", "1", "2", "3"]
    for row, report in zip(body, gpt_ddp, strict=True):
        cell = dict(zip(head, row, strict=True))
        for family, name in (("cuda_api", oracle.RUNTIME), ("osrt", "OSRT_API"), ("gpu_metrics", "GPU_METRICS")):
            assert int(cell[family].replace(",", "")) == oracle.sql(report, f"SELECT count(*) FROM {name}")[0][0]
    for text in ("gpu-node0", "gpu-node1", "NVIDIA H200", "python3:1059"):
        assert text in said.out


def test_inspect_tells_once_what_several_reports_say(cli: Command, gpt_ddp: list[Path], saxpy: Path) -> None:
    assert cli("inspect", gpt_ddp[0]).out.count("the report says: Not all CUDA events") == 1
    told = cli("inspect", *gpt_ddp).out
    assert "the report says" not in told
    assert told.count("All 4 reports say: Not all CUDA events might have been collected.") == 1
    # A program without NVTX.
    told = cli("inspect", *gpt_ddp[:2], saxpy).out
    assert f"2 of 3 reports say ({gpt_ddp[0].name}, {gpt_ddp[1].name}): Not all NVTX events might" in told
    assert "the report says: No NVTX events collected." in told


def test_inspect_as_json_says_of_each_table_why_it_is_left_out(cli: Command, tmp_path: Path) -> None:
    report = export(tmp_path / "r.sqlite", CUDA_CALLCHAINS=("id symbol", [(1, "main"), (2, "main")]))
    told = json.loads(cli("inspect", report, "--json").out)
    (out,) = told["reports"][0]["left_out"].values()
    assert (sorted(out), out["rows"]) == (["reason", "rows"], 2)


def test_inspect_as_json_holds_the_same(cli: Command, mpi_halo: list[Path]) -> None:
    told = json.loads(cli("inspect", *mpi_halo, "--json").out)
    assert [r["rank"] for r in told["reports"]] == [0, 1, 2, 3]
    for report, path in zip(told["reports"], mpi_halo, strict=True):
        assert report["host"] == oracle.host(path)
        assert report["utc_epoch_ns"] == oracle.epoch(path)
        assert report["rows"]["cuda_api"] == oracle.sql(path, f"SELECT count(*) FROM {oracle.RUNTIME}")[0][0]


def test_inspect_warns_where_reports_differ(cli: Command, mpi_halo: list[Path], saxpy: Path) -> None:
    said = cli("inspect", *mpi_halo, saxpy)
    assert "warning: mpi: 4 of 5 reports have it; not saxpy.sqlite" in said.out


def test_help_lists_options_by_subject(cli: Command) -> None:
    lines = cli("translate", "--help").out.splitlines()
    headings = [line.rstrip(":") for line in lines if line and not line.startswith((" ", "Usage"))]
    assert headings == [OWN, *(HEADINGS[g] for g in ("Selection", "RunOptions", "TraceOutput", "Execution"))]
    first = {heading: lines[lines.index(f"{heading}:") + 1].split()[0] for heading in headings}
    assert list(first.values()) == ["-o,", "--only", "--align", "--compress", "--jobs"]


def test_help_is_there_for_every_command(cli: Command) -> None:
    for arguments in ([], *([command] for command in COMMANDS)):
        said = cli(*arguments, "--help")
        assert (said.code, f"Usage: nsys2prv {' '.join(arguments)}" in said.out) == (0, True)
