"""GPUs of one process: which of them the others wait for, and what equal shares would gain."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from programs import ALL_BUSY, analysis_of, findings_of, of_processes, program

from nsys2prv.analysis.communication.exposed_waits import waiting_of_gpus
from nsys2prv.analysis.conclude import conclude
from nsys2prv.analysis.facts.case import Case, case_of
from nsys2prv.analysis.findings.gpu_imbalance import gpu_imbalance
from nsys2prv.analysis.findings.launch_bound import launch_bound
from nsys2prv.analysis.question import Question
from nsys2prv.cli.analysis_csv import csv_of
from nsys2prv.cli.explanation_tables import explanation_sections

# As in test_rules, each line is a GPU here: all of them are of rank 0.
LATE = """
0| k @0 5-400, n @10 400-905, wait 20-905
1| os:clock_nanosleep 0-500, k @500 505-900, n @510 900-905
2| k @0 5-400, n @10 400-905, wait 20-905
"""
UNEVEN = """
0| k @0 5-400, n @10 400-905, wait 20-905
1| k @0 5-900, n @10 900-905, wait 20-905
2| k @0 5-400, n @10 400-905, wait 20-905
"""
# Each GPU works for 1.9 ms of 10 ms, one after the other.
IN_TURN = "\n".join(f"{n}| k @{240 * n} {240 * n + 5}-{240 * n + 195}, n @960 965-990" for n in range(4))
# Both GPUs have their work at once. GPU 0 waits for GPU 1 for 4 ms, and GPU 1 for GPU 0 for 2.95 ms.
TAKE_TURNS = """
0| k @0 5-300, k @8 700-990
1| k @5 300-700
"""
# The host launches for GPU 1 when GPU 0 has ended its work; before the next iteration it waits for both.
WAITS_FIRST = """
0| k @0 5-400, wait 10-401
1| wait 10-401, k @450 455-850, wait 460-851
"""
# Nothing is exchanged: the host waits for both GPUs.
ALONE = "0| k @0 5-300, wait 10-900, k:tail:k @910 915-990\n1| k @0 5-899, wait 10-900"


def test_a_gpu_whose_work_is_launched_late_is_named() -> None:
    found = findings_of(of_processes(program(LATE), 3))
    late = found["late-gpu"]
    assert (
        late.title
        == "GPU 1 of rank 0 delays 2 other GPUs of its process by 5.00 ms an iteration, because of `clock_nanosleep`"
    )
    assert late.cost_ns / 1e6 == pytest.approx(5.0, rel=0.02)
    assert late.evidence["waiting_gpus"] == [0, 2]
    assert {"exposed-waiting", "gpu-imbalance", "late-rank"}.isdisjoint(found)


@pytest.mark.parametrize(
    ("threads", "says"), [(1, "launches for the other GPUs first"), (3, "See what the thread that")]
)
def test_the_advice_on_a_late_gpu_follows_from_the_threads_that_launch(threads: int, says: str) -> None:
    run = of_processes(program(LATE), 3)
    one = run._replace(work=run.work.with_columns(caller_row=pl.lit(0, pl.Int64))) if threads == 1 else run
    assert says in findings_of(one)["late-gpu"].advice


class Bounded(Case):
    """A case in which hosts that are done at once would gain 3 ms."""

    def gain(self, change: str) -> float:
        return 3e6 if change == "host=0" else 0.0


class Unknown(Case):
    """A case in which a replay does not see what hosts cost."""

    def gain(self, change: str) -> float:
        return 1e5 if change == "host=0" else 0.0


@pytest.mark.parametrize("processes", [1, 4])
def test_several_gpus_lack_work_for_no_more_than_their_hosts_could_gain(processes: int) -> None:
    run = of_processes(program(IN_TURN), 4 // processes)
    (found,) = launch_bound(Bounded(**vars(case_of(analysis_of(run)))))
    assert found.cost_ns == 3e6
    assert found.title.endswith(" ms an iteration; by a replay, faster hosts gain 3.00 ms")
    (found,) = launch_bound(Unknown(**vars(case_of(analysis_of(run)))))
    assert found.cost_ns > 3e6
    assert "by a replay" not in found.title


def test_a_single_gpu_lacks_work_whatever_a_replay_gains() -> None:
    (found,) = launch_bound(Bounded(**vars(case_of(analysis_of(program("0| k @0 5-100, k @800 805-990"))))))
    assert found.cost_ns == pytest.approx(7.15e6, rel=0.02)


@pytest.mark.parametrize(("devices", "says"), [(3, "its own GPUs"), (1, "0")])
def test_a_cause_for_which_no_other_rank_waits_counts_gpus_of_ranks_that_have_several(devices: int, says: str) -> None:
    """Waits that are too short to count are of no rank, either."""
    run = of_processes(program(LATE), devices)
    found = analysis_of(run).explanation
    causes = found.causes.with_columns(ranks=pl.lit(0, pl.Int64))
    tables = {name: rows for name, _, _, rows in explanation_sections(found._replace(causes=causes), run)}
    assert {row[5] for row in tables["causes"]} == {says}


def test_one_thread_that_launches_for_several_gpus_is_named() -> None:
    run = of_processes(program(IN_TURN), 4)
    one = findings_of(run._replace(work=run.work.with_columns(caller_row=pl.lit(0, pl.Int64))))
    assert one["host-bound"].title.startswith("Host-bound: one thread launches for 4 GPUs in turn")
    assert findings_of(run)["host-bound"].title.startswith("Host-bound: the device has no work")


def test_a_gpu_that_computes_longer_is_named() -> None:
    """It computes 8.95 ms, the others 3.95 ms; with equal shares of 5.62 ms it is done 3.33 ms earlier."""
    found = findings_of(of_processes(program(UNEVEN), 3))
    assert next(reversed(found)) == "gpu-imbalance"
    title = found["gpu-imbalance"].title
    assert title.startswith("GPU 1 of rank 0 computes 3.33 ms longer than the mean of its process")
    assert found["gpu-imbalance"].cost_ns / 1e6 == pytest.approx(3.33, rel=0.06)
    assert {"exposed-waiting", "late-gpu", "late-rank"}.isdisjoint(found)


class Less(Case):
    """A case in which equal shares gain 1 ms."""

    def gain(self, change: str) -> float:
        return 1e6 if change == "imbalance=0" else 0.0


def test_a_gpu_whose_excess_is_more_than_equal_shares_gain_says_both() -> None:
    """Its threads wait for each other as no report tells: a replay keeps these pauses."""
    lone = replace(case_of(analysis_of(of_processes(program(UNEVEN), 3))))
    alone = lone.analysis.explanation._replace(exposed=lone.analysis.explanation.exposed.clear())
    case = replace(lone, analysis=lone.analysis._replace(explanation=alone))
    (found,) = gpu_imbalance(Less(**vars(case)))
    assert found.cost_ns == 1e6
    assert found.title.endswith(" longer than the mean of its process: equal shares gain 1.00 ms")
    assert found.advice.endswith("as at a barrier of threads, equal shares gain up to 3.33 ms.")
    assert found.at_ns == case.run.work.filter(device=1)["start"].min()


def test_what_a_gpu_computes_longer_in_a_window_is_told_as_such() -> None:
    found = conclude(of_processes(program(UNEVEN), 3), Question(window="device", metrics=())).findings
    (title,) = (one.title for one in found if one.id == "gpu-imbalance")
    assert "longer than the mean of its process in the window" in title


def test_a_gpu_that_computes_longer_is_named_without_communication() -> None:
    found = findings_of(of_processes(program(ALONE), 2))
    assert found["gpu-imbalance"].title.startswith("GPU 1 of rank 0 computes")
    assert found["gpu-imbalance"].evidence["exposed_waiting_ns"] == 0
    assert found["gpu-imbalance"].cost_ns > 0


def test_a_gpu_that_a_rank_touches_in_passing_has_no_share_in_its_work() -> None:
    light = UNEVEN.replace("k @0 5-900, n @10 900-905", "k @0 5-20, n @10 400-905")
    assert "gpu-imbalance" not in findings_of(of_processes(program(light), 3))
    predictions = analysis_of(of_processes(program(light), 3)).explanation.predictions
    (equal,) = [one for one in predictions if one.changes == ("imbalance=0",)]
    assert equal.gain == pytest.approx(0, abs=0.01)


def test_the_gpu_of_a_rank_that_computes_longer_is_named() -> None:
    """Ranks 0 and 2 have two GPUs each, and GPU 3 is the one that computes longer."""
    four = UNEVEN.replace("2|", "0|").replace("1|", "3|")
    picture = "\n".join([*(four.replace("0|", f"{n}|").splitlines()[1] for n in range(3)), four.splitlines()[2]])
    found = findings_of(of_processes(program(picture), 2))
    assert found["imbalance"].title.startswith("GPU 3 of rank 2 computes")
    assert "gpu-imbalance" not in found


def test_waiting_is_told_by_gpu() -> None:
    run = of_processes(program(LATE), 3)
    waits = waiting_of_gpus(run, analysis_of(run).explanation.exposed)
    assert waits.select("gpu", "gpu_waited_for").rows() == [(0, 1), (2, 1)]
    assert (waits["waiting_ns"] / waits["activities"] / 1e6).to_list() == pytest.approx([5.0, 5.0])
    assert "# waiting_of_gpus\nrank,gpu,gpu_waited_for," in csv_of(analysis_of(run), {"waiting"})


def test_ranks_with_one_gpu_have_no_waiting_by_gpu() -> None:
    run = program(LATE)
    exposed = analysis_of(run).explanation.exposed
    assert exposed["device"].is_null().all()
    assert exposed["late_device"].is_null().all()
    assert waiting_of_gpus(run, exposed).is_empty()


def test_threads_that_load_code_for_several_gpus_are_to_be_processes() -> None:
    """As threads of PyTorch's DataParallel do, each anew."""
    loads = "k @0 5-100, cuda:cuLibraryLoadData 300-301, k @800 805-990"
    found = findings_of(of_processes(program(f"0| {loads}\n1| {loads}"), 2))["host-bound"]
    assert "code is loaded in 6 of 6 iterations" in found.title
    assert found.advice.startswith("One process launches for 2 GPUs")
    assert "Keep shapes the same" in found.advice


def test_gpus_of_a_process_that_wait_for_each_other_take_turns() -> None:
    found = findings_of(of_processes(program(TAKE_TURNS), 2))["gpus-in-turn"]
    assert found.title == (
        "The 2 GPUs of rank 0 take turns: each has work, and waits 2.95 ms an iteration for what another one computes"
    )
    assert found.evidence == {"gpus": [0, 1], "waiting_ns": [4_000_000, 2_950_000]}
    assert found.at_ns == 3_000_000
    # A third GPU that always works takes no turns, and hides none.
    third = findings_of(of_processes(program(f"{TAKE_TURNS.strip()}\n2| k @0 2-998"), 3))["gpus-in-turn"]
    assert third.title.startswith("2 of the 3 GPUs of rank 0 take turns: each has work, and waits")
    # GPUs of two processes do not take turns for one program.
    assert "gpus-in-turn" not in findings_of(program(TAKE_TURNS))


@pytest.mark.parametrize(("picture", "in_turn"), [(WAITS_FIRST, True), (ALONE, False)])
def test_a_host_that_waits_for_one_gpu_before_it_launches_on_another_is_told(picture: str, in_turn: bool) -> None:
    advice = findings_of(of_processes(program(picture), 2))["host-synchronization"].advice
    assert advice.startswith("The host waits for one GPU of its process") == in_turn


def test_the_last_idle_time_of_a_gpu_is_no_wait_for_a_staged_copy_of_the_next_one() -> None:
    """Each GPU copies once, and waits 3 ms for that, but before the window; GPU 0 idles after its kernel, too."""
    copy = "c:Device-to-Host:Device_to_Device @0 300-310"
    found = findings_of(program(f"0| k @0 390-400, {copy}\n1| {copy}, k @0 310-990"))["staged-copies"]
    assert found.evidence["staged_ns"] == pytest.approx(5 / 6 * 3e6 + 0.1e6)
    assert found.evidence["waiting_ns"] == pytest.approx(5 / 6 * 3e6)
    alone = findings_of(program("0| k @0 2-100\n1| c:Host-to-Device:Device_to_Device @0 1-2, k @0 3-990"))
    assert "staged-copies" not in alone


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("AABB", "2 GPUs of rank 2 have no work"),
        ("AABA", "GPU 2 of rank 2 has no work"),
    ],
)
def test_gpus_that_hosts_leave_without_work_are_named_as_such(lines: str, says: str) -> None:
    own = dict(zip("AB", (line.partition("| ")[2] for line in ALL_BUSY.strip().splitlines()), strict=True))
    run = of_processes(program("\n".join(f"{n}| {own[which]}" for n, which in enumerate(lines))), 2)
    found = findings_of(run)["host-bound"]
    assert says in found.title
    assert found.ranks == (2,)


def test_ranks_without_a_gpu_are_none_that_wait_for_others() -> None:
    """Rank 2 only takes part in communication; hosts leave the GPUs of both others without work."""
    case = case_of(analysis_of(program(ALL_BUSY)))
    alike = replace(case, starved=case.starved.with_columns(launching=pl.lit(4_000_000, pl.Int64)))
    tasks = (*case.run.tasks, case.run.tasks[1]._replace(rank=2))
    idle = replace(alike, analysis=alike.analysis._replace(run=case.run._replace(tasks=tasks)))
    assert idle.run.rank_count == 3
    for one in (alike, idle):
        (found,) = launch_bound(one)
        assert (found.id, found.ranks) == ("host-bound", ())
        assert "or waits for a rank that has not launched" in found.title


def test_host_bound_points_to_no_idle_time_of_another_cause() -> None:
    """In one iteration a pause longer than those of others comes beside a longer idle time of another cause."""
    case = case_of(analysis_of(program("0| k @0 5-100, k @800 805-990")))
    first = pl.col("number") == pl.col("number").min()
    longer = case.starved.with_columns(
        pause=pl.col("pause") + first * 10_000, longest=pl.col("longest") + first * 20_000
    )
    (found,) = launch_bound(replace(case, starved=longer))
    assert found.at_ns in longer.filter(~first)["at"].to_list()
