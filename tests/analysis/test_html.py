"""The page in a real browser: it draws, says what the tables say, and reports no error."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from analysis_cases import Analysed, run_of, work_of

from nsys2prv.analysis.html import page
from nsys2prv.analysis.question import Question
from nsys2prv.analysis.result import find_out

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
browser = [pytest.mark.browser, pytest.mark.skipif(BROWSER is None, reason="needs Chromium")]


def opened(text: str, folder: Path) -> tuple[str, str]:
    """The page's elements after its scripts ran, and what it wrote to the console."""
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
               f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
               path.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def many_ranks(count: int, text: str = "kernel") -> str:
    """A page of a run of many ranks, of four iterations each; rank 7 is slow."""
    steps, work, ranges = 4, [], []
    for rank in range(count):
        for step in range(steps):
            at = 25 * step
            computed = at + (8 if rank == 7 else 4)
            work += [(rank, at, computed, text, at + 1), (rank, computed, at + 20, "nccl", at + 2)]
            ranges.append((rank, rank, at, at + 24, f"step {step}"))
    frame = work_of(work).with_columns(
        kind=pl.when(pl.col("kind") == "nccl").then(pl.lit("nccl")).otherwise(pl.lit("kernel"))
    )
    return page(find_out(run_of(frame, (), ranges, count), Question()))


def test_the_page_needs_no_network(analysed: Analysed) -> None:
    text = page(analysed("gpt-ddp"))
    assert not re.search(r"""(?:src|href)\s*=|@import|url\(|fetch\(|https?://""", text)


def test_texts_of_reports_cannot_end_the_data() -> None:
    text = many_ranks(8, "</script><script>alert(1)</script>")
    assert text.count("</script>") == 2
    assert "\\u003c/script>" in text


@pytest.mark.parametrize("run", ["gpt-ddp", "mpi-halo", "mesh-tp-pp", "mpi-cpu", "single/openmp.sqlite"])
class TestInChromium:
    """Every kind of run: with and without devices, NCCL, MPI, metrics."""

    pytestmark = browser

    def test_says_the_figures_without_an_error(self, analysed: Analysed, run: str, tmp_path: Path) -> None:
        analysis = analysed(run)
        elements, console = opened(page(analysis), tmp_path)
        assert console == ""
        low, high = analysis.window
        assert f"Window: device, {low} to {high} ns" in elements
        if analysis.efficiency.devices:
            assert f"Parallel efficiency {analysis.efficiency.parallel:.4f}" in elements
            assert 'id="timeline"' in elements
        assert all(f'<td class="text" title="{what}"' in elements for what in analysis.missing)


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_64_ranks_in_chromium(tmp_path: Path) -> None:
    elements, console = opened(many_ranks(64, "<img src=x onerror=alert(1)>"), tmp_path)
    assert console == ""
    assert "rank 7 in 4 of 4" in elements
    assert "<img" not in elements
    assert len(re.findall(r'<tr class="">|<tr>|<tr class="slow">', elements)) > 3 * 64
