"""Imports point one way, as the table of packages in docs/how-it-works.md says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(p.parent.name for p in (ROOT / "nsys2prv").glob("*/__init__.py"))
EVERYWHERE = ("errors", "__version__")
ROW = re.compile(r"^\| `(\w+)` \| .+? \|(.*)\|$", re.MULTILINE)
ENGINE = ROOT / "nsys2prv" / "engine"
ENGINE_ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \|$", re.MULTILINE)


def _allowed() -> dict[str, set[str]]:
    text = (ROOT / "docs/how-it-works.md").read_text(encoding="utf-8")
    return {package: set(re.findall(r"`(\w+)`", cell)) | {package, *EVERYWHERE} for package, cell in ROW.findall(text)}


def _imported(file: Path) -> Iterator[str]:
    """What a module imports of ours, as `merge.hosts.Host`."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{a.name}" for a in node.names]
        yield from (name.removeprefix("nsys2prv.") for name in names if name.startswith("nsys2prv."))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_what_its_row_allows(package: str) -> None:
    found = {name.split(".")[0] for file in (ROOT / "nsys2prv" / package).rglob("*.py") for name in _imported(file)}
    assert found - _allowed()[package] == set()


def test_imports_have_no_cycle() -> None:
    """Leaves first: what imports nothing that is left is taken away, until nothing is left."""
    left = {package: allowed - {package, *EVERYWHERE} for package, allowed in _allowed().items()}
    while left:
        leaves = [p for p, imports in left.items() if not imports & left.keys()]
        assert leaves, f"a cycle among {sorted(left)}"
        left = {p: imports for p, imports in left.items() if p not in leaves}


def test_the_packages_of_the_engine_import_those_above_them() -> None:
    text = (ROOT / "docs/how-it-works.md").read_text(encoding="utf-8")
    order = ENGINE_ROW.findall(text.partition("| package of `engine` |")[2])
    assert sorted(order) == sorted(p.parent.name for p in ENGINE.glob("*/__init__.py"))
    for n, package in enumerate(order):
        imported = {name for file in (ENGINE / package).glob("*.py") for name in _imported(file)}
        found = {name.split(".")[1] for name in imported if name.startswith("engine.")} & set(order)
        assert found <= set(order[: n + 1]), f"{package} imports what is below it"
