"""Cfgs of GPU metrics: a timeline, the average over the GPUs, and the average within kernels of each class.

A metric is known by its name, since its number differs between machines and versions of nsys. The names are those of
the metric sets that real reports have; `*` stands for the parts that differ between them.
"""

from __future__ import annotations

from nsys2prv.model import event_types as types
from nsys2prv.paraver.cfg import record
from nsys2prv.paraver.cfg.text import GRADIENT, Cfg, Histogram
from nsys2prv.paraver.cfg.windows import metric_of_run, metric_seen, named, of, values, within

# File name -> label of the event type. No label may match two metrics of one report.
METRIC_LABELS: dict[str, str] = {
    "gpc_clock": "GPC Clock Frequency [MHz]",
    "sys_clock": "SYS Clock Frequency [MHz]",
    "gr_active": "GR Active [Throughput %]",
    "sm_active": "SM* Active [Throughput %]",
    "sm_issue": "SM Issue [Throughput %]",
    "tensor_active": "Tensor Active*",
    "compute_warps": "Compute Warps in Flight [Throughput %]",
    "compute_warps_avg": "Compute Warps in Flight [Avg]",
    "compute_warps_per_cycle": "Compute Warps in Flight [Avg Warps per Cycle]",
    "unallocated_warps": "Unallocated Warps in Active SMs [Throughput %]",
    "unallocated_warps_avg": "Unallocated Warps in Active SMs [Avg]",
    "unallocated_warps_per_cycle": "Unallocated Warps in Active SMs [Avg Warps per Cycle]",
    "vertex_warps": "Vertex/Tess/Geometry Warps in Flight [Throughput %]",
    "vertex_warps_avg": "Vertex/Tess/Geometry Warps in Flight [Avg]",
    "vertex_warps_per_cycle": "Vertex/Tess/Geometry Warps in Flight [Avg Warps per Cycle]",
    "pixel_warps": "Pixel Warps in Flight [Throughput %]",
    "pixel_warps_avg": "Pixel Warps in Flight [Avg]",
    "pixel_warps_per_cycle": "Pixel Warps in Flight [Avg Warps per Cycle]",
    "dram_read": "DRAM Read Bandwidth [Throughput %]",
    "dram_write": "DRAM Write Bandwidth [Throughput %]",
    "pcie_rx": "PCIe RX Throughput [Throughput %]",
    "pcie_tx": "PCIe TX Throughput [Throughput %]",
    **{
        f"nvlink_{way.lower()}_{kind.lower()}_{data.lower()}": f"NVLink {way} {kind} {data} Data [Throughput %]"
        for way in ("RX", "TX")
        for kind in ("Requests", "Responses")
        for data in ("Protocol", "User")
    },
}


def _title(label: str) -> str:
    return label.replace("SM* Active", "SM Active").replace("Active*", "Active [Throughput %]")


def _of_metric(slug: str, label: str) -> tuple[Cfg, Cfg, Cfg]:
    title = _title(label)
    timeline = Cfg(
        "hwcounters/timeline",
        slug,
        title,
        "As sampled, on the metrics row of each GPU: a value holds until the next.",
        record.METRICS,
        windows=(values(title, named(label), look=GRADIENT),),
    )
    mean = Cfg(
        "hwcounters/mean",
        slug,
        f"{title}, mean over GPUs",
        "The mean over all GPUs that have been sampled, in one row.",
        record.METRICS,
        windows=(metric_of_run(title, label, look=GRADIENT),),
    )
    kernels = within("Kernel class in the window", values("Kernel class", of(types.KERNEL_CLASS)))
    in_kernels = Cfg(
        "hwcounters/in_kernels",
        slug,
        f"{title} within kernels of each class",
        """Mean of the sampled metric of the rank's GPU while kernels of each class run, by stream. A sample covers its
whole period: for kernels shorter than it this mixes neighbors. Time before the first sample counts as 0. Of several
processes on one GPU the first has its samples: the others show 0.""",
        record.CUDA_METRICS,
        histogram=Histogram(f"{title} by kernel class", kernels, "Average value", data=metric_seen(title, label)),
    )
    return timeline, mean, in_kernels


CFGS: tuple[Cfg, ...] = tuple(cfg for slug, label in METRIC_LABELS.items() for cfg in _of_metric(slug, label))
