"""Windows that several cfgs share. Each call makes a new one, since Paraver wants a histogram's two windows apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nsys2prv.model import event_types as types
from nsys2prv.model.event_type import EventType, TypeBlock
from nsys2prv.model.palette import ValueBlock, activity_colors, value_colors
from nsys2prv.paraver.cfg.look import CODE, HIDDEN, Look
from nsys2prv.paraver.cfg.text import AnyWindow, DerivedWindow, Events, Level, SingleWindow

# The last column of histograms of durations, us: what lasts longer is in it, too.
LONGEST_BURST = 1000


def of(*event_types: EventType) -> Events:
    """Select events of the given types, each by number and label."""
    return Events(tuple(t.number for t in event_types), tuple(t.label for t in event_types))


def present(*event_types: EventType) -> Events:
    """Select events of the types that a trace has, each by its label.

    Paraver takes the number of a type that the trace lacks, and asks about it. Here that number is the first type's, so
    that it asks only if the trace lacks the first type, too.
    """
    return Events((event_types[0].number,) * len(event_types), tuple(t.label for t in event_types))


def named(label: str) -> Events:
    """Select events of the type with this label, whatever its number. `*` stands for any text."""
    return Events((0,), (label,))


def coded(*event_types: EventType) -> Look:
    """Color the values of event types as everywhere: those of listed ones here, others by the trace's own table."""
    return CODE._replace(palette={n: color for t in event_types for n, color in value_colors(t).items()})


# Colors of kinds of activity, by the number of their event type.
ACTIVITIES = CODE._replace(palette=activity_colors())

# Types of computing work. A graph that is recorded as a whole has no events of its single kernels.
COMPUTE_TYPES = (types.KERNEL, types.GRAPH)
ON_DEVICE = (*COMPUTE_TYPES, types.NCCL_KERNEL, types.MEMORY)

# By the pattern of their labels, so that Paraver does not ask about types that are not there.
MPI_EVENTS = Events((types.MPI["p2p"].number,), ("MPI *",))
# Functions by which the window of interest of one row holds on the levels above.
ABOVE: dict[Level, str] = {"task": "Maximum", "appl": "Maximum"}


def values(name: str, events: Events, look: Look = HIDDEN) -> SingleWindow:
    """Show the value of the last event on each row."""
    return SingleWindow(name, events, look=look)


def stacked(name: str, events: Events, look: Look = HIDDEN) -> SingleWindow:
    """Show the value of the innermost event on each row, for events that nest."""
    return SingleWindow(name, events, compose={"compose_thread": "Stacked Val"}, look=look)


def highest_of_task(name: str, events: Events, look: Look = HIDDEN) -> SingleWindow:
    """Show the highest of the values that the rows of each task have."""
    return SingleWindow(name, events, level="task", functions={"task": "Maximum"}, look=look)


def inside(level: Level) -> SingleWindow:
    """Show 1 within the window of interest, which is an event on every row."""
    return SingleWindow("Window of interest", of(types.WINDOW), level=level, functions=ABOVE)


def running(name: str, events: Events, function: str = "Last Evt Val") -> SingleWindow:
    """Show 1 while any of these events lasts on any row of a task. The events must not nest."""
    return SingleWindow(
        name, events, "task", function, functions={"task": "AddingSign"}, compose={"compose_thread": "Sign"}
    )


def in_percent(window: SingleWindow) -> SingleWindow:
    """Show 100 where a window of tasks shows 1."""
    return replace(window, compose={**window.compose, "compose_task": "Prod { 1, { 1 100 } }"})


def or_nothing(*event_types: EventType) -> Events:
    """Select events of types that a trace may lack, so that Paraver does not ask about them.

    It takes the number of a type that every trace has, and that is always 0. A cfg with it is never grey.
    """
    return Events((types.NOTHING.number,) * len(event_types), tuple(t.label for t in event_types))


def computing(*event_types: EventType) -> Events:
    """Select events of COMPUTE_TYPES, and others that a trace may lack. Paraver asks if it lacks all of the former."""
    numbers = {types.KERNEL: types.GRAPH.number, types.GRAPH: types.KERNEL.number}
    return Events(tuple(numbers.get(t, types.NOTHING.number) for t in event_types), tuple(t.label for t in event_types))


def beside(first: EventType | TypeBlock, shown: SingleWindow, look: Look = HIDDEN) -> DerivedWindow:
    """Show a window of `lacking` events, or nothing if the trace has them not.

    Paraver takes the first type for one that the trace lacks. So it asks, and greys the cfg, only without the first.
    """
    own = f"Is Equal (Sign) {{ 1, {{ 1 {first.number} }} }}"
    there = replace(
        shown,
        name=f"{shown.name} are there",
        function="Last Evt Type",
        compose={"compose_thread": own, "topcompose1": "1-Sign"},
        look=HIDDEN,
    )
    return DerivedWindow(shown.name, "product", replace(shown, name=f"{shown.name}, if any"), there, look=look)


def lacking(event_type: EventType, first: EventType) -> Events:
    """Select events of a type that a trace may lack, for `beside`."""
    return instead(first, of(event_type))


def instead(first: EventType | TypeBlock, events: Events) -> Events:
    """Select events by label, and by the first type's number where the trace has none of them, for `beside`."""
    return Events((first.number,) * len(events.labels), events.labels)


def nesting(name: str, events: Events) -> SingleWindow:
    """Show the same as `running` for events that nest, where an inner one ends before the outer."""
    return SingleWindow(
        name, events, "task", functions={"task": "AddingSign"}, compose={"compose_thread": "Nesting level"}
    )


def in_flight(name: str, *event_types: EventType, look: Look = HIDDEN) -> SingleWindow:
    """Count the rows of a task on which events of these types last."""
    return SingleWindow(name, present(*event_types), level="task", compose={"compose_thread": "Sign"}, look=look)


def within(name: str, window: AnyWindow) -> DerivedWindow:
    """Show a window's values within the window of interest, 0 outside. Labels stay."""
    return DerivedWindow(name, "product", window, inside(window.level), level=window.level)


def of_nccl_kernels(name: str, event_type: EventType, look: Look = HIDDEN) -> DerivedWindow:
    """Show an event type of NCCL's kernels only. Their calls on the host have the same types."""
    kernel = SingleWindow("NCCL kernel runs", of(types.NCCL_KERNEL), compose={"compose_thread": "Sign"})
    return DerivedWindow(name, "product", values(f"{name}, calls too", of(event_type)), kernel, look=look)


def in_blocks(name: str, event_type: EventType, blocks: Sequence[ValueBlock], look: Look = HIDDEN) -> SingleWindow:
    """Show the values of an event type that lie in blocks that follow each other, as one range of numbers."""
    low, high = blocks[0].first, blocks[-1].first + blocks[-1].size - 1
    chosen = f"Select Range {{ 2, {{ 1 {high}, 1 {low} }} }}"
    return SingleWindow(name, of(event_type), compose={"compose_thread": chosen}, look=look)


def outermost(name: str, events: Events, look: Look = HIDDEN) -> DerivedWindow:
    """Show the value of the outermost of events that nest, as long as it lasts.

    Its value is the innermost one wherever depth is 1, and so the largest of those within a burst of depth 1 or more.
    An event that inner events cover to the last ns is not seen.
    """
    depth_one = SingleWindow("Depth is 1", events, compose={"compose_thread": "Nesting level", "topcompose1": _IS_ONE})
    at_one = DerivedWindow("Value at depth 1", "product", stacked("Innermost", events), depth_one)
    joined = {"compose_thread": "Nesting level", "topcompose2": "Sign", "topcompose1": "Join Bursts"}
    open_ranges = SingleWindow("Open", events, compose=joined)
    return DerivedWindow(name, "controlled: maximum", at_one, open_ranges, look=look)


_IS_ONE = "Is Equal (Sign) { 1, { 1 1 } }"


def burst_length(name: str, running: AnyWindow, timed: AnyWindow) -> DerivedWindow:
    """Show how long the bursts last in which a window shows 1, in us rounded up, the longest as LONGEST_BURST.

    `timed`: the length of all its bursts in us, those of 0 too.
    """
    level = running.level
    length = DerivedWindow(f"{name}, whole length", "product", timed, running, level=level)
    most = DerivedWindow(
        f"{name}, longest", "maximum", running, running, level=level, factors=(LONGEST_BURST, LONGEST_BURST)
    )
    return DerivedWindow(f"{name}, length", "minimum", length, most, level=level)


def activity(name: str, *event_types: EventType, look: Look = HIDDEN) -> DerivedWindow:
    """Show which of the types runs on each row, as the event type's number and label."""
    last = SingleWindow(f"{name}, last type", present(*event_types), function="Last Evt Type")
    busy = {"compose_thread": "Nesting level", "topcompose1": "Sign"}
    return DerivedWindow(name, "product", last, SingleWindow("Busy", present(*event_types), compose=busy), look=look)


def one_a_thread() -> SingleWindow:
    """Show 1 on every row."""
    return SingleWindow("One", None, function="Thread ID", compose={"compose_thread": "Sign"})


def metric_of_task(name: str, label: str) -> DerivedWindow:
    """Show a metric of each task: the mean over its GPUs."""
    return DerivedWindow(name, "divide", _sum(name, label, "task"), _sampled(label, "task"), level="task")


def metric_if_any(name: str, label: str, look: Look = HIDDEN) -> DerivedWindow:
    """Show the same as `metric_of_task`, and nothing where GPUs are sampled without the metric.

    Paraver takes the type that says when GPUs are sampled for that of a missing metric, and so does not ask about it.
    """
    events = instead(types.METRICS_SAMPLED, named(label))
    last = SingleWindow("Has the metric", events, function="Last Evt Type", compose={"compose_thread": "Sign"})
    has = beside(types.METRICS_SAMPLED, last)
    sampled = values("Sampled", of(types.METRICS_SAMPLED))
    whole = DerivedWindow(f"{name}, sum", "product", values("As drawn", events), sampled, level="task")
    return DerivedWindow(
        name,
        "divide",
        whole,
        DerivedWindow("GPUs sampled", "product", has, sampled, level="task"),
        level="task",
        look=look,
    )


def metric_of_run(name: str, label: str) -> DerivedWindow:
    """Show the mean of a metric over all GPUs that have it, in one row."""
    return DerivedWindow(name, "divide", _sum(name, label, "appl"), _sampled(label, "appl"), level="appl")


def metric_seen(name: str, label: str) -> DerivedWindow:
    """Show the metric of a task on each of its rows, to average it within the events of the row."""
    return DerivedWindow(f"{name} seen by every row", "product", one_a_thread(), metric_of_task(name, label))


def metric(name: str, label: str, look: Look = HIDDEN, level: Level = "thread") -> DerivedWindow:
    """Show a metric as sampled: a value holds until the next one, the last for one period, none over a pause."""
    sampled = values("Sampled", of(types.METRICS_SAMPLED))
    return DerivedWindow(name, "product", values("As drawn", named(label)), sampled, level=level, look=look)


def _sum(name: str, label: str, level: Level) -> DerivedWindow:
    return metric(f"{name}, sum", label, level=level)


def _sampled(label: str, level: Level) -> DerivedWindow:
    """Count the GPUs that are sampled and have the metric: some had an event of its type, whatever the value."""
    has = SingleWindow("Has the metric", named(label), function="Last Evt Type", compose={"compose_thread": "Sign"})
    return DerivedWindow("GPUs sampled", "product", has, values("Sampled", of(types.METRICS_SAMPLED)), level=level)


def sampled_of_task(label: str) -> DerivedWindow:
    """Show 1 while a GPU of the task is sampled and has the metric."""
    return replace(_sampled(label, "task"), name="Sampled", compose={"compose_task": "Sign"})


def sampled_within(label: str) -> DerivedWindow:
    """Show 1 within the window of interest while a GPU of the task is sampled and has the metric."""
    return within("Sampled in the window", sampled_of_task(label))


def while_sampled(name: str, window: AnyWindow, label: str) -> DerivedWindow:
    """Show the values of a window on rows while a GPU of their task is sampled and has the metric. Labels stay."""
    return DerivedWindow(name, "product", window, sampled_of_task(label), level=window.level)
