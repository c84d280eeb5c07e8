"""Calls of the C library and the system by what a host does in them, and advice on each."""

from __future__ import annotations

import re

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen, see_samples
from nsys2prv.analysis.graph.polling import QUERIES
from nsys2prv.analysis.text_columns import text_contains

# Calls that open, write and close files. Reads also wait for pipes and sockets.
FILE_CALLS = re.compile(r"(?:f?open|f?close|p?writev?2?|fwrite|fsync|fdatasync|fflush|ftruncate)(?:at|64)?$")
# Calls that start processes or wait for their end.
PROCESS_CALLS = re.compile(r"(?:v?fork|clone3?|posix_spawnp?|exec[lv]p?e?|wait|wait[34]|waitpid|waitid)$")
# Of these, the ones that wait.
WAITS_FOR_PROCESS = re.compile(r"(?:wait|wait[34]|waitpid|waitid)$")
# Calls in which a thread sleeps for a time that it chose itself.
SLEEPS = re.compile(r"(?:sleep|usleep|(?:clock_)?nanosleep)$")
# Calls that get memory of the host from the system, or give it back.
MEMORY_CALLS = re.compile(r"(?:mmap(?:64)?|munmap|mremap|madvise|mprotect|s?brk)$")
OF_MEMORY = (
    "The thread that launches gets memory of the host from the system, or gives it back, as for large arrays that are "
    "made again and again: keep such buffers, or use an allocator that keeps memory (jemalloc, tcmalloc, "
    "MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_ of glibc)."
)
OF_FILES = (
    "The thread that launches opens, writes or closes files: write from another thread or process (asynchronous "
    "checkpoints), less often, or to a file system near the GPU."
)
OF_SLEEPING = (
    "The host sleeps for a time that the program sets (time.sleep, usleep): see what it waits for, a file, a rate, "
    "another process, and wait for that itself."
)
OF_POLLING = Words(
    general="The host sleeps between two questions whether the device is done ({query}): wait for the event or stream "
    "itself (with cudaEventBlockingSync the core is free meanwhile), or sleep for far less.",
    pytorch="The host sleeps between two questions whether the device is done ({query}, as of `event.query()`): wait "
    "for the event itself (event.synchronize(); torch.cuda.Event(blocking=True) leaves the core free), or sleep for "
    "far less.",
)
OF_PROCESSES = Words(
    general="The thread that launches starts processes and waits for their end (fork, system): keep them, start them "
    "before the loop, or wait for them in another thread.",
    pytorch="The thread that launches starts processes and waits for their end, as a DataLoader does in each epoch "
    "(persistent_workers=True keeps them), or subprocess.run: start them before the loop, or wait for them in another "
    "thread.",
)
OF_OTHERS = Words(
    general="The thread that launches waits for another one or sleeps: for data, prepare more ahead; else look for "
    "locks, files and pauses: {samples}.",
    pytorch="The thread that launches waits for another one or sleeps: for data, prepare more ahead (num_workers, "
    "prefetch_factor); else look for locks, files and pauses: {samples}.",
    jax="The thread that launches waits for another one or sleeps. Where it waits for results (float(x), "
    "np.asarray(x), jax.block_until_ready), read them some steps later; for data, prepare more ahead; else look for "
    "locks and files: {samples}.",
)


def advice_on_call(case: Case, name: str, seen: Seen, rank: int | None = None) -> str:
    """Return advice on a call of the system in which a thread that launches is, by what it is for.

    `seen`: what samples say of that time; `rank`: only threads of its process count.
    """
    if PROCESS_CALLS.match(name) or _of_a_process(case, name, rank):
        return OF_PROCESSES.of(case.framework)
    if SLEEPS.match(name):
        query = _asked_before(case, name, rank)
        return OF_POLLING.of(case.framework).format(query=f"`{query}`") if query else OF_SLEEPING
    if MEMORY_CALLS.match(name):
        return OF_MEMORY
    others = OF_OTHERS.of(case.framework).format(samples=see_samples(case.run, seen))
    return OF_FILES if FILE_CALLS.match(name) else others


def _asked_before(case: Case, name: str, rank: int | None) -> str | None:
    """Return the query of the device that comes before and after most time of a call of the system; else None."""
    calls = _of_launchers(case, rank)
    asked = calls.filter(pl.col("kind") == "cuda").select("row", asked="start", query=pl.col("name").cast(pl.String))
    asked = asked.sort("asked")
    known = calls.filter(pl.col("kind") == "os", pl.col("name") == name).sort("start")
    before = known.join_asof(asked, left_on="start", right_on="asked", by="row", check_sortedness=False)
    both = before.join_asof(
        asked.select("row", "asked", again="query"),
        left_on="start",
        right_on="asked",
        by="row",
        strategy="forward",
        check_sortedness=False,
    )
    queries = both.filter(pl.col("query").is_in(QUERIES), pl.col("again").is_in(QUERIES))
    if 2 * int(queries["ns"].sum()) <= int(known["ns"].sum()):
        return None
    return str(queries["query"].mode().sort()[0])


def _of_a_process(case: Case, name: str, rank: int | None) -> bool:
    """Return True if threads that launch wait for the end of a process after most of their time in a call.

    Programs read what a process writes until it closes that (`poll`, `read`), and then wait for its end, before they
    call CUDA again.
    """
    calls = _of_launchers(case, rank)
    waits = (pl.col("kind") == "os") & text_contains("name", f"^{WAITS_FOR_PROCESS.pattern}")
    nexts = calls.select("row", next="start", waits=waits, of_cuda=pl.col("kind") == "cuda")
    nexts = nexts.filter(pl.col("waits") | pl.col("of_cuda")).sort("next")
    own = calls.filter(pl.col("kind") == "os", pl.col("name") == name).sort("end")
    known = own.join_asof(nexts, left_on="end", right_on="next", by="row", strategy="forward", check_sortedness=False)
    return 2 * int(known.filter("waits")["ns"].sum()) > int(own["ns"].sum())


def _of_launchers(case: Case, rank: int | None) -> pl.DataFrame:
    """Return the calls of threads that launch in the window, with `ns`; `rank`: of its process alone."""
    of_rank = pl.lit(True) if rank is None else pl.col("task") == case.run.task_by_rank[rank]
    return case.kept_calls(
        case.run.calls.filter(pl.col("row").is_in(pl.Series(case.launchers.rows).implode()), of_rank)
    )
