"""`nsys2prv.pipeline.workers.pool`: how processes share the cores; and in which order they are given the reports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

import nsys2prv
from nsys2prv.commands import extraction
from nsys2prv.errors import LostWorkerError
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.extract.report_part import ReportPart
from nsys2prv.pipeline.workers.pool import POLARS_THREADS, pool

CORES = os.sched_getaffinity(0)


def met(folder: Path, count: int, _: int) -> set[int]:
    """The cores of this process, once so many have met in a folder."""
    (folder / str(os.getpid())).touch()
    until = time.monotonic() + 60
    while len(list(folder.iterdir())) < count and time.monotonic() < until:
        time.sleep(0.01)
    return os.sched_getaffinity(0)


def test_as_many_workers_as_cores_have_one_each(tmp_path: Path) -> None:
    count = len(CORES)
    with pool(count) as mapped:
        own = list(mapped(partial(met, tmp_path, count), range(count)))
    assert sorted(map(list, own)) == [[core] for core in sorted(CORES)]


@pytest.mark.parametrize(("jobs", "parts"), [(len(CORES) + 1, None), (len(CORES) + 1, 1), (len(CORES), 1)])
def test_other_workers_share_all_cores(jobs: int, parts: int | None) -> None:
    with pool(jobs, parts) as mapped:
        assert list(mapped(os.sched_getaffinity, [0] * 2)) == [CORES] * 2


def threads_of_polars(_: int) -> int:
    """How many this process has."""
    return pl.thread_pool_size()


@pytest.mark.parametrize(
    ("jobs", "given", "threads"),
    [(1, None, len(CORES)), (len(CORES), None, 1), (1, "1", 1)],
    ids=["all cores are one worker's", "a core each", "no more than given"],
)
def test_workers_have_the_threads_of_their_cores(
    jobs: int, given: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(POLARS_THREADS, raising=False)
    if given:
        monkeypatch.setenv(POLARS_THREADS, given)
    with pool(jobs) as mapped:
        assert list(mapped(threads_of_polars, range(2))) == [threads] * 2


WAITING = """
import time
import nsys2prv.commands.translate
from nsys2prv.pipeline.workers.pool import pool

if __name__ == "__main__":
    with pool(1) as mapped:
        results = mapped(time.sleep, [3600])
        print("waiting", flush=True)
        next(results)
"""


def test_an_interrupt_ends_a_wait_for_workers(tmp_path: Path) -> None:
    script = tmp_path / "waiting.py"
    script.write_text(WAITING)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            assert run.stdout.readline() == "waiting\n"
            # It does wait.
            time.sleep(1)
            run.send_signal(signal.SIGINT)
            _, err = run.communicate(timeout=60)
        finally:
            run.kill()
    assert err.strip().endswith("KeyboardInterrupt")


AGAIN = """
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from nsys2prv.pipeline.workers.pool import pool

shutdown = ProcessPoolExecutor.shutdown


def interrupted(executor, **how):
    ProcessPoolExecutor.shutdown = shutdown
    shutdown(executor, **how)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    ProcessPoolExecutor.shutdown = interrupted
    with pool(2) as mapped:
        mapped(time.sleep, [3600] * 2)
        os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_second_interrupt_leaves_no_worker_that_lives(tmp_path: Path) -> None:
    """One that comes before the workers are told to end."""
    script = tmp_path / "again.py"
    script.write_text(AGAIN)
    run = subprocess.run([sys.executable, script], stderr=subprocess.PIPE, text=True, timeout=60)
    assert run.stderr.strip().endswith("KeyboardInterrupt")


SENDING = """
import os
import signal
import threading
import time
from pathlib import Path
from nsys2prv.pipeline.workers.pool import pool


def received():
    return int(Path(f"/proc/{os.getppid()}/io").read_text().split("rchar: ")[1].split()[0])


def interrupt(before):
    while received() < before + 1_000_000:
        time.sleep(0.001)
    os.kill(os.getppid(), signal.SIGINT)


def large(number):
    threading.Thread(target=interrupt, args=(received(),), daemon=True).start()
    return bytes(1 << 28)


if __name__ == "__main__":
    with pool(1) as mapped:
        list(mapped(large, range(9)))
"""


def test_an_interrupt_while_a_worker_sends_its_result_ends_the_run(tmp_path: Path) -> None:
    """What the worker does not send any more is not waited for, and is no second error."""
    script = tmp_path / "sending.py"
    script.write_text(SENDING)
    run = subprocess.run([sys.executable, script], stderr=subprocess.PIPE, text=True, timeout=60)
    assert run.stderr.strip().endswith("KeyboardInterrupt")
    assert "Exception in thread" not in run.stderr


def die_at_two(number: int) -> int:
    """As where the system kills a process for lack of memory."""
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_who_is_killed_is_told_by_what_it_was_at() -> None:
    with pytest.raises(LostWorkerError, match="use fewer --jobs") as lost, pool(1) as mapped:
        list(mapped(die_at_two, [1, 2, 3]))
    assert lost.value.items == (2,)


def die_at_rank_2(part: ReportPart) -> object:
    """The same, at one of the reports."""
    if part.path.name == "gpt-ddp.1.2.sqlite":
        os.kill(os.getpid(), signal.SIGKILL)
    return extraction.extract(part)


@pytest.mark.parametrize("work", [nsys2prv.analyze, partial(nsys2prv.translate, output="trace")])
def test_the_report_over_which_a_worker_is_killed_is_named(
    work: Callable[..., object], gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extraction, "try_extract", die_at_rank_2)
    with pytest.raises(LostWorkerError, match="a worker was killed over it") as lost:
        work(gpt_ddp, execution=nsys2prv.Execution(jobs=2, limits=Limits(process_bytes=1)))
    named = str(lost.value).partition(": ")[0].split(" or ")
    assert str(gpt_ddp[2]) in named
    # The other worker may have been at another one.
    assert len(named) <= 2
    assert set(named) <= set(map(str, gpt_ddp))
    assert list(tmp_path.iterdir()) == []


def test_the_largest_reports_are_read_first(
    gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    extract = extraction.extract

    def reading(part: ReportPart) -> object:
        read.append(part.path)
        return extract(part)

    monkeypatch.setattr(extraction, "extract", reading)
    nsys2prv.translate(gpt_ddp, tmp_path / "trace", execution=nsys2prv.Execution(jobs=1))
    assert read == sorted(gpt_ddp, key=lambda path: path.stat().st_size, reverse=True) != sorted(gpt_ddp)
