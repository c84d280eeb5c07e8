"""The runs of a database over time. SQLAlchemy is loaded when it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsys2prv.database.history import History


def history(db: str | Path, *, program: str | None = None) -> History:
    """Return the runs of a database, the oldest first.

    `db`: an SQLite file, or a URL such as `postgresql://host/runs`; `program`: only runs with this text in the name of
    their program, in capital or small letters. Raises Nsys2prvError.
    """
    from nsys2prv.database.history import History
    from nsys2prv.database.read import read_history

    return History(read_history(db, program))
