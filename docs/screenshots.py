"""Take the pictures of `docs/img`: `python docs/screenshots.py` shows every view and analysis in the real Paraver.

Needs Paraver in PARAVER_HOME, Pillow, and the programs Xvfb, openbox and xdotool. Timelines are the images that Paraver
saves itself, each with its legend at its right; tables are taken from the screen. `--part 0.4:0.5` zooms timelines to a
part of the trace, `--folder` writes elsewhere, words choose cfgs whose path has one of them.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from PIL import Image, ImageChops, ImageDraw, ImageGrab

sys.path.insert(0, str(Path(__file__).parents[1]))

import nsys2prv
from nsys2prv.families.registry import FAMILIES
from nsys2prv.model.event_types import EVENT_TYPES, NCCL_OPERATION
from nsys2prv.paraver.cfg import CFGS, FOLDER, Cfg
from nsys2prv.paraver.cfg.install import CfgFolder, install
from nsys2prv.paraver.cfg.text import DerivedWindow

DOCS = Path(__file__).parent
SAMPLES = DOCS.parent / "sample_reports"
# Cfgs of what the other sample lacks.
OF_MPI = ("host_mpi", "bytes_between_ranks", "critical_path")
OF_NCU = ("operation_rate", "dram_rate")
NCU = DOCS.parent / "tests" / "data" / "ncu"
ALSO = ("critical_path", "idle_causes")
DISPLAY, SCREEN = ":77", (1400, 900)
# Legends are black on what is transparent.
BACKGROUND = (255, 255, 255)
# Width and height of a window's frame, height of the tools above a table, and the border below it.
FRAME, TOOLS, BORDER = (1, 20), 44, 50
# The place of the Hints menu in the middle of the screen, and of all that opens.
MENU, MENU_OPEN = (762, 122), (248, 88, 1018, 388)
STATE_NAMES = {0: "Idle", 1: "only communication or copies", 2: "compute"}
# Seconds to wait for a table, and programs that Paraver looks for before it opens.
PATIENCE = 20.0
EDITORS = ("gedit", "xpdf")
COLORS = 64


def main() -> None:
    """Translate the samples and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--part", type=lambda text: tuple(map(float, text.split(":"))))
    parser.add_argument("--folder", type=Path, default=DOCS / "img")
    parser.add_argument("--reports", type=Path, help="a folder of reports instead of the samples")
    given = parser.parse_args()
    if "PARAVER_HOME" not in os.environ:
        parser.error("PARAVER_HOME is not set; set it to the folder of the Paraver installation")
    chosen = [c for c in CFGS if c.folder in ("views", "analysis") and _fits(c, given.words)]
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, screen(Path(folder)) as environment:
        traces: dict[Path, nsys2prv.Translation] = {}
        for cfg in chosen:
            sample = NCU if cfg.name in OF_NCU else SAMPLES / ("mpi-halo" if cfg.name in OF_MPI else "gpt-ddp")
            reports = given.reports or sample
            if reports not in traces:
                traces[reports] = translated(reports, Path(folder))
            made = traces[reports]
            part = given.part or tuple(at / made.duration_ns for at in made.window_ns)
            assert made.prv is not None
            show = table if cfg.histograms else timelines
            picture = show(cfg, made.prv, part, Path(folder), environment)
            if picture is None:
                print(f"{cfg.path}: nothing is shown", file=sys.stderr)
                continue
            _save(picture, given.folder / f"{cfg.folder}-{cfg.name}.png")
        if not given.words or "hints" in given.words:
            made = translated(SAMPLES / "gpt-ddp", Path(folder, "hints"))
            assert made.prv is not None
            _save(hints(made.prv, environment), given.folder / "hints.png")


def _save(picture: Image.Image, target: Path) -> None:
    """Write a picture with few colors, as small as it can be."""
    picture.quantize(COLORS, dither=Image.Dither.NONE).save(target, optimize=True)
    print(target)


def _fits(cfg: Cfg, words: Sequence[str]) -> bool:
    return not words or any(word in cfg.path for word in words)


def translated(reports: Path, folder: Path) -> nsys2prv.Translation:
    """Translate a sample with the families that cfgs ask for."""
    folder.mkdir(exist_ok=True)
    families = tuple(f.name for f in FAMILIES if f.default or f.name in ALSO)
    profiles = nsys2prv.RunOptions(ncu=(nsys2prv.ProfileFile(NCU / "steps.csv"),) if reports == NCU else ())
    return nsys2prv.translate(reports, folder / reports.name, selection=nsys2prv.Selection(families), options=profiles)


@contextmanager
def screen(folder: Path) -> Iterator[Mapping[str, str]]:
    """Run a screen with a window manager, and yield the environment of programs on it."""
    programs = folder / "bin"
    programs.mkdir()
    for name in EDITORS:
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "DISPLAY": DISPLAY, "HOME": str(folder), "PATH": f"{programs}:{os.environ['PATH']}"}
    size = "x".join(map(str, SCREEN))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(["Xvfb", DISPLAY, "-screen", "0", f"{size}x24"], **quiet)  # type: ignore[call-overload]
    time.sleep(2)
    manager = subprocess.Popen(["openbox"], env=environment, **quiet)  # type: ignore[call-overload]
    try:
        yield environment
    finally:
        manager.terminate()
        server.terminate()


def _program(environment: Mapping[str, str]) -> str:
    return str(Path(environment["PARAVER_HOME"], "bin", "wxparaver"))


def timelines(
    cfg: Cfg, prv: Path, part: tuple[float, float], folder: Path, environment: Mapping[str, str]
) -> Image.Image | None:
    """Return the windows of a cfg that open, one below the other, each with its legend."""
    rows = []
    for number, window in enumerate(w for w in cfg.windows if w.look.open):
        shots = folder / f"{cfg.name}-{number}"
        shots.mkdir(exist_ok=True)
        text = cfg._replace(windows=(window,)).text()
        for side, at in zip(("begin", "end"), part, strict=True):
            key = f"window_{side}_time_relative"
            text = text.replace(f"{key} {float(side == 'end'):.12f}", f"{key} {at:.12f}")
        file = shots / "one.cfg"
        file.write_text(text)
        # Paraver saves no image of a derived window.
        if isinstance(window, DerivedWindow):
            shot = _on_screen(prv, file, window.name, environment)
            images = [] if shot is None else [_titled(shot, window.name), *_legend(window, shot)]
        else:
            images = _saved(prv, file, environment)
        if images:
            rows.append(_beside(images))
    return _below(rows) if rows else None


def _saved(prv: Path, file: Path, environment: Mapping[str, str]) -> list[Image.Image]:
    """Let Paraver save the last window of a cfg, and return the image and its legend."""
    command = [_program(environment), "-i", str(prv), str(file)]
    subprocess.run(command, cwd=file.parent, env=environment, capture_output=True, timeout=120)
    saved = sorted(file.parent.glob("*.png"))
    legends = [path for path in saved if "legend" in path.name]
    # Of a gradient it saves the picture twice.
    pictures = [path for path in saved if path not in legends]
    return [Image.open(path) for path in (*pictures[:1], *legends[:1])]


def _titled(shot: Image.Image, name: str) -> Image.Image:
    """Put the name of a window above what it shows."""
    image = Image.new("RGB", (shot.width, shot.height + 18))
    image.paste(shot, (0, 18))
    ImageDraw.Draw(image).text((5, 3), name, fill=(255, 255, 255))
    return image


def _legend(window: DerivedWindow, shot: Image.Image) -> list[Image.Image]:
    """Draw the legend of a derived window: the values of its palette whose colors are in the picture."""
    drawn = {color for _, color in shot.getcolors(1 << 24) or []}
    known = {t.number: t.label for t in EVENT_TYPES.values()}
    names = {**known, **STATE_NAMES, **(NCCL_OPERATION.values if "NCCL operation" in window.name else {})}
    shown = [(color, names.get(value, str(value))) for value, color in window.look.palette.items() if color in drawn]
    if not shown:
        return []
    image = Image.new("RGB", (220, 18 * len(shown) + 10), BACKGROUND)
    draw = ImageDraw.Draw(image)
    for place, (color, name) in enumerate(shown):
        draw.rectangle((6, 8 + 18 * place, 15, 17 + 18 * place), fill=tuple(color), outline=(0, 0, 0))
        draw.text((22, 6 + 18 * place), name, fill=(0, 0, 0))
    return [image]


def table(
    cfg: Cfg, prv: Path, part: tuple[float, float], folder: Path, environment: Mapping[str, str]
) -> Image.Image | None:
    """Return the first table of a cfg as it is on the screen, without what is empty at its right and below."""
    del part
    file = folder / f"{cfg.name}.cfg"
    file.write_text(cfg._replace(histograms=cfg.histograms[:1]).text())
    shot = _on_screen(prv, file, cfg.histograms[0].name, environment)
    return None if shot is None else _trimmed(shot)


def hints(prv: Path, environment: Mapping[str, str]) -> Image.Image:
    """Return the Hints menu with our first workspace open, which follows the two of Paraver's own."""
    with tempfile.TemporaryDirectory() as home:
        user = Path(home, ".paraver")
        install(CFGS, FOLDER, CfgFolder(user / "cfgs" / "nsys2prv", user / "workspaces.xml"))
        with _paraver([str(prv)], environment, home):
            time.sleep(8)
            steps = (("mousemove", *map(str, MENU), "click", "1"), ("key", "Down", "Down", "Down", "Right"))
            for step in steps:
                subprocess.run(["xdotool", *step], env=environment, capture_output=True)
                time.sleep(1)
            return ImageGrab.grab(bbox=MENU_OPEN, xdisplay=DISPLAY).convert("RGB")


@contextmanager
def _paraver(arguments: Sequence[str], environment: Mapping[str, str], home: str) -> Iterator[None]:
    """Run Paraver. It gets a home of its own: it asks about the session of one that was ended."""
    running = subprocess.Popen(
        [_program(environment), *arguments],
        env={**environment, "HOME": home},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def _on_screen(prv: Path, file: Path, title: str, environment: Mapping[str, str]) -> Image.Image | None:
    """Open a cfg, and take the window with this title from the screen."""
    with tempfile.TemporaryDirectory() as home, _paraver([str(prv), str(file)], environment, home):
        place = _geometry(title, environment)
        if place is None:
            return None
        time.sleep(2)
        return ImageGrab.grab(bbox=place, xdisplay=DISPLAY).convert("RGB")


def _geometry(title: str, environment: Mapping[str, str]) -> tuple[int, int, int, int] | None:
    """Return the place of the window whose title begins so, once it is there, in front of all others."""
    for _ in range(int(PATIENCE / 0.5)):
        time.sleep(0.5)
        found = subprocess.run(["xdotool", "search", "--name", "@ "], env=environment, capture_output=True, text=True)
        for window in found.stdout.split():
            name = subprocess.run(
                ["xdotool", "getwindowname", window], env=environment, capture_output=True, text=True
            ).stdout
            if name.startswith(title):
                subprocess.run(["xdotool", "windowactivate", "--sync", window], env=environment, capture_output=True)
                said = subprocess.run(
                    ["xdotool", "getwindowgeometry", "--shell", window], env=environment, capture_output=True, text=True
                ).stdout
                at = {key: int(value) for key, _, value in (line.partition("=") for line in said.split())}
                # xdotool counts the frame twice.
                left, top = at["X"] - FRAME[0], at["Y"] - FRAME[1]
                return left, top, left + at["WIDTH"], top + at["HEIGHT"]
    return None


def _trimmed(image: Image.Image) -> Image.Image:
    """Cut off the tools above a table, and the empty part at the right and below."""
    inner = image.crop((0, TOOLS, image.width - BORDER, image.height - BORDER))
    dark = ImageChops.difference(inner, Image.new("RGB", inner.size, BACKGROUND)).convert("L")
    box = dark.point(lambda value: 255 if value > 60 else 0).getbbox()
    return inner if box is None else inner.crop((0, 0, min(inner.width, box[2] + 12), min(inner.height, box[3] + 12)))


def _beside(images: Sequence[Image.Image]) -> Image.Image:
    """Put images side by side, as high as the highest."""
    whole = Image.new("RGB", (sum(i.width for i in images), max(i.height for i in images)), BACKGROUND)
    left = 0
    for image in images:
        shown = image.convert("RGBA")
        whole.paste(shown, (left, 0), shown)
        left += image.width
    return whole


def _below(images: Sequence[Image.Image]) -> Image.Image:
    """Put images one below the other."""
    whole = Image.new("RGB", (max(i.width for i in images), sum(i.height for i in images)), BACKGROUND)
    top = 0
    for image in images:
        whole.paste(image, (0, top))
        top += image.height
    return whole


if __name__ == "__main__":
    main()
