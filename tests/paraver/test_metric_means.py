"""Means of metrics in Paraver are those of the samples, with pauses and where the trace goes on without samples."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import paramedir
import pytest
from runs import reports_of

import nsys2prv
from nsys2prv.paraver.cfg import CFGS
from nsys2prv.paraver.cfg.hwcounters import METRIC_LABELS

pytestmark = pytest.mark.paraver


def paused(report: Path, copy: Path) -> dict[str, float]:
    """Copy a report without a quarter of its samples and without the last eighth; return the mean of each metric."""
    shutil.copy(report, copy)
    with closing(sqlite3.connect(copy)) as database, database:
        times = [t for (t,) in database.execute("SELECT DISTINCT timestamp FROM GPU_METRICS ORDER BY 1")]
        cuts = [times[len(times) * quarter // 8] for quarter in (3, 5, 7)]
        database.execute("DELETE FROM GPU_METRICS WHERE timestamp >= ? AND timestamp < ? OR timestamp >= ?", cuts)
        return dict(
            database.execute(
                "SELECT trim(n.metricName), avg(m.value) FROM GPU_METRICS m"
                " JOIN TARGET_INFO_GPU_METRICS n USING (typeId, metricId) GROUP BY 1"
            )
        )


def test_means_are_those_of_the_samples(tmp_path: Path) -> None:
    paramedir.program()
    names = {
        label.replace("SM*", "SMs").replace("Active*", "Active [Throughput %]"): s for s, label in METRIC_LABELS.items()
    }
    expected = {
        names[n]: mean for n, mean in paused(reports_of("gpt-ddp")[0], tmp_path / "r.sqlite").items() if n in names
    }
    assert len(expected) > 20
    made = nsys2prv.translate(tmp_path / "r.sqlite", tmp_path / "trace", writing=nsys2prv.TraceOutput(window="trace"))
    assert made.prv is not None
    # The first of two tables: paramedir prints the last.
    cfgs = [c._replace(histograms=c.histograms[:1]) for c in CFGS if c.folder == "hwcounters" and c.name in expected]
    output = paramedir.run_parts(made.prv, cfgs, tmp_path / "means")
    for slug, mean in expected.items():
        if mean:
            scale = 1e-6 if METRIC_LABELS[slug].endswith("[MHz]") else 1.0
            (found,) = output.table(f"hwcounters/{slug}").values()
            # The sampler's periods differ by some ns.
            assert found == pytest.approx(mean * scale, rel=1e-4), slug
