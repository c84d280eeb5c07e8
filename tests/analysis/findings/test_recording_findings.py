"""What makes a recording doubtful, or leaves a part of the run out."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from programs import GOOD, UNIT, analysis_of, findings_of, program

from nsys2prv.analysis.frames import CALLS, TEXT, RunClocks
from nsys2prv.analysis.matching.parts_by_order import parts_by_order
from nsys2prv.cli.first_screen import verdict_of
from nsys2prv.page.head import defects, findings, run_facts, verdict
from nsys2prv.run.defects import Defect


def test_defects_stand_before_the_costs_that_rest_on_them() -> None:
    defect = Defect(7, "process 3 launched kernels by 7 calls, and none is recorded", "useful time is too low", ("a",))
    run = program("0| k @0 5-300, k @500 505-990")
    for share, place in ((1.0, 0), (0.0001, -1)):
        found = analysis_of(run._replace(defects=(defect._replace(share=share),))).findings
        assert any(one.cost_ns and one.severity == "high" for one in found)
        assert [one.id for one in found if one.id != "missing-data"][place] == "defective-reports"


def test_defects_late_capture_and_clocks_make_a_recording_doubtful() -> None:
    defect = Defect(7, "process 3 launched kernels by 7 calls, and none is recorded", "useful time is too low", ("a",))
    run = program(GOOD)._replace(defects=(defect,), clocks=RunClocks(warnings=("a may be 3 ms off",)))
    found = findings_of(run)
    assert (found["defective-reports"].severity, found["doubtful-clocks"].severity) == ("high", "medium")
    assert found["defective-reports"].evidence["reports"] == ["a"]
    assert defect.sentence in found["defective-reports"].title
    little = run._replace(defects=(defect._replace(share=0.0001),))
    few = findings_of(little)["defective-reports"]
    assert (few.severity, defect.sentence in few.title) == ("low", True)
    untold = [defects(analysis_of(one)._replace(findings=())) for one in (run, little)]
    assert ["Defect" in text for text in untold] == [True, False]
    some = findings_of(run._replace(defects=(defect._replace(share=0.004),)))["defective-reports"]
    assert (some.severity, "synchronize before" in some.advice) == ("medium", True)
    late = run._replace(work=run.work.filter((pl.col("task") == 0) | (pl.col("start") > 1500 * UNIT)))
    ranges = run.ranges.filter((pl.col("task") == 0) | (pl.col("start") >= 1000 * UNIT))
    found = analysis_of(late._replace(ranges=ranges))
    (capture,) = (one for one in found.findings if one.id == "late-capture")
    assert capture.iterations == (0,)
    assert {"defective-reports", "doubtful-clocks", "late-capture"} & findings_of(program(GOOD)).keys() == set()


def test_lines_of_the_verdict_that_do_not_fit_go_on_in_the_next_one() -> None:
    """A line that is cut shows half of a figure, or leaves out what to do."""
    text = "nsys lost events of the kind that a table holds, and some of those that refer to them, in process 3"
    run = program(GOOD)._replace(defects=(Defect(7, text, "some events are missing, or most", ("a",)),))
    verdict = verdict_of(analysis_of(run)._replace(found_by="k" * 70), [Path("run")])
    assert max(map(len, verdict.splitlines())) <= 100
    said = " ".join(verdict.split())
    assert f"Reports lack data or hold it wrongly: {text}: some events are missing, or most" in said
    assert f"Iterations found by `{'k' * 57}...`, which repeats on every rank" in said


def test_the_verdict_tells_each_defect_once() -> None:
    """The finding on defects names the worst one; the others, and one whose finding has no place, stand above."""
    worst, other = (
        Defect(7, text, "useful time is too low", ("a",)) for text in ("events are lost", "times are wrong")
    )
    found = analysis_of(program(GOOD)._replace(defects=(worst, other)))
    said = " ".join(verdict_of(found, [Path("run")]).split())
    assert [said.count(one.sentence) for one in (worst, other)] == [1, 1]
    assert f"Defect: {other.sentence}" in said
    assert defects(found) == f'<p class="defect">Defect: {other.sentence}</p>'
    many = tuple(
        one._replace(title=f"{n} is slow. {'word ' * 60}", id="slow") for n, one in enumerate(found.findings * 9)
    )
    said = " ".join(verdict_of(found._replace(findings=(*many, *found.findings)), [Path("run")]).split())
    assert (f"Defect: {worst.sentence}" in said, said.count(worst.sentence)) == (True, 1)


def test_advice_names_the_reports_in_its_commands() -> None:
    found = analysis_of(program(GOOD))
    (one, *_) = found.findings
    asking = one._replace(advice="See analyze RUN --show api.", severity="high", command="nsys2prv inspect RUN")
    told = verdict_of(found._replace(findings=(asking,)), [Path("my run")])
    assert "See analyze 'my run' --show api." in told
    assert "Next: nsys2prv inspect 'my run'" in told
    assert "See analyze &#x27;a b&#x27; --show api." in findings(found._replace(findings=(asking,)), "'a b'", 0)


def test_the_verdict_tells_once_that_ranks_began_to_record_late() -> None:
    """The lines on the window name the iteration and why it is left out: the finding would add no word."""
    run = program(GOOD)
    late = run._replace(
        work=run.work.filter((pl.col("task") == 0) | (pl.col("start") > 1500 * UNIT)),
        ranges=run.ranges.filter((pl.col("task") == 0) | (pl.col("start") >= 1000 * UNIT)),
    )
    found = analysis_of(late)
    (why,) = {one.why for one in found.window.left_out}
    assert any(why in one.title for one in found.findings)
    said = " ".join(verdict_of(found, [Path("run")]).split())
    assert (f"iteration 0 left out: {why}" in said, said.count(why)) == (True, 1)
    alone = found._replace(findings=tuple(one for one in found.findings if why in one.title))
    assert "No other findings." in verdict_of(alone, [Path("run")]).splitlines()


def test_the_verdict_of_a_single_rank_speaks_of_no_others() -> None:
    run = program("0| k @0 5-900")
    found = analysis_of(run)._replace(found_by="k")
    assert "  Iterations found by `k`, which repeats\n" in verdict_of(found, [Path("run")])
    whole = analysis_of(run._replace(ranges=run.ranges.clear()))
    assert "Window: from the first to the last device activity, " in verdict_of(whole, [Path("run")])
    hosts = whole._replace(efficiency=whole.efficiency._replace(devices=()))
    assert "Window: the recorded time, " in verdict_of(hosts, [Path("run")])


def test_the_page_names_evidence_and_factors_as_the_terminal_does() -> None:
    """Not as a program writes them: iterations one by one, and a table of what was not recorded in braces."""
    one = analysis_of(program("0| k @0 5-400, k @800 805-990", steps=12))
    text = findings(one, "run", 0)
    assert "<dt>iterations</dt><dd>0 to 11</dd>" in text
    assert "device memory in use (how full it is): --cuda-memory-usage=true" in text
    assert "{" not in text
    assert "</b> copies</span>" in verdict(one)
    assert "</b> communication</span>" in verdict(analysis_of(program(GOOD)))
    assert "Left out" not in run_facts(one, "run", "run")


@pytest.mark.parametrize(("apart", "named"), [(0, False), (1, True)])
def test_communication_without_its_other_ranks_is_named(apart: int, named: bool) -> None:
    """Kernels without payload are matched by order, which is not believed where they do not run at one time."""
    late = f"n @10 {500 + 200 * apart}-{600 + 200 * apart}"
    run = program(f"0| k @0 5-400, n @10 500-600\n1| k @0 5-400, {late}")
    found = findings_of(run._replace(parts=parts_by_order(run, run.parts.clear())))
    assert ("unmatched-communication" in found) == named
    if named:
        title = "100 % of the time in communication, mainly AllReduce, has no partner in the reports"
        assert found["unmatched-communication"].title.startswith(title)
        assert (found["unmatched-communication"].ranks, found["unmatched-communication"].severity) == ((0, 1), "high")


def test_little_communication_without_its_other_ranks_is_of_low_severity() -> None:
    run = program("0| k @0 5-400, n @10 500-520\n1| k @0 5-400, n @10 700-720")
    found = findings_of(run._replace(parts=parts_by_order(run, run.parts.clear())))["unmatched-communication"]
    assert found.title.startswith("100 % of the time")
    assert found.severity == "low"


@pytest.mark.parametrize(
    ("known", "advice"),
    [(True, "Give the reports of all ranks"), (False, "Export the reports with --include-json true")],
)
def test_communication_without_communicators_is_advised_to_be_exported_with_payloads(known: bool, advice: str) -> None:
    run = program("0| k @0 5-400, n @10 400-905, wait 20-906")
    none = pl.lit(None, pl.Int64)
    parts = run.parts.with_columns(last=none, waited_for=none, communicator=pl.lit("world" if known else None, TEXT))
    found = findings_of(run._replace(parts=parts, communicator_sizes={"world": 2}))["unmatched-communication"]
    assert found.advice.startswith(advice)


@pytest.mark.parametrize(("ranks", "family", "named"), [(0, "nccl", True), (0, "mpi", False), (1, "nccl", False)])
def test_the_report_of_one_rank_has_no_partners_of_its_communication(ranks: int, family: str, named: bool) -> None:
    """How many ranks (0: not known) a communicator has: one of NCCL with kernels has several, one of MPI may not."""
    run = program("0| k @0 5-400, n @10 400-905, wait 20-906")
    none, nccl = pl.lit(None, pl.Int64), pl.col("kind") == "nccl"
    calls = run.work.filter(nccl).select(
        "task", "row", "start", "end", kind=pl.lit("mpi"), name=pl.lit("MPI_Allreduce")
    )
    if family == "mpi":
        calls = pl.concat([run.calls, calls.select(pl.col(c).cast(t) for c, t in CALLS.items())]).sort("start")
        run = run._replace(work=run.work.filter(~nccl), calls=calls)
    parts = run.parts.with_columns(last=none, waited_for=none, family=pl.lit(family, TEXT))
    found = findings_of(run._replace(parts=parts, communicator_sizes={"world": ranks}))
    assert ("unmatched-communication" in found) == named
    assert not (named and "exposed-transfer" in found)


@pytest.mark.parametrize(("share", "named"), [(0.0, False), (0.15, False), (0.5, True), (1.0, True)])
def test_graphs_that_are_recorded_whole_are_named(share: float, named: bool) -> None:
    """Their kernels do not show, so that a device that only launches graphs seems useful all of the time."""
    graph = pl.col("name").cast(pl.String) == "graph"
    run = program(f"0| k @0 0-{1000 * (1 - share)}, k:graph:k @10 {1000 * (1 - share)}-1000, c @20 0-990")
    work = run.work.with_columns(kind=pl.when(graph).then(pl.lit("graph").cast(TEXT)).otherwise("kind"))
    found = findings_of(run._replace(work=work))
    instants = work.with_columns(instant=graph, end=pl.when(graph).then(pl.col("start") + 1).otherwise("end"))
    assert "whole-graphs" not in findings_of(run._replace(work=instants))
    assert ("whole-graphs" in found) == named
    if named:
        whole = found["whole-graphs"]
        assert f"{100 * share:.0f} % of the device time" in whole.title
        assert whole.title.endswith("efficiency counts pauses inside of them as useful"), "a single GPU"
        of_many = findings_of(run._replace(work=work, recorded_families=frozenset({"nccl"})))["whole-graphs"]
        assert "pauses and communication inside" in of_many.title, "the report of one rank of several"
        assert "--cuda-graph-trace" not in whole.advice, "the next command says it"
        assert (whole.severity, whole.command) == ("medium", "nsys profile --cuda-graph-trace=node ...")
        assert whole.evidence["graphs_ns"] == pytest.approx(share * whole.evidence["device_ns"], rel=0.01)
