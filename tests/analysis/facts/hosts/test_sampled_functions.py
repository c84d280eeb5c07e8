"""Samples of launching threads by idle time: `--show host-samples`.

Six iterations of 10 ms; the device idles from 1 to 8.05 ms of each, until the host launches again.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
from programs import UNIT, analysis_of, program

from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.gather.host_samples import HOST_SAMPLE
from nsys2prv.cli.analysis_text import text_of
from nsys2prv.errors import ReportError

STEPS, EVERY = 6, 1000
LINE = "k @0 5-100, k @800 805-990"


def sampled(*each: tuple[str, str, Iterable[int]], row: int = 0) -> Run:
    """A run with samples of a thread: family, function, and at which times of each iteration (in 10 us)."""
    rows = [
        (0, row, (EVERY * step + at) * UNIT, family, function, "lib.so")
        for step in range(STEPS)
        for family, function, times in each
        for at in times
    ]
    samples = pl.DataFrame(rows, schema=HOST_SAMPLE, orient="row")
    return program(f"0| {LINE}", steps=STEPS)._replace(host_samples=lambda: samples)


def test_functions_are_told_by_the_idle_time_that_they_run_in() -> None:
    """Those while the device works, or of a thread that does not launch, are no part of it."""
    run = sampled(
        ("cpu_samples", "sort", (200, 300, 400)), ("cpu_samples", "hash", (500,)), ("cpu_samples", "k", (50,))
    )
    found = analysis_of(run).host_samples().table
    assert found.select("family", "function", "file", "after", "before", "samples", "share").rows() == [
        ("cpu_samples", "sort", "lib.so", "kernel", "kernel", 3 * STEPS, 0.75),
        ("cpu_samples", "hash", "lib.so", "kernel", "kernel", STEPS, 0.25),
    ]
    assert analysis_of(sampled(("cpu_samples", "sort", (200,)), row=-1)).host_samples().table.is_empty()


def test_each_family_of_samples_has_shares_of_its_own() -> None:
    run = sampled(("cpu_samples", "memcpy", (200, 300)), ("python_samples", "load", (200,)))
    found = analysis_of(run).host_samples().table
    assert found.select("family", "function", "share").rows() == [
        ("cpu_samples", "memcpy", 1.0),
        ("python_samples", "load", 1.0),
    ]


def test_the_table_shows_the_most_frequent_functions_and_counts_the_others() -> None:
    run = sampled(*(("cpu_samples", f"f{n}", range(200, 220 - n)) for n in range(13)))
    lines = text_of(analysis_of(run), held=False, chosen=("host-samples",)).splitlines()
    assert lines[0] == "Samples of launching threads while devices have no launched work"
    assert [line.split()[3] for line in lines[2:-1]] == [f"f{n}" for n in range(10)]
    assert lines[-1].endswith("(fewer samples, not shown: 3)")


def test_a_run_without_samples_has_no_rows() -> None:
    run = program(f"0| {LINE}", steps=STEPS)
    assert analysis_of(run).host_samples().table.is_empty()
    text = text_of(analysis_of(run._replace(host_samples=None)), held=False, chosen=("host-samples", "kernels", "ncu"))
    assert text.splitlines()[-2:] == [
        "The run has no rows in host-samples, ncu.",
        "Samples of hosts: record CPU samples or Python stacks (nsys profile --sample=process-tree "
        "--python-sampling=true).",
    ]


def test_samples_that_cannot_be_read_are_told_with_report_and_cause() -> None:
    """An empty table would say that there are none."""

    def unread() -> pl.DataFrame:
        raise ReportError("b.sqlite", "there is no such file", "give another one")

    analysis = analysis_of(program(f"0| {LINE}", steps=STEPS)._replace(host_samples=unread))
    told = "Samples of host threads could not be read: b.sqlite: there is no such file; give another one"
    assert text_of(analysis, held=False, chosen=("host-samples",)) == told
    assert analysis.as_json()["warnings"] == [*analysis.run.remarks, told]
