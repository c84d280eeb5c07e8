"""Small runs of one rank whose iterations have chosen lengths."""

from __future__ import annotations

from pathlib import Path

from exports import MAIN, PROCESS, export

# Lengths of iterations in us.
USUAL = (100, 101, 99, 100, 102, 98)
SLOWER = tuple(length + 10 for length in USUAL)


def run_of(path: Path, lengths: tuple[int, ...], program: str = "app", day: int = 1, gpus: int = 1) -> Path:
    """A run of one rank with an iteration of each length (us) after the other, and a kernel in each.

    It was recorded on a day of May 2024.
    """
    begins = [1000 * sum(lengths[:n]) for n in range(len(lengths))]
    both = [*enumerate(zip(begins, lengths, strict=True), start=1)]
    may = 1_714_521_600 * 10**9
    return export(
        path,
        TARGET_INFO_SESSION_START_TIME=(
            "utcEpochNs utcTime localTime",
            [(may + (day - 1) * 86_400 * 10**9, "", "")],
        ),
        PROCESSES=("globalPid pid name", [(PROCESS, 100, program)]),
        NVTX_EVENTS=(
            "start end eventType globalTid domainId text",
            [(begin, begin + 1000 * us, 59, MAIN, 0, f"step {n}") for n, (begin, us) in both],
        ),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start end globalTid nameId correlationId",
            [(begin + 10, begin + 20, MAIN, "cudaLaunchKernel", n) for n, (begin, us) in both],
        ),
        CUPTI_ACTIVITY_KIND_KERNEL=(
            "start end deviceId streamId correlationId globalPid shortName demangledName",
            [(b + 30, b + 900 * us, n % gpus, 7, n, PROCESS, "sgemm", "sgemm") for n, (b, us) in both],
        ),
    )
