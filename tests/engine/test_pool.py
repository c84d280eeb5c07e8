"""`nsys2prv.engine.pool`: how processes share the cores; and in which order they are given the reports."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import polars as pl
import pytest

import nsys2prv
from nsys2prv.engine import translate
from nsys2prv.engine.pool import THREADS, pool
from nsys2prv.engine.task import ExtractTask

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


def out_of_sight(_: int) -> int:
    """How many objects the collector of this process does not look through."""
    return gc.get_freeze_count()


def test_workers_keep_what_they_load_out_of_the_collector_s_sight() -> None:
    with pool(1) as mapped:
        assert next(mapped(out_of_sight, range(1))) > 10_000


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
    monkeypatch.delenv(THREADS, raising=False)
    if given:
        monkeypatch.setenv(THREADS, given)
    with pool(jobs) as mapped:
        assert list(mapped(threads_of_polars, range(2))) == [threads] * 2


WAITING = """
import time
import nsys2prv.engine.translate
from nsys2prv.engine.pool import pool

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


def test_the_largest_reports_are_read_first(
    gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    extract = translate.extract

    def reading(task: ExtractTask) -> object:
        read.append(task.path)
        return extract(task)

    monkeypatch.setattr(translate, "extract", reading)
    nsys2prv.translate(gpt_ddp, tmp_path / "trace", jobs=1)
    assert read == sorted(gpt_ddp, key=lambda path: path.stat().st_size, reverse=True) != sorted(gpt_ddp)
