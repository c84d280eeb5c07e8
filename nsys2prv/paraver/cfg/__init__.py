"""The Paraver configurations that come with the package, and the generator that writes them.

`CFGS` describes them all; their files lie in `cfgs` at the top of the repository, and in `nsys2prv/cfgs` of an
installed wheel. They are written by `python -m nsys2prv.paraver.cfg`.
"""

from __future__ import annotations

from pathlib import Path

from nsys2prv.paraver.cfg import analysis, basics, hwcounters, roofline, views
from nsys2prv.paraver.cfg.text import Cfg

CFGS: tuple[Cfg, ...] = (*basics.CFGS, *views.CFGS, *roofline.ROOFLINE, *analysis.CFGS, *hwcounters.CFGS)

# A wheel holds the cfgs inside the package; a checkout, also one installed to be edited, beside it.
_PACKAGE = Path(__file__).parents[2]
FOLDER = next((f for f in (_PACKAGE / "cfgs", _PACKAGE.parent / "cfgs") if f.is_dir()), _PACKAGE.parent / "cfgs")


def write_all(folder: Path = FOLDER) -> None:
    """Write every cfg below a folder, and remove those that are no longer made."""
    made = {folder / cfg.path: cfg.text() for cfg in CFGS}
    for stale in set(folder.rglob("*.cfg")) - set(made):
        stale.unlink()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


__all__ = ["CFGS", "FOLDER", "Cfg", "write_all"]
