"""Text files that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
from itertools import count
from pathlib import Path

from nsys2prv.errors import OutputError

_NUMBERS = count(1)


def partial_path(target: Path, ending: str = "") -> Path:
    """Return a new path, with `ending`, under which this process writes a file that it will move to `target`."""
    return target.with_name(f".{target.name}.{os.getpid()}-{next(_NUMBERS)}.partial{ending}")


def write_whole(path: Path, text: str) -> None:
    """Write a file that the user names, see `replace_text`. Raises OutputError."""
    try:
        replace_text(path, text)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror}); choose another file") from None


def replace_text(path: Path, text: str, lasting: bool = False) -> None:
    """Write a text file whole, with the mode of the one that it replaces, or leave what was there. Raises OSError.

    A link stays one. A target that is not a regular file, such as a pipe, is written in place, and so is one that its
    folder does not let us replace. `lasting`: it is on the disk before it replaces the other.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        path.write_text(text, encoding="utf-8")
        return
    beside = partial_path(target)
    try:
        beside.write_text(text, encoding="utf-8")
        if lasting:
            with beside.open("rb+") as file:
                os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    except PermissionError:
        # The folder takes no new files, or it is sticky and the file is another user's.
        path.write_text(text, encoding="utf-8")
    finally:
        beside.unlink(missing_ok=True)
