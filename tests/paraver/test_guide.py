"""The figures that the docs quote come out of the cfgs that they name, in the real Paraver."""

from __future__ import annotations

import re
from pathlib import Path

import paramedir
import pytest
from runs import ROOT, reports_of

import nsys2prv
from nsys2prv.paraver.cfg import CFGS

pytestmark = pytest.mark.paraver

GUIDE, ANALYSIS = ((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("tutorial-mpi.md", "analysis.md"))
NAMED = re.findall(r"^\| .+? \| `(analysis/\w+)`", GUIDE, re.MULTILINE)
# The steady ones: without the first.
ITERATIONS = 11
# A figure is quoted with four decimals, one in percent with one.
QUOTED, QUOTED_PERCENT = 5e-5 + 1e-9, 0.05 + 1e-9


def shown(
    run: str, folder: Path, nvtx: str | None = None, window: str = "device"
) -> tuple[nsys2prv.Translation, paramedir.Output]:
    paramedir.program()
    options = nsys2prv.RunOptions(align="utc")
    made = nsys2prv.translate(
        reports_of(run),
        folder / "trace",
        selection=nsys2prv.Selection(nvtx=nvtx),
        options=options,
        writing=nsys2prv.TraceOutput(window=window),
    )
    assert made.prv is not None
    cfgs = [cfg for cfg in CFGS if cfg.folder == "analysis"]
    return made, paramedir.run(made.prv, cfgs, folder / "out")


def factors(output: paramedir.Output, nccl: str = "") -> tuple[float, float, float, float]:
    """Parallel efficiency, load balance, communication and orchestration, as the guide's table says."""
    useful = output.totals(f"analysis/parallel_efficiency{nccl}", "Parallel efficiency [%]")
    busy = output.totals("analysis/device_busy", "Busy [%]")
    return useful["Average"] / 100, useful["Avg/Max"], useful["Maximum"] / busy["Maximum"], busy["Maximum"] / 100


def numbers(text: str) -> tuple[float, ...]:
    return tuple(float(number.replace(",", "")) for number in text.split())


@pytest.mark.parametrize(("row", "nvtx"), [("device", None), ("iteration 5", "iteration 5")])
def test_the_guides_efficiencies(row: str, nvtx: str | None, tmp_path: Path) -> None:
    """The first line that begins so, which is of the device activity: the window of a trace."""
    quoted = re.search(rf"^  {row} +([\d. ]+)$", GUIDE, re.MULTILINE)
    assert quoted is not None
    window_ms, *expected = numbers(quoted[1])
    made, output = shown("mpi-halo", tmp_path, nvtx)
    low, high = made.window_ns
    assert (high - low) / 1e6 == pytest.approx(window_ms, abs=5e-4)
    assert [100 * factor for factor in factors(output)] == pytest.approx(expected, abs=QUOTED_PERCENT)


def test_the_guides_kernels_and_computing_time(tmp_path: Path) -> None:
    _, output = shown("mpi-halo", tmp_path, window="steady")
    durations = output.table("analysis/kernel_duration")
    counts = {rank: int(n) for rank, n in re.findall(r"^rank (\d): (\d+) launches", GUIDE, re.MULTILINE)}
    each = {rank: float(us) for rank, us in re.findall(r"^rank (\d): .*, ([\d.]+) us each", GUIDE, re.MULTILINE)}
    assert len(each) == 4
    for rank, us in each.items():
        (duration,) = (us for (row, _), us in durations.items() if row.startswith(f"CUDA-D{rank}."))
        assert duration == pytest.approx(us, abs=0.05)
        times = output.table("analysis/kernel_time")
        (total,) = (ms for (row, _), ms in times.items() if row.startswith(f"CUDA-D{rank}."))
        assert 1e3 * total / duration == pytest.approx(counts[rank] * ITERATIONS)
    said = re.search(r"^compute an iteration: mean ([\d.]+) ms, longest ([\d.]+) ms$", GUIDE, re.MULTILINE)
    assert said is not None
    useful = output.totals("analysis/useful_time", "Useful time [ms]")
    found = [useful[name] / ITERATIONS for name in ("Average", "Maximum")]
    assert found == pytest.approx([float(said[1]), float(said[2])], abs=5e-4)


def test_the_guide_names_the_cfgs_that_are_judged_here() -> None:
    used = {"parallel_efficiency", "device_busy", "kernel_duration", "kernel_time", "useful_time"}
    assert {name.removeprefix("analysis/") for name in NAMED} == used


def test_the_efficiencies_of_gpt_ddp_by_what_nccl_counts_as(tmp_path: Path) -> None:
    made, output = shown("gpt-ddp", tmp_path)
    window = made.window_ns[1] - made.window_ns[0]
    assert f"window {window:,} ns" in ANALYSIS
    for kind, cfg in (("useful", "_nccl_useful"), ("communication", "")):
        row = re.search(rf"^\| {kind} \| ([\d, ]+) \| (.+) \|$", ANALYSIS, re.MULTILINE)
        assert row is not None
        shares = output.table(f"analysis/parallel_efficiency{cfg}")
        found = [round(share / 100 * window) for _, share in sorted(shares.items())]
        assert found == list(numbers(row[1]))
        assert factors(output, cfg) == pytest.approx(numbers(row[2].replace("|", " ")), abs=QUOTED)
