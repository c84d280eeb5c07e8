"""One case: made from its number, translated, judged."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import traceback
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from nvprof_files import MORE, VERSIONS, WORK, columns_of, nvprof_file

import nsys2prv
from nsys2prv.analysis.ncu.plot import plot_svg
from nsys2prv.families.device_work import DEVICE_TABLES, DEVICE_WORK_READS
from nsys2prv.families.registry import FAMILIES

from .inputs import COLUMNAR, MADE, SOURCES, as_database, small, tables
from .judge import Told, wrong
from .mutations import Database, broken_bytes, broken_frame, mutate
from .ncu_files import REPORT, broken_page, wrong_of_ncu, wrong_throughputs
from .nvprof_judge import wrong_of_nvprof

RIGHT, REFUSED = "right", "refused"
MEMORY = 1_000_000_000
# The share of cases that are analyzed, too.
ANALYZED = 0.1
WRITTEN = {"trace.prv", "trace.pcf", "trace.row", "trace.align.json"}
OPTIONS = nsys2prv.RunOptions(align="utc", every_thread=True)
ALL = tuple(f.name for f in FAMILIES)
KERNELS, RANGES = {"kernels", "nccl", "memory", "cuda_api"}, {"nvtx", "nccl", "nccl_operations"}
# Of what runs on devices each family reads all: a stream's lanes are of all of them.
READING = {
    f.name: {t.name for t in (*f.reads, *(DEVICE_WORK_READS if set(f.reads) & set(DEVICE_TABLES) else ()))}
    for f in FAMILIES
}


@dataclass(frozen=True)
class Verdict:
    """What came of a case. `what`: RIGHT, REFUSED, or a defect in words that are the same for the same defect."""

    number: int
    what: str
    done: str
    detail: str = ""


@cache
def _small(place: int) -> bytes:
    return small(SOURCES[place]) if place < len(SOURCES) else MADE[place - len(SOURCES)]()


@cache
def _beside() -> bytes:
    return small(REPORT)


@cache
def _nvprof(version: int) -> bytes:
    with TemporaryDirectory() as folder:
        held = columns_of(version)
        made = nvprof_file(Path(folder) / "f", version, **{t: of for t, of in {**WORK, **MORE}.items() if t in held})
        return made.read_bytes()


@cache
def _tables() -> dict[str, pl.DataFrame]:
    return tables(COLUMNAR)


def run_case(number: int, folder: Path) -> Verdict:
    """Make a case in an empty folder, translate it and judge what is there afterwards."""
    dice = random.Random(number)
    source, output = folder / "in", folder / "out"
    source.mkdir()
    output.mkdir()
    kind = dice.random()
    database: sqlite3.Connection | None
    if kind < 0.75:
        report, done, touched, database = _mutated(dice, source)
    elif kind < 0.85:
        report, done, touched, database = _damaged(dice, source)
    elif kind < 0.95:
        report, done, touched, database = _columnar(dice, source)
    elif kind < 0.98:
        report, done, touched, database = _of_nvprof(dice, source)
    else:
        return beside_ncu(number, dice, folder)
    families = ALL if dice.random() < 0.15 else _families(touched, dice)
    try:
        what, detail = _judged(report, output / "trace", families, database)
    finally:
        if database is not None:
            database.close()
    what = what or _left(folder, report, what_is_there=not detail)
    if not what and dice.random() < ANALYZED:
        what, said = _wrong_analysis(report)
        detail = said or detail
    return Verdict(number, what or (REFUSED if detail else RIGHT), done, detail)


def _judged(
    report: Path,
    trace: Path,
    families: tuple[str, ...],
    database: sqlite3.Connection | None,
    options: nsys2prv.RunOptions = OPTIONS,
    page: tuple[bytes, str] | None = None,
) -> tuple[str, str]:
    """The defect, if any; and the refusal, if it was refused."""
    before = _forget_peak()
    try:
        result = nsys2prv.translate(
            report,
            trace,
            selection=nsys2prv.Selection(families),
            options=options,
            execution=nsys2prv.Execution(jobs=1),
        )
        figures = [] if page is None else _wrong_figures(report, result, options, *page)
    except nsys2prv.Nsys2prvError as error:
        text = str(error)
        return ("refused in more than a line" if len(text.splitlines()) != 1 else ""), text
    except BaseException as error:
        return _where(error), str(error)[:300]
    if (taken := _peak() - before) > MEMORY:
        return "1 GB more than before", str(taken)
    if database is not None:
        assert result.prv is not None
        try:
            if report.suffix == ".nvprof":
                said = wrong_of_nvprof(database, result.prv, families, result.dropped)
            else:
                said = wrong(database, result.prv, families, Told(result.dropped, result.warnings, READING))
        except Exception as error:
            return f"the judge failed: {type(error).__name__}", "".join(traceback.format_exception(error)[-3:])
        if said := [*figures, *said]:
            return "wrong: " + said[0].split(":")[0], "; ".join(said)
    return "", ""


def _where(error: BaseException) -> str:
    own = [f for f in traceback.extract_tb(error.__traceback__) if "/nsys2prv/" in f.filename]
    return f"{type(error).__name__} at " + " < ".join(f"{Path(f.filename).name}:{f.name}" for f in own[:-4:-1])


def _wrong_analysis(report: Path) -> tuple[str, str]:
    """The defect of an analysis, if any: its figures are numbers, and its window lasts."""
    try:
        found = nsys2prv.analyze(report, options=OPTIONS, execution=nsys2prv.Execution(jobs=1))
        json.dumps(found.as_json(), allow_nan=False)
    except nsys2prv.Nsys2prvError:
        return "", ""
    except BaseException as error:
        return f"analysis: {_where(error)}", str(error)[:300]
    return ("", "") if found.window.spans.total() > 0 else ("analysis: an empty window", str(found.window))


def beside_ncu(number: int, dice: random.Random, folder: Path) -> Verdict:
    """A whole report beside a broken file of Nsight Compute: translated, analyzed, drawn."""
    report, page = folder / "in" / "r.sqlite", folder / "in" / "kernels.csv"
    report.write_bytes(_beside())
    data, done = broken_page(dice)
    page.write_bytes(data)
    options = replace(OPTIONS, ncu=(nsys2prv.ProfileFile(page),))
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(report.read_bytes())
        what, detail = _judged(report, folder / "out" / "trace", (*KERNELS, "ncu"), database, options, (data, done))
    what = what or _left(folder, report.parent, what_is_there=not detail)
    return Verdict(number, what or (REFUSED if detail else RIGHT), done, detail)


def _wrong_figures(
    report: Path, result: nsys2prv.Translation, options: nsys2prv.RunOptions, page: bytes, done: str
) -> list[str]:
    """What is wrong with the figures of a page in a trace, in an analysis, or in its plot."""
    assert result.prv is not None
    found = nsys2prv.analyze(report, options=options, execution=nsys2prv.Execution(jobs=1))
    assert found.ncu is not None
    json.dumps(found.as_json(), allow_nan=False)
    assert plot_svg(found.ncu.roofline, found.ncu.roofs).endswith("</svg>\n")
    return [*wrong_of_ncu(result.prv, result.rows.get("ncu", 0)), *wrong_throughputs(result.prv, page, done)]


def _mutated(dice: random.Random, folder: Path) -> tuple[Path, str, set[str], sqlite3.Connection]:
    """A database changed one to three times."""
    db = Database(_small(dice.randrange(len(SOURCES) + len(MADE))), dice)
    done = [mutate(db) for _ in range(dice.choice((1, 1, 2, 3)))]
    path = folder / "r.sqlite"
    path.write_bytes(db.connection.serialize())
    return path, "; ".join(done), db.touched, db.connection


def _damaged(dice: random.Random, folder: Path) -> tuple[Path, str, set[str], sqlite3.Connection | None]:
    """A database whose bytes are damaged; to be judged if SQLite can still read it whole."""
    path = folder / "r.sqlite"
    data, done = broken_bytes(_small(dice.randrange(len(SOURCES) + len(MADE))), dice)
    path.write_bytes(data)
    database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    # What is wrong is said with names that may be no text; a length that cannot be is more than the memory.
    with suppress(sqlite3.Error, UnicodeDecodeError, MemoryError):
        if database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]:
            return path, done, set(), database
    database.close()
    return path, done, set(), None


def _columnar(dice: random.Random, folder: Path) -> tuple[Path, str, set[str], sqlite3.Connection | None]:
    """A Parquet or Arrow export with one table changed, or the bytes of its file."""
    frames = dict(_tables())
    path = folder / dice.choice(("r_pqtdir", "r_arwdir"))
    path.mkdir()
    chosen = dice.choice(sorted(frames))
    done, database = "", None
    damage = dice.random() < 0.25
    if not damage:
        frames[chosen], done = broken_frame(frames[chosen], dice)
        database = as_database(frames)
    for name, frame in frames.items():
        if path.name.endswith("_pqtdir"):
            frame.write_parquet(path / f"{name}.parquet")
        else:
            frame.write_ipc_stream(path / f"{name}.arrow")
    if damage:
        (file,) = path.glob(f"{chosen}.*")
        data, done = broken_bytes(file.read_bytes(), dice)
        file.write_bytes(data)
    return path, f"{chosen}: {done}", {chosen}, database


def _of_nvprof(dice: random.Random, folder: Path) -> tuple[Path, str, set[str], sqlite3.Connection | None]:
    """A file of nvprof changed one to three times; or its bytes, when it is not judged."""
    whole, path = _nvprof(dice.choice(VERSIONS)), folder / "r.nvprof"
    if dice.random() < 0.15:
        data, done = broken_bytes(whole, dice)
        path.write_bytes(data)
        return path, done, set(), None
    db = Database(whole, dice)
    done = "; ".join(mutate(db) for _ in range(dice.choice((1, 1, 2, 3))))
    path.write_bytes(db.connection.serialize())
    return path, done, db.touched, db.connection


def _families(touched: set[str], dice: random.Random) -> tuple[str, ...]:
    """Those that read what was changed, and one by chance: a few are quicker than all."""
    reading = {f.name for f in FAMILIES if {t.name for t in f.reads} & touched}
    some = sorted(reading)
    chosen = {*dice.sample(some, min(3, len(some))), dice.choice(ALL)}
    if any(t.startswith("CUPTI") for t in touched) or not reading:
        chosen |= KERNELS
    if "NVTX_EVENTS" in touched or not reading:
        chosen |= RANGES
    return tuple(f for f in ALL if f in chosen)


def _left(folder: Path, report: Path, what_is_there: bool) -> str:
    """A file that should not be there."""
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and report not in (p, *p.parents)}
    expected = {f"out/{name}" for name in WRITTEN} if what_is_there else set()
    return "" if found == expected else f"files {sorted(found ^ expected)[:3]}"


def _forget_peak() -> int:
    """Return the bytes of memory that the process has now, from which on its peak counts."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    """Bytes of memory that the process had at most since."""
    with suppress(OSError), closing(Path("/proc/self/status").open()) as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    return 0


def enter(folder: Path) -> None:
    """Go where a stray file would be seen: current folder, temporary files and home."""
    os.chdir(folder)
    os.environ.update(TMPDIR=str(folder), HOME=str(folder))
