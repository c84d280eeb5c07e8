"""Pages that Nsight Compute prints as CSV: `--page raw`, a row a kernel, and `--page details`, a row a metric."""

from __future__ import annotations

import csv
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import polars as pl

from nsys2prv.errors import ReportError
from nsys2prv.model.units import bytes_text
from nsys2prv.model.words import few
from nsys2prv.report.ncu.numbers import as_numbers, decimal_sign, unit_factor

# Columns that say which kernel a row is of.
_ID, _PROCESS, _NAME, _BLOCK, _GRID = "ID", "Process ID", "Kernel Name", "Block Size", "Grid Size"
_NEEDED = (_ID, _NAME)
# The longest file that is read; a raw page of 100,000 kernels with 30 metrics has some 50 MB.
MOST_BYTES = 8 * 10**9
# Names of the details page, which are those of its sections, with the unit that they must have.
DETAILS = {
    ("Duration", ""): "gpu__time_duration.sum",
    ("Compute (SM) Throughput", "%"): "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    ("SM [%]", "%"): "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    ("Achieved Occupancy", "%"): "sm__warps_active.avg.pct_of_peak_sustained_active",
    ("Registers Per Thread", ""): "launch__registers_per_thread",
    ("Memory Throughput", "byte/s"): "dram__bytes.sum.per_second",
    ("SM Frequency", ""): "sm__cycles_elapsed.avg.per_second",
}
# Rows of a profiled kernel: columns of every page, beside those of the metrics.
KERNEL_ID = {
    "process": pl.Int64(),
    "id": pl.Int64(),
    "name": pl.String(),
    **{f"{what}{axis}": pl.Int64() for what in ("grid", "block") for axis in "XYZ"},
}


def read_page(path: Path, data: bytes, wanted: Callable[[str], bool]) -> pl.DataFrame:
    """Return the kernels of a page in order of their IDs: KERNEL_ID and a column a metric, null where it has no value.

    `wanted` says if a metric is read. They are Float64 in base units (byte, ns, %, hz, byte/s). Raises ReportError.
    """
    cells = _cells(path, data)
    rows = _kernels(path, cells)
    if "Metric Name" in cells.columns:
        found = _from_details(path, rows, wanted)
    else:
        units = cells.filter(pl.col(_ID).fill_null("") == "").head(1)
        found = _from_raw(path, rows, units, wanted)
    return found.sort("process", "id")


def _cells(path: Path, data: bytes) -> pl.DataFrame:
    """Return all cells as texts. Lines before the heading are those of the profiler and of the program."""
    if len(data) > MOST_BYTES:
        raise ReportError(path, f"is larger than {bytes_text(MOST_BYTES)}", "profile fewer kernels or metrics")
    at = 0 if data.startswith((b'"ID",', b"ID,")) else _heading(data)
    if at is None:
        cause = "has no line of column names that begins with ID, as CSV of Nsight Compute does"
        raise ReportError(path, cause, "write it by: ncu -i REPORT.ncu-rep --page raw --csv > FILE.csv")
    body = b"\n".join(line for line in data[at:].splitlines() if not line.startswith((b"==", b"\x00")))
    _refuse_cut_off(path, data, body)
    try:
        return pl.read_csv(BytesIO(body), infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy")
    except (pl.exceptions.PolarsError, ValueError) as error:
        cause = f"is no CSV that can be read ({str(error).splitlines()[0][:120]})"
        raise ReportError(path, cause, "copy it again, or write it again by ncu -i REPORT.ncu-rep --csv") from None


def _heading(data: bytes) -> int | None:
    """Return the place of the line of column names; None without one."""
    found = [place + 1 for mark in (b'\n"ID",', b"\nID,") if (place := data.find(mark)) >= 0]
    return min(found, default=None)


def _refuse_cut_off(path: Path, data: bytes, body: bytes) -> None:
    """Refuse a file that ends in the middle of a line. Raises ReportError."""
    if data.endswith(b"\n"):
        return
    heading, last = body[: body.find(b"\n")], body[body.rfind(b"\n") + 1 :]
    if last.count(b'"') % 2 or _fields(last) < _fields(heading):
        raise ReportError(path, "ends in the middle of a line: it was cut off", "copy it again, whole")


def _fields(line: bytes) -> int:
    """Return the number of cells of a line."""
    try:
        return len(next(csv.reader([line.decode(errors="replace")]), []))
    except csv.Error:
        return 0


def _kernels(path: Path, cells: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that are of a kernel, with KERNEL_ID. Raises ReportError."""
    if lacking := [c for c in _NEEDED if c not in cells.columns]:
        raise ReportError(path, f"lacks the columns {few(lacking)}", "write it by ncu with --csv")
    whole = cells.with_columns(
        id=pl.col(_ID).str.extract(r"^\s*(\d{1,18})\s*$").cast(pl.Int64),
        process=_or_null(cells, _PROCESS).str.extract(r"^\s*(\d{1,18})\s*$").cast(pl.Int64).fill_null(0),
        name=pl.col(_NAME),
    ).drop_nulls(["id", "name"])
    if whole.is_empty():
        cause = "holds no kernels"
        raise ReportError(path, cause, "look into it: Nsight Compute says in lines with ==ERROR== why it profiled none")
    sizes = [
        _size(cells, column, what, axis) for column, what in ((_GRID, "grid"), (_BLOCK, "block")) for axis in "XYZ"
    ]
    placed = whole.with_columns(sizes)
    if placed["gridX"].null_count() == placed.height or placed["blockX"].null_count() == placed.height:
        cause = "does not say the grids and blocks of its kernels"
        raise ReportError(path, cause, "write it by Nsight Compute 2022 or later, or with --page raw")
    return placed


def _or_null(cells: pl.DataFrame, column: str) -> pl.Expr:
    return pl.col(column) if column in cells.columns else pl.lit(None, pl.String)


def _size(cells: pl.DataFrame, column: str, what: str, axis: str) -> pl.Expr:
    """Return one side of a grid or block, from a column such as `(8, 1, 1)`, else from the metrics of launches."""
    number = "XYZ".index(axis)
    given = _or_null(cells, column).str.extract_all(r"\d{1,18}").list.get(number, null_on_oob=True)
    metric = _or_null(cells, f"launch__{what}_dim_{axis.lower()}")
    return pl.coalesce(given, metric).cast(pl.Int64, strict=False).alias(f"{what}{axis}")


def _from_raw(path: Path, rows: pl.DataFrame, units: pl.DataFrame, wanted: Callable[[str], bool]) -> pl.DataFrame:
    """Return the metrics of a raw page: its second line has the units of its columns."""
    metrics = [c for c in rows.columns if wanted(c)]
    if repeated := rows.height - rows.select("process", "id").n_unique():
        raise ReportError(path, f"has {repeated} kernels twice", "give each run of ncu a file of its own")
    point = _point(path, pl.concat([rows[c] for c in metrics]) if metrics else pl.Series([], dtype=pl.String))
    factors = {c: unit_factor(units[c][0] or "") if units.height else 1.0 for c in metrics}
    return rows.select(*KERNEL_ID, *(as_numbers(pl.col(c), point) * factors[c] for c in metrics))


def _from_details(path: Path, rows: pl.DataFrame, wanted: Callable[[str], bool]) -> pl.DataFrame:
    """Return the metrics of a details page, whose rows have units of their own; rows of rules have no metric."""
    missing = [c for c in ("Metric Unit", "Metric Value") if c not in rows.columns]
    if missing:
        raise ReportError(path, f"lacks the columns {few(missing)}", "write it by ncu with --page details --csv")
    point = _point(path, rows["Metric Value"])
    factors = {unit: unit_factor(unit) for unit in rows["Metric Unit"].fill_null("").unique()}
    unit = pl.col("Metric Unit").fill_null("").str.replace("second", "s").str.replace(r"^[KMGTP]byte/", "byte/")
    section = pl.DataFrame(
        [(name, of, metric) for (name, of), metric in DETAILS.items()],
        schema={"Metric Name": pl.String(), "wanted": pl.String(), "metric": pl.String()},
        orient="row",
    )
    named_so = [name for name in rows["Metric Name"].drop_nulls().unique() if wanted(name)]
    named = rows.join(section, on="Metric Name", how="left", maintain_order="left").with_columns(
        metric=pl.when(pl.col("Metric Name").is_in(named_so))
        .then("Metric Name")
        .when((pl.col("wanted") == "") | (pl.col("wanted") == unit))
        .then("metric"),
        number=as_numbers(pl.col("Metric Value"), point)
        * pl.col("Metric Unit").fill_null("").replace_strict(factors, return_dtype=pl.Float64),
    )
    ids = named.select(*KERNEL_ID).unique(["process", "id"], keep="first", maintain_order=True)
    measured = named.drop_nulls(["metric", "number"]).unique(["process", "id", "metric"], keep="first")
    if measured.is_empty():
        return ids
    wide = measured.pivot("metric", index=["process", "id"], values="number")
    return ids.join(wide, on=["process", "id"], how="left", maintain_order="left")


def _point(path: Path, texts: pl.Series) -> str:
    point = decimal_sign(texts.drop_nulls().unique())
    if point is None:
        cause = "has numbers with decimal points and numbers with decimal commas"
        raise ReportError(path, cause, "write it again under one locale, such as LC_ALL=C")
    return point
