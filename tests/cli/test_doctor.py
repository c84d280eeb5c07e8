"""`nsys2prv doctor`: each line says what is there, or what to do."""

from __future__ import annotations

import json
import os
import shutil
from collections import namedtuple
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from runs import Command

from nsys2prv.commands import doctor
from nsys2prv.paraver.cfg import CFGS


def script(path: Path, *lines: str) -> Path:
    """A program at a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without nsys and Paraver, and a home of our own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("PARAVER_HOME", "NSYS_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def by_name(nsys: Path | None = None) -> dict[str, doctor.Check]:
    return {c.name: c for c in doctor.doctor(nsys)}


def test_a_bare_machine_is_enough_to_translate(cli: Command) -> None:
    said = cli("doctor")
    assert said.code == 0
    assert {name: c.state for name, c in by_name().items() if name in ("polars", "nsys", "Paraver")} == {
        "polars": "ok",
        "nsys": "missing",
        "Paraver": "missing",
    }
    lines = said.out.splitlines()
    for number, line in enumerate(lines):
        if not line.startswith(("ok ", " ")):
            assert "next: " in lines[number + 1], line


def test_json_has_the_same(cli: Command) -> None:
    checks = json.loads(cli("doctor", "--format", "json").out)["checks"]
    assert [c["name"] for c in checks] == list(by_name())
    lacking = [c for c in checks if c["state"] != "ok"]
    assert lacking
    assert all(c["next_step"] for c in lacking)


@pytest.mark.parametrize(
    ("formats", "exports"), [("sqlite, parquetdir", "exports Parquet"), ("sqlite", "exports SQLite, not Parquet")]
)
def test_nsys_with_version_and_what_it_exports(formats: str, exports: str, bare: Path) -> None:
    lines = f'case "$1" in --version) echo "version 2025.3.1.90-1v0";; *) echo "--type: {formats}";; esac'
    nsys = script(bare / "bin" / "nsys", lines)
    check = by_name()["nsys"]
    assert (check.state, check.found) == ("ok", f"2025.3.1.90-1v0, {nsys}, {exports}")
    assert by_name(nsys.parent)["nsys"] == check


def test_an_nsys_that_does_not_run(bare: Path) -> None:
    other = bare / "bin" / "nsys"
    other.parent.mkdir()
    other.write_bytes(b"\x7fELF of another processor")
    other.chmod(0o755)
    check = by_name()["nsys"]
    assert check.state == "missing"
    assert "does not run (Exec format error)" in check.found


def test_paraver_by_its_home_and_the_cfgs_in_it(cli: Command, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARAVER_HOME", str(bare / "paraver"))
    assert "PARAVER_HOME" in by_name()["Paraver"].found
    program = script(bare / "paraver" / "bin" / "wxparaver")
    assert by_name()["Paraver"].found == str(program)
    assert by_name()["cfgs in Paraver"].state == "missing"
    cli("cfgs", "--install")
    folder = bare / "home" / ".paraver" / "cfgs" / "nsys2prv"
    assert by_name()["cfgs in Paraver"].found == f"{len(CFGS)} in {folder}"
    next(folder.rglob("*.cfg")).write_text("of an older version")
    assert by_name()["cfgs in Paraver"].found == f"those of another version in {folder}"
    cli("cfgs", "--install", "paraver")
    assert by_name()["cfgs in Paraver"].found == f"{len(CFGS)} in {bare / 'paraver' / 'cfgs' / 'nsys2prv'}"


def test_a_needed_package_that_is_too_old_is_the_end(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "requires", lambda name: ["polars>=99.1", 'distributed>=9999; extra == "cluster"'])
    said = cli("doctor")
    assert said.code == 1
    found = {c.name: c for c in doctor.doctor()}
    assert (found["polars"].state, found["polars"].next_step) == ("broken", "pip install 'polars>=99.1'")
    assert found["distributed"].state == "missing"
    assert ".[cluster]" in found["distributed"].next_step


def test_a_package_that_does_not_load_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "requires", lambda name: ["pip>=1", "no-such-package>=1"])
    monkeypatch.setattr(doctor.importlib, "import_module", lambda name: exec("raise ImportError('no\\nAVX2')"))
    found = by_name()
    assert found["pip"].found.endswith("does not load (no AVX2)")
    assert found["no-such-package"].found == "not installed"
    assert {found[n].state for n in ("pip", "no-such-package")} == {"broken"}


def test_little_disk_and_memory_are_low(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10, 10, 2**28))
    monkeypatch.setattr(doctor, "group_left", lambda: 2**28)
    found = by_name()
    assert found["disk, current folder"].state == found["memory"].state == "low"
    assert found["memory"].found == "268.4 MB left to this job or container"
    assert str(os.getcwd()) in found["disk, current folder"].found  # noqa: PTH109


def test_a_package_that_is_missing_names_what_alone_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", nowhere)
    checks = by_name()
    assert checks["dask-jobqueue"].next_step.endswith("needed for --dask slurm")
    assert checks["distributed"].next_step.endswith("needed for --dask")
