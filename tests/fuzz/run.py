"""Many cases, in processes that are replaced when they die or hang."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import mkdtemp

from nsys2prv.pipeline.workers.own_core import keep_on

from .case import Verdict, enter, run_case

LIMIT_S = 10.0
# On a machine that others use, time passes without work: what hangs without working is given longer.
IDLE_LIMIT_S = 60.0
ADDRESS_SPACE = 8 << 30


def _serve(pipe: Connection, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    here = folder / "here"
    while True:
        here.mkdir()
        enter(here)
        pipe.send(None)
        number = pipe.recv()
        if number is None:
            return
        pipe.send(run_case(number, here))
        os.chdir(folder)
        shutil.rmtree(here)


class _Worker:
    """A process that takes one case after the other. Its threads wake each other for each query: quick on one core."""

    def __init__(self, quiet: bool, core: int | None) -> None:
        self.core = core
        context = multiprocessing.get_context("spawn")
        self.folder = Path(mkdtemp(prefix="fuzz-"))
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_begin, args=(other, self.folder, quiet, core), daemon=True)
        self.process.start()
        other.close()
        self.number: int | None = None
        self.since, self.worked = time.monotonic(), 0.0

    def cpu(self) -> float:
        """Seconds of work of the process."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_late(self) -> bool:
        """Whether the case takes too long."""
        waited = time.monotonic() - self.since
        return waited > LIMIT_S and (waited > IDLE_LIMIT_S or self.cpu() - self.worked > LIMIT_S)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _begin(pipe: Connection, folder: Path, quiet: bool, core: int | None) -> None:
    if core is not None:
        keep_on(core)
    if quiet:
        # Panics of Polars' threads are written there, even those that are answered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    _serve(pipe, folder)


def verdicts(numbers: Iterable[int], workers: int = 1, quiet: bool = True) -> Iterator[Verdict]:
    """Of each number, in the order in which they are ready."""
    waiting = iter(numbers)
    cores = sorted(os.sched_getaffinity(0))
    crew = [_Worker(quiet, core) for core in (cores if workers == len(cores) else [None] * workers)]
    try:
        while crew:
            ready = wait([w.pipe for w in crew], timeout=0.2)
            for worker in list(crew):
                verdict = None
                try:
                    said = worker.pipe.recv() if worker.pipe in ready else ...
                except EOFError:
                    worker.process.join()
                    verdict = Verdict(worker.number or -1, f"the process died ({worker.process.exitcode})", "")
                else:
                    if said is None:
                        worker.number = next(waiting, None)
                        worker.since, worker.worked = time.monotonic(), worker.cpu()
                        worker.pipe.send(worker.number)
                        if worker.number is None:
                            worker.end()
                            crew.remove(worker)
                    elif said is not ...:
                        yield said
                        worker.number = None
                    elif worker.number is not None and worker.is_late():
                        verdict = Verdict(worker.number, f"more than {LIMIT_S:.0f} s", "")
                if verdict is not None:
                    worker.end()
                    crew[crew.index(worker)] = _Worker(quiet, worker.core)
                    yield verdict
    finally:
        for worker in crew:
            worker.end()
