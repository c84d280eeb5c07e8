"""Two translations to one output at once: the later one is refused."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from runs import left_in

import nsys2prv
from nsys2prv.errors import UsageError
from nsys2prv.model.whole_file import partial_path
from nsys2prv.pipeline.workers.partial_files import LOCK, first_maker, held, sweep
from nsys2prv.pipeline.write.files import scratch

# Holds an intermediate folder of the trace `trace` in the current folder, until its input ends.
OTHER = """
import sys
from pathlib import Path
from nsys2prv.pipeline.write.files import scratch
with scratch(Path("trace").absolute(), alone=True):
    print("ready", flush=True)
    sys.stdin.read()
"""
ONE = nsys2prv.Execution(jobs=1)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return a process that is writing the trace `trace`, until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


def test_the_later_of_two_translations_to_one_output_is_refused(
    saxpy: Path, tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    with pytest.raises(UsageError, match=rf"trace: process {other.pid} is writing this trace; wait for it"):
        nsys2prv.translate(saxpy, tmp_path / "trace", execution=ONE)
    assert left_in(tmp_path) == [f".trace.{other.pid}-1.partial"]
    nsys2prv.translate(saxpy, tmp_path / "trace2", execution=ONE)
    other.communicate()
    nsys2prv.translate(saxpy, tmp_path / "trace", execution=ONE)


def test_the_later_of_two_in_one_process_is_refused(tmp_path: Path) -> None:
    with (
        scratch(tmp_path / "trace", alone=True),
        pytest.raises(UsageError, match=f"process {os.getpid()} is writing"),
        scratch(tmp_path / "trace", alone=True),
    ):
        pass
    assert left_in(tmp_path) == []


def test_a_folder_that_a_sweep_removes_before_it_is_locked_is_made_again(tmp_path: Path) -> None:
    """Until then it looks like that of a dead process."""
    folder = tmp_path / ".trace.1.partial"
    folder.mkdir()
    (folder / LOCK).touch()
    with ThreadPoolExecutor(1) as maker, ExitStack() as stack:
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            made = maker.submit(stack.enter_context, held(folder))
            shutil.rmtree(folder)
        made.result()
        assert sweep(tmp_path) == []
        assert left_in(folder) == [LOCK]
    assert sweep(tmp_path) == [folder]


def test_a_folder_that_a_sweep_removes_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`mkdir` fails as the folder exists, and then finds none."""
    made, calls = Path.mkdir, []

    def mkdir(path: Path, exist_ok: bool = False) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise FileExistsError
        made(path, exist_ok=exist_ok)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with held(tmp_path / ".trace.1.partial"):
        assert left_in(tmp_path / ".trace.1.partial") == [LOCK]
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError), held(tmp_path / "file"):
        pass


def test_who_has_claimed_the_output_is_first_whatever_the_times_of_files_say(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    """File systems round times to milliseconds, and clocks are set back."""
    folder = partial_path(tmp_path / "trace")
    folder.mkdir()
    with held(folder):
        os.utime(folder / LOCK, ns=(1, 1))
        assert first_maker(folder) == other.pid
