"""Tables of figures: how a cfg of one is made, and its columns named."""

from __future__ import annotations

from typing import NamedTuple

from nsys2prv.model import event_types as types
from nsys2prv.model.table_columns import column_of
from nsys2prv.paraver.cfg.look import PERCENT
from nsys2prv.paraver.cfg.text import (
    ONE_A_VALUE,
    AnyWindow,
    Cfg,
    DerivedWindow,
    Histogram,
    HistogramColumns,
    Level,
    SingleWindow,
    Unit,
    fixed,
)
from nsys2prv.paraver.cfg.windows import ABOVE, inside, of, within

BY_ROW = "By row (thread or stream), not by rank."
ONE_DEVICE = """A rank's row is its device, idle or not; several devices of one process count as one, which
`nsys2prv analyze` tells apart."""
ALL_DEVICES = """Several devices of one process count as one, which `nsys2prv analyze` tells apart."""


class Figure(NamedTuple):
    """A figure of a table: a statistic of `data`, or of the window that gives the columns.

    `percent`: figures are colored from 0 to 100 in every trace. `unit`: of times.
    """

    statistic: str
    data: AnyWindow | None = None
    percent: bool = False
    unit: Unit = "Milliseconds"


def table(
    name: str,
    title: str,
    about: str,
    how: str,
    control: AnyWindow,
    figure: Figure,
    columns: HistogramColumns = ONE_A_VALUE,
) -> Cfg:
    """Make the cfg of a table: its columns are the values of `control`, and it has the figure of each."""
    scale = PERCENT if figure.percent else None
    histogram = Histogram(title, control, figure.statistic, columns, figure.data, scale=scale)
    return Cfg("analysis", name, title, about, how, histograms=(histogram,), unit=figure.unit)


def by_row(name: str, title: str, about: str, how: str, events: AnyWindow, figure: Figure) -> Cfg:
    """Make a table of one column for each value of the events on each row."""
    return table(name, title, about, how, within(f"{events.name} in the window", events), figure)


def single_figure(name: str, title: str, about: str, how: str, column: str, figure: Figure) -> Cfg:
    """Make a table of one named column: a figure over the whole window of interest."""
    number = column_of(column)
    return table(name, title, about, how, named(column), figure, fixed(number, number))


def shares(name: str, title: str, about: str, how: str, state: AnyWindow, names: tuple[int, int]) -> Cfg:
    """Make a table of shares of time in percent, one named column for each state: see `state_names`.

    `names`: the first and last column; shares are of their time.
    """
    return table(name, title, about, how, state_names(state), Figure("% Time", percent=True), fixed(*names))


def named(column: str) -> SingleWindow:
    """Show the number of a column while the window of interest lasts, by rank."""
    number = column_of(column)
    return SingleWindow(
        f"Window of interest: {column}",
        of(types.WINDOW),
        level="task",
        functions=ABOVE,
        compose={"compose_thread": f"Translate {{ 1, {{ 2 1 {number} }} }}"},
    )


def state_names(state: AnyWindow) -> DerivedWindow:
    """Show the number of a column for each state in the window of interest, 0 outside."""
    level: Level = state.level
    return DerivedWindow(f"{state.name} in the window", "product", inside(level), state, level=level)
