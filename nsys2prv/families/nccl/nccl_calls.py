"""NCCL calls of host threads with their payloads, in groups, and the kernel that each group launches.

A call outside a group launches its kernel itself. Between ncclGroupStart and the ncclGroupEnd that closes it (the
outermost, where groups nest) calls only gather; the end launches, and a kernel carries several of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsys2prv.families.nvtx_events import NCCL_DOMAIN
from nsys2prv.families.payloads import UNREAD, Field, payload_fields
from nsys2prv.families.source import Source
from nsys2prv.model import event_types as types
from nsys2prv.model.losses import Loss
from nsys2prv.report import schema

CALL_PATTERN = r"^nccl[A-Z]"
GROUP_START, GROUP_END = ("ncclGroupStart",), ("ncclGroupEnd", "ncclGroupSimulateEnd")
# Its payload has the new communicator, with rank and number of ranks of the one that is split (NCCL 2.25 to 2.30).
OF_PARENT = ("ncclCommSplit",)

# Payload fields as NCCL names them (src/collectives.cc, src/init.cc of its releases). Before 2.25 no payload has the
# communicator, and those of sends and receives call their size `Bytes`.
FIELDS = {
    "communicator": Field(("NCCL communicator ID", "NCCL communicator"), number=False),
    "bytes": Field(("Message size [bytes]", "Data size [bytes]", "Bytes")),
    "reduction": Field(("Reduction operation",), number=False),
    "root": Field(("Root",)),
    "peer": Field(("Peer rank", "Peer")),
    "ranks": Field(("No. of ranks",)),
    "rank": Field(("Rank",)),
    # The process' own number of the GPU, on calls that make or end a communicator.
    "gpu": Field(("CUDA device",)),
}
OPERATION_NUMBERS = {name: n for n, name in types.NCCL_OPERATION.values.items()}
# Values of the operation; those of a rank's part in it are frames.SEND and frames.RECEIVE.
SEND_CALL, RECV_CALL, SEND_RECV, SEVERAL = (
    OPERATION_NUMBERS[name] for name in ("Send", "Recv", "Send and Recv", "Several")
)
MESSAGE_CALLS = (SEND_CALL, RECV_CALL)
OPERATIONS = {f"nccl{name}": n for name, n in OPERATION_NUMBERS.items() if n not in (SEND_RECV, SEVERAL)}
OPERATIONS |= {"ncclBcast": OPERATION_NUMBERS["Broadcast"]}
REDUCTIONS = {name: n for n, name in types.NCCL_REDUCTION.values.items()}
REDUCTIONS |= {"Prod": REDUCTIONS["Product"]}
OTHER_REDUCTION = REDUCTIONS["Other"]
# The word in a kernel's name for each operation. Operations made of sends and receives run in SendRecv kernels.
OWN_KERNELS = ("AllReduce", "AllGather", "ReduceScatter", "Reduce", "Broadcast")
KERNEL_WORDS = dict.fromkeys(OPERATIONS.values(), "SendRecv") | {OPERATION_NUMBERS[name]: name for name in OWN_KERNELS}
KERNEL_WORD = rf"(?i)^nccl(?:Symk?)?(?:Dev)?Kernel_({'|'.join(OWN_KERNELS)}|SendRecv)"


def is_call() -> pl.Expr:
    """Return True for the rows of Source.ranges that are NCCL calls."""
    return (
        (pl.col("domain") == NCCL_DOMAIN)
        & pl.col("text").str.contains(CALL_PATTERN)
        & pl.col("eventType").is_in(schema.PUSH_POP)
        & pl.col("globalTid").is_not_null()
    )


def call_events(source: Source) -> pl.DataFrame:
    """Return NVTX events that are calls of NCCL's: see Source.ranges."""
    return source.ranges().filter(is_call())


def nccl_calls(source: Source, events: pl.DataFrame) -> pl.DataFrame:
    """Return NCCL calls from call_events: start, end, globalTid, text, the columns of FIELDS, and operation.

    Operation and reduction are values of their event types; null: none.
    """
    fields = payload_fields(events, FIELDS, source.table, source.report.strings)
    source.tally.count(Loss.PAYLOAD_UNREAD, int(fields[UNREAD].sum()))
    still_open = events["end"].null_count()
    source.tally.count(Loss.STILL_OPEN, still_open)
    source.tally.count(Loss.NEGATIVE, int((events["end"] < events["start"]).sum()))
    calls = pl.concat(
        [events.select("start", "end", "globalTid", "text"), fields.drop(UNREAD)], how="horizontal"
    ).with_columns(
        end=pl.col("end").fill_null(source.last if still_open else 0).clip(lower_bound=pl.col("start")),
        operation=pl.col("text").replace_strict(OPERATIONS, default=None, return_dtype=pl.Int64),
        reduction=pl.col("reduction").replace_strict(REDUCTIONS, default=OTHER_REDUCTION, return_dtype=pl.Int64),
    )
    return calls.with_columns(
        # A communicator that is still being made has no number yet.
        communicator=pl.when((pl.col("communicator") != "0") | pl.col("operation").is_not_null()).then("communicator"),
        reduction=pl.when(fields["reduction"].is_not_null()).then("reduction"),
    )


def launch_units(calls: pl.DataFrame, first: int = 1) -> pl.DataFrame:
    """Return NCCL calls sorted by thread and time, with three columns more.

    `unit`: number, from `first` on, of the call or group that launches; `top`: true if no other call encloses this one;
    `open`: number of groups open after it.
    """
    calls = calls.sort("globalTid", "start", "end", descending=[False, False, True], maintain_order=True)
    step = pl.col("text").is_in(GROUP_START).cast(pl.Int64) - pl.col("text").is_in(GROUP_END).cast(pl.Int64)
    calls = calls.with_columns(
        depth=step.cum_sum().over("globalTid"),
        top=(pl.col("end").cum_max().shift(1).over("globalTid") <= pl.col("start")).fill_null(True),
    )
    # A capture may begin within a group: an end without its start leaves the depth at 0.
    calls = calls.with_columns(open=pl.col("depth") - pl.min_horizontal(pl.col("depth").cum_min().over("globalTid"), 0))
    begins = (pl.col("open").shift(1).over("globalTid").fill_null(0) == 0) & pl.col("top")
    return calls.with_columns(unit=begins.cum_sum().cast(pl.Int64) + (first - 1)).drop("depth")


def launched_by(kernels: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
    """Return the unit of calls that launched each kernel (`caller`, `called`); null if no call was open then."""
    tops = calls.filter("top").select("start", "end", "unit", caller="globalTid").sort("start")
    wanted = kernels.select("caller", "called").with_row_index("row").drop_nulls().sort("called")
    found = wanted.join_asof(tops, left_on="called", right_on="start", by="caller", check_sortedness=False)
    found = found.filter(pl.col("called") <= pl.col("end")).select("row", "unit")
    rows = pl.DataFrame({"row": pl.Series(range(kernels.height), dtype=pl.UInt32)})
    return rows.join(found, on="row", how="left", maintain_order="left")["unit"]


def members_of(kernels: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Match kernels with the calls they carry: `kernel` and `call` (rows of the two frames), `counts`.

    `kernels` has unit, device (see Settled), name, called, start. The kernels of one unit and GPU share its calls by
    kind and in order: one communicator after the other, by NCCL's number of it (ncclGroupCommJoin, since 2.26), and as
    called. A call that took several kernels counts in the first of them: sums over kernels are those over calls.
    """
    launched = kernels.with_row_index("kernel").drop_nulls("unit")
    launched = launched.select(
        "kernel", "unit", "device", "called", "start", word=pl.col("name").str.extract(KERNEL_WORD).fill_null("")
    )
    number = pl.col("communicator").cast(pl.UInt64, strict=False)
    operations = calls.with_row_index("call").filter(pl.col("operation").is_not_null())
    operations = operations.sort(number, "call").select(
        "call",
        "unit",
        "device",
        number=number,
        word=pl.col("operation").replace_strict(KERNEL_WORDS, default="", return_dtype=pl.String()),
    )
    key = ["unit", "device", "word"]
    launched, operations = _with_common_words(launched, operations, key)
    launched = launched.sort("called", "start", "kernel").with_columns(nth_kernel=pl.int_range(pl.len()).over(key))
    operations = operations.with_columns(
        nth_call=pl.int_range(pl.len()).over(key), nth_communicator=pl.col("number").rle_id().over(key)
    )
    counts = launched.group_by(key).agg(kernels=pl.len().cast(pl.Int64))
    counted = operations.join(counts, on=key, nulls_equal=True).with_columns(
        calls=pl.len().over(key).cast(pl.Int64), communicators=pl.col("nth_communicator").max().over(key) + 1
    )
    pairs = launched.join(counted, on=key, nulls_equal=True)
    of_call = pl.col("nth_call") * pl.col("kernels") // pl.col("calls") == pl.col("nth_kernel")
    of_kernel = pl.col("nth_kernel") * pl.col("calls") // pl.col("kernels") == pl.col("nth_call")
    shared = pl.when(pl.col("calls") >= pl.col("kernels")).then(of_call).otherwise(of_kernel)
    one_each = pl.col("kernels") == pl.col("communicators")
    chosen = pairs.filter(pl.when(one_each).then(pl.col("nth_communicator") == pl.col("nth_kernel")).otherwise(shared))
    first = pl.col("nth_kernel") == pl.col("nth_kernel").min().over("call")
    return chosen.select("kernel", "call", counts=first).sort("kernel", "call")


def _with_common_words(kernels: pl.DataFrame, calls: pl.DataFrame, key: Sequence[str]) -> tuple[pl.DataFrame, ...]:
    """Return kernels and calls, with an empty `word` where the other side has none like it in the rest of `key`.

    So kernels without a call of their name, and calls without a kernel of their kind, are matched with each other.
    """
    both = kernels.select(key).unique().join(calls.select(key).unique(), on=key, nulls_equal=True)
    both = both.with_columns(common=True)
    return tuple(
        frame.join(both, on=key, how="left", nulls_equal=True, maintain_order="left").with_columns(
            word=pl.when("common").then("word").otherwise(pl.lit(""))
        )
        for frame in (kernels, calls)
    )
