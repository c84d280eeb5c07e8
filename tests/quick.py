"""The quick suite, which a plain `pytest` runs: every family, command and stage, in about two minutes on two cores.

`pytest --all` runs everything, `pytest --rest` the others, and `.ci/run` both parts.
"""

from __future__ import annotations

# Begins of node ids. Every family and stage has a golden test, every command a test in `test_quick.py`.
QUICK = (
    "tests/golden/",
    "tests/intervals/",
    "tests/model/",
    "tests/families/",
    "tests/cli/",
    "tests/report/",
    "tests/analysis/test_efficiency.py",
    "tests/page/test_page_detail.py",
    "tests/pipeline/test_extract.py",
    "tests/pipeline/test_match.py",
    "tests/run/test_clocks.py",
    "tests/test_basic_analysis.py",
    "tests/test_contributing.py",
    "tests/test_packages.py",
    "tests/test_quick.py",
    "tests/test_trust.py",
)
# Among them, those that take the longest.
SLOW = (
    "tests/families/test_random_samples.py",
    "tests/cli/test_align.py",
    "tests/cli/test_bad_input.py",
    "tests/cli/test_batch_command.py",
    "tests/cli/test_compare.py",
    "tests/cli/test_json_schemas.py",
    "tests/cli/test_options.py",
    "tests/report/test_nsys.py",
    "tests/report/test_nvprof.py",
    "tests/report/test_versions.py",
)


def in_quick_suite(node: str) -> bool:
    """Tell whether a test belongs to the quick suite."""
    return node.startswith(QUICK) and not node.startswith(SLOW)
