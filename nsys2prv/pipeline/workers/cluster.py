"""Maps over many machines, on `dask.distributed`: the same functions, on the files of a shared file system."""

from __future__ import annotations

import concurrent.futures
import importlib
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from nsys2prv.errors import LostWorkerError, Nsys2prvError, UsageError
from nsys2prv.model.version import VERSION
from nsys2prv.pipeline.workers.maps import Map

# Seconds until a scheduler must answer and have a worker.
PATIENCE_SECONDS = 60
# Resources of a SLURM worker where dask-jobqueue's configuration names none.
SLURM_DEFAULTS = {"cores": 1, "memory": "4 GiB"}
# Environment that keeps workers from taking each other's cores.
ONE_THREAD = {"POLARS_MAX_THREADS": "1"}
# Dask measures its processes many times a second for a dashboard that nobody sees. That takes a twentieth of two cores.
UNSEEN = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}
OWN_CORE = "nsys2prv.pipeline.workers.own_core"


@contextmanager
def cluster(dask: str, jobs: int | None = None) -> Iterator[Map[Any, Any]]:
    """Yield a function that maps in order over Dask workers. The item of a lost worker is done again elsewhere.

    `dask`: `local`, `slurm` or the address of a scheduler (see `scheduler`). Raises LostWorkerError when one item
    brings several workers down, UsageError when there is no such cluster.
    """
    distributed = _load("distributed")
    with scheduler(dask, jobs) as address, _client(distributed, address) as client:
        if address == dask:
            _check_workers(client, address)

        def mapped(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            waiting = deque(client.map(function, list(items), pure=False))
            while waiting:
                yield waiting.popleft().result()

        try:
            yield mapped
        except distributed.KilledWorker as error:
            raise LostWorkerError(
                f"{error.allowed_failures + 1} Dask workers were killed over the same part of the work, perhaps for "
                "lack of memory; give them more, or let fewer share a machine"
            ) from None
        except (concurrent.futures.CancelledError, distributed.comm.CommClosedError):
            raise Nsys2prvError(f"the Dask scheduler at {address} is gone; start it, and this, again") from None


@contextmanager
def scheduler(dask: str, jobs: int | None = None) -> Iterator[str]:
    """Yield the address of the scheduler to use.

    `local`: one started here with `jobs` workers (default: a core each); `slurm`: one here whose `jobs` workers are
    SLURM jobs; both end with the context. Else `dask` is the address of one that runs.

    Raises UsageError, LostWorkerError.
    """
    if dask == "local":
        count = jobs or len(os.sched_getaffinity(0))
        started = _local(count)
    elif dask == "slurm":
        if jobs is None:
            raise UsageError("--dask slurm: the number of workers is not given; say it, such as --jobs 16")
        started = _slurm(jobs)
    else:
        _load("distributed")
        yield dask
        return
    with started:
        _await_worker(started, dask)
        yield str(started.scheduler_address)


def _await_worker(started: Any, dask: str) -> None:
    """Wait until there is a worker, which may take long in a queue."""
    try:
        started.wait_for_workers(1, timeout=PATIENCE_SECONDS)
    except TimeoutError:
        look = "; squeue shows the reason" if dask == "slurm" else ""
        print(f"nsys2prv: still waiting for the first Dask worker{look}", file=sys.stderr)
        started.wait_for_workers(1)


def _load(module: str) -> Any:
    """Import an optional package. Raises UsageError."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        raise UsageError(
            f"--dask needs {module}, which is not installed; pip install '.[cluster]' in the clone"
        ) from None
    # We report the fate of a worker ourselves, in one line.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    # Dask drops futures of its own when Ctrl-C ends it.
    logging.getLogger("asyncio").addFilter(_is_of_no_dropped_future)
    return found


def _is_of_no_dropped_future(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Future exception was never retrieved")


def _local(jobs: int) -> Any:
    """Start workers on this machine. Raises LostWorkerError."""
    distributed = _load("distributed")
    # Ctrl-C, which a terminal sends to all, is ours to handle: workers inherit, from their first moment on, what is
    # blocked where they are started. The tracker would unblock it if it were started with the first of them.
    resource_tracker.ensure_running()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _load("dask").config.set(UNSEEN):
            return distributed.LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                memory_limit=0,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
                env=ONE_THREAD,
                preload=[OWN_CORE] if jobs == len(os.sched_getaffinity(0)) else [],
            )
    except RuntimeError as error:
        cause = error.__cause__ or error
        raise LostWorkerError(
            f"--dask local: a worker ended while it started ({cause}), perhaps for lack of memory; "
            "try again, or with fewer --jobs"
        ) from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _slurm(jobs: int) -> Any:
    """Start workers as SLURM jobs by dask-jobqueue's configuration (`jobqueue.slurm`): queue, account, walltime..."""
    queue, config = _load("dask_jobqueue"), _load("dask").config
    given = {n: config.get(f"jobqueue.slurm.{n}", None) or default for n, default in SLURM_DEFAULTS.items()}
    prologue = [f"export {name}={value}" for name, value in ONE_THREAD.items()]
    quiet = [] if config.get("jobqueue.slurm.log-directory", None) else ["--output=/dev/null"]
    try:
        started = queue.SLURMCluster(
            **given,
            # One item at a time in a process, as many processes as cores.
            processes=given["cores"],
            job_script_prologue=[*(config.get("jobqueue.slurm.job-script-prologue", None) or []), *prologue],
            job_extra_directives=[*(config.get("jobqueue.slurm.job-extra-directives", None) or []), *quiet],
            scheduler_options={"dashboard_address": ":0"},
        )
        started.scale(jobs)
    except (ValueError, OSError, RuntimeError) as error:
        advice = "see docs/scaling.md for dask-jobqueue's configuration"
        raise UsageError(f"--dask slurm: no cluster could be started ({error}); {advice}") from None
    return started


def _client(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=PATIENCE_SECONDS, set_as_default=False)
    # It asserts that its loop runs after 10 s, which an overloaded machine may not manage.
    except (OSError, ValueError, TypeError, AssertionError) as error:
        advice = "give local, slurm, or an address such as tcp://node1:8786"
        cause = str(error) or "the client did not start in time"
        raise UsageError(f"--dask {address}: no scheduler answers there ({cause}); {advice}") from None


def _check_workers(client: Any, address: str) -> None:
    """Refuse a cluster without workers, or whose workers have another nsys2prv. Raises UsageError."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE_SECONDS)
    except TimeoutError:
        raise UsageError(f"--dask {address}: the scheduler has no workers; start some with `dask worker`") from None
    try:
        others = set(client.run(_version).values()) - {_version()}
    except Exception as error:
        # Anything can prevent the import of this package there.
        cause = f"{type(error).__name__}: {error}"
        raise UsageError(f"--dask {address}: workers cannot run nsys2prv ({cause}); install it there") from None
    if others:
        raise UsageError(f"--dask {address}: workers have nsys2prv {others.pop()}, here is {_version()}; install one")


def _version() -> str:
    return VERSION
