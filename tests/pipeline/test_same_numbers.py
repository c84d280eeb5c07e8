"""What has a number and a color of its own has them in every trace."""

from __future__ import annotations

import re

import pytest
from runs import ARCHIVES, FOLDERS, FREQUENCIES, SINGLE, Runs

from nsys2prv.model.event_type import NumberedBy
from nsys2prv.model.event_types import EVENT_TYPES

FIXED = {t.number for t in EVENT_TYPES.values() if t.numbered_by != NumberedBy.ORDER or (t.values and not t.labelled)}
STATES = 0
_LINE = re.compile(r"^(\d+) +(.+)$", re.MULTILINE)


def _coded(pcf: str, labels: dict[int, dict[int, str]]) -> dict[tuple[int, str], tuple[int, str]]:
    """The number and color of each label of fixed types and of states, from a PCF."""
    color = dict(re.findall(r"^(\d+) +(\{\d+,\d+,\d+\})$", pcf, re.MULTILINE))
    states = re.search(r"^ STATES\n(.*?)\n\n", pcf, re.MULTILINE | re.DOTALL)
    named = {STATES: {int(n): label for n, label in _LINE.findall(states[1])}} if states else {}
    named |= {kind: values for kind, values in labels.items() if kind in FIXED}
    return {
        (kind, label): (number, color.get(str(number), "Paraver's"))
        for kind, values in named.items()
        for number, label in values.items()
    }


def test_a_label_has_one_number_and_color_in_all_traces(translations: Runs) -> None:
    first: dict[tuple[int, str], tuple[int, str]] = {}
    shared = 0
    for run in (*FOLDERS, *SINGLE, *FREQUENCIES, *ARCHIVES):
        try:
            made = translations.whole(run)
        except pytest.skip.Exception:
            continue
        found = _coded(made.prv.with_suffix(".pcf").read_text(), made.trace.values)
        assert {key: pair for key, pair in found.items() if first.get(key, pair) != pair} == {}, run
        shared += len(set(found) & set(first))
        first = found | first
    assert shared > 100
