"""The docs as a site: links and anchors lead somewhere, every page is in the navigation, the notebook runs."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nsys2prv

ROOT = Path(__file__).parents[1]

NOTEBOOK = "reports-to-figures"

pytest.importorskip("mkdocs", reason="needs the extra docs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; any warning fails. `--quiet` would switch off the counting of warnings."""
    folder = tmp_path_factory.mktemp("site")
    done = _build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


def _build(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("page", "warning"),
    [
        ("[gone](gone.md)", "gone.md"),
        ("[gone](index.md#gone)", "no such anchor"),
        ("::: nsys2prv.gone", "nsys2prv.gone could not be found"),
    ],
)
def test_a_warning_fails_the_build(page: str, warning: str, tmp_path: Path) -> None:
    """With the configuration of the docs, on one page without notebooks."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Page\n\n{page}\n")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = re.sub(r"(?ms)^nav:.*\Z", "nav: [index.md]\n", config).replace("paths: [.]", f"paths: [{ROOT}]")
    (tmp_path / "mkdocs.yml").write_text(config)
    done = _build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert warning in done.stderr


def test_every_page_is_there(site: Path) -> None:
    pages = {page.stem for ending in ("md", "ipynb") for page in (ROOT / "docs").glob(f"*.{ending}")}
    assert pages <= {page.stem for page in site.glob("*.html")}


def test_the_reference_has_the_docstrings(site: Path) -> None:
    text = (site / "python.html").read_text(encoding="utf-8")
    assert 'id="nsys2prv.commands.translate.translate"' in text
    signature = html.unescape(re.sub(r"<[^>]+>", "", text[text.index('id="nsys2prv.commands.translate.translate"') :]))
    assert ") -> Translation\n" in signature.split("Translate ")[0], "annotations are lacking"
    assert "\n    output: Path | str,\n" in signature.split("Translate ")[0], "one line, not formatted"
    assert ":::" not in text


def test_the_notebook_ran(site: Path) -> None:
    """It gives figures, and the efficiency that `analyze` gives."""
    text = (site / f"{NOTEBOOK}.html").read_text(encoding="utf-8")
    e = nsys2prv.analyze(ROOT / "sample_reports" / "gpt-ddp").efficiency
    assert f"parallel efficiency {e.parallel:.4f} = load balance {e.load_balance:.4f}" in text
    assert len(re.findall(r'<img [^>]*src="data:image/png', re.sub(r"\s+", " ", text))) == 3


def test_the_notebook_is_kept_without_output() -> None:
    cells = json.loads((ROOT / "docs" / f"{NOTEBOOK}.ipynb").read_text(encoding="utf-8"))["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    text = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="http' not in text
    assert "fonts.googleapis" not in text


def test_code_of_the_docs_is_left_out(site: Path) -> None:
    assert list(site.rglob("*.py")) == []
