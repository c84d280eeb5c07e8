"""Intermediate files, named `.NAME.PID.partial`. Later runs remove those of killed processes."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

LOCK = "lock"
_LEFT = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)\.partial(\.\w+|_pqtdir|_arwdir)?")


def partial_path(target: Path) -> Path:
    """Return the path under which this process writes a file that it will move to `target`."""
    return target.with_name(f".{target.name}.{os.getpid()}.partial")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to. The file moves to `path` when it is complete.

    A worker that was given up for lost may still write the same file.
    """
    beside = path.with_name(f"{path.name}.{uuid4().hex}")
    yield beside
    beside.replace(path)


def write_whole(path: Path, text: str) -> None:
    """Write a text file whole, or leave what was there. Raises OSError.

    What is no file, such as a pipe, and a file in a folder that takes no new one, are written in place.
    """
    target = path.resolve()
    if (target.exists() and not target.is_file()) or not os.access(target.parent, os.W_OK):
        path.write_text(text, encoding="utf-8")
        return
    beside = partial_path(target)
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Mark an intermediate folder as in use while the context lasts and this process lives."""
    descriptor = None
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:  # a file system without locks, or full: the process id has to tell
        (folder / LOCK).unlink(missing_ok=True)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def sweep(folder: Path, name: str | None = None) -> list[Path]:
    """Remove the files of dead processes from a folder, of one name or of all, and return their paths."""
    removed = []
    for path in sorted(folder.iterdir()):
        match = _LEFT.fullmatch(path.name)
        if not match or (name is not None and match["name"] != name) or _in_use(path, int(match["pid"])):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        removed.append(path)
    return removed


def first_maker(folder: Path) -> int | None:
    """Return the process that began before this one to make the same file as an intermediate folder; None without any.

    A process that called `claim` is the first. Of two that begin at once one is the first on both sides.
    """
    own = _LEFT.fullmatch(folder.name)
    assert own
    made = {}
    for path in folder.parent.iterdir():
        match = _LEFT.fullmatch(path.name)
        if match and path.is_dir() and match["name"] == own["name"]:
            pid = int(match["pid"])
            if path == folder or _in_use(path, pid):
                # The folder's own time changes with its files. Without a lock its maker has yet to look for others.
                made[pid] = (path / LOCK).stat().st_mtime_ns if (path / LOCK).exists() else sys.maxsize
    first = min(made, key=lambda pid: (made[pid], pid), default=None)
    return None if first in (None, int(own["pid"])) else first


def claim(folder: Path) -> None:
    """Make this process the first of those that make the same file, however early others seem to have begun.

    Times of files count in ticks of some milliseconds, so two that begin one after the other may have the same.
    """
    if (folder / LOCK).exists():
        os.utime(folder / LOCK, (0, 0))


def _in_use(path: Path, pid: int) -> bool:
    """Return True if its maker lives. A lock also works across machines, and for process ids in use again."""
    try:
        descriptor = os.open(path / LOCK, os.O_RDWR)
    except OSError:
        return _lives(pid)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return _lives(pid)
    finally:
        os.close(descriptor)
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
