"""The factors of efficiency of POP's method, as windows that show one number over the whole trace.

With K the time in which a rank's device computes, B that in which it does anything, R that in which it does anything
but only wait for other ranks, and T the window of interest, each as a share of the trace, so that figures of windows of
several spans are those of their sum:

    parallel = sum K / sum T = load balance x communication x orchestration
             = [mean K / max K] x [max R / max B x max K / max R] x [max B / T]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from nsys2prv.model import event_types as types
from nsys2prv.paraver.cfg.task_states import always
from nsys2prv.paraver.cfg.text import AnyWindow, DerivedWindow, Level, SingleWindow
from nsys2prv.paraver.cfg.windows import (
    ABOVE,
    COMPUTE_TYPES,
    ON_DEVICE,
    computing,
    inside,
    of,
    or_nothing,
    running,
    values,
    within,
)

Over = Callable[[], SingleWindow]
USEFUL, BUSY, NOT_WAITING, WINDOW = "Useful", "Busy", "Busy, not waiting", "Window of interest"


def factor_names(level: Level) -> SingleWindow:
    """Show the number of each factor for one ns, to name the columns of a table."""
    return SingleWindow("Factor of efficiency", of(types.EFFICIENCY_FACTOR), level=level, functions=ABOVE)


def factors(level: Level) -> AnyWindow:
    """Show each factor in percent while its name lasts: by rank, without the load balance, or of the whole run."""
    return reduce(
        lambda sum_, part: DerivedWindow("Factors so far [%]", "add", sum_, part, level=level),
        (_while_named(number, factor, level) for number, factor in _factors(level).items()),
    )


def factors_by_span() -> list[AnyWindow]:
    """Return each factor of the whole run in percent, of each span of the window of interest, in which it lasts."""
    return [
        DerivedWindow(f"{found.name} [%]", "product", inside("appl"), found, level="appl", factors=(1.0, 100.0))
        for found in _factors("appl", partial(inside, "task")).values()
    ]


def _factors(level: Level, over: Over = always) -> dict[int, AnyWindow]:
    """Return the factors by number, of each rank or of the highest times of all ranks.

    `over`: makes the window of tasks whose bursts the factors are of.
    """

    def most(what: str) -> AnyWindow:
        return _share(what, level, "Maximum", over)

    def all_ranks(what: str) -> AnyWindow:
        return _share(what, level, "Adding", over)

    found: dict[int, AnyWindow] = {
        1: _ratio("Parallel efficiency", all_ranks(USEFUL), all_ranks(WINDOW)),
        3: _ratio("Communication efficiency", most(USEFUL), most(BUSY)),
        4: _ratio("Serialization efficiency", most(NOT_WAITING), most(BUSY)),
        5: _ratio("Transfer efficiency", most(USEFUL), most(NOT_WAITING)),
        6: _ratio("Orchestration efficiency", most(BUSY), most(WINDOW)),
    }
    if level == "appl":
        # The mean of the ranks' useful times over the highest.
        as_many = _ratio("Ranks like the most useful", all_ranks(USEFUL), most(USEFUL))
        found[2] = _ratio("Load balance", as_many, _ratio("Ranks", all_ranks(WINDOW), most(WINDOW)))
    return dict(sorted(found.items()))


def _ratio(name: str, part: AnyWindow, whole: AnyWindow) -> DerivedWindow:
    return DerivedWindow(name, "divide", part, whole, level=part.level)


def _share(what: str, level: Level, of_ranks: str, over: Over) -> DerivedWindow:
    """Show what share of each burst of `over` something takes, by rank or the sum or maximum over ranks."""
    if what == USEFUL:
        shown: AnyWindow = within(USEFUL, running(USEFUL, computing(*COMPUTE_TYPES)))
    elif what == BUSY:
        shown = within(BUSY, running(BUSY, computing(*ON_DEVICE)))
    elif what == NOT_WAITING:
        shown = within(NOT_WAITING, _not_waiting())
    else:
        shown = inside("task")
    functions: dict[Level, str] = {"appl": of_ranks}
    name = f"{what}, share"
    return DerivedWindow(name, "controlled: average", shown, over(), level=level, functions=functions)


def _not_waiting() -> DerivedWindow:
    """Show 1 while a rank's device does anything but only wait for other ranks."""
    waits = SingleWindow(
        "1 unless it waits",
        or_nothing(types.WAITING),
        compose={"compose_thread": "Is Equal (Sign) { 1, { 1 1 } }", "topcompose1": "1-Sign"},
    )
    kernels = values("Kernels, NCCL's too", computing(*COMPUTE_TYPES, types.NCCL_KERNEL))
    functions: dict[Level, str] = {"task": "AddingSign"}
    moves = DerivedWindow("Kernels that do not wait", "product", kernels, waits, level="task", functions=functions)
    others = running("Kernels and copies", or_nothing(types.KERNEL, types.MEMORY))
    return DerivedWindow(NOT_WAITING, "maximum", others, moves, level="task")


def _while_named(number: int, factor: AnyWindow, level: Level) -> DerivedWindow:
    named = SingleWindow(
        f"1 for factor {number}",
        of(types.EFFICIENCY_FACTOR),
        level=level,
        functions=ABOVE,
        compose={f"compose_{level}": f"Is Equal (Sign) {{ 1, {{ 1 {number} }} }}"},
    )
    return DerivedWindow(f"{factor.name} [%]", "product", named, factor, level=level, factors=(100.0, 1.0))
