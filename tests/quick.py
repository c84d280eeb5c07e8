"""The quick suite, which a plain `pytest` runs: every family, command and stage, in about two minutes on two cores.

`pytest --all` runs everything, and so does `.ci/run`.
"""

from __future__ import annotations

# Begins of node ids. Every family and stage has a golden test, every command one of the others.
QUICK = (
    "tests/golden/",
    "tests/intervals/",
    "tests/model/",
    "tests/test_packages.py",
    "tests/test_quick.py",
)


def in_quick_suite(node: str) -> bool:
    """Tell whether a test belongs to the quick suite."""
    return node.startswith(QUICK)
