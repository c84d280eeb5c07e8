"""Late ranks that have something in common, such as a host: any of them comes last, and the others wait for them."""

from __future__ import annotations

from collections.abc import Iterator

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.ranks.late_groups import LateGroup, find_group
from nsys2prv.analysis.facts.ranks.latecomers import gains_less
from nsys2prv.analysis.findings.finding import Finding, named_ranks
from nsys2prv.model.units import text_ms
from nsys2prv.model.words import few_ranks


def late_ranks(case: Case) -> Iterator[Finding]:
    """Yield the ranks that delay the others together, though none of them is the latest one each time."""
    group = find_group(case)
    if group is None:
        return
    cost = min(case.slack(group.waiting), group.net_ns)
    host, who = _host_of(case, group), few_ranks(group.members).capitalize()
    yield Finding(
        "late-ranks",
        f"{who}{f', on {host},' if host else ''} delay {len(group.waiting)} ranks by "
        f"{text_ms(group.net_ns)} {case.unit}{gains_less(cost, group.net_ns)}",
        cost,
        "See what these ranks have in common, and the others have not: a host, cores (taskset, --cpu-bind; nvidia-smi "
        "topo -m), a network port, a file system, other programs, more profiling.",
        ranks=named_ranks(group.members),
        iterations=case.iterations,
        evidence={
            "waiting_ranks": list(group.waiting),
            "exposed_waiting_ns": round(group.net_ns),
            "waiting_hosts_wait_ns": round(case.slack(group.waiting)),
            "host": host,
        },
        confidence="medium",
        command="nsys2prv analyze RUN --show waiting,causes",
        cfg="analysis/waiting_by_rank",
        at_ns=group.at,
    )


def _host_of(case: Case, group: LateGroup) -> str | None:
    """Return the host of all late ranks, if the others are on other hosts."""
    hosts = {task.rank: task.host for task in case.run.tasks}
    own = {hosts[rank] for rank in group.members}
    return own.pop() if len(own) == 1 and own.isdisjoint(hosts[rank] for rank in group.waiting) else None
