"""contrib/slurm/nsys-rank: how it calls nsys, without SLURM."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from runs import ROOT

# In place of nsys: a help that is longer than a pipe holds, else the words it was called with.
STUB = """#!/bin/sh
case "$*" in
    *--help) echo "  --gpu-metrics-device{ending}="; head -c 200000 /dev/zero | tr '\\0' '\\n';;
    *) printf '%s\\n' "$@";;
esac
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("ending", ["", "s"])
def test_gpu_metrics_are_asked_for_by_the_name_that_this_nsys_has(ending: str, tmp_path: Path) -> None:
    assert _metrics(tmp_path, ending, METRICS="10000") == [
        f"--gpu-metrics-device{ending}=all",
        "--gpu-metrics-frequency=10000",
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_no_gpu_metrics_are_asked_for_by_default(tmp_path: Path) -> None:
    """They need a permission of the driver."""
    assert _metrics(tmp_path, "s") == []


def _metrics(tmp_path: Path, ending: str, **more: str) -> list[str]:
    """Return the words on GPU metrics with which the first rank of a node calls an nsys of some version."""
    (nsys := tmp_path / "nsys").write_text(STUB.format(ending=ending))
    nsys.chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "NSYS": str(nsys), "SLURM_LOCALID": "0", **more}
    command = [ROOT / "contrib" / "slurm" / "nsys-rank", "./program"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return [word for word in said.splitlines() if "gpu-metrics" in word]
