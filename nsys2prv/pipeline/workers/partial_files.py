"""Intermediate files, named `.NAME.PID-NUMBER.partial`. Later runs remove those of killed processes."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from nsys2prv.errors import Nsys2prvError

LOCK = "lock"
# Names that `partial_path` gives, and that nsys does to folders that it exports.
_LEFT = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)(-\d+)?\.partial(\.\w+|_pqtdir|_arwdir)?")
# Folders that this process holds: where there are no locks, its own process id does not tell.
_HELD: set[Path] = set()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to. The file moves to `path` when it is complete.

    A worker that was given up for lost may still write the same file.
    """
    beside = path.with_name(f"{path.name}.{uuid4().hex}")
    yield beside
    beside.replace(path)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Name an intermediate file that cannot be read: where others are written, it would pass for one of them.

    Raises Nsys2prvError.
    """
    try:
        yield
    except OSError as error:
        cause = f"this intermediate file cannot be read ({error.strerror or error})"
        raise Nsys2prvError(f"{path}: {cause}; run this again, and leave the file there until the end") from None


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Mark an intermediate folder as in use while the context lasts and this process lives."""
    descriptor = _lock(folder)
    _HELD.add(folder)
    try:
        yield
    finally:
        _HELD.discard(folder)
        if descriptor is not None:
            os.close(descriptor)


def _lock(folder: Path) -> int | None:
    """Lock a folder, and return the open lock. None without locks, or on a full disk: the process id has to tell.

    Until it is locked, another process may take the folder for a dead one's and remove it: it is made again then.
    """
    while True:
        try:
            folder.mkdir(exist_ok=True)
        except FileExistsError:
            # `mkdir` found the folder, and then found it removed.
            if folder.is_file():
                raise
            continue
        try:
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            os.close(descriptor)
            (folder / LOCK).unlink(missing_ok=True)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), (folder / LOCK).stat()):
                return descriptor
        os.close(descriptor)


def sweep(folder: Path, name: str | None = None) -> list[Path]:
    """Remove the files of dead processes from a folder, of one name or of all, and return their paths."""
    removed = []
    for path in sorted(folder.iterdir()):
        match = _LEFT.fullmatch(path.name)
        if not match or (name is not None and match["name"] != name):
            continue
        with _liveness(path, int(match["pid"])) as in_use:
            if in_use:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            removed.append(path)
    return removed


def first_maker(folder: Path) -> int | None:
    """Return the process that began before `folder` to make the same file in another folder; None if this is the first.

    A folder of `claim` is the first. Of two that begin at once, both find the same one to be the first.
    """
    own = _LEFT.fullmatch(folder.name)
    assert own
    made = {}
    for path in folder.parent.iterdir():
        match = _LEFT.fullmatch(path.name)
        if match and path.is_dir() and match["name"] == own["name"]:
            with _liveness(path, int(match["pid"])) as in_use:
                if path == folder or in_use:
                    made[path] = _begun(path), int(match["pid"])
    first = min(made, key=lambda path: (made[path], path), default=folder)
    return None if first == folder else made[first][1]


def _begun(folder: Path) -> int:
    """Return when a folder was locked (ns). A maker without a lock has yet to look for others: it comes last.

    The folder's own time changes with its files.
    """
    try:
        return (folder / LOCK).stat().st_mtime_ns
    except FileNotFoundError:
        return sys.maxsize


def claim(folder: Path) -> None:
    """Mark a folder as the first of those in which the same file is made.

    Times of files count in ticks of some milliseconds, so two that begin one after the other may have the same.
    """
    if (folder / LOCK).exists():
        os.utime(folder / LOCK, (0, 0))


@contextmanager
def _liveness(path: Path, pid: int) -> Iterator[bool]:
    """Yield True if the maker of a file or folder lives. A maker that is about to lock its folder waits meanwhile.

    The lock of a folder tells across machines, and where a process id is in use again. A file has none: the process id
    is looked for on this machine alone.
    """
    if path in _HELD:
        yield True
        return
    try:
        descriptor = os.open(path / LOCK, os.O_RDWR)
    except OSError:
        yield _lives(pid)
        return
    try:
        yield _taken_elsewhere(descriptor, pid)
    finally:
        os.close(descriptor)


def _taken_elsewhere(descriptor: int, pid: int) -> bool:
    """Return True if another process has the lock; else this one takes it. Without locks the process id tells."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return _lives(pid)
    return False


def _lives(pid: int) -> bool:
    """Return True if another process of this machine has the id. A file with our own id is from an earlier process."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
