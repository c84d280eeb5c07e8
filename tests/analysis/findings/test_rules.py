"""Each rule on a small program that has it, and on one that has not; rules, their modules and ids of findings."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from programs import GOOD, UNIT, analysis_of, findings_of, program

from nsys2prv.analysis.facts.thresholds import HIGH
from nsys2prv.analysis.findings import rules
from nsys2prv.analysis.findings.rules import RULES, Rule
from nsys2prv.analysis.overlapping_gains import SHORTEN_COMPUTE
from nsys2prv.paraver.cfg import CFGS

# (id, program, cost in ms an iteration, words of the title)
WITH = [
    (
        "exposed-transfer",
        "0| k @0 5-400, n @10 400-980, wait 20-985\n1| k @0 5-400, n @10 400-980, wait 20-985",
        2.9,  # half of what an ideal network would save
        "AllReduce",
    ),
    (
        "imbalance",
        "0| k @0 5-400, n @10 400-905, wait 20-905\n1| k @0 5-900, n @10 900-905, wait 20-905",
        2.5,
        "Rank 1 computes 2.50 ms longer than the mean (the longest in 6 of 6 iterations)",
    ),
    (
        "late-rank",
        "0| k @0 5-400, n @10 400-905, wait 20-905\n1| busy 0-500, k @500 505-900, n @510 900-905",
        25 / 6,  # predicted: before the first iteration nothing is known
        "Rank 1's `busy` delays rank 0 by 5.00 ms an iteration",
    ),
    (
        "pipeline-bubble",
        "0| k @0 5-300, s @1 300-305, s @2 305-605, k @3 605-990, wait 20-990\n"
        "1| s @0 5-305, k @1 305-600, s @2 600-605, k @3 605-990, wait 20-990",
        2.95,
        "Stages wait for each other's messages",
    ),
    ("launch-bound", "0| " + ", ".join(f"k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(110)), 8.9, "110 kernels"),
    ("host-bound", "0| k @0 5-100, k @800 805-990", 7.2, "the host is busy between launches"),
    (
        "host-synchronization",
        "0| k @0 5-400, wait 10-402, k @450 455-990",
        0.70,
        "Device synchronize empties the device",
    ),
    (
        "host-functions",
        "0| k @0 5-400, cuda:cudaLaunchHostFunc 2-3, k @4 700-990",
        3.0,
        "Streams run host functions (cudaLaunchHostFunc), and the work launched behind them waits 3.00 ms an iteration",
    ),
    ("data-loading", "0| load 0-400, k @405 410-990", 4.0, "`load`"),
    ("system-waiting", "0| k @0 5-100, os:poll 100-800, k @800 805-990", 7.0, "the host is in `poll`"),
    (
        "pageable-copies",
        "0| c:HtoD:Pageable_to_Device @0 5-405, k @400 405-990",
        2.68,
        "Copies of pageable memory run alone 4.00 ms",
    ),
    (
        "exposed-copies",
        "0| c:Host-to-Device:Pinned_to_Device @0 5-405, k @400 405-990",
        2.0,
        "Copies between host and device run alone 4.00 ms",
    ),
    (
        "staged-copies",
        "0| k @0 5-300, c:Device-to-Host:Device_to_Device @10 405-425, k @430 435-990",
        1.125,  # nine tenths of the copy and of the idle time before it
        "a device waits for them and copies for 1.25 ms",
    ),
    (
        "device-copies",
        "0| c:Device-to-Device:Device_to_Device @0 5-405, k @1 300-990",
        2.95,
        "Copies within a device run alone 2.95 ms",
    ),
    (
        "allocations",
        "0| k @0 5-100, cuda:cudaMalloc 100-395, k @395 400-990",
        3.0,
        "cudaMalloc",
    ),
    ("migrations", "0| c:Unified_Host-to-Device @0 5-105, k @0 50-300, k @1 300-990", 2.95, "Managed memory"),
    ("matrix-products", "0| k:sgemm:GEMM_nn_128x128x8 @0 5-600, k @1 600-990", 4.4625, "tensor cores"),
    (
        "matrix-products",
        "0| k:scudnn:convolution @0 5-600, k @1 600-990",
        4.4625,
        "Convolutions do not use tensor cores",
    ),
    ("double-precision", "0| k:dgemm:GEMM @0 5-600, k @1 600-990", 0.0, "(`dgemm`) take 60 % of compute, 5.95 ms"),
    ("unaligned-products", "0| k:Kernel2:GEMM_nn_128x128x32_align2 @0 5-605, k @1 605-990", 4.0, "no multiples of 8"),
    ("conversions", "0| k:cast:copy/cast @0 5-405, k @1 405-990", 2.0, "take 41 % of compute"),
    ("gathers", "0| k:take:gather/scatter @0 5-305, k @1 305-990", 1.5, "take 30 % of compute, 3.00 ms an iteration"),
    (
        "unfused-attention",
        "0| k:a:softmax @0 5-105, k @1 105-500, k:a:softmax @2 500-600, k @3 600-990",
        2.0,
        "take 20 % of compute, 2.00 ms an iteration: attention is not fused",
    ),
    (
        "unfused-elementwise",
        "0| k:a:elementwise @0 5-205, k:b:copy/cast @1 205-250, k:a:elementwise @2 250-400, k @3 400-990",
        1.5,
        "not fused: 15 % of compute, 1.50 ms an iteration, could be saved",
    ),
    ("dominant-kernel", "0| k:sort:sort @0 5-605, k @1 605-990", 0.0, "`sort` takes 61 % of compute, 6.00 ms"),
]


@pytest.mark.parametrize(("name", "picture", "cost", "words"), WITH, ids=[case[0] for case in WITH])
def test_a_program_has_its_finding_first(name: str, picture: str, cost: float, words: str) -> None:
    found = findings_of(program(picture))
    assert next(reversed(found)) == name
    assert words in found[name].title
    assert found[name].cost_ns / 1e6 == pytest.approx(cost, rel=0.06)
    assert found[name].share == pytest.approx(found[name].cost_ns / (1000 * UNIT), rel=0.1)
    assert found[name].severity in ("high", "medium")


@pytest.mark.parametrize("name", [case[0] for case in WITH])
def test_a_good_program_has_none(name: str) -> None:
    assert name not in findings_of(program(GOOD))


def test_a_good_program_has_no_finding_that_costs() -> None:
    found = findings_of(program(GOOD))
    assert [one.id for one in found.values() if one.cost_ns] == []


def test_findings_are_ranked_by_cost_and_name_cfgs_and_times() -> None:
    """Of all programs of this page."""
    cfgs = {f"{cfg.folder}/{cfg.name}" for cfg in CFGS}
    for _, picture, _, _ in WITH:
        run = program(picture)
        found = analysis_of(run).findings
        assert [one.severity for one in found] == sorted(
            (str(one.severity) for one in found), key=["high", "medium", "low"].index
        )
        for severity in ("high", "medium", "low"):
            costs = [one.cost_ns for one in found if one.severity == severity]
            assert costs == sorted(costs, reverse=True)
        assert {one.cfg for one in found if one.cfg} <= cfgs
        assert all(0 <= one.at_ns <= run.duration for one in found if one.at_ns is not None)


def test_every_cfg_that_a_rule_names_is_there() -> None:
    folder = Path(rules.__file__).parent
    named = {
        name
        for file in folder.glob("*.py")
        for name in re.findall(r'"((?:analysis|basics|views)/\w+)"', file.read_text())
    }
    assert len(named) > 5
    assert named <= {f"{cfg.folder}/{cfg.name}" for cfg in CFGS}


def _ids(rule: Rule) -> list[str]:
    """Return the ids of the findings of a rule: those that its module names, else the one that is the module's name."""
    named = re.findall(r"`([a-z]+(?:-[a-z]+)+)`", str(sys.modules[rule.__module__].__doc__))
    return named or [rule.__name__.replace("_", "-")]


def test_every_module_but_those_of_all_rules_is_one_rule() -> None:
    files = {file.stem for file in Path(rules.__file__).parent.glob("*.py")}
    assert files - {"__init__", "finding", "rules"} == {rule.__name__ for rule in RULES}
    assert [rule.__module__.rpartition(".")[2] for rule in RULES] == [rule.__name__ for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_ids_of_findings_lead_to_the_module_that_makes_them(rule: Rule) -> None:
    nodes = [*ast.walk(ast.parse(Path(str(sys.modules[rule.__module__].__file__)).read_text(encoding="utf-8")))]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    made = [node.args[0] for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding"]
    stated = {one.value for one in made if isinstance(one, ast.Constant)}
    ids = {*_ids(rule)}
    assert made
    assert ids <= texts
    assert stated <= ids
    # A module with several may choose one by a name.
    assert stated == ids or len(ids) > 1


def test_every_finding_of_the_docs_is_of_one_module() -> None:
    """The table of titles has all of them (see test_docs.py)."""
    page = (Path(__file__).parents[3] / "docs" / "findings.md").read_text(encoding="utf-8")
    table = page.partition("| on the first screen | finding |")[2].partition("\n\n")[0]
    assert sorted(one for rule in RULES for one in _ids(rule)) == sorted(
        re.findall(r"\| \[`([\w-]+)`\]\(#[\w-]+\) \|$", table, re.M)
    )


def test_every_finding_shortens_compute_or_not() -> None:
    """A new one has to be in one of the two, since it decides which gains may add up."""
    others = """
        allocations blocking-launches data-loading device-copies exposed-copies exposed-transfer exposed-waiting
        gpu-imbalance gpus-in-turn host-bound host-functions host-synchronization imbalance late-gpu late-rank
        late-ranks launch-bound low-bandwidth pageable-copies pipeline-bubble repeated-reductions staged-copies
        system-waiting
    """
    without_cost = """
        defective-reports dominant-kernel double-precision doubtful-clocks failed-calls late-capture low-occupancy
        memory-near-full missing-data pauses unmatched-communication unrecorded-probes whole-graphs
    """
    assert sorted([*SHORTEN_COMPUTE, *others.split(), *without_cost.split()]) == sorted(
        one for rule in RULES for one in _ids(rule)
    )


def test_every_rule_is_in_the_tuple_once() -> None:
    assert len({rule.__name__ for rule in RULES}) == len(RULES)
    assert HIGH.value == 0.1


def test_evidence_has_its_unit_at_the_end_of_its_name() -> None:
    """The page finds it there."""
    named = {
        key.value
        for file in Path(rules.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }
    assert "starved_ns" in named
    assert [name for name in named if re.search(r"_(ns|percent|gb_s)_", name)] == []
