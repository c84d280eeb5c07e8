"""Reports as other versions of nsys export them: tables and columns added, dropped, rows in any order.

The sources are of schema 3.20 (nsys 2025.3). What changed between versions is what exports of theirs and NVIDIA's notes
say; where neither says when, it is the first version that was seen with it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .report import Report, Sources, close, open_copies
from .rows import shuffled

CUPTI = "CUPTI_ACTIVITY_KIND_"
KERNEL, MEMCPY, SYNC, EVENT = (CUPTI + name for name in ("KERNEL", "MEMCPY", "SYNCHRONIZATION", "CUDA_EVENT"))


@dataclass(frozen=True)
class Version:
    """A schema, and how it differs from the one before: what it has more, or has no longer.

    `columns` and `tables` are new in it; `dropped` columns are gone.
    """

    schema: str
    columns: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)


# Product -> what is new in it, oldest first.
VERSIONS = {
    "2020.3": Version(""),
    "2023.3": Version("3.4.0"),
    "2023.4": Version(
        "3.7.2",
        columns=dict.fromkeys((KERNEL, MEMCPY, SYNC), "greenContextId"),
        tables={"TARGET_INFO_CUDA_CONTEXT_INFO": "", "GPU_METRICS": ""},
    ),
    "2025.1": Version(
        "3.17.1",
        columns={
            SYNC: "deprecatedSyncType eventSyncId",
            "SCHED_EVENTS": "threadState threadBlock",
            "NVTX_EVENTS": "binaryData",
        },
        tables={"ANALYSIS_FILE": "", "DIAGNOSTIC_EVENT": "", "TARGET_INFO_CUDA_DEVICE": ""},
    ),
    "2025.3": Version("3.20.3", columns={EVENT: "eventSyncId"}),
    "2025.6": Version(""),
    "2026.1": Version(
        "3.24.14",
        columns={
            KERNEL: "qmdBulkReleaseDone qmdPreexitDone qmdLastCtaDone graphId clusterX clusterY clusterZ"
            " clusterSchedulingPolicy maxPotentialClusterSize maxActiveClusters sharedMemoryRequestedPercentage",
            "PROFILER_OVERHEAD": "overheadType",
            "TARGET_INFO_CUDA_CONTEXT_INFO": "numMultiprocessors",
            "TARGET_INFO_CUDA_DEVICE": "uuid numMultiprocessors",
            "TARGET_INFO_SESSION_START_TIME": "systemClockNs",
        },
        tables={CUPTI + "OVERHEAD": "start end eventClass globalTid correlationId nameId overheadType"},
        dropped={"PROFILER_OVERHEAD": "returnValue"},
    ),
    "2026.2": Version(
        "3.25.0",
        columns={KERNEL: "tensorSizeMinusOneElements", EVENT: "timestamp"},
        tables={"NVTX_PAYLOAD_SCHEMAS": "", "NVTX_PAYLOAD_SCHEMA_ENTRIES": ""},
    ),
}
OF_SOURCES = "2025.3"
METRICS_SINCE = "2023.4"
SHUFFLED = ("2025.6", "2026.1", "2026.2")
# The sources have them, as nsys of that year does where NCCL or MPI says of what kind its payloads are.
KEPT = ("NVTX_PAYLOAD_SCHEMAS", "NVTX_PAYLOAD_SCHEMA_ENTRIES")


def of_version(sources: Sources, folder: Path, version: str) -> list[Path]:
    """The report as a version of nsys (2020.3 to 2026.2, see VERSIONS) exports it.

    Truth: the same trace, byte for byte, but for what the version has no column or table for.
    """
    names = list(VERSIONS)
    made = open_copies(sources, folder)
    for report in made:
        for newer in names[names.index(version) + 1 : names.index(OF_SOURCES) + 1]:
            _take_back(report, VERSIONS[newer])
        for newer in names[names.index(OF_SOURCES) + 1 : names.index(version) + 1]:
            _add(report, VERSIONS[newer])
        if names.index(version) < names.index(METRICS_SINCE):
            _metrics_as_json(report)
        _say(report, version)
    paths = close(made)
    return _in_any_order(paths) if version in SHUFFLED else paths


def _take_back(report: Report, version: Version) -> None:
    report.drop(*(name for name in version.tables if name not in ("GPU_METRICS", *KEPT)))
    _without(report, version.columns)


def _add(report: Report, version: Version) -> None:
    tables = report.tables()
    for name, columns in version.columns.items():
        for column in columns.split() if name in tables else ():
            if column not in tables[name].columns:
                report.run(f'ALTER TABLE "{name}" ADD COLUMN "{column}" INTEGER')
    for name, columns in version.tables.items():
        if columns and name not in tables:
            report.run(f'CREATE TABLE "{name}" ({", ".join(f""""{c}" INTEGER""" for c in columns.split())})')
    _without(report, version.dropped)


def _without(report: Report, columns: Mapping[str, str]) -> None:
    tables = report.tables()
    for name, dropped in columns.items():
        for column in dropped.split() if name in tables else ():
            if column in tables[name].columns:
                report.run(f'ALTER TABLE "{name}" DROP COLUMN "{column}"')


def _metrics_as_json(report: Report) -> None:
    """GPU metrics as generic events: all of a time in one text, by name, each value a text."""
    if "GPU_METRICS" not in report.tables():
        return
    report.drop("GENERIC_EVENTS", "GENERIC_EVENT_TYPES", "GENERIC_EVENT_SOURCES")
    report.run("CREATE TABLE GENERIC_EVENT_SOURCES (sourceId INTEGER, data TEXT)")
    report.run("CREATE TABLE GENERIC_EVENT_TYPES (typeId INTEGER, sourceId INTEGER, data TEXT)")
    report.run("CREATE TABLE GENERIC_EVENTS (rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER, data TEXT)")
    report.run("INSERT INTO GENERIC_EVENT_SOURCES VALUES (1, :data)", data=json.dumps({"Name": "GpuMetrics"}))
    for (kind,) in report.rows("SELECT DISTINCT typeId FROM GPU_METRICS"):
        named = report.rows("SELECT metricName FROM TARGET_INFO_GPU_METRICS WHERE typeId = :kind", kind=kind)
        fields = json.dumps({"Fields": [{"Name": name} for (name,) in named]})
        report.run("INSERT INTO GENERIC_EVENT_TYPES VALUES (:kind, 1, :data)", kind=kind, data=fields)
    report.run(
        "INSERT INTO GENERIC_EVENTS SELECT timestamp, timestamp, m.typeId, json_group_object(metricName, m.value || '')"
        " FROM GPU_METRICS m JOIN TARGET_INFO_GPU_METRICS n USING (typeId, metricId) GROUP BY timestamp, m.typeId"
    )
    report.drop("GPU_METRICS", "TARGET_INFO_GPU_METRICS")


def _say(report: Report, version: str) -> None:
    """What the export says of its version; the oldest say nothing."""
    report.run("DELETE FROM META_DATA_EXPORT WHERE name LIKE 'EXPORT_%VERSION%'")
    if schema := VERSIONS[version].schema:
        for name, value in (("EXPORT_PRODUCT_VERSION", version + ".1"), ("EXPORT_SCHEMA_VERSION", schema)):
            report.run("INSERT INTO META_DATA_EXPORT(name, value) VALUES (:name, :value)", name=name, value=value)


def _in_any_order(paths: list[Path]) -> list[Path]:
    """The same reports in their places, their rows shuffled."""
    for path in paths:
        beside = path.parent / "shuffling"
        (made,) = shuffled(path, beside)
        shutil.move(made, path)
        beside.rmdir()
    return paths
