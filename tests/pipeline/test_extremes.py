"""Reports with a great deal of one thing, and with times and values at the borders of what can be said."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from exports import MAIN, Drawn, export, tid
from plain import PlainTrace

import nsys2prv
from nsys2prv.intervals.reduction_options import Reduction

CALL = "start end globalTid nameId"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
CUDA_CALL, FIRST_METRIC = 63000000, 9400
RANGE = "start end eventType globalTid domainId text"
PUSH_POP = 59


def metrics(*rows: tuple[int, int, int], names: dict[int, str]) -> dict[str, tuple[str, list[tuple[object, ...]]]]:
    """Tables with samples of GPU 0: time, number, value."""
    return {
        "GPU_METRICS": ("timestamp typeId metricId value", [(time, 256, n, value) for time, n, value in rows]),
        "TARGET_INFO_GPU_METRICS": ("typeId metricId metricName", [(256, n, name) for n, name in names.items()]),
    }


def test_thousands_of_threads(tmp_path: Path) -> None:
    calls = [(n * 3, n * 3 + 2 * n % 7 + 1, tid(1 + n * 7 % 5_000), "call") for n in range(6_000)]
    found = Drawn(export(tmp_path / "r.sqlite", **{RUNTIME: (CALL, calls)}), "cuda_api")
    assert found.trace.header.tasks == ((5_000, 1),)
    want = sorted((f"thread {t & 0xFFFFFF}", start, end, name) for start, end, t, name in calls)
    assert found.intervals(CUDA_CALL) == want
    PlainTrace(tmp_path / "r.prv").check()


def test_more_threads_than_paraver_takes_are_refused(tmp_path: Path) -> None:
    calls = [(n, n + 1, tid(n), "call") for n in range(1, 65_537)]
    with pytest.raises(nsys2prv.Nsys2prvError, match="65536 rows, and Paraver takes at most 65534; choose fewer ranks"):
        Drawn(export(tmp_path / "r.sqlite", **{RUNTIME: (CALL, calls)}), "cuda_api")


def test_hundreds_of_thousands_of_names(tmp_path: Path) -> None:
    count = 200_000
    # Each second name looks like the one before it.
    calls = [(n, n + 1, MAIN, f"name {n // 2}" + "\n" * (n % 2)) for n in range(count)]
    found = Drawn(export(tmp_path / "r.sqlite", **{RUNTIME: (CALL, calls)}), "cuda_api")
    labels = found.labels(CUDA_CALL)
    assert sorted(labels) == list(range(1, count + 1))
    assert set(labels.values()) == {f"name {n}{again}" for n in range(count // 2) for again in ("", " (2)")}
    drawn = found.trace.intervals(CUDA_CALL).sort("start")["label"]
    assert drawn.to_list() == [f"name {n // 2}" + " (2)" * (n % 2) for n in range(count)]


def test_texts_that_differ_by_numbers_are_labelled_by_pattern_and_told(tmp_path: Path) -> None:
    numbers = {10_001: 2**31, 10_002: 2**63 - 1, 10_003: 2**63, 10_004: 10**5_000 // 9}
    texts = [f"step {numbers.get(n, n) if n < 10_004 else '1' * 5_000}" for n in range(10_005)] + ["end"]
    ranges = [(n, n + 1, PUSH_POP, MAIN, 0, text) for n, text in enumerate(texts)]
    found = Drawn(export(tmp_path / "r.sqlite", NVTX_EVENTS=(RANGE, ranges)), "nvtx")
    assert found.labels(9600) == {1: "end", 2: "step #"}
    (number,) = (n for n, label in found.trace.types.items() if label == "NVTX default: number in the text")
    values = [value for _, time, value in found.samples(number) if value]
    assert values == [*range(1, 10_001), 2**31, 2**63 - 1, 2**63 - 1, 2**63 - 1]
    (warning,) = found.result.warnings
    assert warning.startswith("NVTX default has more than 10,000 texts: they are labelled by pattern")


def test_metrics_beyond_a_hundred_have_numbers_of_their_own(tmp_path: Path) -> None:
    names = {n: f"metric {n:03}" for n in range(250)}
    tables = metrics(*((t, n, t * n) for t in (1, 9) for n in names), names=names)
    found = Drawn(export(tmp_path / "r.sqlite", **tables), "gpu_metrics")
    types = {label: number for number, label in found.trace.types.items() if label.startswith("metric")}
    assert [types[names[n]] for n in (0, 99, 100, 249)] == [FIRST_METRIC, FIRST_METRIC + 99, 71000000, 71000149]
    for n, name in names.items():
        assert [value for *_, value in found.samples(types[name])] == [n, 9 * n]
    nsys2prv.cut(tmp_path / "r.prv", tmp_path / "cut", (4, 8))
    held = nsys2prv.read_prv(tmp_path / "cut.prv").events.filter(pl.col("type") == types["metric 249"])
    assert held.select("time", "value").rows() == [(0, 249)]


def test_more_domains_than_their_block_has_room_for(tmp_path: Path) -> None:
    domains = 106
    naming = [(0, None, 75, MAIN, n, f"domain {n:03}") for n in range(1, domains)]
    ranges = [(n, n + 1, PUSH_POP, MAIN, n, "range") for n in range(domains)]
    found = Drawn(export(tmp_path / "r.sqlite", NVTX_EVENTS=(RANGE, naming + ranges)), "nvtx")
    names = {label: number for number, label in found.trace.types.items()}
    assert sum(label.startswith("NVTX ") for label in names) == domains
    for n in (1, domains - 1):
        assert names[f"NVTX domain {n:03}"] == 9600 + 100 * n
        assert found.intervals(names[f"NVTX domain {n:03}"]) == [("thread 100", n, n + 1, "range")]


LIMIT = 2**61
FAR = (2**53 - 1, 2**53, 2**53 + 1, LIMIT)


@pytest.mark.parametrize("far", FAR)
def test_times_far_apart_are_exact_and_told_if_paraver_rounds_them(far: int, tmp_path: Path) -> None:
    calls = [(0, far, MAIN, "outer"), (far - 1, far - 1, MAIN, "inner"), (1, 2**63 - 1, MAIN, "endless")]
    found = Drawn(export(tmp_path / "r.sqlite", **{RUNTIME: (CALL, calls)}), "cuda_api")
    assert found.intervals(CUDA_CALL) == [
        ("thread 100", 0, far, "outer"),
        ("thread 100", 1, 2, "endless"),
        ("thread 100", far - 1, far, "inner"),
    ]
    assert found.dropped("cuda_api") == {"without an end (drawn 1 ns long)": 1}
    told = [w for w in found.result.warnings if "Paraver rounds times beyond 2**53 ns" in w]
    assert len(told) == (far > 2**53)


@pytest.mark.parametrize("align", ["utc", "none", "auto"])
@pytest.mark.parametrize("begin", [-LIMIT, -(2**53) - 1, -5])
def test_negative_times_of_several_reports(begin: int, align: str, tmp_path: Path) -> None:
    reports = [
        export(
            tmp_path / f"r{n}.sqlite",
            PROCESSES=("globalPid pid name", [(tid(0, 100 + n), 100 + n, "app")]),
            TARGET_INFO_SESSION_START_TIME=("utcEpochNs", [(10**18 + n * 1_000,)]),
            **{RUNTIME: (CALL, [(begin, begin + 3, tid(1, 100 + n), "call"), (2, 4, tid(1, 100 + n), "call")])},
        )
        for n in range(2)
    ]
    options = nsys2prv.RunOptions(align=align)  # type: ignore[arg-type]
    nsys2prv.translate(reports, tmp_path / "trace", options=options, execution=nsys2prv.Execution(jobs=1))
    trace = PlainTrace(tmp_path / "trace.prv")
    trace.check()
    later = 0 if align == "none" else 1_000
    calls = sorted((i.task, i.start, i.end) for i in trace.intervals() if i.type == CUDA_CALL)
    assert calls == [
        (task, start - begin + by, end - begin + by)
        for task, by in ((1, 0), (2, later))
        for start, end in ((begin, begin + 3), (2, 4))
    ]


def test_a_single_sample_is_a_trace(tmp_path: Path) -> None:
    found = Drawn(export(tmp_path / "r.sqlite", **metrics((5, 0, 7), names={0: "alone"})), "gpu_metrics")
    assert found.samples(FIRST_METRIC) == [("Metrics GPU0", 5, 7)]
    assert (found.result.window_ns, found.result.duration_ns) == ((0, 1), 1)
    PlainTrace(tmp_path / "r.prv").check()


def test_the_largest_values_are_written_as_they_are_and_told(tmp_path: Path) -> None:
    values = (2**53, 2**53 + 1, 2**63 - 1, -(2**63))
    tables = metrics(*((t, 0, v) for t, v in enumerate(values)), (0, 1, 2**53), names={0: "wide", 1: "narrow"})
    found = Drawn(export(tmp_path / "r.sqlite", **tables), "gpu_metrics")
    assert [value for *_, value in found.samples(FIRST_METRIC)] == list(values)
    assert found.result.warnings == ("wide: Paraver rounds values beyond 2**53 [r]",)


def test_copies_of_no_time_and_many_bytes_are_drawn_without_a_throughput(tmp_path: Path) -> None:
    columns = "start end globalPid deviceId streamId bytes copyKind"
    copies = [(5, 5, tid(0), 0, 7, 2**40, 1), (9, 10, tid(0), 0, 7, 2**20, 1)]
    found = Drawn(export(tmp_path / "r.sqlite", CUPTI_ACTIVITY_KIND_MEMCPY=(columns, copies)), "memory")
    assert found.dropped("memory") == {"a throughput above 2**63 B/s (drawn without it)": 1}
    assert [v for *_, v in found.samples(63000002) if v] == [2**40, 2**20]
    assert [v for *_, v in found.samples(70000002) if v] == [2**20 * 10**9]


def test_metrics_of_one_name_are_told_apart_whatever_they_are_called(tmp_path: Path) -> None:
    names = {1: "x", 2: "x", 3: "x (metric 2)", 4: "metric 5", 6: " \u2028"}
    tables = metrics(*((t, n, n) for t in (0, 9) for n in range(1, 7)), names=names)
    found = Drawn(export(tmp_path / "r.sqlite", **tables), "gpu_metrics")
    assert [found.trace.types[FIRST_METRIC + n] for n in range(1, 5)] == [
        "x", "x (metric 2)", "x (metric 2) (metric 3)", "metric 5",
    ]  # fmt: skip
    assert {"metric 5 (metric 5)", "metric 6"} < set(found.trace.types.values())


@pytest.mark.parametrize("period", [10, 2**62, 2**64])
def test_the_largest_values_and_periods_are_averaged(period: int, tmp_path: Path) -> None:
    tables = metrics((0, 0, 2**63 - 1), (50, 0, 2**63 - 1), (60, 0, -(2**63)), (LIMIT, 0, 7), names={0: "wide"})
    selection = nsys2prv.Selection(("gpu_metrics",), reduction=Reduction(metrics_every=period))
    report = export(tmp_path / "r.sqlite", **tables)
    result = nsys2prv.translate(report, tmp_path / "trace", selection=selection, execution=nsys2prv.Execution(jobs=1))
    assert result.prv is not None
    found = nsys2prv.read_prv(result.prv).events.filter(pl.col("type") == FIRST_METRIC)["value"].to_list()
    assert found[-1] == 7
    # To the 53 bits of a real number. Long periods hold the pause from 110 on, which does not count.
    assert found[0] == pytest.approx(2**63 if period == 10 else 2**63 * (60 - 50) / 110, rel=1e-15)
