"""Value numbers of pthread calls: those of the public nsys2prv, the same in every trace, so that its cfgs show ours."""

from __future__ import annotations

# Functions in the order of their numbers, from 1 on, without the prefix `pthread_`.
_FUNCTIONS = """
    exit create join detach rwlock_wrlock rwlock_rdlock rwlock_unlock mutex_lock mutex_unlock cond_signal
    cond_broadcast cond_wait barrier_wait cond_timedwait
"""

PTHREAD_VALUES: dict[int, str] = {n: f"pthread_{name}" for n, name in enumerate(_FUNCTIONS.split(), start=1)}
