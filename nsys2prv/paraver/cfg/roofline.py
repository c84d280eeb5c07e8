"""Tables of a roofline in the run: operations and DRAM bytes of kernels by the time that they take there."""

from __future__ import annotations

from nsys2prv.model import event_types as types
from nsys2prv.model.event_type import EventType
from nsys2prv.model.ncu_types import NCU_FIGURES
from nsys2prv.paraver.cfg import nsys_options
from nsys2prv.paraver.cfg.tables import BY_ROW, Figure, by_row
from nsys2prv.paraver.cfg.text import Cfg, DerivedWindow, SingleWindow
from nsys2prv.paraver.cfg.windows import of, values


def _rate(name: str, event_type: EventType) -> DerivedWindow:
    """Show a figure of each kernel by its duration in us."""
    duration = SingleWindow("Duration", of(event_type), compose={"compose_thread": "Burst Time"})
    return DerivedWindow(name, "divide", values(event_type.label, of(event_type)), duration)


def _table(name: str, title: str, event_type: EventType, what: str, other: str) -> Cfg:
    about = f"""{what} of the kernels of each class by the time that they take in the run, from figures of Nsight
Compute: with {other} the place of the class in a roofline, whose peaks `nsys2prv analyze --ncu FILE --show roofline`
has. Needs `translate --ncu FILE`. {BY_ROW}"""
    classes = values("Kernel class: family", of(types.KERNEL_FAMILY))
    made = by_row(
        name,
        title,
        about,
        nsys_options.NCU,
        classes,
        Figure("Average value", _rate(title, event_type), unit="Microseconds"),
    )
    # Not among the analyses, which every trace has.
    return made._replace(folder="views")


ROOFLINE = (
    _table(
        "operation_rate",
        "Floating-point operations by class [MFLOP/s]",
        NCU_FIGURES["flop"],
        "Floating-point operations",
        "views/dram_rate",
    ),
    _table("dram_rate", "DRAM bytes by class [MB/s]", NCU_FIGURES["dram_bytes"], "DRAM bytes", "views/operation_rate"),
)
