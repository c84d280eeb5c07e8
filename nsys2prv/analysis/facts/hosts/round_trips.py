"""Data that devices send to their hosts and get back: arrays that a program could keep on the device."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import MOST_SENT_BACK, SAME_BYTES, VALUE_BYTES
from nsys2prv.analysis.frames import COPY, MPI, TO_DEVICE, TO_HOST
from nsys2prv.analysis.interval_frames import whole_with_ns

KEPT = Words(
    general="arrays of the device rather than of NumPy, data regions of OpenACC and OpenMP",
    pytorch="an optimizer on the GPU, activations that are computed again",
    jax="arrays of jax.numpy rather than of NumPy",
    cupy="numba.cuda.to_device, cupy.asarray",
    cuda="data regions of OpenACC and OpenMP, buffers of the device that are allocated once",
)


@once
def advice_on_round_trips(case: Case) -> str:
    """Return a sentence on data that goes to hosts and back, with a space behind it; else an empty text.

    Copies of single values do not count. What a rank of MPI gets back may be another rank's: it says nothing there.
    """
    if case.run.rank_count > 1 and (case.run.calls["kind"] == MPI).any():
        return ""
    copies = whole_with_ns(case.run.work.filter(pl.col("kind") == COPY), case.analysis.window.spans)
    data = copies.filter(pl.col("bytes") > VALUE_BYTES.value)
    known = dict(data.group_by(pl.col("name").cast(pl.String)).agg(pl.col("bytes").sum()).rows())
    to_device, to_host = (int(known.get(name) or 0) for name in (TO_DEVICE, TO_HOST))
    if to_device and abs(to_device - to_host) <= SAME_BYTES.value * max(to_device, to_host):
        what = "As many bytes come back from the device as go there"
    elif to_host and _sent_back(case) >= MOST_SENT_BACK.value * to_host:
        what = "Most data that comes to the host goes back to the device at once"
    else:
        return ""
    return f"{what}: keep on the device what is needed again ({KEPT.of(case.framework)}). "


def _sent_back(case: Case) -> int:
    """Return the bytes of copies to hosts which as large a copy back follows, with nothing between on their device."""
    window = case.analysis.window
    inside = case.run.work.filter(pl.col("start").is_between(window.start, window.end))
    ordered = inside.select("device", "name", "bytes").sort("device", maintain_order=True)
    named, same = pl.col("name").cast(pl.String), pl.col("device") == pl.col("device").shift(-1)
    returned = ordered.filter(
        named == TO_HOST,
        named.shift(-1) == TO_DEVICE,
        same,
        pl.col("bytes") > VALUE_BYTES.value,
        pl.col("bytes") == pl.col("bytes").shift(-1),
    )
    return int(returned["bytes"].sum())
