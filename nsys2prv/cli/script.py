"""The entry point of the command line, which reports an interrupt even while modules load."""

from __future__ import annotations

import sys

from nsys2prv.errors import INTERRUPTED


def script() -> None:
    """Load `main` and run it; end with one line and exit code 130 on an interrupt."""
    try:
        from nsys2prv.cli.main import main

        main()
    except BaseException as error:
        # `main` reports interrupts once it runs. Python 3.11 turns an interrupt within a class body into another error.
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        print(f"nsys2prv: {INTERRUPTED}", file=sys.stderr)
        sys.exit(130)
