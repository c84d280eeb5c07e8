"""CSV under the columns of `nsys stats`, with its figures."""

from __future__ import annotations

import csv
import io
import sqlite3

import pytest
from runs import SAMPLES, Command

SAXPY = SAMPLES / "single/saxpy.sqlite"
TIMES = ["Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"]
# Columns that nsys 2023.4.4 prints.
HEADS = {
    "kernels": ["Time (%)", "Total Time (ns)", "Instances", *TIMES, "Name"],
    "api": ["Time (%)", "Total Time (ns)", "Num Calls", *TIMES, "Name"],
    "memory": ["Time (%)", "Total Time (ns)", "Count", *TIMES, "Operation"],
    "nvtx": ["Time (%)", "Total Time (ns)", "Instances", *TIMES, "Range"],
}
# Rows that `nsys stats` prints of the report, but for the percentage's further digits.
ROWS = {
    "kernels": ["100.0", "230078", "20", "11503.9", "11391.0", "11136", "12960", "396.7", "saxpy"],
    "api": ["85.6", "135051536", "2", "67525768.0", "67525768.0", "55114", "134996422", "95417913.9", "cudaMalloc"],
    "memory": ["94.8", "20039986", "20", "1001999.3", "924972.0", "903965", "1651897", "205833.0",
               "[CUDA memcpy Host-to-Device]"],
}  # fmt: skip


def table(section: str, cli: Command, report: object = SAXPY) -> list[list[str]]:
    said = cli("analyze", report, "--window", "trace", "--show", section, "--format", "csv")
    assert said.code == 0, said.err
    return list(csv.reader(io.StringIO(said.out)))


@pytest.mark.parametrize("section", ROWS)
def test_a_table_has_the_columns_and_figures_of_nsys(section: str, cli: Command) -> None:
    head, first, *_ = table(section, cli)
    assert head[:9] == HEADS[section]
    rounded = [f"{float(v):.1f}" if n in (0, 3, 4, 7) else v for n, v in enumerate(first[:9])]
    assert rounded == ROWS[section]


def test_ranges_have_their_domains_as_nsys_prints_them(cli: Command) -> None:
    report = sorted((SAMPLES / "gpt-ddp").glob("*.sqlite"))[0]
    head, *rows = table("nvtx", cli, report)
    assert head[:9] == HEADS["nvtx"]
    query = """SELECT coalesce(d.text, '') || ':' || coalesce(n.text, s.value), count(*), sum(n.end - n.start)
        FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId
        LEFT JOIN NVTX_EVENTS d ON d.eventType = 75 AND d.domainId = n.domainId
        WHERE n.eventType = 59 AND n.end IS NOT NULL AND coalesce(d.text, '') != 'NCCL' GROUP BY 1"""
    with sqlite3.connect(report) as opened:
        expected = {(name, str(count), str(total)) for name, count, total in opened.execute(query)}
    assert {(row[8], row[2], row[1]) for row in rows} == expected


def test_several_tables_follow_their_names(cli: Command) -> None:
    said = cli("analyze", SAXPY, "--show", "kernels,api", "--format", "csv")
    assert [line for line in said.out.splitlines() if line.startswith("# ")] == ["# kernels", "# api"]
