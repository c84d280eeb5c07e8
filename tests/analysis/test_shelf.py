"""A frame on a shelf is read as it was, and an analysis of ranges on a shelf says the same."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import nsys2prv
from nsys2prv.analysis.frames import RANGES
from nsys2prv.analysis.shelf import Shelf
from nsys2prv.commands import whole_run
from nsys2prv.errors import OutputError
from nsys2prv.model.limits import Limits

FRAME = pl.DataFrame(
    [
        (0, 4, 10, 90, "default", "step 1"),
        (0, 4, 20, 30, "TSL", "a text that is longer than twelve letters"),
        (1, 7, 20, 80, "default", None),
        (1, 7, 30, 40, "default", "step 1"),
    ],
    schema=RANGES,
    orient="row",
)


def test_columns_are_read_as_they_were(tmp_path: Path) -> None:
    shelf = Shelf(FRAME, tmp_path)
    assert_frame_equal(shelf.read(*FRAME.columns), FRAME)
    assert_frame_equal(shelf.read("text", "end"), FRAME.select("text", "end"))
    assert shelf.height == FRAME.height


def test_a_shelf_leaves_no_file_and_outlives_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    shelf = Shelf(FRAME, folder)
    folder.rmdir()
    assert_frame_equal(shelf.read("text"), FRAME.select("text"))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        Shelf(FRAME, tmp_path / "nowhere")


def test_an_analysis_of_ranges_on_a_shelf_says_the_same(
    gpt_ddp: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = nsys2prv.analyze(gpt_ddp[0])
    heights = []
    monkeypatch.setattr(whole_run, "Shelf", lambda frame, folder: heights.append(frame.height) or Shelf(frame, folder))
    execution = nsys2prv.Execution(jobs=1, spill_dir=tmp_path, limits=Limits(shelved_ranges=1))
    found = nsys2prv.analyze(gpt_ddp[0], execution=execution)
    assert heights == [wanted.run.ranges.height]
    assert found.as_json() == wanted.as_json()
    # The spill folder is gone.
    assert_frame_equal(found.run.ranges, wanted.run.ranges)
