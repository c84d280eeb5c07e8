"""Devices without work: what their hosts do meanwhile, and what is advised against it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from programs import UNIT, analysis_of, findings_of, of_processes, program, with_samples

from nsys2prv.analysis.facts.case import case_of
from nsys2prv.analysis.facts.framework import Framework
from nsys2prv.analysis.findings.launch_bound import launch_bound
from nsys2prv.analysis.frames import TEXT
from nsys2prv.cli.first_screen import verdict_of


@pytest.mark.parametrize(
    ("waits", "says"),
    [
        ((), ""),
        ((500,), ""),
        ((300, 600, 900), "First remove the 3 waits of the host for the device in an iteration (values that it reads"),
    ],
)
def test_many_short_kernels_with_waits_between_make_no_graph(waits: tuple[int, ...], says: str) -> None:
    """Timers of events do not wait, and a wait for the loss may stay outside of the graph."""
    kernels = [f"k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(110)]
    calls = [f"synchronization:Stream_synchronize {at + 0.5}-{at + 0.7}" for at in waits]
    timers = [f"synchronization:Event_synchronize {at}.2-{at}.4" for at in range(3, 33, 3)]
    alone = ", ".join([*kernels, *calls, *timers])
    advice = findings_of(program(f"0| {alone}"))["launch-bound"].advice
    assert says in advice
    assert ("waits of the host" in advice) == bool(says)
    of_two = findings_of(program(f"0| {alone}\n1| {', '.join(kernels)}"))["launch-bound"].advice
    assert "waits of the host" not in of_two, "1.5 times on average"


def test_a_pause_with_most_of_the_time_is_no_matter_of_launches() -> None:
    """Short kernels leave gaps of 2 ms, a wait of the host costs 2 ms, and the host does other things for 3 ms."""
    short = ", ".join(f"k @{at} {at + 1}-{at + 2}" for at in range(0, 400, 2))
    line = f"{short}, k @400 402-652, wait 402-653, k @850 851-852, k @1152 1153-1499"
    found = findings_of(program(f"0| {line}", every=1500))
    assert ("launch-bound" in found, "host-bound" in found) == (False, True)


def test_a_screen_without_room_leaves_out_samples_and_not_what_to_do() -> None:
    """A pause in each iteration, waits for the device, and samples of three functions with long names."""
    kernels = [f"k @{at - 1} {at}-{at + 2}" for at in range(5, 880, 3)]
    waits = [f"synchronization:S {at}.5-{at}.7, cuda:cudaStreamSynchronize {at}.5-{at}.7" for at in (100, 200, 300)]
    run = program(f"0| {', '.join([*kernels, *waits])}")
    names = [name * 40 for name in "abc"]
    run = with_samples(run, *((name, f"lib{name}.so", range(890, 990, 3)) for name in names))
    found = findings_of(run)["launch-bound"]
    assert found.advice.count("33 % ") == 3
    screen = " ".join(verdict_of(analysis_of(run), [Path("run")]).split())
    assert ("[...]" in screen, found.advice[-60:] in screen, "in `ccc" in screen) == (False, True, False)


@pytest.mark.parametrize(
    ("framework", "label", "last", "size", "says"),
    [
        (Framework.PYTORCH, "pt_autograd_0 8", "k:r:reduction", 1, "set_detect_anomaly"),
        (Framework.PYTORCH, "python3 7", "k:r:reduction", 1, ""),
        (Framework.PYTORCH, "pt_autograd_0 8", "k:r:elementwise", 1, ""),
        (Framework.PYTORCH, "pt_autograd_0 8", "k:r:reduction", 4, ""),
        (Framework.CUDA, "solver 7", "k:nrm2_kernel<float>:reduction", 4, "CUBLAS_POINTER_MODE_DEVICE"),
        (Framework.CUDA, "solver 7", "k:reduce_1Block_kernel:reduction", 4, "CUBLAS_POINTER_MODE_DEVICE"),
        (Framework.CUDA, "solver 7", "k:dot_kernel:reduction", 4, ""),
        (Framework.CUDA, "solver 7", "k:mine:reduction", 4, ""),
    ],
)
def test_what_the_values_are_of_is_told_by_the_kernels_before(
    framework: Framework, label: str, last: str, size: int, says: str
) -> None:
    """A value is read each 100 us."""
    each = (
        f"{last} @{at} {at + 1}-{at + 2}, c:Device-to-Host:Device_to_Pinned @{at + 2} {at + 3}-{at + 4}, "
        f"cuda:cudaStreamSynchronize {at + 2}.5-{at + 4}.5, synchronization:Stream_synchronize {at + 2}.5-{at + 4}.5"
        for at in range(0, 990, 10)
    )
    run = program(f"0| {', '.join(each)}")
    names = pl.col("name").cast(pl.String).str.replace_all("(dot|nrm2|Block|reduce) (1|kernel)", "${1}_${2}").cast(TEXT)
    work = run.work.with_columns(names, bytes=pl.when(pl.col("bytes").is_not_null()).then(size))
    case = case_of(analysis_of(run._replace(work=work, row_labels=(label, *run.row_labels[1:]))))
    (found,) = launch_bound(replace(case, framework=framework))
    assert "First remove the 99 waits of the host for the device in an iteration" in found.advice
    for text in ("set_detect_anomaly", "CUBLAS_POINTER_MODE_DEVICE"):
        assert (text in found.advice) == (text == says)
    # One value in an iteration explains none of 98 other waits.
    few = work.with_columns(bytes=pl.when(pl.col("start") % (1000 * UNIT) < 20 * UNIT).then("bytes").otherwise(10**6))
    case = case_of(analysis_of(run._replace(work=few, row_labels=(label, *run.row_labels[1:]))))
    (found,) = launch_bound(replace(case, framework=framework))
    assert "Most are for" not in found.advice


def test_waits_are_named_of_the_ranks_and_iterations_that_are_counted() -> None:
    """Rank 0 copies data after each second kernel, and all ranks wait in long iterations by a call of their own."""
    kernels = ", ".join(f"k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(110))
    waits = ", ".join(f"{{kind}}:{{name}} {at}.5-{at}.7" for at in (300, 600, 900))
    waits = (
        f"{waits.format(kind='synchronization', name='S')}, {waits.format(kind='cuda', name='cudaStreamSynchronize')}"
    )
    saves = ", ".join(
        f"c:Device-to-Host:Device_to_Pageable @{t}.1 {t}.2-{t}.4, cuda:cudaMemcpy {t}.1-{t}.5"
        for t in range(2, 900, 18)
    )
    long = f"{kernels}, {waits}, " + ", ".join(f"cuda:cudaDeviceSynchronize {t}-{t + 5}" for t in range(1000, 2900, 50))
    lines = [f"{kernels}, {waits}, {saves}", f"{kernels}, {waits}", f"{kernels}, {waits}"]
    picture = "\n".join(f"{rank}| {line}" for rank, line in enumerate(lines))
    changed = {f"step{step}_rank{rank}": long for step in (5, 11, 17) for rank in range(3)}
    run = program(picture, steps=24, longer=dict.fromkeys((5, 11, 17), 2000), **changed)
    advice = findings_of(run)["launch-bound"].advice
    assert "First remove the 3 waits of the host for the device in an iteration (`cudaStreamSynchronize`: " in advice


@pytest.mark.parametrize(("apart", "named"), [(5, True), (50, False)])
def test_without_iterations_many_waits_are_those_of_a_loop(apart: int, named: bool) -> None:
    kernels = [f"k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(110)]
    waits = [f"synchronization:Stream_synchronize {9 * n + 2.5}-{9 * n + 2.7}" for n in range(0, 110, apart)]
    run = program(f"0| {', '.join([*kernels, *waits])}")
    advice = findings_of(run._replace(ranges=run.ranges.clear()))["launch-bound"].advice
    says = f"First remove the {6 * len(waits)} waits of the host for the device in the window"
    assert (says in advice, "waits of the host" in advice) == (named, named)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("cudaMallocAsync", "ReleaseThreshold"),
        ("cudaMalloc", "caching allocator"),
        ("cudaHostAlloc", "Pin memory once"),
        ("cudaHostRegister", "Pin memory once"),
        ("cudaFreeHost", "Pin memory once"),
        ("cuMemHostAlloc", "Pin memory once"),
        ("cuMemHostUnregister", "Pin memory once"),
    ],
)
def test_advice_on_allocations_fits_the_call(call: str, says: str) -> None:
    found = findings_of(program(f"0| k @0 5-100, cuda:{call} 100-395, k @395 400-990"))
    assert says in found["allocations"].advice


@pytest.mark.parametrize(
    ("wait", "between", "one"),
    [
        ("cuda:cudaDeviceSynchronize", "cuda:cudaEventDestroy 501-502", True),
        ("cuda:cudaDeviceSynchronize", "cuda:cudaMemcpyAsync 501-502", False),
        ("synchronization:Stream_synchronize", "cuda:cudaEventDestroy 501-502", False),
    ],
)
def test_a_wait_for_the_device_to_free_memory_is_part_of_that(wait: str, between: str, one: bool) -> None:
    """As in cublasDestroy: the idle time of 2.04 ms after the wait holds 20 us of cudaFree."""
    line = f"k @0 5-500, {wait} 100-501, {between}, cuda:cudaFree 502-504, k @700 704-990"
    found = findings_of(program(f"0| {line}"))
    assert ("host-synchronization" not in found) == one
    assert ("allocations" in found) == one
    if one:
        assert found["allocations"].cost_ns / 1e6 == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(("steps", "named"), [(20, True), (5, False)])
def test_memory_allocated_all_along_is_named_without_iterations(steps: int, named: bool) -> None:
    usual, allocates = "k @0 5-100, k @395 400-990", "k @0 5-100, cuda:cudaMalloc 100-395, k @395 400-990"
    run = program(f"0| {usual}", 20, **{f"step{n}_rank0": allocates for n in range(steps)})
    found = findings_of(run._replace(ranges=run.ranges.clear()))
    assert ("allocations" in found) == named


@pytest.mark.parametrize("busy", [True, False])
def test_one_long_allocation_is_named_without_iterations_where_devices_idle(busy: bool) -> None:
    usual, frees = "k @0 5-100, k @395 400-990", "k @0 5-100, cuda:cudaFree 100-395, k @395 400-990"
    hidden = frees.replace("5-100, cuda", "5-394, cuda")
    run = program(f"0| {usual}", step2_rank0=hidden if busy else frees)
    found = findings_of(run._replace(ranges=run.ranges.clear()))
    assert ("allocations" in found) == (not busy)
    if not busy:
        assert found["allocations"].title.startswith(
            "One call takes long to allocate or free memory (cudaFree), and the"
        )
        # After the first kernel no call makes a context.
        assert "(warm up)" not in found["allocations"].advice


def test_the_long_allocation_that_is_named_is_the_one_during_which_a_device_idles() -> None:
    """Calls of another name take longer, beside kernels."""
    frees = ", ".join(f"cuda:cudaFreeHost {20 + 40 * n}-{50 + 40 * n}" for n in range(8))
    run = program(f"0| k @0 5-400, {frees}, cuda:cudaMalloc 402-600, k @601 602-990", steps=1)
    found = findings_of(run._replace(ranges=run.ranges.clear()))["allocations"]
    assert "(cudaMalloc)" in found.title
    assert (found.evidence["calls"], found.at_ns) == (1, 402 * UNIT)


@pytest.mark.parametrize(("steps", "named"), [(6, True), (2, False)])
def test_code_that_is_loaded_in_most_iterations_is_named(steps: int, named: bool) -> None:
    usual, loads = "k @0 5-100, k @800 805-990", "k @0 5-100, cuda:cuLibraryLoadData 300-301, k @800 805-990"
    found = findings_of(program(f"0| {usual}", **{f"step{n}_rank0": loads for n in range(steps)}))["host-bound"]
    assert ("code is loaded in 6 of 6 iterations" in found.title) == named
    waits = {f"step{n}_rank0": loads.replace("k @800", "os:sem_wait 301-800, k @800") for n in range(steps)}
    (found,) = [*findings_of(program(f"0| {usual}", **waits)).values()][-1:]
    assert ("Code is loaded in 6 of 6 iterations" in found.advice) == named
    assert ("Keep shapes the same" in found.advice) == named
    split = loads.replace("k @800", "os:sem_wait 301-550, k @800")
    twice = analysis_of(program(f"0| {usual}", **{f"step{n}_rank0": split for n in range(steps)})).findings
    advice = {one.id: one.advice for one in twice if one.id in ("host-bound", "system-waiting")}
    assert len(advice) == 2
    assert sum("Keep shapes the same" in one for one in advice.values()) == named
    assert ("What to do about that is said above." in advice[twice[1].id]) == named


def test_code_that_is_loaded_where_ffts_run_may_be_of_their_plans() -> None:
    loads = "k:vector_fft_r2c:FFT @0 5-100, cuda:cuLibraryLoadData 300-301, k @800 805-990"
    found = findings_of(program(f"0| {loads}"))["host-bound"]
    assert "compiled or tried for new shapes, or plans of FFTs are made, and the device has no work" in found.title
    assert found.advice.startswith("Keep plans of FFTs, which load code, too, from call to call. Else: keep shapes the")
    other = findings_of(program(f"0| {loads.replace(':FFT', ':GEMM')}"))["host-bound"]
    assert "FFT" not in other.title + other.advice
    # A library that tries ways to convolve tries FFTs, too.
    tried = findings_of(program(f"0| k:conv:convolution_fprop @0 110-300, {loads}"))["host-bound"]
    assert "FFT" not in tried.title + tried.advice


def test_code_that_another_thread_loads_each_time_is_told_from_new_shapes() -> None:
    """Threads that start in each iteration load what others have, as of DataParallel."""
    run = program("0| k:sdpa @0 5-100, cuda:cuLibraryLoadData 300-301, k @800 805-990")
    loads = pl.col("name").cast(pl.String) == "cuLibraryLoadData"
    nth = pl.when(loads).then(100 + loads.cum_sum()).otherwise("row").cast(pl.Int64)
    found = findings_of(run._replace(calls=run.calls.with_columns(row=nth)))["host-bound"]
    assert "code is loaded in 6 of 6 iterations, by another thread each time, and the device" in found.title
    assert found.advice.startswith("Another thread loads it each time: keep threads")
    assert not findings_of(run)["host-bound"].advice.startswith("Another thread")
    once = pl.col("start") == pl.col("start").filter(loads).min()
    single = findings_of(run._replace(calls=run.calls.filter(~loads | once)))["host-bound"]
    assert "Another thread" not in single.advice


@pytest.mark.parametrize("gpus", [1, 2])
def test_other_threads_of_pytorch_are_of_data_parallel_where_a_process_has_several_gpus(gpus: int) -> None:
    rank = "k:k @0 5-100, cuda:cuLibraryLoadData 300-301, k:k @800 805-990"
    run = of_processes(program("\n".join(f"{n}| {rank}" for n in range(gpus))), gpus)
    of_pytorch = pl.lit("vectorized_elementwise_kernel", pl.Categorical())
    run = run._replace(work=run.work.with_columns(name=of_pytorch))
    loads = pl.col("name").cast(pl.String) == "cuLibraryLoadData"
    nth = pl.when(loads).then(100 + loads.cum_sum()).otherwise("row").cast(pl.Int64)
    advice = findings_of(run._replace(calls=run.calls.with_columns(row=nth)))["host-bound"].advice
    assert ("in place of DataParallel). Else" in advice) == (gpus > 1)
    assert ("and launch from one where that can be" in advice) == (gpus == 1)


def test_attention_that_is_compiled_for_each_length_is_named() -> None:
    """cuDNN compiles its attention at run time. Attention of other libraries loads no code."""
    run = program("0| k:sdpa @0 5-100, cuda:cuLibraryLoadData 300-301, k @800 805-990")

    def advice(name: str) -> str:
        renamed = run.work.with_columns(pl.col("name").cast(pl.String).replace("sdpa", name).cast(TEXT))
        return findings_of(run._replace(work=renamed))["host-bound"].advice

    compiled = advice("cudnn_generated_fort_native_sdpa_sm80")
    assert compiled.startswith("cuDNN compiles its attention for each length: pad to a few lengths, or")
    assert "Else: keep shapes the same" in compiled
    assert advice("fmha_cutlassF_bf16").startswith("Keep shapes the same")


@pytest.mark.parametrize(
    ("picture", "says"),
    [
        ("k:a @0 5-100, k:b @800 805-990", "after `a` and before `b` (nearly all of that time): record"),
        ("k:a @0 5-100, sample 100-800, k:b @800 805-990", "does in `sample` after `a` and before `b` (nearly all"),
        # Its range is open when the device runs dry, and closed for most of the time after that.
        ("k:a @0 5-100, sample 50-250, k:b @800 805-990", "host does after `a` and before `b` (nearly all"),
        ("k:a @0 5-100, k:b @500 505-600, k:c @990 991-995", "host does after `a` and before `b` (50 % of that time)"),
        ("k:a @0 5-100, k:b @400 405-500, k:c @720 725-800", "does between launches: record"),
    ],
)
def test_advice_says_where_a_host_is_busy(picture: str, says: str) -> None:
    """Where most of the time without launched work lies between two activities, and else not."""
    assert says in findings_of(program(f"0| {picture}"))["host-bound"].advice


@pytest.mark.parametrize(
    ("calls", "named", "advice"),
    [
        ("cuda:cudaStreamCreateWithFlags 100-750", "cudaStreamCreateWithFlags", "Call it once before the loop"),
        ("cuda:cudaMemcpyAsync 100-750", "cudaMemcpyAsync", "from pinned memory"),
        ("cuda:cudaStreamCreateWithFlags 100-300", "", "record CPU samples"),
        ("cuda:cudaStreamSynchronize 100-750", "", "record CPU samples"),
        (", ".join(f"cuda:cudaEventRecord {n}-{n + 5}" for n in range(100, 790, 6)), "", "record CPU samples"),
    ],
)
def test_the_long_call_of_a_pause_is_named(calls: str, named: str, advice: str) -> None:
    """Short calls of one name say nothing, even if they fill it, nor do calls that wait for the device."""
    run = program(f"0| k:a @0 5-100, {calls}, k:b @800 805-990")
    found = findings_of(run)["host-bound"]
    assert (f"the host is in `{named}` for 6.50 ms" in found.title) == bool(named)
    assert advice in found.advice
    assert "after `a` and before `b`" in found.advice
    if "Create" in named:
        assert "(warm up)" in findings_of(run._replace(ranges=run.ranges.clear()))["host-bound"].advice


IN_LAUNCHES = "the host is in `cudaLaunchKernel`"


@pytest.mark.parametrize(
    ("until", "title", "advice"),
    [
        (750, f"{IN_LAUNCHES} for 6.42 ms an iteration (6 long calls in 6 iterations)", "had been launched before"),
        (300, "the host is busy between launches", "does between one `a` and the next"),
    ],
)
def test_long_launches_are_named_with_their_reason(until: int, title: str, advice: str) -> None:
    """A call launches a kernel that ran before, and returns when the device has idled for long."""
    others = "cuda:cudaLaunchKernel 0-1, k:a @0 5-100, cuda:cudaLaunchKernel 755-756, k:a @755 760-990"
    run = program(f"0| {others}, cuda:cudaLaunchKernel 100-{until}, k:a @100 102-110")
    found = findings_of(run)["host-bound"]
    assert (title in found.title, advice in found.advice) == (True, True), found


def test_a_long_launch_of_a_kernel_that_is_new_may_load_its_code() -> None:
    others = "cuda:cudaLaunchKernel 0-1, k:a @0 5-100, cuda:cudaLaunchKernel 755-756, k:a @755 760-990"
    run = program(f"0| {others}, cuda:cudaLaunchKernel 100-750, k:b @100 102-110", steps=1)
    found = findings_of(run._replace(ranges=run.ranges.clear()))["host-bound"]
    assert f"{IN_LAUNCHES} for 6.42 ms in the window (1 long call), and" in found.title
    assert "CUDA_MODULE_LOADING=EAGER" in found.advice


def test_a_long_launch_that_does_not_count_says_nothing_of_those_that_do() -> None:
    """The first launch of a kernel is long as well, in the start-up, which is no part of the window."""
    others = "cuda:cudaLaunchKernel 0-1, k:a @0 5-100, cuda:cudaLaunchKernel 755-756, k:a @755 760-990"
    start = others.replace("0-1,", "0-1, cuda:cudaLaunchKernel 100-950, k:z @100 952-955,").replace(
        "755-756", "956-957"
    )
    line = f"0| {others}, cuda:cudaLaunchKernel 100-750, k:a @100 102-110"
    run = program(line, steps=8, longer={0: 4000}, step0_rank0=start)
    found = findings_of(run)["host-bound"]
    assert "(7 long calls in 7 iterations)" in found.title
    assert "had been launched before" in found.advice


@pytest.mark.parametrize("launched", [100, 101])
def test_a_call_of_the_driver_within_a_long_launch_is_part_of_it(launched: int) -> None:
    """The kernel may be of either call. Both ranks have one in each iteration."""
    others = "cuda:cudaLaunchKernel 0-1, k:a @0 5-100, cuda:cudaLaunchKernel 755-756, k:a @755 760-990"
    long = f"cuda:cudaLaunchKernel 100-500, cuda:cuLaunchKernel 101-499, k:a @{launched} 102-110"
    found = findings_of(program("\n".join(f"{rank}| {others}, {long}" for rank in (0, 1))))["host-bound"]
    assert f"{IN_LAUNCHES} for 3.92 ms an iteration (12 long calls of all ranks in 6 iterations), and" in found.title
    assert "had been launched before" in found.advice


def test_long_launches_beside_many_short_ones_are_named_in_the_advice() -> None:
    kernels = ", ".join(f"cuda:L {at - 1}-{at}, k @{at - 1} {at}-{at + 2}" for at in range(5, 695, 3))
    run = program(f"0| {kernels}, cuda:cudaLaunchKernel 695-795, k @695 697-699, k @798 799-990")
    advice = findings_of(run)["launch-bound"].advice
    assert advice.startswith(
        "For 28 % of that time the host is in `cudaLaunchKernel` (6 long calls in 6 iterations): their"
    )


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ((2,), "of 20.0 us leave"),
        ((1, 1, 4), ", nearly all of them shorter than the 50.0 us from launch to launch, leave"),
        ((1, 1, 16), ", 67 % of them shorter than the 50.0 us from launch to launch, leave"),
    ],
)
def test_the_title_on_launches_has_the_length_of_kernels_where_they_are_alike(
    lengths: tuple[int, ...], said: str
) -> None:
    begins = [at + more for at in range(0, 990, 30) for more in (0, 5, 10)]
    kernels = [f"k @{at} {at + 1}-{at + 1 + lengths[n % len(lengths)]}" for n, at in enumerate(begins)]
    assert said in findings_of(program(f"0| {', '.join(kernels)}"))["launch-bound"].title


@pytest.mark.parametrize("family", ["cpu_samples", "python_samples"])
def test_samples_of_the_host_that_are_there_are_not_to_be_recorded(family: str) -> None:
    for line, name, how in (
        ("k @0 5-100, k @800 805-990", "host-bound", "--show host-samples)"),
        # Other threads say why this one waits, and the table has launching threads alone.
        ("k @0 5-100, os:poll 100-800, k @800 805-990", "system-waiting", f"--also {family} -o trace)"),
    ):
        for recorded in (frozenset[str](), frozenset({family})):
            advice = findings_of(program(f"0| {line}")._replace(recorded_families=recorded))[name].advice
            assert ("nsys profile --sample" in advice) != bool(recorded)
            assert (how in advice) == bool(recorded)


def test_a_host_is_in_the_call_of_cuda_that_calls_the_system() -> None:
    late = "cuda:cudaFree 5-500, os:ioctl 6-499, k @500 505-900, n @510 900-905"
    found = findings_of(program(f"0| k @0 5-400, n @10 400-905, wait 20-905\n1| {late}"))
    assert found["late-rank"].title.startswith("Rank 1's `cudaFree` delays rank 0")


@pytest.mark.parametrize(("steps", "made"), [(6, True), (2, False)])
def test_graphs_that_are_instantiated_in_the_loop_should_be_kept(steps: int, made: bool) -> None:
    """In the advice on synchronization, and on a host that is busy; of a window without iterations ten or more."""
    waits, busy = "k @0 5-400, wait 10-402, k @450 455-990", "k @0 5-100, k @800 805-990"
    for usual, name in ((waits, "host-synchronization"), (busy, "host-bound")):
        makes = {f"step{n}_rank0": f"{usual}, cuda:cudaGraphInstantiate 410-440" for n in range(steps)}
        run = program(f"0| {usual}", **makes)
        assert ("First keep CUDA graphs: 6 are" in findings_of(run)[name].advice) == made
        assert "First keep" not in findings_of(run._replace(ranges=run.ranges.clear()))[name].advice


@pytest.mark.parametrize(("until", "named"), [(440, True), (415, False)])
def test_a_title_names_the_graphs_that_are_instantiated_for_a_good_part_of_an_idle_time(
    until: int, named: bool
) -> None:
    drawn = f"k @0 5-400, wait 10-402, cuda:cudaGraphInstantiate 410-{until}, k @450 455-990"
    found = findings_of(program(f"0| {drawn}"))["host-synchronization"]
    assert found.title.endswith(f"until new work is launched{', while CUDA graphs are instantiated' * named}")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("fopen", "The thread that launches opens, writes or closes files"),
        ("write", "The thread that launches opens, writes or closes files"),
        ("fclose", "The thread that launches opens, writes or closes files"),
        ("munmap", "The thread that launches gets memory of the host from the system"),
        ("poll", "The thread that launches waits for another one or sleeps"),
    ],
)
def test_the_advice_says_what_a_call_of_the_system_is_for(call: str, says: str) -> None:
    found = findings_of(program(f"0| k @0 5-100, os:{call} 100-800, k @800 805-990"))["system-waiting"]
    assert found.advice.startswith(says)


@pytest.mark.parametrize(("back", "returns"), [("Host-to-Device", True), ("Device-to-Device", False)])
def test_a_busy_host_that_sends_data_back_is_to_leave_it_on_the_device(back: str, returns: bool) -> None:
    """Without ranges there are no iterations, in which the work between the copies would be counted."""
    copies = "c:Host-to-Device @0 5-9, c:Host-to-Device @1 10-15, k @10 20-60, c:Device-to-Host @60 65-75"
    run = program(f"0| {copies}, c:{back} @900 905-915, k @920 925-990", steps=2)
    found = findings_of(run._replace(ranges=run.ranges.clear()))["host-bound"]
    assert ("where data goes to the device again, leave it there" in found.advice) == returns


@pytest.mark.parametrize(("thread", "by_gloo"), [("pt_gloo_runloop 12", True), ("python3 12", False)])
def test_threads_of_gloo_that_launch_after_idle_times_exchange_data_on_the_host(thread: str, by_gloo: bool) -> None:
    run = program("0| k @0 5-100, os:poll 100-800, k @800 805-990")
    found = findings_of(run._replace(row_labels=(thread, *run.row_labels[1:])))["system-waiting"]
    assert ("Ranks exchange data by Gloo" in found.advice) == by_gloo


@pytest.mark.parametrize(
    "calls",
    ["cuda:cudaFree 100-800, os:ioctl 101-799", "load 100-800, os:poll 101-799"],
    ids=["within a call of CUDA", "while data is loaded"],
)
def test_calls_of_the_system_that_serve_another_purpose_are_no_waiting(calls: str) -> None:
    assert "system-waiting" not in findings_of(program(f"0| k @0 5-100, {calls}, k @800 805-990"))


@pytest.mark.parametrize(("until", "waits", "cost"), [(950, True, 0.9), (550, True, 4.9), (550, False, None)])
def test_a_thread_that_waits_for_another_one_that_works_does_not_wait_for_the_system(
    until: int, waits: bool, cost: float | None
) -> None:
    """Threads of two devices of one process launch in turns; each waits for 4.9 ms and more until 9.9 ms.

    The other one launches last at 9 ms, or at 5 ms, and then waits itself, or works. The wait of both counts.
    """
    kernels = [f"k @{at} {at + 5}-{at + 45}" for at in range(0, until - 500, 50)]
    run = program(f"0| {', '.join(kernels)}, os:pthread_cond_wait {until - 550}-990")
    later = pl.col("launched", "start", "end") + 500 * UNIT
    other = run.work.with_columns(
        later, *(pl.lit(n, pl.Int64).alias(c) for c, n in (("device", 1), ("row", 2), ("caller_row", 7)))
    )
    begin = pl.col("start") // (1000 * UNIT) * 1000 * UNIT
    own = run.calls.with_columns(row=pl.lit(7, pl.Int64), start=begin + (until - 50) * UNIT, end=begin + 1490 * UNIT)
    device = run.devices[0]
    both = run._replace(
        work=pl.concat([run.work, other]).sort("start"),
        calls=pl.concat([run.calls, own]).sort("start") if waits else run.calls,
        devices=(device, device._replace(gpu=1)),
        duration=run.duration + 1000 * UNIT,
    )
    found = findings_of(both).get("system-waiting")
    assert (found and found.cost_ns / 1e6) == (cost and pytest.approx(cost))


def test_what_comes_in_every_third_iteration_counts_and_what_comes_once_does_not() -> None:
    waits = "k @0 5-100, os:poll 100-800, k @800 805-990"
    often = {f"step{n}_rank0": waits for n in (1, 4, 7)}
    found = findings_of(program("0| k @0 5-990", steps=10, **often))
    # 7 ms in two of eight: the longest and the shortest iteration are left out.
    assert found["system-waiting"].cost_ns / 1e6 == pytest.approx(7.0 * 2 / 8, rel=0.06)
    assert "system-waiting" not in findings_of(program("0| k @0 5-990", steps=10, step4_rank0=waits))


def test_the_call_that_is_named_is_of_the_thread_that_launches_next() -> None:
    """Another thread of the process waits for longer in another call."""
    run = program("0| k @0 5-100, os:poll 100-800, k @800 805-990")
    other = run.calls.with_columns(
        row=pl.lit(7, pl.Int64),
        name=pl.lit("futex").cast(TEXT),
        start=pl.lit(0, pl.Int64),
        end=pl.lit(run.duration, pl.Int64),
    )
    found = findings_of(run._replace(calls=pl.concat([run.calls, other])))["system-waiting"]
    assert found.evidence["call"] == "poll"
    assert (found.evidence["calls"], found.evidence["idle_in_call_ns"]) == (6, 700 * UNIT)


@pytest.mark.parametrize(
    ("item", "name", "late", "words"),
    [
        ("os:poll", "system-waiting", "01 12 20", "The device waits 4.96 ms an iteration while the host is in `poll`"),
        ("load", "data-loading", "01 12 20", "The device waits 4.96 ms an iteration while the host is in `load`"),
        (
            "os:poll",
            "system-waiting",
            "01 0 1",
            "Ranks wait 3.96 ms an iteration for each other's hosts, which are in `poll`",
        ),
        (
            "load",
            "data-loading",
            "01 0 1",
            "Ranks wait 3.96 ms an iteration for each other's hosts, which are in `load`",
        ),
    ],
)
def test_hosts_that_wait_together_or_in_turn_are_named(item: str, name: str, late: str, words: str) -> None:
    """`late`: the ranks that are late by 6 ms in each of three iterations in turn. The first is cut at its device work.

    Rank 2 is never late in the last two cases, so that its device hardly idles; rank 1 is the last one more often,
    which costs 1 ms.
    """
    early = "k @0 5-100, n @10 100-705, wait 20-706"
    waits = f"{item} 0-600, k @600 605-700, n @610 700-705, wait 620-706"
    lates = {f"step{n}_rank{rank}": waits for n in range(6) for rank in late.split()[n % 3]}
    found = findings_of(program("\n".join(f"{rank}| {early}" for rank in range(3)), **lates))
    assert found[name].title == words
    if name == "system-waiting":
        evidence, in_turn = found[name].evidence, "each other's" in words
        assert evidence["calls"] > 0
        assert ("path_in_call_ns" in evidence, "idle_in_call_ns" in evidence) == (in_turn, not in_turn)


def test_a_row_of_synchronizations_costs_the_idle_time_after_each() -> None:
    """The first one waits for 5 ms, two more for 10 us each; what comes then is launched at once."""
    row = "k @0 5-500, wait 1-501, k @502 503-504, wait 503-505, k @507 508-509, wait 508-510"
    rest = ", ".join(f"k @511 {513 + 39 * n}-{552 + 39 * n}" for n in range(12))
    found = findings_of(program(f"0| {row}, {rest}"))["host-synchronization"]
    assert found.cost_ns / 1e6 == pytest.approx(0.03 + 0.04 + 0.04)


def test_a_range_of_loading_in_which_the_host_polls_counts_once() -> None:
    """As in a data loader: hosts are late in turn."""
    early = "k @0 5-100, n @10 100-705, wait 20-706"
    waits = "load 0-600, os:poll 1-599, k @600 605-700, n @610 700-705, wait 620-706"
    lates = {f"step{n}_rank{rank}": waits for n in range(6) for rank in ("01", "0", "1")[n % 3]}
    found = findings_of(program("\n".join(f"{rank}| {early}" for rank in range(3)), **lates))
    assert "data-loading" in found
    assert "system-waiting" not in found


@pytest.mark.parametrize(
    ("call", "copies"), [("cudaMemcpy", True), ("cudaMemcpyAsync", False), ("cudaMalloc3D", False)]
)
def test_blocking_copies_are_the_reason_if_the_host_is_in_them_while_the_device_idles(call: str, copies: bool) -> None:
    found = findings_of(program(f"0| k @0 5-100, cuda:{call} 100-700, k @800 805-990"))
    assert ("the host is in blocking copies" in found["host-bound"].title) == copies
    assert "between ranks" not in found["host-bound"].advice, "there is one"


def test_ranks_whose_hosts_are_in_blocking_copies_are_to_send_from_the_device() -> None:
    drawn = "k @0 5-100, cuda:cudaMemcpy 100-700, k @800 805-990"
    found = findings_of(program(f"0| {drawn}\n1| {drawn}"))["host-bound"]
    assert "the host is in blocking copies" in found.title
    assert found.advice.endswith("; between ranks, pass device pointers to a CUDA-aware MPI or use NCCL.")


def test_ranks_that_wait_for_longer_compute_are_not_host_bound() -> None:
    """No host waits, and all launch in time."""
    found = findings_of(program("0| k @0 2-400, n @10 400-1000\n1| k @0 2-995, n @10 995-1000"))
    assert next(reversed(found)) == "imbalance"
    assert "host-bound" not in found


@pytest.mark.parametrize("alike", [True, False])
def test_the_same_kernels_between_waits_are_a_batch_or_a_graph(alike: bool) -> None:
    """A server launches 20 kernels for each of five requests, and waits for the result of each."""
    items = []
    for request in range(5):
        name, begin = "k" if alike else f"k:kernel{request}", 190 * request
        items += [f"{name} @{at} {at + 1}-{at + 2}" for at in range(begin, begin + 180, 9)]
        items.append(f"wait {begin + 180}-{begin + 181}")
    advice = findings_of(program(f"0| {', '.join(items)}"))["launch-bound"].advice
    assert ("launches the same 20 kernels between: compute several inputs at once" in advice) == alike
    assert ("First remove the 5 waits" in advice) != alike


@pytest.mark.parametrize(("memory", "told"), [("Pageable_to_Device", True), ("Pinned_to_Device", False)])
def test_waits_for_copies_of_single_inputs_are_told(memory: str, told: bool) -> None:
    kernels = ", ".join(f"k @{9 * n} {9 * n + 1}-{9 * n + 2}" for n in range(110))
    copies = ", ".join(f"c:Host-to-Device:{memory} @{at} {at}.2-{at}.3, wait {at}.1-{at}.4" for at in range(4, 900, 90))
    found = findings_of(program(f"0| {kernels}, {copies}"))["launch-bound"]
    assert ("Most waits are for copies to the device, one by one: join their data on the host" in found.advice) == told
    code = [part for part in found.spare if part in found.advice and "cudaDeviceSynchronize" in part]
    assert bool(code) == told, "a screen without room says what to do rather than which calls wait"
    # A copy explains one wait.
    more = ", ".join(f"wait {at}.45-{at}.5" for at in range(4, 900, 90))
    advice = findings_of(program(f"0| {kernels}, {copies}, {more}"))["launch-bound"].advice
    assert "Most waits are for" not in advice


@pytest.mark.parametrize(("memory", "told"), [("Pageable_to_Device", True), ("Pinned_to_Device", False)])
def test_synchronization_names_copies_of_single_inputs(memory: str, told: bool) -> None:
    """The host waits for each, and then for nothing else."""
    parts = (f"c:Host-to-Device:{memory} @{at} {at}.2-{at + 40}, wait {at}.1-{at + 41}" for at in range(4, 900, 90))
    kernels = (f"k @{at} {at + 1}-{at + 20}" for at in range(65, 960, 90))
    found = findings_of(program(f"0| {', '.join([*parts, *kernels])}"))["host-synchronization"]
    assert ("Most waits are for copies to the device, one by one" in found.advice) == told
    assert ("read results and flags some iterations later" in found.advice) != told
    assert [one.cause for one in found.common] == ["inputs"] * told, "launches have it, too"


@pytest.mark.parametrize(
    ("before", "after", "until", "cost"),
    [
        ("cudaFreeAsync", "cudaMallocAsync", 500, 4.0),
        ("cudaFreeAsync", "cudaMallocAsync", 312, 2.0),  # a wait that ends with its device only waits
        ("cudaFreeAsync", "cudaFree", 500, 2.0),
        ("cudaMallocAsync", "cudaMallocAsync", 500, 2.0),
    ],
)
def test_memory_that_a_pool_gives_back_in_a_wait_is_allocation(
    before: str, after: str, until: int, cost: float
) -> None:
    """The device ends its work at 3 ms; the wait may go on for 2 ms; allocation takes 2 ms of each 10 ms."""
    found = findings_of(
        program(f"0| k @0 2-300, cuda:{before} 2-3, wait 4-{until}, cuda:{after} 500-700, k @700 702-998")
    )
    assert found["allocations"].cost_ns / 1e6 == pytest.approx(cost, abs=0.05)


@pytest.mark.parametrize(("ended", "allocating"), [(980, 0), (780, 200)])
def test_a_wait_for_one_device_of_a_process_frees_no_memory_while_another_is_idle(ended: int, allocating: int) -> None:
    """GPU 1 is idle from 7 ms on; the host waits for GPU 0. Only from its end on may a pool be at work."""
    memory = "cuda:cudaFreeAsync 2-3, wait 705-980, cuda:cudaMallocAsync 995-996"
    run = of_processes(program(f"0| k @0 5-{ended}, {memory}\n1| k @0 5-700"), 2)
    starved = case_of(analysis_of(run)).starved.group_by("device").agg(pl.col("allocating").median() / UNIT)
    assert starved["allocating"].to_list() == pytest.approx([allocating] * 2, abs=2)
