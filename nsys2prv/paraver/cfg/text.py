"""Text of Paraver configurations: windows, histograms and the files that hold them.

Real Paraver accepts a cfg or ignores it without a word, so that the text is made here, once: keys in the order it reads
them, one blank after each comma, every event type by number and label, times relative, and no list of objects, which
would fit one trace only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatch
from textwrap import wrap
from typing import Literal, NamedTuple

from nsys2prv.paraver.cfg.look import HIDDEN, Look, Scale, look_keys

Level = Literal["appl", "task", "thread"]
Unit = Literal["Nanoseconds", "Microseconds", "Milliseconds"]
Operation = Literal[
    "add", "product", "substract", "divide", "maximum", "minimum", "controlled: maximum", "controlled: average"
]

# From the finest to the coarsest: a function is given for each level up to the window's own.
_LEVELS: tuple[Level, ...] = ("thread", "task", "appl")


class Events(NamedTuple):
    """Events by type: numbers and labels. Paraver finds a type by its label if the trace has it, else by number."""

    numbers: tuple[int, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SingleWindow:
    """A window of its own.

    `functions`: functions that combine rows, by level, from above thread up to `level` (default `Adding`).
    `compose`: a function of the values, by level, with parameters after it: `"Prod { 1, { 1 0.5 } }"`. `events` None:
    the window shows no events. `tags`: the tags of the communication records to show (default: all).
    """

    name: str
    events: Events | None
    level: Level = "thread"
    function: str = "Last Evt Val"
    functions: dict[Level, str] = field(default_factory=dict)
    compose: dict[str, str] = field(default_factory=dict)
    look: Look = HIDDEN
    tags: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class DerivedWindow:
    """A window computed from two others: `factors[0] * first operation factors[1] * second`.

    With `first` finer than `second`, each row of the first takes the value of its own object of the second. The other
    way round Paraver exchanges the two, and their factors do not follow.
    """

    name: str
    operation: Operation
    first: SingleWindow | DerivedWindow
    second: SingleWindow | DerivedWindow
    level: Level = "thread"
    factors: tuple[float, float] = (1.0, 1.0)
    functions: dict[Level, str] = field(default_factory=dict)
    compose: dict[str, str] = field(default_factory=dict)
    look: Look = HIDDEN


AnyWindow = SingleWindow | DerivedWindow


class HistogramColumns(NamedTuple):
    """Columns of a histogram, one a value: from `low` to `high`, or `automatic`, from the data."""

    low: float = 1
    high: float = 2
    automatic: bool = False


ONE_A_VALUE = HistogramColumns(automatic=True)


def fixed(low: float, high: float) -> HistogramColumns:
    """Return columns with fixed limits, the upper one included."""
    return HistogramColumns(low, high)


class Histogram(NamedTuple):
    """A histogram: rows are the objects of the control window, columns its values.

    Control and data must be of one level, and neither may be a parent of the other. `planes`: a window, each of whose
    values gets a histogram of its own. `scale`: the values of the first and last color (None: by the data).
    """

    name: str
    control: AnyWindow
    statistic: str
    columns: HistogramColumns = ONE_A_VALUE
    data: AnyWindow | None = None
    planes: AnyWindow | None = None
    scale: Scale | None = None


class Cfg(NamedTuple):
    """One file: its windows, with the windows that they are derived from, and its histograms.

    `record`: the options of `nsys profile` that record what it shows. `unit`: of times in windows and histograms.
    """

    folder: str
    name: str
    title: str
    about: str
    record: str
    windows: tuple[AnyWindow, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    unit: Unit = "Microseconds"

    @property
    def path(self) -> str:
        """Return the path below the folder of all cfgs."""
        return f"{self.folder}/{self.name}.cfg"

    def all_windows(self) -> list[AnyWindow]:
        """Return every window of the file, parents before the windows derived from them."""
        roots = list(self.windows)
        for h in self.histograms:
            roots += [w for w in (h.control, h.data, h.planes) if w is not None]
        found: list[AnyWindow] = []
        for root in roots:
            _collect(root, found)
        return found

    def text(self) -> str:
        """Return the text of the file."""
        windows = self.all_windows()
        number = {id(w): n for n, w in enumerate(windows, start=1)}
        lines = [
            "#ParaverCFG",
            "ConfigFile.Version: 3.4",
            f"ConfigFile.NumWindows: {len(windows)}",
            "ConfigFile.BeginDescription",
            *_description(self),
            "ConfigFile.EndDescription",
            "",
        ]
        opened = [w for w in windows if w.look.open]
        for window in windows:
            shown = opened.index(window) if window in opened else 0
            lines += [*_block(window, number, self.unit), *look_keys(window.look, shown, len(opened)), ""]
        for place, histogram in enumerate(self.histograms):
            lines += [*_histogram(histogram, number, place, len(self.histograms)), ""]
        return "\n".join(lines).rstrip("\n") + "\n"


def _collect(window: AnyWindow, found: list[AnyWindow]) -> None:
    if isinstance(window, DerivedWindow):
        _collect(window.first, found)
        _collect(window.second, found)
    if not any(window is w for w in found):
        found.append(window)


def _description(cfg: Cfg) -> list[str]:
    about = wrap(" ".join(cfg.about.split()), 100)
    return [cfg.title, "", *about, "", f"What to record: {cfg.record}"]


@singledispatch
def _block(window: AnyWindow, number: dict[int, int], unit: Unit) -> list[str]:
    raise TypeError(window)


@_block.register
def _(window: SingleWindow, number: dict[int, int], unit: Unit) -> list[str]:
    kind = "None" if window.events is None else "="
    selected = [f"{{{level}, {f}}}" for level, f in _functions(window).items()]
    selected += [f"{{thread, {window.function.partition(' {')[0]}}}"]
    tags = window.tags
    selected += ["{tag_msg, =}"] if tags else []
    selected += [f"{{evt_type, {kind}}}", "{evt_value, All}"]
    lines = [
        f"window_name {window.name}",
        "window_type single",
        f"window_id {number[id(window)]}",
        *_frame(window, unit),
        "window_comm_typeval true",
        f"window_selected_functions {{ {len(selected)}, {{ {', '.join(selected)} }} }}",
        _compose(window.compose),
        *_parameters({"thread": window.function, **_functions(window), **window.compose}),
    ]
    if tags:
        lines.append(f"window_filter_module tag_msg {len(tags)} {' '.join(map(str, tags))}")
    if window.events is not None:
        numbers, labels = window.events.numbers, window.events.labels
        lines.append(f"window_filter_module evt_type {len(numbers)} {' '.join(map(str, numbers))}")
        quoted = " ".join(f'"{label}"' for label in labels)
        lines.append(f"window_filter_module evt_type_label {len(labels)} {quoted}")
    return lines


@_block.register
def _(window: DerivedWindow, number: dict[int, int], unit: Unit) -> list[str]:
    functions = _functions(window)
    selected = [f"{{{level}, {f}}}" for level, f in functions.items()]
    lines = [
        f"window_name {window.name}",
        "window_type composed",
        f"window_id {number[id(window)]}",
        f"window_factors {window.factors[0]:.12f} {window.factors[1]:.12f}",
        f"window_operation {window.operation}",
        f"window_identifiers {number[id(window.first)]} {number[id(window.second)]}",
        *_frame(window, unit),
    ]
    if selected:
        lines.append(f"window_selected_functions {{ {len(selected)}, {{ {', '.join(selected)} }} }}")
    return [*lines, _compose(window.compose), *_parameters({**functions, **window.compose})]


def _frame(window: AnyWindow, unit: Unit) -> list[str]:
    return [
        f"window_units {unit}",
        f"window_level {window.level}",
        "window_begin_time_relative 0.000000000000",
        "window_end_time_relative 1.000000000000",
    ]


def _functions(window: AnyWindow) -> dict[str, str]:
    """Return the function that combines rows, for each level above thread up to the window's own."""
    above = _LEVELS[1 : _LEVELS.index(window.level) + 1]
    return {level: window.functions.get(level, "Adding") for level in above}


def _compose(compose: dict[str, str]) -> str:
    chosen = compose or {"topcompose1": "As Is"}
    pairs = ", ".join(f"{{{where}, {f.partition(' {')[0]}}}" for where, f in chosen.items())
    return f"window_compose_functions {{ {len(chosen)}, {{ {pairs} }} }}"


def _parameters(functions: dict[str, str]) -> list[str]:
    return [f"window_semantic_module {where} {f}" for where, f in functions.items() if " {" in f]


def _histogram(histogram: Histogram, number: dict[int, int], position: int, count: int) -> list[str]:
    """Return the lines of the histogram at a position (from 0) of `count`. `number`: of each window, by its id()."""
    columns = histogram.columns
    # More than two fit on a screen only if they have few rows.
    height = 420 if count < 3 else 80
    return [
        "< NEW ANALYZER2D >",
        f"Analyzer2D.Name: {histogram.name}",
        "Analyzer2D.X: 80",
        f"Analyzer2D.Y: {120 + (height + 50) * position}",
        "Analyzer2D.Width: 1200",
        f"Analyzer2D.Height: {height}",
        f"Analyzer2D.ControlWindow: {number[id(histogram.control)]}",
        f"Analyzer2D.DataWindow: {number[id(histogram.data or histogram.control)]}",
        "Analyzer2D.Accumulator: Semantic",
        f"Analyzer2D.Statistic: {histogram.statistic}",
        "Analyzer2D.CalculateAll: True",
        "Analyzer2D.HideCols: True",
        "Analyzer2D.HorizVert: Horizontal",
        "Analyzer2D.Color: True",
        "Analyzer2D.SemanticColor: False",
        "Analyzer2D.Zoom: Disabled",
        "Analyzer2D.SortCols: False",
        "Analyzer2D.SortCriteria: Average",
        "Analyzer2D.AnalysisLimits: Alltrace",
        f"Analyzer2D.ComputeYScale: {columns.automatic}",
        f"Analyzer2D.Minimum: {columns.low:.12f}",
        f"Analyzer2D.Maximum: {columns.high:.12f}",
        "Analyzer2D.Delta: 1.000000000000",
        "Analyzer2D.UseFixedDelta: True",
        *_gradient(histogram.scale),
        "Analyzer2D.DrawModeObjects: draw_maximum",
        "Analyzer2D.DrawModeColumns: draw_maximum",
        "Analyzer2D.PixelSize: 1",
        "Analyzer2D.ColorMode: window_in_null_gradient_mode",
        "Analyzer2D.ShowOnlyTotals: False",
        "Analyzer2D.ShortHeaderLabels: False",
        *_planes(histogram.planes, number),
    ]


def _planes(window: AnyWindow | None, number: dict[int, int]) -> list[str]:
    """Return the lines for a histogram of several planes, of which the `window` is the control."""
    if window is None:
        return []
    return [
        f"Analyzer2D.3D_ControlWindow: {number[id(window)]}",
        "Analyzer3D.ComputeYScale: True",
        "Analyzer2D.3D_Minimum: 1.000000000000",
        "Analyzer2D.3D_Maximum: 2.000000000000",
        "Analyzer2D.3D_Delta: 1.000000000000",
        "Analyzer2D.3D_FixedValue: 1.000000000000",
    ]


def _gradient(scale: Scale | None) -> list[str]:
    if scale is None:
        return ["Analyzer2D.ComputeGradient: True"]
    return [
        "Analyzer2D.ComputeGradient: False",
        f"Analyzer2D.MinimumGradient: {scale[0]:.6f}",
        f"Analyzer2D.MaximumGradient: {scale[1]:.6f}",
    ]
