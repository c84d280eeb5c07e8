"""What `python -m build` makes is whole: built from a source archive, installed afresh, used from there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import nsys2prv
from nsys2prv.page.page import SCRIPTS
from nsys2prv.paraver.cfg import CFGS

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "sample_reports" / "mpi-halo"
SOURCES = ("LICENSE", "README.md", "pyproject.toml")

pytestmark = [
    pytest.mark.wheel,
    # A folder of this name is no package: it has no origin.
    pytest.mark.skipif(getattr(find_spec("build"), "origin", None) is None, reason="needs the extra dev"),
]


def run(*command: object, cwd: Path) -> str:
    """Standard output of a command that finds nothing of this checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left in the checkout."""
    source = tmp_path_factory.mktemp("source")
    for folder in ("nsys2prv", "cfgs"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in SOURCES:
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "build", "--outdir", source / "dist", source, cwd=source)
    (found,) = (source / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    run(folder / "bin" / "pip", "install", "--quiet", wheel, cwd=folder)
    return folder / "bin"


def test_it_holds_the_package_with_its_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"nsys2prv/cfgs/{cfg.path}" for cfg in CFGS} == {name for name in names if name.endswith(".cfg")}
    assert {"nsys2prv/py.typed", "nsys2prv/intervals/kernel_classes.toml"} <= names
    assert {f"nsys2prv/page/assets/{name}" for name in ("page.html", "page.css", *SCRIPTS)} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"nsys2prv"}


def test_it_says_that_all_is_there(installed: Path, tmp_path: Path) -> None:
    assert str(installed.parent) in run(
        installed / "python", "-c", "print(__import__('nsys2prv').__file__)", cwd=tmp_path
    )
    assert nsys2prv.__version__ in run(installed / "nsys2prv", "--version", cwd=tmp_path)
    assert "broken" not in run(installed / "nsys2prv", "doctor", cwd=tmp_path)


def test_its_traces_are_those_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    run(installed / "nsys2prv", "translate", SAMPLE, "-o", "fresh", "--jobs", 2, cwd=tmp_path)
    nsys2prv.translate(SAMPLE, tmp_path / "ours", execution=nsys2prv.Execution(jobs=1, quiet=True))
    for ending in (".prv", ".pcf", ".row"):
        assert (tmp_path / f"fresh{ending}").read_bytes() == (tmp_path / f"ours{ending}").read_bytes()


def test_its_cfgs_and_page_are_found(installed: Path, tmp_path: Path) -> None:
    folder = Path(run(installed / "nsys2prv", "cfgs", "--path", cwd=tmp_path).strip())
    assert folder.is_relative_to(installed.parent)
    assert len(list(folder.rglob("*.cfg"))) == len(CFGS)
    run(installed / "nsys2prv", "analyze", SAMPLE, "--html", "page.html", cwd=tmp_path)
    assert "</html>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_its_types_are_known(installed: Path, tmp_path: Path) -> None:
    """A wrong use of the installed package is found, so its annotations are read."""
    (tmp_path / "use.py").write_text(
        "import nsys2prv\nresult: nsys2prv.Translation = nsys2prv.translate('a', 'b')\nwrong: int = nsys2prv.read_prv\n"
    )
    command = [sys.executable, "-m", "mypy", "--python-executable", str(installed / "python"), "use.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "use.py:3: error: Incompatible types in assignment" in done.stdout, done.stdout + done.stderr
    assert "Found 1 error" in done.stdout
