"""The page of two runs: the verdict and figures of the comparison, and two timelines that move together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from page_cases import Opened

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.run_figures import differs, run_figures
from nsys2prv.page.page import comparison_page

pytestmark = pytest.mark.browser


def test_two_runs_side_by_side(analysed: Callable[[str], Analysis], opened: Callable[..., Opened]) -> None:
    halo, gpt = analysed("mpi-halo"), analysed("gpt-ddp")
    found = Comparison(run_figures(halo, "before/halo", whole=True), run_figures(gpt, "after/gpt", whole=True))
    one = opened(comparison_page(found))
    text = one.text()
    assert found.verdict.text in text
    for finding in (*halo.findings, *gpt.findings):
        assert finding.title in text
    one.open_tables()
    tables = one.tables()
    rows = [[row[n] for n in ("a", "b", "difference", "change_percent") if row[n] is not None]
            for row in found.told.to_dicts() if differs(row["what"], row["name"], row["difference"])]  # fmt: skip
    shown = [[cell for cell in row if not isinstance(cell, str)] for key in ("times", "efficiencies", "figures")
             for row in tables[f"both-{key}"]]  # fmt: skip
    assert sorted(shown) == sorted(rows)
    # Both move by the same time, each from the begin of its own window.
    one.tab.evaluate("timelines[1].show(timelines[1].side.window[0] + 1000, timelines[1].side.window[0] + 9000)")
    for number, analysis in enumerate((halo, gpt)):
        low = analysis.window.start
        assert one.view(number) == (low + 1000, low + 9000)
    one.tab.get_by_label("move both runs").uncheck()
    one.tab.evaluate("timelines[0].show(timelines[0].side.window[0] + 2000, timelines[0].side.window[0] + 3000)")
    assert one.view(1)[0] == gpt.window.start + 1000
    # A link of a finding of B leads to the timeline of B.
    finding = next(found for found in gpt.findings if found.at_ns is not None)
    one.tab.locator(f"a.go[href*='run=1'][href*='at={finding.at_ns}']").click()
    one.tab.wait_for_function(f"timelines[1].at === {finding.at_ns}")


def test_a_recorded_run_has_figures_and_no_timeline(
    analysed: Callable[[str], Analysis], opened: Callable[..., Opened]
) -> None:
    gpt = analysed("gpt-ddp")
    new = run_figures(gpt, "new", whole=True)
    # The page shows the figures that differ.
    recorded = run_figures(gpt, "recorded")._replace(figures={name: 2 * ns for name, ns in new.figures.items()})
    found = Comparison(recorded, new)
    one = opened(comparison_page(found))
    assert "A: recorded is a recorded run and has no timeline." in one.text()
    assert one.tab.evaluate("timelines.length") == 1
    one.open_tables()
    assert one.tables()["both-times"]
