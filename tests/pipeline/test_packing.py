"""Compressed output is the same bytes whoever compresses it, in members of a fixed number of lines."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import left_in

import nsys2prv
from nsys2prv.commands import translate as translation
from nsys2prv.errors import Nsys2prvError
from nsys2prv.model.limits import Limits
from nsys2prv.pipeline.encode.bundles import merge_reports
from nsys2prv.pipeline.encode.encoding_input import EncodingInput
from nsys2prv.pipeline.write.files import append, open_body
from nsys2prv.pipeline.write.packing import Divider, Packed, pack

# Lines of one member here.
LINES = 7


def members(data: bytes) -> list[bytes]:
    """What each gzip member holds."""
    found = []
    while data:
        member = zlib.decompressobj(wbits=31)
        found.append(member.decompress(data))
        data = member.unused_data
    return found


def packed(chunks: list[bytes]) -> bytes:
    file = io.BytesIO()
    sink = Packed(file, LINES)
    for chunk in chunks:
        sink.write(chunk)
    sink.end()
    return file.getvalue()


lines = st.lists(st.integers(0, 10**9), max_size=30).map(lambda ns: b"".join(b"%d\n" % n for n in ns))


@given(st.lists(lines, max_size=5))
def test_any_chunks_pack_to_the_same_bytes(chunks: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        body = b"".join(chunks)
        whole = packed([body])
        assert packed(chunks) == whole
        assert [m.count(b"\n") for m in members(whole)] == [7] * (body.count(b"\n") // 7) + (
            [body.count(b"\n") % 7] if body.count(b"\n") % 7 else []
        )
        assert b"".join(members(whole)) == body
        files = []
        for n, chunk in enumerate(chunks):
            files.append(Path(folder, f"chunk{n}"))
            files[-1].write_bytes(chunk)
        divider = Divider(Path(folder), LINES)
        counted = [(file, chunk.count(b"\n")) for file, chunk in zip(files, chunks, strict=True)]
        half = len(counted) // 2
        made = [*divider.members(counted[:half], last=False), *divider.members(counted[half:], last=True)]
        assert b"".join(pack(member).read_bytes() for member in made) == whole


def test_a_member_is_whole_while_another_worker_makes_it_again(tmp_path: Path) -> None:
    (tmp_path / "chunk").write_bytes(b"1\n2\n")
    (member,) = Divider(tmp_path, LINES).members([(tmp_path / "chunk", 2)], last=True)
    once = pack(member).stat().st_ino
    assert pack(member).stat().st_ino != once
    assert left_in(tmp_path) == ["chunk", "member1"]


def test_a_chunk_that_is_gone_is_no_full_disk(tmp_path: Path) -> None:
    (member,) = Divider(tmp_path, LINES).members([(tmp_path / "chunk", 2)], last=True)
    told = r"chunk: this intermediate file cannot be read \(No such file or directory\); run this again"
    with pytest.raises(Nsys2prvError, match=told):
        pack(member)
    with pytest.raises(Nsys2prvError, match=told), open_body(tmp_path / "body") as sink:
        append(tmp_path / "chunk", sink)


def test_points_that_are_gone_are_no_full_disk(
    mpi_halo: list[Path], output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_points(encoding: EncodingInput, *how: Any) -> Any:
        for file in output.parent.rglob("*.arrow"):
            file.unlink()
        return merge_reports(encoding, *how)

    monkeypatch.setattr(translation, "merge_reports", without_points)
    execution = nsys2prv.Execution(jobs=1, limits=Limits(in_memory_bytes=0))
    with pytest.raises(Nsys2prvError, match=r"\.arrow: this intermediate file cannot be read"):
        nsys2prv.translate(mpi_halo, output, execution=execution)
    assert left_in(output.parent) == []


def test_any_workers_and_windows_give_the_same_compressed_bytes(mpi_halo: list[Path], tmp_path: Path) -> None:
    made = {}
    for windows, jobs in ((500, 1), (500, 2), (100_000, 1)):
        limits = Limits(window_points=windows, batch_rows=97, chunk_windows=2)
        output = tmp_path / f"{windows}-{jobs}" / "trace"
        output.parent.mkdir()
        nsys2prv.translate(
            mpi_halo,
            output,
            writing=nsys2prv.TraceOutput(compress=True),
            execution=nsys2prv.Execution(jobs=jobs, limits=limits),
        )
        made[windows, jobs] = output.with_suffix(".prv.gz").read_bytes()
        assert left_in(output.parent) == ["trace.align.json", "trace.pcf", "trace.prv.gz", "trace.row"]
    assert len(set(made.values())) == 1
    nsys2prv.translate(mpi_halo, tmp_path / "plain")
    plain = (tmp_path / "plain.prv").read_bytes()
    packed_once = made[500, 1]
    assert gzip.decompress(packed_once) == plain
    first, *_, comments = members(packed_once)
    assert first == plain.split(b"\n", 1)[0] + b"\n"
    assert comments.startswith(b"# nsys2prv")


def test_members_of_several_chunks_are_compressed_by_workers(mpi_halo: list[Path], tmp_path: Path) -> None:
    """Divided here, compressed there: a member says all that a worker needs to know."""
    limits = Limits(window_points=500, batch_rows=97, member_lines=1_111)
    for jobs in (1, 2):
        nsys2prv.translate(
            mpi_halo,
            tmp_path / f"{jobs}",
            writing=nsys2prv.TraceOutput(compress=True),
            execution=nsys2prv.Execution(jobs=jobs, limits=limits),
        )
    assert (tmp_path / "1.prv.gz").read_bytes() == (tmp_path / "2.prv.gz").read_bytes()
    assert len(members((tmp_path / "2.prv.gz").read_bytes())) > 5
