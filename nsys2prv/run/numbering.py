"""Numbers of event types and of their labels, the same for all reports of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from nsys2prv.families.nvtx.range_patterns import digits_of, pattern_of
from nsys2prv.families.nvtx_events import NCCL_DOMAIN
from nsys2prv.model.event_type import END_LABEL, NumberedBy
from nsys2prv.model.event_types import (
    BLOCKS,
    DEFAULT_DOMAIN,
    DOMAIN_BLOCKS,
    EVENT_TYPES,
    GPU_METRIC,
    NVTX_NUMBER,
    block_and_name,
)
from nsys2prv.model.palette import class_block, operation_block
from nsys2prv.model.public_types import public_numbers
from nsys2prv.model.value_numbers import stable_numbers
from nsys2prv.paraver.labels import PcfType
from nsys2prv.run.report_summary import Summary

# A domain with more texts is labelled by pattern: nobody reads a list of 10,000 names.
MAX_TEXTS = 10_000
# The largest value of an event.
LARGEST = 2**63 - 1

Lookup = npt.NDArray[np.int64]


class Numbering(NamedTuple):
    """Numbers of all event types by key, and per report the value of each of its labels.

    `values[r][key]` turns the label numbers of report r into values; `in_text[r][key]` has, for a type labelled by
    pattern, the number in each text (its event type is `number_type[key]`).
    """

    types: Mapping[str, int]
    pcf: tuple[PcfType, ...]
    values: tuple[Mapping[str, Lookup], ...]
    in_text: tuple[Mapping[str, Lookup], ...]
    number_type: Mapping[str, int]


def number_labels(summaries: Sequence[Summary], public_types: bool = False) -> Numbering:
    """Number event types and labels over all reports. `public_types`: as the public tool numbers types."""
    keys = sorted({k for s in summaries for k, rows in s.rows_by_type.items() if rows})
    types = {k: EVENT_TYPES[k].number for k in keys if block_and_name(k) is None}
    types |= _number_block(keys, summaries)
    types |= public_numbers(keys) if public_types else {}
    pcf: list[PcfType] = []
    values: list[dict[str, Lookup]] = [{} for _ in summaries]
    in_text: list[dict[str, Lookup]] = [{} for _ in summaries]
    number_type: dict[str, int] = {}
    all_texts = {key: sorted({t for s in summaries for t in s.labels.get(key, ())}) for key in keys}
    # Ranges on the host and on the device have the same labels.
    by_pattern = {domain_of(key) for key, texts in all_texts.items() if len(texts) > MAX_TEXTS} - {None}
    for key, texts in all_texts.items():
        labels = {t: t for t in texts}
        digits: dict[str, str] = {}
        if domain_of(key) in by_pattern:
            labels, digits = _patterns(texts)
            number_type[key] = NVTX_NUMBER.at(len(number_type))
        numbers = number_texts(key, sorted(set(labels.values())))
        for r, summary in enumerate(summaries):
            own = summary.labels.get(key)
            if own is None:
                continue
            values[r][key] = np.array([0, *(numbers[labels[t]] for t in own)], dtype=np.int64)
            if key in number_type:
                in_text[r][key] = np.array([0, *(_number_of(digits[t]) for t in own)], dtype=np.int64)
        pcf.append(_pcf_type(key, types[key], numbers))
        if key in number_type:
            pcf.append(PcfType(number_type[key], NVTX_NUMBER.label.format(name=pcf[-1].label), {}))
    return Numbering(types, tuple(pcf), tuple(values), tuple(in_text), number_type)


def domain_of(key: str) -> str | None:
    """Return the NVTX domain of an event type, or None without one."""
    found = block_and_name(key)
    return found[1] if found is not None and found[0] in DOMAIN_BLOCKS else None


def _patterns(texts: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the pattern and the digits of the last number of each text."""
    text = pl.col("text")
    frame = pl.DataFrame({"text": texts}, schema={"text": pl.String()})
    found = frame.select("text", pattern=pattern_of(text), digits=digits_of(text).fill_null(""))
    return dict(found.select("text", "pattern").iter_rows()), dict(found.select("text", "digits").iter_rows())


def number_texts(key: str, texts: Sequence[str]) -> dict[str, int]:
    """Number texts (sorted): by the type's listed values, else by what it is numbered by."""
    event_type = None if block_and_name(key) else EVENT_TYPES[key]
    listed = {text: n for n, text in event_type.values.items()} if event_type else {}
    others = [text for text in texts if text not in listed]
    if event_type is None or event_type.numbered_by == NumberedBy.ORDER:
        numbers = {text: n for n, text in enumerate(others, start=max(listed.values(), default=0) + 1)}
    else:
        numbers = stable_numbers(others, class_block if event_type.numbered_by == NumberedBy.CLASS else operation_block)
    return {text: listed.get(text, numbers.get(text, 0)) for text in texts}


def _number_of(digits: str) -> int:
    """Return the value of digits, at most LARGEST; 0 without any."""
    # Python refuses to make a number of thousands of digits.
    significant = digits.lstrip("0")
    return LARGEST if len(significant) > len(str(LARGEST)) else min(int(significant or 0), LARGEST)


def _pcf_type(key: str, number: int, numbers: Mapping[str, int]) -> PcfType:
    """Return the entry of the PCF for a type, with the numbers of its labels."""
    found = block_and_name(key)
    if found is None:
        event_type = EVENT_TYPES[key]
        fixed = {0: event_type.ended, **event_type.values} if event_type.values else {}
        values = {0: event_type.ended, **{n: t for t, n in numbers.items()}} if event_type.labelled else fixed
        return PcfType(number, event_type.label, values, event_type.precision)
    block, name = found
    label = block.label.format(name=name)
    # Frequencies are named [MHz] and hold Hz.
    precision = 6 if block is GPU_METRIC and name.endswith("[MHz]") else 0
    return PcfType(number, label, {0: END_LABEL, **{n: t for t, n in numbers.items()}} if numbers else {}, precision)


def _number_block(keys: Sequence[str], summaries: Sequence[Summary]) -> dict[str, int]:
    """Number the types within each block: by the reports' number if all agree, else by free ones in order of name."""
    numbers: dict[str, int] = {}
    domains = _domain_positions({domain for k in keys if (domain := domain_of(k)) is not None})
    for block in BLOCKS.values():
        own = {k: found[1] for k in keys if (found := block_and_name(k)) and found[0] is block}
        if block in DOMAIN_BLOCKS:
            positions = {k: domains[name] for k, name in own.items()}
        else:
            positions = _agreed(list(own), summaries, block.size)
        numbers |= {k: block.at(p) for k, p in positions.items()}
    return numbers


def _domain_positions(names: Set[str]) -> dict[str, int]:
    """Number the NVTX domains, the same in every block of types: 0 the default one, then in order of name.

    NCCL's is last: the public tool, too, has its ranges on host threads elsewhere.
    """
    others = sorted(names - {DEFAULT_DOMAIN}, key=lambda name: (name == NCCL_DOMAIN, name))
    return {DEFAULT_DOMAIN: 0} | {name: n for n, name in enumerate(others, start=1)}


def _agreed(keys: Sequence[str], summaries: Sequence[Summary], size: int) -> dict[str, int]:
    """Return the position of each key in a block of this size: the reports' number of it, or the next free one.

    Their number counts where all of them agree on it, and no other key has it.
    """
    wanted = {k: {s.preferred[k] for s in summaries if k in s.preferred} for k in keys}
    claims: dict[int, list[str]] = {}
    for key, numbers in wanted.items():
        for number in numbers:
            claims.setdefault(number, []).append(key)
    positions: dict[str, int] = {}
    for key, numbers in wanted.items():
        number = next(iter(numbers)) if len(numbers) == 1 else size
        if 0 <= number < size and len(claims[number]) == 1:
            positions[key] = number
    free = (n for n in range(len(keys) + size) if n not in set(positions.values()))
    return {k: positions[k] if k in positions else next(free) for k in keys}
