"""Colors: apart for readers who cannot tell red from green, and the same for the same thing everywhere."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from color_vision import apart, difference, seen

from nsys2prv.intervals.classes import load_rules
from nsys2prv.model import event_types as types
from nsys2prv.model import palette, states
from nsys2prv.model.event_type import EventType, NumberedBy
from nsys2prv.model.event_types import EVENT_TYPES, MPI_VALUES, NCCL_OPERATION
from nsys2prv.model.palette import FAMILY_BLOCKS, IDLE_COLOR, KIND_COLORS, OPERATION_BLOCKS, UNKNOWN_BLOCK


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_measure_is_the_published_one(one: tuple[float, ...], other: tuple[float, ...], expected: float) -> None:
    """Pairs 1, 17 and 34 of the authors' table."""
    assert difference(np.array(one), np.array(other)) == pytest.approx(expected, abs=1e-4)


def test_neighboring_families_are_apart() -> None:
    near = {(a.name, b.name): apart(a.color, b.color) for a, b in pairwise(FAMILY_BLOCKS)}
    assert {pair: d for pair, d in near.items() if d < 10} == {}


# Families that take the most time, in the runs that the tests have.
MAIN = ("GEMM", "attention", "flash attention", "elementwise", "normalization", "softmax", "copy/cast", "reduction",
        "optimizer", "embedding", "convolution", "NCCL")  # fmt: skip


def test_the_main_families_and_idle_are_all_apart() -> None:
    colors = {"idle": IDLE_COLOR} | {f.name: f.color for f in FAMILY_BLOCKS if f.name in MAIN}
    assert len(colors) == len(MAIN) + 1
    near = {(a, b): apart(colors[a], colors[b]) for a, b in combinations(colors, 2)}
    assert {pair: d for pair, d in near.items() if d < 10} == {}


def test_kinds_of_activity_are_all_apart() -> None:
    near = {(a, b): apart(KIND_COLORS[a], KIND_COLORS[b]) for a, b in combinations(KIND_COLORS, 2)}
    assert {pair: d for pair, d in near.items() if d < 10} == {}


@pytest.mark.parametrize("kind", [types.CRITICAL_PATH, types.IDLE_CAUSE, types.WAITING], ids=lambda kind: kind.key)
def test_values_that_explain_time_are_apart(kind: EventType) -> None:
    colors = palette.value_colors(kind)
    near = {(a, b): apart(colors[a], colors[b]) for a, b in combinations(colors, 2)}
    assert {pair: d for pair, d in near.items() if d < 10} == {}


def test_gemm_and_attention_stand_out() -> None:
    """They are further from the dark of idle, in lightness or in chroma, than the muted families are from it."""
    lab = {f.name: seen(f.color, "normal") for f in FAMILY_BLOCKS}
    chroma = {name: float(np.hypot(*one[1:])) for name, one in lab.items()}
    muted = ("elementwise", "normalization", "softmax", "copy/cast", "reduction", "embedding", "other")
    assert min(chroma["GEMM"], chroma["attention"]) > 2 * max(chroma[name] for name in muted)


def test_communication_has_one_hue() -> None:
    families = ("NCCL", "custom all-reduce", "DeepEP", "HybridEP", "MoE exchange", "NVSHMEM")
    colors = [f.color for f in FAMILY_BLOCKS if f.name in families] + [b.color for b in OPERATION_BLOCKS]
    hues = [np.degrees(np.arctan2(*seen(c, "normal")[:0:-1])) for c in colors]
    assert min(hues) > 45
    assert max(hues) < 80
    others = [f.color for f in FAMILY_BLOCKS if f.name not in families]
    strong = [seen(c, "normal") for c in others if np.hypot(*seen(c, "normal")[1:]) > 40]
    assert not any(45 < np.degrees(np.arctan2(b, a)) < 80 for _, a, b in strong)


def test_every_family_of_the_rules_has_a_color_of_its_own() -> None:
    assert set(load_rules().families) == {f.name for f in FAMILY_BLOCKS}
    assert len({f.color for f in FAMILY_BLOCKS}) == len(FAMILY_BLOCKS)


def test_blocks_never_meet_and_fit_where_paraver_has_colors_and_columns() -> None:
    """Paraver colors numbers below some 31,900 singly, and gives each of up to 10,000 values a column of its own."""
    blocks = sorted((*FAMILY_BLOCKS, UNKNOWN_BLOCK, *OPERATION_BLOCKS), key=lambda b: b.first)
    assert all(a.first + a.size == b.first for a, b in pairwise(blocks))
    assert palette.BEYOND - palette.FIRST_BLOCK < 10_000
    listed = [n for t in EVENT_TYPES.values() for n in t.values]
    assert max(listed) < palette.FIRST_BLOCK == blocks[0].first


def test_an_operation_has_one_color_as_call_kernel_class_and_value() -> None:
    names = {
        "AllReduce": ("ncclAllReduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "MPI_Iallreduce"),
        "ReduceScatter": ("ncclReduceScatter", "ncclSymkDevKernel_ReduceScatter_LL_sum_f8e4m3", "MPI_Reduce_scatter"),
        "Send and Recv": ("ncclDevKernel_SendRecv", "MPI_Sendrecv"),
        "Recv": ("ncclRecv", "MPI_Irecv"),
        "Broadcast": ("ncclBcast", "MPI_Bcast"),
        "Wait": ("MPI_Waitall",),
        "other operation": ("ncclGroupEnd",),
    }
    for operation, texts in names.items():
        assert {palette.operation_block(text).name for text in texts} == {operation}
    color = {b.name: b.color for b in OPERATION_BLOCKS}
    assert palette.class_block("NCCL AllReduce").color == color["AllReduce"]
    numbers = {name: n for n, name in NCCL_OPERATION.values.items()}
    assert palette.value_colors(NCCL_OPERATION)[numbers["AllReduce"]] == color["AllReduce"]
    mpi = {name: n for n, name in MPI_VALUES.items()}
    assert palette.value_colors(types.MPI["collective"])[mpi["MPI_Allreduce"]] == color["AllReduce"]


def test_every_listed_value_of_communication_and_copies_has_a_color() -> None:
    kinds = [t for t in EVENT_TYPES.values() if t.numbered_by == NumberedBy.OPERATION and t.values]
    for kind in (*kinds, types.MEMORY, types.WAITING, types.CRITICAL_PATH, types.IDLE_CAUSE, NCCL_OPERATION):
        assert set(palette.value_colors(kind)) == {0, *kind.values}, kind.key


def test_idle_is_dark_wherever_it_is_drawn() -> None:
    assert seen(IDLE_COLOR, "normal")[0] < 20
    assert palette.table()[0] == palette.activity_colors()[0] == palette.value_colors(types.MEMORY)[0] == IDLE_COLOR
    assert states.STATES[0] == types.KERNEL_CLASS.ended == types.MEMORY.ended == "Idle"
