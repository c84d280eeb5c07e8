"""Names of columns in the cfgs' tables, as values of event types.

Paraver names the columns of a table by the labels of one event type's values. What is computed from several types has
its names here: shares of time and single figures as further values of the window of interest, whose events have the
value 1 only, and the factors of efficiency as values of an event type of their own.
"""

from __future__ import annotations

INSIDE = "inside"
# The numbers of the first column of each table, and its names from there on.
FIGURES, DEVICE_STATES, OVERLAP, HOST_STATES = 2, 10, 20, 30

WINDOW_VALUES = {
    1: INSIDE,
    **dict(enumerate(("Parallel efficiency [%]", "Busy [%]", "Useful time [ms]"), start=FIGURES)),
    **dict(enumerate(("Idle", "Only communication or copies", "Useful"), start=DEVICE_STATES)),
    **dict(
        enumerate(
            (
                "No communication",
                "Communication alone",
                "Beside 1 kernel",
                "Beside 2 kernels",
                "Beside 3 or more kernels",
            ),
            start=OVERLAP,
        )
    ),
    **dict(enumerate(("Neither", "CUDA call", "CUDA synchronization", "MPI"), start=HOST_STATES)),
}
EFFICIENCY_FACTORS = {
    1: "Parallel efficiency",
    2: "Load balance",
    3: "Communication efficiency",
    4: "Serialization efficiency",
    5: "Transfer efficiency",
    6: "Orchestration efficiency",
}


def column_of(name: str) -> int:
    """Return the value of the window of interest that has this name."""
    return next(number for number, known in WINDOW_VALUES.items() if known == name)
