"""Counters from documentation: network cards and switches, and GPU metrics of versions that have them as JSON."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from exports import MAIN, Drawn, export

import nsys2prv
from nsys2prv.intervals.reduction_options import Reduction

GPU0 = "Metrics GPU0"
CALL = ("start end globalTid nameId correlationId", [(0, 10, MAIN, "cudaMalloc_v3020", 1)])
NAMES = (
    "metricsListId metricsIdx name unit",
    [(1, 0, "IB: Bytes sent", "bytes/ms"), (1, 1, "IB: Send waits", ""), (1, 1, "again", "")],
)


def test_network_cards_by_name_and_port_from_documentation(tmp_path: Path) -> None:
    """Rates hold until the next sample; 0 where none followed for longer than a sample lasts, and at the end."""
    report = export(
        tmp_path / "nic.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
        TARGET_INFO_NETWORK_METRICS=NAMES,
        NIC_ID_MAP=("nicId globalId", [(3, 77), (4, 78)]),
        TARGET_INFO_NIC_INFO=("nicId name", [(3, "mlx5_0"), (4, "mlx5_1"), (4, "mlx5_1")]),
        NET_NIC_METRIC=(
            "start end globalId portId metricsListId metricsIdx value",
            [
                (600, 700, 77, 1, 1, 0, 9),
                (200, 300, 77, 1, 1, 0, 7),
                (100, 200, 77, 1, 1, 0, 5),
                (301, 400, 77, 1, 1, 0, 9),
                (100, 200, 77, 1, 1, 1, 3),
                (100, 200, 78, 1, 1, 0, 2),
                (100, 200, 79, None, 2, 0, 1),
            ],
        ),
        NET_IB_SWITCH_METRIC=("start end globalId metricsListId metricsIdx value", [(100, 200, -1, 1, 0, 4)]),
    )
    drawn = Drawn(report, "cuda_api", "network")
    types = {label: number for number, label in drawn.trace.types.items()}
    assert drawn.samples(types["mlx5_0 port 1: IB: Bytes sent [bytes/ms]"]) == [
        (GPU0, 100, 5),
        (GPU0, 200, 7),
        (GPU0, 301, 9),
        (GPU0, 400, 0),
        (GPU0, 600, 9),
        (GPU0, 700, 0),
    ]
    for label, value in [
        ("mlx5_0 port 1: IB: Send waits", 3),
        ("mlx5_1 port 1: IB: Bytes sent [bytes/ms]", 2),
        ("device 79: metric 2.0", 1),
        ("IB switch ffffffffffffffff: IB: Bytes sent [bytes/ms]", 4),
    ]:
        assert drawn.samples(types[label]) == [(GPU0, 100, value), (GPU0, 200, 0)]


def test_network_cards_of_old_versions_have_no_port(tmp_path: Path) -> None:
    report = export(
        tmp_path / "old.sqlite",
        lacking={"NET_NIC_METRIC": "portId"},
        CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
        NET_NIC_METRIC=("start end globalId metricsListId metricsIdx value", [(100, 200, 77, 1, 0, 5)]),
    )
    assert "device 77: metric 1.0" in Drawn(report, "cuda_api", "network").trace.types.values()


def test_each_network_card_is_drawn_from_the_report_that_samples_it_most_densely(tmp_path: Path) -> None:
    """One that only one report of a host samples stays, whatever the others sample at that time."""
    for name, cards in {"a": {77: 10, 78: 5}, "b": {177: 5, 178: 10, 179: 5}}.items():
        export(
            tmp_path / f"{name}.sqlite",
            CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
            NIC_ID_MAP=("nicId globalId", [(n % 100, n) for n in cards]),
            TARGET_INFO_NIC_INFO=("nicId name", [(n % 100, f"mlx5_{n % 10}") for n in cards]),
            NET_NIC_METRIC=(
                "start end globalId metricsListId metricsIdx value",
                [(t, t + step, n, 1, 0, n) for n, step in cards.items() for t in range(0, 50, step)],
            ),
        )
    made = nsys2prv.translate(tmp_path, tmp_path / "trace", execution=nsys2prv.Execution(quiet=True))
    assert made.prv is not None
    trace = nsys2prv.read_prv(made.prv)
    values = trace.events.filter(pl.col("value") > 0).select("type", "value").unique().rows()
    drawn = {label: v for t, v in values if (label := trace.types[t]).startswith("mlx5")}
    assert drawn == {f"mlx5_{n}: metric 1.0": v for n, v in {7: 177, 8: 78, 9: 179}.items()}
    assert made.dropped["network"] == {"of a GPU or network card that another report sampled more densely": 12}


@pytest.mark.parametrize("chosen", [{}, {"time": (190, 203)}, {"reduction": Reduction(metrics_every=1000)}])
def test_a_gpu_is_drawn_from_one_report_whatever_of_it_is_chosen(chosen: dict[str, Any], tmp_path: Path) -> None:
    """The one that sampled it more densely, although the other may not in a short time, or in means."""
    for name, times, value in (("a", range(95, 2000, 100), 50), ("b", range(0, 2000, 10), 1)):
        export(
            tmp_path / f"{name}.sqlite",
            CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
            TARGET_INFO_GPU_METRICS=("typeId metricId metricName", [(0, 1, "SM Active")]),
            GPU_METRICS=("timestamp typeId metricId value", [(t, 0, 1, value) for t in times]),
        )
    selection, options = nsys2prv.Selection(("gpu_metrics",), **chosen), nsys2prv.RunOptions(align="none")
    nsys2prv.translate(
        tmp_path, tmp_path / "trace", selection=selection, options=options, execution=nsys2prv.Execution(jobs=1)
    )
    events = nsys2prv.read_prv(tmp_path / "trace.prv").events.filter(pl.col("type").is_between(9400, 9499))
    assert set(events["value"]) == {1}


def test_what_an_ended_report_held_hides_no_samples_of_a_chosen_time(tmp_path: Path) -> None:
    for name, times in {"a": range(0, 50, 10), "b": range(50, 100, 10)}.items():
        export(
            tmp_path / f"{name}.sqlite",
            CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
            TARGET_INFO_GPU_METRICS=("typeId metricId metricName", [(0, 1, "SM Active")]),
            GPU_METRICS=("timestamp typeId metricId value", [(t, 0, 1, t) for t in times]),
        )
    selection, options = nsys2prv.Selection(("gpu_metrics",), time=(65, 90)), nsys2prv.RunOptions(align="none")
    nsys2prv.translate(
        tmp_path, tmp_path / "trace", selection=selection, options=options, execution=nsys2prv.Execution(jobs=1)
    )
    events = nsys2prv.read_prv(tmp_path / "trace.prv").events.filter(pl.col("type").is_between(9400, 9499))
    assert events.select("time", "value").rows() == [(0, 60), (5, 70), (15, 80)]


GPU_SOURCE, FTRACE = 1 << 56, 2 << 56
FIRST, SECOND = GPU_SOURCE | 0, GPU_SOURCE | 1


def test_gpu_metrics_in_generic_events_from_documentation(tmp_path: Path) -> None:
    """The GPU is in the low bits of the type. Values are texts. What GPU_METRICS has too is taken from there."""
    fields = json.dumps({"Name": "", "Fields": [{"Name": "GR Active"}, {"Name": "GPC Clock [MHz]"}]})
    report = export(
        tmp_path / "generic.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
        GENERIC_EVENT_SOURCES=(
            "sourceId data",
            [(GPU_SOURCE, '{"Name":"GpuMetrics"}'), (FTRACE, '{"Name":"Linux ftrace"}')],
        ),
        GENERIC_EVENT_TYPES=(
            "typeId sourceId data",
            [(FIRST, GPU_SOURCE, fields), (SECOND, GPU_SOURCE, fields), (FTRACE | 9, FTRACE, "{}")],
        ),
        GENERIC_EVENTS=(
            "timestamp typeId data",
            [
                (200, FIRST, '{"GR Active":"60","GPC Clock [MHz]":1980000000}'),
                (100, FIRST, '{"GR Active":"50","GPC Clock [MHz]":1980000000}'),
                (300, FIRST, '{"GR Active":"60"}'),
                (100, SECOND, '{"GR Active":"1"}'),
                (100, FTRACE | 9, '{"common_pid":"7"}'),
                (None, FIRST, "{}"),
            ],
        ),
        TARGET_INFO_GPU_METRICS=("typeId metricId metricName", [(SECOND, 0, "GR Active")]),
        GPU_METRICS=("timestamp typeId metricId value", [(150, SECOND, 0, 2)]),
    )
    drawn = Drawn(report, "cuda_api", "gpu_metrics")
    types = {label: number for number, label in drawn.trace.types.items()}
    assert drawn.samples(types["GR Active"]) == [
        (GPU0, 100, 50),
        ("Metrics GPU1", 150, 2),
        (GPU0, 200, 60),
        (GPU0, 300, 60),
    ]
    # Hz, shown as MHz by the type's precision.
    assert drawn.samples(types["GPC Clock [MHz]"]) == [(GPU0, 100, 1980000000), (GPU0, 200, 1980000000)]
    assert drawn.dropped("gpu_metrics") == {
        "without a time": 1,
        "generic events of other sources than GPU metrics": 1,
    }


@pytest.mark.parametrize(
    ("source", "times", "expected", "lost"),
    [
        # Raw times alone; both kinds in one table; raw times of a clock that is not the session's.
        ('{"Name":"GpuMetrics","TimeSource":"SessionNs"}', [(100, None), (200, None)], [100, 200], 0),
        ('{"Name":"GpuMetrics"}', [(7, 100), (200, None)], [100, 200], 0),
        ('{"Name":"GpuMetrics"}', [(100, None), (None, None), (1 << 62, None)], [100], 2),
        ('{"Name":"GpuMetrics","TimeSource":"GpuTicks"}', [(7, 100), (200, None)], [100], 1),
    ],
    ids=["raw", "mixed", "no time", "another clock"],
)
def test_a_generic_event_without_a_time_has_its_raw_one(
    source: str, times: list[tuple[int | None, int | None]], expected: list[int], lost: int, tmp_path: Path
) -> None:
    fields = json.dumps({"Fields": [{"Name": "SM Active"}]})
    values = [(raw, time, FIRST, json.dumps({"SM Active": str(n)})) for n, (raw, time) in enumerate(times)]
    report = export(
        tmp_path / "raw.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
        GENERIC_EVENT_SOURCES=("sourceId data", [(GPU_SOURCE, source)]),
        GENERIC_EVENT_TYPES=("typeId sourceId data", [(FIRST, GPU_SOURCE, fields)]),
        GENERIC_EVENTS=("rawTimestamp timestamp typeId data", values),
    )
    drawn = Drawn(report, "cuda_api", "gpu_metrics", begin=0)
    (number,) = (number for number, label in drawn.trace.types.items() if label == "SM Active")
    sampled = [time for _, time, _ in drawn.samples(number)]
    assert sampled[: len(expected)] == expected
    assert drawn.dropped("gpu_metrics").get("without a time", 0) == lost


def test_a_generic_metric_without_any_value_has_no_type(tmp_path: Path) -> None:
    fields = json.dumps({"Fields": [{"Name": "SM Active"}, {"Name": "GR Active"}]})
    report = export(
        tmp_path / "empty.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
        GENERIC_EVENT_SOURCES=("sourceId data", [(GPU_SOURCE, '{"Name":"GpuMetrics"}')]),
        GENERIC_EVENT_TYPES=("typeId sourceId data", [(FIRST, GPU_SOURCE, fields)]),
        GENERIC_EVENTS=("timestamp typeId data", [(time, FIRST, "") for time in (1, 166, 2000)]),
    )
    drawn = Drawn(report, "cuda_api", "gpu_metrics")
    assert drawn.result.rows["gpu_metrics"] == 3
    assert not {"SM Active", "GR Active"} & set(drawn.trace.types.values())


def test_copies_of_gpu_metrics_are_no_loss(tmp_path: Path) -> None:
    """They have no time at all, as nsys writes them beside GPU_METRICS."""
    fields = json.dumps({"Fields": [{"Name": "SM Active"}]})
    report = export(
        tmp_path / "copies.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=CALL,
        GENERIC_EVENT_SOURCES=("sourceId data", [(GPU_SOURCE, '{"Name":"GpuMetrics"}')]),
        GENERIC_EVENT_TYPES=("typeId sourceId data", [(FIRST, GPU_SOURCE, fields)]),
        GENERIC_EVENTS=("timestamp typeId data", [(None, FIRST, '{"SM Active":"5"}')] * 3),
        TARGET_INFO_GPU_METRICS=("typeId metricId metricName", [(FIRST, 0, "SM Active")]),
        GPU_METRICS=("timestamp typeId metricId value", [(100, FIRST, 0, 5)]),
    )
    drawn = Drawn(report, "cuda_api", "gpu_metrics")
    assert (drawn.result.dropped, drawn.result.defects, drawn.result.rows["gpu_metrics"]) == ({}, (), 1)
