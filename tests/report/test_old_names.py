"""Tables and columns that old versions call by other names."""

from pathlib import Path

import pytest
from exports import MAIN, PROCESS, export

import nsys2prv
from nsys2prv.commands.inspect import inspect

VERSIONS = [("EXPORT_PRODUCT_VERSION", "2022.1.3.3"), ("EXPORT_SCHEMA_VERSION", "2.10.1")]
NEWER = [("EXPORT_PRODUCT_VERSION", "2025.3.2.0"), ("EXPORT_SCHEMA_VERSION", "3.20.3")]
CALL = ("start end globalTid nameId", [(0, 10, MAIN, "f")])


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ({"EXPORT_META_DATA": VERSIONS}, ("2022.1.3.3", "2.10.1")),
        ({"META_DATA_EXPORT": NEWER}, ("2025.3.2.0", "3.20.3")),
        ({"EXPORT_META_DATA": VERSIONS, "META_DATA_EXPORT": NEWER}, ("2025.3.2.0", "3.20.3")),
        ({"EXPORT_META_DATA": VERSIONS[:1]}, ("2022.1.3.3", "")),
    ],
    ids=["old", "new", "both", "without a schema"],
)
def test_versions_stand_in_tables_of_two_names(
    tables: dict[str, list[tuple[str, str]]], expected: tuple[str, str], tmp_path: Path
) -> None:
    held = {table: ("name value", rows) for table, rows in tables.items()}
    report = export(tmp_path / "r.sqlite", CUDNN_EVENTS=CALL, **held)
    with nsys2prv.open_report(report) as opened:
        identity = opened.identity
    assert (identity.nsys_version, identity.schema_version) == expected
    made = nsys2prv.translate(report, tmp_path / "out", execution=nsys2prv.Execution(jobs=1))
    assert made.prv is not None
    assert f"nsys {expected[0]}" in made.prv.read_text()
    assert made.defects == ()


@pytest.mark.parametrize("column", ["id", "deviceId"])
def test_gpus_are_numbered_in_columns_of_two_names(column: str, tmp_path: Path) -> None:
    kernel = (10, 20, 1, 1, 7, 1, PROCESS, "k")
    report = export(
        tmp_path / "r.sqlite",
        {"TARGET_INFO_GPU": "id" if column == "deviceId" else "deviceId"},
        TARGET_INFO_GPU=(f"{column} name uuid", [(0, "Tesla V100", "a"), (1, "Tesla T4", "b")]),
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId correlationId", [(0, 5, MAIN, "cudaLaunchKernel", 1)]),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            "start end deviceId contextId streamId correlationId globalPid shortName",
            [kernel],
        ),
    )
    (found,), _ = inspect([report])
    assert found.gpus == ((0, "Tesla V100"), (1, "Tesla T4"))
    made = nsys2prv.translate(report, tmp_path / "out", execution=nsys2prv.Execution(jobs=1))
    assert made.prv is not None
    assert nsys2prv.read_prv(made.prv).names["THREAD"][-1] == "CUDA-D1.S7"


def test_enumerations_are_no_unknown_tables(tmp_path: Path) -> None:
    report = export(
        tmp_path / "r.sqlite", CUDNN_EVENTS=CALL, UnwindMethodType=("number name", [(0, "Unknown"), (1, "Lbr")])
    )
    (found,), _ = inspect([report])
    assert found.left_out == {}
