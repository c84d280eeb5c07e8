"""Colors: apart for readers who cannot tell red from green, and the same for the same thing everywhere."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
import pytest

from nsys2prv.intervals.classes import load_rules
from nsys2prv.model import event_types as types
from nsys2prv.model import palette, states
from nsys2prv.model.event_type import NumberedBy
from nsys2prv.model.event_types import EVENT_TYPES, MPI_VALUES, NCCL_OPERATION
from nsys2prv.model.palette import FAMILIES, IDLE, KINDS, OPERATIONS, UNKNOWN, Color

Floats = npt.NDArray[np.float64]
# Linear sRGB as seen without red cones and without green ones: Machado, Oliveira and Fernandes, A Physiologically-based
# Model for Simulation of Color Vision Deficiency (IEEE TVCG 15(6), 2009), severity 1.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
# IEC 61966-2-1: linear sRGB to XYZ, and its white.
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = TO_XYZ.sum(axis=1)


def seen(color: Color, vision: str) -> Floats:
    """A color in CIE L*a*b* as it is seen."""
    part = np.array(color) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    x, y, z = TO_XYZ @ np.clip(VISIONS[vision] @ linear, 0, 1) / WHITE
    fx, fy, fz = (np.cbrt(v) if v > (6 / 29) ** 3 else v / (3 * (6 / 29) ** 2) + 4 / 29 for v in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def difference(one: Floats, other: Floats) -> float:
    """CIEDE2000: Sharma, Wu and Dalal, Color Research and Application 30(1), 2005."""
    chroma = (np.hypot(*one[1:]) + np.hypot(*other[1:])) / 2
    stretch = 1 + 0.5 * (1 - np.sqrt(chroma**7 / (chroma**7 + 25.0**7)))
    (l1, a1, b1), (l2, a2, b2) = one * (1, stretch, 1), other * (1, stretch, 1)
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    light, c, hue = (l1 + l2) / 2, (c1 + c2) / 2, h1 + turn / 2 if c1 * c2 else h1 + h2
    cosines = (np.cos(np.radians(n * hue + shift)) for n, shift in ((1, -30), (2, 0), (3, 6), (4, -63)))
    t = 1 + sum(f * cosine for f, cosine in zip((-0.17, 0.24, 0.32, -0.2), cosines, strict=True))
    by_light = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    by_chroma = (c2 - c1) / (1 + 0.045 * c)
    by_hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * c * t)
    blue = np.sin(np.radians(60 * np.exp(-(((hue % 360 - 275) / 25) ** 2))))
    rotation = -2 * np.sqrt(c**7 / (c**7 + 25.0**7)) * blue
    return float(np.sqrt(by_light**2 + by_chroma**2 + by_hue**2 + rotation * by_chroma * by_hue))


def apart(one: Color, other: Color) -> float:
    """The least difference of two colors over all kinds of vision."""
    return min(difference(seen(one, vision), seen(other, vision)) for vision in VISIONS)


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
    near = {(a.name, b.name): apart(a.color, b.color) for a, b in pairwise(FAMILIES)}
    assert {pair: d for pair, d in near.items() if d < 10} == {}


# Families that take the most time, in the runs that the tests have.
MAIN = ("GEMM", "attention", "flash attention", "elementwise", "normalization", "softmax", "copy/cast", "reduction",
        "optimizer", "embedding", "convolution", "NCCL")  # fmt: skip


def test_the_main_families_and_idle_are_all_apart() -> None:
    colors = {"idle": IDLE} | {f.name: f.color for f in FAMILIES if f.name in MAIN}
    assert len(colors) == len(MAIN) + 1
    near = {(a, b): apart(colors[a], colors[b]) for a, b in combinations(colors, 2)}
    assert {pair: d for pair, d in near.items() if d < 10} == {}


def test_kinds_of_activity_are_all_apart() -> None:
    near = {(a, b): apart(KINDS[a], KINDS[b]) for a, b in combinations(KINDS, 2)}
    assert {pair: d for pair, d in near.items() if d < 10} == {}


def test_gemm_and_attention_stand_out() -> None:
    """They are further from the dark of idle, in lightness or in chroma, than the muted families are from it."""
    lab = {f.name: seen(f.color, "normal") for f in FAMILIES}
    chroma = {name: float(np.hypot(*one[1:])) for name, one in lab.items()}
    muted = ("elementwise", "normalization", "softmax", "copy/cast", "reduction", "embedding", "other")
    assert min(chroma["GEMM"], chroma["attention"]) > 2 * max(chroma[name] for name in muted)


def test_communication_has_one_hue() -> None:
    families = ("NCCL", "custom all-reduce", "DeepEP", "HybridEP", "MoE exchange", "NVSHMEM")
    colors = [f.color for f in FAMILIES if f.name in families] + [b.color for b in OPERATIONS]
    hues = [np.degrees(np.arctan2(*seen(c, "normal")[:0:-1])) for c in colors]
    assert min(hues) > 45
    assert max(hues) < 80
    others = [f.color for f in FAMILIES if f.name not in families]
    strong = [seen(c, "normal") for c in others if np.hypot(*seen(c, "normal")[1:]) > 40]
    assert not any(45 < np.degrees(np.arctan2(b, a)) < 80 for _, a, b in strong)


def test_every_family_of_the_rules_has_a_color_of_its_own() -> None:
    assert set(load_rules().families) == {f.name for f in FAMILIES}
    assert len({f.color for f in FAMILIES}) == len(FAMILIES)


def test_blocks_never_meet_and_fit_where_paraver_has_colors_and_columns() -> None:
    """Paraver colors numbers below some 31,900 singly, and gives each of up to 10,000 values a column of its own."""
    blocks = sorted((*FAMILIES, UNKNOWN, *OPERATIONS), key=lambda b: b.first)
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
    color = {b.name: b.color for b in OPERATIONS}
    assert palette.class_block("NCCL AllReduce").color == color["AllReduce"]
    numbers = {name: n for n, name in NCCL_OPERATION.values.items()}
    assert palette.value_colors(NCCL_OPERATION)[numbers["AllReduce"]] == color["AllReduce"]
    mpi = {name: n for n, name in MPI_VALUES.items()}
    assert palette.value_colors(types.MPI["collective"])[mpi["MPI_Allreduce"]] == color["AllReduce"]


def test_every_listed_value_of_communication_and_copies_has_a_color() -> None:
    kinds = [t for t in EVENT_TYPES.values() if t.numbered_by == NumberedBy.OPERATION and t.values]
    for kind in (*kinds, types.MEMORY, types.WAITING, NCCL_OPERATION):
        assert set(palette.value_colors(kind)) == {0, *kind.values}, kind.key


def test_idle_is_dark_wherever_it_is_drawn() -> None:
    assert seen(IDLE, "normal")[0] < 20
    assert palette.table()[0] == palette.activity_colors()[0] == palette.value_colors(types.MEMORY)[0] == IDLE
    assert states.STATES[0] == types.KERNEL_CLASS.ended == types.MEMORY.ended == "Idle"
