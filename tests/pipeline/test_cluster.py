"""On Dask workers a translation gives the bytes of the pool, also when a worker is lost."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import HELD, SAMPLES, Command, left_in

import nsys2prv
from nsys2prv.commands.batch.batch import batch
from nsys2prv.commands.batch.jobs import Settings
from nsys2prv.errors import LostWorkerError, UsageError
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.workers.cluster import UNSEEN, cluster, scheduler

psutil = pytest.importorskip("psutil")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
CORES = os.sched_getaffinity(0)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler with two workers on this machine."""
    with scheduler("local", 2) as found:
        yield found


def trace(stem: Path) -> list[bytes]:
    return [stem.with_name(stem.name + ending).read_bytes() for ending in (".prv", ".pcf", ".row", ".align.json")]


def test_workers_of_a_scheduler_give_the_bytes_of_one_process(
    address: str, gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several windows, so that workers encode some; and a current folder that they do not have.
    monkeypatch.chdir(tmp_path)
    limits = Limits(window_points=30_000)
    nsys2prv.translate(gpt_ddp, "dask", execution=nsys2prv.Execution(dask=address, limits=limits))
    nsys2prv.translate(gpt_ddp, "one", execution=nsys2prv.Execution(jobs=1))
    assert trace(tmp_path / "dask") == trace(tmp_path / "one")
    assert not [name for name in left_in(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize(
    ("jobs", "cores"),
    [(len(CORES), [{core} for core in sorted(CORES)]), (len(CORES) + 1, [CORES] * (len(CORES) + 1))],
    ids=["one each", "all of them"],
)
def test_workers_of_this_machine_have_cores_as_those_of_the_pool(jobs: int, cores: list[set[int]]) -> None:
    with scheduler("local", jobs) as found, distributed.Client(found, set_as_default=False) as client:
        client.wait_for_workers(jobs, timeout=60)
        assert sorted(client.run(os.sched_getaffinity, 0).values(), key=min) == cores


def test_workers_of_this_machine_watch_nothing() -> None:
    def seen() -> dict[str, object]:
        return {key: dask.config.get(key) for key in UNSEEN}

    with scheduler("local", 1) as found, distributed.Client(found, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        assert list(client.run(seen).values()) == [UNSEEN]


def test_an_analysis_has_the_same_figures(address: str, gpt_ddp: list[Path]) -> None:
    assert (
        nsys2prv.analyze(gpt_ddp, execution=nsys2prv.Execution(dask=address)).as_json()
        == nsys2prv.analyze(gpt_ddp, execution=nsys2prv.Execution(jobs=1)).as_json()
    )


def test_a_batch_shares_one_cluster(address: str, tmp_path: Path) -> None:
    for name, where in {"dask": nsys2prv.Execution(dask=address), "one": nsys2prv.Execution(jobs=1)}.items():
        found = batch(
            SAMPLES, tmp_path / name, settings=Settings(options=nsys2prv.RunOptions(one_run=True), execution=where)
        )
        assert {run.did for run in found.runs} == {"done"}
    for name in ("gpt-ddp", "mpi-halo", "single"):
        assert trace(tmp_path / "dask" / name) == trace(tmp_path / "one" / name)


def workers_of(process: int) -> list[Any]:
    """Dask's worker processes below a process."""
    started = psutil.Process(process).children(recursive=True)
    return [child for child in started if "spawn_main" in " ".join(child.cmdline())]


def test_the_part_of_a_killed_worker_is_done_again(gpt_ddp: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    inputs = [*map(str, gpt_ddp), "--quiet"]
    command = [*HELD, "translate", *inputs, "-o", str(out / "t"), "--dask", "local", "--jobs", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        # In mid-run: the first report's points are there.
        while not list(out.glob(".t.*/*.arrow")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        workers_of(process.pid)[0].kill()
        (out / "go").touch()
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    nsys2prv.translate(gpt_ddp, tmp_path / "one", execution=nsys2prv.Execution(jobs=1))
    assert trace(out / "t") == trace(tmp_path / "one")
    assert left_in(out) == ["go", "t.align.json", "t.pcf", "t.prv", "t.row"]


def take_worker_down(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_part_that_takes_every_worker_down_ends_with_one_line() -> None:
    with pytest.raises(LostWorkerError, match="killed over the same part"), cluster("local", 1) as mapped:
        list(mapped(take_worker_down, range(4)))


@pytest.mark.skipif(
    tuple(map(int, distributed.__version__.split(".")[:2])) < (2026, 7), reason="older Dask starts it again and again"
)
def test_a_worker_that_is_killed_while_it_starts_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "killed.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    # The module that a worker loads first, where each has a core of its own.
    monkeypatch.setattr("nsys2prv.pipeline.workers.cluster.OWN_CORE", str(tmp_path / "killed.py"))
    others = workers_of(os.getpid())
    with pytest.raises(LostWorkerError, match=r"--dask local: a worker ended while it started \(.*; try again, or"):
        scheduler("local", len(os.sched_getaffinity(0))).__enter__()
    left = [child for child in workers_of(os.getpid()) if child not in others]
    assert psutil.wait_procs(left, timeout=30)[1] == []


def test_an_interrupt_leaves_nothing(gpt_ddp: list[Path], tmp_path: Path) -> None:
    command = [*HELD, "translate", *map(str, gpt_ddp), "-o", str(tmp_path / "t"), "--dask", "local", "--quiet"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob(".t.*/*.arrow")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        started = workers_of(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err.strip()) == (130, "nsys2prv: interrupted; nothing was written")
    assert left_in(tmp_path) == []
    assert psutil.wait_procs(started, timeout=30)[1] == []


def test_futures_that_dask_drops_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """Ctrl-C left `Future exception was never retrieved ... TimeoutError` behind the one line that says so."""
    with scheduler("local", 1):
        pass
    for text in ("Future exception was never retrieved\nfuture: ...", "Task was destroyed but it is pending!"):
        logging.getLogger("asyncio").error(text)
    assert [record.getMessage()[:4] for record in caplog.records if record.name == "asyncio"] == ["Task"]


def test_a_scheduler_that_does_not_answer_is_said(
    cli: Command, saxpy: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nsys2prv.pipeline.workers.cluster.PATIENCE_SECONDS", 1)
    for wrong in ("nonsense", "tcp://127.0.0.1:1"):
        said = cli("translate", saxpy, "-o", output, "--dask", wrong, "--quiet")
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert f"--dask {wrong}: no scheduler answers there" in said.err
    assert left_in(output.parent) == []


def test_without_the_packages_it_says_what_to_install(
    cli: Command, saxpy: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = cli("translate", saxpy, "-o", output, "--dask", "local", "--quiet")
    assert said.code == 2
    assert "pip install '.[cluster]' in the clone" in said.err


def test_slurm_needs_a_number_of_workers() -> None:
    with pytest.raises(UsageError, match="--jobs 16"), scheduler("slurm"):
        pass
