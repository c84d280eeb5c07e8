"""`nsys2prv.pipeline.workers.polars_thread`: work that is done on one of Polars' threads."""

from __future__ import annotations

import _thread
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import FrameType

import polars as pl
import pytest

import nsys2prv
from nsys2prv.errors import OutputError
from nsys2prv.pipeline.extract.report_extraction import ReportExtraction
from nsys2prv.pipeline.workers import polars_thread
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread

several = pytest.mark.skipif(pl.thread_pool_size() == 1, reason="Polars has one thread, which is left to answer")


def query() -> int:
    """What any thread may ask."""
    frame = pl.DataFrame({"a": range(1000)})
    return int(frame.join(frame, on="a").select(pl.col("a").sum(), b=pl.len())["a"][0])


def here() -> str:
    """The kernel's name of the thread that asks."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text()


@several
def test_work_is_done_on_a_thread_of_polars() -> None:
    assert on_polars_thread(here)().startswith("polars")


def test_the_caller_works_where_no_thread_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polars_thread, "_free", threading.Semaphore(0))
    assert on_polars_thread(threading.get_ident)() == threading.get_ident()


@pytest.mark.parametrize("free", [0, 1])
def test_results_and_errors_are_those_of_the_work(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polars_thread, "_free", threading.Semaphore(free))

    @on_polars_thread
    def work(first: int, *, second: int) -> int:
        if not first:
            raise OutputError("no space")
        return first + second

    assert work(1, second=2) == 3
    with pytest.raises(OutputError, match="no space"):
        work(0, second=2)


def test_works_that_wait_for_queries_of_other_threads_all_end() -> None:
    with ThreadPoolExecutor(8) as asking:

        @on_polars_thread
        def wait() -> int:
            return sum(asking.submit(query).result() for _ in range(20))

        callers = [threading.Thread(target=wait, daemon=True) for _ in range(4 * pl.thread_pool_size())]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
        assert not any(caller.is_alive() for caller in callers)


@pytest.fixture
def alarm() -> Iterator[None]:
    """SIGALRM, as SIGINT, raises KeyboardInterrupt."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.signal(signal.SIGALRM, before)


def waits(thread: int) -> bool:
    """Whether a thread waits for a future, or is itself the one that asks: there a signal reaches it."""
    stack = traceback.walk_stack(sys._current_frames()[thread])
    return thread == threading.get_ident() or any(f.f_code is wait.__code__ for f, _ in stack)


@pytest.mark.usefixtures("alarm")
def test_an_interrupt_reaches_the_work_which_ends_before_its_caller_goes_on() -> None:
    steps: list[str] = []
    caller = threading.get_ident()

    @on_polars_thread
    def work() -> None:
        try:
            while not waits(caller):
                query()
            # As a signal that comes just before the caller sleeps: it does not wake it.
            _thread.interrupt_main(signal.SIGALRM)
            until = time.monotonic() + 20
            while time.monotonic() < until:
                query()
            steps.append("went on")
        finally:
            query()
            steps.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == ["cleaned up"]


def test_an_interrupt_ends_work_that_is_handed_over_just_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that asks has started, and its starter does not know it yet."""
    before, start = threading.active_count(), threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)

    @on_polars_thread
    def work() -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            query()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert threading.active_count() == before


def test_work_that_is_interrupted_before_it_begins_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []

    def interrupted(thread: threading.Thread) -> None:
        started.append(thread)
        raise KeyboardInterrupt

    begun: list[bool] = []
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            on_polars_thread(lambda: begun.append(True))()
    (late,) = started
    late.start()
    late.join()
    assert begun == []


@several
@pytest.mark.parametrize(("starts_after_s", "never_starts_s"), [(0.3, 30.0), (30.0, 0.3)], ids=["starts", "never"])
@pytest.mark.usefixtures("alarm")
def test_an_interrupt_waits_for_threads_that_start_but_not_for_those_that_never_do(
    starts_after_s: float, never_starts_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that is about to start: in 0.3 s, or never, as one whose starter was interrupted."""
    monkeypatch.setattr(polars_thread, "_NEVER_STARTS_S", never_starts_s)
    about_to_start, caller, threads = threading.Thread(), threading.get_ident(), threading.enumerate
    took: list[float] = []

    @on_polars_thread
    def work() -> None:
        while not waits(caller):
            query()
        begun = time.monotonic()

        def enumerated() -> list[threading.Thread]:
            return threads() + [about_to_start] * (time.monotonic() < begun + starts_after_s)

        monkeypatch.setattr(threading, "enumerate", enumerated)
        _thread.interrupt_main(signal.SIGALRM)
        try:
            while time.monotonic() < begun + 20:
                query()
        finally:
            took.append(time.monotonic() - begun)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(took) == 1
    assert 0.3 <= took[0] < 10


INTERRUPTED = """
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
import polars as pl
from nsys2prv.pipeline.workers.polars_thread import on_polars_thread

def interrupt(number, frame):
    raise KeyboardInterrupt

@on_polars_thread
def work():
    while True:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(int).result()

# On busy cores a thread takes long to start.
ended = threading.Event()

def keep_busy():
    while not ended.is_set():
        pl.Series(range(100_000)).sort()

busy = [threading.Thread(target=keep_busy) for _ in range(3)]
for thread in busy:
    thread.start()
signal.signal(signal.SIGALRM, interrupt)
for _ in range(20):
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.02, 0.06))
    try:
        work()
    except KeyboardInterrupt:
        pass
ended.set()
print("done")
"""


def test_an_interrupt_ends_no_thread_that_is_about_to_start() -> None:
    """The work would wait for its start forever."""
    said = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60)
    assert (said.stdout, said.stderr) == ("done\n", "")


@several
def test_reports_are_extracted_there(gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    take = ReportExtraction.extract_family

    def taking(*args: object) -> None:
        threads.add(here())
        take(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(ReportExtraction, "extract_family", taking)
    nsys2prv.translate(gpt_ddp, tmp_path / "trace", execution=nsys2prv.Execution(jobs=1))
    assert threads
    assert all(name.startswith("polars") for name in threads)


def test_translations_on_several_threads_give_one_trace(gpt_ddp: list[Path], tmp_path: Path) -> None:
    def translate(number: int) -> bytes:
        nsys2prv.translate(gpt_ddp[:2], tmp_path / f"trace{number}", execution=nsys2prv.Execution(jobs=1))
        return (tmp_path / f"trace{number}.prv").read_bytes()

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(translate, range(4)))) == 1
