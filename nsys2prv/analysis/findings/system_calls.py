"""Calls of the C library and the system by what a host does in them."""

from __future__ import annotations

import re

# Calls that open, write and close files. Reads also wait for pipes and sockets.
FILE_CALLS = re.compile(r"(?:f?open|f?close|p?writev?2?|fwrite|fsync|fdatasync|fflush|ftruncate)(?:at|64)?$")
# Calls that start processes or wait for their end.
PROCESS_CALLS = re.compile(r"(?:v?fork|clone3?|posix_spawnp?|exec[lv]p?e?|wait|wait[34]|waitpid|waitid)$")
# Calls in which a thread sleeps for a time that it chose itself.
SLEEPS = re.compile(r"(?:sleep|usleep|(?:clock_)?nanosleep)$")
