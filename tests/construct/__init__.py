"""Constructed test inputs: copies of real reports, changed by SQL so that the truth about them is known.

Every case is a function `case(sources, folder, ...)` that takes one report or several, leaves them as they are, writes
into the folder and returns the paths of what it wrote; its docstring says what it makes and what the truth is. Nothing
of the project is used here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .broken import empty_file, foreign_sqlite, not_sqlite, truncated
from .calls import nonblocking
from .clocks import (
    began_later,
    entering_late,
    few_collectives,
    jittered,
    normalized,
    on_hosts,
    on_many_hosts,
    stepped,
    straggling,
    with_clock,
    without_communicator,
    without_wall_clock,
)
from .damage import rank_without, recording_late, sleeping, slow_kernels
from .devices import metrics_to_first, metrics_to_last, two_contexts
from .gpus import mig_instances, on_machine, one_gpu_for_all
from .identities import equal_pids, hosts_swapped, in_containers, without_rank_env
from .parts import cut_in_two, repeated
from .payloads import binary_payloads
from .processes import two_gpus_one_process
from .programs import scalar_products, tiny_kernels
from .rows import no_events, shuffled, without_table
from .versions import of_version

CASES: dict[str, Callable[..., list[Path]]] = {
    case.__name__: case
    for case in (
        cut_in_two,
        repeated,
        metrics_to_first,
        metrics_to_last,
        two_contexts,
        two_gpus_one_process,
        mig_instances,
        one_gpu_for_all,
        on_machine,
        equal_pids,
        hosts_swapped,
        in_containers,
        without_rank_env,
        with_clock,
        without_wall_clock,
        normalized,
        on_hosts,
        on_many_hosts,
        began_later,
        stepped,
        jittered,
        straggling,
        entering_late,
        few_collectives,
        without_communicator,
        shuffled,
        without_table,
        no_events,
        recording_late,
        sleeping,
        slow_kernels,
        nonblocking,
        scalar_products,
        tiny_kernels,
        rank_without,
        of_version,
        binary_payloads,
        empty_file,
        truncated,
        not_sqlite,
        foreign_sqlite,
    )
}

__all__ = [
    "CASES",
    "began_later",
    "binary_payloads",
    "cut_in_two",
    "empty_file",
    "entering_late",
    "equal_pids",
    "few_collectives",
    "foreign_sqlite",
    "hosts_swapped",
    "in_containers",
    "jittered",
    "metrics_to_first",
    "metrics_to_last",
    "mig_instances",
    "no_events",
    "normalized",
    "not_sqlite",
    "of_version",
    "on_hosts",
    "on_machine",
    "on_many_hosts",
    "one_gpu_for_all",
    "rank_without",
    "recording_late",
    "repeated",
    "shuffled",
    "sleeping",
    "slow_kernels",
    "stepped",
    "straggling",
    "truncated",
    "two_contexts",
    "two_gpus_one_process",
    "with_clock",
    "without_communicator",
    "without_rank_env",
    "without_table",
    "without_wall_clock",
]
