"""Reports that say something else of who ran, and where."""

from __future__ import annotations

import re
from pathlib import Path

from .report import Report, Sources, by_host, close, open_copies

QUIET_TABLES = ("OSRT_API", "SCHED_EVENTS", "COMPOSITE_EVENTS", "PROFILER_OVERHEAD", "ThreadNames")
RANK_VARIABLE = re.compile(
    r"^(RANK|LOCAL_RANK|GROUP_RANK|ROLE_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|FLUX_TASK_RANK"
    r"|(SLURM|OMPI|PMI|PMIX|MPI|MV2|PALS|JSM|ALPS)_\w+)$"
)
ENVIRONMENT = "name = 'DeviceEnvironment'"
CAPTURED_ENVIRONMENT = "name LIKE '%:ENVIRONMENT_VARIABLE'"


def equal_pids(sources: Sources, folder: Path) -> list[Path]:
    """Give the k-th report of every host the pid, and as far as there are as many the tids, of the first host's k-th.

    Main threads are equal to main threads, then the threads with calls or ranges of their own to such threads in order
    of tid, then the rest. All tables are relabelled alike, also plain pid columns and the pid in stream file names.

    Truth: only host name, session start and numbers like GPU ids tell the processes apart; the trace is the sources'
    trace but for pids and tids in labels, and the order of a task's threads where that is by tid.
    """
    reports = open_copies(sources, folder)
    hosts = list(by_host(reports).values())
    if len(hosts) < 2:
        raise ValueError("these reports are all of one host")
    for others in hosts[1:]:
        for model, report in zip(hosts[0], others, strict=False):
            _take_identity(report, model)
    return close(reports)


def in_containers(sources: Sources, folder: Path, name: str = "box") -> list[Path]:
    """As containers show themselves: every host is called alike, and every process is number 1, as is its main thread.

    Truth: the sources' trace but for names of hosts, pids and tids of main threads in labels, and the order
    of tasks without a rank. Hosts with other GPUs at the same bus location stay apart.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        process = report.process
        base, pid = process >> 48 << 48 | 1 << 24, process >> 24 & 0xFFFFFF
        tids = (number & 0xFFFFFF for number in thread_ids(report, process))
        numbers = {process & ~0xFFFFFF | tid: base | (1 if tid == pid else tid) for tid in tids}
        relabel(report, {process: base, **numbers}, {pid: 1})
        report.run("UPDATE TARGET_INFO_SYSTEM_ENV SET value = :name WHERE name = 'Hostname'", name=name)
        report.run("UPDATE META_DATA_CAPTURE SET value = :name WHERE name = 'DEVICE_DISPLAY_NAME'", name=name)
    return close(reports)


def hosts_swapped(sources: Sources, folder: Path) -> list[Path]:
    """Exchange the names of two hosts in all their reports: host name, display name and environment values.

    Truth: the same trace with the two node names exchanged; a rank that was on one host is on the other, and so is its
    GPU. Ranks and node numbers in the environment stay.
    """
    reports = open_copies(sources, folder)
    names = list(by_host(reports))
    if len(names) != 2:
        raise ValueError(f"these reports are of {len(names)} hosts, not two")
    other = {names[0]: names[1], names[1]: names[0]}
    word = re.compile(r"(?<![\w.-])(" + "|".join(map(re.escape, names)) + r")(?![\w.-])")
    for report in reports:
        report.function("swapped", 1, lambda text: word.sub(lambda found: other[found[0]], text))
        report.run(f"UPDATE TARGET_INFO_SYSTEM_ENV SET value = swapped(value) WHERE name = 'Hostname' OR {ENVIRONMENT}")
        report.run(
            "UPDATE META_DATA_CAPTURE SET value = swapped(value)"
            f" WHERE name = 'DEVICE_DISPLAY_NAME' OR {CAPTURED_ENVIRONMENT}"
        )
    return close(reports)


def without_rank_env(sources: Sources, folder: Path, mpi_ranks: bool = False) -> list[Path]:
    """Remove RANK, WORLD_SIZE, SLURM_*, OMPI_*, PMI_* and their kind from the environments; MPI_RANKS too on request.

    Truth: the events are untouched; a rank can only come from MPI_RANKS (if kept), the NCCL payload, the file name or
    the order of host and pid.
    """
    reports = open_copies(sources, folder)
    for report in reports:
        report.function("ranks_removed", 1, _without_rank_variables)
        report.function("is_rank", 1, lambda text: bool(RANK_VARIABLE.match(text.partition("=")[0])))
        report.run(f"UPDATE TARGET_INFO_SYSTEM_ENV SET value = ranks_removed(value) WHERE {ENVIRONMENT}")
        report.run(f"DELETE FROM META_DATA_CAPTURE WHERE {CAPTURED_ENVIRONMENT} AND is_rank(value)")
        if mpi_ranks:
            report.drop("MPI_RANKS")
    return close(reports)


def _without_rank_variables(environment: str) -> str:
    kept = [entry for entry in environment.split(";") if not RANK_VARIABLE.match(entry.partition("=")[0])]
    return ";".join(kept)


def thread_ids(report: Report, process: int, schema: str = "main") -> list[int]:
    """The globalTids of a process: main thread first, then those with calls or ranges of their own, then by tid."""
    busy: dict[int, bool] = {}
    for table in report.tables(schema).values():
        for column in table.global_ids:
            found = f'SELECT DISTINCT "{column}" FROM {schema}."{table.name}" WHERE "{column}" >> 24 = :pid'
            for (number,) in report.rows(found, pid=process >> 24):
                if number & 0xFFFFFF:
                    busy[number] = busy.get(number, False) or table.name not in QUIET_TABLES
    pid = process >> 24 & 0xFFFFFF
    return sorted(busy, key=lambda number: (number & 0xFFFFFF != pid, not busy[number], number))


def relabel(report: Report, numbers: dict[int, int], pids: dict[int, int]) -> None:
    """Replace global ids and plain pids in every table that has them."""
    for name, mapping in (("new_ids", numbers), ("new_pids", pids)):
        report.run(f"CREATE TEMP TABLE {name}(old INTEGER PRIMARY KEY, new INTEGER)")
        report.connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", mapping.items())
    for table in report.tables().values():
        for mapping_name, columns in (("new_ids", table.global_ids), ("new_pids", table.plain_pids)):
            for column in columns:
                report.run(
                    f'UPDATE "{table.name}" SET "{column}" = (SELECT new FROM {mapping_name} WHERE old = "{column}")'
                    f' WHERE "{column}" IN (SELECT old FROM {mapping_name})'
                )


def _take_identity(report: Report, model: Report) -> None:
    process, wanted = report.process, model.process
    mine, theirs = thread_ids(report, process), [number & 0xFFFFFF for number in thread_ids(model, wanted)]
    unused = max(theirs + [number & 0xFFFFFF for number in mine], default=0) + 1
    tids = theirs + list(range(unused, unused + len(mine)))
    base = process >> 48 << 48 | wanted & 0xFFFFFF << 24
    old, new = process >> 24 & 0xFFFFFF, wanted >> 24 & 0xFFFFFF
    numbers = {number: base | tid for number, tid in zip(mine, tids, strict=False)}
    relabel(report, {process: base, **numbers}, {old: new})
    for table, column in (("StringIds", "value"), ("ANALYSIS_FILE", "filename"), ("DIAGNOSTIC_EVENT", "text")):
        if table in report.tables():
            report.run(
                f"UPDATE {table} SET {column} = replace({column}, :old, :new) WHERE instr({column}, :old)",
                old=f"/pid_{old}_",
                new=f"/pid_{new}_",
            )
