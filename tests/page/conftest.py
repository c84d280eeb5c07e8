"""Analyses and pages that are made once a session, and Chromium, which is started once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from page_cases import Opened, reports_at

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.question import Question
from nsys2prv.commands.analyze import analyze
from nsys2prv.page.page import page


@cache
def _analysis(run: str) -> Analysis:
    return analyze(reports_at(run), question=Question())


@pytest.fixture
def analysed() -> Callable[[str], Analysis]:
    """The analysis of a run of the samples, or of the shared reports; skipped where it is absent."""
    return _analysis


@pytest.fixture
def page_of() -> Callable[[str], str]:
    """The page of such a run."""
    return cache(lambda run: page(_analysis(run), run))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Chromium; skipped where it or playwright is not installed."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("needs Chromium")
    with driver.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Open a text as a page. At the end, it must have reported no error and asked for nothing but itself."""
    made: list[Opened] = []

    def opening(text: str, width: int = 1280, scheme: str = "light", height: int = 900, ratio: float = 1) -> Opened:
        path = tmp_path / f"page{len(made)}.html"
        path.write_text(text, encoding="utf-8")
        size = {"width": width, "height": height}
        tab = chromium.new_page(viewport=size, color_scheme=scheme, device_scale_factor=ratio)
        one = Opened(tab, path)
        made.append(one)
        return one

    yield opening
    for one in made:
        one.tab.close()
        assert one.errors == []
        assert one.asked_for == [one.path.as_uri()]
