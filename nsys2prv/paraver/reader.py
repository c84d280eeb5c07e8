"""Reader of our own traces: records as frames, labels as in the PCF and ROW."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from nsys2prv.errors import Nsys2prvError
from nsys2prv.model.pandas_frame import to_pandas
from nsys2prv.paraver.lines import EVENT_RECORD, MESSAGE_RECORD, STATE_RECORD
from nsys2prv.paraver.records import MESSAGE_REST, pairs, records

if TYPE_CHECKING:
    import pandas as pd


_HEADER = re.compile(r"#Paraver \(([^)]*)\):(\d+)_ns:(\d+)\(([\d,]*)\):1:(\d+)\((\d+:\d+(?:,\d+:\d+)*)\),\d+$")


class Header(NamedTuple):
    """The first line of a trace: duration (ns), CPUs of each node, and (threads, node) of each task."""

    date: str
    duration: int
    cpus: tuple[int, ...]
    tasks: tuple[tuple[int, int], ...]


class Trace(NamedTuple):
    """A trace in memory. Times in ns; objects are numbered from 1 as in the file.

    `events`: line, cpu, task, thread, time, type, value, scaled, in the file's order, one row a pair; `messages`: cpu,
    task, thread, sent, to_cpu, to_task, to_thread, received, size, tag; `states`: cpu, task, thread, begin, end, state.
    `value` is the integer of the file; `scaled` is in the unit of the type's label: value times 10**-precision.
    `types`: event type -> label; `values`: event type -> value -> label; `names`: level (CPU, NODE, APPL, TASK,
    THREAD) -> names.
    """

    header: Header
    events: pl.DataFrame
    messages: pl.DataFrame
    states: pl.DataFrame
    types: Mapping[int, str]
    values: Mapping[int, Mapping[int, str]]
    names: Mapping[str, tuple[str, ...]]
    # Decimal places of the values of event types; those without one have none.
    precision: Mapping[int, int] = {}

    def intervals(self, event_type: int) -> pl.DataFrame:
        """Return the intervals of one event type: task, thread, start, end, value, scaled, label.

        `scaled` is the value in the unit of the type's label. Events on a row nest: the last that began ends first.
        """
        points = self.events.filter(pl.col("type") == event_type).with_row_index("order")
        step = pl.when(pl.col("value") != 0).then(1).otherwise(-1)
        row = ["task", "thread"]
        depth = step.cum_sum().over(row) - (pl.col("value") != 0).cast(pl.Int32)
        nested = points.with_columns(depth=depth, begins=pl.col("value") != 0)
        ends = nested.with_columns(end=pl.col("time").shift(-1).over([*row, "depth"], order_by="order"))
        labels = dict(self.values.get(event_type, {}))
        return (
            ends.filter("begins")
            .sort("order")
            .select(
                "task",
                "thread",
                start="time",
                end="end",
                value="value",
                scaled="scaled",
                label=pl.col("value").replace_strict(labels, default=None, return_dtype=pl.String),
            )
        )

    def to_pandas(self) -> dict[str, pd.DataFrame]:
        """Return events, messages and states, by these names, as pandas frames with the same columns."""
        return {name: to_pandas(getattr(self, name)) for name in ("events", "messages", "states")}


def read_prv(path: Path | str) -> Trace:
    """Read OUT.prv or OUT.prv.gz with the .pcf and .row beside it. Raises Nsys2prvError."""
    path = Path(path)
    head, _, body = _content(path).partition(b"\n")
    header = read_header(path, head.decode(errors="replace"))
    labels = _labels(_beside(path, ".pcf"))
    try:
        lines = _lines(body)
        if lines["rest"].null_count():
            raise Nsys2prvError(f"{path}: among the lines is what is no record (one is cut short); translate again")
        return Trace(
            header=header,
            events=_scaled(
                pairs(lines.filter(pl.col("kind") == str(EVENT_RECORD)), "line", "cpu", "task", "thread", "time"),
                labels.precision,
            ),
            messages=_messages(lines.filter(pl.col("kind") == str(MESSAGE_RECORD))),
            states=_states(lines.filter(pl.col("kind") == str(STATE_RECORD))),
            types=labels.types,
            values=labels.values,
            names=_row(_beside(path, ".row")),
            precision=labels.precision,
        )
    except pl.exceptions.PolarsError as error:
        cause = str(error).splitlines()[0]
        raise Nsys2prvError(f"{path}: among the lines is what is no record ({cause}); translate again") from None


def _content(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Nsys2prvError(f"{path}: the compressed file is damaged ({error}); copy it again") from None
    except OSError as error:
        raise Nsys2prvError(f"{path}: cannot be read ({error.strerror}); check the path") from None


def _beside(path: Path, ending: str) -> list[str]:
    file = path.with_name(path.name.removesuffix(".gz").removesuffix(".prv") + ending)
    return text_beside(file).split("\n") if file.is_file() else []


def text_beside(file: Path) -> str:
    """Read the labels (.pcf) or the names (.row) of a trace. Raises Nsys2prvError."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise Nsys2prvError(f"{file}: cannot be read: {cause}; copy it again, or do without it") from None


def read_header(path: Path, line: str) -> Header:
    """Parse the first line of one of our traces. Raises Nsys2prvError."""
    match = _HEADER.match(line.rstrip("\n"))
    if match is None:
        raise Nsys2prvError(f"{path}: the first line is not that of a trace of ours; give a .prv that nsys2prv wrote")
    cpus = tuple(int(n) for n in match[4].split(",") if n)
    tasks = tuple((int(t), int(n)) for t, n in (task.split(":") for task in match[6].split(",")))
    return Header(match[1], int(match[2]), cpus, tasks)


def _lines(body: bytes) -> pl.DataFrame:
    """Return one row for each record, its common fields split off, without comments."""
    found = records(body).filter(~pl.col("kind").str.starts_with("#"))
    return found.with_columns(pl.col("cpu", "task", "thread", "time").cast(pl.Int64)).with_row_index("line")


def _messages(lines: pl.DataFrame) -> pl.DataFrame:
    rest = pl.col("rest").str.splitn(":", len(MESSAGE_REST)).struct.rename_fields(list(MESSAGE_REST))
    split = lines.select("cpu", "task", "thread", sent="time", rest=rest).unnest("rest")
    return split.select(
        "cpu",
        "task",
        "thread",
        "sent",
        pl.col("to_cpu", "to_task", "to_thread", "received", "size", "tag").cast(pl.Int64),
    )


def _states(lines: pl.DataFrame) -> pl.DataFrame:
    rest = pl.col("rest").str.splitn(":", 2).struct.rename_fields(["end", "state"])
    split = lines.select("cpu", "task", "thread", begin="time", rest=rest).unnest("rest")
    return split.with_columns(pl.col("end", "state").cast(pl.Int64))


def _scaled(events: pl.DataFrame, precision: Mapping[int, int]) -> pl.DataFrame:
    """Add `scaled`: values in the units of their types' labels."""
    divisors = {event_type: 10.0**decimals for event_type, decimals in precision.items()}
    divisor = pl.col("type").replace_strict(divisors, default=1.0, return_dtype=pl.Float64) if divisors else 1.0
    return events.with_columns(scaled=pl.col("value") / divisor)


class _Labels(NamedTuple):
    """The event types of a PCF by number: their labels, the labels of the values of each, and decimal places."""

    types: dict[int, str]
    values: dict[int, dict[int, str]]
    precision: dict[int, int]


def _labels(lines: list[str]) -> _Labels:
    """Return the labels in the lines of a PCF."""
    found = _Labels({}, {}, {})
    current: list[int] = []
    section = ""
    for line in lines:
        text = line.strip()
        if text in ("EVENT_TYPE", "VALUES", "STATES", "STATES_COLOR", "DEFAULT_OPTIONS", "DEFAULT_SEMANTIC"):
            section, current = text, current if text == "VALUES" else []
        elif section == "EVENT_TYPE" and (match := re.match(r"\d+\s+(\d+)\s+(.*)", text)):
            found.types[int(match[1])] = match[2]
            current.append(int(match[1]))
        elif section == "EVENT_TYPE" and (match := re.match(r"PRECISION\s+(\d+)", text)):
            found.precision.update(dict.fromkeys(current, int(match[1])))
        elif section == "VALUES" and (match := re.match(r"(-?\d+)\s+(.*)", text)):
            for number in current:
                found.values.setdefault(number, {})[int(match[1])] = match[2]
    return found


def _row(lines: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of the objects by level."""
    names = {}
    rest = iter(lines)
    for line in rest:
        if match := re.match(r"LEVEL (\w+) SIZE (\d+)", line):
            # Names follow, even one that looks like the begin of a level.
            names[match[1]] = tuple(islice(rest, int(match[2])))
    return names
