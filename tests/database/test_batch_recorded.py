"""A batch records its runs."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import construct
import pytest
from runs import SAMPLES, Command

import nsys2prv
from nsys2prv.commands.batch import jobs as batch_jobs
from nsys2prv.commands.batch.batch import BatchResult, batch
from nsys2prv.commands.batch.jobs import Settings
from nsys2prv.errors import OutputError

FEW = Settings(selection=nsys2prv.Selection(("cuda_api", "kernels", "mpi", "nvtx", "projection")))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two small runs."""
    halo = sorted((SAMPLES / "mpi-halo").glob("*.sqlite"))
    for name, reports in {"one": halo[:2], "deep/two": halo[2:]}.items():
        folder = tmp_path / "root" / name
        folder.mkdir(parents=True)
        for report in reports:
            shutil.copy(report, folder)
    return tmp_path / "root"


def did(found: BatchResult) -> dict[str, tuple[str, str]]:
    return {run.name: (run.did, run.why) for run in found.runs}


def test_each_run_is_recorded_with_its_trace(db: str, root: Path, tmp_path: Path) -> None:
    found = batch(root, tmp_path / "out", settings=FEW, db=db)
    assert did(found) == dict.fromkeys(("deep/two", "one"), ("done", "new"))
    runs = {row["name"]: row for row in nsys2prv.history(db).runs.to_dicts()}
    assert {name: row["trace"] for name, row in runs.items()} == {
        name: str(tmp_path / "out" / f"{name}.prv") for name in ("deep/two", "one")
    }
    found_alone = nsys2prv.analyze(root / "one", selection=FEW.selection)
    assert runs["one"]["parallel"] == found_alone.efficiency.parallel
    assert runs["one"]["iterations"] == len(found_alone.window.iterations) > 0
    assert did(batch(root, tmp_path / "out", settings=FEW, db=db)) == dict.fromkeys(runs, ("kept", "up to date"))


def test_runs_that_are_not_recorded_yet_are_translated_again(root: Path, tmp_path: Path) -> None:
    out, db = tmp_path / "out", tmp_path / "runs.db"
    shutil.rmtree(root / "deep")
    batch(root, out, settings=FEW)
    lacking, kept = {"one": ("to do", "not recorded")}, {"one": ("kept", "up to date")}
    assert did(batch(root, out, settings=FEW, db=db, dry_run=True)) == lacking
    assert not db.exists()
    batch(root, out, settings=FEW, db=db)
    assert did(batch(root, out, settings=FEW, db=db, dry_run=True)) == kept
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("DELETE FROM runs WHERE name = 'one'")
    assert did(batch(root, out, settings=FEW, db=db))["one"] == ("done", "not recorded")
    assert did(batch(root, out, settings=FEW)) == kept
    assert did(batch(root, out, settings=FEW, db=tmp_path / "other.db", dry_run=True)) == lacking


def test_a_run_that_fails_is_not_recorded(cli: Command, root: Path, tmp_path: Path) -> None:
    good = root / "one" / "mpi-halo.0.sqlite"
    construct.truncated(good, tmp_path / "bad")
    shutil.copy(tmp_path / "bad" / good.name, good)
    said = cli("batch", root, "-o", tmp_path / "out", "--db", tmp_path / "runs.db", "--only", "mpi,nvtx", "--json")
    assert said.code == 1
    states = {run["run"]: run["figures"].get("recorded") for run in json.loads(said.out)["runs"]}
    assert states == {"deep/two": {"db": str(tmp_path / "runs.db"), "run": 1}, "one": None}
    assert nsys2prv.history(tmp_path / "runs.db").runs["name"].to_list() == ["deep/two"]


def test_figures_are_of_the_window_that_the_traces_mark(root: Path, tmp_path: Path) -> None:
    db, chosen = tmp_path / "runs.db", nsys2prv.Selection(("cuda_api", "kernels", "mpi"))
    batch(root, tmp_path / "out", settings=Settings(chosen, writing=nsys2prv.TraceOutput(window="device")), db=db)
    found = nsys2prv.analyze(root / "one", selection=chosen, question=nsys2prv.Question(window="device"))
    with closing(sqlite3.connect(db)) as connection:
        query = "SELECT window, parallel, options FROM runs WHERE name = 'one'"
        window, parallel, options = connection.execute(query).fetchone()
    assert (window, parallel) == ("device", found.efficiency.parallel)
    assert "--window device" in json.loads(options)


def fails_to_record(job: Any, jobs: int | None = 1) -> Any:
    """As where the disk of the database is full when a run comes to be recorded."""

    def full(*_: object) -> None:
        raise OutputError("runs.db: no room")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batch_jobs, "record_analysis", full)
        return TRANSLATED(job, jobs)


TRANSLATED = batch_jobs._translated


def test_a_run_whose_figures_were_not_written_is_tried_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(root / "deep")
    out, db = tmp_path / "out", tmp_path / "runs.db"
    with monkeypatch.context() as patched:
        patched.setattr(batch_jobs, "_translated", fails_to_record)
        failed = batch(root, out, settings=FEW, db=db)
    assert did(failed) == {"one": ("failed", "new")}
    assert failed.runs[0].record.error == "runs.db: no room"
    assert failed.runs[0].record.outputs == {path.name: path.stat().st_size for path in out.glob("one.*")} != {}
    assert did(batch(root, out, settings=FEW, db=db, dry_run=True)) == {"one": ("to do", "failed before")}
    assert did(batch(root, out, settings=FEW, db=db)) == {"one": ("done", "failed before")}
    assert nsys2prv.history(db).runs["name"].to_list() == ["one"]


def test_a_database_that_cannot_be_used_is_told_before_the_work(cli: Command, root: Path, tmp_path: Path) -> None:
    said = cli("batch", root, "-o", tmp_path / "out", "--db", tmp_path / "none" / "runs.db")
    assert (said.code, "no such folder" in said.err) == (1, True)
    assert not list((tmp_path / "out").iterdir())
