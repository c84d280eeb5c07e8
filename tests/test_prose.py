"""The docs are easy to read: pages say what they are for, code fits the page, spelling is American."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
OTHERS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "sample_reports" / "README.md"]
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
WIDTH = 100
WIDTH_OF_CELLS = 96
BRITISH = re.compile(
    r"""\b\w*(?:colour|behaviour|neighbour|favour|labour|centre[sd]?\b|metres?\b|catalogue|licence|grey\b|whilst|judgement
    |labelled\b|labelling|modell|cancelled|travell|fulfil\b|analyse[srd]?\b(?<!\banalyses)|analysing|paralys
    |(?:normal|quant|serial|optim|organ|recogn|synchron|summar|initial|visual|minim|maxim|util|parallel|general|real
    |special|categor|character|emphas|final|memor|priorit|standard|token)is(?:e[srd]?|ing|ation)s?\b)\w*""",
    re.IGNORECASE | re.VERBOSE,
)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_a_page_opens_with_what_its_reader_will_be_able_to_do(page: Path) -> None:
    _, opening, *_ = page.read_text(encoding="utf-8").split("\n\n")
    assert "you can" in " ".join(opening.split())


@pytest.mark.parametrize("page", [*DOCS, ROOT / "README.md"], ids=lambda page: page.stem)
def test_code_is_no_wider_than_the_page(page: Path) -> None:
    lines = "\n".join(FENCE.findall(page.read_text(encoding="utf-8"))).splitlines()
    assert [line for line in lines if len(line) > WIDTH] == []


def test_code_of_the_notebook_is_no_wider_than_the_page() -> None:
    cells = json.loads((ROOT / "docs" / "reports-to-figures.ipynb").read_text(encoding="utf-8"))["cells"]
    lines = [line.rstrip() for cell in cells if cell["cell_type"] == "code" for line in cell["source"]]
    assert [line for line in lines if len(line) > WIDTH_OF_CELLS] == []


@pytest.mark.parametrize("page", [*DOCS, *OTHERS], ids=lambda page: page.stem)
def test_spelling_is_american(page: Path) -> None:
    """Names in code are spelled as they are."""
    text = re.sub(r"`[^`\n]+`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    assert [found[0] for found in BRITISH.finditer(text)] == []


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_links_outside_the_site_lead_to_files(page: Path) -> None:
    """Those within docs/ are checked when the site is built."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("word", ["colours", "normalisation", "analysed", "synchronises", "labelled", "behaviours"])
def test_british_words_are_found(word: str) -> None:
    assert BRITISH.search(word)


@pytest.mark.parametrize("word", ["analyses", "color", "normalization", "promise", "rises", "finally", "specialist"])
def test_other_words_are_not(word: str) -> None:
    assert not BRITISH.search(word)
