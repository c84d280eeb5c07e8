"""A run in a database as others refer to it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

# In place of a name: the last run that can be compared.
LAST = "LAST"


class Recorded(NamedTuple):
    """A run in a database of runs, such as one to compare with.

    `db`: an SQLite file or a URL; `name`: the run's name, of which the latest counts, or its number, or LAST: the
    latest run of the same program, ranks and GPUs that is of other reports. `record` gives `number`, and `replaced`:
    the same reports had been recorded under that name.
    """

    db: str | Path
    name: str = LAST
    number: int | None = None
    replaced: bool = False

    def __repr__(self) -> str:
        """Return the fields without the password of a URL: notebooks show and keep them."""
        db = re.sub(r"(://[^/@:]*):[^/]*@", r"\1:***@", str(self.db))
        return f"Recorded(db={db!r}, name={self.name!r}, number={self.number}, replaced={self.replaced})"
