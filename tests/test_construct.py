"""The constructed inputs are what their docstrings say, by plain SQL on sources and results."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import construct
import pytest

SHARED = Path(__file__).parents[2] / "shared"
SAMPLES = Path(__file__).parents[1] / "sample_reports"
TIMES = {"start", "end", "timestamp", "rawTimestamp"}
KERNELS, CALLS = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"


def reports_of(run: str) -> list[Path]:
    """The reports of a run, from the samples or else from the shared ones."""
    for folder in (SAMPLES / run, SHARED / "reports" / run):
        if found := sorted(folder.glob("*.sqlite")):
            return found
    pytest.skip(f"no reports of {run}")


@pytest.fixture
def gpt_ddp() -> list[Path]:
    return reports_of("gpt-ddp")


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        yield connection


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with opened(path) as connection:
        return connection.execute(sql).fetchall()


def value(path: Path, sql: str) -> Any:
    return rows(path, sql)[0][0]


def utc(path: Path) -> int:
    return int(value(path, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"))


def columns(path: Path, table: str) -> list[str]:
    return [str(row[1]) for row in rows(path, f'PRAGMA table_info("{table}")')]


def event_tables(path: Path) -> list[str]:
    """Tables of events, named here on their own."""
    names = [name for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    named = ("CUPTI_ACTIVITY_", "CUDA_", "OSRT_API", "GPU_METRICS", "MPI_", "OPENMP_", "SCHED_", "COMPOSITE_")
    others = ("NVTX_EVENTS", "PROFILER_OVERHEAD", "GPU_CONTEXT_SWITCH_EVENTS")
    found = [name for name in names if name.startswith(named) or name in others]
    return [name for name in found if name not in ("MPI_RANKS", "MPI_COMMUNICATORS", "CUDA_CALLCHAINS")]


def contents(path: Path, table: str, utc_offset: int | None = None, without: tuple[str, ...] = ()) -> Counter[Any]:
    """All rows of a table, with their times on the wall clock (by the session start, or by the offset given)."""
    offset = utc(path) if utc_offset is None else utc_offset
    names = [name for name in columns(path, table) if name not in without]
    terms = ", ".join(f'"{name}" + {offset}' if name in TIMES else f'"{name}"' for name in names)
    return Counter(rows(path, f'SELECT {terms} FROM "{table}"'))


def activity(path: Path, table: str, **more: Any) -> Counter[Any]:
    """The rows of an event table, without NVTX rows that only name a domain or a thread."""
    found = contents(path, table, **more)
    if table == "NVTX_EVENTS":
        place = columns(path, table).index("eventType")
        return Counter({row: n for row, n in found.items() if row[place] not in (33, 39, 75, 76)})
    return found


def assert_same_events(sources: list[Path], made: list[Path]) -> None:
    """No row is lost, doubled or moved on the wall clock."""
    for table in {table for path in sources for table in event_tables(path)}:
        before = [activity(path, table) for path in sources if table in event_tables(path)]
        after = [activity(path, table) for path in made if table in event_tables(path)]
        assert sum(before, Counter()) == sum(after, Counter()), table


ALL_RUNS = ("gpt-ddp", "mesh-tp-pp", "mpi-halo", "mpi-cpu", "single", "metric-frequency")


@pytest.mark.parametrize("run", ALL_RUNS)
def test_cut_keeps_every_event_once(run: str, tmp_path: Path) -> None:
    for source in reports_of(run):
        if source.stat().st_size > 6_000_000:
            continue
        first, second = construct.cut_in_two(source, tmp_path, 0.4)
        assert utc(second) > utc(first) == utc(source)
        assert_same_events([source], [first, second])
        if KERNELS in event_tables(source):
            assert all(value(part, f"SELECT count(*) FROM {KERNELS}") for part in (first, second))


def test_cut_keeps_launches_whole_and_cuts_no_call(gpt_ddp: list[Path], tmp_path: Path) -> None:
    orphans = f"SELECT count(*) FROM {KERNELS} WHERE correlationId NOT IN (SELECT correlationId FROM {CALLS})"
    source = gpt_ddp[0]
    first, second = construct.cut_in_two(source, tmp_path)
    cut = utc(second) - utc(first)
    assert value(first, orphans) == value(second, orphans) == 0
    for table in (CALLS, "NVTX_EVENTS"):
        assert value(first, f'SELECT max("end") FROM {table}') <= cut
        assert value(second, f'SELECT min(start) FROM {table} WHERE "end" IS NOT NULL') >= 0
    assert value(first, f"SELECT count(*) FROM {KERNELS}") > 0 < value(second, f"SELECT count(*) FROM {KERNELS}")
    domains = "SELECT text FROM NVTX_EVENTS WHERE eventType = 75"
    assert sorted(rows(first, domains)) == sorted(rows(second, domains)) == sorted(rows(source, domains))
    first, second = construct.cut_in_two(source, tmp_path, 0.5, quiet=False, whole_launches=False)
    assert value(first, f"SELECT max(start) FROM {KERNELS}") < utc(second) - utc(first)
    assert value(second, f"SELECT min(start) FROM {KERNELS}") >= 0
    assert_same_events([source], [first, second])


@pytest.mark.parametrize(("case", "place"), [("metrics_to_first", 0), ("metrics_to_last", -1)])
def test_metrics_move_within_their_host(case: str, place: int, gpt_ddp: list[Path], tmp_path: Path) -> None:
    made = construct.CASES[case](gpt_ddp, tmp_path)
    assert_same_events(gpt_ddp, made)
    named = "SELECT typeId, metricId, metricName FROM TARGET_INFO_GPU_METRICS"
    for host in {host_of(path) for path in gpt_ddp}:
        before = [path for path in gpt_ddp if host_of(path) == host]
        after = [path for path in made if host_of(path) == host]
        assert [path for path in after if "GPU_METRICS" in event_tables(path)] == [after[place]]
        assert sorted(rows(after[place], named)) == sorted(row for path in before for row in rows(path, named))
        unnamed = "SELECT count(*) FROM GENERIC_EVENT_TYPES WHERE nameId NOT IN (SELECT id FROM StringIds)"
        assert value(after[place], unnamed) == 0
        options = "SELECT count(DISTINCT name) FROM META_DATA_CAPTURE WHERE name LIKE 'GPU_METRICS_OPTIONS:GPU_%:ID'"
        assert value(after[place], options) == len(before)


def host_of(path: Path) -> str:
    return str(value(path, "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'"))


def pids_of(path: Path) -> set[int]:
    """Every pid that any table names, but for rows about the host."""
    found: set[int] = set()
    for (table,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'"):
        for column in columns(path, table):
            if column in ("globalPid", "globalTid"):
                found |= {
                    number for (number,) in rows(path, f'SELECT DISTINCT "{column}" >> 24 & 0xFFFFFF FROM {table}')
                }
            elif column in ("pid", "processId"):
                found |= {number for (number,) in rows(path, f'SELECT DISTINCT "{column}" FROM {table}')}
    return found - {0, None}


def test_equal_pids(gpt_ddp: list[Path], tmp_path: Path) -> None:
    made = construct.equal_pids(gpt_ddp, tmp_path)
    by_host = [[path for path in made if host_of(path) == host] for host in sorted(set(map(host_of, made)))]
    assert all(len(pids_of(path)) == 1 for path in made)
    assert [pids_of(path) for path in by_host[0]] == [pids_of(path) for path in by_host[1]]
    threads = f"SELECT globalTid, count(*) FROM {CALLS} GROUP BY 1"
    for one, other in zip(*by_host, strict=True):
        assert {row[0] for row in rows(one, threads)} == {row[0] for row in rows(other, threads)}
    for source, path in zip(gpt_ddp, made, strict=True):
        ids = ("globalPid", "globalTid", "endGlobalTid")
        for table in event_tables(source):
            assert contents(source, table, without=ids) == contents(path, table, without=ids)
        assert sorted(row[1] for row in rows(source, threads)) == sorted(row[1] for row in rows(path, threads))


@pytest.mark.parametrize("run", ["gpt-ddp", "mpi-halo"])
def test_two_contexts(run: str, tmp_path: Path) -> None:
    work = (KERNELS, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
    select = " UNION ALL ".join(f"SELECT contextId AS c, streamId AS s FROM {name}" for name in work)
    count = f"SELECT s, c, count(*) FROM ({select}) GROUP BY 1, 2"
    for source, path in zip(sources := reports_of(run), construct.two_contexts(sources, tmp_path), strict=True):
        before = {(stream, context): n for stream, context, n in rows(source, count)}
        after = {(stream, context): n for stream, context, n in rows(path, count)}
        ((stream, new),) = set(after) - set(before)
        ((_, old),) = [place for place in before if before[place] != after[place]]
        assert after[(stream, old)] + after[(stream, new)] == before[(stream, old)]
        assert after[(stream, old)] - after[(stream, new)] in (0, 1)
        for table in ("TARGET_INFO_CUDA_STREAM", "TARGET_INFO_CUDA_CONTEXT_INFO"):
            assert value(path, f"SELECT count(*) FROM {table} WHERE contextId = {new}") == 1
        for table in event_tables(source):
            assert contents(source, table, without=("contextId",)) == contents(path, table, without=("contextId",))


@pytest.mark.parametrize("run", ["gpt-ddp", "mesh-tp-pp", "mpi-halo"])
def test_two_gpus_in_one_process(run: str, tmp_path: Path) -> None:
    one, two = reports_of(run)[:2]
    (made,) = construct.two_gpus_one_process([one, two], tmp_path)
    assert len(pids_of(made)) == 1
    launched = "SELECT k.start + {0}, k.end + {0}, streamId, n.value, c.start + {0}, a.value"
    launched += f" FROM {KERNELS} k JOIN StringIds n ON n.id = shortName"
    launched += f" JOIN {CALLS} c USING (correlationId) JOIN StringIds a ON a.id = nameId"
    before = [Counter(rows(path, launched.format(utc(path)))) for path in (one, two)]
    assert Counter(rows(made, launched.format(utc(made)))) == before[0] + before[1]
    ranges = "SELECT e.start + {}, coalesce(e.text, s.value), d.text FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id ="
    ranges += " e.textId LEFT JOIN NVTX_EVENTS d ON d.eventType = 75 AND d.domainId = e.domainId WHERE e.eventType = 59"
    before = [Counter(rows(path, ranges.format(utc(path)))) for path in (one, two)]
    assert Counter(rows(made, ranges.format(utc(made)))) == before[0] + before[1]
    gpu = f"SELECT gpuId, count(*) FROM {KERNELS} JOIN TARGET_INFO_CUDA_DEVICE ON cudaId = deviceId GROUP BY 1"
    assert sorted(rows(made, gpu)) == sorted(rows(one, gpu) + rows(two, gpu))
    threads = f"SELECT count(DISTINCT globalTid) FROM {CALLS}"
    assert value(made, threads) == value(one, threads) + value(two, threads)


@pytest.mark.parametrize("run", ALL_RUNS)
def test_shuffled_has_the_same_rows_in_another_order(run: str, tmp_path: Path) -> None:
    source = reports_of(run)[0]
    (made,) = construct.shuffled(source, tmp_path, seed=3)
    assert_same_events([source], [made])
    for table in ("OSRT_API", "CUPTI_ACTIVITY_KIND_RUNTIME", "MPI_P2P_EVENTS"):
        if table in event_tables(source) and value(source, f"SELECT count(*) FROM {table}") > 20:
            assert rows(made, f"SELECT start FROM {table}") != rows(source, f"SELECT start FROM {table}")
    again = tmp_path / "again"
    assert construct.shuffled(source, again, seed=3)[0].read_bytes() == made.read_bytes()


def test_copies_on_many_hosts(gpt_ddp: list[Path], tmp_path: Path) -> None:
    made = construct.on_many_hosts(gpt_ddp[1], tmp_path, 3)
    assert sorted(tmp_path.glob("*.sqlite")) == made
    hosts = {value(path, "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'") for path in made}
    gpus = {value(path, "SELECT uuid FROM TARGET_INFO_GPU") for path in made}
    assert (len(hosts), len(gpus)) == (3, 3)
    assert all(contents(path, KERNELS) == contents(gpt_ddp[1], KERNELS) for path in made)


def test_hosts_swapped(gpt_ddp: list[Path], tmp_path: Path) -> None:
    made = construct.hosts_swapped(gpt_ddp, tmp_path)
    before, after = [host_of(path) for path in gpt_ddp], [host_of(path) for path in made]
    assert len({*zip(before, after, strict=True)}) == 2
    assert all(old != new for old, new in zip(before, after, strict=True))
    for source, path in zip(gpt_ddp, made, strict=True):
        shown = "SELECT value FROM META_DATA_CAPTURE WHERE name = 'DEVICE_DISPLAY_NAME'"
        assert value(path, shown) == host_of(path)
        environment = "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment'"
        assert value(path, environment) == value(source, environment).replace(host_of(source), host_of(path))


@pytest.mark.parametrize("run", ALL_RUNS)
@pytest.mark.parametrize("ppm", [0.0, 12.5, -40.0])
def test_clock_is_shifted_and_stretched(run: str, ppm: float, tmp_path: Path) -> None:
    source = reports_of(run)[0]
    (made,) = construct.with_clock(source, tmp_path, utc_shift_ns=1_500_000_000, stretch_ppm=ppm)
    assert utc(made) == utc(source) + 1_500_000_000
    for table in event_tables(source):
        for column in TIMES & set(columns(source, table)):
            select = f'SELECT "{column}" FROM {table} ORDER BY rowid'
            for (old,), (new,) in zip(rows(source, select), rows(made, select), strict=True):
                assert new == old or abs(new - old - old * ppm / 1e6) <= 0.5 + 1e-6


@pytest.mark.parametrize("run", ALL_RUNS)
def test_normalized_times_are_utc(run: str, tmp_path: Path) -> None:
    source = reports_of(run)[0]
    (made,) = construct.normalized(source, tmp_path, extra_shift=1000)
    said = dict(rows(made, "SELECT name, value FROM META_DATA_EXPORT WHERE name LIKE '%TIME_%'"))
    assert said["EXPORT_CONFIG_TIME_SHIFT"] == str(utc(source) + 1000)
    assert said["EXPORT_PARAM_TIME_SHIFT"] == "1000"
    assert utc(made) == utc(source)
    for table in event_tables(source):
        raw = ("rawTimestamp",)
        assert contents(source, table, utc(source) + 1000, without=raw) == contents(made, table, 0, without=raw)


def test_repeated(gpt_ddp: list[Path], tmp_path: Path) -> None:
    joined = f"SELECT count(*), sum(k.end - k.start) FROM {KERNELS} k JOIN {CALLS} USING (correlationId)"
    made = construct.repeated(gpt_ddp[:2], tmp_path, 3, period_ns=10**10)
    for source, path in zip(gpt_ddp[:2], made, strict=True):
        assert rows(path, joined) == [tuple(3 * number for number in rows(source, joined)[0])]
        for table in event_tables(source):
            ids = ("correlationId", "eventSyncId")
            once = activity(source, table, without=ids)
            assert sum(activity(path, table, without=ids).values()) == 3 * sum(once.values())
            assert not once - activity(path, table, utc_offset=utc(path) - 2 * 10**10, without=ids)


@pytest.mark.parametrize("run", ["single", "mpi-cpu"])
def test_repeated_turns_do_not_overlap(run: str, tmp_path: Path) -> None:
    for source in reports_of(run):
        (path,) = construct.repeated(source, tmp_path, 2)
        for table in event_tables(source):
            assert sum(activity(path, table).values()) == 2 * sum(activity(source, table).values())


def test_environment_without_ranks(gpt_ddp: list[Path], tmp_path: Path) -> None:
    environment = "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment'"
    captured = "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT_VARIABLE'"
    for path in construct.without_rank_env(gpt_ddp, tmp_path):
        left = value(path, environment) + ";" + ";".join(text for (text,) in rows(path, captured))
        assert "RANK" not in left
        assert "SLURM" not in left
        assert "CUDA_VISIBLE_DEVICES=" in left


def test_ranks_of_mpi_removed(tmp_path: Path) -> None:
    (bare,) = construct.without_rank_env(reports_of("mpi-halo")[0], tmp_path, mpi_ranks=True)
    assert not rows(bare, "SELECT 1 FROM sqlite_master WHERE name = 'MPI_RANKS'")


def test_tables_dropped(gpt_ddp: list[Path], tmp_path: Path) -> None:
    (made,) = construct.without_table(gpt_ddp[0], tmp_path, "NVTX_EVENTS")
    assert set(event_tables(gpt_ddp[0])) - set(event_tables(made)) == {"NVTX_EVENTS"}


@pytest.mark.parametrize("run", ALL_RUNS)
def test_no_events_left(run: str, tmp_path: Path) -> None:
    source = reports_of(run)[0]
    (made,) = construct.no_events(source, tmp_path)
    assert event_tables(made) == []
    assert utc(made) == utc(source)
    assert host_of(made) == host_of(source)


def test_broken_files(gpt_ddp: list[Path], tmp_path: Path) -> None:
    source = gpt_ddp[0]
    assert construct.empty_file(source, tmp_path / "a")[0].stat().st_size == 0
    (cut,) = construct.truncated(source, tmp_path / "b")
    assert source.read_bytes().startswith(cut.read_bytes())
    with pytest.raises(sqlite3.DatabaseError):
        rows(cut, "SELECT count(*) FROM OSRT_API")
    with pytest.raises(sqlite3.DatabaseError):
        rows(construct.not_sqlite(source, tmp_path / "c")[0], "SELECT * FROM sqlite_master")
    (foreign,) = construct.foreign_sqlite(source, tmp_path / "d")
    assert value(foreign, "SELECT count(*) FROM birds") == 2


def test_sources_are_never_written(gpt_ddp: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="written over"):
        construct.shuffled(gpt_ddp[0], gpt_ddp[0].parent)
    before = [path.read_bytes() for path in gpt_ddp[:2]]
    construct.two_gpus_one_process(gpt_ddp[:2], tmp_path)
    construct.equal_pids(gpt_ddp, tmp_path)
    assert [path.read_bytes() for path in gpt_ddp[:2]] == before


def test_command_line(gpt_ddp: list[Path], tmp_path: Path) -> None:
    command = [sys.executable, str(Path(construct.__file__).parent), "with_clock", str(gpt_ddp[0]), str(tmp_path)]
    shown = subprocess.run([*command, "-o", "utc_shift_ns=5"], capture_output=True, text=True, check=True).stdout
    assert utc(Path(shown.strip())) == utc(gpt_ddp[0]) + 5
