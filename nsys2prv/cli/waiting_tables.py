"""Tables of communication for the terminal: waiting and transfer, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.explanation import Explanation
from nsys2prv.analysis.exposed_waits import waiting_of_gpus
from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.waiting import ALL_OPERATIONS
from nsys2prv.cli.text_table import TABLE_ROWS, ms

# Highest number of ranks in a matrix: of more, the pairs that wait longest show.
MATRIX_RANKS = 16
# Highest number of rows: of more, those that wait longest show.
MOST_ROWS = 3 * TABLE_ROWS
TITLE = "Who waits for whom"

TextTable = tuple[list[str], list[list[str]]]


def waiting_sections(explanation: Explanation, run: Run) -> Iterator[tuple[str, str, list[str], list[list[str]]]]:
    """Yield name, title, column names and rows of each table."""
    yield (
        "communication",
        "Waiting and transfer of NCCL kernels and MPI calls (those at one time count twice)",
        *_split(explanation),
    )
    error = ""
    if run.clock_error:
        error = f" (waits for another host under {ms(run.clock_error)} ms are below the error of the clocks)"
    many = (
        explanation.waiting["waited_for"].n_unique() > MATRIX_RANKS
        or explanation.waiting["rank"].n_unique() > MATRIX_RANKS
    )
    yield "waiting", f"{TITLE}{error}", *(_pairs(explanation) if many else _matrix(explanation))
    yield "waiting", f"{TITLE} among the GPUs of a rank", *_gpus(explanation, run)


def _split(explanation: Explanation) -> TextTable:
    table = explanation.communication
    shown = table.with_row_index("nth").top_k(MOST_ROWS, by="waiting_ns").sort("nth")
    names = ["ns", "waiting_ns", "transfer_ns"]
    # Columns that most runs have no need of.
    names += [c for c in ("unmatched_ns", "uncertain_ns") if table[c].sum()]
    rows = [
        [
            str(row["rank"]),
            row["communicator"] or "",
            row["operation"],
            "" if row["operation"] == ALL_OPERATIONS else row["hosts"] or "",
            str(row["activities"]),
            *(ms(row[c]) for c in names),
            f"{100 * row['waiting_ns'] / row['ns']:.1f}",
        ]
        for row in shown.rows(named=True)
    ]
    titles = [c.removesuffix("_ns").removesuffix("ns").strip() + " ms" for c in names]
    head = ["rank", "communicator", "operation", "", "activities", *titles, "waiting %"]
    if more := table.height - shown.height:
        rows.append([f"(less waiting, not shown: {more})", *[""] * (len(head) - 1)])
    return head, rows


def _matrix(explanation: Explanation) -> TextTable:
    """Return a row for each rank that waits, and a column for each that is waited for, in ms."""
    waited_for = explanation.waiting["waited_for"].unique().sort(nulls_last=True).to_list()
    times = {
        (rank, other): ns for rank, other, ns in explanation.waiting.select("rank", "waited_for", "waiting_ns").rows()
    }
    ranks = sorted({rank for rank, _ in times})
    rows = [[str(rank), *(ms(times[rank, o]) if (rank, o) in times else "" for o in waited_for)] for rank in ranks]
    return ["rank", *(f"ms for {_name(other)}" for other in waited_for)], rows


def _pairs(explanation: Explanation) -> TextTable:
    longest = explanation.waiting.sort("waiting_ns", "rank", "waited_for", descending=[True, False, False]).head(
        MOST_ROWS
    )
    rows = [
        [str(rank), _name(other), str(count), ms(ns)]
        for rank, other, count, ns in longest.select("rank", "waited_for", "activities", "waiting_ns").rows()
    ]
    return ["rank", "waits for", "activities", "ms"], rows


def _gpus(explanation: Explanation, run: Run) -> TextTable:
    waits = waiting_of_gpus(run, explanation.exposed)
    longest = waits.sort("waiting_ns", "rank", "gpu", "gpu_waited_for", descending=[True, False, False, False])
    rows = [
        [*(str(row[c]) for c in ("rank", "gpu", "gpu_waited_for", "activities")), ms(row["waiting_ns"])]
        for row in longest.head(MOST_ROWS).rows(named=True)
    ]
    return ["rank", "gpu", "waits for gpu", "activities", "ms"], rows


def _name(rank: int | None) -> str:
    return "another rank" if rank is None else f"rank {rank}"
