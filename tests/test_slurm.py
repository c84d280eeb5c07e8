"""The job scripts in contrib/slurm, on a SLURM that is really there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import slurm
from runs import COMMAND, ROOT, SAMPLES, in_process

import nsys2prv

pytestmark = pytest.mark.slurm
CONTRIB = ROOT / "contrib" / "slurm"

# In place of nsys: the sample report of the rank, and a line on how it was called.
STUB = f"""#!/bin/bash
if [[ $2 == --help ]]; then echo "  --gpu-metrics-devices="; exit; fi
for word; do [[ $word == --output=* ]] && out=${{word#--output=}}; done
echo "$SLURMD_NODENAME $SLURM_PROCID $*" >> "$REPORTS/calls.txt"
while [[ $out =~ %q\\{{([A-Z_]+)\\}} ]]; do out=${{out/"${{BASH_REMATCH[0]}}"/${{!BASH_REMATCH[1]}}}}; done
cp {SAMPLES}/gpt-ddp/gpt-ddp.*."$SLURM_PROCID".sqlite "$out.sqlite"
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """SLURM, and `nsys2prv` and `nsys` on PATH."""
    if not slurm.is_there():
        pytest.skip("no SLURM that we may run (slurm-wlm and munge, as root)")
    folder = tmp_path_factory.mktemp("slurm")
    programs = folder / "bin"
    programs.mkdir()
    path = os.pathsep.join(filter(None, sys.path))
    ours = f"#!/bin/sh\nPYTHONPATH='{path}' exec '{COMMAND[0]}' -c '{COMMAND[2]}' \"$@\"\n"
    for name, text in {"nsys": STUB, "nsys2prv": ours}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    with slurm.running(folder) as found:
        yield {**found, "PATH": f"{programs}{os.pathsep}{found['PATH']}", "CONTRIB": str(CONTRIB)}


def submit(environment: Mapping[str, str], folder: Path, *options: str, program: str = "true", **more: str) -> None:
    command = ["sbatch", *options, str(CONTRIB / "profile.sbatch"), program]
    subprocess.run(command, cwd=folder, env={**environment, **more}, check=True, capture_output=True)
    slurm.wait_for_jobs(environment)


def test_a_job_is_profiled_and_translated_when_it_has_ended(environment: Mapping[str, str], tmp_path: Path) -> None:
    submit(environment, tmp_path, "--ntasks-per-node=2", TRANSLATE="--skip osrt", RANGE="nvtx:step 5", METRICS="10000")
    (job,) = (tmp_path / "reports").iterdir()
    names = {f"{job.name}_n0_0", f"{job.name}_n0_1", f"{job.name}_n1_2", f"{job.name}_n1_3"}
    assert {f.stem for f in job.glob("*.sqlite")} == names
    calls = sorted((job / "calls.txt").read_text().splitlines())
    with_metrics = [" ".join(c.split()[:2]) for c in calls if "--gpu-metrics-devices=all" in c]
    assert with_metrics == ["n0 0", "n1 2"], "one rank a node"
    assert all("--capture-range=nvtx --nvtx-capture=step 5 --capture-range-end=stop" in c for c in calls)
    made = tmp_path / "traces" / f"{job.name}.prv"
    assert in_process("translate", job, "-o", tmp_path / "alone", "--skip", "osrt", "--quiet").code == 0
    assert made.read_bytes() == (tmp_path / "alone.prv").read_bytes()


def test_a_job_that_fails_says_why_and_so_does_its_translation(environment: Mapping[str, str], tmp_path: Path) -> None:
    submit(environment, tmp_path, "--nodes=1", "--ntasks-per-node=1", TRANSLATE="--only kernels", RANGE="nonsense")
    assert not list((tmp_path / "reports").rglob("*.sqlite"))
    said = "".join(f.read_text() for f in tmp_path.glob("slurm-*.out"))
    assert "nsys-rank: RANGE=nonsense; give cudaProfilerApi or nvtx:NAME" in said
    assert "no reports in this folder" in said, "of the job that translates"


def test_slurm_workers_give_the_bytes_of_one_process(environment: Mapping[str, str], tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    reports = SAMPLES / "mpi-halo"
    command = ["nsys2prv", "translate", str(reports), "-o", "t", "--dask", "slurm", "--jobs", "2", "--quiet"]
    memory = {"DASK_JOBQUEUE__SLURM__MEMORY": "1GiB"}
    done = subprocess.run(
        command, cwd=tmp_path, env={**environment, **memory}, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    nsys2prv.translate(reports, tmp_path / "one", execution=nsys2prv.Execution(jobs=1))
    assert (tmp_path / "t.prv").read_bytes() == (tmp_path / "one.prv").read_bytes()
    slurm.wait_for_jobs(environment)


def test_slurm_workers_give_the_analysis_of_one_process(environment: Mapping[str, str], tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    reports = SAMPLES / "mpi-halo"
    command = ["nsys2prv", "analyze", str(reports), "--json", "--dask", "slurm", "--jobs", "2"]
    shared = ["--spill-dir", str(tmp_path)]
    memory = {"DASK_JOBQUEUE__SLURM__MEMORY": "1GiB"}
    done = subprocess.run(
        [*command, *shared], cwd=tmp_path, env={**environment, **memory}, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == in_process("analyze", reports, "--json").out
    slurm.wait_for_jobs(environment)
