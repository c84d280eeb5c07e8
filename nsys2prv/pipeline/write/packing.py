"""gzip output: members end at fixed numbers of lines, so that all processes compress to the same bytes.

Paraver and every other reader of gzip take the members as one file. A member can be compressed anywhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt

from nsys2prv.errors import output_not_written
from nsys2prv.pipeline.workers.partial_files import reading, replacing

_LEVEL = 6
# zlib's number for a gzip header, which then has no time and no name.
_GZIP_HEADER = 31


class Packed:
    """A file of lines, compressed in members of `member_lines` lines. `end` closes the present member."""

    def __init__(self, file: IO[bytes], member_lines: int) -> None:
        self.file, self.member_lines = file, member_lines
        self._lines = 0
        self._member: zlib._Compress | None = None

    def write(self, data: bytes | memoryview) -> int:
        """Take in text, and write complete members to the file."""
        view = memoryview(data)
        ends, done = _line_ends(view), 0
        while self._lines + len(ends) >= self.member_lines:
            missing = self.member_lines - self._lines
            self._compress(view[done : int(ends[missing - 1])])
            done, ends = int(ends[missing - 1]), ends[missing:]
            self.end()
        self._lines += len(ends)
        if done < len(view):
            self._compress(view[done:])
        return len(view)

    def flush(self) -> None:
        """Do nothing: a member is written when it ends."""

    def end(self) -> None:
        """Close the member under way: the next line begins another."""
        if self._member is not None:
            self.file.write(self._member.flush())
        self._lines, self._member = 0, None

    def _compress(self, text: memoryview) -> None:
        self._member = self._member or zlib.compressobj(_LEVEL, wbits=_GZIP_HEADER)
        self.file.write(self._member.compress(text))


class LineRange(NamedTuple):
    """Successive lines of a text file: `lines` lines from line `first` (0-based) on."""

    path: Path
    first: int
    lines: int


class Member(NamedTuple):
    """The lines of one member, and the file for it."""

    path: Path
    ranges: tuple[LineRange, ...]


def pack(member: Member) -> Path:
    """Compress one member into its file. Runs anywhere. Raises Nsys2prvError."""
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP_HEADER)
    try:
        with replacing(member.path) as beside, beside.open("wb") as file:
            for lines in member.ranges:
                with reading(lines.path):
                    text = memoryview(lines.path.read_bytes())
                ends = np.append(0, _line_ends(text))
                file.write(packer.compress(text[int(ends[lines.first]) : int(ends[lines.first + lines.lines])]))
            file.write(packer.flush())
    except OSError as error:
        raise output_not_written(member.path.parent, error) from None
    return member.path


@dataclass
class Divider:
    """A divider of the lines of successive chunks among members, which go to `folder`."""

    folder: Path
    member_lines: int
    _waiting: list[LineRange] = field(default_factory=list)
    _lines: int = 0
    _number: int = 0

    def members(self, chunks: Iterable[tuple[Path, int]], last: bool) -> Iterator[Member]:
        """Yield the members that further chunks (path, lines) complete, and after the last chunks the rest."""
        for path, lines in chunks:
            first = 0
            while self._lines + lines - first >= self.member_lines:
                missing = self.member_lines - self._lines
                yield self._member(LineRange(path, first, missing))
                first += missing
            if first < lines:
                self._waiting.append(LineRange(path, first, lines - first))
                self._lines += lines - first
        if last and self._waiting:
            yield self._member()

    def waiting(self) -> set[Path]:
        """Return the chunks with lines of a member that is not complete."""
        return {lines.path for lines in self._waiting}

    def _member(self, *more: LineRange) -> Member:
        """Return the next member: the lines that wait, and these."""
        ranges = (*self._waiting, *more)
        self._waiting, self._lines, self._number = [], 0, self._number + 1
        return Member(self.folder / f"member{self._number}", ranges)


def _line_ends(text: memoryview) -> npt.NDArray[np.int64]:
    """Return the offset behind each newline."""
    ends: npt.NDArray[np.int64] = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n")) + 1
    return ends


def successive_groups(items: Sequence[int], size: int) -> list[Sequence[int]]:
    """Divide successive items into groups of `size`."""
    return [items[n : n + size] for n in range(0, len(items), size)]
