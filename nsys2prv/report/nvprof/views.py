"""The tables of an nsys export as SQL on the tables of nvprof: one declaration for each table.

nvprof keeps CUPTI's activity records: times in ns of UTC, numbers of calls instead of names, thread ids of 32 bits.
What takes more than a formula (names, threads, the process) is in the temporary table `looked_up`, which
`database.py` fills.

Sources: CUPTI's activity records (docs.nvidia.com/cupti) and files of versions 8, 11 and 12.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

PREFIX = "CUPTI_ACTIVITY_KIND_"
# Id of the text that stands for none.
NO_TEXT = 0
# Bits of MARKER.flags, and what a marker belongs to (objectKind).
INSTANT, BEGIN, END = 1, 2, 4
OF_PROCESS, OF_THREAD = 1, 2
# Kinds of UNIFIED_MEMORY_COUNTER that are drawn: migrations and page faults. Others are counted in a remark.
TO_DEVICE, TO_HOST, CPU_FAULT, GPU_FAULT, BETWEEN_DEVICES = 1, 2, 3, 4, 8
UNDRAWN_COUNTERS = {5: "thrashing", 6: "throttling", 7: "remote mapping"}


def looked_up(kind: str, key: str = "0") -> str:
    """Return the expression of a value that was looked up when the file was opened; NULL if there is none."""
    # The plus takes a column's affinity away, with which SQLite would not search the key.
    return f"(SELECT found.value FROM temp.looked_up AS found WHERE found.kind = '{kind}' AND found.key = +{key})"


def _time(column: str) -> str:
    """Return the expression of a time since the session start, an origin of our own; 0 stays: CUPTI has no time."""
    # In brackets, since SQLite takes a name in quotes for a text if there is no such column.
    name = f"[{column}]"
    return f"CASE WHEN {name} > 0 THEN {name} - {looked_up('origin')} ELSE {name} END"


def _text(column: str) -> str:
    return f"NULLIF({column}, {NO_TEXT})"


def _memory(column: str) -> str:
    """Return the expression of nsys' kind of memory, which is CUPTI's less one; 0 is unknown."""
    return f"NULLIF({column}, 0) - 1"


def _thread(column: str) -> str:
    """Return the expression of a globalTid: some versions write the id with a sign, others without."""
    return looked_up("thread", f"({column} & 4294967295)")


def _plain(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


def _number(column: str, kinds: Mapping[int, int]) -> str:
    return f"CASE {column} {' '.join(f'WHEN {kind} THEN {number}' for kind, number in kinds.items())} END"


_OWNER = (
    f"CASE objectKind WHEN {OF_PROCESS} THEN {looked_up('main thread')} "
    f"WHEN {OF_THREAD} THEN {looked_up('object', 'substr(objectId, 5, 4)')} END"
)
_PROCESS = {"globalPid": looked_up("process")}
_SPAN = {"start": _time("start"), "end": _time("end")}
_WORK = {**_SPAN, **_PROCESS, **_plain("deviceId contextId streamId correlationId")}
_KERNEL = {
    **_WORK,
    "shortName": looked_up("short name", "name"),
    "demangledName": looked_up("demangled", "name"),
    **_plain("registersPerThread gridX gridY gridZ blockX blockY blockZ"),
    **_plain("staticSharedMemory dynamicSharedMemory localMemoryPerThread"),
}
_COPY = {**_WORK, **_plain("bytes copyKind"), "srcKind": _memory("srcKind"), "dstKind": _memory("dstKind")}
_MIGRATION = {
    **_SPAN,
    **_PROCESS,
    "deviceId": f"CASE counterKind WHEN {TO_HOST} THEN srcId ELSE dstId END",
    **dict.fromkeys(("contextId", "streamId", "correlationId"), "0"),
    "bytes": "value",
    "copyKind": _number("counterKind", {TO_DEVICE: 11, TO_HOST: 12, BETWEEN_DEVICES: 13}),
    **dict.fromkeys(("srcKind", "dstKind"), "NULL"),
}
_CALL = {**_SPAN, "globalTid": _thread("threadId"), **_plain("correlationId returnValue")}
_OPENACC = {
    **_SPAN,
    "globalTid": _thread("cuThreadId"),
    "nameId": looked_up("openacc", "eventKind"),
    "lineNo": "lineNo",
    "srcFile": _text("srcFile"),
}
_OPENMP = {**_SPAN, "globalTid": _thread("cuThreadId"), "nameId": looked_up("openmp", "eventKind")}
_BLOCK = {**_PROCESS, **_plain("deviceId address bytes"), "memKind": _memory("memoryKind")}
_EVENT = {**_PROCESS, "deviceId": looked_up("device", "contextId"), **_plain("contextId correlationId")}
# No stream and no event are -1 in nvprof's files, and unsigned in those of nsys.
_EVENT |= {"streamId": "streamId & 4294967295"}
# The bytes of a uuid in hexadecimal digits: 8-4-4-4-12 of them.
_UUID = " || '-' || ".join(
    f"substr(lower(hex(uuid)), {first}, {digits})" for first, digits in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
)


class ViewRows(NamedTuple):
    """Rows of a table of nsys: nvprof's table, without PREFIX, its expressions by column of nsys, and a condition."""

    source: str
    columns: Mapping[str, str]
    where: str = "1"


VIEWS: dict[str, tuple[ViewRows, ...]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": tuple(ViewRows(t, _KERNEL) for t in ("CONCURRENT_KERNEL", "KERNEL", "CDP_KERNEL")),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        ViewRows("MEMCPY", _COPY),
        ViewRows("MEMCPY2", _COPY),
        ViewRows("UNIFIED_MEMORY_COUNTER", _MIGRATION, f"counterKind IN ({TO_DEVICE}, {TO_HOST}, {BETWEEN_DEVICES})"),
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (ViewRows("MEMSET", {**_WORK, "bytes": "bytes", "memKind": _memory("memoryKind")}),),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        ViewRows("RUNTIME", {**_CALL, "nameId": looked_up("runtime", "cbid")}),
        ViewRows("DRIVER", {**_CALL, "nameId": looked_up("driver", "cbid")}),
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (
        ViewRows("SYNCHRONIZATION", {**_SPAN, **_EVENT, "syncType": "type", "eventId": "cudaEventId & 4294967295"}),
    ),
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": (ViewRows("CUDA_EVENT", {**_EVENT, "eventId": "eventId"}),),
    "CUPTI_ACTIVITY_KIND_OVERHEAD": (
        ViewRows("OVERHEAD", {**_SPAN, "globalTid": _OWNER, "nameId": looked_up("overhead", "overheadKind")}),
    ),
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": (
        ViewRows(
            "UNIFIED_MEMORY_COUNTER",
            {"start": _time("start"), **_PROCESS, "CpuInstruction": "NULL"},
            f"counterKind = {CPU_FAULT}",
        ),
    ),
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": (
        ViewRows(
            "UNIFIED_MEMORY_COUNTER",
            {**_SPAN, **_PROCESS, "deviceId": "srcId", "numberOfPageFaults": "value", "faultAccessType": "flags"},
            f"counterKind = {GPU_FAULT}",
        ),
    ),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": (
        ViewRows("MEMORY", {"start": _time("start"), **_BLOCK, "memoryOperationType": "0"}),
        ViewRows("MEMORY", {"start": _time("end"), **_BLOCK, "memoryOperationType": "1"}, "end > 0"),
    ),
    "CUPTI_ACTIVITY_KIND_OPENACC_DATA": (
        ViewRows("OPENACC_DATA", {**_OPENACC, "bytes": "bytes", "varName": _text("varName")}),
    ),
    "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH": (
        ViewRows(
            "OPENACC_LAUNCH",
            {**_OPENACC, **_plain("numGangs numWorkers vectorLength"), "kernelName": _text("kernelName")},
        ),
    ),
    "CUPTI_ACTIVITY_KIND_OPENACC_OTHER": (ViewRows("OPENACC_OTHER", _OPENACC),),
    "OPENMP_EVENT_KIND_PARALLEL": (ViewRows("OPENMP", _OPENMP, "eventKind = 1"),),
    "OPENMP_EVENT_KIND_TASK": (ViewRows("OPENMP", _OPENMP, "eventKind = 2"),),
    "OPENMP_EVENT_KIND_THREAD": (ViewRows("OPENMP", _OPENMP, "eventKind NOT IN (1, 2, 5, 6)"),),
    "OPENMP_EVENT_KIND_SYNC_REGION_WAIT": (ViewRows("OPENMP", _OPENMP, "eventKind IN (5, 6)"),),
    "TARGET_INFO_GPU": (
        ViewRows(
            "DEVICE",
            {
                "id": "id",
                "smCount": "numMultiprocessors",
                "name": "(SELECT s.value FROM main.StringTable AS s WHERE s._id_ = name)",
                "uuid": _UUID,
            },
        ),
    ),
    "TARGET_INFO_CUDA_CONTEXT_INFO": (ViewRows("CONTEXT", {"processId": looked_up("pid"), "deviceId": "deviceId"}),),
}

# A marker's payload (MARKER_DATA.payload) is 8 bytes, little endian, which its payloadKind says how to read.
UNSIGNED, SIGNED, REAL = 1, 4, 0
_BITS = " | ".join(
    f"(instr('0123456789ABCDEF', substr(hex(payload), {2 * byte + 1 + low}, 1)) - 1 << {8 * byte + 4 * (1 - low)})"
    for byte in range(8)
    for low in (0, 1)
)
# IEEE 754: without a hidden bit at exponent 0; no number at the highest.
_DOUBLE = (
    "CASE WHEN bits >> 52 & 2047 < 2047 THEN (CASE WHEN bits < 0 THEN -1 ELSE 1 END) "
    "* ((bits & 4503599627370495) + (CASE WHEN bits >> 52 & 2047 > 0 THEN 4503599627370496 ELSE 0 END)) "
    "* pow(2.0, max(bits >> 52 & 2047, 1) - 1075) END"
)
# NVTX: a range is two markers of one id, its attributes are in MARKER_DATA, and a domain is a name on each marker.
# nvprof does not say which ranges were pushed. Those of a thread are taken for that; lanes hold any that cross.
# An end without a begin has no start, so that it is counted as dropped. Rows of type 75 name the domains.
_NVTX = f"""
SELECT row AS rowid, {_time("timestamp")} AS start, {_time("finish")} AS end,
    CASE WHEN flags & {INSTANT} THEN 34 WHEN objectKind = {OF_THREAD} THEN 59 ELSE 60 END AS eventType,
    NULL AS text, {_text("name")} AS textId, {_OWNER} AS globalTid, domain AS domainId, color, category,
    CASE payloadKind WHEN {UNSIGNED} THEN bits END AS uint64Value,
    CASE payloadKind WHEN {SIGNED} THEN bits END AS int64Value,
    CASE payloadKind WHEN {REAL} THEN {_DOUBLE} END AS doubleValue
FROM {{markers}}
LEFT JOIN (SELECT id AS ended, min(timestamp) AS finish FROM main.CUPTI_ACTIVITY_KIND_MARKER
    WHERE flags & {END} GROUP BY id) ON ended = id AND flags & {BEGIN}
LEFT JOIN (SELECT id AS described, min(color) AS color, category, payloadKind, {_BITS} AS bits
    FROM main.CUPTI_ACTIVITY_KIND_MARKER_DATA GROUP BY id) ON described = id
WHERE flags & {INSTANT | BEGIN}
UNION ALL
SELECT -row, NULL, {_time("timestamp")}, 59, NULL, NULL, {_OWNER}, domain, NULL, NULL, NULL, NULL, NULL
FROM {{markers}}
WHERE NOT flags & {INSTANT | BEGIN}
    AND id NOT IN (SELECT id FROM main.CUPTI_ACTIVITY_KIND_MARKER WHERE flags & {BEGIN})
UNION ALL
SELECT DISTINCT -(SELECT max(rowid) FROM main.CUPTI_ACTIVITY_KIND_MARKER) - domain, 1, NULL, 75, NULL, domain,
    {looked_up("main thread")}, domain, NULL, NULL, NULL, NULL, NULL
FROM {{markers}} WHERE domain <> {NO_TEXT} AND typeof(domain) = 'integer'
"""
# Tables that are not rows of one table of nvprof each.
QUERIES = {
    "StringIds": "SELECT rowid AS rowid, _id_ AS id, value FROM main.StringTable "
    "UNION ALL SELECT key, key, value FROM temp.looked_up WHERE kind = 'text'",
    "ThreadNames": "SELECT key AS rowid, key AS globalTid, value AS nameId FROM temp.looked_up "
    "WHERE kind = 'thread name'",
    "PROCESSES": f"SELECT 1 AS rowid, {looked_up('process')} AS globalPid, {looked_up('pid')} AS pid, "
    f"{looked_up('program')} AS name",
    "TARGET_INFO_SESSION_START_TIME": f"SELECT 1 AS rowid, {looked_up('origin')} AS utcEpochNs",
    "META_DATA_EXPORT": "SELECT 1 AS rowid, 'EXPORT_PRODUCT_NAME' AS name, 'nvprof' AS value "
    "UNION ALL SELECT 2, 'EXPORT_SCHEMA_VERSION', version FROM main.Version",
    "DIAGNOSTIC_EVENT": "SELECT key AS rowid, 2 AS severity, value AS text FROM temp.looked_up WHERE kind = 'remark'",
}
# Columns that older versions lack, with the value to assume. Domains came with version 9.
LATER = {
    "MARKER": {"domain": NO_TEXT},
    "MEMSET": {"memoryKind": 0},
    "UNIFIED_MEMORY_COUNTER": {"flags": 0},
}
# Tables that describe, or are read with others.
_DESCRIBING = (
    *("StringTable", "Version", "sqlite_sequence"),
    *(
        PREFIX + table
        for table in ("DEVICE_ATTRIBUTE", "NAME", "STREAM", "MARKER", "MARKER_DATA", "FUNCTION", "MODULE")
    ),
    *(PREFIX + table for table in ("SOURCE_LOCATOR", "PCIE", "NVLINK", "EXTERNAL_CORRELATION")),
)
COVERED = frozenset((*_DESCRIBING, *(PREFIX + rows.source for parts in VIEWS.values() for rows in parts)))


def create_views(columns: Mapping[str, Sequence[str]], filled: Collection[str]) -> Iterable[str]:
    """Return statements that create the views. `columns`: of nvprof's tables; `filled`: those that have rows."""
    yield from (f"CREATE TEMP VIEW {name} AS {query}" for name, query in QUERIES.items())
    if PREFIX + "MARKER" in filled:
        markers = _numbered("MARKER", columns)
        yield f"CREATE TEMP VIEW NVTX_EVENTS AS {_NVTX.format(markers=markers)}"
    for name, parts in VIEWS.items():
        selects, before = [], ""
        for rows in (rows for rows in parts if PREFIX + rows.source in filled):
            source = _numbered(rows.source, columns)
            listed = ", ".join(f"{expression} AS {column}" for column, expression in rows.columns.items())
            selects.append(f"SELECT row{before} AS rowid, {listed} FROM {source} WHERE {rows.where}")
            before += f" + (SELECT max(rowid) FROM main.{PREFIX}{rows.source})"
        if selects:
            yield f"CREATE TEMP VIEW {name} AS " + " UNION ALL ".join(selects)


def _numbered(source: str, columns: Mapping[str, Sequence[str]]) -> str:
    """Return a table of nvprof with its rowid as `row`, and the columns that its version lacks."""
    lacking = {c: value for c, value in LATER.get(source, {}).items() if c not in columns[PREFIX + source]}
    added = "".join(f", {value} AS {column}" for column, value in lacking.items())
    return f"(SELECT rowid AS row, *{added} FROM main.{PREFIX}{source})"
