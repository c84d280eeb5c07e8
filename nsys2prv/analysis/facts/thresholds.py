"""Thresholds of all rules, each with its unit and reason."""

from __future__ import annotations

from typing import NamedTuple


class Threshold(NamedTuple):
    """A number from which a rule speaks or judges, with its unit and the reason for it."""

    value: float
    unit: str
    reason: str


HIGH = Threshold(0.10, "of an iteration", "worth a change of the program: a tenth of the machine")
MEDIUM = Threshold(0.03, "of an iteration", "above the spread of iterations of a quiet run (1 to 2 %)")
LOW = Threshold(0.01, "of an iteration", "below that, a prediction is not better than its error")
ATTAINABLE = Threshold(
    0.5, "of the gain of transfer=0", "no network takes no time; twice the bandwidth or half the bytes saves half"
)
LATE = Threshold(0.02, "of an iteration", "as for delays: less than 2 % is jitter")
NAMED = Threshold(0.25, "of the longest transfers", "shorter ones of another operation hardly matter beside them")
LEAST_WAIT = Threshold(0.1, "of the longest wait", "a rank that waits less than this is not counted as waiting")
LONGER_COMPUTE = Threshold(
    0.5, "of the waiting", "longer compute than on the ranks that wait explains most of the waiting for a rank"
)
OF_ONE_RANK = Threshold(0.5, "of the gain of imbalance=0", "with less of it, other ranks compute longer in turn")
RECURS = Threshold(0.5, "of the iterations", "what comes less often is a delay of single iterations")
SCATTERED = Threshold(
    0.25, "of what makes a rank late", "launches of a kernel that is at all places of a program name none of them"
)
PECULIAR = Threshold(0.25, "of the delay", "work that delays others on several ranks is a place, and not a cause")
SELDOM = Threshold(0.34, "of the iterations", "what comes more often belongs to each iteration")
PAUSE = Threshold(5.0, "times an iteration", "so long a time between two iterations is other work than that of a loop")
LONG = Threshold(1.5, "times the others", "usual iterations differ by some percent, those with other work by far more")
MOSTLY_OTHERS = Threshold(
    0.5, "of the excess", "a rank that waits so long is not slow itself: those that it waits for are"
)
SAME_COUNT = Threshold(1.2, "times", "programs launch as many kernels for small input as for large, to some percent")
LAUNCHES_MORE = Threshold(1.25, "times", "shares of one size launch alike to some percent; a layer more is a tenth")
LEAST_MORE = Threshold(0.05, "of a rank's launches", "less than that in a few iterations hardly makes its host late")
SAME_BYTES = Threshold(0.02, "of the bytes", "what a program copies to and fro for each kernel has the same size")
EXPLAINS = Threshold(0.1, "of the excess", "with less, other findings say what the long iterations do")
MOST_NAMED = Threshold(5, "iterations", "more fill a line, and the first ones lead to the others")
MOSTLY_THEN = Threshold(0.8, "of the excess", "what a rank computes longer in the other iterations hardly matters")
LIKE_MOST = Threshold(0.5, "of their mean", "iterations with half of the excess of the longest ones are of their kind")
IN_TURN = Threshold(2.0, "times", "with more on the path than every device idles, a different host is late each time")
TOGETHER = Threshold(0.5, "of the waiting of others", "ranks that are late together wait, too, for each other")
SINGLE = Threshold(0.5, "of the waiting for a group", "a single rank that is waited for longer is the cause itself")
GAINED = Threshold(0.5, "of the waiting", "a finding that gains less than half of the waiting says how much")
ON_PATH = Threshold(0.5, "of the time of kernels", "with less of it on the critical path, a finding says how much is")
PREDICTED = Threshold(0.3, "of the waiting", "a prediction below that explains another part of the waiting")
BUBBLE = Threshold(0.05, "of an iteration", "each stage of a pipeline waits for others; other messages hardly wait")
OF_SCHEDULE = Threshold(
    0.5,
    "of the bubble",
    "with less of it in the ideal bubble, another schedule gains less than what else holds stages up",
)
HOSTS_EMPTY = Threshold(0.5, "of the bubble", "devices that idle so long for launches wait for hosts, not for stages")
BUSY = Threshold(0.95, "of an iteration", "a host that waits for less of the time has nothing to spare")
BLOCKED = Threshold(
    200_000, "ns", "a call of CUDA that takes longer waits for the device, such as a launch into a full queue"
)
MANY_GRAPHS = Threshold(10, "graphs", "programs make a few before their loop, as one for each size of a batch")
STRAY_KERNELS = Threshold(0.02, "of the kernels at home", "without iterations: set-up launches a few elsewhere")
STRAY = Threshold(0.5, "of the time at home", "a rank that works on two GPUs alike was given both of them")
SHORT_KERNEL = Threshold(
    30_000, "ns", "a launch with its framework costs the host 10 to 30 us: a host stays ahead of longer ones"
)
ALIKE_LENGTHS = Threshold(
    2.0, "times the median", "nine in ten kernels are no longer: their median says how long they are"
)
ALL_ALONG = Threshold(0.8, "of the tenths of a window", "a start-up allocates in the first ones")
MANY_OPERATIONS = Threshold(64, "kernels an iteration", "layers and buckets that are short as well are fewer")
GAP = Threshold(100_000, "ns a kernel", "a launch with its framework takes 10 to 50 us; more is other work of the host")
FAULT = Threshold(200_000, "ns a page", "the host faults a page back in 60 to 120 us; more is other work of the host")
LEAST_WAITING = Threshold(0.05, "of the time before launches", "less is not worth words")
MOSTLY_STARVED = Threshold(
    0.5, "of the time that the most starved device has nothing launched", "one with less waits for that rank"
)
MOSTLY_FOR = Threshold(
    0.8, "of the waiting that no late rank explains", "one or two ranks with less are not the reason"
)
NAMED_CAUSE = Threshold(0.25, "of the waiting", "a call or range of one host with less is one of many causes")
BLOCKING = Threshold(0.9, "of the kernels", "with CUDA_LAUNCH_BLOCKING=1 the call of each kernel ends after it")
NEARLY_ALL = Threshold(
    0.9,
    "of the launches, or of a time",
    "a thread that launches less shares them with others of its process; the words for a time from there on",
)
HANDOVER = Threshold(500_000, "ns", "a thread wakes another of its process in 20 to 300 us while nsys records OS calls")
VALUE_BYTES = Threshold(
    65_536, "bytes", "losses, norms and flags have a few; a larger copy is of data, and takes time itself"
)
IN_ROW = Threshold(10, "activities", "between two waits of a row; an iteration or a token has more")
IN_COPIES = Threshold(0.5, "of the time before launches", "most of that time goes when copies no longer block")
LONG_CALL = Threshold(100_000, "ns a call", "calls that make no context and load no code take 1 to 50 us")
ONE_PLACE = Threshold(0.5, "of the time without launched work", "whoever looks there looks at most of it")
AT_ONCE = Threshold(0.5, "of the time that a GPU works", "GPUs of a process that mostly work at once take no turns")
TAKES_TURNS = Threshold(0.25, "of the longest wait", "a GPU that waits less hardly ever has to wait for the others")
PART_PLACE = Threshold(0.25, "of the time without launched work", "where hundreds of launches share the rest")
FEWEST_SAMPLES = Threshold(20, "samples", "of fewer, a share is left to chance")
RUNS_THERE = Threshold(0.5, "of the samples for its time", "a thread that waits in a pause has hardly any there")
NAMED_FUNCTION = Threshold(0.2, "of the samples", "a function with less is one of many; then files are named")
NAMED_TOO = Threshold(0.1, "of the samples", "beside a function with more, less hardly matters")
COMPUTING = Threshold(0.5, "of the samples", "with less of it, the host does other things than to compute")
INTERPRETER_ALONE = Threshold(0.8, "of the samples", "code in Python that calls libraries has a third or more in these")
ALL_COLLECTING = Threshold(0.5, "of the samples", "with less of it, a host does other things, too")
COLLECTING = Threshold(
    0.02, "of the samples", "functions of a collection that have names: where a million objects are collected, 6 %"
)
LONG_PAUSE = Threshold(20, "times the time of a launch", "a host that launches all along makes no such pause")
ONE_PAUSE = Threshold(
    0.5, "of the time before launches", "launches alone leave many small gaps, and not one long pause"
)
TENSOR_TILE = Threshold(8, "depth of the tile", "products on CUDA cores have tiles 8 deep, on tensor cores 16 or more")
MOST_OF_DELAY = Threshold(0.5, "of the delay", "a call that is longer than usual by most of a delay explains it")
MOST_SENT_BACK = Threshold(0.5, "of the bytes to hosts", "data that most copies bring back is of no use to the host")
MOST_HELD_BACK = Threshold(
    0.5, "of the time of small kernels", "then streams gain nothing, and what orders them counts"
)
HELD_BACK = Threshold(10_000, "ns", "a launch on an idle stream begins 2 to 5 us after its call")
MAINLY_SCALAR = Threshold(
    0.5, "of the time of products", "with most of it on CUDA cores a device computes in FP32 or FP64"
)
HARDLY_SCALAR = Threshold(0.1, "of the time of products", "single products of small sizes run on CUDA cores, too")
TENSOR_GAIN = Threshold(
    4.0, "times", "H100 data sheet: 67 TFLOPS in FP32, 495 in TF32 and 989 in BF16, of which products reach half"
)
UNALIGNED_GAIN = Threshold(
    3.0, "times", "H100, BF16: 3.7 times as long with rows aligned to 4 bytes as with 16, 6 to 7 times with 2"
)
DOUBLE = Threshold(0.25, "of compute", "two H200 runs: products take 5.3 times as long as in TF32")
TENSOR_ACTIVE = Threshold(10.0, "% of cycles", "large products on tensor cores keep these active in 40 to 90 %")
CONVERSIONS = Threshold(0.15, "of compute", "casts of training with FP32 weights and autocast take 9 to 13 %")
CONVERSIONS_SAVED = Threshold(0.5, "of their time", "about half can be fused or kept in one type and layout")
MOSTLY_JOINS = Threshold(0.5, "of the conversions", "with less of them, types and layouts matter as much")
GATHERED = Threshold(0.25, "of compute", "lookups of embeddings and batches take 1 to 19 %")
GATHERS_SAVED = Threshold(0.5, "of their time", "two programs on an H200 saved 91 and 86 %; rows must still be read")
MOSTLY_SORTED = Threshold(0.5, "of the gathers and scatters", "with less of it, the advice is on all of them")
SOFTMAX = Threshold(0.05, "of compute", "fused attention has none, and the loss takes 2 to 4 %, which does not count")
SOFTMAX_LAUNCHES = Threshold(2, "launches an iteration", "one grid each layer; a loss and a token have one softmax")
PASS = Threshold(2, "times the softmax", "reading and writing each score; a mask or cast takes 0.3 to 1 times as long")
CHAINS = Threshold(
    0.1, "of compute", "eager training in PyTorch has 1 %; with GELU by its formula 14 %, a solver in CuPy 58 %"
)
LOOP_OVER_TENSORS = Threshold(
    50, "elementwise kernels in a row", "layers have ten at most; a loop over the parameters of a model has hundreds"
)
AVERAGED = Threshold(0.5, "of the kernels in loops", "with fewer after NCCL kernels, most loops are of an optimizer")
LOOPED = Threshold(0.1, "of the kernels", "fewer in loops over tensors hardly shorten the time of launches")
MANY_ROUNDS = Threshold(
    100, "rounds in a row", "deep networks repeat their layers less often; loops over rows or steps do so more often"
)
LONGEST_ROUND = Threshold(32, "kernels in a round", "a step of a loop over rows, cells or images launches that many")
BETWEEN_WAITS = Threshold(16, "kernels between two waits", "fewer are a step of a loop, and no inputs of a server")
RECORDS_OF_TIMED = Threshold(
    1.8, "event records a round", "one before and one after it; programs that overlap streams record one at most"
)
WARM_UP = Threshold(
    0.5, "of the timed launches", "do_bench of Triton warms a kernel up for a quarter of the time in which it times it"
)
PART_OF_LAUNCHES = Threshold(0.25, "of the kernels", "fewer hardly shorten the time of launches")
DOMINANT = Threshold(0.4, "of compute and of an iteration", "whatever else is mended, this kernel is then most of it")
VARYING = Threshold(1.5, "times, 9th by 1st decile", "kernels of one grid at one place repeat within some percent")
NEAR = Threshold(0.1, "of a time", "repeats of a kernel under one condition differ by less")
TWO_LENGTHS = Threshold(0.9, "of the launches", "of one length or another, with few between: two conditions, not noise")
FEWEST_PLACES = Threshold(5, "iterations", "deciles of fewer values mean nothing")
DEFECT_ROWS = Threshold(
    0.02, "of the rows of a table", "shares change by no more; work that was queued when recording began has no call"
)
UNMATCHED = Threshold(0.1, "of the time in communication", "what waits in the rest still shows who is late")
MOSTLY_UNMATCHED = Threshold(
    0.5, "of the time in communication", "most of what counts as transfer may be waiting, which no network shortens"
)
WHOLE_GRAPHS = Threshold(0.2, "of the device time", "what one activity hides can change efficiency by as much")
BANDWIDTH = Threshold(0.5, "of the highest", "equal links give like rates for messages of one size")
BANDWIDTH_BYTES = Threshold(1e6, "bytes an operation", "smaller operations are bound by latency")
LARGE_TRANSFER = Threshold(500_000, "ns", "messages of some bytes take 5 to 100 us, over sockets, too")
ONE_CHANNEL = Threshold(0.5, "of exposed transfers", "with less of it, more channels hardly shorten an iteration")
IN_ONE_ROW = Threshold(0.5, "of a transfer", "with more compute before it, an operation sends the result of that")
SAME_REDUCTION = Threshold(1.5, "times", "transfers of equal bytes repeat within a few percent where ranks are ready")
OF_FORWARD = Threshold(
    0.1, "of the transfers", "forward passes that all-reduce activations do it as long as backward ones"
)
CONTENDED = Threshold(1.1, "times", "below that, contention is not told from the spread of kernels")
PINNED_SAVED = Threshold(
    0.67, "of their time", "pinned memory moves 3 to 10 times as much a second, and in the background"
)
STAGED_SAVED = Threshold(
    0.9, "of their time", "between two H200 16 MB take 0.61 ms through the host, and 0.02 ms directly"
)
CONTENDED_SAVED = Threshold(
    0.5, "of what it costs", "communication has to run somewhere; fewer channels save about half"
)
MEMORY_FULL = Threshold(
    0.9, "of the memory", "beside it lie the context, libraries and fragments, 1 to 3 GB that are not recorded"
)
WAITS_IN_GRAPH = Threshold(2, "waits an iteration", "a single one, as for the loss, may stay outside of a CUDA graph")
WAITS_OF_KERNELS = Threshold(
    0.1, "of the kernels", "without iterations: a program that waits after a few kernels does so in its loop"
)
NAMED_WAIT = Threshold(0.1, "of the waits", "without iterations: a call that comes no more often is of no loop")
DATA_COPIES = Threshold(0.25, "of copies to the host", "a layer's biases and norms are small, one third is matrices")
MOST_WAITS = Threshold(0.8, "of the waits of hosts", "with fewer of one kind, a host waits for other things, too")
WAITS_MORE = Threshold(2, "times those of other ranks", "hosts that do the same wait about as often")
LATENCY_KERNEL = Threshold(10_000, "ns", "shorter kernels are bound by their latency, whatever their grid")
SMALL_GRIDS_SAVED = Threshold(
    0.9, "of the idle multiprocessors, at most", "a sum in one block took 9 % of its time in many, on an H200"
)
LOW_OCCUPANCY = Threshold(
    0.25, "of the warps", "Volkov 2010: kernels bound by memory need about a quarter of the warps to hide its latency"
)
FEW_WARPS = Threshold(4, "warps", "a multiprocessor has four schedulers: with a warp each, none has another to run")
OCCUPANCY_SHARE = Threshold(0.1, "of compute", "kernels that take less are not worth a look in ncu")
WARP = Threshold(32, "threads", "CUDA programming guide: of all compute capabilities")
RESERVED_SHARED = Threshold(1024, "bytes a block", "CUDA programming guide: since compute capability 8.0")
CLOCK_DROP = Threshold(1.1, "times", "clocks of equal GPUs under equal load differ by 2 to 4 %")
SLOW_KERNELS = Threshold(1.08, "times", "kernels of equal GPUs differ by up to 5 % in clocks and memory")
SLOW_SHARE = Threshold(0.75, "of compute", "a low clock slows nearly all kernels, other input only some")
SAME_KERNELS = Threshold(
    0.9, "of compute", "other input, such as larger batches, launches kernels of other names or grids, too"
)
ALIKE_KERNELS = Threshold(3, "kernels", "of fewer, other input explains longer times as well")
LIKE_LAUNCHES = Threshold(0.1, "of the launches", "kernels launched more often than on other GPUs are other work")
MOST_OF_LONGER = Threshold(0.5, "of the longer compute", "kernels with less of it are not why a GPU computes longer")
NAMED_KERNEL = Threshold(0.1, "of the longer compute", "beside a kernel with more, less hardly matters")
FEW_KERNELS = Threshold(
    0.75, "of the longer compute", "other data lengthens one or two kernels, slower memory and other processes many"
)
FEWEST_LAUNCHES = Threshold(5, "launches", "the median of fewer is left to chance")
FEWEST_SLICES = Threshold(5, "pauses", "fewer may be chance")
KERNELS_IN_SLICES = Threshold(2, "kernels", "a time slice pauses whatever runs; one kernel alone may have other input")
LIKE_SLICES = Threshold(0.1, "of their length", "the middle half of the pauses; two H100 captures: 2.5 ms within 2 %")
MANY_IN_SLICES = Threshold(6, "kernels", "other input lengthens one or two kernels, and not all that a program runs")
NEARLY_SLICES = Threshold(
    0.5, "of their length", "the middle half of pauses of many kernels; an H200 capture: slices of 1.9 and of 2.5 ms"
)
SHORTEST_SLICE = Threshold(500_000, "ns", "time slices of a GPU last for one to some milliseconds")
PAUSED = Threshold(0.5, "of the longer compute", "pauses explain most of what a rank computes longer than the others")
OF_SHORT_KERNELS = Threshold(2, "times", "the median of longer kernels holds pauses itself")
