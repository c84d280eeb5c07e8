"""Event types of NCCL's operations on the device, by advanced tracing.

They lie within kernels, whose payload has other types: the end of an operation does not end that of its kernel.
"""

from __future__ import annotations

from nsys2prv.model.event_type import EventType, NumberedBy

NCCL_DEVICE_OPERATION = EventType(
    "nccl_device_operation", 70000140, "NCCL operation on the device", labelled=True, numbered_by=NumberedBy.OPERATION
)
DEVICE_OPERATION_COMMUNICATOR = EventType(
    "device_operation_communicator", 70000141, "NCCL operation on the device: communicator", labelled=True
)
DEVICE_OPERATION_BYTES = EventType("device_operation_bytes", 70000142, "NCCL operation on the device: size [B]")
DEVICE_OPERATION_COUNT = EventType("device_operation_count", 70000143, "NCCL operation on the device: elements")
DEVICE_OPERATION_TYPE = EventType(
    "device_operation_type", 70000144, "NCCL operation on the device: type of the elements", labelled=True
)
DEVICE_OPERATION_PEER = EventType("device_operation_peer", 70000145, "NCCL operation on the device: peer (rank + 1)")
DEVICE_OPERATION_CHANNELS = EventType("device_operation_channels", 70000146, "NCCL operation on the device: channels")
# 0 ends an event, and NCCL counts from 0.
DEVICE_OPERATION_SEQUENCE = EventType(
    "device_operation_sequence", 70000147, "NCCL operation on the device: NCCL's sequence number + 1", unique=True
)
# Paraver rounds larger values.
DEVICE_OPERATION_ID = EventType(
    "device_operation_id", 70000148, "NCCL operation on the device: id (its lower 53 bits)", unique=True
)
DEVICE_OPERATION_ATTRIBUTES = (
    DEVICE_OPERATION_COMMUNICATOR,
    DEVICE_OPERATION_BYTES,
    DEVICE_OPERATION_COUNT,
    DEVICE_OPERATION_TYPE,
    DEVICE_OPERATION_PEER,
    DEVICE_OPERATION_CHANNELS,
    DEVICE_OPERATION_SEQUENCE,
    DEVICE_OPERATION_ID,
)
