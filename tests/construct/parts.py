"""One report made into two, or into a longer one."""

from __future__ import annotations

from pathlib import Path

from .idspaces import OF_ONE_TURN, moved, steps
from .report import CALLS, DEVICE_WORK, SAMPLE_CHAINS, Report, Sources, Table, close, listed, open_copies, open_copy


def cut_in_two(
    sources: Sources, folder: Path, at_fraction: float = 0.5, quiet: bool = True, whole_launches: bool = True
) -> list[Path]:
    """Cut each report into two reports of one process, as `--capture-range-end=repeat` leaves: NAME.1 and NAME.2.

    The cut lies where this fraction of the launches (of the host calls and ranges, without a device) has begun; with
    `quiet`, at the nearest instant at which no call and no range of a host thread is open, if there is one that leaves
    a fair part of them on both sides. A row of every event table is wholly in the part in which it begins; with
    `whole_launches`, what the device did goes with the API call that caused it (as the profiler flushes), whenever it
    ran; rows that name no call of the report go by their own begin. Both parts keep all definitions, NVTX domain and
    thread names too. The second part has its own session start: `utcEpochNs` is later by the cut instant, and all its
    times are less by as much.

    Truth: on the wall clock nothing changed and no row is in both parts, so translating the two gives the trace of the
    uncut report. Where the cut is not quiet, ranges and calls around it lie in the first part and what they enclose in
    the second; without `whole_launches`, kernels lie in another report than their launch: then the union holds as well,
    but relations reach over the two reports.
    """
    parts = []
    for source in listed(sources):
        with open_copy(source, folder, f"{source.stem}.1{source.suffix}") as first:
            instant = _cut_instant(first, at_fraction, quiet)
            _delete_part(first, ">=", instant, whole_launches)
            _set_capture_range(first, 0, instant)
            parts.append(first.path)
        with open_copy(source, folder, f"{source.stem}.2{source.suffix}") as second:
            _delete_part(second, "<", instant, whole_launches)
            _restart(second, instant)
            parts.append(second.path)
    return parts


def repeated(sources: Sources, folder: Path, n: int = 3, period_ns: int | None = None) -> list[Path]:
    """Make the run n times as long: every event again after one period, two periods, ...

    The period is the same for all reports of one call; if none is given it is 1 ns more than their events span on the
    wall clock, so that turns do not overlap. Correlation ids, start/end range ids, graph and sample ids are new in each
    turn; definitions are not repeated.

    Truth: n times the rows and the summed durations of each event table; row k of turn j begins j periods later; each
    turn holds the relations of the first. Resource ids that a run reuses anyway (events, requests) are reused.
    """
    reports = open_copies(sources, folder)
    if period_ns is None:
        spans = [_event_span(report) for report in reports]
        period_ns = max(high for _, high in spans) - min(low for low, _ in spans) + 1
    for report in reports:
        _repeat(report, n, period_ns)
    return close(reports)


def _cut_instant(report: Report, fraction: float, quiet: bool) -> int:
    """The nominal instant, moved into the nearest gap between host calls and ranges that leaves work on both sides."""
    begins = _launches(report)
    low, nominal, high = (
        begins[min(int(len(begins) * place), len(begins) - 1)] for place in (fraction / 4, fraction, (3 + fraction) / 4)
    )
    so_far = "max(e) OVER (ORDER BY b, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    gap = report.rows(
        f"SELECT reach, b FROM (SELECT b, {so_far} AS reach FROM ({_host_intervals(report)}))"
        " WHERE reach <= b AND b > :low AND reach <= :high"
        " ORDER BY max(reach - :nominal, :nominal - b, 0), b LIMIT 1",
        low=low,
        nominal=nominal,
        high=high,
    )
    if not quiet or not gap:
        return nominal
    reached, begin = int(gap[0][0]), int(gap[0][1])
    return min(max(nominal, reached), begin)


def _launches(report: Report) -> list[int]:
    """The begins, in order, of the calls that gave the device work; without such, of that work or of host intervals."""
    tables = report.tables()
    work = [name for name in DEVICE_WORK if name in tables]
    began = [f"SELECT start AS b FROM {name}" for name in work]
    called = f"SELECT start AS b FROM {CALLS} WHERE correlationId IN ({{}})"
    caused = " UNION ".join(f"SELECT correlationId FROM {name}" for name in work)
    choices = [called.format(caused)] if work and CALLS in tables else []
    choices += [" UNION ALL ".join(began)] if work else []
    for choice in (*choices, _host_intervals(report)):
        if begins := [int(begin) for (begin,) in report.rows(f"SELECT b FROM ({choice}) ORDER BY b")]:
            return begins
    raise ValueError(f"{report.path.name} has nothing to cut")


def _host_intervals(report: Report) -> str:
    """The SQL query of begins b and ends e of all calls and ranges on host threads."""
    select = 'SELECT start AS b, "end" AS e FROM "{}" WHERE "end" IS NOT NULL AND {}'
    tables = [table for table in report.tables().values() if table.is_host_interval]
    return " UNION ALL ".join([*(select.format(table.name, table.activity) for table in tables), "SELECT 0, 0 WHERE 0"])


def _delete_part(report: Report, side: str, instant: int, whole_launches: bool) -> None:
    """Delete the events whose moment compares so with the instant."""
    tables = report.tables()
    whole = whole_launches and CALLS in tables
    if whole:
        report.run(
            "CREATE TEMP TABLE calls(pid INTEGER, id INTEGER, start INTEGER, PRIMARY KEY(pid, id)) WITHOUT ROWID"
        )
        report.run(
            "INSERT INTO calls SELECT globalTid >> 24, correlationId, min(start)"
            f" FROM {CALLS} WHERE correlationId IS NOT NULL GROUP BY 1, 2"
        )
    for table in tables.values():
        if table.is_event:
            moment = _moment(table, whole)
            report.run(f'DELETE FROM "{table.name}" WHERE {table.activity} AND {moment} {side} :cut', cut=instant)
    if SAMPLE_CHAINS in tables:
        report.run(f"DELETE FROM {SAMPLE_CHAINS} WHERE id NOT IN (SELECT id FROM COMPOSITE_EVENTS)")


def _moment(table: Table, whole_launches: bool) -> str:
    """The time by which a row belongs to a part: its call's begin, else its own, else the first part."""
    own = f'"{table.begin}"' if table.begin else ":cut - 1"
    if not (whole_launches and table.caused_by_call):
        return own
    call = 'SELECT c.start FROM calls c WHERE c.pid = "{0}".globalPid >> 24 AND c.id = "{0}".correlationId'
    return f"coalesce(({call.format(table.name)}), {own})"


def _restart(report: Report, instant: int) -> None:
    """Let the session start at the instant."""
    report.change_times(lambda time: f"{time} - :by", by=instant)
    report.move_session_start(instant)
    if "systemClockNs" in report.tables()["TARGET_INFO_SESSION_START_TIME"].columns:
        report.run("UPDATE TARGET_INFO_SESSION_START_TIME SET systemClockNs = systemClockNs + :by", by=instant)
    _set_capture_range(report, instant, None)


def _set_capture_range(report: Report, begin: int, end: int | None) -> None:
    """Say in ANALYSIS_DETAILS that the capture ran from and to these times of the whole one."""
    if "ANALYSIS_DETAILS" in report.tables():
        report.run(
            "UPDATE ANALYSIS_DETAILS SET duration = max(coalesce(:end, duration) - :begin, 0),"
            " startTime = startTime + :begin, stopTime = startTime + max(coalesce(:end, duration), :begin)",
            begin=begin,
            end=end,
        )


def _event_span(report: Report) -> tuple[int, int]:
    """The first begin and the last end of all events on the wall clock."""
    low, high = [], []
    for table in report.events:
        if table.begin:
            last = 'coalesce(max(start, "end"), start)' if "end" in table.columns else f'"{table.begin}"'
            found = f'SELECT min("{table.begin}"), max({last}) FROM "{table.name}" WHERE {table.activity}'
            first, end = report.rows(found)[0]
            low += [first] if first is not None else []
            high += [end] if end is not None else []
    return min(low) + report.utc, max(high) + report.utc


def _repeat(report: Report, n: int, period: int) -> None:
    by = steps(report, OF_ONE_TURN)
    turns = "WITH RECURSIVE turns(k) AS (SELECT 1 WHERE :n > 1 UNION ALL SELECT k + 1 FROM turns WHERE k < :n - 1)"
    for table in report.tables().values():
        if not table.is_event and table.name != SAMPLE_CHAINS:
            continue
        terms = {column: f'"{column}"' for column in table.columns}
        terms.update({time: f'"{time}" + :period * k' for time in table.times})
        terms.update(moved(table, by, "k"))
        names = ", ".join(f'"{column}"' for column in terms)
        report.run(
            f'INSERT INTO "{table.name}" ({names}) {turns} SELECT {", ".join(terms.values())}'
            f' FROM turns CROSS JOIN "{table.name}" WHERE {table.activity}',
            n=n,
            period=period,
        )
    if "ANALYSIS_DETAILS" in report.tables():
        report.run(
            "UPDATE ANALYSIS_DETAILS SET duration = duration + :more, stopTime = stopTime + :more",
            more=period * (n - 1),
        )
