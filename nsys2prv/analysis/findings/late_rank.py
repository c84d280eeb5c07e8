"""A late rank: others wait for it, and its kernels are not the reason; or it was late in single iterations.

The module `late_ranks` handles ranks that are late together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from nsys2prv.analysis.communication.delays import KERNELS, REST
from nsys2prv.analysis.facts.case import Case, usual
from nsys2prv.analysis.facts.communication.many_operations import common_operations
from nsys2prv.analysis.facts.communication.shared_norms import common_norms
from nsys2prv.analysis.facts.few_iterations import waiting_in_few
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen, seen_functions
from nsys2prv.analysis.facts.hosts.gain_of_hosts import limit_of_hosts
from nsys2prv.analysis.facts.hosts.garbage import common_garbage
from nsys2prv.analysis.facts.ranks.chief_cause import ChiefCause, chief_cause, delay_of, host_work
from nsys2prv.analysis.facts.ranks.late_groups import find_group
from nsys2prv.analysis.facts.ranks.late_in_turn import late_in_turn
from nsys2prv.analysis.facts.ranks.latecomers import Latecomer, awaited_ranks, gains_less, latecomer_ranks
from nsys2prv.analysis.facts.ranks.lateness import (
    Lateness,
    advice_on_lateness,
    in_messages,
    manner_of_host,
    samples_of_host,
)
from nsys2prv.analysis.facts.ranks.longer_call import longer_call
from nsys2prv.analysis.facts.ranks.recurring_cause import RecurringCause, recurring_causes
from nsys2prv.analysis.facts.ranks.single_delays import advice_on_single_delay
from nsys2prv.analysis.facts.ranks.uneven_ranks import uneven_host
from nsys2prv.analysis.facts.thresholds import LOW, MEDIUM, PREDICTED
from nsys2prv.analysis.findings.finding import Confidence, Finding, named_ranks
from nsys2prv.analysis.graph.critical_path import COPYING, HOST, TRANSFER
from nsys2prv.analysis.graph.host_labels import AT_MANY_PLACES, BEFORE_LAUNCH
from nsys2prv.intervals.spans import Span, union
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import few_ranks, short

BY_CHANCE = " Hosts differ by chance and by the profiler, too: see if the same rank is late in another recording."
NO_GAIN = "Nothing to gain here: others do not wait for it longer than for other things."


def late_rank(case: Case) -> Iterator[Finding]:
    """Yield findings of three kinds: a rank that is late all along, one with a recurring cause, one late at times.

    The first is the latest of the ranks for which the same others wait, unless longer compute explains it. The last are
    ranks of neither kind with delays in single iterations.
    """
    group = find_group(case)
    together = group.members if group else ()
    late = _apart([one for one in latecomer_ranks(case) if not one.by_compute and one.member not in together])
    uneven = uneven_host(case)
    late_all_along = [_lateness(case, one) for one in late if uneven is None or one.member != uneven.member]
    recurring = recurring_causes(case)
    lasting = {*together, *(one.member for one in late), *(one.rank for one in recurring)}
    delays = case.held(case.analysis.delays).filter(~pl.col("rank").is_in(lasting), pl.col("phase") != KERNELS)
    others = [*(one.rank for one in recurring), *delays["rank"].unique()]
    each = _shares(case, [*(one.rank for one in late_all_along), *others])
    late_all_along = [one._replace(share=each[one.rank]) for one in late_all_along]
    gaining = [one.rank for one in late_all_along if one.replayed]
    shares = _shares(case, [*gaining, *others])
    for one in late_all_along:
        late_too = late_in_turn(case, one, delays)
        delays = delays.filter(~pl.col("rank").is_in(late_too["rank"].implode()))
        share = shares.get(one.rank, one.share) + sum(shares[rank] for rank in late_too["rank"].unique())
        yield _lasting(case, one._replace(share=share, late_too=late_too))
    of_recurring = sum(shares[one.rank] for one in recurring)
    yield from (_recurring(case, one, sum(each.ns for each in recurring) / of_recurring) for one in recurring)
    total = int(delays["delay_ns"].sum())
    of_delays = sum(shares[rank] for rank in delays["rank"].unique())
    for (rank,), own in delays.group_by("rank", maintain_order=True):
        yield _delayed(case, int(str(rank)), own, of_delays / total, gaining)


def _shares(case: Case, ranks: Sequence[int]) -> dict[int, float]:
    """Return each rank's part of what the run gains without delays: its part of the waiting for these ranks.

    A gain that several findings told in full would be counted several times.
    """
    waits = {one.member: one.wait_ns for one in awaited_ranks(case)}
    known = sum(waits.get(rank, 0.0) for rank in ranks)
    return {rank: waits.get(rank, 0.0) / known if known else 1 / len(ranks) for rank in ranks}


def _apart(late: Sequence[Latecomer]) -> list[Latecomer]:
    """Return the latest rank of each group.

    Ranks that share a waiting rank with one that is even later are left out: they may only pass on its lateness.
    """
    found: list[Latecomer] = []
    known: set[int] = set()
    for one in late:
        if known.isdisjoint(own := {one.member, *one.waiting}):
            found.append(one)
        known |= own
    return found


def _lateness(case: Case, late: Latecomer) -> Lateness:
    """Return how late a rank is that is late all along, and why."""
    cause = _longer_call(case, late, chief_cause(case, late.member))
    gain, slack, delay = case.gain("delay=0"), case.slack(late.waiting), delay_of(case, late)
    of_host = cause is None or cause.kind == HOST
    limit = limit_of_hosts(case, min(slack, delay)) if of_host else None
    return Lateness(late.member, late.waiting, cause, delay, gain, slack, late.at, limit_ns=limit)


def _lasting(case: Case, late: Lateness) -> Finding:
    """Return the finding of a rank that is late all along."""
    own = pl.Series([n for n, one in enumerate(case.run.devices) if one.rank == late.rank], dtype=pl.Int64)
    without_work = usual(pl.sum_horizontal("load", "system", "synchronized", "launching"))
    starved = case.starved.filter(pl.col("device").is_in(own.implode())).select(without_work).item()
    more = {"waiting_hosts_wait_ns": round(late.slack_ns), "its_device_starved_ns": round(starved or 0)}
    return _of_rank(case, late, "high" if late.predicted else "medium", more)


def _longer_call(case: Case, late: Latecomer, cause: ChiefCause | None) -> ChiefCause | None:
    """Return the call of the system in which this rank is longer than others by half of its delay; else the cause.

    Host work takes the name of a call only where that fills half of it, so that such a call may be no cause by name.
    """
    if cause and not (cause.kind == HOST and cause.name.startswith(BEFORE_LAUNCH)):
        return cause
    call = longer_call(case, late.member)
    if call is None or 2 * call.ns < late.net_ns:
        return cause
    return ChiefCause(HOST, call.name, call.ns, 0, 0, min(call.ns / late.net_ns, 1.0))


def _recurring(case: Case, late: RecurringCause, total: float) -> Finding:
    """Return the finding of a recurring cause.

    It gains its part of `total` in what the run gains without any delays. `total`: what all recurring causes cost (ns
    of an iteration), and more where part of that gain counts for other ranks.
    """
    cause = ChiefCause(HOST, late.name, late.ns, late.iterations, late.of_iterations, 1.0)
    gain, slack = case.gain("delay=0") * late.ns / total, case.slack(late.waiting)
    return _of_rank(case, Lateness(late.rank, late.waiting, cause, late.ns, gain, slack, late.at), "medium", {})


def _of_rank(case: Case, late: Lateness, confidence: Confidence, more: Mapping[str, int]) -> Finding:
    """Return the finding of a rank that is late in many iterations. `more`: of its evidence."""
    cause, seen, in_few = late.cause, samples_of_host(case, late), waiting_in_few(case, late.waiting, late.delay_ns)
    advice = advice_on_lateness(case, late, seen, in_few)
    manner = manner_of_host(case, late, seen) if cause and cause.scattered else ""
    # Hosts that are nearly as busy are nearly as slow.
    by_chance = manner == AT_MANY_PLACES and bool(gains_less(late.cost_ns, late.delay_ns))
    unsure = BY_CHANCE if by_chance else ""
    return Finding(
        "late-rank",
        _title(case, late, in_few, manner),
        late.cost_ns,
        f"{advice}{unsure}",
        ranks=named_ranks([late.rank, *late.others], worst_first=True),
        iterations=case.iterations,
        evidence={
            "cause": (cause.name or cause.kind) if cause else None,
            "manner": manner or None,
            "in_iterations": cause.iterations if cause else None,
            "waiting_ranks": list(late.waiting),
            "exposed_waiting_ns": round(late.delay_ns),
            "gain_without_delays_ns": round(late.gain_ns),
            **more,
            **seen.evidence,
        },
        confidence=confidence,
        command="nsys2prv whatif RUN --set delay=0" if late.replayed else "nsys2prv analyze RUN --show waiting,causes",
        cfg="views/collective_arrival",
        at_ns=late.at,
        severity="medium" if by_chance and late.cost_ns >= MEDIUM.value * case.iteration_ns else None,
        common=(
            *common_norms(case, advice),
            *common_operations(case, advice, late.rank),
            *common_garbage(case, advice),
        ),
    )


def _title(case: Case, late: Lateness, in_few: str, manner: str) -> str:
    """Return who delays whom, by how much and in how many iterations; and what can be gained, if that is less.

    `in_few`: words on the few iterations with nearly all of the delay; `manner`: how a host is late at many
    places.
    """
    cause, what = late.cause, f"The host of rank {late.rank} delays"
    if cause and cause.kind == TRANSFER:
        what = f"{'Messages' if in_messages(case, late.rank) else 'Collectives'} hold up rank {late.rank}, which delays"
    elif cause and cause.kind == COPYING:
        what = f"Rank {late.rank}'s copies (`{cause.name}`) delay"
    elif manner:
        what = f"Rank {late.rank}'s host, {manner}, delays"
    elif cause:
        what = f"Rank {late.rank}'s {host_work(cause.name)} delays"
    in_turn = f"{few_ranks([late.rank, *late.others]).capitalize()} are late in turn: " if late.others else ""
    what = f"{what[0].lower()}{what[1:]}" if in_turn else what
    return f"{in_turn}{what} {_whom(late.waiting)} by {_how_long(case, late, in_few)}{_of_others(late)}"


def _of_others(late: Lateness) -> str:
    """Return the end of a title that names the ranks that are late in turn with a late rank, and how often."""
    if not late.others:
        return ""
    count, many = late.late_too.select("repeat", "iteration").n_unique(), len(late.others) > 1
    return f"; {few_ranks(late.others)} {'are' if many else 'is'} as late in {count} other{'s' * (count > 1)}"


def _whom(waiting: Sequence[int]) -> str:
    return f"{len(waiting)} ranks" if len(waiting) > 1 else f"rank {waiting[0]}"


def _how_long(case: Case, late: Lateness, in_few: str) -> str:
    """Return the delay, in how many iterations, and what can be gained. `in_few`: see _title."""
    cause = late.cause
    often = f" on average{in_few}" if in_few else ""
    if not in_few and cause and cause.iterations and not cause.scattered:
        # Programs may exchange results every few iterations only.
        waiting = " in which ranks wait" if 2 * cause.of_iterations < case.step_count else ""
        average = " on average" if cause.iterations < case.step_count else ""
        often = f"{average}, in {cause.iterations} of {cause.of_iterations} iterations{waiting}"
    most = f"; by a replay, faster hosts gain {text_ms(late.cost_ns)}" if late.limited else ""
    return f"{text_ms(late.delay_ns)} {case.unit}{often}{most or gains_less(late.cost_ns, late.delay_ns)}"


def _delayed(case: Case, rank: int, own: pl.DataFrame, share: float, late: Sequence[int]) -> Finding:
    """Return the finding of a rank's delays in single iterations, `own` (DELAY).

    `share`: the part of what the run gains without any delays that counts for 1 ns of these; `late`: ranks that are
    late all along, which hide shorter delays of others.
    """
    lost = int(own["delay_ns"].sum())
    gain = min(case.gain("delay=0") * lost * share, lost / case.step_count)
    columns = ("delay_ns", "repeat", "iteration", "phase")
    longest, repeat, iteration, phase = own.select(columns).sort(columns).row(-1)
    more = f" and {own.height - 1} more" if own.height > 1 else ""
    gained, little = f"{text_ms(gain)} {case.unit}", gain < LOW.value * case.iteration_ns
    hidden = gain < PREDICTED.value * lost / case.step_count
    effect = _of_hidden(late, "" if little else gained) if hidden else gained
    where = "in" if phase == REST else f"in `{short(phase, 40)}` of"
    steps = case.analysis.iterations.filter(rank=rank).join(own, on=["repeat", "iteration"], how="semi")
    spans = union(steps["start_ns"].to_numpy(), (steps["start_ns"] + steps["total_ns"]).to_numpy())
    no_gain = hidden and little and not late
    seen = Seen() if no_gain else seen_functions(case, spans, rank)
    step = steps.filter(iteration=iteration, repeat=repeat)
    latest = Span(0, 0) if step.is_empty() else Span(step["start_ns"][0], step["start_ns"][0] + step["total_ns"][0])
    advice = NO_GAIN if no_gain else advice_on_single_delay(case, rank, latest, longest, seen)
    return Finding(
        "late-rank",
        f"Rank {rank} is {text_ms(longest)} late {where} iteration {iteration}{more}: {effect}",
        gain,
        advice,
        ranks=(rank,),
        iterations=tuple(own["iteration"].unique().sort().to_list()),
        evidence={"delay_ns": lost, "phase": phase, "delays": own.height, **seen.evidence},
        command="nsys2prv whatif RUN --set delay=0",
        cfg="analysis/host_states",
        at_ns=None if step.is_empty() else latest.start,
        # A single delay may cost little on average, and is reported all the same.
        severity="low" if hidden or gain < MEDIUM.value * case.iteration_ns else None,
        gains=not little,
        common=common_garbage(case, advice),
    )


def _of_hidden(late: Sequence[int], gained: str) -> str:
    """Return the end of a title of delays that cost far less than they last.

    `late`: ranks that may hide them, see _delayed; `gained`: what is gained without them, empty if hardly anything.
    """
    if not late:
        return f"removing this delay {f'gains {gained}' if gained else 'would not make the run faster'}"
    why = f"as {few_ranks(late)} {'are' if len(late) > 1 else 'is'} late, too"
    return f"removing this delay alone gains {gained or 'little'}, {why}"
