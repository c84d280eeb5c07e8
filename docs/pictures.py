"""Take the pictures of Paraver in README and the tutorials: `python docs/pictures.py`, then look at them.

Needs the real Paraver (PARAVER_HOME), `xvfb-run` and Pillow, which Matplotlib of the extra `docs` brings.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from PIL import Image

import nsys2prv
from nsys2prv.paraver.cfg import FOLDER

ROOT = Path(__file__).parents[1]
MS = 1_000_000
WHITE = (255, 255, 255)


class Picture(NamedTuple):
    """The last window of a cfg on a part of a sample run, with its legend beside it."""

    name: str
    run: str
    part: nsys2prv.Selection
    cfg: str


PICTURES = (
    Picture("paraver-run", "gpt-ddp", nsys2prv.Selection(), "views/kernel_families"),
    Picture("paraver-training", "gpt-ddp", nsys2prv.Selection(time=(490 * MS, 650 * MS)), "views/kernel_families"),
    Picture("paraver-waiting", "mpi-halo", nsys2prv.Selection(nvtx="iteration 5"), "views/waiting"),
)


def take(picture: Picture, folder: Path) -> Path:
    """Translate the part, let Paraver save window and legend, and put them side by side into docs/img."""
    nsys2prv.translate(ROOT / "sample_reports" / picture.run, folder / picture.run, selection=picture.part)
    program = Path(os.environ["PARAVER_HOME"]) / "bin" / "wxparaver"
    cfg = FOLDER / f"{picture.cfg}.cfg"
    command = ["xvfb-run", "-a", str(program), "-i", f"{picture.run}.prv", str(cfg)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    made = ROOT / "docs" / "img" / f"{picture.name}.png"
    _beside(*_saved(folder)).save(made, optimize=True)
    return made


def _saved(folder: Path) -> Iterator[Image.Image]:
    """Give the window that Paraver saved, then its legend."""
    legend = next(folder.glob("*.code_legend.png"))
    window = next(path for path in folder.glob("*.png") if path != legend)
    yield from (Image.open(path).convert("RGBA") for path in (window, legend))


def _beside(window: Image.Image, legend: Image.Image) -> Image.Image:
    """Paste the legend, black on nothing, on white."""
    whole = Image.new("RGB", (window.width + legend.width, max(window.height, legend.height)), WHITE)
    whole.paste(window.convert("RGB"), (0, 0))
    whole.paste(legend, (window.width, 0), legend)
    return whole


if __name__ == "__main__":
    for each in PICTURES:
        with tempfile.TemporaryDirectory() as place:
            print(take(each, Path(place)))
