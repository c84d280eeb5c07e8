"""Instances of a GPU (MIG), GPUs that processes share, machines of different architecture in one run."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import construct
import drawn
import oracle
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from runs import SAMPLES, Runs, Translated, records

import nsys2prv

RUN = sorted((SAMPLES / "gpt-ddp").glob("*.sqlite"))
GRACE = {"platform": "aarch64", "cpu": "Neoverse-V2", "gpu": "NVIDIA GH200 480GB", "multiprocessors": 132}
WORK = " UNION ALL ".join(
    f'SELECT start, max("end", start + 1) FROM CUPTI_ACTIVITY_KIND_{kind}' for kind in ("KERNEL", "MEMCPY", "MEMSET")
)


def translate(reports: list[Path], folder: Path) -> Translated:
    options = nsys2prv.RunOptions(align="utc", every_thread=True)
    return Translated(
        reports, nsys2prv.translate(reports, folder / "made", options=options, execution=nsys2prv.Execution(jobs=1))
    )


@pytest.mark.parametrize("uuids", ["own", "gpu"])
def test_instances_of_one_gpu_are_gpus(uuids: str, translations: Runs, tmp_path: Path) -> None:
    made = translate(construct.mig_instances(RUN, tmp_path / "mig", uuids=uuids), tmp_path)
    whole = translations.whole("gpt-ddp")
    assert records(made.prv) == records(whole.prv)
    assert made.trace.names == whole.trace.names


def test_containers_that_see_their_own_instance_are_of_one_host(translations: Runs, tmp_path: Path) -> None:
    """Two GPUs cannot be at one bus location, two instances can; all call theirs number 0."""
    made = translate(construct.mig_instances(RUN, tmp_path / "mig", listed="own"), tmp_path)
    whole = translations.whole("gpt-ddp")
    assert made.trace.names["NODE"] == whole.trace.names["NODE"]
    assert records(made.prv) == records(whole.prv)
    assert [gpus_of(made, task) for task in range(1, 5)] == [{0}, {1}, {1}, {0}]


def gpus_of(made: Translated, task: int) -> set[int]:
    """The numbers in a task's labels of streams and metrics."""
    labels = drawn.places(made.trace).filter(pl.col("task") == task)["place"]
    return {int(found[1]) for label in labels if (found := re.match(r"(?:CUDA-D|Metrics GPU)(\d+)", label))}


def made_visible_by(report: Path, entry: str) -> Path:
    """As before 2025.1, when exports say of a process' devices no more than CUDA_VISIBLE_DEVICES."""
    with construct.report.Report(report) as changed:
        changed.drop("TARGET_INFO_CUDA_DEVICE")
        name = "PROCESS_0:ENVIRONMENT_VARIABLE"
        changed.run("UPDATE META_DATA_CAPTURE SET value = :value WHERE name = :name AND value LIKE 'CUDA_VIS%'",
                    name=name, value=f'CUDA_VISIBLE_DEVICES="{entry}"')  # fmt: skip
    return report


@pytest.mark.parametrize(
    "entry", ["MIG-fdc4958b-f1e5-7c08-6668-79ab20fadc63", "MIG-GPU-fdc4958b-f1e5-7c08-6668-79ab20fadc63/8/0"]
)
def test_an_instance_is_found_by_its_name_in_the_environment(entry: str, tmp_path: Path) -> None:
    (report,) = construct.mig_instances(RUN[1], tmp_path / "mig")
    assert gpus_of(translate([made_visible_by(report, entry)], tmp_path), 1) == {1}


@pytest.mark.parametrize("entry", ["GPU-fdc4958b-f1e5-7c08-6668-79ab20fadc63", "GPU-fdc4"])
def test_a_gpu_is_found_by_the_beginning_of_its_uuid(entry: str, tmp_path: Path) -> None:
    report = Path(shutil.copy(RUN[1], tmp_path))
    assert gpus_of(translate([made_visible_by(report, entry)], tmp_path), 1) == {1}


@pytest.mark.parametrize(
    "info", ["", "[]", "{", '{"Gpus":[null,{"Id":null,"MigInstance":{}},{"Id":0,"MigInstance":7}]}']
)
def test_gpus_of_which_nothing_is_said_are_whole(info: str, tmp_path: Path) -> None:
    (report,) = construct.mig_instances(RUN[0], tmp_path)
    with construct.report.Report(report) as changed:
        changed.run("UPDATE TARGET_INFO_SYSTEM_ENV SET value = :info WHERE name = 'GpuInfo'", info=info)
    with nsys2prv.open_report(report) as opened:
        assert [(gpu.id, gpu.instance) for gpu in opened.identity.gpus] == [(n, "") for n in range(4)]


def test_processes_that_share_a_gpu_have_rows_of_their_own(translations: Runs, tmp_path: Path) -> None:
    made = translate(construct.one_gpu_for_all(RUN, tmp_path / "shared"), tmp_path)
    whole = translations.whole("gpt-ddp")
    assert [gpus_of(made, task) for task in range(1, 5)] == [{0}, {0}, {2}, {2}]
    place = pl.col("place").str.replace(r"CUDA-D\d+", "CUDA")
    # The trace begins with the first sample that is drawn, which is another one.
    times = pl.col("start", "end") - pl.col("start").min()
    one, other = (frame.intervals.with_columns(place, times).sort(pl.all()) for frame in (made, whole))
    assert_frame_equal(one, other)
    # One row of metrics a GPU, at the first process; the samples of one report.
    samples = drawn.metrics(made.trace)
    assert samples.select("host", "place").unique().height == 2
    assert set(samples["pid"]) == {1059, 1080}
    assert "gpu_metrics" in made.result.dropped


def test_a_shared_gpu_is_busy_when_any_of_its_processes_is(tmp_path: Path) -> None:
    made = construct.one_gpu_for_all(RUN, tmp_path / "shared")
    found = nsys2prv.analyze(
        made, question=nsys2prv.Question(window="device"), options=nsys2prv.RunOptions(align="utc")
    )
    devices = [(t.device.host, t.device.gpu, t.device.rank) for t in found.efficiency.devices]
    assert devices == [("gpu-node0", 0, 0), ("gpu-node1", 2, 2)]
    assert [t.busy_ns for t in found.efficiency.devices] == [union(made[:2]), union(made[2:])]


def union(reports: list[Path]) -> int:
    """Time in which any of the reports' processes works on a device, by SQL's rows."""
    rows = [(start + oracle.epoch(r), end + oracle.epoch(r)) for r in reports for start, end in oracle.sql(r, WORK)]
    return sum(end - start for start, end in _joined(rows))


def _joined(rows: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    begin, end = min(rows)
    for start, stop in sorted(rows):
        if start > end:
            yield begin, end
            begin = start
        end = max(end, stop)
    yield begin, end


def test_machines_of_two_architectures_are_one_run(translations: Runs, tmp_path: Path) -> None:
    lacking = 5
    grace = construct.on_machine(RUN[2:], tmp_path / "grace", **GRACE, lacking=lacking)
    made = translate([*RUN[:2], *grace], tmp_path)
    whole = translations.whole("gpt-ddp")
    assert made.trace.names == whole.trace.names
    assert_frame_equal(made.intervals.sort(pl.all()), whole.intervals.sort(pl.all()))
    # Metrics are known by their names, whatever their numbers; what one model does not sample is not there.
    sampled = {name for (name,) in oracle.sql(grace[0], "SELECT metricName FROM TARGET_INFO_GPU_METRICS")}
    there = (pl.col("host") == "gpu-node0") | pl.col("metric").is_in([name.strip() for name in sampled])
    want = drawn.metrics(whole.trace).filter(there)
    assert want.height < drawn.metrics(whole.trace).height
    assert_frame_equal(drawn.metrics(made.trace).sort(pl.all()), want.sort(pl.all()))


def test_containers_on_two_architectures_are_of_two_hosts(tmp_path: Path) -> None:
    """Where one name is all, and GPUs were not listed, the CPU tells the machines apart."""
    grace = construct.on_machine(RUN[2:], tmp_path / "grace", **GRACE)
    boxes = construct.in_containers([*RUN[:2], *grace], tmp_path / "boxes")
    bare = construct.without_rank_env(boxes, tmp_path / "bare")
    for report in bare:
        with construct.report.Report(report) as changed:
            changed.drop("TARGET_INFO_GPU")
    made = translate(bare, tmp_path)
    assert made.trace.names["NODE"] == ("box", "box#2")
