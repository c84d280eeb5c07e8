"""NCCL kernels of a single channel: one block moves large messages, far slower than the links allow."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.communication.nccl_transfers import nccl_transfers
from nsys2prv.analysis.facts.thresholds import BANDWIDTH_BYTES, LARGE_TRANSFER, ONE_CHANNEL
from nsys2prv.analysis.work_attributes import blocks_of


def advice_on_channels(case: Case) -> str:
    """Return what to do if most exposed transfers are of large messages that one channel moves; else an empty text.

    NCCL launches a block for each channel (NCCL's user guide, NCCL_MAX_NCHANNELS), and takes few for small messages. Of
    unknown bytes those count that take long.
    """
    transfers = nccl_transfers(case).with_columns(blocks=blocks_of(pl.col("shape")))
    is_large = pl.coalesce(pl.col("bytes") >= BANDWIDTH_BYTES.value, pl.col("transfer_ns") >= LARGE_TRANSFER.value)
    single = transfers.filter(is_large, pl.col("blocks") == 1)
    exposed, of_single = int(transfers["exposed_ns"].sum()), int(single["exposed_ns"].sum())
    if not exposed or of_single < ONE_CHANNEL.value * exposed:
        return ""
    return (
        "NCCL moves large messages over one channel (one block a kernel): unset NCCL_MAX_NCHANNELS and NCCL_MAX_CTAS "
        "(max_ctas of its configuration), or see why it finds no more (NCCL_DEBUG=INFO). "
    )
