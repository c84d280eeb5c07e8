"""Calls of host threads that block until device work is done, and the work for which each waits."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.frames import COPY, TO_HOST, Run
from nsys2prv.analysis.graph.device_waits import unrecorded_waits
from nsys2prv.analysis.graph.full_queues import launches_into_full_queues
from nsys2prv.analysis.graph.instants import NO_INSTANT, known_instants
from nsys2prv.analysis.graph.polling import LONGEST_GAP, outside
from nsys2prv.analysis.graph.streams import Streams, launched_before
from nsys2prv.analysis.text_columns import text_contains
from nsys2prv.model.frames import HOST_WAIT_CONTEXT, HOST_WAIT_EVENT, HOST_WAIT_STREAM
from nsys2prv.model.schemas import to_schema

# A call that blocks until device work is done: `work` is the index in Run.work (null: an event's record).
BLOCKING_CALL = {
    "task": pl.Int64(),
    "row": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "work": pl.Int64(),
    "record_time": pl.Int64(),
    "record_stream": pl.Int64(),
}
# Calls that free memory wait for all work of the device, too, before they unmap it (CUDA programming guide, implicit
# synchronization), but not always: memory of a pool is free at once.
_FREES = ("cudaFree", "cudaFreeArray", "cudaFreeHost", "cudaFreeMipmappedArray", "cuMemFree", "cuMemFreeHost")
# Kinds of memory of a copy that blocks its caller until it is done, and of one that does until it is staged.
_TO_PAGEABLE, _FROM_PAGEABLE = r"^Device.* to Pageable$", "^Pageable to "
# The call lasts for this share of such a copy or more; that of a small one returns before.
LEAST_HELD_SHARE = 0.9


def blocking_calls(run: Run, streams: Streams, polling: pl.DataFrame) -> pl.DataFrame:
    """Return BLOCKING_CALL: synchronizations with all that they wait for; copies, frees, launches that block; polling.

    `polling`: see polling.polls. Run.waits, not Run.calls, has the records that say what a call waits for.
    """
    waits = run.waits.filter(pl.col("kind").is_in([HOST_WAIT_EVENT, HOST_WAIT_STREAM, HOST_WAIT_CONTEXT]))
    every = waits.rename({"time": "start"})
    waits, copies = outside(every, polling), _launched_copies(run)
    # Most calls do not block.
    calls = _cuda_calls(run, pl.concat([part.select("row", "start") for part in (waits, copies)]))
    waits = waits.join(calls, on=["row", "start"], maintain_order="left")
    waits = waits.with_columns(end="called_until", on=streams.of(waits["stream"]))
    by_event = pl.col("kind") == HOST_WAIT_EVENT
    unrecorded = unrecorded_waits(run.calls, waits.drop_nulls("end"))
    awaited = _awaited_streams(waits.filter(~by_event), unrecorded, streams)
    on_streams = launched_before(run, streams, awaited, "on", "start")
    parts = [
        pl.DataFrame(schema=BLOCKING_CALL),
        _without_event(on_streams.drop_nulls("work")),
        waits.filter(by_event).with_columns(work=pl.lit(None, pl.Int64)),
        _blocking_copies(copies, calls),
        _blocking_frees(run, streams),
        _without_event(launches_into_full_queues(run)),
        _blocking_polls(run, streams, polling, every),
    ]
    return pl.concat([to_schema(part, BLOCKING_CALL) for part in parts])


def blocking_reads(run: Run) -> pl.DataFrame:
    """Return task, row, start and end of calls that copy to a host and return when that is done; `call`: their names.

    Of blocking copies, only these wait for what the device computed: those to a device return once staged.
    """
    reads = _launched_copies(run).filter(pl.col("name") == TO_HOST)
    blocking = _blocking_copies(reads, _cuda_calls(run, reads.select("row", "start")))
    return blocking.select("task", "row", "start", "end", "call")


def _cuda_calls(run: Run, wanted: pl.DataFrame) -> pl.DataFrame:
    """Return row, start (no two the same), `called_until` and `call` of the CUDA calls that begin at wanted instants.

    `wanted`: row and start.
    """
    calls = run.calls.select("row", "start", "kind", called_until="end", call="name").filter(pl.col("kind") == "cuda")
    known = wanted.unique().sort("row", "start")
    at = known_instants(known["row"], known["start"], calls["row"], calls["start"])
    return (
        calls.drop("kind")
        .filter(pl.Series(at != NO_INSTANT))
        .unique(["row", "start"], keep="first", maintain_order=True)
    )


def _without_event(calls: pl.DataFrame) -> pl.DataFrame:
    """Add the columns of an event's record, null: the calls wait for work, and not for an event."""
    nothing = pl.lit(None, pl.Int64)
    return calls.with_columns(record_time=nothing, record_stream=nothing)


def _awaited_streams(waits: pl.DataFrame, unrecorded: pl.DataFrame, streams: Streams) -> pl.DataFrame:
    """Return task, row, start and end of waits for streams and contexts, and `on`: each stream that they wait for.

    A context stands for all streams of its device (`on`: any stream of it). A stream without work of its own, such as
    the default stream, and what is on no known device stand for all streams of their task.
    """
    whole = ("task", "row", "start", "end")
    known = streams.with_work.rename({"stream": "on"})
    one = (pl.col("kind") != HOST_WAIT_CONTEXT) & pl.col("on").is_between(0, known.height - 1)
    several = waits.filter(~one).join(known.drop("task"), on="on", how="left")
    both = [several.select(*whole, "device"), unrecorded.select(whole)]
    every = pl.concat(both, how="diagonal").join(known, on="task")
    same = pl.col("device").is_null() | (pl.col("device") == pl.col("device_right"))
    return pl.concat([frame.select(*whole, "on") for frame in (waits.filter(one), every.filter(same))])


def until_staged(run: Run) -> Run:
    """Return the run with copies from pageable memory shortened to the end of their calls, where these last as long.

    The driver copies such memory piece by piece to memory of its own, and returns when the last piece is there: 7 to
    20 us before it is on the device (CUDA driver API, API synchronization behavior).
    """
    copies = _launched_copies(run).filter(text_contains("memory", _FROM_PAGEABLE))
    if copies.is_empty():
        return run
    begins = run.work["start"].gather(copies["work"]).alias("begin")
    calls = _cuda_calls(run, copies.select("row", "start"))
    called = copies.with_columns(begins).join(calls, on=["row", "start"])
    held = pl.col("called_until") - pl.col("begin") >= LEAST_HELD_SHARE * (pl.col("end") - pl.col("begin"))
    staged = called.filter(held, pl.col("called_until") < pl.col("end"))
    ends = run.work["end"].scatter(staged["work"].to_numpy(), staged["called_until"])
    return run._replace(work=run.work.with_columns(ends))


def _launched_copies(run: Run) -> pl.DataFrame:
    """Return copies, with `name`, `work` (index in Run.work), `memory`, and row and start of the launching call."""
    columns = ("task", "kind", "name", "end", "memory")
    named = run.work.select(*columns, row="caller_row", start="launched").with_row_index("work")
    return named.filter(pl.col("kind") == COPY, pl.col("row").is_not_null())


def _blocking_copies(copies: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return copies (of `_launched_copies`) whose call returned after they were done, though it could have before.

    Asynchronous calls block, too, while they copy from a device to pageable memory (CUDA driver API, API
    synchronization behavior), or from it (see until_staged); others may return late by chance.

    `calls`: row, start (no two the same), call and called_until of their CUDA calls.
    """
    called = copies.join(calls, on=["row", "start"])
    pageable = text_contains("memory", f"{_TO_PAGEABLE}|{_FROM_PAGEABLE}")
    may_block = ~text_contains("call", "Async") | pageable.fill_null(False)
    blocks = may_block & (pl.col("called_until") >= pl.col("end"))
    return _without_event(called.filter(blocks).with_columns(end="called_until"))


def _blocking_frees(run: Run, streams: Streams) -> pl.DataFrame:
    """Return BLOCKING_CALL of calls that free memory and returned only after all work of a device launched before them.

    `end` is when that work was done; then the call unmaps memory. A call that returned earlier waited for nothing.
    """
    calls = run.calls.filter(pl.col("kind") == "cuda", pl.col("name").is_in(_FREES)).with_row_index("call")
    if calls.is_empty():
        return pl.DataFrame(schema=BLOCKING_CALL)
    done = _last_before(run, streams, calls).with_columns(until=pl.col("done").max().over("call", "device"))
    waited = done.filter(pl.col("until").is_between("start", "end"), pl.col("done") > pl.col("start"))
    return _without_event(waited.with_columns(end="until"))


def _blocking_polls(run: Run, streams: Streams, series: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """Return BLOCKING_CALL of series of polling. `waits`: WAIT with `start`, of their queries, too.

    They wait for the event of the last query. If its record is not known, the work launched last on a stream before the
    series counts, if it ends within the series and close to its end: a query soon sees it. Of several streams the one
    that ends last counts.
    """
    if series.is_empty():
        return pl.DataFrame(schema=BLOCKING_CALL)
    end = pl.col("end")
    asked = waits.select("row", "record_time", "record_stream", asked="start").sort("asked")
    last = series.sort("end").join_asof(
        asked, left_on="end", right_on="asked", by="row", strategy="backward", check_sortedness=False
    )
    known = ((pl.col("asked") >= pl.col("start")) & pl.col("record_time").is_not_null()).fill_null(False)
    by_event = last.filter(known).with_columns(work=pl.lit(None, pl.Int64))
    others = _without_event(last.filter(~known)).with_row_index("call")
    done = _last_before(run, streams, others)
    seen = done.filter(pl.col("done").is_between(end - LONGEST_GAP, end), pl.col("done") > pl.col("start"))
    by_work = seen.sort("done", "work").unique("call", keep="last")
    return pl.concat([frame.select(BLOCKING_CALL.keys()) for frame in (by_event, by_work)])


def _last_before(run: Run, streams: Streams, calls: pl.DataFrame) -> pl.DataFrame:
    """Return calls (CALLS) once for each stream of their task, with the work launched last on it before them.

    `work`: its index in Run.work; `done`: when it ends (ns); `device`: that of the stream. Streams without work by then
    are left out.
    """
    on_streams = calls.join(streams.with_work.rename({"stream": "on"}), on="task")
    last = launched_before(run, streams, on_streams, "on", "start").drop_nulls("work")
    return last.with_columns(done=run.work["end"].gather(last["work"]))
