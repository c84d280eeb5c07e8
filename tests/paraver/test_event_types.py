"""Numbers and labels of event types, which other tools look for."""

from __future__ import annotations

from nsys2prv.paraver.event_types import BLOCKS, EVENT_TYPES


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
