"""`nsys2prv.pipeline.extract.background`: a queue of jobs on a thread of their own."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

import nsys2prv
from nsys2prv.errors import OutputError
from nsys2prv.pipeline.extract import background, extract
from nsys2prv.pipeline.extract.background import MOST_WAITING, background_queue
from nsys2prv.pipeline.extract.point_writer import PointWriter
from nsys2prv.pipeline.extract.report_extraction import ReportExtraction

BOTH = pytest.mark.parametrize("apart", [False, True], ids=["at once", "apart"])


@BOTH
def test_all_is_done_in_order_at_the_end(apart: bool) -> None:
    done: list[int] = []
    with background_queue(apart) as do:
        for number in range(100):
            do(partial(done.append, number))
    assert done == list(range(100))


@pytest.mark.parametrize(("apart", "threads"), [(False, 0), (True, 1)])
def test_work_has_one_thread_of_its_own(apart: bool, threads: int) -> None:
    seen: set[threading.Thread] = set()
    with background_queue(apart) as do:
        for _ in range(10):
            do(lambda: seen.add(threading.current_thread()))
    assert len(seen - {threading.current_thread()}) == threads


def test_few_pieces_wait() -> None:
    go_on, given = threading.Event(), []

    def give() -> None:
        with background_queue(own_thread=True) as do:
            for number in range(10):
                do(go_on.wait)  # type: ignore[arg-type]
                given.append(number)

    giver = threading.Thread(target=give)
    giver.start()
    giver.join(0.2)
    # One more is being given.
    assert len(given) <= MOST_WAITING
    go_on.set()
    giver.join()
    assert len(given) == 10


@BOTH
def test_an_error_ends_the_work(apart: bool) -> None:
    done: list[int] = []

    def fail() -> None:
        raise OutputError("no space")

    def give() -> None:
        with background_queue(apart) as do:
            do(fail)
            for number in range(10 * MOST_WAITING):
                do(partial(done.append, number))

    with pytest.raises(OutputError, match="no space"):
        give()
    assert len(done) <= MOST_WAITING + 1


def test_an_error_is_raised_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MOST_WAITING", 100)
    go_on, failed, called = threading.Event(), threading.Event(), []

    def fail() -> None:
        go_on.wait()
        raise OutputError("no space")

    def give() -> None:
        with background_queue(own_thread=True) as do:
            do(fail)
            do(failed.set)
            go_on.set()
            failed.wait()
            called.append("next")
            do(lambda: None)
            called.append("one more")

    with pytest.raises(OutputError, match="no space"):
        give()
    assert called == ["next"]


@pytest.mark.parametrize(("cores", "apart"), [(1, False), (2, True)])
def test_points_are_made_apart_where_there_is_a_second_core(
    cores: int, apart: bool, gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[type, set[int]] = {ReportExtraction: set(), PointWriter: set()}

    def watch(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def watched(*args: object) -> None:
            threads[owner].add(threading.get_ident())
            method(*args)

        monkeypatch.setattr(owner, name, watched)

    monkeypatch.setattr(extract.pl, "thread_pool_size", lambda: cores)
    watch(ReportExtraction, "extract_family")
    watch(PointWriter, "add_frame")
    nsys2prv.translate(gpt_ddp[0], tmp_path / "trace", execution=nsys2prv.Execution(jobs=1))
    assert len(threads[PointWriter]) == len(threads[ReportExtraction]) == 1
    assert (threads[PointWriter] != threads[ReportExtraction]) == apart


@pytest.mark.parametrize("cores", [1, 2])
def test_a_disk_that_takes_no_more_is_told(
    cores: int, gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OutputError("cannot write intermediate files")

    monkeypatch.setattr(extract.pl, "thread_pool_size", lambda: cores)
    monkeypatch.setattr(PointWriter, "store_family", full)
    with pytest.raises(OutputError, match="intermediate"):
        nsys2prv.translate(gpt_ddp, tmp_path / "trace", execution=nsys2prv.Execution(jobs=1))
    assert not list(tmp_path.iterdir())
