"""A redacted trace holds none of the names that its reports do, and is the same trace otherwise."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from runs import SAMPLES, Command, records

import nsys2prv
from nsys2prv.model.event_types import EVENT_TYPES, KERNEL, MEMORY
from nsys2prv.paraver.labels import PcfType
from nsys2prv.pipeline.write.redact import HOST_NAMES, PATHS, REPORT_NAMES, SECRETS, USER_NAMES, Redaction

ONE = nsys2prv.Execution(jobs=1)
OWN = EVENT_TYPES.values()
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
    before = nsys2prv.translate(report, open_ / "trace", execution=ONE)
    after = nsys2prv.translate(report, shared / "trace", execution=ONE, writing=nsys2prv.TraceOutput(redact=True))
    written = {p.name: p.read_text() for p in shared.iterdir()}
    assert {(n, file) for file, text in written.items() for n in NAMES if n in text} == set()
    assert records(open_ / "trace.prv") == records(shared / "trace.prv")
    assert before.removed is None
    assert after.removed is not None
    assert set(after.removed) == {HOST_NAMES, USER_NAMES, SECRETS, PATHS, REPORT_NAMES}
    labels = {t for values in nsys2prv.read_prv(shared / "trace.prv").values.values() for t in values.values()}
    assert set(TEXTS.values()) <= labels


def _translate_beside_a_broken_one(report: Path, bad: Path, out: Path) -> None:
    """Translate a report, redacted, with one that cannot be read and is left out."""
    bad.write_bytes(report.read_bytes()[:5000])
    nsys2prv.translate(
        [report, bad],
        out,
        writing=nsys2prv.TraceOutput(redact=True),
        execution=nsys2prv.Execution(jobs=1, keep_going=True),
    )


def test_reports_that_cannot_be_read_are_not_named(report: Path, tmp_path: Path) -> None:
    _translate_beside_a_broken_one(report, tmp_path / "mcurie_secretproject.sqlite", tmp_path / "trace")
    comments = [line for line in (tmp_path / "trace.prv").read_text().splitlines() if "left out: the file" in line]
    assert comments == ["# input report2.sqlite left out: the file is truncated"]


def test_names_that_are_words_of_ours_leave_figures_and_labels(saxpy: Path, tmp_path: Path) -> None:
    """A report called `0`, a user called `CUDA` and a host called `clock`: cfgs find event types by label."""
    path = shutil.copy(saxpy, tmp_path / "0.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as changed:
        changed.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = 'clock' WHERE name = 'Hostname'")
        changed.execute(
            "INSERT INTO META_DATA_CAPTURE(name, value) VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'USER=CUDA')"
        )
    for redact in (False, True):
        made = nsys2prv.translate(
            path, tmp_path / f"{redact}", writing=nsys2prv.TraceOutput(redact=redact), execution=ONE
        )
    assert made.removed is not None
    given, redacted = ((tmp_path / f"{redact}.prv").read_text().splitlines() for redact in (False, True))
    assert [line.replace("input 0: host clock,", "input report1: host host1,") for line in given] == redacted
    assert made.removed[REPORT_NAMES] == 3, "in a comment, and twice in OUT.align.json"
    assert event_types(tmp_path / "True.pcf") == event_types(tmp_path / "False.pcf")
    clock = json.loads((tmp_path / "True.align.json").read_text())
    assert clock["reference"] == clock["reports"][0]["name"] == "report1"


def event_types(pcf: Path) -> list[str]:
    """The lines that name our event types."""
    return [line for line in pcf.read_text().splitlines() if any(line.endswith(f"    {t.label}") for t in OWN)]


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("--ncu 0=radium.ncu-rep, radium 2.radium.x", "--ncu 0=report1.ncu-rep, radium 2.radium.x"),
        ("radium: events were dropped", "report1: events were dropped"),
    ],
)
def test_reports_and_files_that_are_called_as_one_are_not_named_in_comments(text: str, redacted: str) -> None:
    assert Redaction({}, {"radium": ("report1", REPORT_NAMES)}).comment(text) == redacted


def test_a_report_whose_name_is_nothing_but_an_ending_is_left_out(saxpy: Path, tmp_path: Path) -> None:
    _translate_beside_a_broken_one(saxpy, tmp_path / ".sqlite", tmp_path / "trace")
    assert "# input .sqlite left out: the file is truncated" in (tmp_path / "trace.prv").read_text().splitlines()


def test_values_that_we_list_keep_their_labels() -> None:
    redaction = Redaction({"Idle": ("user1", USER_NAMES), "step": ("user2", USER_NAMES)}, {})
    kernels = PcfType(KERNEL.number, KERNEL.label, {0: KERNEL.ended, 1: "step", 2: "Idle"})
    ranges = PcfType(9600, "NVTX step", {1: "Idle"})
    operations = PcfType(MEMORY.number, MEMORY.label, MEMORY.values)
    assert redaction.types([kernels, ranges, operations]) == [
        kernels._replace(values={0: "Idle", 1: "user2", 2: "Idle"}),
        ranges._replace(label="NVTX user2", values={1: "user1"}),
        operations,
    ]


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
def test_names_inside_a_label_are_replaced(text: str) -> None:
    names = {
        HOST: ("host2", HOST_NAMES),
        "gpu17": ("host1", HOST_NAMES),
        USER: ("user1", USER_NAMES),
        SECRET: ("(removed)", SECRETS),
    }
    names["zoe curie"] = "user3", USER_NAMES
    assert Redaction(names, {}, frozenset({SPACED})).text(text) == TEXTS[text]
