"""Offer the cfgs in Paraver's Hints menu.

Paraver reads its workspaces from an archive of the Boost serialization library: `share/workspaces.xml` of an
installation and `.paraver/workspaces.xml` of a user. A workspace has a name, the event types that select it when a
trace is opened, and hints: the path of a cfg and its title. In such an archive the first element of each class carries
the class' attributes, so that a changed archive is written anew from its contents.
"""

from __future__ import annotations

import base64
import os
import shutil
import struct
from pathlib import Path
from typing import Literal, NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from nsys2prv.errors import OutputError
from nsys2prv.model.event_types import WINDOW
from nsys2prv.model.whole_file import replace_text
from nsys2prv.paraver.cfg.text import Cfg
from nsys2prv.paraver.cfg.workspaces import NAMES, hint, workspaces

PREFIX = "nsys2prv "
# Paraver's kind of a workspace, and of a value that selects it: event types.
BY_EVENT = 2
SIGNATURE = ("serialization::archive", "17")


class _Workspace(NamedTuple):
    """One workspace: kind, selecting values (kind and base64 of the binary value), hints (path and title)."""

    name: str
    kind: str
    selected_by: tuple[tuple[str, str], ...]
    hints: tuple[tuple[str, str], ...]


class CfgFolder(NamedTuple):
    """A folder in which a Paraver looks for cfgs, and the archive that lists its workspaces."""

    folder: Path
    archive: Path


def of_user() -> CfgFolder:
    """Return the folder of this user."""
    base = Path.home() / ".paraver"
    return CfgFolder(base / "cfgs" / "nsys2prv", base / "workspaces.xml")


def of_paraver() -> CfgFolder | None:
    """Return the folder of all users of the Paraver in PARAVER_HOME; None where that is not set."""
    home = os.environ.get("PARAVER_HOME")
    return CfgFolder(Path(home, "cfgs", "nsys2prv"), Path(home, "share", "workspaces.xml")) if home else None


def installed(files: Path, target: CfgFolder) -> Literal["current", "stale", "no"]:
    """Compare a folder and its archive with what `install` would write."""
    if not target.folder.is_dir():
        return "no"
    try:
        ours, theirs = (
            {f.relative_to(top): f.read_bytes() for f in top.rglob("*.cfg")} for top in (files, target.folder)
        )
        there = {w.name for w in _read(target.archive)[0]}
    except (OSError, OutputError):
        return "stale"
    return "current" if ours == theirs and set(map(_name, NAMES)) <= there else "stale"


def install(cfgs: tuple[Cfg, ...], files: Path, target: CfgFolder) -> None:
    """Copy the cfg files to a folder and add workspaces that offer them to its archive.

    Workspaces of other names stay, also where the disk is full; those of an earlier installation are replaced. Raises
    OutputError.
    """
    folder, archive = target.folder, target.archive
    try:
        others, version = _read(archive)
        _copy(files, folder)
        kept = [w for w in others if not w.name.startswith(PREFIX)]
        archive.parent.mkdir(parents=True, exist_ok=True)
        replace_text(archive, _text([*kept, *_workspaces(cfgs, folder)], version))
    except OSError as error:
        raise OutputError(
            f"{error.filename or folder}: {error.strerror}; install elsewhere, or as who may write there"
        ) from error


def _copy(files: Path, folder: Path) -> None:
    """Replace the contents of a folder by the cfg files. If that fails, the old contents stay. Raises OSError."""
    folder = folder.resolve()
    earlier = folder.with_name(f".{folder.name}.{os.getpid()}.earlier")
    if folder.exists():
        folder.rename(earlier)
    try:
        for file in sorted(files.rglob("*.cfg")):
            copy = folder / file.relative_to(files)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    except BaseException:
        if earlier.exists():
            shutil.rmtree(folder, ignore_errors=True)
            earlier.rename(folder)
        raise
    shutil.rmtree(earlier, ignore_errors=True)


def _workspaces(cfgs: tuple[Cfg, ...], folder: Path) -> list[_Workspace]:
    """Return our workspaces, offered for every trace with a window of interest."""
    ours = ((str(BY_EVENT), base64.b64encode(struct.pack("<iI", BY_EVENT, WINDOW.number)).decode()),)
    return [
        _Workspace(
            _name(question),
            str(BY_EVENT),
            ours,
            tuple((str((folder / c.path).absolute()), hint(c)) for c in chosen),
        )
        for question, chosen in workspaces(cfgs).items()
    ]


def _name(question: str) -> str:
    """Return the full name of a workspace."""
    return PREFIX + question


def _read(archive: Path) -> tuple[list[_Workspace], str]:
    """Read the workspaces of an archive in order, and its version; none where the file is missing."""
    if not archive.exists():
        return [], SIGNATURE[1]
    try:
        root = ElementTree.fromstring(archive.read_bytes())
        manager = _child(root, "workspace_manager")
        found = {w.name: w for w in map(_parse, manager.findall("workspaces/item"))}
        order = [item.text or "" for item in manager.findall("workspacesOrder/item")]
        listed = dict.fromkeys([*(name for name in order if name in found), *found])
        return [found[name] for name in listed], root.attrib["version"]
    except (ElementTree.ParseError, KeyError) as error:
        raise OutputError(f"{archive}: not a list of Paraver's workspaces; move it away and install again") from error


def _child(element: ElementTree.Element, name: str) -> ElementTree.Element:
    """Return the first child of a name. Raises KeyError."""
    if (child := element.find(name)) is None:
        raise KeyError(name)
    return child


def _parse(item: ElementTree.Element) -> _Workspace:
    own = _child(item, "second")
    values = own.findall("autoTypes/item")
    hints = own.findall("hintCFGs/item")
    return _Workspace(
        own.findtext("name", ""),
        own.findtext("type", str(BY_EVENT)),
        tuple((v.findtext("type", ""), v.findtext("WorkspaceValue", "").strip()) for v in values),
        tuple((h.findtext("first", ""), h.findtext("second", "")) for h in hints),
    )


class _Writer:
    """The lines of an archive. The first element of each class carries the attributes of the class."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.classes: dict[str, int] = {}

    def open(self, tag: str, of_class: str, version: int = 0) -> None:
        """Begin an element of a class."""
        attributes = ""
        if of_class not in self.classes:
            self.classes[of_class] = len(self.classes)
            attributes = f' class_id="{self.classes[of_class]}" tracking_level="0" version="{version}"'
        self.lines.append(f"<{tag}{attributes}>")

    def close(self, tag: str) -> None:
        """End an element."""
        self.lines.append(f"</{tag}>")

    def value(self, tag: str, text: object) -> None:
        """Add an element that holds a text."""
        self.lines.append(f"<{tag}>{escape(str(text))}</{tag}>")

    def items(self, count: int, version: int = 0) -> None:
        """Add the head of a list: the number of items and the version of their class."""
        self.value("count", count)
        self.value("item_version", version)


def _text(workspaces: list[_Workspace], version: str) -> str:
    out = _Writer()
    out.open("workspace_manager", "manager")
    out.open("workspaces", "map")
    out.items(len(workspaces))
    # The archive of a map holds its items by key.
    for workspace in sorted(workspaces, key=lambda w: w.name.encode()):
        _write(out, workspace)
    out.close("workspaces")
    out.open("workspacesOrder", "order")
    out.items(len(workspaces))
    for workspace in workspaces:
        out.value("item", workspace.name)
    out.close("workspacesOrder")
    out.close("workspace_manager")
    head = [
        '<?xml version="1.0" encoding="UTF-8" standalone="yes" ?>',
        "<!DOCTYPE boost_serialization>",
        f'<boost_serialization signature="{SIGNATURE[0]}" version="{version}">',
    ]
    return "\n".join([*head, *out.lines, "</boost_serialization>", ""])


def _write(out: _Writer, workspace: _Workspace) -> None:
    out.open("item", "named workspace")
    out.value("first", workspace.name)
    out.open("second", "workspace", version=2)
    out.value("name", workspace.name)
    out.value("type", workspace.kind)
    out.open("autoTypes", "values")
    out.items(len(workspace.selected_by), version=1)
    for kind, value in workspace.selected_by:
        out.open("item", "value", version=1)
        out.value("type", kind)
        out.lines += ["<WorkspaceValue>", value, "</WorkspaceValue>"]
        out.close("item")
    out.close("autoTypes")
    out.open("hintCFGs", "hints")
    out.items(len(workspace.hints))
    for path, title in workspace.hints:
        out.open("item", "hint")
        out.value("first", path)
        out.value("second", title)
        out.close("item")
    out.close("hintCFGs")
    out.close("second")
    out.close("item")
