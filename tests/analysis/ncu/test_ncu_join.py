"""Kernels of Nsight Compute joined to launches, and means of classes, against plain computations."""

from __future__ import annotations

import csv
import itertools
import re
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from exports import HOST, export, tid
from runs import Command

import nsys2prv
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.ncu.join import CLASS, EXACT, SAME
from nsys2prv.analysis.ncu.placing import occurrences_of
from nsys2prv.commands.analyze import open_run
from nsys2prv.model.ncu_types import NCU_FIGURES, NCU_JOINED, NCU_STALL
from nsys2prv.report.ncu.profile import ProfileFile, profile_file, read_profile

DATA = Path(__file__).parents[2] / "data" / "ncu"
GPT, STEPS, PARTIAL, RENAMED = (DATA / name for name in ("gpt.sqlite", "steps.csv", "partial.csv", "renamed.csv"))
TIME = "gpu__time_duration.sum"
# Kernels in the order of the calls that launched them: start, duration, short name, grid, block, registers.
LAUNCHES = """
    SELECT k.start, k.end - k.start, s.value, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread
    FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId)
    JOIN StringIds s ON s.id = shortName ORDER BY r.start, k.start
"""
KERNEL = "start end correlationId globalPid deviceId streamId shortName demangledName"
KERNEL += " gridX gridY gridZ blockX blockY blockZ registersPerThread"


def options(*files: str | Path) -> nsys2prv.RunOptions:
    return nsys2prv.RunOptions(ncu=tuple(map(profile_file, files)))


def run_with(reports: Any, *files: str | Path) -> Run:
    with open_run(reports, options=options(*files)) as run:
        return run


def launches() -> list[tuple[Any, ...]]:
    with sqlite3.connect(GPT) as connection:
        return connection.execute(LAUNCHES).fetchall()


def page(path: Path) -> list[dict[str, str]]:
    """The kernels of a raw page, by Python's own reader, their times in us."""
    units, *rows = csv.DictReader(line for line in path.read_text().splitlines() if line.startswith('"'))
    factor = {"us": 1.0, "ns": 1e-3}[units[TIME]]
    return [{**row, TIME: str(factor * float(row[TIME]))} for row in rows]


def joined(run: Run) -> list[tuple[int | None, float | None]]:
    """How each kernel of a run got its figures, and its time under the profiler, in order of start."""
    assert run.figures is not None
    kernels = run.work.filter(pl.col("kind").is_in(["kernel", "nccl"])).sort("start")
    times = run.figures.with_row_index("figures").select("figures", "ns")
    return kernels.join(times, on="figures", how="left", maintain_order="left").select("joined", "ns").rows()


def by_launch(path: Path, first: int, chosen: str = "") -> dict[int, dict[str, str]]:
    """The page's kernel of each launch, by its number: the n-th of those whose name matches, from `first` on."""
    rows = page(path)
    alike = [n for n, row in enumerate(launches()) if re.search(chosen, row[2])]
    return dict(zip(alike[first:], rows, strict=False))


@pytest.mark.parametrize(
    ("path", "first", "chosen"),
    [(STEPS, 0, ""), (RENAMED, 0, ""), (PARTIAL, 10, "gemm|attention|flash|nvjet")],
    ids=["all", "renamed", "chosen"],
)
def test_each_kernel_is_joined_to_its_launch(path: Path, first: int, chosen: str) -> None:
    """By launch order alone; `chosen` was profiled with --kernel-name regex:... --launch-skip 10."""
    there, profiled = launches(), by_launch(path, first, chosen)
    assert len(profiled) == len(page(path))
    for n, row in profiled.items():
        sizes = [*re.findall(r"\d+", row["Grid Size"] + row["Block Size"]), row["launch__registers_per_thread"]]
        assert list(map(int, sizes)) == list(there[n][3:])
    run = run_with(GPT, path)
    in_order_of_start = sorted(range(len(there)), key=lambda n: there[n][0])
    found = dict(zip(in_order_of_start, joined(run), strict=True))
    assert {n for n, (how, _) in found.items() if how == EXACT} == profiled.keys()
    for n, row in profiled.items():
        assert found[n][1] == pytest.approx(1000 * float(row[TIME]))
    assert run.profiled is not None
    told = run.profiled.row(0, named=True)
    assert (told["rank"], told["joined"], told["known"]) == (0, len(profiled), len(profiled))
    assert told["first"] == min(profiled) + 1
    assert run.remarks == run_with(GPT).remarks


def test_kernels_that_were_not_profiled_have_the_mean_of_the_same_kernel() -> None:
    """Time by time: the profiler's times of all kernels of one name, grid, block and registers."""
    there, profiled = launches(), by_launch(STEPS, 0)
    times: defaultdict[Any, list[float]] = defaultdict(list)
    for n, row in profiled.items():
        times[there[n][2:]].append(1000 * float(row[TIME]))
    # Short names do not tell all kernels apart: only those whose name is one in the page.
    names = defaultdict(set)
    for n, row in profiled.items():
        names[there[n][2:]].add(row["Kernel Name"])
    found = dict(zip(sorted(range(len(there)), key=lambda n: there[n][0]), joined(run_with(GPT, STEPS)), strict=True))
    tested = 0
    for n in set(range(len(there))) - profiled.keys():
        if len(names[there[n][2:]]) == 1:
            how, ns = found[n]
            assert (how, ns) == (SAME, pytest.approx(np.mean(times[there[n][2:]])))
            tested += 1
    assert tested > 200


def test_means_of_classes_equal_a_plain_calculation() -> None:
    """Weighted by the kernels' time in the run: each profiled kernel's own, all others their kernel's mean."""
    found = nsys2prv.analyze(GPT, options=options(STEPS), question=nsys2prv.Question(window="trace"))
    assert found.ncu is not None
    run = run_with(GPT, STEPS)
    work = run.work.filter(pl.col("kind") == "kernel").sort("start")
    there = sorted(launches())
    rows = page(STEPS)
    order = sorted(range(len(there)), key=lambda n: launches()[n][0])
    own = {position: rows[n] for position, n in enumerate(order) if n < len(rows)}
    keys = [(row["Kernel Name"], row["Grid Size"], row["Block Size"]) for row in rows]
    # The launch's key: what was launched as the kernel 164 before it, one step earlier.
    step = len(rows) // 2
    key_of = {position: keys[n % step] for position, n in enumerate(order)}
    for metric, column, precision in (
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "sm_percent", 1e-6),
        ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", "tensor_percent", 1e-6),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", "occupancy_percent", 1e-6),
    ):
        together: defaultdict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for key, row in zip(keys, rows, strict=True):
            time = float(row[TIME])
            together[key][0] += time * float(row[metric])
            together[key][1] += time
        sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for position, (family, start, end) in enumerate(work.select("family", "start", "end").rows()):
            key = key_of[position]
            mean = float(own[position][metric]) if position in own else together[key][0] / together[key][1]
            sums[family][0] += (end - start) * mean
            sums[family][1] += end - start
        plain = {family: weighted / time for family, (weighted, time) in sums.items()}
        table = dict(found.ncu.classes.select("class", column).rows())
        assert table == pytest.approx(plain, rel=precision)
    counted = found.ncu.classes.select("exact", "same_kernel", "class_mean", "without").sum().row(0)
    assert counted == (328, 328, 0, 0)


def test_the_roofline_equals_a_plain_calculation() -> None:
    """On the two steps that were profiled, each kernel counts once."""
    found = nsys2prv.analyze(GPT, options=options(STEPS), question=nsys2prv.Question(window="trace"))
    assert found.ncu is not None
    # The run has each profiled step twice: sums are double those of the page, rates are the same.
    products = [row for row in page(STEPS) if row["Kernel Name"].startswith("nvjet")]
    tensor = sum(float(row["sm__ops_path_tensor_src_bf16_dst_fp32.sum"]) for row in products)
    seconds = sum(float(row[TIME]) for row in products) / 1e6
    threads = sum(
        float(row[TIME]) / 1e6
        * 1e9 * float(row["smsp__cycles_elapsed.avg.per_second"])
        * sum(
            weight * float(row[f"smsp__sass_thread_inst_executed_op_f{op}_pred_on.sum.per_cycle_elapsed"])
            for op, weight in (("add", 1), ("mul", 1), ("fma", 2))
        )
        for row in products
    )  # fmt: skip
    row = found.ncu.roofline.filter(pl.col("class") == "GEMM").row(0, named=True)
    assert (row["kernels"], row["of"], row["pipe"], row["bound"]) == (
        2 * len(products),
        2 * len(products),
        "tensor",
        "compute",
    )
    assert row["flop"] == pytest.approx(2 * (tensor + threads))
    assert row["flop_s"] == pytest.approx((tensor + threads) / seconds)
    assert row["flop_byte"] == pytest.approx(row["flop"] / row["bytes"])
    at_peak = sum(
        float(r["sm__ops_path_tensor_src_bf16_dst_fp32.sum"])
        / (540_672 * 1e9 * float(r["sm__cycles_elapsed.avg.per_second"]))
        for r in products
    )
    # The kernels that were not profiled have mean operations, and a mean peak.
    assert row["flop_percent"] == pytest.approx(100 * at_peak / seconds, rel=5e-3)
    # Tensor cores were active for as long, and a little for what does not count as an operation.
    tensor_percent = dict(found.ncu.classes.select("class", "tensor_percent").rows())["GEMM"]
    assert row["flop_percent"] == pytest.approx(tensor_percent, rel=0.02)


def test_the_trace_has_the_figures_of_each_kernel(tmp_path: Path) -> None:
    result = nsys2prv.translate(GPT, tmp_path / "trace", options=options(STEPS))
    assert result.prv is not None
    assert result.rows["ncu"] == 656
    assert sum(result.dropped["ncu"].values()) == 328
    assert [text for text in result.warnings if "from launch 1 of rank 0 on, the first of 3 places" in text]
    trace = nsys2prv.read_prv(result.prv)
    kernels = trace.intervals(63000006).sort("start")
    how = trace.intervals(NCU_JOINED.number)
    drawn = kernels.join(how, on=["task", "thread", "start", "end"], how="left", maintain_order="left")
    assert drawn["value_right"].to_list() == [way for way, _ in joined(run_with(GPT, STEPS))]
    # Each value ends with its kernel, and is the profiler's.
    rows = [row for _, row in sorted((launches()[n][0], row) for n, row in by_launch(STEPS, 0).items())]
    exact = how.filter(pl.col("value") == EXACT).sort("start").select("task", "thread", "start", "end")
    for kind, metric, factor in (
        (NCU_FIGURES["sm_percent"], "sm__throughput.avg.pct_of_peak_sustained_elapsed", 100),
        (NCU_FIGURES["dram_bytes"], "dram__bytes.sum", 1),
    ):
        values = exact.join(
            trace.intervals(kind.number), on=["task", "thread", "start", "end"], how="left", maintain_order="left"
        )["value"].fill_null(0)
        if factor == 100:
            assert values.to_list() == [round(factor * float(row[metric])) for row in rows]
        else:
            assert (
                values.to_list()
                == read_profile(ProfileFile(STEPS))
                .kernels[[int(row["ID"]) for row in rows], "dram_bytes"]
                .cast(pl.Int64)
                .to_list()
            )
    assert set(trace.intervals(NCU_STALL.number)["label"]) <= set(NCU_STALL.values.values())


def test_a_part_of_the_run_has_the_figures_of_its_launches(tmp_path: Path) -> None:
    """Its kernels are found among all launches of the run: the second step alone has its own."""
    whole, part = (
        nsys2prv.translate(GPT, tmp_path / name, options=options(STEPS), selection=nsys2prv.Selection(nvtx=nvtx)).prv
        for name, nvtx in (("whole", None), ("part", "step 4"))
    )
    assert whole is not None
    assert part is not None
    traces = [nsys2prv.read_prv(prv) for prv in (whole, part)]
    steps = traces[0].intervals(9600).filter(pl.col("label") == "step 4")
    low, high = steps.select("start", "end").row(0)
    for kind in (NCU_JOINED, *NCU_FIGURES.values(), NCU_STALL):
        of_run, of_part = (trace.intervals(kind.number).sort("start") for trace in traces)
        inside = of_run.filter((pl.col("end") > low) & (pl.col("start") < high))
        moved = inside.select((pl.col("start") - low).clip(0), (pl.col("end") - low).clip(0, high - low), "value")
        assert of_part.select("start", "end", "value").rows() == moved.rows()
        assert of_part.height > 20


def test_without_files_the_trace_is_the_same_and_the_family_draws_nothing(tmp_path: Path) -> None:
    plain = nsys2prv.translate(GPT, tmp_path / "plain")
    also = nsys2prv.Selection((*nsys2prv.Selection().families, "ncu"))
    nothing = nsys2prv.translate(GPT, tmp_path / "also", selection=also)
    assert plain.prv is not None
    assert nothing.prv is not None
    bodies = [[line for line in prv.read_text().splitlines() if line[0] != "#"] for prv in (plain.prv, nothing.prv)]
    assert bodies[0] == bodies[1]
    assert plain.prv.with_suffix(".pcf").read_bytes() == nothing.prv.with_suffix(".pcf").read_bytes()
    found = nsys2prv.analyze(GPT)
    assert found.ncu is None
    assert "ncu" not in found.as_json()
    assert "stall" not in found.kernels.columns


def write(path: Path, rows: list[tuple[Any, ...]]) -> Path:
    """A raw page of kernels: process, name, x of the grid, registers, time (us)."""
    head = '"ID","Process ID","Kernel Name","Block Size","Grid Size","launch__registers_per_thread"'
    lines = [f'{head},"gpu__time_duration.sum"', '"","","","","","","us"']
    for n, (process, name, grid, registers, time) in enumerate(rows):
        lines.append(f'"{n}","{process}","{name}","(64, 1, 1)","({grid}, 1, 1)","{registers}","{time}"')
    path.write_text("\n".join(lines) + "\n")
    return path


def rank(folder: Path, number: int, kernels: list[tuple[str, int]], pid: int = 100) -> Path:
    """A report of one rank that launches kernels (name, x of the grid), each after the one before."""
    process, caller = HOST | pid << 24, tid(pid, pid)
    calls = [(10 * n, 10 * n + 1, caller, "cudaLaunchKernel", n + 1) for n in range(len(kernels))]
    rows = [
        (10 * n + 2, 10 * n + 8, n + 1, process, 0, 7, name, f"void {name}<(int)2>()", grid, 1, 1, 64, 1, 1, 32)
        for n, (name, grid) in enumerate(kernels)
    ]
    return export(
        folder / f"rank{number}.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId correlationId", calls),
        CUPTI_ACTIVITY_KIND_KERNEL=(KERNEL, rows),
    )


def test_of_ranks_that_launch_the_same_each_file_has_its_own(tmp_path: Path) -> None:
    program = [("a", 4), ("b", 4)]
    reports = [rank(tmp_path, n, program, 100 + n) for n in range(3)]
    rows = [(9, "void a<2>()", 4, 32, 1), (9, "void b<2>()", 4, 32, 2)]
    for name in ("first.csv", "second.csv", "of_rank1.csv"):
        write(tmp_path / name, rows)
    run = run_with(reports, tmp_path / "of_rank1.csv", tmp_path / "first.csv", tmp_path / "second.csv")
    assert run.profiled is not None
    assert dict(run.profiled.select("file", "rank").rows()) == {"of_rank1.csv": 1, "first.csv": 0, "second.csv": 2}
    named = run_with(reports, f"2={tmp_path / 'first.csv'}")
    assert named.profiled is not None
    assert named.profiled["rank"].to_list() == [2]
    ways = named.work.sort("task", "start").select("task", "joined").rows()
    assert ways == [(0, SAME), (0, SAME), (1, SAME), (1, SAME), (2, EXACT), (2, EXACT)]


def test_the_rank_is_that_whose_kernels_the_file_has(tmp_path: Path) -> None:
    reports = [rank(tmp_path, 0, [("a", 4)] * 3), rank(tmp_path, 1, [("b", 4)] * 3, 101)]
    run = run_with(reports, write(tmp_path / "k.csv", [(9, "void b<2>()", 4, 32, 1), (8, "void a<2>()", 4, 32, 1)]))
    assert run.profiled is not None
    assert run.profiled.select("process", "rank", "places").rows() == [(8, 0, 3), (9, 1, 3)]


def test_two_processes_of_a_file_are_not_one_rank(tmp_path: Path) -> None:
    report = rank(tmp_path, 0, [("a", 4), ("b", 4)])
    rows = [(7, "void a<2>()", 4, 32, 8), (9, "void a<2>()", 4, 32, 1), (9, "void b<2>()", 4, 32, 2)]
    run = run_with(report, write(tmp_path / "k.csv", rows))
    assert joined(run) == [(EXACT, 1000), (EXACT, 2000)]
    assert any("process 7 count in means alone" in text for text in run.remarks)


def test_without_a_place_the_nth_of_a_kernel_is_the_nth_launch(tmp_path: Path) -> None:
    report = rank(tmp_path, 0, [("a", 4), ("b", 4), ("a", 4), ("b", 8)])
    rows = [(9, "void a<2>()", 4, 32, 1), (9, "void a<2>()", 4, 32, 2), (9, "void b<2>()", 4, 32, 3)]
    run = run_with(report, write(tmp_path / "k.csv", rows))
    assert joined(run) == [(EXACT, 1000), (EXACT, 3000), (EXACT, 2000), (None, None)]
    assert any("do not follow each other" in text for text in run.remarks)


def test_a_file_of_which_most_is_unknown_counts_in_means_alone(tmp_path: Path) -> None:
    report = rank(tmp_path, 0, [("a", 4), ("b", 4)])
    rows = [(9, f"void {name}<2>()", 4, 32, n) for n, name in enumerate("axyz", 1)]
    run = run_with(report, write(tmp_path / "k.csv", rows))
    assert joined(run) == [(SAME, 1000), (None, None)]
    assert run.profiled is not None
    assert run.profiled.select("rank", "joined", "first").rows() == [(0, 0, None)]
    assert any("most are no rank's" in text for text in run.remarks)


def test_a_file_may_begin_before_the_report_and_end_after_it(tmp_path: Path) -> None:
    report = rank(tmp_path, 0, [("b", 4), ("c", 4)])
    rows = [(9, f"void {name}<2>()", 4, 32, n) for n, name in enumerate("abcd", 1)]
    run = run_with(report, write(tmp_path / "k.csv", rows))
    assert joined(run) == [(EXACT, 2000), (EXACT, 3000)]
    assert any("2 of the 4 kernels" in text for text in run.remarks)


def test_kernels_of_a_class_have_its_mean_and_those_of_none_nothing(tmp_path: Path) -> None:
    report = rank(tmp_path, 0, [("softmax_one", 4), ("softmax_one", 9), ("own", 4), ("softmax_two", 4)])
    run = run_with(report, write(tmp_path / "k.csv", [(9, "void softmax_one<2>()", 4, 32, 5)]))
    assert joined(run) == [(EXACT, 5000), (CLASS, 5000), (None, None), (CLASS, 5000)]


def test_names_of_functions_alone_are_known(tmp_path: Path) -> None:
    report = rank(tmp_path, 0, [("a", 4), ("b", 4)])
    assert joined(run_with(report, write(tmp_path / "k.csv", [(9, "a", 4, 32, 1), (9, "b", 4, 32, 2)]))) == [
        (EXACT, 1000), (EXACT, 2000)
    ]  # fmt: skip


def test_a_file_of_another_program_is_remarked_on(tmp_path: Path) -> None:
    report = rank(tmp_path, 0, [("a", 4)])
    run = run_with(report, write(tmp_path / "k.csv", [(9, "other", 4, 32, 1)]))
    assert joined(run) == [(None, None)]
    assert [
        text for text in run.remarks if "none of the 1 kernels of process 9, the first of which is 'other'," in text
    ]


def test_figures_that_a_file_lacks_are_those_of_another(tmp_path: Path) -> None:
    """The partial page has no operations: they are the same kernel's of the two steps."""
    found = nsys2prv.analyze(GPT, options=options(STEPS, PARTIAL), question=nsys2prv.Question(window="trace"))
    assert found.ncu is not None
    assert found.ncu.roofline.filter(pl.col("kernels") < pl.col("of")).is_empty()


@pytest.mark.parametrize("seed", range(20))
def test_sequences_are_found_where_they_are(seed: int) -> None:
    random = np.random.default_rng(seed)
    among = random.integers(0, 3, 200)
    length = int(random.integers(1, 9))
    first = int(random.integers(0, 200 - length))
    for sequence in (among[first : first + length], random.integers(0, 3, length)):
        expected = [n for n in range(200 - length + 1) if (among[n : n + length] == sequence).all()]
        assert occurrences_of(sequence, among).tolist() == expected
    assert occurrences_of(among, among[:5]).tolist() == []


def test_the_command_prints_and_draws_it(cli: Command, tmp_path: Path) -> None:
    plot = tmp_path / "roofline.svg"
    text = cli("analyze", GPT, "--ncu", STEPS, "--show", "kernels,ncu,roofline", "--plot", plot).out
    assert "Files of Nsight Compute" in text
    assert "long_scoreboard" in text
    assert "Roofline by class" in text
    table = cli("analyze", GPT, "--ncu", STEPS, "--show", "roofline", "--format", "csv").out
    assert table.startswith("class,kernels,of,ns,profiled_ns,flop,bytes,")
    with_operations = [row for row in csv.DictReader(table.splitlines()) if float(row["flop"])]
    assert plot.read_text().count("<title>") == len(with_operations) > 5
    said = cli("analyze", GPT, "--plot", tmp_path / "other.svg")
    assert (said.code, "--plot draws the roofline" in said.err) == (2, True)


def test_kinds_of_figures_are_numbered_apart() -> None:
    numbers = [kind.number for kind in (NCU_JOINED, *NCU_FIGURES.values(), NCU_STALL)]
    assert len(set(numbers)) == len(numbers)
    assert all(a != b for a, b in itertools.pairwise(sorted(numbers)))
