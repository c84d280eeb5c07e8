"""Loading of code in the loop: programs that compile or try kernels for each new shape load them again and again."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.common_advice import CommonAdvice, parts_on
from nsys2prv.analysis.facts.compute_times import shared_compute
from nsys2prv.analysis.facts.framework import Words
from nsys2prv.analysis.facts.hosts.functions_of_hosts import Seen
from nsys2prv.analysis.facts.thresholds import NAMED_FUNCTION, ONE_PLACE, RECURS
from nsys2prv.analysis.text_columns import text_contains

KEEP_SHAPES = Words(
    general="Keep shapes the same (pad, or sort into a few sizes), so that no kernel is compiled or tried again, and "
    "make compiled functions once, before the loop.",
    pytorch="Keep shapes the same (pad, or sort into a few sizes), do not try kernels for shapes that change "
    "(torch.backends.cudnn.benchmark=False), and see why code is compiled again (TORCH_LOGS=recompiles).",
    jax="Keep shapes and static arguments the same (pad, or sort into a few sizes), call jax.jit once, before the "
    "loop, and see why code is compiled again (JAX_EXPLAIN_CACHE_MISSES=1).",
    cupy="Keep types and shapes the same, and make kernels once, before the loop: RawKernel and fused functions of "
    "CuPy, functions of numba.cuda.jit.",
    cuda="Load code once, before the loop (cuModuleLoad, CUDA_MODULE_LOADING=EAGER), launch from threads that stay, "
    "and keep shapes the same where a library compiles or tries kernels for each.",
)
# Plans of FFTs load their kernels; who makes plans again for each call loads them again.
KEEP_PLANS = Words(
    general="Keep plans of FFTs, which load code, too, from call to call.",
    pytorch="Keep plans of FFTs, which load code, too: torch.backends.cuda.cufft_plan_cache has to hold all shapes "
    "(max_size), and is not to be cleared.",
    jax="Keep plans of FFTs, which load code, too: give FFTs a few shapes.",
    cupy="Keep plans of FFTs, which load code, too: the cache of CuPy has to hold all shapes "
    "(cupy.fft.config.get_plan_cache().set_size), and is not to be cleared; or make a plan once "
    "(cupyx.scipy.fftpack.get_fft_plan), and give it to each call.",
    cuda="Keep plans of FFTs, which load code, too: make them once, before the loop (cufftPlanMany), and launch them "
    "again (cufftExec).",
)
# cuDNN compiles the kernels of its fused attention at run time, for each length of a sequence.
FLASH_ATTENTION = Words(
    general="cuDNN compiles its attention for each length: pad to a few lengths, or take another implementation.",
    pytorch="cuDNN compiles its attention for each length: torch.backends.cuda.enable_cudnn_sdp(False) takes Flash "
    "Attention, which compiles nothing.",
)
# A thread that starts has nothing loaded: libraries load and compile again for it what other threads have.
KEEP_THREADS = Words(
    general="Another thread loads it each time: keep threads from iteration to iteration.",
    pytorch="Another thread loads it each time: keep threads from iteration to iteration, and launch from one where "
    "that can be, as threads of a Python process take turns.",
)
# Of a process with several GPUs.
KEEP_THREADS_OF_GPUS = Words(
    general=KEEP_THREADS.general,
    pytorch="Another thread loads it each time: keep threads from iteration to iteration (DistributedDataParallel in "
    "place of DataParallel).",
)
COMPILED_ATTENTION = r"^cudnn_generated\w*sdpa"
# Classes of the kernels of FFTs and convolutions (see intervals/kernel_classes.toml).
FFT = "FFT"
CONVOLUTIONS = "^convolution"
# Calls that load compiled kernels (CUDA driver API, module and library management; CUDA runtime API, libraries).
LOADS = r"^(?:cuModuleLoad|cuLibraryLoad|cudaLibraryLoad|cuLinkComplete)"


def advice_on_loading(case: Case) -> str:
    """Return what to do about code that is loaded in the loop, first about libraries of the loop that load it."""
    keep = KEEP_SHAPES.of(case.framework)
    others = other_threads_load(case)
    several = any(len(own) > 1 for own in shared_compute(case).values())
    reasons = (
        (others, KEEP_THREADS_OF_GPUS if several else KEEP_THREADS),
        (has_ffts(case), KEEP_PLANS),
        (_has_compiled_attention(case) and not others, FLASH_ATTENTION),
    )
    first = [advice.of(case.framework) for holds, advice in reasons if holds]
    return " ".join([*first, f"Else: {keep[0].lower()}{keep[1:]}" if first else keep])


def common_loading(case: Case, advice: str) -> tuple[CommonAdvice, ...]:
    """Return what an advice has of advice_on_loading, which launches and calls of the system share."""
    text = advice_on_loading(case) if iterations_that_load(case) else ""
    return parts_on("loading", text, "What to do about that is said above.", advice)


def advice_on_compiling(case: Case, seen: Seen) -> str:
    """Return the end of a sentence on samples of hosts, if they show compilers of kernels; else an empty text.

    It ends without a period.
    """
    if seen.compiling < NAMED_FUNCTION.value:
        return ""
    return f"; kernels are compiled there, as for new shapes. {KEEP_SHAPES.of(case.framework).removesuffix('.')}"


def has_ffts(case: Case) -> bool:
    """Return True if FFTs run in the window, and not only those of convolutions.

    Where convolutions take longer, their library tries FFTs for them (torch.backends.cudnn.benchmark).
    """
    ffts, convolutions = (
        case.kernels.filter(chosen)["ns"].sum()
        for chosen in (pl.col("class") == FFT, text_contains("class", CONVOLUTIONS))
    )
    return ffts > convolutions


@once
def other_threads_load(case: Case) -> bool:
    """Return True if another thread loads code in most iterations, and none in two, as where threads are started."""
    start = pl.col("start")
    by_thread = _loads(case).group_by("task", "row").agg(lasting=start.max() - start.min())
    if by_thread.is_empty() or not case.analysis.window.iterations:
        return False
    threads, lasting = by_thread.group_by("task").len()["len"], by_thread["lasting"]
    enough = max(2, RECURS.value * case.step_count)
    return bool((threads >= enough).any() and (lasting < case.iteration_ns).all())


def _has_compiled_attention(case: Case) -> bool:
    """Return True if attention of cuDNN runs in the window whose kernels are compiled at run time."""
    return bool(case.kernels["name"].cast(pl.String).str.contains(COMPILED_ATTENTION).any())


def iterations_that_load(case: Case) -> int:
    """Return in how many iterations of the window a rank loads code, of the rank with most; 0 if in less than half.

    A program that starts loads its kernels when it launches them for the first time.
    """
    calls = case.kept_calls(_loads(case))
    if calls.is_empty() or not case.analysis.window.iterations:
        return 0
    steps = case.analysis.iterations.filter("steady").select("rank", "repeat", "iteration", start="start_ns")
    of_ranks = calls.select("start", rank=pl.col("task").replace_strict(case.run.ranks, default=None)).drop_nulls()
    own = of_ranks.sort("start").join_asof(steps.sort("start"), on="start", by="rank", check_sortedness=False)
    loading = own.drop_nulls("iteration").unique(["rank", "repeat", "iteration"]).group_by("rank").len()
    most = int(loading["len"].max() or 0)  # type: ignore[arg-type]
    return most if most >= RECURS.value * case.step_count else 0


def long_ones_load(case: Case) -> bool:
    """Return True if code is loaded in pauses that hold most of the time that devices idle in long iterations.

    Code that a thread compiles is loaded at the end of such a pause. Where code is loaded in half of all iterations it
    is no reason for the long ones.
    """
    if iterations_that_load(case):
        return False
    gaps = case.idle_gaps(case.long_steps.spans)
    begin, until = (gaps.axis.time(gaps.found[c].to_numpy()) for c in ("start", "until"))
    loads = np.sort(_loads(case)["start"].to_numpy())
    loading = np.searchsorted(loads, until, side="right") > np.searchsorted(loads, begin)
    return bool((until - begin)[loading].sum() >= ONE_PLACE.value * max((until - begin).sum(), 1))


def _loads(case: Case) -> pl.DataFrame:
    """Return the calls that load code."""
    return case.run.calls.filter(pl.col("kind") == "cuda", text_contains("name", LOADS))
