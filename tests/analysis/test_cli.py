"""`analyze` and `compare` on the command line."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from analysis_cases import SAMPLES
from click.testing import CliRunner
from exports import MAIN, PROCESS, export

import nsys2prv
from nsys2prv.analysis.sentences import counted, parts_by_name
from nsys2prv.cli.analysis_csv import _section, _tables, csv_of
from nsys2prv.cli.analysis_text import sections
from nsys2prv.cli.main import cli
from nsys2prv.cli.sections import SECTIONS
from nsys2prv.commands import extraction
from nsys2prv.errors import UsageError
from nsys2prv.model.limits import Limits
from nsys2prv.page.tables import tables
from nsys2prv.pipeline.extract import point_writer
from nsys2prv.pipeline.store.spill import write_spill
from nsys2prv.run.report_summary import Spill

GPT, HALO = str(SAMPLES / "gpt-ddp"), str(SAMPLES / "mpi-halo")
NCU = Path(__file__).parents[1] / "data" / "ncu"


def said(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False, standalone_mode=False)
    return result.stdout


def values(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said("analyze", *arguments, "--format", "json"))
    return found


def test_json_has_the_documented_form() -> None:
    whole = values(GPT, "--align", "utc", "--window", "device")["window"]
    assert whole == {
        "name": "device", "start_ns": 19982956, "end_ns": 698779668, "spans": [[19982956, 698779668]],
        "iterations": [], "left_out": [],
    }  # fmt: skip
    found = values(GPT, "--align", "utc", "--phase", "forward")
    assert found["window"]["name"] == "steady"
    assert found["window"]["iterations"] == [4, 5, 6]
    assert len(found["window"]["spans"]) == 3
    (left,) = found["window"]["left_out"]
    assert (left["iteration"], left["ranks"]) == (3, [0])
    assert left["why"] == "rank 0 began to record 406 ms before the others"
    assert found["nccl"] == "communication"
    assert found["devices"][0] == {
        "host": "gpu-node0", "gpu": 0, "rank": 0, "useful_ns": 18098352, "busy_ns": 193961002
    }  # fmt: skip
    fractions = {"parallel", "load_balance", "communication", "orchestration", "serialization", "transfer"}
    assert found["efficiency"].keys() == fractions
    assert {"rank", "communication_ns", "overlapped_ns"} < found["overlap"][0].keys()
    assert [o["rank"] for o in found["overlap"]] == [0, 1, 2, 3]
    assert {o["operation"] for o in found["overlap_by_operation"]} == {"AllGather", "AllReduce", "Broadcast"}
    assert [p["name"] for p in found["phases"]] == ["forward"]
    assert [p["name"] for p in found["iterations"]["efficiency"]] == ["step 3", "step 4", "step 5", "step 6"]


def test_ranks_and_time_choose_what_is_looked_at() -> None:
    found = values(GPT, "--ranks", "1-2", "--nvtx", "step 5", "--iteration", "step 5")
    assert [d["rank"] for d in found["devices"]] == [1, 2]
    assert [r["rank"] for r in found["iterations"]["rows"]] == [1, 2]
    assert found["window"]["end_ns"] - found["window"]["start_ns"] < 70_000_000


def test_points_in_memory_and_on_disk_give_the_same_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk: list[Path] = []

    def watched(path: Path, *given: Any, **how: Any) -> Spill:
        on_disk.append(path)
        return write_spill(path, *given, **how)

    monkeypatch.setattr(point_writer, "write_spill", watched)
    in_memory = nsys2prv.analyze(GPT, execution=nsys2prv.Execution(jobs=1)).as_json()
    assert not on_disk
    assert (
        nsys2prv.analyze(GPT, execution=nsys2prv.Execution(jobs=1, limits=Limits(in_memory_bytes=0))).as_json()
        == in_memory
    )
    assert on_disk


def test_csv_holds_every_table() -> None:
    blocks = [b for b in said("analyze", HALO, "--format", "csv").split("\n\n") if b.strip()]
    tables = {b.splitlines()[0]: list(csv.DictReader(b.splitlines()[1:])) for b in blocks}
    assert {"# window", "# efficiency", "# devices", "# iterations", "# kernels", "# idle"} <= tables.keys()
    assert [r["rank"] for r in tables["# devices"]] == ["0", "1", "2", "3"]
    path = values(HALO)["critical_path"]
    for table, rows in (("ranks", path["by_rank"]), ("classes", path["by_class"])):
        told = [[*row.values()] for row in tables[f"# critical_path_{table}"]]
        assert told == [["" if value is None else str(value) for value in row.values()] for row in rows] != []


def test_each_table_of_csv_has_a_section() -> None:
    assert {_section(table) for table in _tables(nsys2prv.analyze(HALO))} == {*SECTIONS}


def test_csv_has_late_ranks_and_warnings() -> None:
    found = nsys2prv.analyze(HALO)
    late = pl.DataFrame([dict.fromkeys(found.delays.columns, 7)], schema_overrides={"phase": pl.String}, strict=False)
    with_both = found._replace(delays=late, run=found.run._replace(remarks=("one, and", "two")))
    assert csv_of(with_both, {"warnings"}) == 'warning\n"one, and"\ntwo\n'
    names, row = ",".join(late.columns), ",".join("7" * len(late.columns))
    assert f"# delays\n{names}\n{row}\n" in csv_of(with_both, {"iterations"})
    assert f"# delays\n{names}\n{row}\n" in csv_of(with_both)


def test_text_names_window_model_and_what_was_not_recorded() -> None:
    text = said("analyze", HALO, "--show", "all")
    assert text.startswith("Window: steady, iterations 1 to 11 (")
    assert "NCCL counts as communication" in text
    assert "Not recorded: GPU metrics (tensor activity by class); nsys profile --gpu-metrics-devices=all" in text
    assert "iteration 0 left out: start-up" in text
    assert "rank 3 in 11" in text


@pytest.mark.parametrize(
    ("iterations", "said"),
    [
        ([(3, 0)], "iteration 3"),
        ([(n, 0) for n in range(4)], "iterations 0 to 3"),
        ([(2 * n, 0) for n in range(8)], "iterations 0, 2, 4, 6, 8, 10 and 2 more"),
        ([(n, repeat) for repeat in range(3) for n in range(4)], "iterations 0 to 3 of repeats 0 to 2"),
        ([(0, 1)], "iteration 0 of repeat 1"),
        ([(1, 0), (0, 1), (1, 1), (0, 2), (1, 2)], "iteration 1 of repeat 0, iterations 0 to 1 of repeats 1 to 2"),
        (
            [(n, repeat) for repeat in range(6) for n in range(repeat + 1)],
            "iteration 0 of repeat 0, iterations 0 to 1 of repeat 1, iterations 0 to 2 of repeat 2 "
            "and 15 in other repeats",
        ),
    ],
)
def test_iterations_are_named_by_number_and_repeat(iterations: list[tuple[int, int]], said: str) -> None:
    assert counted(iterations) == said


@pytest.mark.parametrize("run", [GPT, HALO, *(str(SAMPLES / f"single/{name}.sqlite") for name in ("openmp", "saxpy"))])
def test_the_verdict_fits_a_screen_and_names_run_efficiency_findings_and_how_to_see_more(run: str) -> None:
    lines = said("analyze", run).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith(f"Run {Path(run).stem}: ")
    assert any(line.startswith(("Efficiency: ", "The reports hold no device activity.")) for line in lines)
    assert any(line.startswith(("Findings", "No finding costs")) for line in lines)
    assert lines[-1].startswith("Tables: nsys2prv analyze ")


@pytest.mark.parametrize(
    ("run", "first", "says"),
    [
        (GPT, "exposed-transfer", "high    23.423 ms 34.9 %: Transfers (AllReduce) are not hidden"),
        (HALO, "imbalance", "Rank 3 computes 0.12 ms longer than the mean (the longest in 11 of"),
        (str(SAMPLES / "single/saxpy.sqlite"), "pageable-copies", "Copies of pageable memory run alone 21.0 ms"),
    ],
)
def test_the_first_finding_is_the_true_one(run: str, first: str, says: str) -> None:
    """gpt-ddp reduces 54 MB over sockets; of mpi-halo rank 3 has the most work; saxpy copies from pageable memory."""
    found = values(run)["findings"]
    keys = ["id", "severity", "title", "cost_ns", "share", "ranks", "iterations", "evidence"]
    keys += ["confidence", "advice", "command", "cfg", "at_ns"]
    assert [list(one) for one in found] == [keys] * len(found)
    assert (found[0]["id"], found[0]["severity"]) == (first, "high")
    assert says in said("analyze", run)


def test_the_next_command_of_exposed_transfers_predicts_what_their_title_says() -> None:
    """It predicted transfers half as long, which save 66 % of an ideal network and not half."""
    found = values(GPT)["findings"][0]
    words = shlex.split(found["command"].replace("RUN", GPT))
    measured, predicted = (
        float(ms) for ms in re.findall(r"takes ([\d.]+) ms instead of ([\d.]+)", said(*words[1:]))[0][::-1]
    )
    saved = measured - predicted
    assert f"an ideal network would save {saved:.1f} ms an iteration, a real one about half" in found["title"]
    assert found["cost_ns"] == pytest.approx(saved / 2 * 1e6, rel=1e-3)


def test_show_chooses_sections_and_all_of_them_are_in_the_text_of_some_run() -> None:
    text = said("analyze", HALO, "--show", "what_if,Idle-causes")
    assert [line for line in text.splitlines() if line and line[0] != " "] == [
        "Causes of idle time, by device",
        "What if",
    ]
    profile = nsys2prv.RunOptions(ncu=(nsys2prv.ProfileFile(NCU / "steps.csv"),))
    runs = (nsys2prv.analyze(GPT), nsys2prv.analyze(HALO), nsys2prv.analyze(NCU / "gpt.sqlite", options=profile))
    yielded = {name for run in runs for name, *_ in sections(run, held=False)}
    without_table = {"window", "defects", "warnings", "missing"}
    assert yielded - set(SECTIONS) == set()
    assert set(SECTIONS) - yielded - without_table == set()


@pytest.mark.parametrize(
    ("show", "says"),
    [
        ("kernals", "did you mean 'kernels'?"),
        ("kernels,what_i", "did you mean 'what-if'?"),
        ("xyz", "there are findings,"),
        (",", "no section"),
    ],
)
def test_a_mistyped_section_is_refused_with_what_is_meant(show: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        said("analyze", HALO, "--show", show)


def test_csv_holds_the_chosen_tables_only() -> None:
    text = said("analyze", HALO, "--format", "csv", "--show", "findings,efficiency")
    assert re.findall("^# .+", text, re.MULTILINE) == ["# findings", "# efficiency", "# iteration_efficiency"]


def test_held_shows_the_plain_average() -> None:
    text = said("analyze", GPT, "--held")
    assert "held samples averaged inside kernels" in text
    assert "+-" not in text.partition("held samples")[2].partition("\n\n")[0]


@pytest.mark.parametrize(("times", "ends"), [(2, "inside kernels"), (3, "inside kernels; the first 8 of 12 GPUs")])
def test_of_many_gpus_the_title_says_how_many_have_a_column(times: int, ends: str) -> None:
    found = nsys2prv.analyze(GPT, question=nsys2prv.Question(window="device"))
    every, *single = (fit for fit in found.metrics if fit.metric == found.metrics[0].metric)
    metrics = (every, *(fit._replace(device=n) for n, fit in enumerate(times * single)))
    many = found._replace(metrics=metrics, run=found.run._replace(devices=times * found.run.devices))
    title, head = next((title, head) for name, title, head, _ in sections(many, held=True) if name == "metrics")
    assert title.endswith(ends)
    assert len(head) == 2 + 8


def test_of_ranks_that_wait_as_long_the_first_are_shown() -> None:
    found = nsys2prv.analyze(HALO)
    one = found.explanation.communication.filter(rank=0, operation="all").head(1)
    many = pl.concat(one.with_columns(rank=pl.lit(rank, pl.Int64)) for rank in range(80))
    alike = found._replace(explanation=found.explanation._replace(communication=many))
    rows = next(rows for name, _, _, rows in sections(alike, held=False) if name == "communication")
    assert [row[0] for row in rows] == [*map(str, range(30)), "(less waiting, not shown: 50)"]


def test_gpus_of_one_rank_have_columns_of_other_names() -> None:
    found = nsys2prv.analyze(GPT, question=nsys2prv.Question(window="device"))
    devices = tuple(device._replace(rank=n // 3, gpu=n % 3) for n, device in enumerate(found.run.devices))
    several = found._replace(run=found.run._replace(devices=devices))
    heads = next(head for name, _, head, _ in sections(several, held=True) if name == "metrics")
    assert heads == ["class", "all", "rank 0, GPU 0", "rank 0, GPU 1", "rank 0, GPU 2", "rank 1"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--show", "kernals"), "--show kernals: no such section, did you mean 'kernels'[?]; there are findings, "),
        (("--window", "stedy"), "did you mean 'steady'[?]; the ranges there are: .*forward"),
        (("--metric", "no such"), "--metric 'no such': no GPU metric has this .*; the metrics are: .*DRAM Read"),
        (("--time", "100s:"), "the chosen time, from 100.000000 s on, is empty or outside of the run"),
        (("--time", "0:1ms"), "no device activity"),
        (("--nvtx", "no such range"), "no such range"),
    ],
)
def test_what_cannot_be_found_is_said(arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        said("analyze", GPT, *arguments)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("trasnfer*0.5", "is 'trasnfer', did you mean 'transfer'[?]"),
        ("stencl*0.5", "is 'stencl', did you mean 'stencil'[?]"),
        ("transfer=0.5", "nor TARGET=0, did you mean 'transfer[*]0.5'[?]"),
        ("transfer/2", "nor TARGET=0, did you mean 'transfer[*]0.5'[?]; changes are"),
        ("transfer", "nor TARGET=0, such as 'transfer[*]0.5' for half of its time; changes are"),
    ],
)
def test_a_change_that_is_misspelled_is_set_right(change: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        said("whatif", HALO, "--set", change)


def test_a_change_that_cannot_be_read_is_told_before_the_run_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'transfer': not TARGET[*]F"):
        said("whatif", str(tmp_path / "nowhere"), "--set", "delay=0", "--set", "transfer")


@pytest.mark.parametrize("command", ["align", "analyze", "export", "inspect", "record", "translate", "whatif"])
def test_help_says_what_inputs_are(command: str) -> None:
    assert "INPUT are reports (.sqlite, .nsys-rep)" in said(command, "--help")


def test_nothing_is_predicted_where_no_time_can_change() -> None:
    with pytest.raises(UsageError, match="hold no device activity and no MPI call whose times could change"):
        said("whatif", str(SAMPLES / "single/openmp.sqlite"), "--set", "transfer=0")


def test_a_part_of_a_run_without_devices_can_be_analysed() -> None:
    found = values(str(SAMPLES / "single/openmp.sqlite"), "--time", "1ms:2ms")
    assert found["window"]["spans"] == [[1_000_000, 2_000_000]]
    assert sum(call["total_ns"] for call in found["api"]) > 0


@pytest.mark.parametrize(
    ("run", "told"),
    [("openmp", "The reports hold no device activity."), ("saxpy", "Parallel efficiency of the devices 1.0 % = ")],
)
def test_a_translation_closes_with_the_efficiency_of_devices_where_there_are_any(
    run: str, told: str, tmp_path: Path
) -> None:
    report = str(SAMPLES / f"single/{run}.sqlite")
    text = said("translate", report, "-o", str(tmp_path / "trace"), "--quiet", "--summary")
    window, efficiency = text.strip().splitlines()[:2]
    assert window.startswith("Window: ")
    assert efficiency.startswith(told)


def test_rows_of_efficiency_have_different_names() -> None:
    """A window and a phase may be the range of an iteration. A window that is none of the rows has its name alone."""
    window = ("--window", "iteration 5", "--phase", "iteration 5")
    table = said("analyze", HALO, *window, "--show", "efficiency").partition("\n\n")[0]
    names = [re.split(r" {2,}", line.strip())[0] for line in table.splitlines()[2:]]
    assert sorted(names) == sorted(["iteration 5 (on hosts)", *(f"iteration {n}" for n in range(12))])
    figures = values(HALO, *window)
    assert figures["efficiency"]["parallel"] != figures["phases"][0]["efficiency"]["parallel"]
    assert said("analyze", HALO, "--show", "efficiency").splitlines()[2].split()[0] == "steady"
    found = nsys2prv.analyze(HALO, question=nsys2prv.Question(window="iteration 5", phases=("iteration 5",)))
    of_page = next(one for one in tables(found, found.as_json()) if one.key == "efficiency")
    assert sorted(of_page.columns[0].values) == sorted(names)


def test_a_phase_of_several_iterations_of_one_number_has_a_row_of_its_own() -> None:
    """Numbers may begin again: `step 0` comes twice, and the phase holds both."""
    once = nsys2prv.analyze(HALO, question=nsys2prv.Question(phases=("iteration 5",)))
    (phase,), iterations = once.phases, once.iteration_efficiency
    assert [name for name, _ in parts_by_name((phase,), iterations)] == [one.name for one in iterations]
    twice = phase._replace(occurrences=2 * phase.occurrences)
    assert ("iteration 5 (phase)", twice) in [*parts_by_name((twice,), iterations)]


@pytest.mark.parametrize("window", ["steady", "device", "iteration 5"])
def test_the_efficiency_that_closes_a_translation_is_of_the_window_of_the_trace(window: str, tmp_path: Path) -> None:
    """It is named, and the figures are those of `analyze`."""
    told = said("translate", HALO, "-o", str(tmp_path / "trace"), "--quiet", "--summary", "--window", window)
    shown = said("analyze", HALO, "--window", window, "--show", "window").splitlines()[0]
    assert told.strip().splitlines()[0] == shown.partition(" NCCL counts")[0]
    figures = values(HALO, "--window", window)["efficiency"]
    assert f"Parallel efficiency of the devices {100 * figures['parallel']:.1f} % = load balance " in told


@pytest.mark.parametrize("time", [None, (400_000_000, 550_000_000)])
def test_a_translation_analyzes_what_it_extracted(
    time: tuple[int, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures of `analyze`, out of one extraction (and one look at whole reports where a time is chosen)."""
    chosen, one = nsys2prv.Selection(time=time), nsys2prv.Execution(jobs=1)
    figures = nsys2prv.analyze(GPT, selection=chosen, execution=one).as_json()
    asked: list[Path] = []
    extract = extraction.extract
    monkeypatch.setattr(extraction, "extract", lambda part: asked.append(part.path) or extract(part))
    short = nsys2prv.TraceOutput(summary=True)
    found = nsys2prv.translate(GPT, tmp_path / "trace", selection=chosen, execution=one, writing=short).analysis
    assert found is not None
    assert len(asked) == len(set(asked)) * (1 if time is None else 2)
    same = ("devices", "efficiency", "overlap", "classes", "memory", "ranges")
    assert {key: found.as_json()[key] for key in same} == {key: figures[key] for key in same}


def test_html_is_written(tmp_path: Path) -> None:
    told = said("analyze", HALO, "--html", str(tmp_path / "run.html"))
    assert f"Wrote {tmp_path / 'run.html'}" in told
    assert (tmp_path / "run.html").read_text().startswith("<!DOCTYPE html>")


def test_a_run_compared_with_itself_has_not_changed() -> None:
    rows = json.loads(said("compare", HALO, HALO, "--format", "json"))["rows"]
    assert rows
    assert all(row["difference"] in (0, None) for row in rows)


def test_what_takes_longest_is_compared_first() -> None:
    rows = json.loads(said("compare", GPT, HALO, "--anyway", "--json"))["rows"]
    for what in ("class, total_ns", "kernel, total_ns"):
        taken = [row["a"] for row in rows if row["what"] == what and row["a"] is not None]
        assert len(taken) > 5
        assert taken == sorted(taken, reverse=True)


def test_kernels_that_changed_most_are_shown(tmp_path: Path) -> None:
    """Of some runs: time by kernel. One that only one run has changed by all of its time."""
    columns = "start end deviceId streamId correlationId globalPid shortName demangledName"
    times = {"a": {"same": 50, "slow": 100, "gone": 30}, "b": {"same": 50, "slow": 900, "new": 10}}
    for run, kernels in times.items():
        rows = [(1000 * n, 1000 * n + t, 0, 7, n, PROCESS, k, k) for n, (k, t) in enumerate(kernels.items())]
        export(tmp_path / f"{run}.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=(columns, rows))
    lines = said("compare", *(str(tmp_path / f"{run}.sqlite") for run in times), "--top", "2").splitlines()
    assert [line.split()[1] for line in lines if line.startswith("  kernel ")] == ["slow", "gone"]
    # `same` did not change; of `new` there are 10 ns, which a run without them lacks.
    assert lines[-1].endswith("; 1 kernel that changed less (--top). --json has all.")


def test_how_many_ranks_and_devices_there_are_is_compared() -> None:
    rows = {
        (r["what"], r["name"]): (r["a"], r["b"])
        for r in json.loads(said("compare", GPT, HALO, "--anyway", "--json"))["rows"]
    }
    assert rows["run", "ranks"] == rows["devices", "count"] == (4, 4)


@pytest.mark.parametrize("sampled", [(1,), (0, 1)])
def test_metrics_are_compared_over_the_gpus_that_were_sampled(sampled: tuple[int, ...], tmp_path: Path) -> None:
    """Also where the run has others."""
    columns = "start end deviceId streamId correlationId globalPid shortName demangledName"
    work = [(200 * n, 200 * n + 100, gpu, 7, n, PROCESS, "sgemm", "sgemm") for n in range(10) for gpu in (0, 1)]
    report = export(
        tmp_path / "run.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=(columns, work),
        GPU_METRICS=(
            "timestamp typeId metricId value",
            [(100 * n, gpu, 1, 0 if n % 2 else 70 + 10 * gpu) for n in range(20) for gpu in sampled],
        ),
        TARGET_INFO_GPU_METRICS=("typeId metricId metricName", [(gpu, 1, "Tensor Active") for gpu in sampled]),
    )
    rows = json.loads(said("compare", *[str(report)] * 2, "--metric", "Tensor Active", "--format", "json"))["rows"]
    (mean,) = (r["a"] for r in rows if (r["what"], r["name"]) == ("Tensor Active", "other"))
    assert mean == pytest.approx(sum(70 + 10 * gpu for gpu in sampled) / len(sampled))


def test_calls_of_cuda_without_any_work_say_that_it_was_lost(tmp_path: Path) -> None:
    """As where a program was killed: its context shows a device, which did nothing."""
    report = export(
        tmp_path / "run.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId correlationId", [(0, 5, MAIN, "cudaLaunchKernel", 1)]),
        TARGET_INFO_CUDA_CONTEXT_INFO=("contextId processId deviceId", [(1, PROCESS >> 24 & 0xFFFFFF, 0)]),
    )
    first, *rest = said("analyze", str(report)).splitlines()
    assert "1 GPU" in first
    assert "The reports hold no device activity." in rest
    assert any(line.startswith("high") and "Not recorded: device activity" in line for line in rest)
    assert any("let the program end by itself or call" in line for line in rest)


def test_a_program_that_only_asks_for_devices_lost_nothing(tmp_path: Path) -> None:
    columns = "start end globalTid nameId correlationId"
    calls = (columns, [(0, 5, MAIN, "cudaGetDeviceCount", 1)])
    report = export(tmp_path / "run.sqlite", CUPTI_ACTIVITY_KIND_RUNTIME=calls)
    assert not [line for line in said("analyze", str(report)).splitlines() if line.startswith("high")]


def test_a_metric_of_no_gpu_is_none(tmp_path: Path) -> None:
    """Its definition lacks the GPU; the samples of the others count."""
    columns = "start end deviceId streamId correlationId globalPid shortName demangledName"
    report = export(
        tmp_path / "run.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=(columns, [(0, 1000, 0, 7, 1, PROCESS, "sgemm", "sgemm")]),
        GPU_METRICS=("timestamp typeId metricId value", [(100 * n, 0, 1, 50) for n in range(10)]),
        TARGET_INFO_GPU_METRICS=(
            "typeId metricId metricName",
            [(0, 1, "Tensor Active"), (None, 1, "Tensor Active"), (0, None, "Other")],
        ),
    )
    (fit,) = json.loads(said("analyze", str(report), "--json"))["metrics"]
    assert (fit["metric"], fit["gpu"]) == ("Tensor Active", 0)


def test_names_of_programs_do_not_break_tables(tmp_path: Path) -> None:
    """Nor write to the terminal what controls it."""
    name = "a\nb\t\x1b[31m" + "x" * 500
    report = export(
        tmp_path / "names.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId correlationId", [(0, 5, MAIN, name, 1)]),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            "start end deviceId streamId correlationId globalPid shortName demangledName",
            [(start, start + 10, 0, 7, n, PROCESS, name, name) for n, start in enumerate((10, 50), start=1)],
        ),
        NVTX_EVENTS=("start end eventType globalTid domainId text", [(0, 90, 59, MAIN, 0, name)]),
    )
    lines = said("analyze", str(report), "--phase", name, "--show", "all").splitlines()
    assert "x1b" not in repr("".join(lines))
    assert max(map(len, lines)) < 250
    assert sum("a b  [31mxxx" in line for line in lines) == 8


def test_what_only_one_run_has_is_named() -> None:
    rows = {(r["what"], r["name"]): r for r in json.loads(said("compare", GPT, HALO, "--anyway", "--json"))["rows"]}
    assert rows["overlap", "communication_ns"]["b"] is None
    assert rows["efficiency", "parallel"]["change_percent"] is not None


@pytest.mark.parametrize(
    ("other", "means"),
    [
        ("step", {"iteration, mean": (50, 50)}),
        ("epoch", {"iteration step #, mean": (50, None), "iteration epoch #, mean": (None, 50)}),
    ],
)
def test_only_iterations_of_the_same_ranges_are_compared(
    other: str, means: dict[str, tuple[int | None, int | None]], tmp_path: Path
) -> None:
    for run, name in (("a", "step"), ("b", other)):
        ranges = [(100 * n, 100 * n + 50, 59, MAIN, 0, f"{name} {n}") for n in range(3)]
        export(tmp_path / f"{run}.sqlite", NVTX_EVENTS=("start end eventType globalTid domainId text", ranges))
    rows = json.loads(said("compare", *(str(tmp_path / f"{run}.sqlite") for run in "ab"), "--format", "json"))["rows"]
    assert {r["what"]: (r["a"], r["b"]) for r in rows if r["name"] == "total_ns"} == means


def test_of_many_iterations_the_longest_are_shown(tmp_path: Path) -> None:
    """In order of time; JSON has all."""
    many, long = 300, range(100, 140, 2)
    ranges = [(1000 * n, 1000 * n + 900, 59, MAIN, 0, f"step {n}") for n in range(many)]
    calls = [(1000 * n, 1000 * n + 5, MAIN, "call", n + 1) for n in range(many)]
    work = [(1000 * n + 10, 1000 * n + (800 if n in long else 700), 0, 7, n + 1, PROCESS, "k") for n in range(many)]
    report = export(
        tmp_path / "steps.sqlite",
        NVTX_EVENTS=("start end eventType globalTid domainId text", ranges),
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId correlationId", calls),
        CUPTI_ACTIVITY_KIND_KERNEL=("start end deviceId streamId correlationId globalPid shortName", work),
    )
    lines = said("analyze", str(report), "--show", "all").splitlines()
    assert [line.split()[1] for line in lines if line.startswith("  step ")] == [*map(str, long), "#"]
    assert "  (shorter iterations, not shown: 280)" in lines
    assert len(values(str(report))["iterations"]["efficiency"]) == many


def test_the_lengths_of_iterations_of_several_ranks_are_those_of_the_longest() -> None:
    """Their median was another one than that of the first lines, under the same words."""
    said_of = {run: said("analyze", str(SAMPLES / run), "--show", "iterations") for run in ("gpt-ddp", "mpi-halo")}
    assert all("Longest rank of each iteration, on the host, in ms: shortest " in text for text in said_of.values())


def test_a_run_without_iterations_and_communication_is_not_said_to_have_them() -> None:
    saxpy = str(SAMPLES / "single/saxpy.sqlite")
    assert " = copies 1.1 x " in said("analyze", saxpy)
    assert said("whatif", saxpy, "--set", "host=0").startswith("With host=0 the window takes ")
    nothing = said("whatif", saxpy, "--set", "transfer=0")
    assert ": no difference." in nothing
    assert "transfer=0 changes nothing here: the run has no collective or message whose time could change." in nothing
    assert "`host=0` leaves out all host work" not in nothing
    assert "`host=0` leaves out all host work" in said("whatif", saxpy, "--set", "delay=0")
    assert "changes nothing" not in said("whatif", saxpy, "--set", "host=0")
    assert " x communication " in said("analyze", HALO)
