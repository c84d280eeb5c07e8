"""Numbers and labels of event types, which other tools look for."""

from __future__ import annotations

from nsys2prv.model.event_types import (
    BLOCKS,
    DOMAIN_BLOCKS,
    EVENT_TYPES,
    GPU_METRIC,
    HELD_TYPES,
    NETWORK_METRIC,
    is_unique,
)
from nsys2prv.pipeline.encode import run_attributes
from nsys2prv.run.matching.communicators import COMMUNICATOR_BESIDE


def test_event_types_and_blocks_never_meet() -> None:
    numbers = [t.number for t in EVENT_TYPES.values()]
    assert len(set(numbers)) == len(numbers)
    for block in BLOCKS.values():
        taken = range(block.number, block.number + block.step * block.size, block.step)
        assert not set(numbers) & set(taken), block.key
    for one in BLOCKS.values():
        for other in BLOCKS.values():
            if one is not other:
                span = [range(b.number, b.number + b.step * b.size, b.step) for b in (one, other)]
                assert not set(span[0]) & set(span[1]), (one.key, other.key)


def test_what_a_block_has_no_room_for_meets_nothing_either() -> None:
    taken = {t.number for t in EVENT_TYPES.values()}
    taken |= {block.at(n) for block in BLOCKS.values() for n in range(block.size)}
    beyond = [block.at(block.size + n) for block in BLOCKS.values() for n in range(100_000)]
    assert len(set(beyond)) == len(beyond)
    assert not taken & set(beyond)
    assert max(beyond) < 2**31


def test_values_of_metrics_hold_whatever_their_number() -> None:
    for block in (GPU_METRIC, NETWORK_METRIC):
        assert all(any(block.at(n) in held for held in HELD_TYPES) for n in (0, block.size - 1, block.size, 100_000))
    others = [
        t.number
        for t in EVENT_TYPES.values()
        if not t.label.startswith(("Memory in use", "Memory pools", "GPU metrics", "Nothing"))
    ]
    others += [block.at(n) for block in DOMAIN_BLOCKS for n in (0, block.size, 100_000)]
    assert not any(number in held for number in others for held in HELD_TYPES)


PUBLIC = {
    63000000: "CUDA library call",
    63000001: "CUDA memcpy kernel",
    63000006: "CUDA kernel",
    63000007: "NCCL kernel",
}


def test_labels_that_other_tools_look_for_are_literal() -> None:
    known = {t.number: t.label for t in EVENT_TYPES.values()}
    assert {number: known[number] for number in PUBLIC} == PUBLIC
    copies = EVENT_TYPES["memory"].values
    assert {n: copies[n] for n in (3, 4, 5, 6)} == {
        3: "Device-to-Device",
        4: "Device-to-Host",
        5: "Host-to-Device",
        6: "Memset",
    }


def test_what_is_unique_has_no_labels_and_what_the_run_changes_is_unique() -> None:
    # Labels get the run's numbers by combination; what is known of the run alone is changed point by point.
    assert not [t.key for t in EVENT_TYPES.values() if t.unique and t.labelled]
    assert all(is_unique(key) for key in (*COMMUNICATOR_BESIDE, run_attributes._ALGORITHM, run_attributes._BUS))
