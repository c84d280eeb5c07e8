"""Kernels that communicate and are not NCCL's: what their rules say holds for figures and trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from exports import PROCESS, Drawn, export

import nsys2prv
from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.question import Question
from nsys2prv.commands.analyze import analyze
from nsys2prv.intervals.classes import ClassRulesError, load_rules
from nsys2prv.model.event_types import KERNEL, NCCL_KERNEL

CASES = Path(__file__).parents[4] / "shared" / "cases"
COLUMNS = "start end deviceId contextId streamId correlationId globalPid shortName demangledName"
# Short name, demangled name, and whether it communicates.
KERNELS = [
    ("ncclAllReduceRingLLKernel_sum_f32", "ncclAllReduceRingLLKernel_sum_f32(ncclColl)", True),
    ("ncclDevKernel_SendRecv", "ncclDevKernel_SendRecv(int)", True),
    ("cross_device_reduce_1stage", "void vllm::cross_device_reduce_1stage<float, 2>(int)", True),
    ("dispatch", "void deep_ep::internode_ll::dispatch<true, 3>(void*)", True),
    ("dispatch_kernel", "void hybrid_ep::dispatch_kernel<int>(int)", True),
    ("moeA2ACombineKernel", "void moeA2ACombineKernel<8>(int)", True),
    ("barrier_all_on_stream_kernel", "barrier_all_on_stream_kernel()", True),
    ("dispatch", "void mine::dispatch(int)", False),
    ("exchange_halo", "exchange_halo(int)", False),
]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """One kernel of 50 ns after the other."""
    rows = [(100 * n, 100 * n + 50, 0, 1, 7, n, PROCESS, *names) for n, (*names, _) in enumerate(KERNELS)]
    return export(tmp_path / "r.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=(COLUMNS, rows))


def useful(found: Analysis) -> int:
    return found.efficiency.devices[0].useful_ns


def test_rules_tell_communication_from_useful_time(report: Path) -> None:
    found = analyze(report, question=Question(window="device"))
    assert useful(found) == 50 * sum(not moves for *_, moves in KERNELS)
    assert found.overlap.row(0)[3:] == (7, None, 350, 0, 350)
    assert useful(analyze(report, question=Question(window="device", nccl="useful"))) == 50 * len(KERNELS)


def test_the_trace_draws_them_with_the_type_of_nccl_s(report: Path) -> None:
    trace = Drawn(report, "kernels", "nccl").trace
    for kind, moving in ((NCCL_KERNEL, True), (KERNEL, False)):
        drawn = trace.intervals(kind.number).sort("start")["label"].to_list()
        assert drawn == [short for short, _, moves in KERNELS if moves is moving]


def test_rules_of_the_user_say_what_communicates(report: Path, tmp_path: Path) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text(
        "[[rule]]\nclass = 'halo'\ncommunication = true\nshort = '^exchange_halo$'\n"
        "[[rule]]\nclass = 'reduction'\nshort = '^cross_device_reduce_'\n"
    )
    made = nsys2prv.translate(
        report, tmp_path / "out", selection=nsys2prv.Selection(("kernels", "nccl"), classes=rules)
    )
    assert made.prv is not None
    trace = nsys2prv.read_prv(made.prv)
    drawn = trace.intervals(NCCL_KERNEL.number)["label"].to_list()
    assert "exchange_halo" in drawn
    assert "cross_device_reduce_1stage" not in drawn


def test_the_flag_is_true_or_false(tmp_path: Path) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text("[[rule]]\nclass = 'halo'\ncommunication = 'yes'\nshort = 'halo'\n")
    with pytest.raises(ClassRulesError, match="'communication' must be true or false"):
        load_rules(rules)


@pytest.mark.shared
def test_communication_of_every_age_and_kind() -> None:
    """18 of 24 kernels of 0.5 ms (see the README of the cases)."""
    path = CASES / "communication-kernels.sqlite"
    if not path.exists():
        pytest.skip("needs the shared cases")
    found = analyze(path, question=Question(window="device"))
    assert (useful(found), int(found.overlap["communication_ns"][0])) == (3_000_000, 9_000_000)
