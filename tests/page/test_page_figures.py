"""The figures of the page are those of the JSON, and nothing that the terminal prints is missing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from page_cases import RUNS, Opened

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.sentences import communication_row
from nsys2prv.cli.analysis_text import sections, window_lines
from nsys2prv.page.page import page
from nsys2prv.page.tables import tables

pytestmark = pytest.mark.browser

# Tables whose rows and columns are those of the JSON: key of the table -> where they are.
ALIKE: dict[str, Callable[[dict[str, Any]], list[dict[str, Any]]]] = {
    "devices": lambda v: v["devices"],
    "main_threads": lambda v: v["host"]["ranks"],
    "iterations": lambda v: v["iterations"]["rows"],
    "waiting": lambda v: v["waiting"],
    "waiting_of_gpus": lambda v: v["waiting_of_gpus"],
    "idle_causes": lambda v: v["idle_causes"],
    "critical_path_pieces": lambda v: v["critical_path"]["pieces"],
    "launches": lambda v: v["launches"]["kernels"],
    "queues": lambda v: v["launches"]["queues"],
    "delays": lambda v: v["iterations"]["delays"],
    "pipeline": lambda v: v["pipeline"],
    **{
        name: (lambda v, name=name: v[name])  # type: ignore[misc]
        for name in ("kernels", "classes", "memory", "memory_kinds", "api", "ranges", "idle", "nccl_bandwidths")
    },
}
# Begin of tables that hold more columns than the JSON, behind its own.
BEGINS: dict[str, Callable[[dict[str, Any]], list[dict[str, Any]]]] = {
    "communication": lambda v: v["communication"],
    "causes": lambda v: v["causes"],
    "contention": lambda v: v["contention"],
    "what_if": lambda v: v["what_if"],
    "critical_path": lambda v: v["critical_path"]["by_kind"],
}


def numbers(rows: list[dict[str, Any]]) -> list[list[float]]:
    """The numbers of rows of JSON, in their order."""
    return [[v for v in row.values() if isinstance(v, int | float) and not isinstance(v, bool)] for row in rows]


@pytest.fixture(params=RUNS)
def both(
    request: pytest.FixtureRequest, analysed: Callable[[str], Analysis], opened: Callable[..., Opened]
) -> tuple[Analysis, Opened]:
    found = analysed(request.param)
    one = opened(page(found, request.param))
    one.open_tables()
    return found, one


def test_tables_equal_the_json(both: tuple[Analysis, Opened]) -> None:
    found, one = both
    values, shown = found.as_json(), one.tables()
    compared = 0
    for key, of in {**ALIKE, **BEGINS}.items():
        rows = of(values)
        assert (key in shown) == bool(rows), key
        if not rows:
            continue
        expected = numbers(rows)
        told = [[cell for cell in row if not isinstance(cell, str)] for row in shown[key]]
        if key in BEGINS:
            told = [row[: len(own)] for row, own in zip(told, expected, strict=True)]
        assert told == expected, key
        compared += sum(map(len, expected))
    assert compared > 20


def test_the_verdict_and_the_findings_are_those_of_the_json(both: tuple[Analysis, Opened]) -> None:
    found, one = both
    values = found.as_json()
    if found.efficiency.devices or found.host.mpi is not None:
        share = values["efficiency"]["parallel"] if found.efficiency.devices else values["host"]["mpi"]
        assert one.tab.locator(".big").inner_text() == f"{100 * share:.1f} %"
    assert [item.get_attribute("data-id") for item in one.tab.locator(".findings > li").all()] == [
        finding["id"] for finding in values["findings"]
    ]
    text = one.text()
    for finding in values["findings"]:
        assert finding["title"] in text
        # The page names the reports in place of RUN.
        assert re.search(r"\S+".join(map(re.escape, finding["advice"].split("RUN"))), text)
    if communication_row(found):
        factors = [values["efficiency"][name] for name in ("communication", "serialization", "transfer")]
        assert one.tables()["factors"] == [factors]


def test_nothing_that_the_terminal_prints_is_missing(both: tuple[Analysis, Opened]) -> None:
    """Every number of each section, to one unit of the last digit that the terminal prints, and every remark."""
    found, one = both
    texts: dict[str, str] = {}
    shown = dict(
        one.tab.evaluate(
            "[...document.querySelectorAll('details.table')].map(one => [one.id.replace(/^table-(0-)?/, ''),"
            " [...one.querySelectorAll('td')].map(cell => cell.textContent).join('  ')])"
        )
    )
    for table in tables(found, found.as_json()):
        texts[table.section] = texts.get(table.section, "") + "  " + shown[table.key]
    for name, title, _, rows in sections(found, False):
        if not rows:
            continue
        known = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", texts[name])]
        for text in (cell for row in rows for cell in row if "not shown" not in cell and not cell.endswith("...")):
            for word in text.replace("+-", "").split():
                if re.fullmatch(r"-?\d+(\.\d+)?", word):
                    unit = 1.01 * 10.0 ** -len(word.partition(".")[2])
                    assert any(abs(float(word) - value) <= unit for value in known), (title, text)
    text = one.text()
    for remark in (*found.run.remarks, *found.run.details, *(d.sentence for d in found.run.defects)):
        assert remark in text
    for what, how in found.missing.items():
        assert what in text
        assert str(how) in text
    for line in [*window_lines(found)][1:]:
        assert line in text
