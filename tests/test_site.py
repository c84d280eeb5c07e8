"""The docs as a site: every link and anchor leads somewhere, every page is in the navigation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytest.importorskip("mkdocs", reason="needs the extra docs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as strictly as it goes."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in site.glob("*.html")}


def test_the_reference_has_the_docstrings(site: Path) -> None:
    text = (site / "python.html").read_text(encoding="utf-8")
    assert 'id="nsys2prv.engine.translate.translate"' in text
    assert "doc-signature" in text
    assert ":::" not in text


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="http' not in text
    assert "fonts.googleapis" not in text


def test_code_of_the_docs_is_left_out(site: Path) -> None:
    assert list(site.rglob("*.py")) == []
