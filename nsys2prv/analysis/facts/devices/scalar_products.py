"""Matrix products and convolutions on CUDA cores: FP32 or FP64 without tensor cores, by their tiles and names."""

from __future__ import annotations

import polars as pl

from nsys2prv.analysis.facts.case import Case, once
from nsys2prv.analysis.facts.thresholds import HARDLY_SCALAR, MAINLY_SCALAR, TENSOR_TILE

FAMILIES = ("GEMM", "convolution")
# Convolutions of cuDNN that are older than tensor cores are engines without a data type in their names.
SCALAR_NAMES = r"(?i)sgemm|scudnn|_simt_|ffma|f32f32_f32f32_f32|^(?:dgrad|wgrad)\w*_engine$"


def is_product() -> pl.Expr:
    """Return True of kernels of products and convolutions. Columns: class."""
    product, convolution = (pl.col("class").cast(pl.String).str.starts_with(family) for family in FAMILIES)
    return product | convolution


def is_scalar_product() -> pl.Expr:
    """Return True of products and convolutions that use no tensor cores. Columns: class, name."""
    depth = pl.col("class").cast(pl.String).str.extract(r"\d+x\d+x(\d+)").cast(pl.Int64)
    shallow = (depth <= TENSOR_TILE.value).fill_null(False)
    return is_product() & (shallow | pl.col("name").cast(pl.String).str.contains(SCALAR_NAMES))


@once
def shares_of_scalar_products(case: Case) -> dict[int, float]:
    """Return the share of the time of products that is on CUDA cores, of each device with products in the window."""
    products = case.kernels.filter(is_product())
    shares = products.group_by("device").agg(pl.col("ns").filter(is_scalar_product()).sum() / pl.col("ns").sum())
    return {int(device): float(share) for device, share in shares.rows()}


def mainly_scalar(case: Case) -> set[int]:
    """Return the devices that compute most of their products on CUDA cores."""
    return {device for device, share in shares_of_scalar_products(case).items() if share >= MAINLY_SCALAR.value}


def hardly_scalar(case: Case) -> set[int]:
    """Return the devices that compute nearly all of their products on tensor cores; those without products are not."""
    return {device for device, share in shares_of_scalar_products(case).items() if share <= HARDLY_SCALAR.value}
