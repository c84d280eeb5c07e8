"""Attributes of device work from the columns of its event types: grids of kernels, kinds of memory of copies."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.frames import TEXT
from nsys2prv.model import event_types as types

# First bit of the registers of a thread and of the shared memory of a block in the number of `kernel_resources`.
_REGISTERS, _SHARED = 11, 20


def kernel_shape(frame: pl.DataFrame) -> pl.Expr:
    """Return a number of the grid: y below 2**16 and z likewise as CUDA has it, x below 2**31."""
    x, y, z = (grid.key for grid in types.GRID)
    known = {x, y, z} <= set(frame.columns)
    return pl.col(x) * 2**32 + pl.col(y) * 2**16 + pl.col(z) if known else pl.lit(None, pl.Int64)


def blocks_of(shape: pl.Expr) -> pl.Expr:
    """Return the blocks of a grid by its number from `kernel_shape`."""
    return (shape // (1 << 32)) * (shape // (1 << 16) % (1 << 16)) * (shape % (1 << 16))


def kernel_resources(frame: pl.DataFrame) -> pl.Expr:
    """Return a number of what a kernel takes: threads of a block, registers of a thread, shared memory (B) of a block.

    CUDA has at most 1,024 threads a block and 255 registers a thread.
    """
    threads, registers = [t.key for t in types.BLOCK], types.REGISTERS.key
    shared = [t.key for t in (types.STATIC_SHARED, types.DYNAMIC_SHARED)]
    if not {*threads, registers, *shared} <= set(frame.columns):
        return pl.lit(None, pl.Int64)
    block = pl.col(threads[0]) * pl.col(threads[1]) * pl.col(threads[2])
    return pl.sum_horizontal(shared) * (1 << _SHARED) + pl.col(registers) * (1 << _REGISTERS) + block


def threads_of(resources: pl.Expr) -> pl.Expr:
    """Return the threads of a block by the number from `kernel_resources`."""
    return resources % (1 << _REGISTERS)


def registers_of(resources: pl.Expr) -> pl.Expr:
    """Return the registers of a thread by the number from `kernel_resources`."""
    return resources // (1 << _REGISTERS) % (1 << (_SHARED - _REGISTERS))


def shared_of(resources: pl.Expr) -> pl.Expr:
    """Return the bytes of shared memory of a block by the number from `kernel_resources`."""
    return resources // (1 << _SHARED)


def memory_kinds(frame: pl.DataFrame) -> pl.Expr:
    """Return the kinds of memory of copies, such as `Pageable to Device`, and of the targets of memsets."""
    source, target = types.MEMORY_SOURCE, types.MEMORY_DESTINATION
    if source.key not in frame.columns:
        return pl.lit(None, TEXT)
    of, to = (
        pl.col(t.key).replace_strict(dict(t.values), default=None, return_dtype=pl.String) for t in (source, target)
    )
    return pl.when(of.is_null()).then(to).otherwise(pl.format("{} to {}", of, to.fill_null("unknown")))
