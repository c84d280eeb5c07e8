"""Hosts: the reports recorded on each, and its GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from nsys2prv.errors import UsageError
from nsys2prv.model.words import few
from nsys2prv.report.identity import Gpu, Identity


class Host(NamedTuple):
    """One host: its name, the reports recorded on it (indices), its GPUs' numbers by identity (Gpu.key)."""

    name: str
    reports: tuple[int, ...]
    gpus: Mapping[str, int]

    @property
    def order(self) -> tuple[str, str]:
        """Return the sort key: by name, node2 before node10, as launchers list nodes."""
        return re.sub("[0-9]+", lambda digits: digits[0].zfill(20), self.name), self.name

    def gpu_number(self, gpu: Gpu) -> int:
        """Return the number of a GPU on this host; a GPU that no report lists keeps its own."""
        return self.gpus.get(gpu.key, gpu.id)


def find_hosts(identities: Sequence[Identity], names: Sequence[str], overrides: Mapping[str, str]) -> list[Host]:
    """Find the hosts of the reports, in the order of their first report.

    Reports are of one host if they name the same, and nothing contradicts it. Containers on several machines often
    share a name; then GPUs with other uuids at one bus location, other CPUs or another SLURM node tell them apart.
    A report that names no host is of that with its GPUs, if there is one. `overrides` maps patterns of report names
    (shell wildcards) to host names and wins: these reports join any that state that name themselves.
    """
    forced = [next((host for pattern, host in overrides.items() if fnmatch(n, pattern)), None) for n in names]
    named = [
        host or identity.host or _host_of_gpus(identity, identities)
        for host, identity in zip(forced, identities, strict=True)
    ]

    def together(a: int, b: int) -> bool:
        return named[a] == named[b] and bool(forced[a] or forced[b] or _one_host(identities[a], identities[b]))

    groups: list[list[int]] = []
    for index in range(len(identities)):
        group = next((g for g in groups if all(together(member, index) for member in g)), None)
        if group is None:
            groups.append([index])
        else:
            group.append(index)
    taken: dict[str, int] = {}
    hosts = []
    for group in groups:
        name = named[group[0]] or "host"
        taken[name] = taken.get(name, 0) + 1
        unique = name if taken[name] == 1 else f"{name}#{taken[name]}"
        hosts.append(Host(unique, tuple(group), _number_gpus([identities[i] for i in group])))
    return hosts


def _host_of_gpus(identity: Identity, identities: Sequence[Identity]) -> str:
    """Return the only host that reports name which have a GPU of this one, by uuid; empty without one."""
    uuids = {gpu.uuid for gpu in identity.gpus if gpu.uuid}
    names = {other.host for other in identities if other.host and uuids & {gpu.uuid for gpu in other.gpus}}
    return names.pop() if len(names) == 1 else ""


def read_hosts_file(path: Path) -> Mapping[str, str]:
    """Read lines `PATTERN HOST` (`#` begins a comment): pattern of report names -> host. Raises UsageError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the hosts cannot be read ({error}); give a text file") from None
    hosts: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        fields = line.split("#", 1)[0].split()
        if fields and len(fields) != 2:
            raise UsageError(f"{path}, line {number}: not a host; write PATTERN HOST, such as `rank[0-3].* node0`")
        if fields:
            # The first match counts.
            hosts.setdefault(*fields)
    return hosts


def unused_hosts(overrides: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Warn of patterns that match none of these report names."""
    unused = [pattern for pattern in overrides if not any(fnmatch(name, pattern) for name in names)]
    return [f"--hosts: no report's name matches {few(unused)}"] if unused else []


def host_numbers(hosts: Sequence[Host]) -> dict[int, int]:
    """Return the index of each report's host in `hosts`."""
    return {report: number for number, host in enumerate(hosts) for report in host.reports}


def _one_host(a: Identity, b: Identity) -> bool:
    """Return True unless something contradicts that two reports of one host name share a host."""
    for variable in ("SLURM_NODEID", "SLURMD_NODENAME"):
        nodes = {a.environment.get(variable), b.environment.get(variable)} - {None}
        if a.environment.get("SLURM_JOB_ID") == b.environment.get("SLURM_JOB_ID") and len(nodes) > 1:
            return False
    if any(x and y and x != y for x, y in zip(a.cpu, b.cpu, strict=True)):
        return False
    uuids = {g.uuid for g in a.gpus if g.uuid}, {g.uuid for g in b.gpus if g.uuid}
    if uuids[0] & uuids[1]:
        return True
    located = [{g.location for g in one.gpus if g.location and g.uuid} for one in (a, b)]
    return not located[0] & located[1]


def _number_gpus(identities: Sequence[Identity]) -> dict[str, int]:
    """Number each GPU uniquely on the host: by its own number, or the next free one if that is taken."""
    known = {(g.id, g.key) for identity in identities for g in identity.gpus}
    numbers: dict[str, int] = {}
    for number, key in sorted(known):
        if key in numbers:
            continue
        taken = set(numbers.values())
        numbers[key] = number if number not in taken else max(taken) + 1
    return numbers
