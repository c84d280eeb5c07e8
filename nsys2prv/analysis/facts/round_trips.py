"""Data that devices send to their hosts and get back: arrays that a program could keep on the device."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.thresholds import ONE_PLACE, SAME_BYTES, VALUE_BYTES
from nsys2prv.analysis.frames import COPY, TO_DEVICE, TO_HOST
from nsys2prv.analysis.interval_frames import whole_with_ns

KEPT = Words(
    general="arrays of the device rather than of NumPy, data regions of OpenACC and OpenMP",
    pytorch="an optimizer on the GPU, activations that are computed again",
    jax="arrays of jax.numpy rather than of NumPy",
    cupy="numba.cuda.to_device, cupy.asarray",
    cuda="data regions of OpenACC and OpenMP, buffers of the device that are allocated once",
)


def advice_on_round_trips(case: Case) -> str:
    """Return a sentence on data that goes to hosts and back, with a space behind it; else an empty text."""
    copies = whole_with_ns(case.run.work.filter(pl.col("kind") == COPY), case.analysis.window.spans)
    sums = copies.group_by(pl.col("name").cast(pl.String)).agg(pl.col("bytes").sum())
    known = dict(sums.rows())
    to_device, to_host = (int(known.get(name) or 0) for name in (TO_DEVICE, TO_HOST))
    if to_device and abs(to_device - to_host) <= SAME_BYTES.value * max(to_device, to_host):
        what = "As many bytes come back from the device as go there"
    elif to_host and _sent_back(case) >= ONE_PLACE.value * to_host:
        what = "Most data that comes to the host goes back to the device at once"
    else:
        return ""
    return f"{what}: keep on it what is needed again ({KEPT.of(case.framework)}). "


def _sent_back(case: Case) -> int:
    """Return the bytes of copies to hosts which as large a copy back follows, with nothing between on their device."""
    work = case.run.work.select("device", "start", "bytes", name=pl.col("name").cast(pl.String))
    ordered = work.sort("device", "start", maintain_order=True)
    ordered = ordered.with_columns(next=pl.col("name").shift(-1).over("device"))
    ordered = ordered.with_columns(back=pl.col("bytes").shift(-1).over("device"))
    returned = ordered.filter(
        pl.col("name") == TO_HOST,
        pl.col("next") == TO_DEVICE,
        pl.col("bytes") > VALUE_BYTES.value,
        pl.col("back") == pl.col("bytes"),
        pl.col("start").is_between(case.analysis.window.start, case.analysis.window.end),
    )
    return int(returned["bytes"].sum())
