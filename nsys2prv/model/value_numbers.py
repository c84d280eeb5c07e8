"""Numbers of labels that are the same in every trace: each label has its own in the block of its kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain, count
from zlib import crc32

from nsys2prv.model.palette import BEYOND, ValueBlock

# Put before each label. Chosen so that the classes in tests/intervals/kernel_classes.tsv have different numbers.
SALT = "0"


def stable_numbers(texts: Collection[str], block_of: Callable[[str], ValueBlock]) -> dict[str, int]:
    """Number labels from their text alone.

    Two labels of one trace may want one number: then the later in order of text has the next free one of the block, and
    where the block is full, the next one beyond all blocks. Only these numbers depend on what else the trace holds.
    """
    numbers: dict[str, int] = {}
    taken: set[int] = set()
    for text in sorted(texts):
        number = next(n for n in _wanted(text, block_of(text)) if n not in taken)
        numbers[text] = number
        taken.add(number)
    return numbers


def _wanted(text: str, block: ValueBlock) -> Iterator[int]:
    """Yield the numbers that a label may have, the first by its text alone."""
    if text == block.name:
        yield block.first
    # The first number of a block is for the label of its name.
    room = block.size - 1
    start = crc32(f"{SALT}{text}".encode()) % room
    yield from chain((block.first + 1 + (start + n) % room for n in range(room)), count(BEYOND))
