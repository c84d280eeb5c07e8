"""Use the pointer in Chromium: which activity a click selects, and drags along the scale of time."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from analysis_cases import run_of, work_of
from page_cases import Opened

from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.question import Question
from nsys2prv.intervals.spans import Span
from nsys2prv.page.page import page

pytestmark = pytest.mark.browser

# ns of a pixel of the view that the tests show.
PIXEL = 10


class Shown:
    """Hold a page of one device with few activities. Its view begins at 0, and a pixel is 10 ns."""

    def __init__(self, one: Opened) -> None:
        self.tab, self.one = one.tab, one
        one.tab.evaluate("scale => timelines[0].show(0, timelines[0].area().width * scale)", PIXEL)
        one.settle()
        self.tab.evaluate("timelines[0].frame.scrollIntoView({ block: 'center' })")
        self.left, self.top, self.axis, self.width = self.tab.evaluate(
            "(() => { const one = timelines[0], { left, top } = one.box.getBoundingClientRect(), area = one.area();"
            " return [left + area.left, top, one.axis.getBoundingClientRect().top + 30, area.width]; })()"
        )

    def clicked(self, time: float, kind: str = "compute") -> str:
        """Return what is selected after a click at a time, in the strip of a kind of activity."""
        at, part, height = self.tab.evaluate(
            "kind => { const one = timelines[0], number = KINDS.findIndex(known => known.name === kind);"
            " return [...stripOf(one.rows[0], number), one.height]; }",
            kind,
        )
        self.tab.mouse.click(self.left + time / PIXEL, self.top + 1 + (at + part / 2) * (height - 3))
        said = str(self.tab.locator(".chosen").inner_text())
        return said.removeprefix("Selected:").split("kind")[0].strip()

    def drag(self, start: float, end: float, below: float = 0) -> str:
        """Drag along the scale of time, from and to a time, and return what the tip says before the button is up."""
        self.tab.mouse.move(self.left + start / PIXEL, self.axis)
        self.tab.mouse.down()
        self.tab.mouse.move(self.left + end / PIXEL, self.axis + below)
        said = str(self.tab.locator("#tip").inner_text())
        self.tab.mouse.up()
        return said


@pytest.fixture
def shown(opened: Callable[..., Opened]) -> Shown:
    """Open a page whose activities lie near each other, inside each other, and at the same time in two strips."""
    rows = [
        (0, 100, 1000, "left"),
        (0, 1024, 2006, "middle"),
        (0, 2030, 3030, "right"),
        (0, 3130, 3500, "after a gap"),
        (0, 4000, 6000, "outer"),
        (0, 4900, 5100, "inner"),
        (0, 7000, 8000, "long"),
        (0, 8000, 8005, "short"),
        (0, 500, 1015, "copied"),
    ]
    copied = pl.col("name").cast(pl.String) == "copied"
    work = work_of(rows).with_columns(kind=pl.when(copied).then(pl.lit("copy")).otherwise(pl.lit("kernel")))
    run = run_of(work, ranks=1)._replace(active=Span(0, 20_000), duration=20_000)
    return Shown(opened(page(analyze_run(run, Question()), "few activities")))


def test_a_click_between_two_activities_selects_the_nearer_one(shown: Shown) -> None:
    # Both are within one and a half pixels: 10 ns after the one, and 14 ns before the other.
    assert shown.clicked(1010) == "left"
    # 14 ns after the one, and 10 ns before the other, which lasts longer.
    assert shown.clicked(2020) == "right"
    assert shown.clicked(3040) == "right"
    # Five pixels are too far.
    assert shown.clicked(3080) == ""
    assert shown.clicked(3120) == "after a gap"


def test_a_click_selects_the_shortest_activity_that_holds_it(shown: Shown) -> None:
    assert shown.clicked(4500) == "outer"
    assert shown.clicked(5000) == "inner"
    assert shown.clicked(5500) == "outer"
    # The one beside it is 10 ns away, but does not hold it.
    assert shown.clicked(7990) == "long"
    assert shown.clicked(8010) == "short"


def test_a_click_selects_in_the_strip_that_it_hits(shown: Shown) -> None:
    assert shown.clicked(600) == "left"
    assert shown.clicked(600, "copies") == "copied"
    assert shown.clicked(1020, "copies") == "copied"
    assert shown.clicked(300, "copies") == ""


@pytest.mark.parametrize(("start", "end"), [(1000, 6000), (6000, 1000)])
def test_a_drag_along_the_scale_shows_the_time_between_its_ends(shown: Shown, start: int, end: int) -> None:
    said = shown.drag(start, end)
    assert said == f"{start / 1e6:.3f} ms to {end / 1e6:.3f} ms: 5 us"
    assert shown.one.view() == pytest.approx((1000, 6000))
    # With the button up, the pointer only tells the time.
    shown.tab.mouse.move(shown.left + 200, shown.axis)
    assert " to " not in shown.tab.locator("#tip").inner_text()
    assert shown.one.view() == pytest.approx((1000, 6000))


def test_a_drag_that_leaves_the_scale_ends_where_it_is_left(shown: Shown) -> None:
    shown.drag(1000, 6000, below=200)
    assert shown.one.view() == pytest.approx((1000, 6000))


def test_a_drag_past_the_end_of_the_scale_shows_the_rest(shown: Shown) -> None:
    shown.drag(5000, PIXEL * (shown.width + 10))
    assert shown.one.view() == pytest.approx((5000, PIXEL * shown.width))


def test_a_click_on_the_scale_moves_nothing(shown: Shown) -> None:
    before = shown.one.view()
    shown.drag(1000, 1000 + 3 * PIXEL)
    assert shown.one.view() == before
    shown.drag(1000, 1000 + 4 * PIXEL)
    assert shown.one.view() == pytest.approx((1000, 1000 + 4 * PIXEL))
