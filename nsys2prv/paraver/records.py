"""Records of a PRV body, read into columns."""

from __future__ import annotations

import io

import polars as pl

# Fields of every record; `rest` differs by kind.
RECORD_COLUMNS = ("kind", "cpu", "application", "task", "thread", "time", "rest")
# The rest of a message's record.
MESSAGE_REST = (
    "sent_again",
    "to_cpu",
    "to_application",
    "to_task",
    "to_thread",
    "received",
    "received_again",
    "size",
    "tag",
)


def records(body: bytes) -> pl.DataFrame:
    """Split the lines of a body into the texts of RECORD_COLUMNS; null where a line is shorter."""
    text = pl.read_csv(
        # With a header, since Polars refuses a text without lines.
        io.BytesIO(b"line\n" + body),
        separator="\x01",
        quote_char=None,
        infer_schema=False,
        truncate_ragged_lines=True,
    )
    return text.select(
        pl.col("line").str.splitn(":", len(RECORD_COLUMNS)).struct.rename_fields(list(RECORD_COLUMNS))
    ).unnest("line")


def pairs(lines: pl.DataFrame, *kept: str) -> pl.DataFrame:
    """Return one row for each type and value of events' records, in order, with the columns that are kept."""
    numbers = pl.col("rest").str.split(":").cast(pl.List(pl.Int64))
    every = lines.select(*kept, type=numbers.list.gather_every(2), value=numbers.list.gather_every(2, 1))
    return every.explode("type", "value")
