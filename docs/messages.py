"""What the code can refuse, and the next step that it names: read from its `raise` statements."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "nsys2prv"
# Exceptions that the command line prints as one line -> exit code.
CODES = {
    "Nsys2prvError": 1,
    "ReportError": 1,
    "OutputError": 1,
    "LostWorkerError": 1,
    "ClassRulesError": 1,
    "UsageError": 2,
}
UNKNOWN = "…"


@dataclass(frozen=True, order=True)
class Message:
    """One message: what it says before and after its last semicolon, and the exit code."""

    cause: str
    next_step: str
    code: int


def messages() -> list[Message]:
    """Every message once, in alphabetical order."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))]
    constants = {name: text for tree in trees for name, text in _assigned(tree.body, {}).items()}
    return sorted({message for tree in trees for message in _raised(tree, constants)})


def _raised(tree: ast.AST, constants: Mapping[str, str]) -> Iterator[Message]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
                before = (n for n in ast.walk(function) if isinstance(n, ast.stmt) and n.lineno < node.lineno)
                known = {**constants, **_assigned(sorted(before, key=lambda n: n.lineno), constants)}
                name, said = node.exc.func.id, [_text(a, known) for a in node.exc.args]
                if name == "ReportError":
                    yield Message(f"{UNKNOWN}: {said[1]}", said[2], CODES[name])
                elif name in CODES:
                    cause, _, step = said[0].rpartition("; ")
                    yield Message(cause or step, step if cause else "", CODES[name])


def _assigned(nodes: Iterable[ast.stmt], known: Mapping[str, str]) -> dict[str, str]:
    """Names that are given a text, and nothing else, among statements."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = _text(node.value, known)
            if text != UNKNOWN:
                found[node.targets[0].id] = text
    return found


def _text(node: ast.expr, known: Mapping[str, str]) -> str:
    """A text expression as it reads, with an ellipsis for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, known) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, known)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, known) + _text(node.right, known)
    if isinstance(node, ast.Name):
        return known.get(node.id, UNKNOWN)
    return UNKNOWN
