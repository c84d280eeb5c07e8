"""Compare nsys2prv with the reference pipeline, and with versions of the public nsys2prv, on one report and machine.

    python benchmarks/compare.py long.sqlite [--repeat N] [--peer PATH]... [--nsys-ai PATH] [--write comparison.md]

`make_long.py` makes the report. The commands take turns, N times each; of their wall times (s) the least is kept, with
the CPU time (s) of that run, and of their peak memories (MB, 2^20 bytes) the greatest. Memory is the resident sizes of
all processes of a command added up every 200 ms, or the kernel's own maximum of one process where that is more. The
peer runs `nsys stats`, so `nsys` must be in the PATH with it. nsys-ai is asked for the overlap of communication and for
the kernels of each NVTX range, each time without the tables that it keeps of a report; `analyze` answers these and all
its other questions at once. Only the standard library is needed here; `reference.py`
runs with the same Python, which must have polars, pyarrow and adbc-driver-sqlite.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shlex
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

REFERENCE = Path(__file__).with_name("reference.py")
REFERENCE_CASE = "reference, 1 thread"
PEER_FAMILIES = "cuda_api_trace,nvtx_pushpop_trace,nvtx_startend_trace,gpu_metrics,nccl"
# Since version 0.6 of the public tool. It fails at the end of some reports, when its trace is there.
NEWER_FAMILIES = "cuda_api_trace,nvtx,gpu_metrics,nccl"
PEERS_CASE = "nsys2prv --jobs 1, the public tool's families"
SAMPLE_SECONDS = 0.2
HELP_RUNS = 5
MB = 2**20
COUNTED = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "kernels",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "memory copies",
    "CUPTI_ACTIVITY_KIND_MEMSET": "memsets",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "CUDA API calls",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "synchronizations",
    "NVTX_EVENTS": "NVTX rows",
    "OSRT_API": "OS calls",
    "GPU_METRICS": "GPU metric rows",
}


@dataclass(frozen=True)
class Run:
    """What one run of a command took: wall and CPU seconds, and its peak memory in bytes."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass
class Case:
    """A command to measure in a folder, how often, the file that it writes there, and its runs so far."""

    name: str
    command: list[str]
    folder: Path
    output: Path
    repeat: int
    runs: list[Run] = field(default_factory=list)

    def row(self, reference_seconds: float) -> str:
        """The case as a row of the Markdown table."""
        best = min(self.runs, key=lambda run: run.seconds)
        peak = max(run.peak_bytes for run in self.runs)
        numbers = [
            f"{best.seconds:.2f}",
            f"{best.seconds / reference_seconds:.2f}",
            f"{best.cpu_seconds:.2f}",
            f"{peak / MB:.0f}",
            f"{self.output.stat().st_size / MB:.1f}",
            str(len(self.runs)),
        ]
        return f"| {self.name} | {' | '.join(numbers)} |"


def session_bytes(session: int) -> int:
    """The resident memory of all processes of a session, added up: pages that they share count in each."""
    pages = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # the process ended meanwhile
            continue
        if int(fields[3]) == session:
            pages += int(fields[21])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(command: list[str], folder: Path) -> Run:
    """Run a command in a folder, as a session of its own, and measure it; ends the comparison if the command fails."""
    # A command's peak begins with that of the process that started it.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryFile() as log:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            with sampled_memory(process.pid) as samples:
                _, status, usage = os.wait4(process.pid, 0)
                seconds = time.perf_counter() - start
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            log.seek(0)
            sys.exit(f"{' '.join(command)}\nended with {process.returncode}:\n{log.read().decode()[-2000:]}")
    largest = usage.ru_maxrss * 1024 if usage.ru_maxrss > own else 0
    return Run(seconds, usage.ru_utime + usage.ru_stime, max(*samples, largest))


@contextmanager
def sampled_memory(session: int) -> Iterator[list[int]]:
    """The resident memory (bytes) of a session at each sample that was taken while the block ran."""
    samples = [0]
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            samples.append(session_bytes(session))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield samples
    finally:
        ended.set()
        sampler.join()


def cases(options: argparse.Namespace, folder: Path) -> list[Case]:
    """The commands to compare: nsys2prv and the reference with one and two cores, and the peer if it is given."""
    report = str(options.report.resolve())
    found = []
    for number, words in enumerate(("--jobs 1", "--jobs 2", f"--jobs 1 -t {PEER_FAMILIES}")):
        out = folder / f"ours-{number}.prv"
        command = [options.ours, "translate", report, "-o", str(out), "--force", "--quiet", *words.split()]
        name = f"nsys2prv {words}" if "-t" not in words else PEERS_CASE
        found.append(Case(name, command, folder, out, options.repeat))
    for threads in (1, 2):
        out = folder / f"reference-{threads}.csv"
        command = [sys.executable, str(REFERENCE), report, str(out), "--threads", str(threads)]
        name = REFERENCE_CASE if threads == 1 else f"reference, {threads} threads"
        found.append(Case(name, command, folder, out, options.repeat))
    for number, peer in enumerate(options.peer):
        found.append(peer_case(peer, options.report, folder / f"peer-{number}", options.peer_runs))
    return found


def peer_case(executable: str, report: Path, folder: Path, repeat: int) -> Case:
    """A public nsys2prv: it looks in its working folder for the SQLite export beside a report's name."""
    folder.mkdir()
    (folder / "long.sqlite").symlink_to(report.resolve())
    (folder / "long.nsys-rep").touch()
    # Its exit status is 1.
    said = subprocess.run([executable, "--version"], capture_output=True, text=True, check=False)
    version = (said.stdout + said.stderr).split("nsys2prv", 1)[-1].split()[0].removeprefix("v")
    families = PEER_FAMILIES if version.startswith("0.5") else NEWER_FAMILIES
    command = f"{shlex.quote(executable)} -t {families} long.nsys-rep peer || test -s peer.prv"
    return Case(f"public nsys2prv {version}", ["sh", "-c", command], folder, folder / "peer.prv", repeat)


def analysis_cases(options: argparse.Namespace, folder: Path) -> list[Case]:
    """The commands that answer questions: this project's analysis, and nsys-ai's overlap and kernels by range."""
    asked = {
        "nsys2prv analyze --jobs 1": f"{shlex.quote(options.ours)} analyze long.sqlite --json --jobs 1",
        "nsys-ai, overlap": f"{shlex.quote(options.nsys_ai)} overlap --gpu 0 --trim 0 1000000 long.sqlite",
        "nsys-ai, kernels by range": f"{shlex.quote(options.nsys_ai)} skill run nvtx_kernel_map long.sqlite",
    }
    found = []
    for number, (name, command) in enumerate(asked.items()):
        own = folder / f"asked-{number}"
        own.mkdir()
        (own / "long.sqlite").symlink_to(options.report.resolve())
        said = own / "said.txt"
        found.append(Case(name, ["sh", "-c", f"{command} > said.txt"], own, said, options.repeat))
    return found


def clear(case: Case) -> None:
    """Remove what an earlier run of the case has left: `nsys stats` and nsys-ai would use their own results again."""
    for left in [case.output, *case.folder.glob("long_*.csv")]:
        left.unlink(missing_ok=True)
    for kept in case.folder.glob("long.nsys-cache"):
        shutil.rmtree(kept)


def contents(report: Path) -> str:
    """What the report holds, in words."""
    db = sqlite3.connect(f"{report.resolve().as_uri()}?mode=ro", uri=True)
    present = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    counts = [
        f"{db.execute(f'SELECT COUNT(*) FROM {table}').fetchone()[0]:,} {words}"
        for table, words in COUNTED.items()
        if table in present
    ]
    db.close()
    return ", ".join(counts)


def machine() -> str:
    """The processor and the number of cores that this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor"
    )
    return f"{len(os.sched_getaffinity(0))} cores of {model}, Python {platform.python_version()}"


def page(report: Path, measured: list[Case], help_seconds: float) -> str:
    """The comparison as a Markdown page."""
    reference = next(case for case in measured if case.name == REFERENCE_CASE)
    reference_seconds = min(run.seconds for run in reference.runs)
    rows = "\n".join(case.row(reference_seconds) for case in measured)
    return f"""# Benchmarks

After this page you can estimate how long a translation takes and how much memory it needs, and measure it yourself.
`benchmarks/compare.py` writes it, and says how it measures; `benchmarks/make_long.py` made the report.

Report: {contents(report)}.

Machine: {machine()}.

| command | seconds | of reference | CPU seconds | peak MB | output MB | runs |
| --- | --: | --: | --: | --: | --: | --: |
{rows}

The reference (`benchmarks/reference.py`) reads the same columns, sorts and writes one row a line, with no labels,
clocks or lanes. The public tool, where it was compared, ran with
`-t {PEER_FAMILIES}`, and since 0.6 with
`-t {NEWER_FAMILIES}`; it writes no OS calls or synchronizations, and does not sort.

`nsys2prv --help` takes {help_seconds * 1000:.0f} ms (median of {HELP_RUNS}).
"""


def executable(name: str) -> str:
    """The full path of an executable, for commands that run in another folder."""
    found = shutil.which(name)
    if found is None:
        raise argparse.ArgumentTypeError(f"{name} is not an executable")
    return str(Path(found).absolute())


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare nsys2prv with the reference pipeline and the public peer.")
    parser.add_argument("report", type=Path, help="a long report as SQLite")
    parser.add_argument("--ours", type=executable, default="nsys2prv", metavar="PATH", help="this project's executable")
    parser.add_argument(
        "--peer",
        type=executable,
        action="append",
        default=[],
        metavar="PATH",
        help="a public nsys2prv; may repeat",
    )
    parser.add_argument("--nsys-ai", type=executable, metavar="PATH", help="nsys-ai, to compare answers to questions")
    parser.add_argument("--peer-runs", type=int, default=1, metavar="N", help="how often the peer runs (1)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="how often the other commands run (3)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to this file too")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measured = cases(options, folder) + (analysis_cases(options, folder) if options.nsys_ai else [])
        for turn in range(max(case.repeat for case in measured)):
            for case in measured:
                if turn < case.repeat:
                    clear(case)
                    case.runs.append(measure(case.command, case.folder))
        help_seconds = statistics.median(measure([options.ours, "--help"], folder).seconds for _ in range(HELP_RUNS))
        text = page(options.report, measured, help_seconds)
    print(text)
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(text)


if __name__ == "__main__":
    main()
