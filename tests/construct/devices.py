"""Reports that say something else of GPUs: where their metrics lie, and which context used them."""

from __future__ import annotations

from pathlib import Path

from .arrivals import Arrivals
from .report import DEVICE_WORK, Report, Sources, by_host, close, listed, open_copies

METRICS = "GPU_METRICS"
METRIC_DEFINITIONS = (
    "GENERIC_EVENT_SOURCES",
    "GENERIC_EVENT_TYPES",
    "GENERIC_EVENT_TYPE_FIELDS",
    "TARGET_INFO_GPU_METRICS",
)
OPTION = "GPU_METRICS_OPTIONS:GPU_"
CONTEXTS = "TARGET_INFO_CUDA_CONTEXT_INFO"


def metrics_to_first(sources: Sources, folder: Path) -> list[Path]:
    """Move the GPU metrics of all reports of a host into the first one's, as when one report a host samples all GPUs.

    Metrics name the physical GPU of their host (`typeId & 0xFF`), so they can only move to a report of the same host:
    with reports of two hosts, each host's first report has the metrics of that host. Times are converted by the
    session starts; the other reports lose the metric tables and the capture option.

    Truth: the same trace: each GPU's metrics row stays at the task that uses the GPU, with the same samples.
    """
    return _gather_metrics(sources, folder, 0)


def metrics_to_last(sources: Sources, folder: Path) -> list[Path]:
    """As `metrics_to_first`, with each host's last report."""
    return _gather_metrics(sources, folder, -1)


def two_contexts(sources: Sources, folder: Path) -> list[Path]:
    """Split the busiest stream of each report in two contexts of the process that use the same stream number.

    Every second kernel, copy, set or graph of that stream, in order of begin, gets a contextId that is new, described
    in the context and stream tables as the old one is. Synchronisation and event records stay.

    Truth: one more stream on the device, with the same stream number; both have half of the work (the old context the
    odd one more), together what the stream had; all else is unchanged.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        _split_context(report)
    return close(reports)


def _gather_metrics(sources: Sources, folder: Path, index: int) -> list[Path]:
    reports = open_copies(sources, folder)
    if not any(METRICS in report.tables() for report in reports):
        raise ValueError("none of these reports has GPU metrics")
    origin = dict(zip(reports, listed(sources), strict=True))
    for group in by_host(reports).values():
        target = group[index]
        for report in group:
            if report is not target and METRICS in report.tables():
                with Arrivals(target, origin[report]) as arrivals:
                    _bring_metrics(arrivals)
                _drop_metrics(report)
    return close(reports)


def _bring_metrics(arrivals: Arrivals) -> None:
    report = arrivals.report
    if METRICS in report.tables() and report.rows(
        "SELECT typeId FROM main.TARGET_INFO_GPU_METRICS INTERSECT SELECT typeId FROM other.TARGET_INFO_GPU_METRICS"
    ):
        raise ValueError("two of these reports sampled one GPU")
    for name in (*METRIC_DEFINITIONS, METRICS):
        if name in arrivals.tables:
            arrivals.bring(name)
    known = report.value(f"SELECT count(*) FROM main.META_DATA_CAPTURE WHERE name LIKE '{OPTION}%:ID'")
    report.run(
        f"INSERT INTO main.META_DATA_CAPTURE(name, value) SELECT '{OPTION}{known}' || substr(name, {len(OPTION) + 2}),"
        f" value FROM other.META_DATA_CAPTURE WHERE name LIKE '{OPTION}0:%'"
    )


def _drop_metrics(report: Report) -> None:
    """Remove the metrics and what only they needed."""
    report.drop(METRICS, "TARGET_INFO_GPU_METRICS")
    if "GENERIC_EVENTS" not in report.tables():
        report.drop(*METRIC_DEFINITIONS)
    report.run("DELETE FROM META_DATA_CAPTURE WHERE name LIKE 'GPU_METRICS_OPTIONS:%'")


def _split_context(report: Report) -> None:
    work = [name for name in DEVICE_WORK if name in report.tables()]
    if not work:
        raise ValueError(f"{report.path.name} has no work on a device")
    stream = "globalPid, deviceId, contextId, streamId"
    every = " UNION ALL ".join(f"SELECT {i} AS t, rowid AS r, start, {stream} FROM {n}" for i, n in enumerate(work))
    busiest = report.rows(f"SELECT {stream} FROM ({every}) GROUP BY 1, 2, 3, 4 ORDER BY count(*) DESC, 1, 2, 3, 4")[0]
    process, device, context, number = busiest
    report.run("CREATE TEMP TABLE chosen(t, r, PRIMARY KEY(t, r)) WITHOUT ROWID")
    report.run(
        "INSERT INTO chosen SELECT t, r FROM (SELECT t, r, row_number() OVER (ORDER BY start, t, r) AS k"
        f" FROM ({every}) WHERE ({stream}) = ({process}, {device}, {context}, {number})) WHERE k % 2 = 0"
    )
    new = 1 + max(report.value(f"SELECT max(contextId) FROM ({every})"), _highest_known_context(report))
    for index, name in enumerate(work):
        report.run(f"UPDATE {name} SET contextId = {new} WHERE rowid IN (SELECT r FROM chosen WHERE t = {index})")
    old = f"processId = {process >> 24 & 0xFFFFFF} AND contextId = {context}"
    _describe_context(report, CONTEXTS, new, old)
    _describe_context(report, "TARGET_INFO_CUDA_STREAM", new, f"{old} AND streamId = {number}")


def _highest_known_context(report: Report) -> int:
    known = CONTEXTS in report.tables()
    return int((known and report.value(f"SELECT max(contextId) FROM {CONTEXTS}")) or 0)


def _describe_context(report: Report, name: str, context: int, like: str) -> None:
    """Copy the rows of another context as rows of this one."""
    table = report.tables().get(name)
    if table:
        values = ", ".join(str(context) if column == "contextId" else f'"{column}"' for column in table.columns)
        report.run(f"INSERT INTO {name} SELECT {values} FROM {name} WHERE {like}")
