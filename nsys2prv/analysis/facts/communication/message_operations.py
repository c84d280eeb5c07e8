"""Names of operations between two ranks, of NCCL and MPI, as patterns."""

from __future__ import annotations

# Operations in which a rank waits for a message of another; and in which it waits until another one receives.
RECEIVES, SENDS = r"(?i)recv|MPI_(wait|test|m?probe)", r"(?i)^MPI_[sr]?send$"
# All operations between two ranks.
MESSAGES = rf"{RECEIVES}|send"
