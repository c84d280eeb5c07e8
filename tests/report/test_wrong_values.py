"""Values that cannot be: what they are taken for, and that it is told. Found by tests/fuzz."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from exports import MAIN, PROCESS, Drawn, export, real

import nsys2prv
from nsys2prv.report import schema
from nsys2prv.report.sqlite import BATCH_ROWS

CALL = "start end globalTid nameId"


def drawn(folder: Path, *rows: tuple[object, ...], **tables: object) -> Drawn:
    calls = [(1_000, 2_000, MAIN, "sound"), *rows]
    return Drawn(export(folder / "r.sqlite", CUBLAS_EVENTS=(CALL, calls), **tables), "cublas", begin=1_000)  # type: ignore[arg-type]


@pytest.mark.parametrize("time", ["soon", "12 o'clock", b"\xff", 2**63 - 1, -(2**63), 2**62, 1e300, 1.5, None])
def test_what_is_no_time_is_left_out_and_told(time: object, tmp_path: Path) -> None:
    found = drawn(tmp_path, (time, 3_000, MAIN, "unsound"))
    assert found.dropped("cublas") == {"without a time": 1}
    assert found.result.rows["cublas"] == 1
    assert found.result.duration_ns == 1_000


@pytest.mark.parametrize("time", ["3000", b"3000", 3000.0])
def test_a_number_is_a_number_however_it_is_kept(time: object, tmp_path: Path) -> None:
    found = drawn(tmp_path, (time, 4_000, MAIN, "sound"))
    assert found.dropped("cublas") == {}
    assert found.result.duration_ns == 3_000


@pytest.mark.parametrize("far", [10, BATCH_ROWS + 10])
@pytest.mark.parametrize(
    ("value", "number"), [("x", None), ("12", 12), (b"12", 12), (2.0, 2), (1.5, None), (None, None)]
)
def test_one_number_kept_otherwise_changes_no_other(
    value: object, number: int | None, far: int, tmp_path: Path
) -> None:
    report = export(tmp_path / "r.sqlite", NIC_ID_MAP=("nicId globalId", [(1, 1)]))
    with closing(sqlite3.connect(report, isolation_level=None)) as changed:
        changed.execute("CREATE TABLE GPU_METRICS (timestamp, typeId, metricId, value)")
        rows = ((2**53 + n, 1, 1, value if n == far else n) for n in range(far + 10))
        changed.execute("BEGIN")
        changed.executemany("INSERT INTO GPU_METRICS VALUES (?, ?, ?, ?)", rows)
        changed.execute("COMMIT")
    with nsys2prv.open_report(report) as opened:
        found = opened.table(schema.METRICS)
    assert found["value"].to_list() == [number if n == far else n for n in range(far + 10)]
    assert found["timestamp"].to_list() == [2**53 + n for n in range(far + 10)]


def test_numbers_of_rows_may_lie_far_apart(tmp_path: Path) -> None:
    """What reads a table in pieces goes by them."""
    report = export(tmp_path / "r.sqlite", CUBLAS_EVENTS=(CALL, [(n, n + 1, MAIN, "x") for n in range(10)]))
    with closing(sqlite3.connect(report, isolation_level=None)) as changed:
        changed.execute("UPDATE CUBLAS_EVENTS SET rowid = rowid << 40 WHERE rowid > 5")
    with nsys2prv.open_report(report) as opened:
        assert opened.rows_at_most(schema.CUBLAS) == 10
        pieces = [piece()["start"].to_list() for piece in opened.pieces(schema.CUBLAS, ["start"], 4)]
    assert pieces == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("end", [None, "late", 2**63 - 1])
def test_what_has_no_end_is_a_point_and_told(end: object, tmp_path: Path) -> None:
    found = drawn(tmp_path, (5_000, end, MAIN, "unsound"))
    assert found.dropped("cublas") == {"without an end (drawn 1 ns long)": 1}
    assert found.result.duration_ns == 4_001


def test_names_that_are_no_utf_8_stay_readable(tmp_path: Path) -> None:
    report = export(tmp_path / "r.sqlite", CUBLAS_EVENTS=(CALL, [(1, 2, MAIN, "x"), (3, 4, MAIN, "y")]))
    with closing(sqlite3.connect(report, isolation_level=None)) as changed:
        changed.execute("UPDATE StringIds SET value = CAST(x'6e616dff' AS TEXT) WHERE value = 'x'")
    with nsys2prv.open_report(report) as opened:
        assert sorted(opened.strings["text"]) == ["nam\N{REPLACEMENT CHARACTER}", "y"]


def test_a_table_has_the_name_that_sqlite_goes_by(tmp_path: Path) -> None:
    """Where a damaged file lists it under another one."""
    report = export(tmp_path / "r.sqlite", CUBLAS_EVENTS=(CALL, [(1, 2, MAIN, "x")]))
    data = report.read_bytes()
    damaged = data.replace(b"tableStringIdsStringIds", b"tableStriNgIdsStringIds")
    assert damaged != data
    report.write_bytes(damaged)
    with nsys2prv.open_report(report) as opened:
        assert opened.strings["text"].to_list() == ["x"]


def test_a_text_that_is_null_or_empty_is_none(tmp_path: Path) -> None:
    """So that the text behind its `textId` counts."""
    report = export(tmp_path / "r.sqlite", NIC_ID_MAP=("nicId globalId", [(1, 1)]))
    with closing(sqlite3.connect(report, isolation_level=None)) as changed:
        changed.execute("CREATE TABLE NVTX_EVENTS (start, eventType, text, binaryData)")
        rows = [(1, 59, None, None), (2, 59, "", b""), (3, 59, "text", b"data")]
        changed.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?)", rows)
    columnar = tmp_path / "r_pqtdir"
    columnar.mkdir()
    pl.DataFrame(rows, schema=["start", "eventType", "text", "binaryData"], orient="row").write_parquet(
        columnar / "NVTX_EVENTS.parquet"
    )
    for path in (report, columnar):
        with nsys2prv.open_report(path) as opened:
            found = opened.table(schema.NVTX, ["text", "binaryData"])
        assert found.rows() == [(None, None), (None, None), ("text", b"data")]


def test_a_needed_value_that_is_missing_is_told(tmp_path: Path) -> None:
    calls = [(1, 2, MAIN, "cudaMalloc"), (3, 4, MAIN, None), (5, 6, None, "cudaFree")]
    found = Drawn(export(tmp_path / "r.sqlite", CUPTI_ACTIVITY_KIND_RUNTIME=(CALL, calls)), "cuda_api")
    assert found.dropped("cuda_api") == {"without globalTid or nameId": 2}
    assert found.result.rows["cuda_api"] == 1


def test_a_process_without_a_number_is_none(tmp_path: Path) -> None:
    found = drawn(tmp_path, PROCESSES=("globalPid pid name", [(None, 1, "ghost"), (PROCESS, 100, "app")]))
    assert found.result.tasks == 1


def test_a_session_start_that_is_no_time_is_none(tmp_path: Path) -> None:
    found = drawn(tmp_path, TARGET_INFO_SESSION_START_TIME=("utcEpochNs", [(2**63 - 1,)]))
    assert found.result.duration_ns == 1_000


def test_metrics_of_one_name_stay_two(tmp_path: Path) -> None:
    report = export(
        tmp_path / "r.sqlite",
        GPU_METRICS=("timestamp typeId metricId value", [(1, 256, 1, 10), (1, 256, 2, 20), (5, 256, 1, 11)]),
        TARGET_INFO_GPU_METRICS=("typeId metricId metricName", [(256, 1, "Same"), (256, 2, "Same")]),
    )
    found = Drawn(report, "gpu_metrics")
    named = {label: number for number, label in found.trace.types.items() if label.startswith("Same")}
    assert set(named) == {"Same", "Same (metric 2)"}
    assert [value for _, _, value in found.samples(named["Same (metric 2)"])] == [20]


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("start", [{"a": 1}, {"a": 2}]),
        pl.Series("start", [[1], [2]]),
        pl.Series("start", ["soon", "later"]),
        pl.Series("start", [float("nan"), float("inf")]),
        pl.Series("start", [1.5, -0.25]),
    ],
    ids=["structure", "list", "text", "not a number", "fraction"],
)
def test_a_columnar_column_of_another_type_holds_nothing(column: pl.Series, tmp_path: Path) -> None:
    folder = tmp_path / "r_pqtdir"
    folder.mkdir()
    pl.DataFrame({"id": [1], "value": ["name"]}).write_parquet(folder / "StringIds.parquet")
    calls = pl.DataFrame({"end": [3, 4], "globalTid": [MAIN, MAIN], "nameId": [1, 1]}).with_columns(column)
    calls.write_parquet(folder / "CUBLAS_EVENTS.parquet")
    with nsys2prv.open_report(folder) as report:
        assert report.table(schema.CUBLAS)["start"].to_list() == [None, None]
        assert report.bounds(schema.CUBLAS) is None


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (float("nan"), "NaN"), (1.5, "1.5"), (7, "7"), ([1], None)]
)
def test_a_columnar_column_of_texts_may_hold_other_values(value: object, text: str | None, tmp_path: Path) -> None:
    """They are drawn as what they are, and where they stand for no text the id of the name is."""
    folder = tmp_path / "r_pqtdir"
    folder.mkdir()
    pl.DataFrame({"id": [1], "value": [value]}).write_parquet(folder / "StringIds.parquet")
    with nsys2prv.open_report(folder) as report:
        assert report.strings["text"].to_list() == [text]


@pytest.mark.parametrize("name", ["StringIds.parquet", "StringIds.arrow"])
def test_columnar_texts_that_are_no_utf_8_are_to_be_read_from_sqlite(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "r_dir"
    folder.mkdir()
    texts = pl.DataFrame({"id": [1], "value": ["name: abc, and further on"]})
    if name.endswith(".parquet"):
        texts.write_parquet(folder / name, compression="uncompressed")
    else:
        texts.write_ipc_stream(folder / name)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole.replace(b"name: abc", b"name: \xff\xfe\xff"))
    with nsys2prv.open_report(folder) as report, pytest.raises(nsys2prv.Nsys2prvError, match="--type sqlite"):
        assert report.strings is not None


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_a_damaged_columnar_table_is_named_where_its_rows_are_only_counted(ending: str, tmp_path: Path) -> None:
    """Rows of families that are not drawn are counted."""
    folder = tmp_path / "r_dir"
    folder.mkdir()
    names = {"name": ["a"], "value": ["b"]}
    write = pl.DataFrame.write_parquet if ending == ".parquet" else pl.DataFrame.write_ipc_stream
    for table in (schema.EXPORT, schema.PROFILER_OVERHEAD):
        write(pl.DataFrame(names), folder / f"{table.name}{ending}")
    damaged = folder / f"{schema.PROFILER_OVERHEAD.name}{ending}"
    damaged.write_bytes(b"".join(bytes([byte ^ 0x40]) for byte in damaged.read_bytes()))
    with nsys2prv.open_report(folder) as report, pytest.raises(nsys2prv.Nsys2prvError, match="cannot be read") as error:
        report.rows(schema.PROFILER_OVERHEAD)
    assert damaged.name in str(error.value)


def test_lines_begin_where_the_trace_does_at_the_earliest(tmp_path: Path) -> None:
    """Without the calls that launched it, what is drawn begins after its lines do."""
    report = real("mpi-halo/mpi-halo.0", tmp_path)
    families = ("kernels", "correlation", "nvtx")
    result = nsys2prv.translate(
        report,
        tmp_path / "trace",
        selection=nsys2prv.Selection(families),
        options=nsys2prv.RunOptions(every_thread=True),
        execution=nsys2prv.Execution(jobs=1),
    )
    assert result.prv is not None
    messages = nsys2prv.read_prv(result.prv).messages
    assert messages.height
    assert messages["sent"].min() >= 0  # type: ignore[operator]


@pytest.mark.parametrize("device", [-1, -(2**31), 2**31])
def test_a_device_that_cannot_be_is_one_by_its_number(device: int, tmp_path: Path) -> None:
    graphs = ("start end deviceId streamId globalPid graphId", [(1, 5, device, 7, PROCESS, 3)])
    found = Drawn(export(tmp_path / "r.sqlite", CUPTI_ACTIVITY_KIND_GRAPH_TRACE=graphs), "graphs")
    assert f"CUDA-D{device}.S7" in found.trace.names["THREAD"]
