"""Cfgs of GPU metrics, one a metric: its timeline, its mean over GPUs and time, and that within kernels of each class.

A metric is known by its name, since its number differs between machines and versions of nsys. The names are those of
the metric sets that real reports have; `*` stands for the parts that differ between them.
"""

from __future__ import annotations

from nsys2prv.model import event_types as types
from nsys2prv.paraver.cfg import nsys_options
from nsys2prv.paraver.cfg.look import GRADIENT, PERCENT, Look
from nsys2prv.paraver.cfg.text import Cfg, Histogram, fixed
from nsys2prv.paraver.cfg.windows import (
    metric,
    metric_of_run,
    metric_of_task,
    metric_seen,
    of,
    sampled_within,
    values,
    while_sampled,
    within,
)

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


# In every title: a sample is drawn until the next one.
HELD = "(held samples)"


def look_of(label: str) -> Look:
    """Return the look of a metric: shares in percent have the same colors in every trace."""
    return GRADIENT._replace(scale=PERCENT if is_percent(label) else None)


def is_percent(label: str) -> bool:
    """Return True for a metric whose values are shares in percent."""
    return "%" in _title(label)


def _title(label: str) -> str:
    return label.replace("SM* Active", "SM Active").replace("Active*", "Active [Throughput %]")


def _of_metric(slug: str, label: str) -> Cfg:
    title = _title(label)
    scale = PERCENT if is_percent(label) else None
    kernels = within("Kernel class in the window", values("Kernel class", of(types.KERNEL_CLASS)))
    return Cfg(
        "hwcounters",
        slug,
        f"{title} {HELD}",
        """As sampled, on the metrics row of each GPU: a value holds until the next one, the last for one period, none
over a pause; a second window, closed, has the mean over all GPUs being sampled. The first table has the mean by rank
over the time in the window of interest in which its GPUs were sampled, which is that of the samples; the second the
mean while kernels of each class run, by stream, not an estimate of the class. A sample covers its whole period: for
kernels shorter than it this mixes neighbors. Of several processes on one GPU the first has its samples: the others
show none.""",
        nsys_options.CUDA_METRICS,
        windows=(metric(f"{title} {HELD}", label, look=look_of(label)), metric_of_run(f"{title}, mean of GPUs", label)),
        histograms=(
            Histogram(
                f"{title}, mean of samples by rank",
                sampled_within(label),
                "Average value",
                fixed(1, 1),
                data=metric_of_task(title, label),
                scale=scale,
            ),
            Histogram(
                f"{title} by kernel class {HELD}",
                while_sampled("Kernel class while sampled", kernels, label),
                "Average value",
                data=metric_seen(title, label),
                scale=scale,
            ),
        ),
    )


CFGS: tuple[Cfg, ...] = tuple(_of_metric(slug, label) for slug, label in METRIC_LABELS.items())
