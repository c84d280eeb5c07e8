"""Numbers of event types of the public nsys2prv."""

from __future__ import annotations

from itertools import combinations

import pytest
from synthetic import summary

from nsys2prv.model.event_types import EVENT_TYPES
from nsys2prv.model.public_types import PUBLIC_NUMBERS
from nsys2prv.run.numbering import number_labels

# What 0.6.0rc1 wrote for reports with these payloads.
PAYLOADS = {
    ("nccl_reduction", "nccl_root"): (9503, 9504),
    ("nccl_reduction", "nccl_peer"): (9503, 9504),
    ("nccl_reduction", "nccl_root", "nccl_peer"): (9503, 9504, 9505),
    ("nccl_root",): (9503,),
}


def numbers(*keys: str, public: bool = True) -> dict[str, int]:
    """Numbers of event types in the trace of a report that has them."""
    return dict(number_labels([summary("", "node")._replace(rows_by_type=dict.fromkeys(keys, 1))], public).types)


@pytest.mark.parametrize("fields", PAYLOADS)
def test_fields_of_nccl_payloads_follow_each_other(fields: tuple[str, ...]) -> None:
    expected = dict(zip(fields, PAYLOADS[fields], strict=True))
    assert numbers(*fields, "nccl_operation") == {**expected, "nccl_operation": 9506}


def test_types_of_one_trace_differ() -> None:
    fields = ("nccl_reduction", "nccl_root", "nccl_peer")
    for missing in (c for n in range(len(fields) + 1) for c in combinations(fields, n)):
        made = numbers(*(key for key in EVENT_TYPES if key not in missing))
        assert len(set(made.values())) == len(made)


def test_all_others_have_our_numbers() -> None:
    ours, theirs = (numbers(*EVENT_TYPES, public=public) for public in (False, True))
    changed = {key: number for key, number in theirs.items() if number != ours[key]}
    assert set(changed.values()) <= PUBLIC_NUMBERS
    families = ("openmp_", "nccl_", "os_call")
    assert all(key.startswith(families) for key in changed)
    assert changed["os_call"] == 66400000
    # Its own number in both: a type that only --public-types makes.
    assert theirs["pthread_call"] == ours["pthread_call"] == 61000000
