"""The command line as a process of its own: what an interrupt finds before anything else is loaded."""

from __future__ import annotations

import os
import sys

INTERRUPTED = "interrupted; nothing was written"


def script() -> None:
    """Run `main` and end at once: to free a process' memory piece by piece first takes 50 ms."""
    try:
        _loaded_and_run()
    except SystemExit as leaving:
        # What ran workers has more to clean up than memory.
        if "multiprocessing" in sys.modules or not isinstance(leaving.code, int | None):
            raise
        try:
            # None where it was closed before this process began.
            if sys.stdout:
                sys.stdout.flush()
        except OSError:
            raise leaving from None
        os._exit(leaving.code or 0)


def _loaded_and_run() -> None:
    try:
        from nsys2prv.cli.main import main

        main()
    except BaseException as error:
        # `main` tells of interrupts once it runs. Python 3.11 makes another error of one in the making of a class.
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        print(f"nsys2prv: {INTERRUPTED}", file=sys.stderr)
        sys.exit(130)
