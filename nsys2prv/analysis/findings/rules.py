"""The rules that make findings, in the order in which findings of equal cost are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.findings.allocations import allocations
from nsys2prv.analysis.findings.contention import contention
from nsys2prv.analysis.findings.conversions import conversions
from nsys2prv.analysis.findings.data_loading import data_loading
from nsys2prv.analysis.findings.device_copies import device_copies
from nsys2prv.analysis.findings.dominant_kernel import dominant_kernel
from nsys2prv.analysis.findings.double_precision import double_precision
from nsys2prv.analysis.findings.doubtful_recording import doubtful_recording
from nsys2prv.analysis.findings.exposed_transfer import exposed_transfer
from nsys2prv.analysis.findings.exposed_waiting import exposed_waiting
from nsys2prv.analysis.findings.finding import Finding
from nsys2prv.analysis.findings.gathers import gathers
from nsys2prv.analysis.findings.gpu_imbalance import gpu_imbalance
from nsys2prv.analysis.findings.gpus_in_turn import gpus_in_turn
from nsys2prv.analysis.findings.host_copies import host_copies
from nsys2prv.analysis.findings.host_functions import host_functions
from nsys2prv.analysis.findings.host_synchronization import host_synchronization
from nsys2prv.analysis.findings.imbalance import imbalance
from nsys2prv.analysis.findings.late_gpu import late_gpu
from nsys2prv.analysis.findings.late_rank import late_rank
from nsys2prv.analysis.findings.late_ranks import late_ranks
from nsys2prv.analysis.findings.launch_bound import launch_bound
from nsys2prv.analysis.findings.long_iterations import long_iterations
from nsys2prv.analysis.findings.low_bandwidth import low_bandwidth
from nsys2prv.analysis.findings.matrix_products import matrix_products
from nsys2prv.analysis.findings.memory_near_full import memory_near_full
from nsys2prv.analysis.findings.migrations import migrations
from nsys2prv.analysis.findings.pauses import pauses
from nsys2prv.analysis.findings.pipeline_bubble import pipeline_bubble
from nsys2prv.analysis.findings.recomputed_activations import recomputed_activations
from nsys2prv.analysis.findings.repeated_reductions import repeated_reductions
from nsys2prv.analysis.findings.shared_gpu import shared_gpu
from nsys2prv.analysis.findings.slow_gpu import slow_gpu
from nsys2prv.analysis.findings.small_grids import small_grids
from nsys2prv.analysis.findings.staged_copies import staged_copies
from nsys2prv.analysis.findings.stray_kernels import stray_kernels
from nsys2prv.analysis.findings.system_waiting import system_waiting
from nsys2prv.analysis.findings.timed_kernels import timed_kernels
from nsys2prv.analysis.findings.unaligned_products import unaligned_products
from nsys2prv.analysis.findings.unfused_attention import unfused_attention
from nsys2prv.analysis.findings.unfused_elementwise import unfused_elementwise
from nsys2prv.analysis.findings.varying_kernels import varying_kernels

Rule = Callable[[Case], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    doubtful_recording,
    exposed_transfer,
    repeated_reductions,
    exposed_waiting,
    late_rank,
    late_ranks,
    late_gpu,
    stray_kernels,
    shared_gpu,
    slow_gpu,
    imbalance,
    gpu_imbalance,
    gpus_in_turn,
    pipeline_bubble,
    pauses,
    long_iterations,
    launch_bound,
    host_synchronization,
    host_functions,
    data_loading,
    system_waiting,
    host_copies,
    staged_copies,
    device_copies,
    allocations,
    migrations,
    matrix_products,
    double_precision,
    unaligned_products,
    conversions,
    gathers,
    unfused_attention,
    unfused_elementwise,
    recomputed_activations,
    small_grids,
    memory_near_full,
    varying_kernels,
    dominant_kernel,
    timed_kernels,
    low_bandwidth,
    contention,
)
