"""A cut trace is what translating that span gives, apart from rows that it leaves empty and the window of interest."""

from __future__ import annotations

import resource
import shutil
import signal
from collections.abc import Callable
from errno import EACCES
from pathlib import Path

import drawn
import paramedir
import polars as pl
import pytest
from exports import MAIN, export
from polars.testing import assert_frame_equal
from runs import Command, Runs, in_process, left_in, parameters

import nsys2prv
from nsys2prv.paraver import cut as paraver_cut
from nsys2prv.paraver.cfg import CFGS

SPANS = {"gpt-ddp": (570_000_033, 600_000_000), "mpi-halo": (1_810_000_000, 1_950_000_000)}
CFG = "basics/kernels_full_name.cfg"


def both(run: str, translations: Runs, folder: Path) -> tuple[nsys2prv.Trace, nsys2prv.Trace]:
    """The part of the trace, and the trace of the part."""
    whole = translations.whole(run)
    nsys2prv.cut(whole.prv, folder / "cut", SPANS[run])
    options = nsys2prv.RunOptions(align="utc", every_thread=True)
    nsys2prv.translate(
        whole.reports,
        folder / "part",
        selection=nsys2prv.Selection(time=SPANS[run]),
        options=options,
        execution=nsys2prv.Execution(jobs=1),
    )
    return nsys2prv.read_prv(folder / "cut.prv"), nsys2prv.read_prv(folder / "part.prv")


@pytest.mark.parametrize("run", parameters(*SPANS))
def test_it_holds_what_translating_the_span_gives(
    run: str, translations: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Many blocks.
    monkeypatch.setattr(paraver_cut, "BLOCK_BYTES", 50_000)
    got, want = both(run, translations, tmp_path)
    assert_frame_equal(drawn.intervals(got).sort(pl.all()), drawn.intervals(want).sort(pl.all()))
    assert sorted(got.messages.select("sent", "received", "size", "tag").rows()) == sorted(
        want.messages.select("sent", "received", "size", "tag").rows()
    )
    assert got.header.duration == SPANS[run][1] - SPANS[run][0]
    assert got.names == translations.whole(run).trace.names
    # The last sample of all is written again by a translation, although its value holds.
    changed = [
        drawn.metrics(t)
        .sort("time")
        .filter(pl.col("value").ne_missing(pl.col("value").shift().over("host", "place", "metric")))
        for t in (got, want)
    ]
    assert_frame_equal(*(c.sort(pl.all()) for c in changed))


@pytest.mark.parametrize("time", [(5, 100), (40, None), (None, 30)])
def test_it_lasts_as_long_as_the_trace_of_the_span(time: tuple[int | None, int | None], tmp_path: Path) -> None:
    """However much of the span nothing was done in."""
    calls = ("start end globalTid nameId", [(0, 20, MAIN, "f"), (50, 60, MAIN, "f"), (190, 200, MAIN, "f")])
    report = export(tmp_path / "r.sqlite", CUDNN_EVENTS=calls)
    options = nsys2prv.RunOptions(every_thread=True)
    nsys2prv.translate(report, tmp_path / "whole", options=options, execution=nsys2prv.Execution(jobs=1))
    nsys2prv.cut(tmp_path / "whole.prv", tmp_path / "cut", time)
    part = nsys2prv.translate(
        report,
        tmp_path / "part",
        selection=nsys2prv.Selection(time=time),
        options=options,
        execution=nsys2prv.Execution(jobs=1),
    )
    assert part.duration_ns == (200 if time[1] is None else time[1]) - (time[0] or 0)
    assert nsys2prv.read_prv(tmp_path / "cut.prv").header.duration == part.duration_ns


def test_its_comments_say_what_was_cut(translations: Runs, cli: Command, output: Path) -> None:
    whole = translations.default("mpi-halo")
    said = cli("cut", whole.prv, "-o", output, "--time", "1810ms:1.95s")
    assert said.code == 0
    assert "1810.000 to 1950.000 ms of mpi-halo.default.prv" in said.out
    assert "time 0 of it is 1810.000 ms of mpi-halo.default.prv" in said.out
    lines = [line for line in output.with_suffix(".prv").read_text().splitlines()[1:] if line.startswith("#")]
    before = [line for line in whole.prv.read_text().splitlines()[1:] if line.startswith("#")]
    assert lines[: len(before)] == before
    assert lines[len(before) + 1] == "# time 1810000000 to 1950000000 ns of it; 0 here is 1810000000 there"
    assert left_in(output.parent) == ["trace.pcf", "trace.prv", "trace.row"]


def test_a_part_has_no_labels_but_its_own(cli: Command, translations: Runs, saxpy: Path, output: Path) -> None:
    """A trace that was moved without them, cut over another run's."""
    alone = shutil.copy(translations.default("mpi-halo").prv, output.with_name("alone.prv"))
    nsys2prv.translate(saxpy, output)
    refused = cli("cut", alone, "-o", output, "--time", "90s:", "--force")
    assert (refused.code, left_in(output.parent)) == (
        2,
        ["alone.prv", "trace.align.json", "trace.pcf", "trace.prv", "trace.row"],
    )
    said = cli("cut", alone, "-o", output, "--time", "1.9s:", "--force")
    assert left_in(output.parent) == ["alone.prv", "trace.prv"]
    assert said.out.startswith(f"Wrote {output}.prv: ")
    assert f"warning: no .pcf or .row beside {alone}: the part lacks these labels, too" in said.out


def test_a_part_beside_its_trace_leaves_what_is_of_both(saxpy: Path, output: Path) -> None:
    nsys2prv.translate(saxpy, output)
    nsys2prv.cut(output.with_suffix(".prv"), output, (0, None), compress=True, force=True)
    assert left_in(output.parent) == ["trace.align.json", "trace.pcf", "trace.prv", "trace.prv.gz", "trace.row"]


def test_compressed_traces_are_cut_alike(translations: Runs, tmp_path: Path, saxpy: Path) -> None:
    nsys2prv.translate(saxpy, tmp_path / "packed", writing=nsys2prv.TraceOutput(compress=True))
    end = translations.default("saxpy").result.duration_ns // 2
    nsys2prv.cut(translations.default("saxpy").prv, tmp_path / "plain", (None, end))
    nsys2prv.cut(tmp_path / "packed.prv.gz", tmp_path / "cut", (None, end), compress=True)
    events = nsys2prv.read_prv(tmp_path / "cut.prv.gz").events
    assert events.height
    assert events.equals(nsys2prv.read_prv(tmp_path / "plain.prv").events)


def test_what_cannot_be_cut_is_refused(cli: Command, translations: Runs, tmp_path: Path, output: Path) -> None:
    prv = translations.default("saxpy").prv
    bad = tmp_path / "bad.prv.gz"
    bad.write_bytes(b"no gzip")
    for arguments, code, cause in (
        ((prv, "--time", "90s:"), 2, "the chosen time, 90000.0 ms to the end, holds nothing; the trace ends after "),
        (
            (prv, "--time", "2s:1s"),
            2,
            "the chosen time, 2000.0 ms to 1000.0 ms, ends no later than it begins; give FROM:TO",
        ),
        ((prv, "--time", "5"), 2, "give FROM:TO"),
        ((tmp_path / "none.prv", "--time", "0:1"), 1, "there is no such file; give a .prv"),
        ((prv.with_suffix(""), "--time", "0:1"), 1, f"no such file, did you mean {prv.name!r}?"),
        ((bad, "--time", "0:1"), 1, "damaged"),
        ((prv.with_suffix(".pcf"), "--time", "0:1"), 1, "first line"),
    ):
        said = cli("cut", *arguments, "-o", output)
        assert (said.code, cause in said.err) == (code, True), said.err
        assert left_in(output.parent) == []
    assert "in place" in cli("cut", prv, "-o", prv, "--time", "0:1s", "--force").err


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "letters for a time": lambda text: text.replace(b"\n2:1:1:1:1:", b"\n2:1:1:1:1:x", 1),
    "fields missing": lambda text: text[: len(text) // 2] + b"\n2:1\n" + text[len(text) // 2 :],
    "no text": lambda text: text[: len(text) // 2] + b"\xff\xfe\n" + text[len(text) // 2 :],
    "cut off at the end of a line": lambda text: text[: text.rindex(b"\n", 0, text.index(b"\n#", 1)) + 1],
    "value missing": lambda text: text.replace(b":70000000:1\n", b":70000000\n", 1),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_trace_is_refused(how: str, cli: Command, translations: Runs, tmp_path: Path, output: Path) -> None:
    bad = tmp_path / "bad.prv"
    bad.write_bytes(DAMAGE[how](translations.default("saxpy").prv.read_bytes()))
    said = cli("cut", bad, "-o", output, "--time", "0:1s")
    assert (said.code, said.err.count("\n"), str(bad) in said.err) == (1, 1, True), said.err
    assert left_in(output.parent) == []


@pytest.mark.parametrize(
    "damage",
    [lambda whole: whole[: len(whole) // 2], lambda whole: whole[:-8] + bytes(8)],
    ids=["cut off", "another checksum"],
)
def test_a_damaged_compressed_trace_is_refused(
    damage: Callable[[bytes], bytes], cli: Command, saxpy: Path, tmp_path: Path, output: Path
) -> None:
    packed = tmp_path / "packed.prv.gz"
    nsys2prv.translate(saxpy, tmp_path / "packed", writing=nsys2prv.TraceOutput(compress=True))
    packed.write_bytes(damage(packed.read_bytes()))
    said = cli("cut", packed, "-o", output, "--time", "0:1s")
    assert (said.code, f"{packed}: the compressed file is damaged" in said.err, said.err.count("\n")) == (1, True, 1)
    assert left_in(output.parent) == []


@pytest.mark.parametrize("cause", ["not UTF-8 text", "Permission denied"])
@pytest.mark.parametrize("ending", [".pcf", ".row"])
def test_the_file_beside_a_trace_that_cannot_be_read_is_named(
    ending: str, cause: str, saxpy: Path, tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = nsys2prv.translate(saxpy, tmp_path / "made").prv
    assert made is not None
    beside = made.with_suffix(ending)
    beside.write_bytes(b"caf\xe9")
    if cause == "Permission denied":
        read = Path.read_text

        def denied(path: Path, encoding: str) -> str:
            if path == beside:
                raise PermissionError(EACCES, "Permission denied", str(path))
            return read(path, encoding)

        monkeypatch.setattr(Path, "read_text", denied)
    for reads in (lambda: nsys2prv.cut(made, output, (0, None)), lambda: nsys2prv.read_prv(made)):
        with pytest.raises(nsys2prv.Nsys2prvError) as said:
            reads()
        assert str(said.value).startswith(f"{beside}: cannot be read: {cause}; ")
    assert left_in(output.parent) == []


@pytest.mark.parametrize("options", [(), ("--compress",)])
def test_a_full_disk_is_said(options: tuple[str, ...], translations: Runs, output: Path) -> None:
    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))

    prv = translations.default("saxpy").prv
    said = in_process("cut", prv, "-o", output, "--time", "0:1s", *options, preexec_fn=apply)
    assert (said.code, "free space there" in said.err, said.err.count("\n")) == (1, True, 1), said.err
    assert left_in(output.parent) == []


@pytest.mark.paraver
def test_paraver_sees_the_same_kernels(translations: Runs, tmp_path: Path) -> None:
    both("gpt-ddp", translations, tmp_path)
    (cfg,) = [c for c in CFGS if c.path == CFG]
    seen = []
    for name in ("cut", "part"):
        output = paramedir.run(tmp_path / f"{name}.prv", [cfg], tmp_path / f"{name}.figures")
        assert output.complaints == ""
        # Rows and labels may have other numbers.
        seen.append(sorted(span for _, *span, value in output.lines(CFG.removesuffix(".cfg")) if value))
    assert seen[0]
    assert seen[0] == seen[1]
