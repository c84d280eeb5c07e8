"""What the code can refuse, and the next step that it names: read where it raises or returns its exceptions."""

from __future__ import annotations

import ast
import re
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
    """One message: what it says before and after its last semicolon or `Next:`, and the exit code."""

    cause: str
    next_step: str
    code: int


def messages() -> list[Message]:
    """Every message once, in alphabetical order."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))]
    everywhere = {name: text for tree in trees for name, text in _assigned(tree.body, {}).items()}
    # Several modules have an ADVICE: each means its own.
    return sorted({message for tree in trees for message in _made(tree, everywhere | _assigned(tree.body, {}))})


def _made(tree: ast.AST, constants: Mapping[str, str]) -> Iterator[Message]:
    """Messages of the exceptions that functions raise, or return for others to raise."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            error = node.exc if isinstance(node, ast.Raise) else node.value if isinstance(node, ast.Return) else None
            if isinstance(error, ast.Call) and isinstance(error.func, ast.Name):
                before = (n for n in ast.walk(function) if isinstance(n, ast.stmt) and n.lineno < node.lineno)
                known = {**constants, **_assigned(sorted(before, key=lambda n: n.lineno), constants)}
                name, said = error.func.id, [_text(a, known) for a in error.args]
                if name == "ReportError":
                    yield Message(f"{UNKNOWN}: {said[1]}", said[2], CODES[name])
                elif name in CODES:
                    cause, _, step = said[0].replace("\n  Next: ", "; ").replace("\n  ", " ").rpartition("; ")
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
        return re.sub(f"{UNKNOWN}+", UNKNOWN, "".join(_text(part, known) for part in node.values))
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, known)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = _text(node.left, known), _text(node.right, known)
        return UNKNOWN if set(sides) == {UNKNOWN} else "".join(sides)
    if isinstance(node, ast.IfExp):
        choices = _text(node.orelse, known), _text(node.body, known)
        return UNKNOWN if {"", UNKNOWN} & set(choices) else ", or ".join(choices)
    if isinstance(node, ast.Name):
        return known.get(node.id, UNKNOWN)
    return UNKNOWN
