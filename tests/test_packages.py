"""Imports point down the list of packages, and no module imports itself by a circle, lazy imports included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# From the command line down to the nouns that all share. A package imports itself and those below it.
FLOORS = (
    "cli",
    "commands",
    "page",
    "database",
    "analysis",
    "pipeline",
    "run",
    "families",
    "paraver",
    "report",
    "intervals",
    "model",
)
# Within a package: its folders, each of which imports those after it.
FOLDERS = {
    "pipeline": ("write", "encode", "match", "extract", "store", "workers"),
    "run": ("iterations", "matching", "clocks"),
    "families": ("nvtx", "host", "mpi", "nccl", "device", "metrics"),
    "analysis": (
        "findings",
        "facts",
        "ncu",
        "compare",
        "predict",
        "communication",
        "idle",
        "graph",
        "metrics",
        "gather",
        "iterations",
        "matching",
        "recording",
    ),
    "analysis/facts": ("ranks", "hosts", "communication", "devices"),
}
MODULES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for file in (ROOT / "nsys2prv").rglob("*.py")
}


def _imported(file: Path) -> Iterator[str]:
    """Yield the modules of the package that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            submodules = (f"{node.module}.{a.name}" for a in node.names)
            names = [name if name in MODULES else node.module for name in submodules]
        yield from (name for name in names if name in MODULES)


IMPORTS = {module: set(_imported(file)) for module, file in MODULES.items()}


def _pairs(depth: int, within: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield each import as (folder of the importer, folder of the imported, text), at a depth of folders."""
    for module, imported in IMPORTS.items():
        for other in imported:
            names, others = module.split("."), other.split(".")
            if min(len(names), len(others)) > depth and names[depth - 1] == others[depth - 1] == within:
                yield names[depth], others[depth], f"{module} imports {other}"


def test_every_package_has_a_floor() -> None:
    assert set(FLOORS) == {p.parent.name for p in (ROOT / "nsys2prv").glob("*/__init__.py")}


def test_imports_point_down() -> None:
    pairs = [p for p in _pairs(1, "nsys2prv") if p[0] in FLOORS and p[1] in FLOORS]
    assert [text for one, other, text in pairs if FLOORS.index(one) > FLOORS.index(other)] == []


def test_the_reports_and_paraver_never_meet() -> None:
    assert [text for one, other, text in _pairs(1, "nsys2prv") if {one, other} == {"paraver", "report"}] == []


@pytest.mark.parametrize("package", FOLDERS)
def test_folders_of_a_package_import_one_way(package: str) -> None:
    order = FOLDERS[package]
    found = {p.parent.name for p in (ROOT / "nsys2prv" / package).glob("*/__init__.py")}
    assert set(order) == found
    parent = package.split("/")
    pairs = [p for p in _pairs(len(parent) + 1, parent[-1]) if p[0] in order and p[1] in order]
    assert [text for one, other, text in pairs if order.index(one) > order.index(other)] == []


def test_what_facts_are_made_of_imports_none_of_their_folders() -> None:
    """A case and thresholds lie beside the folders of facts, and below them."""
    folder = "nsys2prv.analysis.facts."
    beside = [name for name in MODULES if name.startswith(folder) and name.count(".") == folder.count(".")]
    in_folders = {name for name in MODULES if name.startswith(folder) and name.count(".") > folder.count(".")}
    assert [f"{one} imports {other}" for one in beside for other in IMPORTS[one] & in_folders] == []


def test_no_rule_imports_another_one() -> None:
    """What rules share is in `facts`."""
    folder = "nsys2prv.analysis.findings."
    rules = {name for name in MODULES if name.startswith(folder)} - {f"{folder}finding", f"{folder}rules"}
    assert [f"{one} imports {other}" for one in rules for other in IMPORTS[one] & rules] == []


def test_no_module_imports_itself_by_a_circle() -> None:
    """Leaves first: a module that imports none that is left is taken away, until nothing is left."""
    left = {module: imported - {module} for module, imported in IMPORTS.items()}
    while leaves := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in leaves}
    assert sorted(left) == [], "these modules are in a circle, or import one that is"
