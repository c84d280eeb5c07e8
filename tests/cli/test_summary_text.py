"""What the summary says of families."""

from __future__ import annotations

from pathlib import Path

import nsys2prv
from nsys2prv.cli.translation_text import summary_text
from nsys2prv.families.selection import chosen_families
from nsys2prv.model.limits import Limits
from nsys2prv.model.units import bytes_text

SAXPY = Path(__file__).parents[2] / "sample_reports/single/saxpy.sqlite"
KERNELS = nsys2prv.Selection(families=("kernels",))


def _line(text: str, word: str) -> str:
    return next(line for line in text.splitlines() if f" {word}" in line).strip()


def test_a_dry_run_says_how_large_each_family_would_be(tmp_path: Path) -> None:
    result = nsys2prv.translate(SAXPY, tmp_path / "trace", selection=KERNELS, dry_run=True)
    assert _line(summary_text(result), "kernels") == f"20  kernels          Kernels, about {result.size / 1e3:.1f} kB"


def test_a_compressed_trace_loads_as_slowly_as_the_plain_one(tmp_path: Path) -> None:
    packed = nsys2prv.TraceOutput(compress=True)
    plain = nsys2prv.translate(SAXPY, tmp_path / "plain")
    done = nsys2prv.translate(SAXPY, tmp_path / "packed", writing=packed)
    dry = nsys2prv.translate(SAXPY, tmp_path / "dry", writing=packed, dry_run=True)
    assert dry.size == done.expected_size
    assert dry.load_seconds == done.load_seconds
    assert dry.load_bytes == done.load_bytes
    assert 0.5 < done.load_bytes / plain.load_bytes < 2
    assert plain.load_bytes > 4 * plain.size
    head = summary_text(dry).splitlines()[0]
    assert head.endswith(f": about {bytes_text(dry.size)}, {bytes_text(dry.text_size)} before compression.")


def test_what_was_not_chosen_is_named_with_its_rows(tmp_path: Path) -> None:
    result = nsys2prv.translate(SAXPY, tmp_path / "trace", selection=KERNELS)
    text = summary_text(result)
    assert _line(text, "kernels") == "20  kernels          Kernels"
    assert _line(text, "cuda_api") == "89  cuda_api         CUDA API calls (--also cuda_api)"


def test_the_option_that_is_named_brings_the_family() -> None:
    """Whatever else chooses: the default, --only, -t; even where --skip names it too."""
    for given in ({}, {"only": "kernels"}, {"trace": "nccl"}, {"skip": "osrt"}):
        without = chosen_families(**given)
        chosen = chosen_families(**given, also="scheduling,osrt")
        assert set(chosen) == {*without, "scheduling", "osrt"}


def test_what_it_took_is_said(tmp_path: Path) -> None:
    assert nsys2prv.translate(SAXPY, tmp_path / "short").used.temporary == 0
    on_disk = Limits(in_memory_bytes=0)
    dry = nsys2prv.translate(SAXPY, tmp_path / "trace", dry_run=True, execution=nsys2prv.Execution(limits=on_disk))
    done = nsys2prv.translate(SAXPY, tmp_path / "trace", execution=nsys2prv.Execution(limits=on_disk))
    assert dry.used.temporary == done.used.temporary > 0
    assert done.used.memory >= dry.used.memory > 10_000_000
    said = f"Reading took {dry.used.temporary / 1e3:.1f} kB of temporary files and at most "
    assert said in summary_text(dry)
    assert f"Used {done.used.temporary / 1e3:.1f} kB of temporary files and at most " in summary_text(done)


def test_what_was_chosen_and_has_no_rows_is_named(tmp_path: Path) -> None:
    """Families that are translated by default need no word: most reports lack some."""
    chosen = nsys2prv.Selection(families=("kernels", "ucx", "cpu_samples", "overhead"))
    text = summary_text(nsys2prv.translate(SAXPY, tmp_path / "trace", selection=chosen))
    assert "Chosen, but without rows in the reports: cpu_samples" in text.splitlines()
    assert "Chosen" not in summary_text(nsys2prv.translate(SAXPY, tmp_path / "usual", selection=KERNELS))
