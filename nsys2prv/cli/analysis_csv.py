"""Analyses as CSV: every table, and sums under the columns of `nsys stats`, for scripts that read its CSV."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import polars as pl

from nsys2prv.analysis.analysis_record import Analysis
from nsys2prv.analysis.sums_by_name import NVIDIA
from nsys2prv.cli.sections import SECTIONS


class _Report(NamedTuple):
    """A report of `nsys stats`: its name, and its columns for the number of rows and for their name."""

    name: str
    rows: str
    named: str


# By section. The columns were taken from the scripts of nsys 2023.4.4.
REPORTS = {
    "kernels": _Report("cuda_gpu_kern_sum", "Instances", "Name"),
    "api": _Report("cuda_api_sum", "Num Calls", "Name"),
    "memory": _Report("cuda_gpu_mem_time_sum", "Count", "Operation"),
    "nvtx": _Report("nvtx_pushpop_sum", "Instances", "Range"),
}
_SUMS = ("Time (%)", "Total Time (ns)", "", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)")


def as_nsys(section: str, table: pl.DataFrame) -> pl.DataFrame:
    """Return the sums over all ranks of a section of REPORTS under nsys's columns; ours that nsys lacks follow."""
    report = REPORTS[section]
    own = table.filter(pl.col("rank").is_null())
    if section == "api":
        own = own.filter(pl.col("kind") == "cuda")
    if section == "memory":
        memset = pl.col("name") == "memset"
        own = own.with_columns(
            name=pl.when(memset).then(pl.lit("[CUDA memset]")).otherwise(pl.format("[CUDA memcpy {}]", "name"))
        )
    names = dict(zip(NVIDIA, (name or report.rows for name in _SUMS), strict=True))
    further = [c for c in own.columns if c not in (*NVIDIA, "name", "rank")]
    return own.select(pl.col(list(NVIDIA)), "name", *further).rename({**names, "name": report.named})


# Sections of the tables of CSV that have another name.
_SECTION_OF = {
    "left_out": "window",
    "overlap_by_operation": "overlap",
    "ncu_files": "ncu",
    "phases": "efficiency",
    "iteration_efficiency": "efficiency",
    "delays": "iterations",
    "waiting_of_gpus": "waiting",
    "critical_path_classes": "critical-path",
    "critical_path_ranks": "critical-path",
}


def csv_of(analysis: Analysis, chosen: Collection[str] = SECTIONS) -> str:
    """Return the tables of an analysis as CSV, each after a line `# name`; one table has no such line.

    `chosen`: sections. Those of `nsys_columns.REPORTS` have the columns of `nsys stats`, unless all are chosen.
    """
    tables = _tables(analysis)
    if set(chosen) != set(SECTIONS):
        sums = {"kernels": analysis.kernels, "api": analysis.api, "memory": analysis.memory, "nvtx": analysis.nvtx}
        tables |= {name: as_nsys(name, table).to_dicts() for name, table in sums.items()}
    shown = {
        name: pl.DataFrame(rows, infer_schema_length=None).write_csv()
        for name, rows in tables.items()
        if rows and _section(name) in chosen
    }
    if len(shown) == 1 and len(chosen) == 1:
        return next(iter(shown.values()))
    return "".join(f"# {name}\n{text}\n" for name, text in shown.items())


def _section(table: str) -> str:
    """Return the section of a table."""
    return _SECTION_OF.get(table, table.replace("_", "-"))


def _tables(analysis: Analysis) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table."""
    values = analysis.as_json()
    ncu = values.get("ncu", {})
    return {
        "findings": [_finding(one) for one in values["findings"]],
        "window": [{**_plain(values["window"]), "nccl": values["nccl"]}],
        "left_out": [_plain(one) for one in values["window"]["left_out"]],
        "efficiency": [values["efficiency"]],
        "devices": values["devices"],
        "host": values["host"]["ranks"],
        "overlap": values["overlap"],
        "overlap_by_operation": values["overlap_by_operation"],
        "phases": [_flat(p) for p in values["phases"]],
        "iteration_efficiency": [_flat(p) for p in values["iterations"]["efficiency"]],
        "iterations": values["iterations"]["rows"],
        "delays": values["iterations"]["delays"],
        "metrics": [_class_mean(fit, one) for fit in values["metrics"] for one in fit["classes"]],
        **{
            name: values[name]
            for name in ("classes", "kernels", "memory", "memory_kinds", "api", "ranges", "idle", "host_samples")
        },
        "ncu_files": ncu.get("files", []),
        "ncu": ncu.get("classes", []),
        "roofline": ncu.get("roofline", []),
        "nvtx": analysis.nvtx.to_dicts(),
        "launches": values["launches"]["kernels"],
        "queues": values["launches"]["queues"],
        "communication": values["communication"],
        "waiting": values["waiting"],
        "waiting_of_gpus": values["waiting_of_gpus"],
        "causes": values["causes"],
        "critical_path": values["critical_path"]["by_kind"],
        "critical_path_classes": values["critical_path"]["by_class"],
        "critical_path_ranks": values["critical_path"]["by_rank"],
        "idle_causes": values["idle_causes"],
        "what_if": values["what_if"],
        "contention": values["contention"],
        "pipeline": values["pipeline"],
        "nccl_bandwidths": values["nccl_bandwidths"],
        "defects": [{**d, "reports": " + ".join(d["reports"])} for d in values["defects"]],
        "warnings": [{"warning": text} for text in values["warnings"]],
        "missing": values["missing"],
    }


def _finding(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a finding as one row of CSV: lists and evidence as texts."""
    evidence = "; ".join(f"{name}={value}" for name, value in values["evidence"].items())
    return {**_plain(values), "evidence": evidence}


def _class_mean(fit: dict[str, Any], mean: dict[str, Any]) -> dict[str, Any]:
    """Return the mean of classes as one row of CSV, with the GPU and the metric of its fit."""
    of = {name: fit[name] for name in ("rank", "gpu", "metric")}
    return {**of, **mean, "classes": " + ".join(mean["classes"])}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of one row of CSV: lists as texts, without spans and left-out iterations."""
    texts = {name: " ".join(map(str, v)) if isinstance(v, list) else v for name, v in values.items()}
    return {name: v for name, v in texts.items() if name not in ("spans", "left_out")}


def _flat(phase: dict[str, object]) -> dict[str, object]:
    """Return a phase or an iteration as one row of CSV, without its devices."""
    efficiency = phase["efficiency"]
    assert isinstance(efficiency, dict)
    return {"name": phase["name"], "occurrences": phase["occurrences"], "window_ns": phase["window_ns"], **efficiency}
