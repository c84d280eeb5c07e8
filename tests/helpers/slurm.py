"""A SLURM of two nodes on this machine, for as long as a test needs it: munged, slurmctld and slurmd, in one folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

NEEDED = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "srun")
NODES = ("n0", "n1")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1
MpiDefault=none
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=2000
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=2000
PartitionName=all Nodes=n0,n1 Default=YES MaxTime=60 State=UP
"""
# Where Debian puts daemons, which is not on everybody's PATH.
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])


def is_there() -> bool:
    """Whether this machine has SLURM, and lets us run it."""
    return os.geteuid() == 0 and all(shutil.which(program, path=PATH) for program in NEEDED)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


@contextmanager
def running(folder: Path) -> Iterator[Mapping[str, str]]:
    """The environment in which SLURM's commands reach it. All nodes are this machine, two cores each."""
    environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
    values = {"host": socket.gethostname().split(".")[0], "folder": folder, "ports": _free_ports(3)}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**values))
    for name in ("state", *(f"spool.{node}" for node in NODES)):
        (folder / name).mkdir()
    subprocess.run(["mungekey", "-c", "-k", folder / "munge.key"], check=True, env=environment)
    munge = {name: f"--{name}={folder / f'munge.{name[:4]}'}" for name in ("pid-file", "log-file", "seed-file")}
    daemons = [
        [
            "munged",
            "-F",
            "--force",
            f"--socket={folder}/munge.socket",
            f"--key-file={folder}/munge.key",
            *munge.values(),
        ],
        ["slurmctld", "-D"],
        *(["slurmd", "-D", "-N", node] for node in NODES),
    ]
    started = []
    try:
        for daemon in daemons:
            with (folder / f"{daemon[0]}{len(started)}.log").open("w") as log:
                started.append(subprocess.Popen(daemon, env=environment, stdout=log, stderr=log))
            if daemon[0] == "munged":
                _until(lambda: (folder / "munge.socket").exists())
        _until(lambda: _said(environment, "sinfo", "-h", "-t", "idle", "-o", "%D") == str(len(NODES)))
        yield environment
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)


def wait_for_jobs(environment: Mapping[str, str]) -> None:
    """Until no job waits or runs."""
    _until(lambda: not _said(environment, "squeue", "-h"))


def _said(environment: Mapping[str, str], *command: str) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.strip()


def _until(holds: object, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.1)
