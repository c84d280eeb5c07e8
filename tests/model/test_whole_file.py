"""A text file that is replaced keeps its mode and its link, and is whole."""

from __future__ import annotations

from errno import EPERM
from pathlib import Path

import pytest
from runs import left_in

from nsys2prv.errors import OutputError
from nsys2prv.model.whole_file import partial_path, replace_text, write_whole


@pytest.mark.parametrize("lasting", [True, False])
def test_mode_and_link_stay(lasting: bool, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("former")
    real.chmod(0o600)
    link.symlink_to(real)
    replace_text(link, "new", lasting)
    assert (real.read_text(), real.stat().st_mode & 0o777, link.is_symlink()) == ("new", 0o600, True)
    assert left_in(tmp_path) == ["link", "real"]


def test_a_file_that_cannot_be_replaced_is_written_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a sticky folder takes new files, but does not let us rename one over another user's."""

    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "replace", refuse)
    (tmp_path / "page").write_text("former")
    replace_text(tmp_path / "page", "new")
    assert (tmp_path / "page").read_text() == "new"
    assert left_in(tmp_path) == ["page"]


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file/page: cannot be written"):
        write_whole(tmp_path / "file" / "page", "text")


def test_no_two_paths_are_one(tmp_path: Path) -> None:
    assert partial_path(tmp_path / "trace") != partial_path(tmp_path / "trace")
