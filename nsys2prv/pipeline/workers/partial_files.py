"""What killed processes left behind: intermediate files named `.NAME.PID.partial`, removed when nobody needs them."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

LOCK = "lock"
_LEFT = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)\.partial(\.\w+|_pqtdir|_arwdir)?")


def partial_path(target: Path) -> Path:
    """Where this process makes what will be moved to `target`."""
    return target.with_name(f".{target.name}.{os.getpid()}.partial")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write what takes its place at `path` when it is complete.

    A worker that was given up for lost may still be writing the same.
    """
    beside = path.with_name(f"{path.name}.{uuid4().hex}")
    yield beside
    beside.replace(path)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Mark an intermediate folder as in use, for as long as the context lasts and this process lives."""
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
    """Remove what processes that are gone left in a folder, of one name or of all; what was removed."""
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


def _in_use(path: Path, pid: int) -> bool:
    """Whether its maker lives. A lock tells also of other machines, and is not fooled by a number that came again."""
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
    """Whether another process on this machine has the number: what carries our own is from one before us."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
