"""Reports are exported by nsys, to the form that is read fastest, several at a time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_nsys import PARQUET, SQLITE, fake_nsys, reports
from runs import Command, left_in, records

import nsys2prv
from nsys2prv.errors import ReportError
from nsys2prv.report.discover import find_reports
from nsys2prv.report.nsys import find_nsys

FORMATS = PARQUET.parent


def test_parquet_where_nsys_can_and_sqlite_where_not(tmp_path: Path) -> None:
    (report,) = reports(tmp_path, "rep.1")
    assert find_reports([report], fake_nsys(tmp_path / "old", types="sqlite, hdf, text")) == [tmp_path / "rep.1.sqlite"]
    (tmp_path / "rep.1.sqlite").unlink()
    assert find_reports([tmp_path], fake_nsys(tmp_path / "new")) == [tmp_path / "rep.1_pqtdir"]
    for name, given in (("exported", report), ("sqlite", SQLITE)):
        nsys2prv.translate(given, tmp_path / name)
    assert (tmp_path / "exported.prv").read_bytes() == (tmp_path / "sqlite.prv").read_bytes()


def test_sqlite_where_parquet_does_not_say_who_recorded(tmp_path: Path) -> None:
    """By that captures of one process are known; nsys 2023.4 leaves it out."""
    reports(tmp_path, "rep.1")
    assert find_reports([tmp_path], fake_nsys(tmp_path / "nsys", capture=False)) == [tmp_path / "rep.1.sqlite"]
    assert left_in(tmp_path) == ["nsys", "rep.1.nsys-rep", "rep.1.sqlite"]


def test_a_linked_report_is_exported_once(tmp_path: Path) -> None:
    (report,) = reports(tmp_path, "rep.1")
    (tmp_path / "latest.nsys-rep").symlink_to(report)
    assert find_reports([tmp_path], fake_nsys(tmp_path / "nsys")) == [tmp_path / "rep.1_pqtdir"]


def test_what_nsys_says_need_not_be_utf_8(tmp_path: Path) -> None:
    (report,) = reports(tmp_path, "bad")
    nsys = fake_nsys(tmp_path / "nsys")
    text = tmp_path / "nsys" / "nsys.py"
    text.write_text(text.read_text().replace('sys.exit("this', 'sys.stderr.buffer.write(b"caf\\xe9 "), sys.exit("this'))
    with pytest.raises(ReportError, match="this report is damaged"):
        find_reports([report], nsys)


def test_several_reports_are_exported_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    given = reports(tmp_path, "c", "a", "b")
    exports = find_reports(given, fake_nsys(tmp_path / "nsys", together=3))
    assert exports == [tmp_path / f"{name}_pqtdir" for name in "abc"]


def test_an_export_that_is_older_than_its_report_is_made_again(tmp_path: Path) -> None:
    (report,) = reports(tmp_path, "rep.1")
    stale = tmp_path / "rep.1.sqlite"
    shutil.copyfile(SQLITE, stale)
    os.utime(stale, (0, 0))
    nsys = fake_nsys(tmp_path / "nsys")
    with pytest.raises(
        ReportError, match=r"is newer than rep\.1\.sqlite beside it.* at .*none to .* give .*rep\.1\.sqlite itself"
    ):
        find_reports([tmp_path], tmp_path / "none")
    assert find_reports([stale]) == [stale]
    assert find_reports([tmp_path], nsys) == [tmp_path / "rep.1_pqtdir"]
    os.utime(stale)
    assert find_reports([tmp_path], nsys) == [stale]
    assert find_reports([report], None) == [stale]


@pytest.mark.parametrize("ending", ["_pqtdir", "_arwdir"])
def test_a_folder_of_some_tables_that_a_recipe_left_is_no_export(ending: str, tmp_path: Path) -> None:
    reports(tmp_path, "rep.1")
    some = tmp_path / f"rep.1{ending}"
    shutil.copytree(FORMATS / some.name, some, ignore=lambda _, names: [n for n in names if "META_DATA" in n])
    with pytest.raises(
        ReportError,
        match=rf": rep\.1{ending} beside it may lack tables.* at .*none to .* give .*{ending} itself",
    ):
        find_reports([tmp_path], tmp_path / "none")
    assert find_reports([some]) == [some]
    (made,) = find_reports([tmp_path], fake_nsys(tmp_path / "nsys"))
    assert sorted(p.name for p in made.iterdir()) == sorted(p.name for p in (FORMATS / "rep.1_pqtdir").iterdir())


@pytest.mark.parametrize("ending", ["_pqtdir", "_arwdir"])
def test_a_whole_folder_beside_a_report_is_its_export(ending: str, tmp_path: Path) -> None:
    reports(tmp_path, "rep.1")
    whole = Path(
        shutil.copytree(FORMATS / f"rep.1{ending}", tmp_path / f"rep.1{ending}", copy_function=shutil.copyfile)
    )
    os.utime(whole)
    assert find_reports([tmp_path], tmp_path / "none") == [whole]


def test_a_failed_export_is_said_and_leaves_nothing(tmp_path: Path, cli: Command, output: Path) -> None:
    good, bad = reports(tmp_path, "good", "bad")
    nsys = fake_nsys(tmp_path / "nsys")
    with pytest.raises(ReportError, match=r"bad\.nsys-rep: nsys export failed \(this report is damaged\)"):
        find_reports([good, bad], nsys)
    assert not [name for name in left_in(tmp_path) if "partial" in name]
    said = cli("translate", bad, "-o", output, "--nsys", nsys)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert left_in(output.parent) == []


def test_an_nsys_that_is_too_old_is_said_with_the_version_that_is_needed(tmp_path: Path) -> None:
    (newer,) = reports(tmp_path, "newer")
    with pytest.raises(ReportError) as raised:
        find_reports([newer], fake_nsys(tmp_path / "nsys"))
    told = str(raised.value)
    assert "newer.nsys-rep: nsys 2026.3.1.157 recorded it, and " in told
    assert "/nsys is 2025.3.2.367, which is older; install nsys 2026.3.1.157 or later" in told


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("nsys", "nsys export failed (this report is damaged)"),
        ("none", "needs `nsys` to be exported, and none was found at"),
    ],
)
def test_keep_going_leaves_out_what_cannot_be_exported(
    program: str, why: str, tmp_path: Path, cli: Command, output: Path
) -> None:
    (bad,) = reports(tmp_path / "in", "bad")
    fake_nsys(tmp_path / "nsys")
    shutil.copyfile(SQLITE, bad.with_name("rep.1.sqlite"))
    using = ("--nsys", tmp_path / "nsys" / program)
    left_out = f"left out: {bad}: {why}"
    stopped = cli("translate", bad.parent, "-o", output, *using)
    assert (stopped.code, stopped.err.count("\n")) == (1, 1)
    translated = cli("translate", bad.parent, "-o", output, *using, "--keep-going")
    assert (translated.code, left_out in translated.out) == (0, True)
    analysed = cli("analyze", bad.parent, *using, "--keep-going", "--show", "warnings")
    assert (analysed.code, left_out in analysed.out) == (0, True)
    batched = cli("batch", bad.parent, "-o", tmp_path / "traces", *using, "--keep-going")
    assert (batched.code, left_out in batched.out) == (0, True)
    nothing_else = cli("translate", bad, "-o", output, *using, "--keep-going", "--force")
    assert (nothing_else.code, nothing_else.err.count("\n"), why in nothing_else.err) == (1, 1, True)


def test_an_nsys_that_cannot_be_run_is_said(tmp_path: Path, cli: Command, output: Path) -> None:
    (report,) = reports(tmp_path, "rep.1")
    nsys = fake_nsys(tmp_path / "nsys")
    nsys.chmod(0o644)
    said = cli("translate", report, "-o", output, "--nsys", nsys)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert f"nsys export could not run (Permission denied); check {nsys}" in said.err


@pytest.mark.parametrize("given", ["nsys", "./nsys", "."])
def test_an_nsys_in_the_current_folder_is_run(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (report,) = reports(tmp_path, "rep.1")
    monkeypatch.chdir(fake_nsys(tmp_path / "programs").parent)
    assert find_reports([report], Path(given)) == [tmp_path / "rep.1_pqtdir"]
    shutil.rmtree(tmp_path / "rep.1_pqtdir")
    monkeypatch.setenv("NSYS_HOME", ".")
    assert find_reports([report]) == [tmp_path / "rep.1_pqtdir"]


def test_reports_of_the_old_name_are_exported_as_well(tmp_path: Path) -> None:
    (report,) = reports(tmp_path, "rep.1")
    report.rename(tmp_path / "rep.1.qdrep")
    assert find_reports([tmp_path], fake_nsys(tmp_path / "nsys")) == [tmp_path / "rep.1_pqtdir"]


def test_a_recording_without_a_report_is_one_that_cannot_be_read(tmp_path: Path, cli: Command) -> None:
    """What a killed nsys leaves; where the report is there as well, it is that which counts."""
    shutil.copyfile(SQLITE, tmp_path / "rank0.sqlite")
    for name in ("rank0", "rank1"):
        (tmp_path / f"{name}.qdstrm").write_bytes(bytes(100))
    stopped = cli("translate", tmp_path, "-o", tmp_path / "trace")
    assert (stopped.code, stopped.err.count("\n")) == (1, 1)
    assert "rank1.qdstrm: nsys was stopped before it made a report of this recording; QdstrmImporter" in stopped.err
    went_on = cli("translate", tmp_path, "-o", tmp_path / "trace", "--keep-going")
    assert went_on.code == 0
    assert "rank1.qdstrm" in went_on.out + went_on.err
    assert "rank0.qdstrm" not in went_on.out + went_on.err


@pytest.mark.nsys
def test_real_nsys_gives_one_trace_in_both_forms(tmp_path: Path) -> None:
    nsys = find_nsys(None)
    if nsys is None:
        pytest.skip("no nsys: set NSYS_HOME")
    report = tmp_path / "program.nsys-rep"
    profile = ["profile", "--trace=osrt", "--sample=none", "--cpuctxsw=none", f"--output={report.with_suffix('')}"]
    program = [sys.executable, "-c", "import time; time.sleep(0.01)"]
    subprocess.run([nsys, *profile, *program], check=True, capture_output=True, timeout=120)
    for kind, export in (("parquetdir", tmp_path / "program_pqtdir"), ("sqlite", tmp_path / "program.sqlite")):
        subprocess.run(
            [nsys, "export", f"--type={kind}", f"--output={export}", report], check=True, capture_output=True
        )
    options = nsys2prv.RunOptions(every_thread=True)
    for name, given in (("parquet", "program_pqtdir"), ("sqlite", "program.sqlite")):
        nsys2prv.translate(tmp_path / given, tmp_path / name, options=options)
    assert records(tmp_path / "parquet.prv") == records(tmp_path / "sqlite.prv")
    assert nsys2prv.read_prv(tmp_path / "sqlite.prv").intervals(70000003).height > 0
