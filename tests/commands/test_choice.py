"""Choices of families that leave nothing to draw."""

from pathlib import Path

import pytest
from exports import MAIN, export, real, tid

import nsys2prv


def test_a_family_that_the_report_lacks_is_nothing_by_itself(tmp_path: Path) -> None:
    report = real("single/openmp", tmp_path)
    with pytest.raises(nsys2prv.Nsys2prvError, match="nothing to draw: the chosen families"):
        nsys2prv.translate(
            report, tmp_path / "out", selection=nsys2prv.Selection(("mpi",)), execution=nsys2prv.Execution(jobs=1)
        )


def test_a_family_that_makes_no_row_is_drawn_by_itself(tmp_path: Path) -> None:
    report = real("single/openmp", tmp_path)
    made = nsys2prv.translate(
        report, tmp_path / "out", selection=nsys2prv.Selection(("overhead",)), execution=nsys2prv.Execution(jobs=1)
    )
    assert made.rows["overhead"] + sum(made.dropped.get("overhead", {}).values()) > 0


def test_a_chosen_time_without_events_is_what_is_told(tmp_path: Path) -> None:
    """Not reports without events, of which there is none."""
    first, second = (
        export(tmp_path / f"r{n}.sqlite", CUDNN_EVENTS=("start end globalTid nameId", [(a, a + 10, MAIN, "f")] * 2))
        for n, a in enumerate((0, 1000))
    )

    def chosen(reports: list[Path], time: tuple[int, int]) -> nsys2prv.Translation:
        selection, options = nsys2prv.Selection(time=time), nsys2prv.RunOptions(align="none", every_thread=True)
        return nsys2prv.translate(
            reports,
            tmp_path / "out",
            selection=selection,
            options=options,
            execution=nsys2prv.Execution(jobs=1),
            force=True,
        )

    with pytest.raises(nsys2prv.Nsys2prvError, match="no events within the chosen time; choose another --time"):
        chosen([first, second], (100, 900))
    assert chosen([first, second], (0, 100)).warnings == (f"{second}: no events within the chosen time",)


def test_calls_that_make_no_row_in_a_chosen_time_are_told_of(tmp_path: Path) -> None:
    """The helper thread has no row in the whole run either."""
    report = export(
        tmp_path / "r.sqlite",
        CUDNN_EVENTS=("start end globalTid nameId", [(0, 10, MAIN, "f"), (200, 210, MAIN, "f")]),
        OSRT_API=("start end globalTid nameId", [(100, 110, tid(101), "poll")]),
    )
    late = nsys2prv.Selection(time=(50, 110))
    with pytest.raises(nsys2prv.Nsys2prvError, match="choose another --time or --nvtx, or --threads all"):
        nsys2prv.translate(report, tmp_path / "out", selection=late, execution=nsys2prv.Execution(jobs=1))
    every = nsys2prv.RunOptions(every_thread=True)
    made = nsys2prv.translate(
        report, tmp_path / "out", selection=late, options=every, execution=nsys2prv.Execution(jobs=1)
    )
    assert made.rows["osrt"] == 1


def test_calls_of_a_thread_with_a_row_are_drawn_in_a_chosen_time(saxpy: Path, tmp_path: Path) -> None:
    """It calls CUDA only later."""
    early = nsys2prv.Selection(time=(0, 300_000_000))
    made = nsys2prv.translate(saxpy, tmp_path / "out", selection=early, execution=nsys2prv.Execution(jobs=1))
    assert made.rows["osrt"] > 0


def test_lines_alone_make_no_rows(gpt_ddp: list[Path], tmp_path: Path) -> None:
    """Nor is a GPU in use by a task that only lines reach."""
    chosen = nsys2prv.Selection(("correlation", "gpu_metrics"))
    drawn = nsys2prv.translate(gpt_ddp[:1], tmp_path / "out", selection=chosen, execution=nsys2prv.Execution(jobs=1))
    assert drawn.prv is not None
    names = nsys2prv.read_prv(drawn.prv).names
    assert [name.endswith(" GPUs") for name in names["TASK"]] == [True]
    assert all(name.startswith("Metrics GPU") for name in names["THREAD"])


def test_ranges_on_the_device_alone_are_of_their_ranks(gpt_ddp: list[Path], tmp_path: Path) -> None:
    chosen, ranks = nsys2prv.Selection(("projection",)), nsys2prv.RunOptions(ranks=frozenset((1, 3)))
    nsys2prv.translate(gpt_ddp, tmp_path / "out", selection=chosen, options=ranks, execution=nsys2prv.Execution(jobs=1))
    tasks = nsys2prv.read_prv(tmp_path / "out.prv").names["TASK"]
    assert [name[:6] for name in tasks] == ["rank 1", "rank 3"]


def test_a_gpu_that_is_idle_in_a_chosen_time_is_of_the_task_that_uses_it(gpt_ddp: list[Path], tmp_path: Path) -> None:
    """In the first 10 ms of the run its metrics were sampled, and nothing ran on it yet."""
    chosen = nsys2prv.Selection(("kernels", "gpu_metrics"), time=(0, 10_000_000))
    result = nsys2prv.translate(gpt_ddp[:1], tmp_path / "out", selection=chosen, execution=nsys2prv.Execution(jobs=1))
    assert result.rows.get("kernels", 0) == 0
    names = nsys2prv.read_prv(tmp_path / "out.prv").names
    assert [name[:6] for name in names["TASK"]] == ["rank 0"]
    assert names["THREAD"] == ("Metrics GPU0",)
