"""Which reports are of one host: what its machine, its GPUs and SLURM say of it."""

from __future__ import annotations

import pytest
from synthetic import summary

from nsys2prv.report.identity import Gpu, Identity
from nsys2prv.run.hosts import find_hosts


def report(
    host: str = "node", cpu: tuple[str, ...] = ("64", "", ""), gpus: tuple[Gpu, ...] = (), **environment: str
) -> Identity:
    return summary("", host).identity._replace(cpu=cpu, gpus=gpus, environment=environment)


def grouped(*reports: Identity, overrides: dict[str, str] | None = None) -> dict[str, tuple[int, ...]]:
    """Reports of each host; report n is named `r<n>`."""
    hosts = find_hosts(reports, [f"r{n}" for n in range(len(reports))], overrides or {})
    return {host.name: host.reports for host in hosts}


def gpu(uuid: str, bus: str = "01:00.0", number: int = 0) -> Gpu:
    return Gpu(number, "H100", bus, uuid)


@pytest.mark.parametrize(
    ("a", "b", "one"),
    [
        (report(), report(), True),
        (report(), report("other"), False),
        (report(), report(cpu=("32", "", "")), False),
        (report(), report(cpu=("", "", "")), True),
        (report(SLURM_NODEID="0"), report(SLURM_NODEID="1"), False),
        (report(SLURMD_NODENAME="a"), report(SLURMD_NODENAME="b"), False),
        (report(SLURM_NODEID="0"), report(), True),
        # The first node of one job may be the second of another.
        (report(SLURM_NODEID="0", SLURM_JOB_ID="7"), report(SLURM_NODEID="1", SLURM_JOB_ID="8"), True),
        (report(SLURM_NODEID="0", SLURM_JOB_ID="7"), report(SLURM_NODEID="1", SLURM_JOB_ID="7"), False),
        (report(gpus=(gpu("a"),)), report(gpus=(gpu("b"),)), False),
        (report(gpus=(gpu("a"),)), report(gpus=(gpu("b", "02:00.0"),)), True),
        (report(gpus=(gpu("a"),)), report(gpus=(gpu(""),)), True),
    ],
)
def test_one_host_is_what_nothing_contradicts(a: Identity, b: Identity, one: bool) -> None:
    assert len(grouped(a, b)) == len(grouped(b, a)) == (1 if one else 2)


def test_a_report_is_of_the_host_with_whose_reports_it_all_agrees() -> None:
    reports = report(cpu=("", "", "")), report(cpu=("64", "", "")), report(cpu=("32", "", ""))
    assert grouped(*reports) == {"node": (0, 1), "node#2": (2,)}


def test_a_host_by_hand_wins_over_what_reports_say() -> None:
    assert grouped(report("a"), report("b"), report("a"), overrides={"r[01]": "one"}) == {"one": (0, 1), "a": (2,)}


def test_a_host_by_hand_is_that_of_the_reports_which_say_so_themselves() -> None:
    assert grouped(report("a"), report("b"), report("a"), overrides={"r1": "a"}) == {"a": (0, 1, 2)}
    other = report("a", cpu=("32", "", ""))
    assert grouped(report("a"), other, report("a"), other, overrides={"r1": "a"}) == {"a": (0, 1, 2), "a#2": (3,)}


def test_hosts_are_in_the_order_of_their_numbers() -> None:
    hosts = find_hosts([report("node10"), report("node2"), report("login")], ["", "", ""], {})
    assert [host.name for host in sorted(hosts, key=lambda h: h.order)] == ["login", "node2", "node10"]


def test_gpus_that_containers_call_by_one_number_have_their_own() -> None:
    seen = [(gpu("a", "01:00.0", 1), gpu("b", "02:00.0", 3)), (gpu("c", "03:00.0", 1),), (gpu("b", "02:00.0", 1),)]
    (host,) = find_hosts([report(gpus=gpus) for gpus in seen], ["", "", ""], {})
    assert host.gpus == {"a": 1, "b": 2, "c": 3}


def test_a_report_without_a_host_is_of_that_with_its_gpus() -> None:
    """Files of nvprof name no host, and those of nsys all GPUs of theirs."""
    unnamed, gpus = report("", gpus=(gpu("b", ""),)), (gpu("a"), gpu("b", "02:00.0", 1))
    assert grouped(report("one", gpus=gpus), unnamed, report("two", gpus=(gpu("c"),))) == {"one": (0, 1), "two": (2,)}
    # A container's name beside the host's own says nothing.
    assert grouped(report("one", gpus=gpus), report("two", gpus=gpus), unnamed) == {
        "one": (0,),
        "two": (1,),
        "host": (2,),
    }
    assert grouped(report("one", gpus=gpus), unnamed, overrides={"r1": "two"}) == {"one": (0,), "two": (1,)}
