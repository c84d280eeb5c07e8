"""Advice on many launches that are rounds of a loop over rows, cells or time steps."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case
from nsys2prv.analysis.facts.framework import Framework, Words
from nsys2prv.analysis.facts.kernel_families import REDUCTION
from nsys2prv.analysis.facts.thresholds import PART_OF_LAUNCHES
from nsys2prv.model.words import short

MERGE = Words(
    general="where a round does not need the result of the one before, launch one kernel for all of them (a dimension "
    "more); else put many rounds into one CUDA graph or kernel",
    pytorch="where a round does not need the result of the one before, compute all at once (a dimension more, "
    "torch.bmm, torch.vmap); else put many rounds into one CUDA graph, or use a fused operator (torch.nn.LSTM, a scan)",
    jax="where a round does not need the result of the one before, compute all at once (jax.vmap); else put the loop "
    "into one jax.jit (lax.scan)",
    cupy="where a round does not need the result of the one before, compute all at once (a dimension more); else put "
    "many rounds into one CUDA graph or kernel of your own",
)
# Norms of single tensors, as of each gradient where the program clips them.
OF_NORMS = (
    "they are reductions, as of the norm of each gradient: torch._foreach_norm, or clip_grad_norm_ with foreach=True, "
    "takes a few kernels for all tensors"
)
# Kernels of the recurrent layers of cuDNN, and what to do about them: a step needs the result of the one before, and
# layers in half precision may run as one persistent kernel (PyTorch, torch.nn.LSTM).
RECURRENT = r"RNNcell|(?:LSTM|GRU)_elementWise"
OF_CUDNN = (
    "they are steps of cuDNN's recurrent layers: take larger batches, half precision, for which cuDNN may run one "
    "kernel for all steps, or put all steps into one CUDA graph"
)
# Ranges of XLA in the body of a loop (lax.scan, lax.while_loop) of one module. XLA launches its kernels one by one
# unless command buffers hold WHILE (openxla/xla, pull request 19528).
XLA_LOOP = "/while/body"
OF_XLA = (
    "XLA runs them as a loop of one jax.jit already, and launches each: do more in a round (larger batches, "
    "lax.scan(..., unroll=8)), or let CUDA graphs hold the loop "
    "(XLA_FLAGS=--xla_gpu_enable_command_buffer=FUSION,CUBLAS,WHILE)"
)


def advice_on_rounds(case: Case, kernels: float) -> str:
    """Return advice where many of the kernels are rounds of a loop; else an empty text.

    `kernels`: of a device, an iteration.
    """
    ordered, found = case.ordered, case.rounds
    looped = case.of_device(sum(one.kernels for one in found))
    if looped < PART_OF_LAUNCHES.value * kernels:
        return ""
    usual = sorted(found, key=lambda one: one.kernels)[len(found) // 2]
    members = ordered[usual.first : usual.first + usual.length].sort("ns", maintain_order=True)
    longest, merge = str(members["name"][-1]), _merge(case, members, looped)
    sequence = f"`{short(longest, 40)}`"
    if usual.length > 1:
        sequence = f"{usual.length} kernels ({sequence} is the longest)"
    times = f"{usual.kernels // usual.length:,} times in a row"
    return f"{looped:,.0f} of the kernels repeat short sequences, such as {sequence} {times}: {merge}."


def _merge(case: Case, members: pl.DataFrame, looped: float) -> str:
    """Return how to launch rounds at once.

    `members`: the kernels of one; `looped`: how many all rounds have, of a device, an iteration.
    """
    if members["name"].cast(pl.String).str.contains(RECURRENT).any():
        return OF_CUDNN
    if case.framework is Framework.PYTORCH and (members["family"] == REDUCTION).all():
        return OF_NORMS
    if case.framework is Framework.JAX:
        window = case.analysis.window
        inside = case.run.ranges.filter(pl.col("start").is_between(window.start, window.end))
        in_loop = int(inside["text"].cast(pl.String).str.contains(XLA_LOOP, literal=True).sum())
        if 2 * case.of_device(in_loop) >= looped:
            return OF_XLA
    return MERGE.of(case.framework)
