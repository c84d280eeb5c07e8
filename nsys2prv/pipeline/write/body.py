"""The body of a trace: its windows are encoded here or by workers, and written in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import polars as pl

from nsys2prv.paraver.lines import write_lines
from nsys2prv.pipeline.encode.encode import Encoded, encode
from nsys2prv.pipeline.workers.maps import Map, map_ahead
from nsys2prv.pipeline.workers.partial_files import replacing
from nsys2prv.pipeline.write.files import append, open_body
from nsys2prv.pipeline.write.packing import Divider, Packed, batches, pack
from nsys2prv.run.plan import Plan
from nsys2prv.run.saved_plan import plan_at, save_plan

# Windows for each worker that are encoded before their lines are compressed.
BATCH_WINDOWS = 4


def write_windows(plan: Plan, sink: IO[bytes], folder: Path, mapped: Map[Any, Any], jobs: int) -> Iterator[Encoded]:
    """Write all windows of a plan, in order. `jobs`: how many workers `mapped` has; `folder`: where they put chunks."""
    numbers = range(len(plan.borders) - 1)
    if jobs == 1 or len(numbers) == 1:
        return _write_here(plan, sink, numbers)
    saved = folder / "plan"
    save_plan(plan, saved)
    if isinstance(sink, Packed):
        return _pack_chunks(saved, sink, mapped, numbers, BATCH_WINDOWS * jobs)
    return _append_chunks(saved, sink, mapped, numbers)


def _write_here(plan: Plan, sink: IO[bytes], numbers: Sequence[int]) -> Iterator[Encoded]:
    for lines, result in map_ahead(partial(encode, plan), numbers):
        _put(plan, lines, sink)
        yield result


def _append_chunks(saved: Path, sink: IO[bytes], mapped: Map[Any, Any], numbers: Sequence[int]) -> Iterator[Encoded]:
    for path, result in mapped(partial(_encode_chunk, saved), numbers):
        append(path, sink)
        yield result


def _pack_chunks(
    saved: Path, sink: Packed, mapped: Map[Any, Any], numbers: Sequence[int], together: int
) -> Iterator[Encoded]:
    """Encode some windows together, and while the next ones are encoded compress these: few chunks are on disk."""
    divider, kept = Divider(saved.parent), set[Path]()
    groups = batches(numbers, together)
    under_way = mapped(partial(_encode_chunk, saved), groups[0])
    for following in [*groups[1:], []]:
        encoded = list(under_way)
        under_way = mapped(partial(_encode_chunk, saved), following)
        chunks = [(path, result.lines) for path, result in encoded]
        for member in mapped(pack, divider.members(chunks, last=not following)):
            append(member, sink.file)
        waiting = divider.waiting()
        for path in (kept | {path for path, _ in chunks}) - waiting:
            path.unlink()
        kept = waiting
        yield from (result for _, result in encoded)


def _put(plan: Plan, lines: pl.DataFrame, sink: IO[bytes]) -> None:
    rows = plan.objects.rows
    write_lines(lines, rows.cpu, rows.task, rows.thread, sink)


def _encode_chunk(saved: Path, number: int) -> tuple[Path, Encoded]:
    """Encode one window into a file of its own."""
    path = saved.with_name(f"chunk{number}")
    plan = plan_at(saved)
    lines, result = encode(plan, number)
    with replacing(path) as beside, open_body(beside, compress=False) as sink:
        _put(plan, lines, sink)
    return path, result
