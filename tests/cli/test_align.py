"""`nsys2prv align`, and what translation leaves beside the trace."""

from __future__ import annotations

import json
from pathlib import Path

import construct
import pytest
from click.testing import CliRunner, Result
from runs import SAMPLES, records

import nsys2prv
from nsys2prv.cli.main import cli
from nsys2prv.errors import UsageError
from nsys2prv.run.run_options import RunOptions

PROMISED = {"name", "host", "rank", "method", "offset_ns", "slope_ppm", "anchors", "residual_median_ns"} | {
    "residual_p95_ns",
    "violations_before",
    "violations_after",
}


def align(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["align", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def test_table_has_a_line_for_each_report() -> None:
    lines = align(SAMPLES / "gpt-ddp").stdout.splitlines()
    assert [line.split()[:4] for line in lines[1:5]] == [
        ["gpt-ddp.0.0", "gpu-node0", "0", "collectives"],
        ["gpt-ddp.0.1", "gpu-node0", "1", "collectives"],
        ["gpt-ddp.1.2", "gpu-node1", "2", "collectives"],
        ["gpt-ddp.1.3", "gpu-node1", "3", "collectives"],
    ]


def test_json_and_plot(tmp_path: Path) -> None:
    found = json.loads(align(SAMPLES / "gpt-ddp", "--json", "--plot", tmp_path / "p.svg").stdout)
    assert found["reference"] == "gpt-ddp.0.0"
    assert [r["rank"] for r in found["reports"]] == [0, 1, 2, 3]
    assert all(set(r) >= PROMISED for r in found["reports"])
    assert (tmp_path / "p.svg").read_text().startswith("<svg ")


def test_nothing_to_align_by_is_said_and_no_failure(tmp_path: Path) -> None:
    reports = sorted((SAMPLES / "gpt-ddp").glob("*.sqlite"))
    bare = construct.without_table(reports, tmp_path, table="NVTX_EVENTS")
    result = align(*bare, "--json")
    assert {r["method"] for r in json.loads(result.stdout)["reports"]} == {"utc"}
    assert "no anchors between hosts" in result.stderr


def test_a_report_that_cannot_be_read_may_be_left_out(tmp_path: Path) -> None:
    bad = tmp_path / "bad.sqlite"
    bad.write_text("no database")
    result = align(*sorted((SAMPLES / "gpt-ddp").glob("*.sqlite")), bad, "--keep-going", "--json")
    assert len(json.loads(result.stdout)["reports"]) == 4
    assert f"warning: left out: {bad}: " in result.stderr


def test_hosts_by_hand_are_hosts_for_the_clocks(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("mpi-halo.[01] one\nmpi-halo.[23] two\n")
    reports = json.loads(align(SAMPLES / "mpi-halo", "--hosts", tmp_path / "hosts", "--json").stdout)["reports"]
    assert [r["host"] for r in reports] == ["one", "one", "two", "two"]
    assert {r["method"] for r in reports} == {"collectives"}


def test_a_translation_leaves_its_alignment_beside_the_trace(tmp_path: Path) -> None:
    result = nsys2prv.translate(SAMPLES / "gpt-ddp", tmp_path / "trace")
    beside = json.loads((tmp_path / "trace.align.json").read_text())
    assert {"version": 1, **beside} == json.loads(align(SAMPLES / "gpt-ddp", "--json").stdout)
    assert result.warnings == ()


def test_an_alignment_is_not_written_over_unasked(tmp_path: Path) -> None:
    (tmp_path / "trace.align.json").write_text("{}")
    with pytest.raises(UsageError, match=r"trace\.align\.json"):
        nsys2prv.translate(SAMPLES / "mpi-halo", tmp_path / "trace")


def test_utc_gives_the_known_window_to_the_nanosecond(tmp_path: Path) -> None:
    result = nsys2prv.translate(
        SAMPLES / "gpt-ddp",
        tmp_path / "trace",
        options=RunOptions(align="utc"),
        writing=nsys2prv.TraceOutput(window="device"),
    )
    low, high = result.window_ns
    assert high - low == 678_796_712


@pytest.mark.parametrize(("shift", "drift", "fitted"), [(3_700_000, 0.0, False), (-1_250_003, 37.31, True)])
def test_a_translation_by_its_own_alignment_is_the_same(shift: int, drift: float, fitted: bool, tmp_path: Path) -> None:
    """Also of clocks that drift, by a slope that has more digits than are shown."""
    reports = sorted((SAMPLES / "gpt-ddp").glob("*.sqlite"))
    # A drift is fitted only where a run lasts long enough to tell it.
    longer = construct.repeated(reports, tmp_path / "longer", n=40) if fitted else reports
    skewed = construct.with_clock(longer[2:], tmp_path / "skewed", utc_shift_ns=shift, stretch_ppm=drift)
    both = [*longer[:2], *skewed]
    # Clocks are fitted by NCCL, and move the times of all families alike.
    chosen = nsys2prv.Selection(families=("kernels", "nccl"))
    nsys2prv.translate(both, tmp_path / "fitted", selection=chosen)
    offsets = nsys2prv.run.clocks.read_offsets(tmp_path / "fitted.align.json")
    assert any(given.slope_ppm for given in offsets.values()) == fitted
    nsys2prv.translate(both, tmp_path / "given", selection=chosen, options=RunOptions(offsets=offsets))
    assert records(tmp_path / "fitted.prv") == records(tmp_path / "given.prv")


def test_a_part_of_the_run_has_the_clock_of_the_whole(tmp_path: Path) -> None:
    """The fit sees all anchors, whatever is translated."""
    nsys2prv.translate(SAMPLES / "gpt-ddp", tmp_path / "whole")
    chosen = nsys2prv.commands.translate.Selection(families=("kernels",), nvtx="step 5")
    nsys2prv.translate(SAMPLES / "gpt-ddp", tmp_path / "part", selection=chosen)
    assert (tmp_path / "part.align.json").read_text() == (tmp_path / "whole.align.json").read_text()
