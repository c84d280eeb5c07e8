"""A redacted trace holds none of the names that its reports do, and is the same trace otherwise."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from runs import SAMPLES, Command, records

import nsys2prv
from nsys2prv.pipeline.write.redact import HOST_NAMES, PATHS, REPORT_NAMES, SECRETS, USER_NAMES, Redaction

HOST, USER, SECRET = "gpu17.cluster.example.org", "mcurie", "hunter2-Zq8"
TEXTS = {
    "/home/mcurie/radium/train.py:31 step": "train.py:31 step",
    "load C:\\Users\\mcurie\\data.bin": "load data.bin",
    "~/radium/run.sh": "run.sh",
    "radium/pure/model.cpp(17)": "model.cpp(17)",
    "/home/mcurie/My Data/pure  radium/train.py:31 step": "train.py:31 step",
    "run C:\\Program Files\\radium app\\x.exe now": "run x.exe now",
    "load radium & polonium/x.bin": "load x.bin",
    "copy /radium/x.bin to radium/y.bin": "copy x.bin to y.bin",
    f"on {HOST}, that is gpu17": "on host2, that is host1",
    "zoe curie's run": "user3's run",
    f"{USER}'s step, token={SECRET}": "user1's step, token=(removed)",
    "<script> 3 MB/s, fwd / bwd, a::operator/(int) x=1/2": "<script> 3 MB/s, fwd / bwd, a::operator/(int) x=1/2",
}
SPACED = "radium & polonium"
ENVIRONMENT = (
    f"USER={USER}",
    f"HOME=/home/{USER}",
    "OLDPWD=/home/zoe curie/x",
    f"PWD=/work/{SPACED}/run",
    f"API_TOKEN={SECRET}",
    "RANK=0",
)
# What no file that is shared may hold.
NAMES = (
    HOST,
    "gpu17",
    USER,
    "zoe",
    "curie",
    SECRET,
    "radium",
    "polonium",
    "/home",
    "Users",
    "Program Files",
    "My Data",
)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A report that names host, user, folders and a secret."""
    path = tmp_path / "mcurie_radium.0.sqlite"
    shutil.copy(SAMPLES / "mpi-halo/mpi-halo.0.sqlite", path)
    with closing(sqlite3.connect(path, isolation_level=None)) as changed:
        changed.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE name = 'Hostname'", (HOST,))
        changed.executemany(
            "INSERT INTO META_DATA_CAPTURE(name, value) VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', ?)",
            [(variable,) for variable in ENVIRONMENT],
        )
        rows = changed.execute("SELECT rowid FROM NVTX_EVENTS WHERE eventType = 59").fetchall()
        for (row,), text in zip(rows, TEXTS, strict=False):
            changed.execute("UPDATE NVTX_EVENTS SET text = ?, textId = NULL WHERE rowid = ?", (text, row))
        changed.execute("UPDATE PROCESSES SET name = '/home/mcurie/bin/halo'")
    return path


def test_no_name_is_left_in_any_file_and_all_else_is(report: Path, tmp_path: Path) -> None:
    open_, shared = tmp_path / "open", tmp_path / "shared"
    open_.mkdir()
    shared.mkdir()
    before = nsys2prv.translate(report, open_ / "trace", execution=nsys2prv.Execution(jobs=1))
    after = nsys2prv.translate(
        report, shared / "trace", execution=nsys2prv.Execution(jobs=1), writing=nsys2prv.TraceOutput(redact=True)
    )
    written = {p.name: p.read_text() for p in shared.iterdir()}
    assert {(n, file) for file, text in written.items() for n in NAMES if n in text} == set()
    assert records(open_ / "trace.prv") == records(shared / "trace.prv")
    assert before.removed is None
    assert after.removed is not None
    assert set(after.removed) == {HOST_NAMES, USER_NAMES, SECRETS, PATHS, REPORT_NAMES}
    labels = {t for values in nsys2prv.read_prv(shared / "trace.prv").values.values() for t in values.values()}
    assert set(TEXTS.values()) <= labels


def test_reports_that_cannot_be_read_are_not_named(report: Path, tmp_path: Path) -> None:
    bad = tmp_path / "mcurie_secretproject.sqlite"
    bad.write_bytes(report.read_bytes()[:5000])
    nsys2prv.translate(
        [report, bad],
        tmp_path / "trace",
        writing=nsys2prv.TraceOutput(redact=True),
        execution=nsys2prv.Execution(keep_going=True),
    )
    comments = [line for line in (tmp_path / "trace.prv").read_text().splitlines() if "left out: the file" in line]
    assert comments == ["# input report2.sqlite left out: the file is truncated"]


def test_a_batch_shares_no_more(report: Path, cli: Command, tmp_path: Path) -> None:
    """But for the names of its runs, and the manifest, which names the reports for the next batch."""
    (tmp_path / "root" / "first").mkdir(parents=True)
    report.rename(tmp_path / "root" / "first" / report.name)
    said = cli("batch", tmp_path / "root", "-o", tmp_path / "out", "--redact")
    assert said.code == 0
    assert "names the reports" in said.out
    files = {p.name: p.read_text() for p in (tmp_path / "out").iterdir()}
    manifest = files.pop("nsys2prv-batch.json")
    assert {"first.prv", "first.pcf", "first.row"} <= files.keys()
    assert {(n, file) for file, text in files.items() for n in NAMES if n in text} == set()
    assert {n for n in NAMES if n in manifest.replace(report.name, "")} == set()
    again = cli("batch", tmp_path / "root", "-o", tmp_path / "out", "--redact")
    assert "1 kept" in again.out
    assert "other options" in cli("batch", tmp_path / "root", "-o", tmp_path / "out", "--dry-run").out


def test_the_command_says_what_it_removed(report: Path, cli: Command, output: Path) -> None:
    said = cli("translate", report, "-o", output, "--redact")
    assert "Removed for sharing: " in said.out
    assert " host names" in said.out
    assert "Removed for sharing" not in cli("translate", report, "-o", output, "--force").out


@pytest.mark.parametrize("text", TEXTS)
def test_a_label(text: str) -> None:
    names = {
        HOST: ("host2", HOST_NAMES),
        "gpu17": ("host1", HOST_NAMES),
        USER: ("user1", USER_NAMES),
        SECRET: ("(removed)", SECRETS),
    }
    names["zoe curie"] = "user3", USER_NAMES
    assert Redaction(names, {}, frozenset({SPACED})).text(text) == TEXTS[text]
