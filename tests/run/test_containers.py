"""Containers: the same host name and pid 1 everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import construct
import pytest
from runs import SAMPLES, records

import nsys2prv


@pytest.mark.parametrize("run", ["mpi-halo", "gpt-ddp"])
def test_processes_in_containers_stay_apart(run: str, tmp_path: Path) -> None:
    sources = sorted((SAMPLES / run).glob("*.sqlite"))
    made = construct.in_containers(sources, tmp_path / "in")
    chosen = nsys2prv.Selection(("kernels", "nccl", "memory", "gpu_metrics"))
    for name, reports in (("native", sources), ("boxes", made)):
        nsys2prv.translate(reports, tmp_path / name, selection=chosen, execution=nsys2prv.Execution(jobs=1))
    native, boxes = (nsys2prv.read_prv(tmp_path / f"{name}.prv") for name in ("native", "boxes"))
    assert len(boxes.names["NODE"]) == len(native.names["NODE"])
    assert all(name.endswith(":1") for name in boxes.names["TASK"])
    # Host threads have the number that they have in their container.
    in_boxes, outside = ([re.sub(r" \d+$", "", n) for n in t.names["THREAD"]] for t in (boxes, native))
    assert in_boxes == outside
    assert records(tmp_path / "boxes.prv") == records(tmp_path / "native.prv")
