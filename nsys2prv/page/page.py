"""The page as text: the template with its parts, and the data of one run, or of two."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.compare.comparison import Comparison
from nsys2prv.analysis.compare.run_figures import differs, unit_of_figure, words_of_figure
from nsys2prv.analysis.findings.finding import RUN
from nsys2prv.analysis.shown_tables import ShownTable
from nsys2prv.intervals.spans import Span
from nsys2prv.model.basis import basis
from nsys2prv.model.palette import FAMILY_BLOCKS, KIND_COLORS
from nsys2prv.model.units import FRACTION, MS, NUMBER, Unit
from nsys2prv.page import detail, head
from nsys2prv.page.encoding import columns_block, json_block
from nsys2prv.page.lines import KINDS, Timeline, timeline
from nsys2prv.page.tables import PageTable, table_of, tables

# In the order in which they use each other.
SCRIPTS = ("basics.js", "data.js", "tables.js", "lines.js", "draw.js", "pointing.js", "pointerkeys.js", "timeline.js",
           "search.js", "strip.js", "main.js")  # fmt: skip


class _Blocks:
    """Blocks of data of a page. Each is a text of its own, which the page unpacks when it needs it."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, text: str) -> int:
        """Return the number of a new block."""
        self.texts.append(text)
        return len(self.texts) - 1

    def added(self, block: dict[str, Any]) -> dict[str, Any]:
        """Return a block's description, with the number of its text in place of the text."""
        return {**{n: v for n, v in block.items() if n != "text"}, "block": self.add(block["text"])}


def page(analysis: Analysis, name: str, inputs: str = RUN) -> str:
    """Return the page of a run as text. `name`: what the run is called; `inputs`: its reports in commands."""
    return page_with(analysis, name, timeline(analysis), inputs)


def page_with(analysis: Analysis, name: str, drawn: Timeline, inputs: str = RUN) -> str:
    """Return the page of a run on whose timeline `drawn` is drawn. `inputs`: its reports in commands."""
    blocks = _Blocks()
    side = _side(analysis, name, drawn, blocks)
    body = [
        head.run_facts(analysis, name, inputs),
        head.verdict(analysis),
        head.defects(analysis),
        head.findings(analysis, inputs, 0),
    ]
    return _filled(f"{name}: where the time goes", "\n".join(body), {"sides": [side], "tables": []}, blocks)


def comparison_page(comparison: Comparison) -> str:
    """Return the page of two runs as text. Their analyses are kept, but for that of a recorded run."""
    blocks = _Blocks()
    sides: list[dict[str, Any]] = []
    parts = [
        f'<p class="verdict text">{escape(comparison.verdict.text)}</p>{_figures_left_out(comparison)}'
        '<div id="both"></div><div class="runs">'
    ]
    for letter, run in (("A", comparison.a), ("B", comparison.b)):
        if run.analysis is None:
            parts.append(f'<p class="note">{letter}: {escape(run.name)} is a recorded run and has no timeline.</p>')
            continue
        one, name, inputs = run.analysis, Path(run.name).name or run.name, shlex.quote(run.name)
        parts += [f"<div><h2>{letter}: {escape(run.name)}</h2>", head.run_facts(one, name, inputs), head.verdict(one)]
        parts += [head.defects(one), head.findings(one, inputs, len(sides)), "</div>"]
        sides.append(_side(one, f"{letter}: {name}", timeline(one), blocks))
    parts.append("</div>")
    shown = [_described(table, blocks) for table in _comparison_tables(comparison)]
    title = f"{comparison.a.name} (A) and {comparison.b.name} (B) compared"
    return _filled(title, "\n".join(parts), {"sides": sides, "tables": shown}, blocks)


def _comparison_tables(comparison: Comparison) -> Iterator[PageTable]:
    """Yield the changes with their significance, and the figures that differ by unit."""
    values = comparison.as_json()
    tested = values["significance"]
    changes = [{"of": "iteration", **tested["iteration"]}] if tested["iteration"] else []
    changes += [{"of": f"rank {one['rank']}, compute", **{n: v for n, v in one.items() if n != "rank"}}
                for one in tested["ranks"]]  # fmt: skip
    if changes:
        heads = {"a_ns": f"A {MS.sign}", "b_ns": f"B {MS.sign}"}
        yield table_of(ShownTable("comparison", "significance", "Changes, and their significance", heads), changes)
    sums = basis(all(comparison.iterations))
    titles = {
        MS: ("times", f"Times of A and B: sums over the ranks in {sums}"),
        FRACTION: ("efficiencies", "Efficiencies of A and B"),
        NUMBER: ("figures", "Other figures of A and B"),
    }
    for unit, (key, title) in titles.items():
        words = {"a": "A", "b": "B", "difference": "B - A"}
        heads = {name: f"{said} {unit.sign}".strip() for name, said in words.items()}
        table = ShownTable("comparison", key, title, heads, dict.fromkeys(heads, unit))
        compared = _compared(comparison.told.to_dicts(), all(comparison.iterations), comparison.only_copies)
        if rows := [row for row, own in compared if own == unit]:
            yield table_of(table, rows)


def _figures_left_out(comparison: Comparison) -> str:
    """Return notes on the figures that no table has: those that are not compared, and those that do not differ."""
    figures = comparison.told.select("what", "name", "difference").rows()
    same = sum(not differs(*one) for one in figures)
    said = f"{same} of {len(figures)} figures do not differ in the digits that are shown, and are left out"
    notes = [comparison.not_told, f"{said} (--json has all)." if same else ""]
    return "".join(f'<p class="note">{escape(note)}</p>' for note in notes if note)


def _compared(
    rows: Sequence[Mapping[str, Any]], of_iterations: bool, only_copies: bool
) -> Iterator[tuple[dict[str, Any], Unit]]:
    """Yield each row that differs with the words of its figure, and its unit: MS, FRACTION or NUMBER.

    `of_iterations`, `only_copies`: see words_of_figure.
    """
    for row in rows:
        if not differs(row["what"], row["name"], row["difference"]):
            continue
        what, name = words_of_figure(row["what"], row["name"], of_iterations, only_copies)
        unit = unit_of_figure(row["what"], row["name"])
        yield {**row, "what": what, "name": name}, unit if unit.sign else NUMBER


def _side(analysis: Analysis, name: str, drawn: Timeline, blocks: _Blocks) -> dict[str, Any]:
    """Return the description of a run's data, which goes to blocks."""
    marks = _iteration_marks(analysis)
    wanted = [one.at_ns for one in analysis.findings if one.at_ns is not None]
    window = Span(analysis.window.start, analysis.window.end)
    return {
        "name": name,
        "ranks": analysis.run.rank_count,
        "window": list(window),
        "window_name": analysis.window.name,
        "pattern": analysis.iteration_pattern,
        "marks": marks,
        "iterations": blocks.add(json_block(_strip(analysis))) if analysis.iterations.height else None,
        "slow": _ranks_to_look_at(analysis),
        "timeline": timeline_data(
            drawn, analysis.run.duration, window, [Span(s, e) for _, s, e in marks], wanted, blocks
        ),
        "tables": [_described(table, blocks) for table in tables(analysis, analysis.as_json())],
    }


def timeline_data(
    drawn: Timeline, duration: int, window: Span, iterations: Sequence[Span], wanted: Sequence[int], blocks: _Blocks
) -> dict[str, Any]:
    """Return the description of a timeline: lines, bins, exact activities, names and the critical path."""
    activities, lines = drawn.activities, len(drawn.lines)
    latest = max(duration, int(activities["end"].max() or 0), window.end, 1)  # type: ignore[arg-type]
    stretches = detail.bin_edges(latest, window, lines)
    found = detail.shares(activities, lines, detail.edges_of(stretches))
    spans = detail.exact_spans(activities, iterations, wanted, latest)
    exact = detail.held_exactly(activities, spans)
    names = _names(activities)
    path_kinds = drawn.path["kind"].unique(maintain_order=True).to_list()
    number_of = {kind: n for n, kind in enumerate(path_kinds)}
    columns, text = columns_block(
        {
            "line": drawn.path["line"].to_numpy(),
            "start": drawn.path["start"].to_numpy(),
            "length": (drawn.path["end"] - drawn.path["start"]).to_numpy(),
            "kind": drawn.path["kind"].replace_strict(number_of, return_dtype=pl.Int64).to_numpy(),
        }
    )
    return {
        "duration": latest,
        "lines": blocks.add(json_block([[line.kind, line.rank, line.host, line.label] for line in drawn.lines])),
        "count": lines,
        "activities": activities.height,
        "kept": exact.height,
        "stretches": stretches,
        "bins": [blocks.added(block) for block in detail.shares_blocks(found)],
        "exact_spans": [list(span) for span in spans],
        "exact": [blocks.added(block) for block in detail.exact_blocks(exact, names["name"], lines)] if lines else [],
        "names": blocks.add(json_block({c: names[c].to_list() for c in names.columns})),
        "path": {"count": drawn.path.height, "kinds": path_kinds, "columns": columns, "block": blocks.add(text)},
    }


def _names(activities: pl.DataFrame) -> pl.DataFrame:
    """Return each name with count, total time, and line, begin and end of its longest activity, the most time first."""
    length = pl.col("end") - pl.col("start")
    longest = length.arg_max()
    return (
        activities.group_by("name", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            length.sum().alias("ns"),
            *(pl.col(c).get(longest) for c in ("line", "start", "end")),
        )
        .with_columns(pl.col("name").cast(pl.String))
        .sort("ns", "name", descending=[True, False])
    )


def _iteration_marks(analysis: Analysis) -> list[list[int]]:
    """Return number, first begin and last end over the ranks of each iteration."""
    steps = analysis.iterations.group_by("repeat", "iteration").agg(
        pl.col("start_ns").min(), end=(pl.col("start_ns") + pl.col("total_ns")).max()
    )
    return [list(row) for row in steps.sort("start_ns").select("iteration", "start_ns", "end").rows()]


def _strip(analysis: Analysis) -> dict[str, list[Any]]:
    columns = ("rank", "iteration", "repeat", "start_ns", "total_ns", "own_ns")
    return {c: analysis.iterations[c].to_list() for c in columns}


def _ranks_to_look_at(analysis: Analysis) -> dict[str, Any] | None:
    return analysis.ranks._asdict() if analysis.ranks else None


def _described(table: PageTable, blocks: _Blocks) -> dict[str, Any]:
    """Return the description of a table, whose values go to a block."""
    heads = [[column.title, column.scale, column.digits] for column in table.columns]
    block = blocks.add(json_block([column.values for column in table.columns]))
    return {
        "section": table.section,
        "key": table.key,
        "title": table.title,
        "note": table.note,
        "rows": table.height,
        "columns": heads,
        "block": block,
    }


def _filled(title: str, body: str, data: dict[str, Any], blocks: _Blocks) -> str:
    """Return the template with its parts. Inside a script, only `<` can end the data."""
    data = {
        **data,
        "kinds": [[kind.name, kind.color.hex, kind.strip] for kind in KINDS],
        "families": {block.name: block.color.hex for block in FAMILY_BLOCKS},
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    style = " ".join(f"--{name}: {color.hex};" for name, color in KIND_COLORS.items())
    packed = "".join(f'<script type="text/plain" id="b{n}">{one}</script>\n' for n, one in enumerate(blocks.texts))
    parts = {
        "<!--TITLE-->": escape(title),
        "/*STYLE*/": f":root {{ {style} }}\n{_asset('page.css')}",
        "<!--HEAD-->": body,
        "/*DATA*/": text,
        "<!--BLOCKS-->": packed,
        "/*SCRIPT*/": "\n".join(_asset(name) for name in SCRIPTS),
    }
    # In one pass, so that no mark is looked for inside a part.
    return re.sub("|".join(map(re.escape, parts)), lambda mark: parts[mark[0]], _asset("page.html"))


def _asset(name: str) -> str:
    return files("nsys2prv.page").joinpath("assets", name).read_text(encoding="utf-8")
