"""Standard output and errors, as they are read: by a terminal, a file, or a program that may leave."""

from __future__ import annotations

from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Leaving(FileIO):
    """What is read by such as `head`, which leaves when it has seen enough: the rest is not missed.

    Of a disk that takes no more the first error is enough: Python would try again at its end, and tell of that.
    """

    _failed = False

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            pass
        except OSError:
            if not self._failed:
                self._failed = True
                raise
        return memoryview(data).nbytes


def printable(stream: TextIO) -> TextIO:
    """A standard stream that takes names of files, which may be no text, and whose reader may leave.

    The work goes on then, so that what a command leaves and its exit code do not depend on how quick its reader was.
    """
    if not isinstance(stream, TextIOWrapper):
        return stream
    errors = "backslashreplace" if stream.errors == "strict" else stream.errors
    if not isinstance(stream.buffer, BufferedWriter | FileIO):
        stream.reconfigure(errors=errors)
        return stream
    taken = BufferedWriter(_Leaving(stream.fileno(), "w", closefd=False))
    at_once = stream.line_buffering or stream.write_through
    return TextIOWrapper(taken, stream.encoding, errors, line_buffering=at_once)
