"""A rank that is late in a single iteration: the call of CUDA that its host is in, else what samples show."""

from __future__ import annotations

import pytest
from programs import Sampled, ending_with_calls, findings_of, program, with_samples

from nsys2prv.analysis.findings.finding import Finding

GOOD = "busy 0-1, k @1 2-402, k @2 402-690, n @2 690-695, wait 10-696"
LATE = "busy 0-300, k @300 305-700, k @301 700-990, n @302 990-995, wait 310-996"


def late_in_one(line: str, *each: Sampled) -> Finding:
    """Return the finding of rank 0, which runs a line in step 5, with samples of its thread then."""
    run = ending_with_calls(program(f"0| {GOOD}\n1| {GOOD}", step5_rank0=line))
    return findings_of(with_samples(run, *each, steps=[5]) if each else run)["late-rank"]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("cudaLaunchKernel", "a first launch loads the code of its kernel"),
        ("cudaMalloc", "keep memory from iteration to iteration"),
        ("cudaStreamCreateWithFlags", "call it once before the loop"),
    ],
)
def test_a_long_call_of_cuda_is_named(call: str, why: str) -> None:
    advice = late_in_one(f"{LATE}, cuda:{call} 20-290").advice
    assert advice.startswith(f"The host of rank 0 is in one `{call}` for 2.70 ms in that iteration: {why}")


@pytest.mark.parametrize(
    "call", ["cuda:cudaStreamSynchronize 20-290", "cuda:cudaMemcpyAsync 20-290", "cuda:cudaMalloc 20-120"]
)
def test_calls_that_wait_or_are_short_are_no_reason(call: str) -> None:
    assert late_in_one(f"{LATE}, {call}").advice.startswith("See what the host of rank 0 does there: garbage")


def test_a_call_that_is_as_long_in_other_iterations_is_no_reason() -> None:
    """A launch into a full queue takes as long in each."""
    usual = f"{GOOD}, cuda:cudaLaunchKernel 700-970"
    run = program(f"0| {usual}\n1| {usual}", step5_rank0=f"{LATE}, cuda:cudaLaunchKernel 20-290")
    assert findings_of(ending_with_calls(run))["late-rank"].advice.startswith(
        "See what the host of rank 0 does there: garbage"
    )


def test_samples_name_the_compiler_of_kernels() -> None:
    compiling = ("[libnvrtc.so.13]", "libnvrtc.so.13", range(10, 290, 10))
    assert late_in_one(LATE, compiling).advice.startswith(
        "See what the host of rank 0 does there: of the 28 samples of launching threads in these times 100 % are in "
        "libnvrtc (compiling kernels; functions unknown); kernels are compiled there, as for new shapes. Keep shapes"
    )
