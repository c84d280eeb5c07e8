"""No finding of axe, the checker of accessibility, in light and dark, wide and narrow, folded and unfolded."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from page_cases import Opened

pytestmark = pytest.mark.browser


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, from npm's registry; skipped where that cannot be reached."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm")
    folder = tmp_path_factory.mktemp("axe")
    try:
        subprocess.run([npm, "pack", "axe-core@4", "--silent"], cwd=folder, check=True, capture_output=True, timeout=60)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip("needs npm's registry")
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return Path(folder / "package" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("run", "width"), [("gpt-ddp", 1280), ("mpi-halo", 420), ("single/openmp.sqlite", 1280)])
def test_axe_finds_no_error(
    page_of: Callable[[str], str], opened: Callable[..., Opened], axe: str, run: str, width: int, scheme: str
) -> None:
    one = opened(page_of(run), width=width, scheme=scheme)
    one.open_tables()
    one.tab.keyboard.press("/")
    one.tab.keyboard.type("a")
    one.tab.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    one.tab.evaluate(axe)
    found = one.tab.evaluate("axe.run(document).then(result => result.violations)")
    assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == []
