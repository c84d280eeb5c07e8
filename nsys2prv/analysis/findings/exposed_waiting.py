"""Exposed communication, waiting: ranks wait for others in turn, with nothing to compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.communication.message_operations import RECEIVES, SENDS
from nsys2prv.analysis.facts.communication.shared_norms import advice_on_shared_norms, common_norms
from nsys2prv.analysis.facts.ranks.bubble import bubble
from nsys2prv.analysis.facts.ranks.late_groups import find_group
from nsys2prv.analysis.facts.ranks.latecomers import latecomer_devices, latecomer_ranks
from nsys2prv.analysis.facts.ranks.recurring_cause import recurring_causes
from nsys2prv.analysis.facts.ranks.uneven_ranks import cost_of_shares, uneven_rank
from nsys2prv.analysis.facts.thresholds import LEAST_WAIT, MOSTLY_FOR, NAMED_CAUSE, NEARLY_ALL
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.analysis.frames import NCCL
from nsys2prv.analysis.graph.critical_path import COMPUTE, HOST
from nsys2prv.analysis.graph.host_labels import BEFORE_LAUNCH
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import few_ranks, short

ADVICE = (
    "See in the trace what they did before: the operating system, data or allocations may "
    "disturb them. Fewer points where all ranks meet wait less."
)
ADVICE_MESSAGES = (
    "See in the trace what they did before they sent. Where ranks hand on what they received (a wavefront, a "
    "pipeline), send smaller pieces, so that the next rank begins earlier; else send before other work."
)
ADVICE_SENDS = (
    "See in the trace what the receivers did before. Receive earlier (MPI_Irecv before that work), or send "
    "without waiting (MPI_Isend)."
)
ADVICE_UNCHOSEN = "Analyze these ranks, too (--ranks): only then it shows what makes them late."
ADVICE_COMPUTE = (
    "Share the work evenly in each iteration, not only over the run (batches of like length, particles or cells moved "
    "between ranks): nsys2prv analyze RUN --show iterations has the compute of each rank."
)


class _Late(NamedTuple):
    """Ranks and devices that are late, which are other findings; and the longest wait for one (ns of an iteration)."""

    ranks: tuple[int, ...]
    devices: tuple[int, ...]
    longest_ns: float


class _Reason(NamedTuple):
    """Why ranks or GPUs wait: the begin of a title, and what to do.

    `unchosen`: for ranks that were not chosen; `uneven`: for others that compute longer in turn.
    """

    what: str
    advice: str
    unchosen: bool = False
    uneven: bool = False


def exposed_waiting(case: Case) -> Iterator[Finding]:
    """Yield the waiting that no late rank, no recurring cause, no late GPU and no pipeline explains."""
    waits = case.exposed
    if waits.is_empty() or bubble(case):
        return
    late = _late(case)
    rest = _not_for(late, waits)
    sharing = waits["rank"].n_unique() * case.step_count
    exposed, waiting = (float(rest[c].sum()) / sharing for c in ("exposed_waiting_ns", "waiting_ns"))
    cost = _cost(case, exposed)
    # A shorter wait than that for a late rank may be passed on from it.
    if cost <= late.longest_ns:
        return
    reason = _why(case, rest, _who_waits(waits), late.ranks)
    waited = f"{reason.what} {text_ms(cost)} {case.unit}"
    # Waiting beside a rank's own work is not exposed, and slows that work.
    if reason.uneven and (gain := _gain_of_shares(case)) > cost:
        cost, waited = gain, f"{waited}; equal shares gain {text_ms(gain)}"
    kind, at = rest.sort("exposed_waiting_ns", "waits_at", "kind").select("kind", "waits_at").row(-1)
    advice = f"{advice_on_shared_norms(case)}{reason.advice}"
    yield Finding(
        "exposed-waiting",
        waited,
        cost,
        advice,
        ranks=named_ranks(case.run.unchosen if reason.unchosen else _waited_for(rest), worst_first=True),
        evidence={"exposed_waiting_ns": round(exposed), "waiting_ns": round(waiting)},
        confidence="medium",
        command="nsys2prv whatif RUN --set imbalance=0"
        if reason.uneven
        else "nsys2prv analyze RUN --show waiting,causes",
        cfg="views/nccl" if kind == NCCL else "analysis/host_mpi",
        at_ns=at,
        common=common_norms(case, advice),
    )


def _not_for(late: _Late, waits: pl.DataFrame) -> pl.DataFrame:
    """Return the waits (EXPOSED) for others than the ranks and devices that are late."""
    explained = pl.col("waited_for").is_in(late.ranks) | pl.col("late_device").is_in(late.devices)
    return waits.filter(~explained.fill_null(False))


def _cost(case: Case, exposed: float) -> float:
    """Return what exposed waiting of a rank (ns of an iteration) costs beyond recurring causes, if ranks have slack."""
    recurring = sum(one.ns * len(one.waiting) for one in recurring_causes(case)) / case.exposed["rank"].n_unique()
    ranks = {case.run.rank(task) for task in case.run.rank_tasks}
    return min(exposed - recurring, case.slack(case.host_waits.keys() & ranks))


def _who_waits(waits: pl.DataFrame) -> str:
    """Return `Ranks`, or `GPUs` where only the GPUs of one process wait for each other. `waits`: EXPOSED."""
    own = (pl.col("waited_for") == pl.col("rank")).fill_null(False)
    return "Ranks" if waits.filter(~own, pl.col("exposed_waiting_ns") > 0).height else "GPUs"


def _waited_for(waits: pl.DataFrame) -> list[int]:
    """Return the ranks that are waited for, the longest first. `waits`: EXPOSED."""
    by_rank = waits.group_by("waited_for").agg(pl.col("exposed_waiting_ns").sum()).drop_nulls("waited_for")
    return by_rank.sort("exposed_waiting_ns", "waited_for", descending=[True, False])["waited_for"].to_list()


def _late(case: Case) -> _Late:
    """Return the ranks and devices that are late, alone or in a group."""
    ranks, devices, group = latecomer_ranks(case), latecomer_devices(case), find_group(case)
    waits = [one.net_ns for one in (*ranks, *devices)] + [group.net_ns if group else 0.0]
    members = (*(one.member for one in ranks), *(group.members if group else ()))
    return _Late(members, tuple(one.member for one in devices), max(waits))


def _gain_of_shares(case: Case) -> float:
    """Return what equal shares of the work gain (ns of an iteration), beyond what the finding of an uneven rank has."""
    uneven = uneven_rank(case)
    return case.gain("imbalance=0") - (cost_of_shares(case, uneven) if uneven else 0.0)


def _why(case: Case, rest: pl.DataFrame, who: str, late: Sequence[int] = ()) -> _Reason:
    """Return why ranks or GPUs wait, by the operations with most of the waiting and by its causes.

    `rest`: EXPOSED of the waiting that no late rank explains; `who`: ranks or GPUs; `late`: the late ranks.
    """
    waits = rest.filter(pl.col("exposed_waiting_ns") > 0)
    unknown = waits.filter(pl.col("waited_for").is_null())
    if case.run.unchosen and 2 * unknown["exposed_waiting_ns"].sum() > waits["exposed_waiting_ns"].sum():
        return _Reason(_for_unchosen(case, unknown), ADVICE_UNCHOSEN, unchosen=True)
    sends = waits.filter(pl.col("operation").str.contains(SENDS), pl.col("waited_for").is_not_null())
    share = float(sends["exposed_waiting_ns"].sum()) / max(float(waits["exposed_waiting_ns"].sum()), 1.0)
    # Collectives wait for those that the late receivers delayed, too.
    if 3 * share > 1:
        receivers = sends.group_by("waited_for").agg(pl.col("exposed_waiting_ns").sum())
        most = receivers.filter(pl.col("exposed_waiting_ns") >= LEAST_WAIT.value * pl.col("exposed_waiting_ns").max())
        receive = f"{few_ranks(most['waited_for'].to_list())} receive{'s' * (most.height == 1)}"
        return _Reason(f"{who} wait for others, {100 * share:.0f} % of it in sends until {receive},", ADVICE_SENDS)
    messages = pl.col("operation").str.contains(RECEIVES)
    of_messages = rest.filter(messages)["exposed_waiting_ns"].sum()
    if 2 * of_messages > rest["exposed_waiting_ns"].sum() or _in_a_chain(rest, messages):
        return _Reason(for_whom(rest, who, case.run.rank_count), ADVICE_MESSAGES)
    causes = case.analysis.explanation.causes
    if 2 * causes.filter(kind=COMPUTE)["ns"].sum() > causes["ns"].sum():
        return _Reason(f"{who} compute longer in turn, and others wait", ADVICE_COMPUTE, uneven=True)
    # What late ranks cause is in their findings.
    own = causes.filter(~pl.col("rank").is_in(late))
    named = [rank for rank, _ in _mostly_for(rest, case.run.rank_count)]
    return _Reason(for_whom(rest, who, case.run.rank_count), f"{_named_cause(own, named)}{ADVICE}")


def for_whom(rest: pl.DataFrame, who: str, ranks: int) -> str:
    """Return who waits, and for which one or two ranks if these have most of the waiting (see _mostly_for)."""
    named = " and ".join(f"rank {rank} ({100 * share:.0f} %)" for rank, share in _mostly_for(rest, ranks))
    if named:
        return f"{who} wait for others, mostly for {named},"
    return f"{who} wait for others, each time for another rank,"


def _mostly_for(rest: pl.DataFrame, ranks: int) -> list[tuple[int, float]]:
    """Return the one or two ranks that have MOSTLY_FOR of the waiting, with their parts of it; nothing without such.

    `rest`: EXPOSED of that waiting; `ranks`: of the run, of which those named are half at most.
    """
    by_rank = rest.group_by("waited_for").agg(pl.col("exposed_waiting_ns").sum())
    total = max(float(by_rank["exposed_waiting_ns"].sum()), 1.0)
    shares = by_rank.drop_nulls().with_columns(share=pl.col("exposed_waiting_ns") / total)
    most = shares.sort(-pl.col("share"), "waited_for").select("waited_for", "share").rows()
    for count in (1, 2):
        named = most[:count]
        if 2 * count <= ranks and sum(share for _, share in named) >= MOSTLY_FOR.value:
            return named
    return []


def _named_cause(causes: pl.DataFrame, ranks: Sequence[int]) -> str:
    """Return advice on the named work of a host with most of the waiting, if it causes NAMED_CAUSE of it (CAUSE).

    `ranks`: those that the title names, which alone count then: others would contradict it.
    """
    named = causes.filter(pl.col("kind") == HOST, pl.col("name") != "", ~pl.col("name").str.starts_with(BEFORE_LAUNCH))
    named = named.filter(pl.col("rank").is_in(ranks)) if ranks else named
    if named.is_empty():
        return ""
    chief = named.sort("ns", descending=True, maintain_order=True).row(0, named=True)
    share = chief["ns"] / max(float(causes["ns"].sum()), 1.0)
    if share < NAMED_CAUSE.value:
        return ""
    name = short(chief["name"], 40)
    return f"Begin with `{name}` on rank {chief['rank']}, which causes {100 * share:.0f} % of the waiting. "


def _in_a_chain(rest: pl.DataFrame, messages: pl.Expr) -> bool:
    """Return True where others wait in collectives for a rank that had to wait for messages about as long.

    In a wavefront the last rank waits longest for messages, and the first one longest for the last.
    """
    collectives = rest.filter(~messages & (pl.col("waited_for") != pl.col("rank")))
    last = collectives.group_by("waited_for").agg(pl.col("exposed_waiting_ns").sum())
    if last.is_empty():
        return False
    rank = last.sort("exposed_waiting_ns", "waited_for")["waited_for"][-1]
    for_it = collectives.filter(waited_for=rank).group_by("rank").agg(pl.col("exposed_waiting_ns").sum())
    own = float(rest.filter(messages, rank=rank)["exposed_waiting_ns"].sum())
    return own > 0 and own >= NEARLY_ALL.value * float(for_it["exposed_waiting_ns"].max())  # type: ignore[arg-type]


def _for_unchosen(case: Case, waits: pl.DataFrame) -> str:
    """Return who waits for ranks that were not chosen, and for which. `waits`: EXPOSED of these waits."""
    waiting, others = waits["rank"].unique().to_list(), case.run.unchosen
    named = few_ranks(others)
    late = f"{named}, which was not chosen," if len(others) == 1 else f"others of {named}, which were not chosen,"
    return f"{few_ranks(waiting).capitalize()} {'wait for' if len(waiting) > 1 else 'waits for'} {late}"
