"""Losses: each way in which a trace lacks or alters rows of a report, with its severity and its sentence.

Families count them in a `Tally`. `pipeline/write/comments.py` writes them into the trace, `cli/translation_text.py`
below the summary of a translation, and `analysis/recording/remarks.py` below an analysis.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from nsys2prv.model.words import NAME_WIDTH, short


class Severity(Enum):
    """The meaning of a loss to the user, from harmless to serious."""

    CHOSEN = "left out by an option: `--time`, `--nvtx`, `--min-duration`, `--metrics-every` or `--ranks`"
    DEFAULT = "left out by default: drawn elsewhere, or of no use in a trace"
    ALTERED = "drawn, but not as the report has it"
    LOST = "missing in the trace"


class Loss(Enum):
    """One way to lose or alter rows: its severity, and its sentence with `{}` for each argument."""

    # Left out by an option.
    OUTSIDE = Severity.CHOSEN, "outside the chosen time"
    SHORT = Severity.CHOSEN, "shorter than {} ns"
    LINE_TO_SHORT = Severity.CHOSEN, "to activity shorter than {} ns"
    AVERAGED = Severity.CHOSEN, "averaged over periods of {} ns"
    OF_OTHER_RANKS = Severity.CHOSEN, "of other ranks than --ranks chooses"
    # Left out by default.
    NO_ROW = Severity.DEFAULT, "on threads without a row (--threads all draws them)"
    LINE_WITHOUT_ROW = Severity.DEFAULT, "from or to a row that is not drawn"
    MESSAGE_WITHOUT_ROW = Severity.DEFAULT, "messages from or to a row that is not drawn"
    REPEATED = Severity.DEFAULT, "that another report of the same process holds too (drawn once)"
    RESAMPLED = Severity.DEFAULT, "of a GPU or network card that another report sampled more densely"
    OTHER_GENERIC = Severity.DEFAULT, "generic events of other sources than GPU metrics"
    CONTEXT_REQUEST = Severity.DEFAULT, "requests and acknowledgments, which have no length"
    STATIC_ELSEWHERE = Severity.DEFAULT, "static variables on devices that their process does not use"
    OF_PROFILER = Severity.DEFAULT, "on threads of the profiler itself"
    BEFORE_CALLS = Severity.DEFAULT, "before the first CUDA call of the report"
    # Altered.
    NEGATIVE = Severity.ALTERED, "ends before it begins (drawn 1 ns long)"
    NO_END = Severity.ALTERED, "without an end (drawn 1 ns long)"
    STILL_OPEN = Severity.ALTERED, "still open at the end (drawn to the last event)"
    STILL_ON_GPU = Severity.ALTERED, "still on the GPU at the end (drawn to the last event)"
    ROW_OF_NO_THREAD = Severity.ALTERED, "without a thread (drawn on a row of none)"
    DEEP_STACK = Severity.ALTERED, "stacks deeper than {} (drawn without the callers above)"
    HUGE_THROUGHPUT = Severity.ALTERED, "a throughput above 2**63 B/s (drawn without it)"
    HUGE_PAYLOAD = Severity.ALTERED, "a payload above 2**63 (the range is drawn without it)"
    REAL_PAYLOAD = Severity.ALTERED, "a payload above {} or no number (the range is drawn without it)"
    PAYLOAD_UNREAD = Severity.ALTERED, "a payload, or a field of one, that cannot be read (drawn without it)"
    NO_NCCL_CALL = Severity.ALTERED, "kernels without the payload of their NCCL call in the report (drawn without it)"
    OTHER_NCCL_THREAD = (
        Severity.ALTERED,
        "kernels that a thread without NCCL calls launched, as for non-blocking communicators (without payload)",
    )
    OF_UNKNOWN_GPU = (
        Severity.ALTERED,
        "operations of an unknown GPU among several of their process (numbered apart, not matched)",
    )
    OPERATION_WITHOUT_GPU = (
        Severity.ALTERED,
        "operations without a kernel, of a process with several GPUs or none (drawn on a host thread)",
    )
    NOT_MATCHED = (
        Severity.ALTERED,
        "operations on the device without a thread or a communicator, or messages of no direction (drawn, not matched)",
    )
    NEVER_DONE = Severity.ALTERED, "receives whose wait is not in the report (drawn to the end of their call)"
    NO_CUDA_CALL = (
        Severity.ALTERED,
        "without their CUDA call in the report, of process {} (drawn without a line; in no range and no iteration)",
    )
    BEFORE_ITS_CALL = Severity.ALTERED, "that begin over {} us before their CUDA call, of process {} (drawn so)"
    FAILED_CALL = (
        Severity.ALTERED,
        "calls of {} that returned {}, of process {} (drawn; their work did not run)",
    )
    OTHER_FAILED_CALL = (
        Severity.ALTERED,
        "calls of {} that returned {}, of process {} (drawn; they put no work on a device)",
    )
    SAME_KERNEL = Severity.ALTERED, "kernels that were not profiled (drawn with the mean of the same kernel)"
    SAME_CLASS = Severity.ALTERED, "kernels of which none alike was profiled (drawn with the mean of their class)"
    LACKS_DETAIL = Severity.ALTERED, "rows of {}, which lacks {} (drawn without)"
    NO_STRING = Severity.ALTERED, "whose {} is not among the report's texts (drawn by its number)"
    # Missing.
    LACKS_COLUMNS = Severity.LOST, "{} lacks {}"
    NO_TIME = Severity.LOST, "without a time"
    INCOMPLETE = Severity.LOST, "without {}"
    NO_THREAD = Severity.LOST, "without a thread"
    UNNAMED_METRICS = Severity.LOST, "generic events whose type names no metrics"
    ALLOCATED_BEFORE = Severity.LOST, "freed, but allocated before the recording"
    NEVER_ON_GPU = Severity.LOST, "taken off the GPU without having been put there"
    NO_START = Severity.LOST, "ends of packets that began before the recording"
    NO_EVENT_RECORD = Severity.LOST, "waits for an event whose record is not in the report"
    NO_WAIT_CALL = Severity.LOST, "waits for an event whose call is not in the report"
    NO_PYTHON_STACK = (
        Severity.LOST,
        "samples without their stack in the export (nsys export --include-json=true writes it)",
    )
    NOBODY = Severity.LOST, "messages to or from nobody, or from anybody (MPI_PROC_NULL, MPI_ANY_SOURCE)"
    ANY_TAG = Severity.LOST, "messages of any tag (MPI_ANY_TAG)"
    NO_INIT = Severity.LOST, "started requests whose MPI_Send_init or MPI_Recv_init is not in the report"
    NO_RECEIVE = Severity.LOST, "sends without their receive in the reports"
    NO_SEND = Severity.LOST, "receives without their send in the reports"
    NO_RANK = Severity.LOST, "ends of messages of processes whose rank on the communicator is not known"
    NO_PEER = Severity.LOST, "ends of messages of which the report lacks the other rank, the tag or the number"
    CLAIMED_TWICE = Severity.LOST, "ends of messages that two processes claim, or one has twice"
    NO_PROFILE = Severity.LOST, "kernels that no file of --ncu has, nor another of their class"
    ESTIMATE_TOO_LARGE = (
        Severity.LOST,
        "activities of the device: to estimate their tensor activity takes about {} of memory, above {} (--memory "
        "allows more)",
    )

    @property
    def severity(self) -> Severity:
        """Return the severity of the loss."""
        return self.value[0]

    @property
    def intended(self) -> bool:
        """Return True if rows are left out on purpose."""
        return self.severity in (Severity.CHOSEN, Severity.DEFAULT)

    @property
    def minor(self) -> bool:
        """Return True if it changes no figure, or is intended."""
        return self.intended or self is Loss.OTHER_FAILED_CALL

    @property
    def text(self) -> str:
        """Return the sentence with `{}` for each argument. It follows a number of rows."""
        return self.value[1]


class Lost(NamedTuple):
    """A loss with its arguments: what tallies count."""

    loss: Loss
    arguments: tuple[str | int, ...] = ()

    @property
    def sentence(self) -> str:
        """Return the sentence for the user. It follows a number of rows."""
        return self.loss.text.format(*(short(str(a), NAME_WIDTH) for a in self.arguments))

    @property
    def plain(self) -> str:
        """Return the sentence without the brackets at its end, which say how the rows are drawn."""
        return re.sub(r" \((drawn|without)[^()]*\)$", "", self.sentence)


@dataclass(slots=True)
class Tally:
    """Counts of a family's rows.

    `rows`: those written as intervals, samples or messages; `dropped`: those left out, or drawn otherwise than the
    report has them (`Severity.ALTERED`), by loss.
    """

    rows: int = 0
    dropped: dict[Lost, int] = field(default_factory=dict)

    def count(self, loss: Loss, rows: int, *arguments: str | int) -> None:
        """Count rows under a loss, given the arguments of its sentence."""
        self.add(Lost(loss, arguments), rows)

    def add(self, lost: Lost, rows: int) -> None:
        """Count rows under a loss that has its arguments."""
        if rows:
            self.dropped[lost] = self.dropped.get(lost, 0) + rows
