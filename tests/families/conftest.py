"""Traces of single families, made once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import nsys2prv
from nsys2prv import Selection, Trace, Translation

# Report or folder and families -> what was said of the translation, and the trace.
Translated = Callable[..., tuple[Translation, Trace]]


@pytest.fixture(scope="session")
def translated(report: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Translated:
    made: dict[tuple[str, tuple[str, ...]], tuple[Translation, Trace]] = {}

    def translate(name: str, *families: str, selection: Selection | None = None) -> tuple[Translation, Trace]:
        key = (name, families)
        if selection is None and key in made:
            return made[key]
        chosen = selection or Selection(families or Selection().families)
        result = nsys2prv.translate(report(name), tmp_path_factory.mktemp("trace") / "out", selection=chosen)
        assert result.prv is not None
        found = result, nsys2prv.read_prv(result.prv)
        if selection is None:
            made[key] = found
        return found

    return translate
