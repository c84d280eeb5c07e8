"""A batch translates what is new, changed or failed; killed at any moment it is completed by the next one."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import construct
import pytest
from fake_nsys import fake_nsys
from fake_nsys import reports as empty_reports
from runs import COMMAND, SAMPLES, left_in

import nsys2prv
from nsys2prv.commands.batch import batch as batches
from nsys2prv.commands.batch import jobs as batch_jobs
from nsys2prv.commands.batch.batch import BatchResult, batch
from nsys2prv.commands.batch.jobs import Settings
from nsys2prv.errors import LostWorkerError, OutputError, UsageError
from nsys2prv.model.limits import DEFAULT_LIMITS, Limits
from nsys2prv.pipeline.workers import cluster
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.workers.partial_files import held, sweep
from nsys2prv.pipeline.workers.pool import pool
from nsys2prv.pipeline.write.trace_output import TraceOutput
from nsys2prv.run.run_options import RunOptions

KILLING = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "kill_batch.py"))
ONLY = nsys2prv.Selection(("cuda_api", "kernels", "mpi", "nvtx"))
FEW = Settings(selection=ONLY)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three small runs."""
    halo = sorted((SAMPLES / "mpi-halo").glob("*.sqlite"))
    for name, reports in {"one": halo[:2], "two": halo[2:], "deep/three": halo[:1]}.items():
        folder = tmp_path / "root" / name
        folder.mkdir(parents=True)
        for report in reports:
            shutil.copy(report, folder)
    return tmp_path / "root"


def did(found: BatchResult) -> dict[str, tuple[str, str]]:
    return {run.name: (run.did, run.why) for run in found.runs}


def traces(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*.*") if f.suffix in (".prv", ".pcf")}


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_run_becomes_the_trace_that_translate_writes(jobs: int, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = batch(root, out, settings=Settings(selection=ONLY, execution=Execution(jobs=jobs)))
    assert did(found) == dict.fromkeys(("deep/three", "one", "two"), ("done", "new"))
    for name in ("one", "two", "deep/three"):
        nsys2prv.translate(root / name, tmp_path / "alone", selection=ONLY, force=True)
        assert (out / f"{name}.prv").read_bytes() == (tmp_path / "alone.prv").read_bytes()
    assert {f.name for f in out.iterdir() if f.suffix not in (".prv", ".pcf", ".row")} == {
        "deep", "one.align.json", "two.align.json", "nsys2prv-batch.json"
    }  # fmt: skip


def test_large_runs_get_all_processes(root: Path, tmp_path: Path) -> None:
    batch(root, tmp_path / "small", settings=Settings(execution=Execution(jobs=2)))
    execution = Execution(jobs=2, limits=Limits(process_bytes=1))
    batch(root, tmp_path / "large", settings=Settings(execution=execution))
    assert traces(tmp_path / "large") == traces(tmp_path / "small")


def test_as_many_small_runs_are_under_way_as_memory_holds(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(batch_jobs, "pool", lambda count: asked.append(count) or pool(1))
    memory = DEFAULT_LIMITS.parent_memory + 2 * DEFAULT_LIMITS.worker_memory
    batch(root, tmp_path / "out", settings=Settings(selection=ONLY, execution=Execution(jobs=3, memory=memory)))
    assert asked == [2]
    with pytest.raises(UsageError, match=r"--memory 1\.0 MB is too little"):
        batch(root, tmp_path / "out", settings=Settings(execution=Execution(memory=1_000_000)))


def test_the_manifest_tells_what_a_trace_was_made_of(root: Path, tmp_path: Path) -> None:
    batch(root, tmp_path / "out", settings=FEW)
    record = json.loads((tmp_path / "out" / "nsys2prv-batch.json").read_text())["runs"]["one"]
    report = root / "one" / "mpi-halo.0.sqlite"
    named = {i["path"]: (i["size"], i["mtime_ns"]) for i in record["inputs"]}
    assert named.keys() == {"one/mpi-halo.0.sqlite", "one/mpi-halo.1.sqlite"}
    assert named["one/mpi-halo.0.sqlite"] == (report.stat().st_size, report.stat().st_mtime_ns)
    assert record["options"]["selection"]["families"] == list(ONLY.families)
    assert (record["outcome"], record["version"]) == ("done", nsys2prv.__version__)
    assert record["outputs"]["one.prv"] == (tmp_path / "out" / "one.prv").stat().st_size
    assert record["figures"]["reports"] == 2


def new_report(root: Path, out: Path) -> None:
    shutil.copy(SAMPLES / "mpi-halo" / "mpi-halo.3.sqlite", root / "one")


def report_gone(root: Path, out: Path) -> None:
    (root / "one" / "mpi-halo.1.sqlite").unlink()


def touched(root: Path, out: Path) -> None:
    os.utime(root / "one" / "mpi-halo.1.sqlite", ns=(1, 1))


def other_header(root: Path, out: Path) -> None:
    report = root / "one" / "mpi-halo.1.sqlite"
    before = report.stat()
    with report.open("r+b") as file:
        file.seek(60)  # the application's own number, which SQLite does not use
        file.write(b"\0\0\0\7")
    os.utime(report, ns=(before.st_atime_ns, before.st_mtime_ns))


def trace_gone(root: Path, out: Path) -> None:
    (out / "one.pcf").unlink()


CHANGES = {
    new_report: "other reports",
    report_gone: "other reports",
    touched: "other reports",
    other_header: "other reports",
    trace_gone: "trace missing",
}


@pytest.mark.parametrize("change", CHANGES)
def test_again_only_what_changed_is_translated(change: Any, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    batch(root, out, settings=FEW)
    kept = {"deep/three": ("kept", "up to date"), "two": ("kept", "up to date")}
    assert did(batch(root, out, settings=FEW)) == {**kept, "one": ("kept", "up to date")}
    change(root, out)
    to_do = {**kept, "one": ("to do", CHANGES[change])}
    assert did(batch(root, out, settings=FEW, dry_run=True)) == to_do
    assert did(batch(root, out, settings=FEW)) == {**kept, "one": ("done", CHANGES[change])}
    assert did(batch(root, out, settings=FEW)) == {**kept, "one": ("kept", "up to date")}
    nsys2prv.translate(root / "one", tmp_path / "alone", selection=ONLY)
    assert (out / "one.prv").read_bytes() == (tmp_path / "alone.prv").read_bytes()


def test_a_dry_run_has_the_record_of_what_is_up_to_date(root: Path, tmp_path: Path) -> None:
    done = batch(root, tmp_path / "out", settings=FEW)
    planned = batch(root, tmp_path / "out", settings=FEW, dry_run=True)
    assert [run.record for run in planned.runs] == [run.record for run in done.runs]


@pytest.mark.parametrize("types", ["sqlite, hdf", "sqlite, parquetdir"])
def test_what_a_batch_exports_is_no_change(types: str, tmp_path: Path) -> None:
    """Neither a new export nor one in the place of an old one; a report that is recorded again is."""
    empty_reports(tmp_path / "root" / "run", "rank0", "rank1")
    stale = tmp_path / "root" / "run" / "rank0.sqlite"
    stale.touch()
    os.utime(stale, (0, 0))
    nsys = fake_nsys(tmp_path / "nsys", types=types)
    settings = Settings(execution=Execution(nsys=nsys))

    def again() -> tuple[str, str]:
        return did(batch(tmp_path / "root", tmp_path / "out", settings=settings))["run"]

    assert [again() for _ in range(3)] == [("done", "new"), ("kept", "up to date"), ("kept", "up to date")]
    changed = tmp_path / "root" / "run" / "rank1.nsys-rep"
    changed.write_bytes(b"again")
    os.utime(changed, (2**32, 2**32))
    assert again() == ("done", "other reports")


def test_what_no_nsys_could_export_is_tried_again_by_another(tmp_path: Path) -> None:
    """With --keep-going a run is done although reports are left out; those that nsys fails on it fails on again."""
    (run := tmp_path / "root" / "run").mkdir(parents=True)
    shutil.copy(SAMPLES / "mpi-halo" / "mpi-halo.0.sqlite", run)
    empty_reports(run, "rank1", "rank2-bad")
    nowhere, nsys = tmp_path / "nowhere", fake_nsys(tmp_path / "nsys")

    def again(nsys: Path, **how: Any) -> tuple[tuple[str, str], int]:
        # What is exported here is a report of another run.
        settings = Settings(options=RunOptions(one_run=True), execution=Execution(keep_going=True, nsys=nsys))
        found = batch(tmp_path / "root", tmp_path / "out", settings=settings, **how)
        return did(found)["run"], found.runs[0].record.figures.get("reports", 0)

    assert again(nowhere) == (("done", "new"), 1)
    assert again(nowhere) == (("kept", "up to date"), 1)
    assert again(nsys, dry_run=True) == (("to do", "another nsys"), 0)
    assert again(nsys) == (("done", "another nsys"), 2)
    assert again(nsys) == (("kept", "up to date"), 2)
    assert again(nowhere) == (("kept", "up to date"), 2)


def test_other_options_are_a_reason_and_where_it_runs_is_none(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def reasons(settings: Settings, force: bool = False) -> set[str]:
        return {why for _, why in did(batch(root, out, settings=settings, force=force)).values()}

    assert reasons(FEW) == {"new"}
    elsewhere = FEW._replace(execution=Execution(jobs=2), writing=TraceOutput(max_size=10**9))
    assert reasons(elsewhere) == {"up to date"}
    compressed = FEW._replace(writing=TraceOutput(compress=True))
    assert reasons(compressed) == {"other options"}
    assert [f.name for f in out.glob("*.prv*")] == ["one.prv.gz", "two.prv.gz"], "the traces of before are gone"
    assert reasons(compressed, force=True) == {"forced"}


@pytest.mark.parametrize("other", [{"window": "trace"}, {"public_types": True}, {"redact": True}])
def test_whatever_changes_the_bytes_of_a_trace_is_a_reason(other: dict[str, Any], root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / "deep")
    shutil.rmtree(root / "two")
    batch(root, tmp_path, settings=FEW)
    changed = FEW._replace(writing=TraceOutput(**other))
    assert did(batch(root, tmp_path, settings=changed)) == {"one": ("done", "other options")}
    assert did(batch(root, tmp_path, settings=changed)) == {"one": ("kept", "up to date")}


def test_rules_of_classes_count_by_what_is_in_the_file(root: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    text = "[[rule]]\nclass = '{}'\nshort = '.'\n"
    rules.write_text(text.format("mine"))
    batch(root, tmp_path / "out", settings=Settings(nsys2prv.Selection(ONLY.families, classes=rules)))
    (tmp_path / "moved").mkdir()
    elsewhere = rules.replace(tmp_path / "moved" / rules.name)
    moved = Settings(nsys2prv.Selection(ONLY.families, classes=elsewhere))
    assert {why for _, why in did(batch(root, tmp_path / "out", settings=moved)).values()} == {"up to date"}
    elsewhere.write_text(text.format("other"))
    assert {why for _, why in did(batch(root, tmp_path / "out", dry_run=True, settings=moved)).values()} == {
        "other options"
    }


def test_rules_of_classes_that_are_not_there_are_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nope\.toml: cannot be read \(No such file or directory\)"):
        batch(
            root, tmp_path / "traces", settings=Settings(selection=nsys2prv.Selection(classes=tmp_path / "nope.toml"))
        )


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_bad_run_does_not_stop_the_others_and_is_tried_again(jobs: int, root: Path, tmp_path: Path) -> None:
    good = root / "one" / "mpi-halo.0.sqlite"
    construct.truncated(good, tmp_path / "bad")
    whole = good.read_bytes()
    shutil.copy(tmp_path / "bad" / good.name, good)
    out = tmp_path / "out"
    found = batch(root, out, settings=Settings(execution=Execution(jobs=jobs)))
    assert did(found) == {"deep/three": ("done", "new"), "one": ("failed", "new"), "two": ("done", "new")}
    (failed,) = (run for run in found.runs if run.did == "failed")
    assert "truncated" in (failed.record.error or "")
    assert not list(out.glob("one.*"))
    assert did(batch(root, out, settings=Settings(execution=Execution(jobs=jobs))))["one"] == (
        "failed",
        "failed before",
    )
    good.write_bytes(whole)
    assert did(batch(root, out, settings=Settings(execution=Execution(jobs=jobs))))["one"] == (
        "done",
        "failed before",
    )


def test_a_trace_of_the_users_own_is_not_written_over(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "one.row").write_text("mine")
    for _ in range(2):
        assert did(batch(root, out))["one"][0] == "failed"
        assert (out / "one.row").read_text() == "mine"
    assert did(batch(root, out, force=True))["one"][0] == "done"


def trips_over_run_one(job: Any, jobs: int | None = 1) -> Any:
    """As where a run brings an error of ours to light."""
    with pytest.MonkeyPatch.context() as patched:
        if job.run.name == "one":
            patched.setattr(batch_jobs, "translate", lambda *_, **__: 1 // 0)
        return TRANSLATED(job, jobs)


def killed_by_run_one(job: Any, jobs: int | None = 1) -> Any:
    """As where the process of a certain run ends at once: for lack of memory, or by a library of its own accord."""
    if job.run.name == "one":
        os.kill(os.getpid(), signal.SIGKILL)
    return TRANSLATED(job, jobs)


TRANSLATED = batch_jobs._translated


@pytest.mark.parametrize(
    "small", [pytest.param(DEFAULT_LIMITS.process_bytes, id="side by side"), pytest.param(1, id="one after the other")]
)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("accident", "told"),
    [
        (trips_over_run_one, "ZeroDivisionError: integer division or modulo by zero; translate it alone"),
        (killed_by_run_one, "its process was killed, perhaps for lack of memory; translate it alone"),
    ],
)
def test_an_accident_is_one_bad_run(
    accident: Any, told: str, jobs: int, small: int, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_jobs, "_translated", accident)
    execution = Execution(jobs=jobs, limits=Limits(process_bytes=small))
    found = batch(root, tmp_path / "out", settings=Settings(execution=execution))
    assert {name: how for name, (how, _) in did(found).items()} == {
        "deep/three": "done",
        "one": "failed",
        "two": "done",
    }
    assert (found.runs[1].record.error or "").startswith(told)


def test_after_a_loss_only_what_was_under_way_is_tried_alone(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("p", "q", "r"):
        shutil.copytree(root / "two", root / name)
    shutil.rmtree(root / "deep")
    shutil.rmtree(root / "two")
    asked: list[int] = []
    monkeypatch.setattr(batch_jobs, "_translated", killed_by_run_one)
    monkeypatch.setattr(batch_jobs, "pool", lambda count: asked.append(count) or pool(count))
    found = batch(root, tmp_path / "out", settings=Settings(execution=Execution(jobs=2)))
    assert [run.did for run in found.runs] == ["failed", "done", "done", "done"]
    # Two were under way: the first is lost again, alone, and the second is not; the others go on side by side.
    assert asked == [2, 1, 1, 2]


def test_after_a_loss_the_runs_stay_on_dask(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("p", "q", "r"):
        shutil.copytree(root / "two", root / name)
    shutil.rmtree(root / "deep")
    mapped: list[list[str]] = []

    def some_workers(jobs: int | None, dask: str | None) -> Any:
        def map_runs(function: Any, jobs: tuple[Any, ...]) -> Iterator[Any]:
            mapped.append([job.run.name for job in jobs])
            for job in jobs:
                if job.run.name == "one":
                    raise LostWorkerError("4 Dask workers were killed")
                yield function(job)

        return nullcontext(map_runs)

    monkeypatch.setattr(batch_jobs, "worker_map", some_workers)
    monkeypatch.setattr(cluster, "scheduler", lambda dask, jobs: nullcontext("tcp://there:1"))
    found = batch(root, tmp_path / "out", settings=Settings(execution=Execution(jobs=2, dask="slurm")))
    assert [run.did for run in found.runs] == ["failed", *["done"] * 4]
    assert mapped == [["one", "p", "q", "r", "two"], ["p", "q", "r", "two"]]


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 1, "runs": {"a": {}}}', '{"format": 99}'])
def test_a_foreign_manifest_is_refused(text: str, root: Path, tmp_path: Path) -> None:
    (tmp_path / "nsys2prv-batch.json").write_text(text)
    with pytest.raises(OutputError, match="move it away"):
        batch(root, tmp_path)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_trace_that_no_batch_made_is_not_written_over(dry_run: bool, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "one.prv").write_text("mine")
    found = batch(root, out, settings=FEW, dry_run=dry_run)
    others = "to do" if dry_run else "done"
    assert did(found) == {"one": ("failed", "new"), "two": (others, "new"), "deep/three": (others, "new")}
    assert [r.record.error for r in found.runs if r.did == "failed"] == [
        f"{out / 'one.prv'}: the file exists already; use --force to write over it"
    ]
    assert (out / "one.prv").read_text() == "mine"


def test_two_batches_do_not_write_into_one_folder(root: Path, tmp_path: Path) -> None:
    with batches._only_one(tmp_path), pytest.raises(OutputError, match="another batch"):
        batch(root, tmp_path)


@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_at_any_moment_the_next_batch_completes_it(jobs: int, root: Path, tmp_path: Path) -> None:
    """More of it, and under `ulimit -n 256`: `python benchmarks/kill_batch.py`."""
    for moment, wrong in KILLING["kill_and_complete"](root, tmp_path, 3, jobs, ("--jobs", str(jobs)), 256):
        assert wrong == [], f"killed after {moment} s"


def test_only_what_nobody_uses_is_swept(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in (f".a.{gone.pid}.partial", f".b.{os.getppid()}.partial", f".c.{gone.pid}.partial", ".d.partial"):
        (tmp_path / name).mkdir()
    (tmp_path / f".e.{gone.pid}.partial.sqlite").touch()
    (tmp_path / f".h.{gone.pid}-2.partial").touch()
    (tmp_path / f".g_pqtdir.{gone.pid}.partial_pqtdir").mkdir()
    (tmp_path / "f.1.partial").touch()
    with held(tmp_path / f".c.{gone.pid}.partial"):
        assert {p.name for p in sweep(tmp_path)} == {
            f".a.{gone.pid}.partial",
            f".e.{gone.pid}.partial.sqlite",
            f".g_pqtdir.{gone.pid}.partial_pqtdir",
            f".h.{gone.pid}-2.partial",
        }
    assert {p.name for p in sweep(tmp_path)} == {f".c.{gone.pid}.partial"}, "its lock is free now"
    assert len(left_in(tmp_path)) == 3


def test_many_reports_with_few_open_files(tmp_path: Path) -> None:
    source = SAMPLES / "single" / "nvtx-attributes.sqlite"
    construct.on_many_hosts(source, tmp_path / "many", 150)
    command = [
        *COMMAND,
        "translate",
        str(tmp_path / "many"),
        "-o",
        str(tmp_path / "t"),
        "--only",
        "nvtx",
        "--jobs",
        "2",
    ]
    subprocess.run(command, check=True, preexec_fn=KILLING["limited"](128), capture_output=True)
    nsys2prv.translate(source, tmp_path / "alone", selection=nsys2prv.Selection(("nvtx",)))
    drawn = nsys2prv.read_prv(tmp_path / "t.prv").intervals(9600).group_by("task").len()
    expected = nsys2prv.read_prv(tmp_path / "alone.prv").intervals(9600).height
    assert expected
    assert drawn["len"].to_list() == [expected] * 150
