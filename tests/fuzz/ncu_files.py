"""Files of Nsight Compute that are broken, beside a whole report; and what is wrong with a trace of them.

Nothing of the project is used here.
"""

from __future__ import annotations

import csv
import io
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from .inputs import TESTS
from .mutations import HOSTILE, broken_bytes
from .trace import Trace

FOLDER = TESTS / "data" / "ncu"
REPORT = FOLDER / "gpt.sqlite"
PAGES = ("steps.csv", "details.csv", "partial.csv", "renamed.csv")
# Kernels of a page that are kept: those of the first step, and a few more.
KERNELS = 24
KERNEL_TYPES, JOINED, THROUGHPUT = (63000006, 63000007), 70000130, 70000131
WAYS = ("this launch", "the same kernel (mean)", "the kernel's class (mean)")
CELLS = (
    "", "n/a", "no data", "nan", "inf", "-1", "0", "1e400", "9" * 40, "1,234", "1.234.567,8", "1,234,567.8",
    "12 (0: 12)",
    "(1, 2)", "()", "(0, 0, 0)", "(99999999999999999999, 1, 1)", "==PROF==", '"', '""', "'", "0x10", "%", "Kbyte", "\\",
    *HOSTILE,
)  # fmt: skip
Rows = list[list[str]]


def broken_page(dice: random.Random) -> tuple[bytes, str]:
    """A page with something changed in it one to three times, and what was done."""
    name = dice.choice(PAGES)
    text = (FOLDER / name).read_text(encoding="utf-8")
    before, at, table = text.partition('"ID"')
    rows = list(csv.reader(io.StringIO(at + table)))
    rows = [rows[0], *(row for row in rows[1:] if not row[0].isdigit() or int(row[0]) < KERNELS)]
    if dice.random() < 0.2:
        data, done = broken_bytes(_text(before, rows).encode(), dice)
        return data, f"{name}: {done}"
    done = []
    for _ in range(dice.choice((1, 1, 2, 3))):
        what = dice.choice(sorted(CHANGES))
        CHANGES[what](rows, dice)
        done.append(what)
    return _text(before, rows).encode("utf-8", "replace"), f"{name}: {', '.join(done)}"


def _text(before: str, rows: Rows) -> str:
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return before + written.getvalue()


def _cells(rows: Rows, dice: random.Random) -> None:
    """Other cells, anywhere."""
    for _ in range(dice.choice((1, 5, 50))):
        row = dice.choice(rows)
        if row:
            row[dice.randrange(len(row))] = dice.choice(CELLS)


def _column(rows: Rows, dice: random.Random) -> None:
    """A column of other cells, but for its name."""
    column = dice.randrange(len(rows[0]))
    for row in rows[1:]:
        if column < len(row):
            row[column] = dice.choice(CELLS)


def _no_column(rows: Rows, dice: random.Random) -> None:
    column = dice.randrange(len(rows[0]))
    for row in rows:
        del row[column : column + 1]


def _column_again(rows: Rows, dice: random.Random) -> None:
    column, to = (dice.randrange(len(rows[0])) for _ in range(2))
    for row in rows:
        row.insert(to, row[column] if column < len(row) else "")


def _other_name(rows: Rows, dice: random.Random) -> None:
    rows[0][dice.randrange(len(rows[0]))] = dice.choice((*CELLS, *rows[0]))


def _ragged(rows: Rows, dice: random.Random) -> None:
    row = dice.choice(rows)
    if dice.random() < 0.5:
        del row[dice.randrange(len(row) or 1) :]
    else:
        row += ["1"] * dice.choice((1, 9))


def _shuffled(rows: Rows, dice: random.Random) -> None:
    body = rows[1:]
    dice.shuffle(body)
    rows[1:] = body


def _fewer(rows: Rows, dice: random.Random) -> None:
    rows[1:] = [row for row in rows[1:] if dice.random() < 0.6]


def _twice(rows: Rows, dice: random.Random) -> None:
    rows.insert(dice.randrange(len(rows)) + 1, list(dice.choice(rows)))


def _processes(rows: Rows, dice: random.Random) -> None:
    column = rows[0].index("Process ID") if "Process ID" in rows[0] else 1
    for row in rows[1:]:
        if column < len(row) and row[column]:
            row[column] = str(dice.randrange(3))


def _loud(rows: Rows, dice: random.Random) -> None:
    """Lines of the profiler and of the program between the others."""
    for _ in range(3):
        line = dice.choice(("==PROF== Profiling", "loss 8.3", "", "a,b,c", '"unclosed'))
        rows.insert(dice.randrange(len(rows)) + 1, [line])


def _comma(rows: Rows, dice: random.Random) -> None:
    """Decimal commas, as other locales write them."""
    for row in rows[1:]:
        row[:] = [cell.replace(".", ",") if re.fullmatch(r"\d+\.\d+", cell) else cell for cell in row]


CHANGES: dict[str, Callable[[Rows, random.Random], None]] = {
    "cells": _cells,
    "column of other cells": _column,
    "column left out": _no_column,
    "column again": _column_again,
    "another name of a column": _other_name,
    "a line shorter or longer": _ragged,
    "lines in another order": _shuffled,
    "fewer lines": _fewer,
    "a line twice": _twice,
    "processes": _processes,
    "lines between": _loud,
    "decimal commas": _comma,
}
# Changes after which each cell is as it was.
KEEPING = {"lines in another order", "fewer lines", "processes", "decimal commas"}


def wrong_of_ncu(prv: Path, rows: int) -> list[str]:
    """What is wrong with the figures of a trace: where they stand, and what they say. `rows`: as the summary counts."""
    trace = Trace(prv)
    kernels = Counter((d.row, d.begin, d.end) for d in trace.intervals if d.type in KERNEL_TYPES)
    joined = [d for d in trace.intervals if d.type == JOINED]
    found = trace.wrong[:3]
    if over := Counter((d.row, d.begin, d.end) for d in joined) - kernels:
        found.append(f"figures: {over.total()} are on no kernel")
    if {d.label for d in joined} - set(WAYS):
        found.append("figures: of another kind")
    if len(joined) != rows:
        found.append(f"figures: {len(joined)} are drawn, {rows} are told")
    carriers = {(d.row, d.begin, d.end) for d in joined}
    numbers = range(JOINED + 1, JOINED + 8)
    if any((d.row, d.begin, d.end) not in carriers for d in trace.intervals if d.type in numbers):
        found.append("figures: some say not whose they are")
    return found


def wrong_throughputs(prv: Path, page: bytes, done: str) -> list[str]:
    """Which throughputs of profiled launches no cell of the page has, in either locale, but for rounding.

    A cell that was changed may leave a launch without its own: it then has the mean of the same kernel.
    """
    if set(done.partition(": ")[2].split(", ")) - KEEPING:
        return []
    text = page.decode("utf-8", "replace")
    known = set()
    for cell in re.findall(r"[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?", text):
        for number in (cell.replace(",", ""), cell.replace(".", "").replace(",", ".")):
            try:
                known.add(str(round(100 * float(number))))
            except (ValueError, OverflowError):
                continue
    trace = Trace(prv)
    exact = {(d.row, d.begin, d.end) for d in trace.intervals if d.type == JOINED and d.label == WAYS[0]}
    shown = {d.label for d in trace.intervals if d.type == THROUGHPUT and (d.row, d.begin, d.end) in exact}
    more = {n for n in shown if not {str(int(n) + off) for off in (-1, 0, 1)} & known}
    return [f"throughputs: {len(more)} are in no cell, such as {min(more)}"] if more else []
