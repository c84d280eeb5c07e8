"""Sentences on a run that the terminal and the page share: its size, its window, and the iterations left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nsys2prv.analysis.result import Analysis


def run_size(found: Analysis) -> str:
    """Return the numbers of ranks, GPUs and hosts: `4 ranks, 4 GPUs, 2 hosts`."""
    hosts = len({task.host for task in found.run.tasks})
    sizes = [(len(found.run.tasks), "rank"), (len(found.run.devices), "GPU"), (hosts, "host")]
    return ", ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in sizes)


def window_name(found: Analysis) -> str:
    """Return the name of the window of the figures, with its iterations."""
    window = found.window
    if window.iterations:
        return f"{window.name}, {counted(window.iterations)}"
    return "the time in which all ranks recorded" if window.name == "steady" else window.name


def left_out(found: Analysis) -> Iterator[str]:
    """Yield a sentence for each reason to leave out iterations."""
    by_why: dict[str, list[tuple[int, int]]] = {}
    for one in found.window.left_out:
        by_why.setdefault(one.why, []).append((one.iteration, one.repeat))
    for why, left in by_why.items():
        yield f"{counted(left)} left out: {why}"


def counted(iterations: Sequence[tuple[int, int]]) -> str:
    """Name iterations by their numbers, and runs of them by first and last number."""
    numbers = sorted({number for number, _ in iterations})
    if len(numbers) == 1:
        return f"iteration {numbers[0]}"
    if numbers == [*range(numbers[0], numbers[-1] + 1)]:
        return f"iterations {numbers[0]} to {numbers[-1]}"
    return f"iterations {', '.join(map(str, numbers[:6]))}" + (
        f" and {len(numbers) - 6} more" if len(numbers) > 6 else ""
    )
