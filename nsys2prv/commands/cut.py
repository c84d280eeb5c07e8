"""Cut a written trace to a part of its time."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from nsys2prv.errors import Nsys2prvError, UsageError
from nsys2prv.model.limits import DEFAULT_LIMITS
from nsys2prv.model.units import text_ms
from nsys2prv.model.version import VERSION
from nsys2prv.model.words import did_you_mean
from nsys2prv.paraver.cut import Cutter, text_blocks
from nsys2prv.paraver.header import first_line
from nsys2prv.paraver.reader import read_header, text_beside
from nsys2prv.pipeline.write.comments import as_comments
from nsys2prv.pipeline.write.files import Target, open_body, publish, scratch

ADVICE_TRACE = "give a .prv or .prv.gz that nsys2prv wrote"
# Errors of gzip over what is no gzip file, or a part of one.
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error)


class CutTrace(NamedTuple):
    """The result of a cut. `start` and `end`: ns of the source; `lines`: written; `read`: lines read.

    `split`: messages across a border, which are left out. `beside`: files of labels and names that were copied.
    """

    prv: Path
    start: int
    end: int
    lines: int
    read: int
    split: int
    size: int
    beside: tuple[Path, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        times = {"start_ns": self.start, "end_ns": self.end}
        counts = {"lines": self.lines, "read": self.read, "split": self.split, "size": self.size}
        return {"prv": str(self.prv), **times, **counts, "beside": [str(path) for path in self.beside]}


def cut(
    source: Path | str,
    output: Path | str,
    time: tuple[int | None, int | None],
    *,
    compress: bool = False,
    force: bool = False,
) -> CutTrace:
    """Cut a trace to [start, end), ns, None for an open side; the part begins at 0.

    `compress`: write `.prv.gz`; `force`: write over an existing trace. Raises Nsys2prvError.
    """
    path, target = Path(source), Target.of(output, compress)
    target.check(force)
    if target.prv.exists() and path.exists() and target.prv.samefile(path):
        raise UsageError(f"{path}: a trace cannot be cut in place; choose another output")
    with _opened(path) as (file, first), scratch(target.stem, alone=True) as folder:
        header = read_header(path, first)
        start, end = time[0] or 0, header.duration if time[1] is None else min(time[1], header.duration)
        _check_time(path, time, start, end, header.duration)
        body = folder / target.prv.name
        with open_body(body, DEFAULT_LIMITS.member_lines if target.compress else None) as sink:
            sink.write(first_line(header.date, end - start, header.cpus, header.tasks).encode())
            cutter = Cutter(start, end, sink)
            try:
                cutter.cut(_blocks(file))
            except Nsys2prvError as error:
                raise Nsys2prvError(f"{path}: {error}") from None
            if not cutter.comments:
                cause = "the closing comments are missing: the file was cut off, or another program wrote it"
                raise Nsys2prvError(f"{path}: {cause}; {ADVICE_TRACE}")
            sink.write(_comments(cutter, path).encode())
        texts = _beside(path, target)
        publish(target, body, texts, _of_another(path, target, texts))
    size = target.prv.stat().st_size
    return CutTrace(target.prv, start, end, cutter.written, cutter.lines, cutter.split, size, tuple(texts))


def _check_time(path: Path, time: tuple[int | None, int | None], start: int, end: int, duration: int) -> None:
    """Check that a chosen time has a part in a trace, from `start` to `end`. Raises UsageError, in the user's units."""
    if end > start:
        return
    first, last = time
    chosen = f"{text_ms(first or 0)} to {'the end' if last is None else text_ms(last)}"
    if last is not None and last <= start:
        raise UsageError(f"{path}: the chosen time, {chosen}, ends no later than it begins; give FROM:TO")
    raise UsageError(f"{path}: the chosen time, {chosen}, holds nothing; the trace ends after {text_ms(duration)}")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    """Open a trace, behind its first line, which is given, too. Only errors of these two are those of the trace."""
    with ExitStack() as opened:
        try:
            file = opened.enter_context(cast(IO[bytes], (gzip.open if path.suffix == ".gz" else open)(path, "rb")))
            first = file.readline().decode(errors="replace")
        except DAMAGED as error:
            raise Nsys2prvError(f"{path}: the compressed file is damaged ({error}); {ADVICE_TRACE}") from None
        except FileNotFoundError:
            near = did_you_mean(path.name, _traces_beside(path))
            raise Nsys2prvError(f"{path}: there is no such file{near}; {ADVICE_TRACE}") from None
        except OSError as error:
            raise Nsys2prvError(f"{path}: cannot be read ({error.strerror or error}); {ADVICE_TRACE}") from None
        yield file, first


def _traces_beside(path: Path) -> list[str]:
    """Return the names of the traces in the folder of a path."""
    return [each.name for each in path.parent.glob("*.prv*") if each.name.endswith((".prv", ".prv.gz"))]


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a trace. Raises Nsys2prvError here, where it is clear that no output is at fault."""
    try:
        yield from text_blocks(file)
    except DAMAGED as error:
        raise Nsys2prvError(f"the compressed file is damaged ({error}); {ADVICE_TRACE}") from None
    except OSError as error:
        raise Nsys2prvError(f"the rest cannot be read ({error.strerror or error}); {ADVICE_TRACE}") from None


def _comments(cutter: Cutter, path: Path) -> str:
    """Return the comments of the source, and those of the cut."""
    return "".join(cutter.comments) + as_comments(
        [
            f"nsys2prv {VERSION} cut {path.name}",
            f"time {cutter.start} to {cutter.end} ns of it; 0 here is {cutter.start} there",
            f"left out messages {cutter.split}: they reach across a border",
        ]
    )


def _beside(path: Path, target: Target) -> dict[Path, str]:
    """Read the labels and names of the source, by their place beside the target."""
    source = Target.of(path, compress=False)
    sources = {target.pcf: source.pcf, target.row: source.row}
    return {place: text_beside(file) for place, file in sources.items() if file.is_file()}


def _of_another(path: Path, target: Target, texts: Mapping[Path, str]) -> list[Path]:
    """Return the files beside the target of an old trace that is overwritten."""
    # With the same name, but for compression, those files are the source's own.
    if Target.of(path, compress=False).stem.resolve() == target.stem.resolve():
        return []
    return [place for place in (target.other, target.pcf, target.row, target.alignment) if place not in texts]
