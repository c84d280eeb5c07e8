"""A program in nsys' place, which exports one small report whatever it is given; and empty `.nsys-rep` files."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
PARQUET, SQLITE = DATA / "formats" / "rep.1_pqtdir", DATA / "repeat-capture" / "rep.1.sqlite"

# Says which types it can export, and exports the same report whatever it is given. It waits until as many exports are
# under way as it was told, and fails when they are not.
FAKE = """
import pathlib, shutil, sys, time
folder = pathlib.Path(__file__).parent
if "--help" in sys.argv:
    sys.exit(print("-t, --type= {types}  --lazy= --force-overwrite= --output="))
options = dict(a[2:].split("=", 1) for a in sys.argv if a.startswith("--"))
report = pathlib.Path(sys.argv[-1])
(folder / (report.name + ".begun")).touch()
deadline = time.monotonic() + 30
while len(list(folder.glob("*.begun"))) < {together}:
    if time.monotonic() > deadline:
        sys.exit("nobody else came")
    time.sleep(0.01)
if "newer" in report.name:
    sys.exit(
        "Exportation error: Report was created in Nsight Systems version (2026.3.1.157),\\n"
        "newer than your current version (2025.3.2.367)."
    )
if "bad" in report.name:
    sys.exit("this report is damaged")
if options["type"] == "sqlite":
    shutil.copyfile({sqlite!r}, options["output"])
else:
    shutil.copytree({parquet!r}, options["output"])
    pathlib.Path(options["output"]).touch()
    if not {capture}:
        pathlib.Path(options["output"], "META_DATA_CAPTURE.parquet").unlink()
"""


def fake_nsys(
    folder: Path, types: str = "sqlite, arrow, and parquetdir.", together: int = 1, capture: bool = True
) -> Path:
    """`together`: exports that must be under way at once; `capture`: whether Parquet says who recorded, and what."""
    folder.mkdir(parents=True)
    program, text = folder / "nsys", folder / "nsys.py"
    kept = {"sqlite": str(SQLITE), "parquet": str(PARQUET), "capture": capture}
    text.write_text(FAKE.format(types=types, together=together, **kept))
    # A first line that names Python's own path may hold neither blanks nor much.
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(text)])} "$@"\n')
    program.chmod(0o755)
    return program


def reports(folder: Path, *names: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / f"{name}.nsys-rep" for name in names]
    for path in made:
        path.write_bytes(b"")
    return made
