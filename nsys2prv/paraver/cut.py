"""Cutting a written trace to a span of time: one pass over its lines, block by block, in constant memory.

An interval that is open at the begin of the span begins there, with its attributes, and one that is open at its end
ends there. Memory holds one block and the open intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO

import polars as pl

from nsys2prv.errors import Nsys2prvError
from nsys2prv.model.event_types import EFFICIENCY_FACTOR, HELD_TYPES, NOTHING
from nsys2prv.paraver.lines import EVENT_RECORD, MESSAGE_RECORD, STATE_RECORD
from nsys2prv.paraver.records import MESSAGE_REST, RECORD_COLUMNS, pairs, records

# Bytes of text in one block.
BLOCK_BYTES = 1 << 23

_LINE = {c: pl.Int64() for c in RECORD_COLUMNS[:-1]} | {"rest": pl.String()}
_ROW = ("cpu", "application", "task", "thread")
# A row's events of one type nest: the last that began ends first.
_NEST = (*_ROW, "type")
_TYPED = {**_LINE, "type": pl.Int64(), "value": pl.Int64()}
_HELD = {**{c: pl.Int64() for c in _ROW}, "type": pl.Int64(), "value": pl.Int64()}
# Position of the time of arrival in the rest of a message's line.
_RECEIVED = MESSAGE_REST.index("received")


def text_blocks(source: IO[bytes]) -> Iterator[bytes]:
    """Yield the whole lines of a file, block by block."""
    left = b""
    while block := source.read(BLOCK_BYTES):
        whole, newline, after = block.rpartition(b"\n")
        if newline:
            yield left + whole + newline
            left = after
        else:
            left += block
    if left:
        yield left + b"\n"


@dataclass
class Cutter:
    """A writer of the part of a trace in [start, end), ns, as a body that begins at 0.

    An interval that the span meets is cut at its borders, a value that holds is repeated at its begin, and a message is
    kept when both of its ends are inside. Events that name the columns of tables stay at the begin. `split` counts
    messages that reach across a border, which are left out, `written` lines, `lines` those read. Comments are put
    aside.
    """

    start: int
    end: int
    sink: IO[bytes]
    lines: int = 0
    written: int = 0
    split: int = 0
    comments: list[str] = field(default_factory=list)
    _last: int = 0
    _begun: bool = False
    _ended: bool = False
    _open: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_TYPED))
    _held: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_HELD))
    _states: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_LINE))
    _columns: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_TYPED))

    def cut(self, blocks: Iterable[bytes]) -> None:
        """Write the part. Raises Nsys2prvError if the body is damaged or not sorted by time."""
        try:
            for block in blocks:
                self._feed(block)
            self._begin()
            self._write(self._with_columns(pl.DataFrame(schema=_LINE)))
            self._finish()
        except pl.exceptions.PolarsError as error:
            cause = str(error).splitlines()[0]
            raise self._no_record(f" ({cause})") from None

    def _feed(self, block: bytes) -> None:
        """Take in the next lines of the body: keep what lasts into the span, and write what lies in it."""
        block = self._without_comments(block)
        self.lines += block.count(b"\n")
        # After the end only comments matter.
        if self._ended or not block:
            return
        lines = self._without_column_names(self._records(block))
        early = pl.col("time") < self.start
        # At the begin of the span ends close earlier intervals, and samples hold from there on.
        at_start = (pl.col("time") == self.start) & (pl.col("kind") == EVENT_RECORD) & pl.lit(not self._begun)
        over = at_start & ((pl.col("value") == 0) | _is_held())
        before, rest = lines.filter(early | over), lines.filter(~(early | over))
        self._track(before)
        if rest.height:
            self._begin()
            inside = rest.filter(pl.col("time") < self.end)
            self._track(inside)
            self._write(self._with_columns(self._inside(inside)))
            if inside.height < rest.height:
                self._finish()

    def _without_comments(self, block: bytes) -> bytes:
        """Keep the comments among some lines, and return the others."""
        if b"\n#" not in block and not block.startswith(b"#"):
            return block
        texts = block.splitlines(keepends=True)
        self.comments += [text.decode(errors="replace") for text in texts if text.startswith(b"#")]
        return b"".join(text for text in texts if not text.startswith(b"#"))

    def _records(self, block: bytes) -> pl.DataFrame:
        """Return the columns of _TYPED of some lines. Raises Nsys2prvError where they are damaged or not sorted."""
        lines = records(block).with_columns(pl.exclude("rest").cast(pl.Int64))
        time = lines["time"]
        if time.null_count():
            raise self._no_record()
        if not time.is_sorted() or time[0] < self._last:
            raise Nsys2prvError("the body is not sorted by time, as nsys2prv writes it; sort it first")
        self._last = time[-1]
        typed = lines.with_columns(_first_pair())
        whole = pl.col("rest").is_not_null() & ((pl.col("kind") != EVENT_RECORD) | pl.col("value").is_not_null())
        if not typed.select((whole & pl.col("kind").is_in([STATE_RECORD, EVENT_RECORD, MESSAGE_RECORD])).all()).item():
            raise self._no_record()
        return typed

    def _without_column_names(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Keep the lines that name columns of tables, moved to the begin of the span, and return the others."""
        names = pl.col("type").is_in([EFFICIENCY_FACTOR.number, NOTHING.number]).fill_null(False)
        # None of them lasts beyond the end.
        ended = (pl.col("time") + (pl.col("value") != 0).cast(pl.Int64) + self.start) <= self.end
        shifted = lines.filter(names & ended).with_columns(pl.col("time") + self.start)
        self._columns = pl.concat([self._columns, shifted])
        return lines.filter(~names)

    def _no_record(self, cause: str = "") -> Nsys2prvError:
        return Nsys2prvError(f"up to line {self.lines + 1} there is what is no record{cause}; translate it again")

    def _track(self, lines: pl.DataFrame) -> None:
        """Keep the intervals that are open after these lines, and values and states if they are before the span."""
        events = lines.filter((pl.col("kind") == EVENT_RECORD) & ~_is_held())
        known = pl.concat([self._open, events]).with_columns(
            after=pl.when(pl.col("value") != 0).then(1).otherwise(-1).cum_sum().over(_NEST)
        )
        lowest = pl.col("after").reverse().cum_min().reverse().over(_NEST)
        self._open = known.filter((pl.col("value") != 0) & (lowest >= pl.col("after"))).drop("after")
        if self._begun:
            return
        held = pairs(lines.filter((pl.col("kind") == EVENT_RECORD) & _is_held()), *_ROW)
        self._held = pl.concat([self._held, held]).unique([*_ROW, "type"], keep="last", maintain_order=True)
        crossing = lines.filter((pl.col("kind") == STATE_RECORD) & (_end_of_state() > self.start)).select(
            RECORD_COLUMNS
        )
        self._states = pl.concat([self._states, crossing])
        self.split += lines.filter((pl.col("kind") == MESSAGE_RECORD) & (_received() >= self.start)).height

    def _begin(self) -> None:
        """Write everything that is under way when the span begins."""
        if self._begun:
            return
        self._begun = True
        at = pl.lit(self.start, pl.Int64).alias("time")
        values = (
            self._held.sort("task", "thread", "type")
            .group_by(_ROW, maintain_order=True)
            .agg(rest=pl.concat_str(["type", "value"], separator=":").str.join(":"))
            .with_columns(kind=pl.lit(EVENT_RECORD, pl.Int64), time=at)
        )
        begins = self._open.with_columns(at)
        self._write(self._inside(pl.concat([begins.select(RECORD_COLUMNS), values.select(RECORD_COLUMNS)])))
        self._write(self._inside(self._states.with_columns(at)))

    def _inside(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Return the lines of the span with states cut, and messages with both ends inside."""
        arrives = pl.col("received").is_between(self.start, self.end)
        numbered = lines.select(*RECORD_COLUMNS, received=_received()).with_row_index("order")
        kept = numbered.filter((pl.col("kind") != MESSAGE_RECORD) | arrives)
        self.split += lines.height - kept.height
        parts = kept.partition_by("kind", as_dict=True)
        for kind, rest in ((STATE_RECORD, self._state()), (MESSAGE_RECORD, self._message())):
            if (kind,) in parts:
                parts[kind,] = parts[kind,].with_columns(rest=rest)
        return pl.concat([kept.clear(), *parts.values()]).sort("order").select(RECORD_COLUMNS)

    def _with_columns(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Return the lines with those that name columns of tables, which are not written yet."""
        names, self._columns = self._columns, self._columns.clear()
        return pl.concat([names.select(RECORD_COLUMNS), lines.select(RECORD_COLUMNS)]).sort("time", maintain_order=True)

    def _state(self) -> pl.Expr:
        """Return the rest of a state's line: its end, cut, and the state."""
        end = _end_of_state().clip(upper_bound=self.end) - self.start
        return pl.concat_str([end, pl.col("rest").str.extract(r":(\d+)$")], separator=":")

    def _message(self) -> pl.Expr:
        """Return the rest of a message's line, with times counted from the begin of the span."""
        fields = pl.col("rest").str.splitn(":", len(MESSAGE_REST)).struct
        parts = [fields.field(f"field_{n}") for n in range(len(MESSAGE_REST))]
        for n in (0, _RECEIVED, _RECEIVED + 1):
            parts[n] = parts[n].cast(pl.Int64) - self.start
        return pl.concat_str(parts, separator=":")

    def _finish(self) -> None:
        """End everything that is open when the span ends."""
        if self._ended:
            return
        self._ended = True
        ends = self._open.reverse().with_columns(
            pl.lit(self.end, pl.Int64).alias("time"),
            rest=pl.col("rest").str.replace_all(r"(\d+):-?\d+", "${1}:0"),
        )
        self._write(ends)

    def _write(self, lines: pl.DataFrame) -> None:
        self.written += lines.height
        body = lines.select(RECORD_COLUMNS).with_columns(pl.col("time") - self.start)
        body.write_csv(self.sink, include_header=False, separator=":", quote_style="never", line_terminator="\n")


def _first_pair() -> list[pl.Expr]:
    """Return the first type and value of an event's line; null on other lines."""
    pair = pl.col("rest").str.splitn(":", 3).struct
    of_event = pl.when(pl.col("kind") == EVENT_RECORD)
    return [
        of_event.then(pair.field(f"field_{n}")).cast(pl.Int64).alias(name) for n, name in enumerate(("type", "value"))
    ]


def _is_held() -> pl.Expr:
    return pl.any_horizontal(pl.col("type").is_between(r.start, r.stop, closed="left") for r in HELD_TYPES).fill_null(
        False
    )


def _end_of_state() -> pl.Expr:
    return pl.col("rest").str.extract(r"^(\d+):").cast(pl.Int64)


def _received() -> pl.Expr:
    """Return the time at which a message arrived; null on other lines."""
    of_message = pl.when(pl.col("kind") == MESSAGE_RECORD).then("rest")
    return of_message.str.splitn(":", len(MESSAGE_REST)).struct.field(f"field_{_RECEIVED}").cast(pl.Int64)
