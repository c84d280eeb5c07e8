"""Command line: `python tests/construct CASE SOURCE... OUTDIR [-o OPTION=VALUE]`."""

from __future__ import annotations

import argparse
import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def option(text: str) -> tuple[str, Any]:
    """NAME=VALUE, the value a Python literal or else a text."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def main() -> None:
    """Make one case and print the paths of its files."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    cases = import_module("construct").CASES
    known = "\n".join(f"  {name:22}{(case.__doc__ or '').splitlines()[0]}" for name, case in cases.items())
    parser = argparse.ArgumentParser(
        prog="construct", formatter_class=argparse.RawDescriptionHelpFormatter, description=f"{__doc__}\n\n{known}"
    )
    parser.add_argument("case", choices=cases, metavar="CASE")
    parser.add_argument("source", nargs="+", type=Path, metavar="SOURCE")
    parser.add_argument("outdir", type=Path, metavar="OUTDIR")
    parser.add_argument("-o", dest="options", action="append", type=option, default=[], metavar="OPTION=VALUE")
    given = parser.parse_args()
    try:
        made = cases[given.case](given.source, given.outdir, **dict(given.options))
    except ValueError as error:
        sys.exit(f"construct {given.case}: {error}")
    print(*made, sep="\n")


if __name__ == "__main__":
    main()
