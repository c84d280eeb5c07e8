"""Kill a batch at random moments with SIGKILL and run it again: the traces must be those of an undisturbed batch.

    python benchmarks/kill_batch.py ROOT [--times 20] [--seed 1] [--jobs 2] [--nofile N]

ROOT holds runs as for `nsys2prv batch`; it is only read, unless it has `.nsys-rep` files to export. After each kill the
same command runs again into the same folder, which must end with exit code 0, the same bytes in every trace, and no
file that the undisturbed batch did not leave. With --nofile both may open so many files only, as with `ulimit -n`.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

COMMAND = [sys.executable, "-c", "from nsys2prv.cli.main import main; main()", "batch"]
MANIFEST = "nsys2prv-batch.json"


def limited(files: int | None) -> Callable[[], None] | None:
    """What a child process does first: allow itself so many open files."""
    return partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files)) if files else None


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with what is in it; the manifest, which has times in it, by name only."""
    return {
        str(f.relative_to(folder)): None if f.name == MANIFEST else f.read_bytes()
        for f in folder.rglob("*")
        if f.is_file() or f.name.startswith(".")
    }


def kill_and_complete(
    root: Path, folder: Path, times: int, seed: int, options: Sequence[str] = (), files: int | None = None
) -> Iterator[tuple[float, list[str]]]:
    """Seconds until each kill, and what was wrong after the batch ran again (nothing, that is)."""
    command = [*COMMAND, str(root), "--quiet", *options, "-o"]
    began = time.perf_counter()
    subprocess.run([*command, str(folder / "undisturbed")], check=True, preexec_fn=limited(files))
    lasts = time.perf_counter() - began
    truth, before = contents(folder / "undisturbed"), {str(f) for f in root.rglob("*")}
    dice = random.Random(seed)
    for number in range(times):
        moment, made = dice.uniform(0.1, 1.0) * lasts, folder / f"killed-{number}"
        with subprocess.Popen([*command, str(made)], preexec_fn=limited(files)) as process:
            try:
                process.wait(moment)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        again = subprocess.run(
            [*command, str(made)], check=False, capture_output=True, text=True, preexec_fn=limited(files)
        )
        found = contents(made)
        wrong = [f"exit code {again.returncode}: {again.stderr}"] if again.returncode else []
        wrong += [f"stray {name}" for name in sorted(found.keys() - truth.keys())]
        wrong += [f"missing {name}" for name in sorted(truth.keys() - found.keys())]
        wrong += [f"{name} differs" for name in sorted(truth.keys() & found.keys()) if found[name] != truth[name]]
        wrong += [f"left beside the reports: {f}" for f in sorted({str(f) for f in root.rglob("*")} - before)]
        yield moment, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("root", type=Path, metavar="ROOT")
    parser.add_argument("--times", type=int, default=20, metavar="N", help="how often to kill (20)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the moments (1)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes of the batch (2)")
    parser.add_argument("--nofile", type=int, metavar="N", help="open files that a process may have")
    given = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        options = ["--jobs", str(given.jobs)]
        for moment, wrong in kill_and_complete(given.root, Path(name), given.times, given.seed, options, given.nofile):
            bad += bool(wrong)
            print(f"killed after {moment:6.2f} s: {'; '.join(wrong) or 'completed, the same bytes, nothing left'}")
    print(f"{given.times - bad} of {given.times} completed")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
