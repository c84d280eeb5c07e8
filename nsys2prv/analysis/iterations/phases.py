"""NVTX ranges on the device, by process: work that any thread launched while a range was open on the main thread.

Frameworks launch from several threads (PyTorch: backward kernels from one of their own), and a range is pushed on one
of them. NVIDIA's projection goes by thread; there `backward` of the data parallel GPT run is 1 kernel of 242.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from nsys2prv.analysis.frames import Run
from nsys2prv.analysis.interval_frames import parts_by
from nsys2prv.families.nvtx.passes import repeats_of
from nsys2prv.families.nvtx.range_patterns import (
    ADDED,
    DIGITS,
    LIBRARY_DOMAINS,
    digits_of,
    number_of,
    numbered_text,
    operation_of,
    pattern_of,
    value_of,
)
from nsys2prv.intervals.spans import Spans, reach_before, union

# Occurrences of a phase or iteration; `start`, `end`: ns of the trace. `number`: the number in the range's text for
# which the last `#` of the pattern stands; without one, how many occurrences came before on the task. `repeat`: the
# pass, such as an epoch, that it belongs to, from 0 (see families/nvtx/passes.py). Occurrences of several tasks with
# equal `number` and `repeat` belong together.
OCCURRENCE = {
    "task": pl.Int64(),
    "number": pl.Int64(),
    "repeat": pl.Int64(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "text": pl.String(),
}

# A longer pattern (characters) is compared as a text: as a regex it takes megabytes.
LONGEST_REGEX = 1000

# Phases of a step by the names that programs and frameworks give their ranges: the first regex that matches counts, so
# that a range `forward-backward` is neither forward nor backward. Beside plain words: Megatron's combined layers
# (`layer_3f-layer_4b`), the actions of torch.distributed.pipelining (`PP:0F2`: stage, forward, microbatch; B, I and W
# are parts of the backward pass), torch's fused ranges (`FSDP::pre_backward`, `Optimizer.step#Adam.step`,
# `enumerate(DataLoader)#...`), vLLM (`gpu_model_runner: forward`, `execute_context_1(64)_generation_0(0)`) and JAX,
# whose operations are named by their transformation (`transpose(jvp(...))` is backward).
PHASES = {
    "forward_backward": (
        r"(?i)(?:forward|fwd)(?:[-_ +/&]|and)*(?:backward|bwd)|(?:backward|bwd)(?:[-_ +/&]|and)*(?:forward|fwd)"
        r"|^layer_[0-9]+f-layer_[0-9]+b"
    ),
    "backward": r"(?i)backward|(?:^|[^a-z])bwd(?:$|[^a-z])|^PP:[0-9]+[BIW][0-9]+|transpose\(jvp\(",
    "forward": r"(?i)forward|(?:^|[^a-z])fwd(?:$|[^a-z])|^PP:[0-9]+F[0-9]+|^execute_context_[0-9]+|(?:^|[^a-z])jvp\(",
    "optimizer": r"(?i)optim",
    "load": (
        r"(?i)data[-_ ]?load|^load(?:$|[-_ ](?:data|batch|input))|(?:get|next|fetch)[-_ ]batch|batch[-_ ]generator"
        r"|^data$|^gpu_model_runner: preprocess"
    ),
}


def phase_of(text: pl.Expr) -> pl.Expr:
    """Return the name in PHASES that a range's text stands for; null without one."""
    named = [pl.when(text.str.contains(regex)).then(pl.lit(name)) for name, regex in PHASES.items()]
    return pl.coalesce(named)


def with_phase(ranges: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges (RANGES) whose text names a phase, with `phase`, its name in PHASES."""
    # Millions of ranges may have few texts.
    texts = ranges.select(pl.col("text").unique()).with_columns(phase=phase_of(pl.col("text"))).drop_nulls()
    return ranges.join(texts, on="text", maintain_order="left")


def main_ranges(run: Run) -> pl.DataFrame:
    """Return RANGES of each task's main NVTX thread: the one with the longest ranges in total, libraries' aside."""
    ranges = run.ranges
    own = ~pl.col("domain").is_in(LIBRARY_DOMAINS)
    length = (pl.col("end") - pl.col("start")).filter(own)
    lasting = ranges.group_by("task", "row").agg(total=length.sum(), count=length.len()).filter(pl.col("count") > 0)
    main = lasting.sort("task", "total", "row", descending=[False, True, False]).unique("task", keep="first")
    kept = ranges.select(own & pl.col("row").is_in(main["row"].to_list())).to_series()
    # Often one thread has them all, and millions of ranges need no copy.
    return ranges if kept.all() else ranges.filter(kept)


def occurrences(ranges: pl.DataFrame, pattern: str) -> pl.DataFrame:
    """Return OCCURRENCE of ranges (of `main_ranges`): the outermost whose text or operation the pattern matches.

    In the pattern `#` stands for a number or for itself, and the last number numbers the occurrence; without one they
    count from 0.
    """
    matching = _matching(ranges["text"], pattern)
    found = ranges.join(matching, on="text", maintain_order="left").sort(
        "task", "start", pl.col("end"), descending=[False, False, True]
    )
    outer = outermost(found, found["task"])
    numbers = value_of(pl.col("digits")), pl.int_range(pl.len()).over("task")
    numbered = outer.with_columns(number=pl.coalesce(numbers))
    return numbered.with_columns(repeat=repeats_of(numbered)).select(*OCCURRENCE)


def _matching(texts: pl.Series, pattern: str) -> pl.DataFrame:
    """Return the texts that match a pattern of `occurrences`, each once, with `digits` and `stem`.

    `digits`: its number (null: none); `stem`: the rest of the text, or all before it.
    """
    distinct, text = pl.DataFrame({"text": texts.unique()}), pl.col("text")
    if len(pattern) > LONGEST_REGEX:
        # No text is shorter than its pattern, and making patterns of long texts takes long.
        near = distinct.filter(text.str.len_bytes() >= len(pattern.encode()))
        alike = [text, operation_of(text), pattern_of(text), numbered_text(text)]
        found = near.filter(pl.any_horizontal(one == pattern for one in alike))
        digits = digits_of(text) if "#" in pattern else pl.lit(None, pl.String)
        stem = numbered_text(text)
    else:
        *before, after = (re.escape(part) for part in pattern.split("#"))
        last = f"(?:({DIGITS})|#)" if before else "()"
        regex = f"(?s)^({f'(?:{DIGITS}|#)'.join(before)}){last}{after}(?:{ADDED}.*)?$"
        found, stem, digits = distinct.filter(text.str.contains(regex)), *(text.str.extract(regex, n) for n in (1, 2))
    return found.select("text", digits=digits, stem=stem)


def outermost(ranges: pl.DataFrame, group: pl.Series) -> pl.DataFrame:
    """Return the ranges that begin within no other of their group. They come in order of start, longer ones first."""
    reach = reach_before(group.to_numpy(), ranges["end"].to_numpy())
    return ranges.filter(pl.Series(ranges["start"].to_numpy() >= reach))


def phase_ranges(main: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return the outermost ranges within each iteration, its phases: task, start, end, text, repeat and number.

    `main`: ranges of the main threads; `steps`: OCCURRENCE of the iterations. Phases come by task and time.
    """
    step = steps.select("task", "repeat", "number", iteration="text", began="start", ended="end").sort("began")
    ranges = main.select("task", "start", "end", "text").sort("start")
    found = ranges.join_asof(step, left_on="start", right_on="began", by="task", check_sortedness=False)
    # The iteration's own range is none of its phases.
    itself = (pl.col("text") == pl.col("iteration")) & (pl.col("start") == pl.col("began"))
    inside = found.filter(pl.col("end") <= pl.col("ended"), ~itself)
    ordered = inside.sort("task", "start", "end", descending=[False, False, True])
    return outermost(ordered, ordered["task"]).drop("iteration", "began", "ended")


def named(pattern: str, number: int, repeat: int) -> str:
    """Name an occurrence of a pattern: `step 3`, `step 3 (repeat 1)`."""
    name = str(number).join(pattern.rsplit("#", 1)) if "#" in pattern else f"{pattern} {number}"
    return f"{name} (repeat {repeat})" if repeat else name


def projected(work: pl.DataFrame, occurrences: pl.DataFrame) -> pl.DataFrame:
    """Return WORK launched within an occurrence of its task, with the occurrence's `number` and `repeat`.

    Work of unknown launch belongs to none. Any frame with `task` and `launched` will do.
    """
    parts = [work.clear().with_columns(number=pl.lit(None, pl.Int64), repeat=pl.lit(None, pl.Int64))]
    by_task = parts_by(work.drop_nulls("launched"), "task")
    for task, ranges in parts_by(occurrences, "task").items():
        if task not in by_task:
            continue
        own = by_task[task]
        launched = own["launched"].to_numpy()
        index = np.searchsorted(ranges["start"].to_numpy(), launched, side="right") - 1
        last = ranges.select("number", "repeat", "end")[np.maximum(index, 0)]
        within = (index >= 0) & (launched < last["end"].to_numpy())
        parts.append(own.with_columns(last["number"], last["repeat"]).filter(pl.Series(within)))
    return pl.concat(parts)


def phase_window(work: pl.DataFrame) -> Spans:
    """Return the time of a phase: the union, over its occurrences, of first to last device activity over all ranks."""
    spans = work.group_by("number", "repeat").agg(pl.col("start").min(), pl.col("end").max())
    return union(spans["start"].to_numpy(), spans["end"].to_numpy())


def find_iterations(ranges: pl.DataFrame, in_part: bool = False) -> str | None:
    """Return the pattern of the ranges that number the run's iterations (`step #`), None when no ranges do.

    Among the patterns whose texts come once a task it is the one with the longest total time. Numbers before the
    last one stay in it where they are the same in all iterations (`epoch 0 step #`). `in_part`: a chosen part of a run
    may have a single one of them.
    """
    text = pl.col("text")
    # Millions of ranges may have few texts.
    each = ranges.group_by("task", "text").agg(total=(pl.col("end") - pl.col("start")).sum(), rows=pl.len())
    numbered = each.with_columns(pattern=pattern_of(text), number=number_of(text)).drop_nulls("number")
    counted = numbered.group_by("pattern").agg(
        pl.sum("total", "rows"), numbers=pl.col("number").n_unique(), texts=pl.len()
    )
    counted = counted.filter((pl.col("texts") == pl.col("rows")) & (in_part | (pl.col("numbers") > 1)))
    single = pl.col("numbers") == 1
    ordered = counted.sort(single, pl.col("total"), pl.col("pattern"), descending=[False, True, False])
    if ordered.is_empty():
        return None
    pattern = str(ordered["pattern"][0])
    alike = numbered.filter(pl.col("pattern") == pattern).select(numbered_text(text))["text"].unique()
    return str(alike[0]) if len(alike) == 1 else pattern
