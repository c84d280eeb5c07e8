"""Installing cfgs: Paraver's list of workspaces keeps what others put there."""

from __future__ import annotations

import base64
import errno
import os
import re
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nsys2prv.errors import OutputError
from nsys2prv.paraver.cfg import CFGS, FOLDER
from nsys2prv.paraver.cfg.install import CfgFolder, install

# As Paraver writes it for a user who has one workspace, of two event types, without hints.
OTHERS = """<?xml version="1.0" encoding="UTF-8" standalone="yes" ?>
<!DOCTYPE boost_serialization>
<boost_serialization signature="serialization::archive" version="18">
<workspace_manager class_id="0" tracking_level="0" version="0">
	<workspaces class_id="1" tracking_level="0" version="0">
		<count>1</count>
		<item_version>0</item_version>
		<item class_id="2" tracking_level="0" version="0">
			<first>a &amp; b</first>
			<second class_id="3" tracking_level="0" version="2">
				<name>a &amp; b</name>
				<type>2</type>
				<autoTypes class_id="4" tracking_level="0" version="0">
					<count>1</count>
					<item_version>1</item_version>
					<item class_id="5" tracking_level="0" version="1">
						<type>2</type>
						<WorkspaceValue>
AgAAAMBNwQM=
						</WorkspaceValue>
					</item>
				</autoTypes>
				<hintCFGs class_id="6" tracking_level="0" version="0">
					<count>0</count>
					<item_version>0</item_version>
				</hintCFGs>
			</second>
		</item>
	</workspaces>
	<workspacesOrder class_id="7" tracking_level="0" version="0">
		<count>1</count>
		<item_version>0</item_version>
		<item>a &amp; b</item>
	</workspacesOrder>
</workspace_manager>
</boost_serialization>
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "home" / "workspaces.xml"


def installed(archive: Path) -> ElementTree.Element:
    """The archive after installing twice, as an upgrade does."""
    for _ in range(2):
        install(CFGS, FOLDER, CfgFolder(archive.parent / "cfgs", archive))
    return ElementTree.fromstring(archive.read_text())


def names(root: ElementTree.Element) -> list[str]:
    return [e.text or "" for e in root.findall(".//workspacesOrder/item")]


def test_the_first_workspace_is_the_one_to_start_with(archive: Path) -> None:
    root = installed(archive)
    assert names(root) == [
        "nsys2prv start here",
        "nsys2prv where is time lost",
        "nsys2prv kernels",
        "nsys2prv communication",
        "nsys2prv memory",
        "nsys2prv hosts and launches",
        "nsys2prv phases and code",
        "nsys2prv GPU metrics",
    ]
    assert root.findtext(".//workspaces/count") == "8"
    assert len(root.findall(".//item[first='nsys2prv start here']//hintCFGs/item")) == 8


def test_every_cfg_is_a_hint_and_every_hint_a_file(archive: Path) -> None:
    paths = [Path(e.text or "") for e in installed(archive).findall(".//hintCFGs/item/first")]
    assert {p.relative_to(archive.parent / "cfgs").as_posix() for p in paths} == {c.path for c in CFGS}
    assert all(p.is_file() and p.is_absolute() for p in paths)


def test_a_hint_says_which_option_brings_what_is_off_by_default(archive: Path) -> None:
    hints = {e.findtext("first"): e.findtext("second") or "" for e in installed(archive).findall(".//hintCFGs/item")}
    said = {Path(path or "").stem: text for path, text in hints.items()}
    assert said["critical_path_by_class"] == "Critical path by rank and class [ms] (needs --also critical_path)"
    assert said["states"].endswith("(needs --states)")
    assert {name for name, text in said.items() if "--ncu" in text} == {"ncu", "operation_rate", "dram_rate"}
    assert said["ncu"].endswith("(needs --ncu FILE)")
    assert said["wddm"].endswith("(needs --also wddm_queues, --also wddm_paging)")
    assert said["pop_efficiency"] == "POP efficiencies of all ranks [%]"


def test_our_traces_select_them(archive: Path) -> None:
    values = {(e.text or "").strip() for e in installed(archive).findall(".//WorkspaceValue")}
    assert {struct.unpack("<iI", base64.b64decode(v)) for v in values} == {(2, 70000000)}


def test_other_workspaces_stay(archive: Path) -> None:
    archive.parent.mkdir()
    archive.write_text(OTHERS)
    root = installed(archive)
    assert names(root)[:2] == ["a & b", "nsys2prv start here"]
    assert root.attrib["version"] == "18"
    assert root.find(".//item[first='a & b']//WorkspaceValue") is not None


def test_a_workspace_that_the_order_lacks_stays_too(archive: Path) -> None:
    archive.parent.mkdir()
    archive.write_text(re.sub(r"(?s)(<workspacesOrder[^>]*>).*(</workspacesOrder>)", r"\1\2", OTHERS))
    assert names(installed(archive))[:2] == ["a & b", "nsys2prv start here"]


def test_an_archive_that_is_not_utf_8_is_named(archive: Path) -> None:
    archive.parent.mkdir()
    archive.write_bytes(OTHERS.replace("a & b", "a").encode().replace(b"</", b"\xe9</", 1))
    with pytest.raises(OutputError, match="not a list of Paraver's workspaces"):
        installed(archive)


def test_attributes_of_a_class_stand_at_its_first_element(archive: Path) -> None:
    """The first workspace has no hints here: the first hint is a later one's."""
    archive.parent.mkdir()
    archive.write_text(OTHERS)
    with_class = [(e.tag, e.attrib["class_id"]) for e in installed(archive).iter() if "class_id" in e.attrib]
    assert with_class == [
        ("workspace_manager", "0"),
        ("workspaces", "1"),
        ("item", "2"),
        ("second", "3"),
        ("autoTypes", "4"),
        ("item", "5"),
        ("hintCFGs", "6"),
        ("item", "7"),
        ("workspacesOrder", "8"),
    ]


def test_a_list_that_is_none_is_left_alone(archive: Path) -> None:
    archive.parent.mkdir()
    archive.write_text("<workspaces")
    with pytest.raises(OutputError, match=r"workspaces\.xml: not a list of Paraver's workspaces"):
        installed(archive)
    assert archive.read_text() == "<workspaces"
    assert not (archive.parent / "cfgs").exists()


def test_a_full_disk_leaves_the_list_as_it_was(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first half of the list is written. A write names no file in its error."""
    archive.parent.mkdir()
    archive.write_text(OTHERS)
    write = Path.write_text

    def half(path: Path, text: str, **how: str) -> int:
        write(path, text[: len(text) // 2], **how)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OutputError, match=r"home/cfgs: No space left on device; install elsewhere"):
        installed(archive)
    assert archive.read_text() == OTHERS
    assert sorted(path.name for path in archive.parent.iterdir()) == ["cfgs", "workspaces.xml"]


def test_the_list_keeps_its_permissions_and_its_link(archive: Path) -> None:
    archive.parent.mkdir()
    real = archive.parent / "elsewhere.xml"
    real.write_text(OTHERS)
    real.chmod(0o640)
    archive.symlink_to(real)
    installed(archive)
    assert archive.is_symlink()
    assert "nsys2prv start here" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_cfg_that_cannot_be_copied_is_named(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(OutputError, match=r"cfgs/analysis/\w+\.cfg: Permission denied; install elsewhere"):
        installed(archive)


def test_a_full_disk_leaves_the_cfgs_as_they_were(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = archive.parent / "cfgs"
    folder.mkdir(parents=True)
    (folder / "of_an_earlier_version.cfg").write_text("kept")
    write, written = Path.write_bytes, []

    def some(path: Path, content: bytes) -> int:
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written.append(path)
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", some)
    with pytest.raises(OutputError, match=r"cfgs/\w+/\w+\.cfg: No space left on device; install elsewhere"):
        installed(archive)
    assert [path.name for path in folder.iterdir()] == ["of_an_earlier_version.cfg"]
    assert [path.name for path in archive.parent.iterdir()] == ["cfgs"]
