"""The body of a trace: its windows are encoded here or by workers, and written in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from nsys2prv.paraver.lines import write_lines
from nsys2prv.pipeline.encode.encode import WindowCounts, encode
from nsys2prv.pipeline.encode.encoding_input import EncodingInput
from nsys2prv.pipeline.store.saved_plan import read_saved
from nsys2prv.pipeline.workers.maps import Map, Workers, map_ahead
from nsys2prv.pipeline.workers.partial_files import replacing
from nsys2prv.pipeline.write.files import append, open_body
from nsys2prv.pipeline.write.packing import Divider, Packed, pack, successive_groups


def write_windows(encoding: EncodingInput, sink: IO[bytes], workers: Workers) -> Iterator[WindowCounts]:
    """Write all windows in order, encoded here or by workers."""
    if workers.count == 1 or len(encoding.windows) == 1:
        return _write_here(encoding, sink)
    saved = workers.folder / "plan"
    encoding.save(saved)
    if isinstance(sink, Packed):
        return _pack_chunks(saved, sink, workers, encoding.windows)
    return _append_chunks(saved, sink, workers.map, encoding.windows)


def _write_here(encoding: EncodingInput, sink: IO[bytes]) -> Iterator[WindowCounts]:
    for lines, result in map_ahead(partial(encode, encoding), encoding.windows):
        write_lines(lines, encoding.plan.objects.rows.numbers, sink)
        yield result


def _append_chunks(
    saved: Path, sink: IO[bytes], mapped: Map[Any, Any], numbers: Sequence[int]
) -> Iterator[WindowCounts]:
    for path, result in mapped(partial(_encode_chunk, saved), numbers):
        append(path, sink)
        yield result


def _pack_chunks(saved: Path, sink: Packed, workers: Workers, numbers: Sequence[int]) -> Iterator[WindowCounts]:
    """Encode a few windows at a time, and compress them while the next are encoded: few chunks are on disk."""
    divider, kept = Divider(saved.parent, workers.limits.member_lines), set[Path]()
    groups = successive_groups(numbers, workers.limits.chunk_windows * workers.count)
    under_way = workers.map(partial(_encode_chunk, saved), groups[0])
    for following in [*groups[1:], []]:
        encoded = list(under_way)
        under_way = workers.map(partial(_encode_chunk, saved), following)
        chunks = [(path, result.lines) for path, result in encoded]
        for member in workers.map(pack, divider.members(chunks, last=not following)):
            append(member, sink.file)
        waiting = divider.waiting()
        for path in (kept | {path for path, _ in chunks}) - waiting:
            path.unlink()
        kept = waiting
        yield from (result for _, result in encoded)


def _encode_chunk(saved: Path, number: int) -> tuple[Path, WindowCounts]:
    """Encode one window into a file of its own."""
    path = saved.with_name(f"chunk{number}")
    encoding: EncodingInput = read_saved(saved)
    lines, result = encode(encoding, number)
    with replacing(path) as beside, open_body(beside) as sink:
        write_lines(lines, encoding.plan.objects.rows.numbers, sink)
    return path, result
