"""The page in Chromium: hover, zoom, search, keys, links, narrow screens, dark, and one of 1,024 ranks."""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl
import pytest
from analysis_cases import run_of, work_of
from page_cases import RUNS, Opened, many_ranks

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.analyze_run import analyze_run
from nsys2prv.analysis.question import Question
from nsys2prv.page import detail
from nsys2prv.page.page import page

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]


@pytest.fixture
def gpt(page_of: Callable[[str], str], opened: Open) -> Opened:
    return opened(page_of("gpt-ddp"))


def test_a_pointer_over_a_kernel_shows_its_name_and_times(gpt: Opened, analysed: Callable[[str], Analysis]) -> None:
    work = analysed("gpt-ddp").run.work.filter(pl.col("kind") == "kernel")
    longest = work.sort(pl.col("end") - pl.col("start"), descending=True).row(0, named=True)
    gpt.tab.mouse.move(*gpt.place_of(longest["name"], "compute"))
    said = gpt.tab.locator("#tip").inner_text()
    assert longest["name"] in said
    assert "compute" in said
    assert f"lasts {(longest['end'] - longest['start']) / 1e3:.4g} us" in said
    assert re.search(r"on rank \d, GPU \d, on gpu-node\d", said)


def test_a_click_selects_and_escape_ends_it(gpt: Opened) -> None:
    gpt.tab.mouse.click(*gpt.place_of("multi_tensor_apply_kernel", "compute"))
    assert "multi_tensor_apply_kernel" in gpt.tab.locator(".chosen").inner_text()
    gpt.tab.keyboard.press("Escape")
    assert gpt.tab.locator(".chosen").inner_text() == ""


def test_ctrl_and_wheel_zoom_at_the_pointer_and_a_plain_wheel_scrolls_the_page(gpt: Opened) -> None:
    x, y = gpt.place_of("multi_tensor_apply_kernel", "compute")
    low, high = gpt.view()
    gpt.tab.mouse.move(x, y)
    gpt.tab.keyboard.down("Control")
    gpt.tab.mouse.wheel(0, -100)
    gpt.tab.keyboard.up("Control")
    near, far = gpt.view()
    assert far - near == pytest.approx(0.8 * (high - low))
    assert (near + far) / 2 == pytest.approx((low + high) / 2, abs=0.01 * (high - low))
    # Scrolled past the last line, the box hands the wheel to the page.
    gpt.tab.evaluate("timelines[0].box.scrollTop = 1e6")
    before = gpt.tab.evaluate("scrollY")
    gpt.tab.mouse.wheel(0, 300)
    gpt.tab.wait_for_function(f"scrollY > {before}")
    assert gpt.view() == (near, far)


def test_keys_move_zoom_and_go_home(gpt: Opened) -> None:
    home = gpt.view()
    gpt.tab.locator(".rows").focus()
    gpt.tab.keyboard.press("ArrowRight")
    moved = gpt.view()
    assert moved[0] - home[0] == pytest.approx(0.2 * (home[1] - home[0]))
    gpt.tab.keyboard.press("+")
    assert gpt.view()[1] - gpt.view()[0] == pytest.approx((home[1] - home[0]) / 2)
    gpt.tab.keyboard.press("-")
    gpt.tab.keyboard.press("Home")
    assert gpt.view() == home
    gpt.tab.keyboard.press("ArrowDown")
    assert "rank 0, main thread" in gpt.tab.locator(".chosen").inner_text()
    gpt.tab.keyboard.press("Shift+ArrowRight")
    first = gpt.tab.locator(".chosen").inner_text()
    gpt.tab.keyboard.press("Shift+ArrowRight")
    assert first.startswith("Selected:")
    assert first != gpt.tab.locator(".chosen").inner_text()
    gpt.tab.keyboard.press("/")
    assert gpt.tab.evaluate("document.activeElement.type") == "search"
    gpt.tab.keyboard.press("Escape")
    assert gpt.tab.evaluate("document.activeElement.className") == "rows"


def test_a_search_counts_all_and_goes_from_one_to_the_next(gpt: Opened, analysed: Callable[[str], Analysis]) -> None:
    run = analysed("gpt-ddp").run
    count = sum(frame[c].cast(pl.String).str.to_lowercase().str.contains("multi_tensor").sum()
                for frame, c in ((run.work, "name"), (run.ranges, "text"), (run.calls, "name")))  # fmt: skip
    gpt.tab.keyboard.press("/")
    gpt.tab.keyboard.type("MULTI_tensor")
    assert f"{count} times in the run" in gpt.tab.locator(".results p").inner_text()
    gpt.tab.keyboard.press("Enter")
    gpt.tab.wait_for_selector(".chosen b")
    one = gpt.tab.locator(".chosen").inner_text()
    gpt.tab.keyboard.press("Enter")
    gpt.tab.wait_for_function(f"document.querySelector('.results p').textContent.startsWith('2 of {count}')")
    assert "multi_tensor" in one
    assert one != gpt.tab.locator(".chosen").inner_text()
    gpt.tab.locator(".results button").first.click()
    low, high = gpt.view()
    longest = run.work.filter(pl.col("name").cast(pl.String).str.contains("multi_tensor"))
    assert high - low == pytest.approx(3 * (longest["end"] - longest["start"]).max(), rel=0.01)


def test_the_link_of_a_finding_shows_its_place(gpt: Opened, analysed: Callable[[str], Analysis]) -> None:
    finding = next(one for one in analysed("gpt-ddp").findings if one.at_ns is not None)
    gpt.tab.locator(f"li[data-id={finding.id}] a.go").click()
    gpt.tab.wait_for_function(f"timelines[0].at === {finding.at_ns}")
    low, high = gpt.view()
    assert low <= finding.at_ns < high
    assert high - low < 0.05 * (gpt.tab.evaluate("timelines[0].home.to - timelines[0].home.from"))
    assert gpt.tab.evaluate("timelines[0].frame.getBoundingClientRect().top < innerHeight")
    # The place that is shown is a link of its own, and can be sent.
    assert f"at={finding.at_ns}" in gpt.tab.evaluate("location.hash")


def test_ticks_are_round(gpt: Opened) -> None:
    for low, high in ((0, 778333621), (497580404, 698778940), (1000, 1033), (5e8, 5e8 + 7654)):
        step, times = gpt.tab.evaluate("([low, high]) => Object.values(ticks(low, high, 9))", [low, high])
        assert str(int(step)).rstrip("0") in ("1", "2", "5")
        assert 3 <= len(times) <= 10
        assert all(time % step == 0 and low <= time <= high for time in times)


def test_tables_sort_by_a_click(gpt: Opened) -> None:
    gpt.tab.locator("#table-0-kernels summary").click()
    head = gpt.tab.locator("#table-0-kernels th", has_text="instances")
    head.locator("button").click()
    column = (
        "[...document.querySelectorAll('#table-0-kernels tbody tr')].map(row => Number(row.cells[5].dataset.value))"
    )
    assert head.get_attribute("aria-sort") == "descending"
    counts = gpt.tab.evaluate(column)
    assert counts == sorted(counts, reverse=True)
    head.locator("button").click()
    assert gpt.tab.evaluate(column) == sorted(counts)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_420_pixels(page_of: Callable[[str], str], opened: Open, run: str, scheme: str) -> None:
    one = opened(page_of(run), width=420, scheme=scheme)
    one.open_tables()
    assert one.tab.evaluate("document.documentElement.scrollWidth") <= 420
    assert one.tab.evaluate("document.documentElement.dataset.theme") == scheme
    assert one.tab.evaluate("timelines[0].area().width") > 250


def test_dark_and_light_differ_and_a_button_changes_them(gpt: Opened) -> None:
    light = gpt.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    gpt.tab.get_by_role("button", name="Dark").click()
    assert gpt.tab.evaluate("getComputedStyle(document.body).backgroundColor") != light
    gpt.tab.get_by_role("button", name="Light").click()
    assert gpt.tab.evaluate("getComputedStyle(document.body).backgroundColor") == light


def colors_drawn(one: Opened) -> set[tuple[int, ...]]:
    """The colors of the timeline's picture."""
    found = one.tab.evaluate(
        "(() => { const c = timelines[0].canvas, d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " const s = new Set(); for (let n = 0; n < d.length; n += 4) s.add(`${d[n]},${d[n + 1]},${d[n + 2]}`);"
        " return [...s]; })()"
    )
    return {tuple(map(int, color.split(","))) for color in found}


def test_waiting_and_transfer_have_two_shades_on_devices_and_hosts(page_of: Callable[[str], str], opened: Open) -> None:
    for run in ("gpt-ddp", "mpi-halo"):
        drawn = colors_drawn(opened(page_of(run)))
        assert {(150, 75, 0), (255, 140, 0), (42, 120, 214)} <= drawn


def test_the_critical_path_is_drawn_where_it_is_asked_for(gpt: Opened) -> None:
    mark = (29, 33, 41)
    gpt.tab.evaluate("timelines[0].rows && (() => { const [, end] = [0, timelines[0].lines.path.start[5]];"
                     " timelines[0].show(end, end + 1e6); })()")  # fmt: skip
    gpt.settle()
    with_path = gpt.tab.evaluate("timelines[0].canvas.toDataURL()")
    assert mark in colors_drawn(gpt)
    gpt.tab.get_by_label("critical path").uncheck()
    gpt.settle()
    assert gpt.tab.evaluate("timelines[0].canvas.toDataURL()") != with_path


def test_a_page_of_1024_ranks_is_bounded_and_whole(opened: Open) -> None:
    text = page(many_ranks(1024), "many")
    one = opened(text)
    assert len(text) < 3_000_000
    assert one.tab.evaluate("timelines[0].rows.length") == 2048
    # Lines scroll inside a box, and tables are folded.
    assert one.tab.evaluate("timelines[0].box.clientHeight") < 900
    assert one.tab.evaluate("document.documentElement.scrollHeight") < 5000
    one.tab.evaluate("timelines[0].box.scrollTop = 1e9")
    one.settle()
    x, y = one.place_of("cudaLaunchKernel", "CUDA calls")
    one.tab.mouse.move(x, y)
    assert "cudaLaunchKernel" in one.tab.locator("#tip").inner_text()
    one.open_tables()
    assert len(one.tables()["devices"]) == 1024
    assert len(one.tables()["iterations"]) == 4096
    assert "rank 7 in 4 of 4" in one.text()


def test_what_is_binned_is_said_and_drawn(monkeypatch: pytest.MonkeyPatch, opened: Open,
                                         analysed: Callable[[str], Analysis]) -> None:  # fmt: skip
    found = analysed("gpt-ddp")
    monkeypatch.setattr(detail, "EXACT", 20_000)
    one = opened(page(found, "gpt-ddp"))
    (low, high), *_ = one.tab.evaluate("timelines[0].lines.data.exact_spans")
    one.tab.evaluate(f"timelines[0].show({low}, {low} + 20000)")
    one.settle()
    assert "Every activity is drawn" in one.tab.locator(".status").first.inner_text()
    one.tab.evaluate("timelines[0].show(timelines[0].side.timeline.exact_spans.at(-1)[1] + 1e6,"
                     " timelines[0].side.timeline.exact_spans.at(-1)[1] + 1.02e6)")  # fmt: skip
    one.settle()
    said = one.tab.locator(".status").first.inner_text()
    assert "Binned: shares of time in bins of" in said
    assert re.search(r"Of [\d,]+ activities the page holds [\d,]+ one by one", said)
    assert high > low


@pytest.mark.parametrize("ratio", [0.5, 1, 2])
def test_a_time_is_said_to_be_binned_if_and_only_if_bins_are_drawn(
    page_of: Callable[[str], str], opened: Open, ratio: float
) -> None:
    one = opened(page_of("gpt-ddp"), ratio=ratio)
    for part in (0.4, 0.75, 1.5, 3):
        # A bin is as wide as a part of a CSS pixel, inside of the window.
        one.tab.evaluate(
            "part => { const one = timelines[0], [low, high] = one.side.window, bin = one.lines.binWidth(low, high);"
            " const middle = (low + high) / 2, half = bin * one.area().width / part / 2;"
            " one.show(middle - half, middle + half); }",
            part,
        )
        one.settle()
        said = "in bins of" in one.tab.locator(".status").inner_text()
        # Where bins are drawn, the picture needs no exact activities.
        drawn = one.tab.evaluate(
            "async () => { const one = timelines[0], { data } = one.lines, spans = data.exact_spans;"
            " const before = one.canvas.toDataURL(); data.exact_spans = []; one.drawNow();"
            " const after = one.canvas.toDataURL(); data.exact_spans = spans; return before === after; }"
        )
        assert said == drawn, part
        assert drawn == (part * ratio <= 1), part


def test_the_strip_of_one_rank_is_not_of_one_color(opened: Open) -> None:
    found = many_ranks(1, steps=4)
    rows = found.iterations.with_columns(own_ns=pl.Series([10, 10, 14, 8], dtype=pl.Int64))
    one = opened(page(found._replace(iterations=rows), "one rank"))
    drawn = one.tab.evaluate(
        "(() => { const picture = document.querySelector('.strip canvas').getContext('2d');"
        " const row = picture.getImageData(76, 8, 240, 1).data;"
        " return [0, 1, 2, 3].map(n => row.slice(4 * (60 * n + 20), 4 * (60 * n + 21)).join()); })()"
    )
    assert len(set(drawn)) == 3


def test_a_click_on_the_strip_shows_the_iteration(gpt: Opened, analysed: Callable[[str], Analysis]) -> None:
    strip = gpt.tab.locator(".strip canvas")
    strip.scroll_into_view_if_needed()
    strip.click(position={"x": 76 + 60 * 2 + 30, "y": 8})
    step = analysed("gpt-ddp").iterations.filter((pl.col("rank") == 0) & (pl.col("iteration") == 5)).row(0, named=True)
    assert gpt.view() == (step["start_ns"], step["start_ns"] + step["total_ns"])


@pytest.mark.parametrize("ratio", [1, 2])
def test_a_strip_of_many_iterations_is_drawn_in_part_and_all_can_be_clicked(opened: Open, ratio: int) -> None:
    found, count, slow = many_ranks(1), 25_000, 20_000
    steps = pl.int_range(count, eager=True)
    own = pl.when(steps == slow).then(20).otherwise(10)
    many = found.iterations[[0] * count].with_columns(iteration=steps, start_ns=25 * steps, total_ns=24, own_ns=own)
    found = found._replace(iterations=many, run=found.run._replace(duration=25 * count))
    one = opened(page(found, "long"), ratio=ratio)
    # Browsers leave a canvas empty that is wider than about 32,767 pixels.
    box, strip = one.tab.locator(".strip"), one.tab.locator(".strip canvas")
    assert strip.evaluate("canvas => canvas.width") <= ratio * box.evaluate("box => box.clientWidth")
    # A column is 3 pixels wide.
    for step in (0, slow, count - 1):
        box.evaluate("(box, to) => { box.scrollLeft = to; }", 76 + 3 * step - 600)
        one.settle()
        x = 76 + 3 * step + 1 - box.evaluate("box => box.scrollLeft")
        drawn = strip.evaluate(
            "(canvas, [x, y]) => { const pixel = new OffscreenCanvas(1, 1).getContext('2d');"
            " pixel.drawImage(canvas, x, y, 1, 1, 0, 0, 1, 1); return [...pixel.getImageData(0, 0, 1, 1).data]; }",
            [ratio * x, ratio * 8],
        )
        assert (drawn == [255, 140, 0, 255]) == (step == slow)
        assert drawn[3] == 255
        strip.click(position={"x": x, "y": 8})
        assert one.view() == (25 * step, 25 * step + 24)


def test_a_strip_of_many_ranks_shows_those_that_are_scrolled_to(opened: Open) -> None:
    one = opened(page(many_ranks(400), "many"))
    box = one.tab.locator(".strip")
    box.evaluate("box => { box.scrollTop = 1e9; }")
    one.settle()
    # A rank is 4 pixels high, and the numbers of the iterations stand below the last.
    bottom = box.evaluate("box => box.clientHeight")
    one.tab.locator(".strip canvas").hover(position={"x": 100, "y": bottom - 18 - 2})
    assert one.tab.locator("#tip").inner_text().startswith("rank 399, iteration 0")
    one.tab.locator(".strip canvas").hover(position={"x": 100, "y": bottom - 18 - 6})
    assert one.tab.locator("#tip").inner_text().startswith("rank 398, iteration 0")


def test_a_run_without_anything_opens(opened: Open) -> None:
    one = opened(page(analyze_run(run_of(work_of([]), ranks=1)._replace(devices=()), Question()), "nothing"))
    assert "The reports hold no device activity." in one.text()
    assert one.tab.evaluate("timelines[0].rows.length") == 0
    one.tab.locator(".rows").focus()
    for key in ("ArrowDown", "ArrowRight", "Shift+ArrowRight", "+", "Enter", "Escape", "End"):
        one.tab.keyboard.press(key)
    assert one.view()[0] == 0
