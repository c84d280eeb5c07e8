"""Traces with the event type numbers of the public nsys2prv: the same events, and its cfgs and ours show them."""

from __future__ import annotations

from pathlib import Path

import paramedir
import polars as pl
import pytest
from runs import SAMPLES, reports_of

import nsys2prv
from nsys2prv.paraver.cfg import CFGS
from nsys2prv.paraver.cfg.text import Cfg, Events, Histogram, SingleWindow, fixed

Pair = tuple[nsys2prv.Trace, nsys2prv.Trace]


def traces(reports: list[Path], folder: Path) -> Pair:
    """A run's trace with our numbers, and with those of the public tool."""
    options = nsys2prv.RunOptions(every_thread=True)
    for name in ("ours", "public"):
        writing = nsys2prv.TraceOutput(public_types=name == "public")
        execution = nsys2prv.Execution(quiet=True)
        nsys2prv.translate(reports, folder / name, options=options, writing=writing, execution=execution)
    return nsys2prv.read_prv(folder / "ours.prv"), nsys2prv.read_prv(folder / "public.prv")


def named(trace: nsys2prv.Trace, *numbers: int) -> pl.DataFrame:
    """Intervals of some event types, by name of the call."""
    found = pl.concat(trace.intervals(number) for number in numbers)
    return found.select("task", "thread", "start", "end", "label").sort(pl.all())


def test_openmp_regions_have_its_numbers(tmp_path: Path) -> None:
    ours, public = traces(reports_of("openmp"), tmp_path)
    for own, other, events in ((70000006, 60000001, 40), (70000241, 60000002, 480), (70000243, 60000003, 480)):
        assert named(public, other).equals(named(ours, own))
        assert named(public, other).height == events
        assert own not in public.types


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where traces of a run with OS and pthread calls and NCCL payloads are."""
    return tmp_path_factory.mktemp("gpt-ddp")


@pytest.fixture(scope="module")
def pair(folder: Path) -> Pair:
    return traces([SAMPLES / "gpt-ddp/gpt-ddp.0.1.sqlite"], folder)


def test_pthread_calls_are_no_os_calls(pair: Pair) -> None:
    ours, public = pair
    calls, pthread = named(public, 66400000), named(public, 61000000)
    # Of 4,651 rows in OSRT_API 28 name a function of pthread.
    assert (calls.height, pthread.height) == (4623, 28)
    assert pthread["label"].str.starts_with("pthread_").all()
    assert pl.concat([calls, pthread]).sort(pl.all()).equals(named(ours, 70000003))


def test_pthread_calls_have_its_values(pair: Pair) -> None:
    values = {label: value for value, label in pair[1].values[61000000].items()}
    assert {"pthread_mutex_lock": 8, "pthread_cond_timedwait": 14}.items() <= values.items()


def test_payloads_have_its_numbers(pair: Pair) -> None:
    ours, public = pair
    for own, other in ((9504, 9503), (9505, 9504), (9503, 9506)):
        assert public.types[other] == ours.types[own]
        assert named(public, other).equals(named(ours, own))


def test_the_trace_says_so(pair: Pair, folder: Path) -> None:
    said = {name: "--public-types" in (folder / f"{name}.prv").read_text() for name in ("ours", "public")}
    assert said == {"ours": False, "public": True}


@pytest.mark.paraver
def test_our_cfgs_show_it_as_the_other(pair: Pair, folder: Path) -> None:
    """They find types by label. Pthread calls are apart from the calls that `osrt` shows."""
    shown = {}
    for name in ("ours", "public"):
        made = paramedir.run(folder / f"{name}.prv", CFGS, folder / f"cfgs of {name}")
        assert not made.complaints
        shown[name] = {file.name: file.read_text() for file in made.folder.glob("*.csv")}
    differ = {file for file, text in shown["ours"].items() if text != shown["public"].get(file)}
    assert differ == {"basics_osrt.csv"}
    assert len(shown["ours"]) > 80


@pytest.mark.paraver
def test_cfgs_made_for_its_traces_show_ours(pair: Pair, folder: Path) -> None:
    """With its labels, which ours has not, Paraver goes by number."""
    kinds = {"OS Runtime Calls": 66400000, "Pthreads Calls": 61000000, "Reduction operation": 9503, "Root": 9504}
    cfgs = []
    for label, number in kinds.items():
        nested = {"compose_thread": "Nesting level", "topcompose1": "Sign"}
        running = SingleWindow(label, Events((number,), (label,)), compose=nested)
        counted = Histogram(label, running, "# Bursts", fixed(1, 1))
        cfgs.append(Cfg("public", f"{number}", label, "", "", histograms=(counted,)))
    made = paramedir.run_parts(folder / "public.prv", cfgs, folder / "its cfgs")
    assert not made.complaints
    bursts = {label: sum(made.table(f"public/{number}").values()) for label, number in kinds.items()}
    # A reduction or a root for each kernel and call that has one.
    assert bursts == {"OS Runtime Calls": 4623, "Pthreads Calls": 28, "Reduction operation": 120, "Root": 8}
