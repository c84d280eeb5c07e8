"""Compare the traces that two checkouts write, byte for byte but for comments.

    python benchmarks/same_bytes.py BASE_PYTHON BASE_CHECKOUT NEW_PYTHON NEW_CHECKOUT [REPORTS ...] [--quick]
    python benchmarks/same_bytes.py --record FILE BASE_PYTHON BASE_CHECKOUT [REPORTS ...] [--quick]
    python benchmarks/same_bytes.py --against FILE NEW_PYTHON NEW_CHECKOUT [--quick]

The reports are those of the base checkout's `sample_reports` and `tests/data` and of the REPORTS folders: each report
alone, and all reports of a folder together; copies count once. Every input is translated in every variant of VARIANTS,
folders also in those of OF_FOLDERS. A difference is one line: case, file and the first line that differs. The exit code
is 1 if any case differs. Both sides may refuse a case, in other words. A crash is always a difference.

`--record` keeps hashes of what the base side wrote, so that `--against` runs the new side alone. It runs the base side
again for cases that differ, to show the line: leave the base checkout and the reports in place.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

# Python that makes a checkout cut reports into slices of SLICE_BYTES. It runs before the command line, in workers too.
# The first is for checkouts whose limits are constants of modules.
BASE_SLICES = """\
import nsys2prv.report.limits as limits
limits.SLICE_BYTES, limits.WHOLE_BYTES, limits.PIECE_BYTES = SLICE_BYTES, 0, SLICE_BYTES // 4
"""
NEW_SLICES = """\
from nsys2prv.model.limits import DEFAULT_LIMITS
for name, size in (("slice_bytes", SLICE_BYTES), ("whole_bytes", 0), ("piece_bytes", SLICE_BYTES // 4)):
    object.__setattr__(DEFAULT_LIMITS, name, size)
"""
# Follows either.
RUN = """\
if __name__ == "__main__":
    import runpy
    runpy.run_module("nsys2prv", run_name="__main__")
"""

# Subprocesses at a time.
AT_ONCE = 2
# A translation that takes longer (s) hangs.
LONGEST = 900
ENDINGS = (".prv", ".pcf", ".row")
# Slices of 1 MB; a report below 4 MB would have one or two of them, and has some twenty of a fraction of its size.
SLICE_BYTES, SMALL, FRACTION = 1_000_000, 4_000_000, 20
# In options: the middle fifth of the plain trace's time.
MIDDLE = "MIDDLE"


class Variant(NamedTuple):
    """A way to translate an input."""

    name: str
    options: tuple[str, ...]
    jobs: int = 1
    sliced: bool = False


# Families that are off by default.
ALSO = (
    "--also",
    "graph_creation,projection_thread,critical_path,idle_causes,os_callers,scheduling,cpu_samples,python_samples,"
    "overhead,tensor_estimate,states",
)
EVERYTHING = (*ALSO, "--threads", "all")
TIME = ("--time", MIDDLE)
VARIANTS = (
    Variant("plain", ()),
    Variant("jobs 2", (), jobs=2),
    Variant("slices", (), sliced=True),
    Variant("states", ("--states",)),
    Variant("time", TIME),
    Variant("everything", EVERYTHING),
    Variant("everything in slices", EVERYTHING, sliced=True),
    Variant("less", ("--min-duration", "10us", "--metrics-every", "10ms", "--merge-streams")),
)
OF_FOLDERS = (
    Variant("slices, jobs 2", (), jobs=2, sliced=True),
    Variant("time in slices", TIME, sliced=True),
    Variant("also", ALSO),
    Variant("everything, jobs 2", EVERYTHING, jobs=2),
    Variant("less in slices", ("--metrics-every", "1700us", "--merge-streams"), sliced=True),
    Variant("range", ("--nvtx", "backward")),
    Variant("ranks", ("--ranks", "0-1")),
    Variant("only", ("--only", "kernels,nvtx")),
    Variant("skip", ("--skip", "kernels,gpu_metrics")),
    Variant("align none", ("--align", "none")),
    Variant("rank from pid", ("--rank-from", "pid")),
    Variant("redact", ("--redact",)),
    Variant("compress", ("--compress",)),
)
QUICK = (
    *(f"sample_reports/gpt-ddp: {v}" for v in ("plain", "jobs 2", "slices", "time in slices", "everything", "less")),
    *(f"sample_reports/mpi-halo: {v}" for v in ("plain", "everything in slices", "ranks")),
    *(f"tests/data/nccl-launches: {v}" for v in ("also", "slices")),
    "tests/data/mpi-requests: plain",
    "tests/data/formats/rep.1_pqtdir: everything",
    "sample_reports/single/saxpy.sqlite: everything in slices",
    "tests/data/system-calls/system-calls.sqlite: plain",
)


class Input(NamedTuple):
    """A report, or the reports of a folder together."""

    name: str
    reports: tuple[Path, ...]


class Case(NamedTuple):
    """An input and a variant."""

    name: str
    reports: tuple[str, ...]
    options: tuple[str, ...]
    # None: the checkout's own limits.
    slice_bytes: int | None


class Outcome(NamedTuple):
    """The result of a translation (`wrote`, `refused` or `crashed`), the reason, and a hash of each file."""

    result: str
    reason: str
    hashes: dict[str, str]

    def same(self, other: Outcome) -> bool:
        """Return True if both wrote the same bytes, or both refused, in whatever words."""
        return self.result == other.result != "crashed" and self.hashes == other.hashes


class Side(NamedTuple):
    """A checkout, the Python that runs it, and the code that sets its slices."""

    python: str
    checkout: str
    slices: str

    def check(self) -> None:
        """Exit unless this Python loads the checkout and the code for slices works: those of 0 bytes must fail."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            loaded = self._run(["-c", "import nsys2prv; print(nsys2prv.__file__)"], folder)
            if not loaded.stdout.startswith(self.checkout + os.sep):
                sys.exit(f"{self.python} does not load {self.checkout}: {loaded.stdout or loaded.stderr}")
            reports = (str(next(Path(self.checkout, "sample_reports").rglob("*.sqlite"))),)
            if (right := self.translate(Case("", reports, (), SLICE_BYTES), folder)).result != "wrote":
                sys.exit(f"{self.checkout}: no trace with its code for slices: {right.reason}")
            if self.translate(Case("", reports, ("--force",), 0), folder).result == "wrote":
                sys.exit(f"{self.checkout}: its code for slices has no effect: slices of 0 bytes do not fail")

    def translate(self, case: Case, folder: Path) -> Outcome:
        """Write the case's trace into a folder."""
        command = ["-m", "nsys2prv"]
        if case.slice_bytes is not None:
            # In a file, which workers load, too; they do not load what follows `-c`.
            runner = folder / "runner.py"
            runner.write_text(f"SLICE_BYTES = {case.slice_bytes}\n{self.slices}\n{RUN}")
            command = [str(runner)]
        command += ["translate", *case.reports, *case.options, "--output", "trace", "--quiet"]
        # The steady window became the default later than the first version that is compared.
        if any(Path(self.checkout, "nsys2prv", "run").rglob("steady.py")):
            command += ["--window", "device"]
        try:
            done = self._run(command, folder)
        except subprocess.TimeoutExpired:
            return Outcome("crashed", f"took over {LONGEST} s", {})
        if done.returncode:
            crashed = done.returncode < 0 or "Traceback (most recent call last)" in done.stderr
            return Outcome("crashed" if crashed else "refused", done.stderr.strip().rpartition("\n")[2], {})
        return Outcome("wrote", "", {end: hashlib.sha256(content(folder, end)).hexdigest() for end in ENDINGS})

    def _run(self, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        command, environment = [self.python, *arguments], {**os.environ, "PYTHONPATH": self.checkout}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LONGEST)


def content(folder: Path, ending: str) -> bytes:
    """Return a file of the trace, without comments; empty if it was not written."""
    path = folder / f"trace{ending}"
    packed = folder / f"trace{ending}.gz"
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes() if path.exists() else b""
    if ending != ".prv":
        return data
    header, end, body = data.partition(b"\n")
    return header + end + re.sub(rb"(?m)^#.*\n?", b"", body)


def files_of(report: Path) -> list[Path]:
    """List the files of a report: an SQLite export, or a folder of Parquet or Arrow files; none of anything else."""
    if report.is_dir():
        return sorted([*report.glob("*.parquet"), *report.glob("*.arrow")])
    return [report] if report.suffix == ".sqlite" else []


def inputs_below(folder: Path, name: str) -> Iterator[Input]:
    """Find every report below a folder, and every folder with several."""
    children = sorted(folder.iterdir())
    reports = [child for child in children if files_of(child)]
    yield from (Input(f"{name}/{report.name}", (report,)) for report in reports)
    if len(reports) > 1:
        yield Input(name, tuple(reports))
    for child in children:
        if child.is_dir() and child not in reports:
            yield from inputs_below(child, f"{name}/{child.name}")


def without_copies(inputs: Iterable[Input]) -> Iterator[Input]:
    """Pass over inputs whose reports have the names and bytes of earlier ones."""
    seen = set()
    for one in inputs:
        key = tuple(
            (report.name, *(hashlib.sha256(file.read_bytes()).digest() for file in files_of(report)))
            for report in one.reports
        )
        if key not in seen:
            seen.add(key)
            yield one


def cases_of(one: Input) -> list[Case]:
    """Combine an input with all variants that apply to it."""
    largest = max(sum(file.stat().st_size for file in files_of(report)) for report in one.reports)
    slice_bytes = SLICE_BYTES if largest >= SMALL else largest // FRACTION
    reports = tuple(map(str, one.reports))
    return [
        Case(f"{one.name}: {v.name}", reports, (*v.options, "--jobs", str(v.jobs)), slice_bytes if v.sliced else None)
        for v in (*VARIANTS, *(OF_FOLDERS if len(reports) > 1 else ()))
    ]


def record(base: Side, one: Input, chosen: Callable[[str], bool]) -> list[tuple[Case, Outcome]]:
    """Translate an input in all chosen cases."""
    cases = [case for case in cases_of(one) if chosen(case.name)]
    if any(MIDDLE in case.options for case in cases):
        span = _middle(base, one)
        cases = [c._replace(options=tuple(span if o == MIDDLE else o for o in c.options)) for c in cases]
    recorded = []
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            recorded.append((case, base.translate(case, Path(folder))))
    return recorded


def _middle(base: Side, one: Input) -> str:
    """Return the middle fifth of a trace's time, as `--time` takes it; all of it for an input without a trace."""
    with tempfile.TemporaryDirectory() as folder:
        base.translate(cases_of(one)[0], Path(folder))
        duration = re.search(rb"\):(\d+)_ns:", content(Path(folder), ".prv").partition(b"\n")[0])
    fifth = int(duration[1]) // 5 if duration else 0
    return f"{2 * fifth}ns:{3 * fifth}ns" if fifth else "0ns:"


def differences(base: Side, new: Side, case: Case, expected: Outcome) -> list[str]:
    """Run a case on the new side; return a line for each file that differs from the base side's."""
    with tempfile.TemporaryDirectory() as new_folder, tempfile.TemporaryDirectory() as base_folder:
        found = new.translate(case, Path(new_folder))
        if found.same(expected):
            return []
        if not found.result == expected.result == "wrote":
            return [f"{case.name}: base {expected.result} {expected.reason}; new {found.result} {found.reason}"]
        # The record proves nothing where the base checkout has changed or does not write the same twice.
        if not base.translate(case, Path(base_folder)).same(expected):
            return [f"{case.name}: the base does not write again what it wrote before"]
        return [
            f"{case.name}: {ending}: {_first_difference(content(Path(base_folder), ending), now)}"
            for ending in ENDINGS
            if hashlib.sha256(now := content(Path(new_folder), ending)).hexdigest() != expected.hashes[ending]
        ]


def _first_difference(base: bytes, new: bytes) -> str:
    pairs = zip_longest(base.split(b"\n"), new.split(b"\n"), fillvalue=b"(nothing)")
    number, (old, other) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return f"line {number}: {old[:120].decode(errors='replace')!r} became {other[:120].decode(errors='replace')!r}"


def record_all(base: Side, folders: Iterable[Path], chosen: Callable[[str], bool]) -> list[tuple[Case, Outcome]]:
    """Translate all inputs with the base side."""
    checkout = Path(base.checkout)
    named = [(checkout / "sample_reports", "sample_reports"), (checkout / "tests" / "data", "tests/data")]
    named += [(folder.resolve(), folder.resolve().name) for folder in folders]
    inputs = without_copies(one for folder, name in named for one in inputs_below(folder, name))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return [pair for part in threads.map(lambda one: record(base, one, chosen), inputs) for pair in part]


def compare(base: Side, new: Side, recorded: list[tuple[Case, Outcome]]) -> int:
    """Run all cases on the new side and print the differences; return the number of cases that differ."""
    differing = 0
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for lines in threads.map(lambda pair: differences(base, new, *pair), recorded):
            differing += bool(lines)
            for line in lines:
                print(line, flush=True)
    print(f"{len(recorded)} cases, {differing} differ")
    return differing


def checked(python: str, checkout: str, slices: Path | None) -> Side:
    """Make a side of its arguments; exit if it does not work."""
    folder = Path(checkout).resolve()
    usual = NEW_SLICES if (folder / "nsys2prv" / "model" / "limits.py").exists() else BASE_SLICES
    side = Side(python, str(folder), slices.read_text() if slices else usual)
    side.check()
    return side


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arguments", nargs="+", metavar="ARGUMENT", help="see above")
    parser.add_argument("--quick", action="store_true", help=f"run {len(QUICK)} cases only")
    parser.add_argument("--only", metavar="TEXT", default="", help="run cases with this in their name only")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the hashes of the base side there")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with such a file")
    parser.add_argument("--base-slices", type=Path, metavar="FILE", help="Python that sets the slices of the base side")
    parser.add_argument("--new-slices", type=Path, metavar="FILE", help="Python that sets the slices of the new side")
    given = parser.parse_args()
    arguments: list[str] = given.arguments
    if len(arguments) < (2 if given.record or given.against else 4):
        parser.error("give a Python and a checkout for each side")

    def chosen(name: str) -> bool:
        return given.only in name and (not given.quick or name in QUICK)

    new = None
    if given.against is None:
        base = checked(arguments.pop(0), arguments.pop(0), given.base_slices)
    if given.record is None:
        new = checked(arguments.pop(0), arguments.pop(0), given.new_slices)
    if given.against is None:
        recorded = record_all(base, map(Path, arguments), chosen)
    else:
        kept = json.loads(given.against.read_text())
        base = Side(*kept["base"])
        recorded = [(Case(*case), Outcome(*outcome)) for case, outcome in kept["cases"] if chosen(case[0])]
    if new is None:
        given.record.write_text(json.dumps({"base": base, "cases": recorded}, indent=1))
        results = Counter(outcome.result for _, outcome in recorded)
        print(f"{len(recorded)} cases: {', '.join(f'{count} {result}' for result, count in results.items())}")
    else:
        sys.exit(compare(base, new, recorded) > 0)


if __name__ == "__main__":
    main()
