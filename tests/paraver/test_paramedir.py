"""The real Paraver loads every trace without a word and sees the times that SQL sees."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import oracle
import pytest
from exports import MAIN, export
from paramedir import run as shown_of
from runs import ALL_RUNS, Runs

import nsys2prv
from nsys2prv.paraver.cfg import CFGS

pytestmark = pytest.mark.paraver
CFG = Path(__file__).with_name("kernel_time.cfg")


@pytest.fixture(scope="session")
def paramedir() -> Path:
    """PARAVER_HOME's, or the one on PATH."""
    home = os.environ.get("PARAVER_HOME")
    found = shutil.which("paramedir", path=str(Path(home, "bin"))) if home else shutil.which("paramedir")
    if found is None:
        pytest.skip("no paramedir: set PARAVER_HOME")
    return Path(found)


def times(paramedir: Path, prv: Path, folder: Path) -> list[int]:
    """Time in kernels (ns) of each thread, in the order of the trace. It exits 0 whatever happens: see what it says."""
    out = folder / "out.txt"
    # It writes its preferences there.
    environment = {**os.environ, "HOME": str(folder)}
    command = [paramedir, "-npr", prv, CFG, out]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.stderr == ""
    for word in ("Error", "ERROR", "Warning", "Unkwnown", "None of the events"):
        assert word not in done.stdout
    rows = out.read_text().split("\n\n")[0].splitlines()[1:]
    return [round(sum(float(cell) for cell in row.rstrip("\t").split("\t")[1:])) for row in rows]


@pytest.mark.parametrize("run", ALL_RUNS)
def test_kernel_time_by_thread_is_that_of_sql(run: str, paramedir: Path, translations: Runs, tmp_path: Path) -> None:
    made = translations.default(run)
    truth = made.truth
    kernels = truth.filter(truth["kind"].is_in(["kernel", "nccl kernel"]))
    want: Counter[tuple[int, str]] = Counter()
    for pid, place, start, end in kernels.select("pid", "place", "start", "end").rows():
        want[pid, place] += end - start
    got: Counter[tuple[int, str]] = Counter()
    if kernels.is_empty():
        # Nothing of the kind is in the trace: loading it is what is tested.
        command = [paramedir, made.prv, CFG, tmp_path / "out.txt"]
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
        assert done.stderr == ""
        return
    spent = iter(times(paramedir, made.prv, tmp_path))
    names = iter(made.trace.names["THREAD"])
    for task, (threads, _) in enumerate(made.trace.header.tasks):
        pid = int(made.trace.names["TASK"][task].rpartition(":")[2])
        for _ in range(threads):
            got[pid, next(names)] += next(spent)
    assert +got == +want
    assert want.total() == kernels["end"].sum() - kernels["start"].sum()


def test_a_compressed_trace_is_loaded(
    paramedir: Path, mpi_halo: list[Path], translations: Runs, tmp_path: Path
) -> None:
    nsys2prv.translate(mpi_halo, tmp_path / "t", writing=nsys2prv.TraceOutput(compress=True))
    plain = times(paramedir, translations.default("mpi-halo").prv, tmp_path)
    assert times(paramedir, tmp_path / "t.prv.gz", tmp_path) == plain
    assert sum(plain) == sum(
        oracle.sql(report, f'SELECT sum("end" - start) FROM {oracle.KERNEL}')[0][0] for report in mpi_halo
    )


def test_labels_may_be_the_words_of_label_files(tmp_path: Path) -> None:
    """A keyword is a line of its own, which no label is."""
    names = ["EVENT_TYPE", "VALUES", "STATES", "PRECISION 3", "0    63000000    other", "# comment", "plain"]
    calls = [(2 * n, 2 * n + 1, MAIN, name) for n, name in enumerate(names)]
    report = export(
        tmp_path / "r.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=("start end globalTid nameId", calls),
        ThreadNames=("nameId globalTid", [("LEVEL NODE SIZE 3", MAIN)]),
    )
    made = nsys2prv.translate(
        report, tmp_path / "t", selection=nsys2prv.Selection(("cuda_api",)), execution=nsys2prv.Execution(jobs=1)
    )
    assert made.prv is not None
    (cfg,) = (c for c in CFGS if c.name == "host_cuda_calls")
    shown = shown_of(made.prv, [cfg], tmp_path / "out")
    assert shown.complaints == ""
    table = shown.table(cfg.path.removesuffix(".cfg"))
    assert {row for row, _ in table} == {"LEVEL NODE SIZE 3 100"}
    assert {column for _, column in table} == {*names}
