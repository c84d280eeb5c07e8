"""Limits on memory, disk and the size of work units, all in one place.

A limit never changes the lines of a trace, only where work is divided. The exception is `estimate_memory`: estimates
that take more are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

# Bytes of one value in a column, by which limits are reckoned.
VALUE_BYTES = 8


@dataclass(frozen=True)
class Limits:
    """Sizes at which work is divided. The defaults were measured; tests pass smaller ones.

    Reading a report

    - `slice_bytes`: bytes of columns in one slice. Two slices are in memory, one in work and the next. A slice costs
      some 0.3 s whatever it holds: half as large, a report of ten times the long one took a quarter longer and 40 MB
      less.
    - `whole_bytes`: a report with fewer bytes of columns is not sliced.
    - `piece_bytes`: bytes of a table that one thread reads at a time.
    - `block_rows`: rows of a table that are looked up together when a slice is read where it lies.
    - `metric_rows`: rows of the GPU metrics table that analysis reads at a time.

    Storing points

    - `batch_rows`: rows of a stored batch. A window reads whole batches; smaller ones take longer each.
    - `in_memory_bytes`: points of smaller runs stay in memory when one process does the work (bytes of the reports as
      SQLite; points take two thirds of that). Writing and reading them takes a tenth of such a run.

    Matching

    - `match_rows`: match keys that are matched at a time.

    Encoding

    - `window_points`: points in one window, about.
    - `in_memory_windows`: factor on `window_points` for points in memory. A window takes 14 ms whatever it holds.
    - `window_spills`: point files a window on average, from which on reports are merged in bundles first. Eight reports
      take as long without.
    - `bundle_spills`, `bundles`: point files in one bundle, and the highest number of bundles.
    - `line_bytes`: bytes of merged lines for each byte of the trace, at most. Real runs take 0.4.

    Writing

    - `chunk_windows`: windows for each worker that are encoded before their lines are compressed.
    - `member_lines`: lines in one gzip member, some 10 MB of text. It decides where members end in a `.prv.gz`.
    - `trace_bytes`: largest trace that is written unless the user allows more: some ten minutes of loading in Paraver.

    Sharing the work among processes

    - `process_bytes`: bytes of reports below which a second process costs more than it saves.
    - `least_part`: share of a report below which families are not extracted by a process of their own.
    - `worker_memory`, `parent_memory`: bytes that a process takes which reads or writes, and one that only divides the
      work. Measured on reports of any length.
    - `analysis_memory`, `interval_memory`, `range_memory`: bytes that analysis takes, those for each call or device
      activity, which have nodes in the dependency graph, and those for each NVTX range, which has none. One report with
      0.5 million calls and activities took 340 MB, one with 5.2 million 1.6 GB, one with 12 million and 15.5
      million ranges 4.3 GB.
    - `estimate_memory`, `estimated_memory`: bytes that estimates of tensor activity may take where `--memory` does not
      say, and those that they take for each interval. They are made unless they are skipped, and a translation takes
      little memory otherwise.
    """

    slice_bytes: int = 64_000_000
    whole_bytes: int = 96_000_000
    piece_bytes: int = 16_000_000
    block_rows: int = 1 << 14
    metric_rows: int = 4_000_000
    batch_rows: int = 1 << 13
    in_memory_bytes: int = 160_000_000
    match_rows: int = 1_000_000
    window_points: int = 400_000
    in_memory_windows: int = 2
    window_spills: int = 96
    bundle_spills: int = 48
    bundles: int = 128
    line_bytes: float = 1.0
    chunk_windows: int = 4
    member_lines: int = 200_000
    trace_bytes: int = 4_000_000_000
    process_bytes: int = 40_000_000
    least_part: float = 0.05
    worker_memory: int = 750_000_000
    parent_memory: int = 150_000_000
    analysis_memory: int = 250_000_000
    interval_memory: int = 260
    range_memory: int = 110
    estimate_memory: int = 1_000_000_000
    estimated_memory: int = 130

    def piece_rows(self, columns: int) -> int:
        """Return the rows of so many columns that are read at a time."""
        return self.piece_bytes // (VALUE_BYTES * columns)


DEFAULT_LIMITS = Limits()
