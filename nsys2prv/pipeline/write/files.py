"""The files of a trace: written under other names, and moved to their place when they are complete."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, cast

from nsys2prv.errors import OutputError, UsageError, output_not_written
from nsys2prv.model.whole_file import partial_path
from nsys2prv.pipeline.workers.partial_files import claim, first_maker, held, reading, sweep
from nsys2prv.pipeline.write.packing import Packed

# Bytes to copy at a time if the kernel cannot copy, as between some file systems.
COPY_BYTES = 1 << 22
NO_KERNEL_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)


class Target(NamedTuple):
    """The files of a trace: `stem` is their path without the endings."""

    stem: Path
    compress: bool

    @classmethod
    def of(cls, output: Path | str, compress: bool) -> Target:
        """Return the target for a path with or without `.prv` or `.prv.gz`. `compress`: also without `.gz`."""
        name = Path(output).name
        for ending in (".prv.gz", ".prv"):
            if name.endswith(ending) and name != ending:
                return cls(Path(output).with_name(name.removesuffix(ending)), compress or ending == ".prv.gz")
        if not name:
            raise UsageError(f"{output}: not a name for a trace; give a path such as results/trace")
        return cls(Path(output), compress)

    @property
    def prv(self) -> Path:
        """Return the path of the body."""
        return self.stem.with_name(self.stem.name + (".prv.gz" if self.compress else ".prv"))

    @property
    def other(self) -> Path:
        """Return the path of the body in the other form: compressed if this one is not, and the other way round."""
        return self._replace(compress=not self.compress).prv

    @property
    def pcf(self) -> Path:
        """Return the path of the labels."""
        return self.stem.with_name(self.stem.name + ".pcf")

    @property
    def row(self) -> Path:
        """Return the path of the object names."""
        return self.stem.with_name(self.stem.name + ".row")

    @property
    def alignment(self) -> Path:
        """Return the path of the alignment of the reports' clocks."""
        return self.stem.with_name(self.stem.name + ".align.json")

    def check(self, force: bool) -> None:
        """Refuse existing files, unless by `force`, and folders that take no files. Raises OutputError, UsageError."""
        try:
            self._check(force)
        except OSError as error:
            raise OutputError(f"{self.stem}: cannot be written ({error.strerror}); choose another output") from None

    def _check(self, force: bool) -> None:
        folder = self.stem.parent
        if not folder.is_dir():
            raise OutputError(f"{folder}: no such folder; create it or choose another output")
        if not os.access(folder, os.W_OK):
            raise OutputError(f"{folder}: the folder cannot be written; choose another output")
        if self.stem.is_dir():
            raise OutputError(f"{self.stem}: this is a folder; name the trace in it, such as {self.stem / 'trace'}")
        if folders := [p for p in (self.prv, self.pcf, self.row, self.alignment) if p.is_dir()]:
            raise OutputError(f"{folders[0]}: this is a folder, where a file of the trace goes; choose another output")
        present = [p for p in (self.prv, self.other, self.pcf, self.row, self.alignment) if p.exists()]
        if present and not force:
            raise UsageError(f"{present[0]}: the file exists already; use --force to write over it")


@contextmanager
def scratch(stem: Path, alone: bool = False) -> Iterator[Path]:
    """Make a folder for intermediate files beside `stem`, and remove it at the end whatever happens.

    Files that a killed run of the same name left are removed first. `alone`: raise UsageError if another process is at
    work under the same name.
    """
    folder = partial_path(stem)
    try:
        sweep(folder.parent, stem.name)
        folder.mkdir()
    except OSError as error:
        raise OutputError(f"{folder.parent}: cannot be written ({error.strerror}); choose another folder") from None
    try:
        with held(folder):
            if alone:
                if (process := first_maker(folder)) is not None:
                    raise UsageError(
                        f"{stem}: process {process} is writing this trace; wait for it, or choose another output"
                    )
                claim(folder)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_body(path: Path, member_lines: int | None = None) -> Iterator[IO[bytes]]:
    """Open the file of a body, header and comments included. Raises OutputError when the disk takes no more.

    `member_lines`: compress it in members of so many lines.
    """
    try:
        with path.open("wb") as file:
            if member_lines is None:
                yield file
                return
            packed = Packed(file, member_lines)
            yield cast(IO[bytes], packed)
            packed.end()
    except OSError as error:
        raise output_not_written(path.parent, error) from None


def end_member(sink: IO[bytes]) -> None:
    """Begin a new member of a body, if it is compressed."""
    if isinstance(sink, Packed):
        sink.end()


def append(path: Path, sink: IO[bytes]) -> None:
    """Move a finished chunk to the end of the body. The kernel copies it, or shares its blocks if it can.

    Raises Nsys2prvError if the chunk cannot be opened.
    """
    sink.flush()
    with reading(path):
        chunk = path.open("rb")
    with chunk as source:
        left = os.fstat(source.fileno()).st_size
        try:
            while left:
                left -= os.copy_file_range(source.fileno(), sink.fileno(), left)
        except OSError as error:
            if error.errno not in NO_KERNEL_COPY:
                raise
            shutil.copyfileobj(source, sink, COPY_BYTES)
    path.unlink()


def publish(target: Target, body: Path, texts: Mapping[Path, str], stale: Iterable[Path]) -> None:
    """Move a complete trace to its place: the body last, so that it never stands there without the other files.

    All are on the disk before the first is moved. `stale`: files of a former trace, which nobody must take for the new
    one's.
    """
    written = {body.with_name(path.name): path for path in texts}
    try:
        for (beside, _), text in zip(written.items(), texts.values(), strict=True):
            beside.write_text(text, encoding="utf-8", newline="\n")
        for beside, path in {**written, body: target.prv}.items():
            beside.replace(path)
        for path in stale:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise output_not_written(target.stem.parent, error) from None
