"""Event type numbers of the public nsys2prv 0.6, where they differ from ours (`translate --public-types`).

They are those that version 0.6.0rc1 wrote. Labels stay ours, and so do values: docs/from-public.md says which of them
mean something else there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nsys2prv.model import event_types as types

_NUMBERS: Mapping[str, int] = {
    types.OPENMP["parallel"].key: 60000001,
    types.OPENMP["task"].key: 60000002,
    types.OPENMP["synchronization"].key: 60000003,
    types.OS_CALL.key: 66400000,
}
# The fields of NCCL's payloads that a trace has follow each other.
_FIRST_NCCL_FIELD = 9503
_NCCL_FIELDS = (types.NCCL_REDUCTION.key, types.NCCL_ROOT.key, types.NCCL_PEER.key)
# The public tool has none; its place is behind the fields.
_NCCL_OPERATION = _FIRST_NCCL_FIELD + len(_NCCL_FIELDS)

PUBLIC_NUMBERS = frozenset(
    (*_NUMBERS.values(), *range(_FIRST_NCCL_FIELD, _NCCL_OPERATION + 1)),
)


def public_numbers(keys: Collection[str]) -> dict[str, int]:
    """Return the public tool's number by key, for event types of a trace (`keys`) that have another number there."""
    fields = [key for key in _NCCL_FIELDS if key in keys]
    payload = {key: number for number, key in enumerate(fields, start=_FIRST_NCCL_FIELD)}
    known = {**_NUMBERS, **payload, types.NCCL_OPERATION.key: _NCCL_OPERATION}
    return {key: known[key] for key in keys if key in known}
