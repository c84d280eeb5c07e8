"""Standard output and error streams that survive odd names of files and readers that close the pipe."""

from __future__ import annotations

from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _PipeMayClose(FileIO):
    """A file whose reader may close the pipe, as `head` does: the rest of the output is dropped.

    A full disk raises only the first time: Python would try again at exit, and report that, too.
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


def robust_stream(stream: TextIO) -> TextIO:
    """Return a standard stream that takes file names that are not valid text, and whose reader may close the pipe.

    The work goes on then, so that files and exit code of a command do not depend on how fast its reader was.
    """
    if not isinstance(stream, TextIOWrapper):
        return stream
    errors = "backslashreplace" if stream.errors == "strict" else stream.errors
    if not isinstance(stream.buffer, BufferedWriter | FileIO):
        stream.reconfigure(errors=errors)
        return stream
    taken = BufferedWriter(_PipeMayClose(stream.fileno(), "w", closefd=False))
    at_once = stream.line_buffering or stream.write_through
    return TextIOWrapper(taken, stream.encoding, errors, line_buffering=at_once)
