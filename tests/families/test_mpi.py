"""MPI calls, their sizes and numbers, and the ends of their messages."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from runs import reports_of

from nsys2prv.families.columns_read import read_columns
from nsys2prv.families.mpi import mpi
from nsys2prv.families.mpi.mpi_communicators import (
    KNOWN_COMMUNICATOR,
    SELF,
    WINDOWS,
    WORLD,
    is_of_mpi,
    on_communicators,
)
from nsys2prv.families.source import FamilyOptions, Source
from nsys2prv.families.source_tables import SourceTables
from nsys2prv.model import event_types as types
from nsys2prv.model import line_tags
from nsys2prv.model.frames import COLLECTIVE, RECEIVE, SEND, Anchors, Intervals, OperationEnds
from nsys2prv.model.function_numbers import MPI_VALUES
from nsys2prv.model.losses import Loss, Lost
from nsys2prv.report.report import open_report

REQUESTS = sorted((Path(__file__).parents[1] / "data" / "mpi-requests").glob("*.sqlite"))
CPU = pytest.mark.shared


def frames(path: Path) -> tuple[pl.DataFrame, pl.DataFrame, Source]:
    """Calls with `name`, ends with `communicator`, and the source."""
    with open_report(path) as report:
        source = Source(SourceTables(report, read_columns([mpi.FAMILY])))
        calls, ends = [], []
        for frame in mpi.FAMILY.frames(source, None):
            if isinstance(frame, Intervals):
                key = source.slots.keys[frame.data["slot"][0]]
                names = pl.DataFrame({"name": source.labels.texts()[key]}).with_row_index("value", offset=1)
                named = frame.data.join(names.cast({"value": pl.Int64}), on="value", maintain_order="left")
                calls.append(named.with_columns(type=pl.lit(key)))
            elif isinstance(frame, OperationEnds):
                ends.append(frame.data)
        members = source.members.table.select("communicator", "rank", "ranks", member="id")
        return pl.concat(calls, how="diagonal"), pl.concat(ends).join(members, on="member"), source


def test_value_numbers_are_extrae_s() -> None:
    numbers = {name: n for n, name in MPI_VALUES.items()}
    known = {"MPI_Send": 1, "MPI_Recv": 2, "MPI_Isend": 3, "MPI_Irecv": 4, "MPI_Wait": 5, "MPI_Waitall": 6}
    more = {
        "MPI_Bcast": 7,
        "MPI_Barrier": 8,
        "MPI_Allreduce": 10,
        "MPI_Init": 31,
        "MPI_Sendrecv": 41,
        "MPI_Iexscan": 215,
    }
    assert {**known, **more}.items() <= numbers.items()


@pytest.mark.parametrize(
    ("run", "name", "count"),
    [
        ("mpi-halo", "MPI_Waitall", 12),
        ("mpi-halo", "MPI_Irecv", 12),
        pytest.param("mpi-cpu", "MPI_Sendrecv", 6, marks=CPU),
        pytest.param("mpi-cpu", "MPI_Waitall", 6, marks=CPU),
        pytest.param("mpi-cpu", "MPI_Win_fence", 2, marks=CPU),
    ],
)
def test_rows_of_one_call_are_one_interval(run: str, name: str, count: int) -> None:
    for path in reports_of(run):
        calls, _, _ = frames(path)
        assert calls.filter(pl.col("name") == name).height == count


@CPU
def test_calls_are_classed_by_function_and_not_by_table() -> None:
    calls, _, _ = frames(reports_of("mpi-cpu")[0])
    kinds = dict(calls.select("name", "type").unique().rows())
    assert kinds["MPI_File_write_at_all"] == kinds["MPI_File_open"] == "mpi_io"
    assert kinds["MPI_Put"] == kinds["MPI_Win_fence"] == "mpi_rma"
    assert kinds["MPI_Sendrecv"] == kinds["MPI_Waitall"] == "mpi_p2p"
    assert (kinds["MPI_Reduce"], kinds["MPI_Init"]) == ("mpi_collective", "mpi_other")


def test_collectives_have_the_sizes_of_the_report() -> None:
    for path in reports_of("mpi-halo"):
        calls, _, _ = frames(path)
        with closing(sqlite3.connect(path)) as connection:
            sent, received = connection.execute(
                "SELECT sum(size), sum(recvSize) FROM MPI_COLLECTIVES_EVENTS"
            ).fetchone()
        assert calls[types.MPI_SEND_SIZE.key].sum() == sent
        assert calls[types.MPI_RECV_SIZE.key].sum() == received
        collectives = calls.filter(pl.col("type") == "mpi_collective").sort("start")
        assert collectives[types.MPI_SEQUENCE.key].to_list() == list(range(1, 17))


@CPU
def test_only_the_root_is_marked_as_root() -> None:
    for rank, path in enumerate(reports_of("mpi-cpu")):
        calls, _, _ = frames(path)
        reduces = calls.filter(pl.col("name") == "MPI_Reduce")[types.MPI_ROOT.key].to_list()
        assert reduces == [int(rank == 1)] * 6, "MPI_Reduce to rank 1 of the world"
        broadcasts = calls.filter(pl.col("name") == "MPI_Bcast")[types.MPI_ROOT.key].to_list()
        assert broadcasts == [int(rank in (0, 1))] * 6, "MPI_Bcast from rank 0 of the even and of the odd ranks"


@CPU
def test_communicators_have_one_name_on_all_their_ranks() -> None:
    found = [
        set(frames(path)[2].members.table.select("communicator", "rank", "ranks").rows())
        for path in reports_of("mpi-cpu")
    ]
    world = "MPI_COMM_WORLD"
    assert found == [{(world, r, 4), (f"{world}/{r % 2}.0", r // 2, 2)} for r in range(4)]


def test_a_receive_arrives_when_its_wait_ends() -> None:
    for path in reports_of("mpi-halo"):
        calls, ends, _ = frames(path)
        waits = calls.filter(pl.col("name") == "MPI_Waitall")["end"].sort()
        irecvs = ends.filter((pl.col("kind") == RECEIVE) & (pl.col("size") == 524288))
        assert irecvs["time"].sort().to_list() == waits.to_list()


@pytest.mark.parametrize("table", ["MPI_COLLECTIVES_EVENTS", "MPI_P2P_EVENTS"])
def test_a_receive_does_not_arrive_with_who_has_its_handle_later(table: str, tmp_path: Path) -> None:
    """A non-blocking collective, or a receive from anybody: the last handle of a receive is waited for once more."""
    source = reports_of("mpi-halo")[0]
    report = tmp_path / source.name
    report.write_bytes(source.read_bytes())
    named = "JOIN StringIds ON id = textId AND value ="
    last = f"FROM MPI_P2P_EVENTS {named} 'MPI_Irecv' ORDER BY start DESC LIMIT 1"
    wait = f"(SELECT max(textId) FROM MPI_START_WAIT_EVENTS {named} 'MPI_Waitall')"
    columns = 'start, "end", globalTid, textId, requestHandle'
    late = 1 << 40
    with closing(sqlite3.connect(report)) as connection:
        for into, text, start in ((table, "textId", late), ("MPI_START_WAIT_EVENTS", wait, late + 10)):
            connection.execute(
                f"INSERT INTO {into} ({columns}) SELECT {start}, {start + 5}, globalTid, {text}, requestHandle {last}"
            )
        connection.commit()
    before, after = (frames(path)[1].filter(pl.col("kind") != COLLECTIVE) for path in (source, report))
    assert after.equals(before)


@CPU
def test_of_a_sendrecv_one_row_is_the_send_and_the_other_the_receive() -> None:
    for rank, path in enumerate(reports_of("mpi-cpu")):
        _, ends, _ = frames(path)
        both = ends.filter(pl.col("tag") == line_tags.MPI_TAG + 77)
        assert both.filter(pl.col("kind") == SEND)["peer"].to_list() == [(rank + 1) % 4] * 6
        assert both.filter(pl.col("kind") == RECEIVE)["peer"].to_list() == [(rank - 1) % 4] * 6
        assert both.filter(pl.col("kind") == SEND)["sequence"].to_list() == list(range(1, 7))


def test_without_communicators_and_ranks_the_world_is_still_the_world(tmp_path: Path) -> None:
    source = reports_of("mpi-halo")[2]
    bare = tmp_path / source.name
    bare.write_bytes(source.read_bytes())
    with closing(sqlite3.connect(bare)) as connection:
        connection.executescript("DROP TABLE MPI_COMMUNICATORS; DROP TABLE MPI_RANKS;")
    _, ends, _ = frames(bare)
    assert ends["communicator"].unique().to_list() == ["MPI_COMM_WORLD"]
    assert ends["kind"].value_counts().sort("kind")["count"].to_list() == [16, 12, 12]
    assert ends.filter(pl.col("kind") == COLLECTIVE).height == 16


def test_without_communicators_the_ranks_tell_the_root(tmp_path: Path) -> None:
    for source in reports_of("mpi-halo")[:2]:
        bare = tmp_path / source.name
        bare.write_bytes(source.read_bytes())
        with closing(sqlite3.connect(bare)) as connection:
            connection.executescript("DROP TABLE MPI_COMMUNICATORS")
        roots = [frames(path)[0].sort("start")[types.MPI_ROOT.key] for path in (source, bare)]
        assert roots[0].equals(roots[1])
        assert roots[0].drop_nulls().len() > 0


def test_clocks_are_told_by_mpi_init_and_not_by_what_was_called_before(tmp_path: Path) -> None:
    """Such as MPI_Initialized, which ranks call when they please."""
    source = reports_of("mpi-halo")[0]
    report = tmp_path / source.name
    report.write_bytes(source.read_bytes())
    of_init = "FROM MPI_OTHER_EVENTS JOIN StringIds ON id = textId AND value LIKE 'MPI_Init%'"
    with closing(sqlite3.connect(report)) as connection:
        ((start, end),) = connection.execute(f'SELECT start, "end" {of_init}')
        connection.execute("INSERT INTO StringIds (id, value) SELECT max(id) + 1, 'MPI_Initialized' FROM StringIds")
        connection.execute(
            'INSERT INTO MPI_OTHER_EVENTS (start, "end", globalTid, textId) '
            f"SELECT start - 10, start - 5, globalTid, (SELECT max(id) FROM StringIds) {of_init}"
        )
        connection.commit()
    with open_report(report) as opened:
        source = Source(SourceTables(opened, read_columns([mpi.FAMILY])), FamilyOptions(anchors=True))
        found = pl.concat(
            f.data.select("kind", "start", "end") for f in mpi.FAMILY.frames(source, None) if isinstance(f, Anchors)
        )
    assert found.filter(pl.col("kind") == "init").select("start", "end").rows() == [(start, end)]


def test_the_world_of_a_run_of_one_rank_is_the_world(tmp_path: Path) -> None:
    source = reports_of("mpi-halo")[0]
    report = tmp_path / source.name
    report.write_bytes(source.read_bytes())
    with closing(sqlite3.connect(report)) as connection:
        connection.execute("UPDATE MPI_COMMUNICATORS SET size = 1")
        connection.commit()
    _, ends, _ = frames(report)
    assert ends["communicator"].unique().to_list() == ["MPI_COMM_WORLD"]


def test_communicators_of_one_rank_and_of_no_record_have_names_of_their_own(tmp_path: Path) -> None:
    """So that no collective on them is taken for one of the world."""
    source = reports_of("mpi-halo")[2]
    report = tmp_path / source.name
    report.write_bytes(source.read_bytes())
    collectives = "FROM MPI_COLLECTIVES_EVENTS WHERE commHandle IS NOT NULL ORDER BY start"
    with closing(sqlite3.connect(report)) as connection:
        for handle in (5, 6):
            row = f"(SELECT rowid {collectives} LIMIT 1 OFFSET {handle})"
            connection.execute(f"UPDATE MPI_COLLECTIVES_EVENTS SET commHandle = {handle} WHERE rowid = {row}")
        connection.execute(
            "INSERT INTO MPI_COMMUNICATORS (rank, timestamp, commHandle, localRank, size) "
            "SELECT rank, timestamp, 5, 0, 1 FROM MPI_COMMUNICATORS"
        )
        connection.commit()
    _, ends, _ = frames(report)
    names = ends.filter(pl.col("kind") == COLLECTIVE)["communicator"].value_counts()
    assert dict(names.rows()) == {"MPI_COMM_WORLD": 14, "MPI_COMM_SELF of 2": 1, "MPI communicator 1": 1}


@pytest.mark.parametrize(("groups", "numbers"), [(1, [1, 2]), (2, [])], ids=["the world", "another, too"])
def test_fences_are_collectives_of_all_ranks_if_the_world_is_the_only_communicator(
    groups: int, numbers: list[int], tmp_path: Path
) -> None:
    """The report does not say of which window a fence is, nor therefore of which ranks."""
    source = reports_of("mpi-halo")[2]
    report = tmp_path / source.name
    report.write_bytes(source.read_bytes())
    with closing(sqlite3.connect(report)) as connection:
        connection.execute("INSERT INTO StringIds SELECT max(id) + 1, 'MPI_Win_fence' FROM StringIds")
        connection.execute(
            "INSERT INTO MPI_OTHER_EVENTS (start, end, globalTid, textId) "
            "SELECT start, end, globalTid, (SELECT max(id) FROM StringIds) "
            "FROM MPI_COLLECTIVES_EVENTS ORDER BY start DESC LIMIT 2"
        )
        if groups > 1:
            connection.execute(
                "INSERT INTO MPI_COMMUNICATORS (rank, timestamp, commHandle, localRank, size) "
                "SELECT rank, timestamp, 5, 0, 2 FROM MPI_COMMUNICATORS"
            )
        connection.commit()
    calls, ends, _ = frames(report)
    fences = ends.filter(pl.col("communicator") == "MPI_COMM_WORLD windows").sort("began")
    assert fences["sequence"].to_list() == numbers
    assert calls.filter(name="MPI_Win_fence", type=types.MPI["rma"].key).height == 2
    if numbers:
        assert fences.select("kind", "rank", "ranks", "peer").unique().rows() == [(COLLECTIVE, 2, 4, None)]
        assert set(fences["operation"]) == {n for n, name in MPI_VALUES.items() if name == "MPI_Win_fence"}


def test_a_handle_used_again_is_the_communicator_of_that_time() -> None:
    known = pl.DataFrame(
        [(0, 5, 10, "first", 0, 2), (0, 5, 20, "second", 1, 4)], schema=KNOWN_COMMUNICATOR, orient="row"
    )
    rows = pl.DataFrame({"globalTid": [1, 1, 1, 1], "start": [25, 20, 19, 3], "commHandle": [5, 5, 5, 5]})
    assert on_communicators(rows, known)["communicator"].to_list() == ["second", "second", "first", "first"]


def test_every_start_of_a_persistent_request_is_a_message() -> None:
    """In a ring each rank starts a send to the next and a receive from the one before 7 times."""
    for rank, path in enumerate(REQUESTS):
        calls, ends, _ = frames(path)
        ring = ends.filter(pl.col("tag") == line_tags.MPI_TAG + 5)
        for kind, peer in ((SEND, (rank + 1) % 3), (RECEIVE, (rank - 1) % 3)):
            own = ring.filter(pl.col("kind") == kind)
            assert own.select("peer", "sequence", "size").rows() == [(peer, k, 32768) for k in range(1, 8)]
        starts = calls.filter(pl.col("name").is_in(["MPI_Startall", "MPI_Start"]))["start"]
        assert set(ring.filter(pl.col("kind") == SEND)["time"]) <= set(starts)
        done = calls.filter(pl.col("name").is_in(["MPI_Waitall", "MPI_Wait"]))["end"]
        assert set(ring.filter(pl.col("kind") == RECEIVE)["time"]) <= set(done)


def test_a_started_request_whose_making_is_not_in_the_report_is_counted(tmp_path: Path) -> None:
    report = tmp_path / "late.sqlite"
    report.write_bytes(REQUESTS[0].read_bytes())
    with closing(sqlite3.connect(report)) as connection:
        connection.executescript("DELETE FROM MPI_P2P_EVENTS WHERE tag = 5 AND remoteRank = 1")
    _, ends, source = frames(report)
    assert ends.filter(pl.col("tag") == line_tags.MPI_TAG + 5)["kind"].to_list() == [RECEIVE] * 7
    assert source.tally.dropped[Lost(Loss.NO_INIT)] == 7


def test_a_blocking_receive_from_anybody_has_the_source_that_it_got() -> None:
    """Rank 0 receives ten messages from anybody, and posts six receives that know no source."""
    _, ends, source = frames(REQUESTS[0])
    farm = ends.filter(pl.col("tag") > line_tags.MPI_TAG + 5)
    assert farm.group_by("tag", "peer").len().sort("tag").rows() == [(100011, 1, 5), (100012, 2, 5)]
    assert list(source.tally.dropped.values()) == [6]


def test_a_receive_of_any_tag_is_no_end(tmp_path: Path) -> None:
    """Rank 0 posts six receives from anybody; here they name their source and no tag."""
    report = tmp_path / "any.sqlite"
    report.write_bytes(REQUESTS[0].read_bytes())
    with closing(sqlite3.connect(report)) as connection:
        connection.executescript("UPDATE MPI_P2P_EVENTS SET remoteRank = 1, tag = -1 WHERE remoteRank = -1")
    _, known, _ = frames(REQUESTS[0])
    _, ends, source = frames(report)
    assert ends.equals(known)
    assert source.tally.dropped == {Lost(Loss.ANY_TAG): 6}


def test_names_of_communicators_say_that_they_are_of_mpi() -> None:
    names = pl.DataFrame({"name": [WORLD, f"{SELF} of 3", WINDOWS, f"{WORLD}/0.1#2", "MPI communicator 2", "1234567"]})
    assert names.select(is_of_mpi(pl.col("name"))).to_series().to_list() == [True] * 5 + [False]
