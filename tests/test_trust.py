"""Names of a report reach no shell, no path and no SQL; nothing opens a connection; nothing else is read or written."""

from __future__ import annotations

import re
import shutil
import socket
import sqlite3
import subprocess
import zlib
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest
from runs import SAMPLES, Command, left_in

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "$(touch pwned)`touch pwned`;touch pwned",
    "'; DROP TABLE StringIds; --",
    "../../pwned",
    'two\nlines\tand "quotes" \\',
    "\u2028\u202e\U0001f600\x00\x1b[31m",
    "VALUES",
)
FILES = ["trace.align.json", "trace.pcf", "trace.prv", "trace.row"]


@pytest.fixture(autouse=True)
def without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket, no lookup of a host, no process."""

    def refuse(*arguments: object, **more: object) -> None:
        raise AssertionError(f"not without asking: {arguments}")

    for name in ("socket", "create_connection", "getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A report in which everything that has a name has a hostile one: kernels, ranges, domains, threads, processes."""
    folder = tmp_path / "in"
    folder.mkdir()
    path = Path(shutil.copy(SAMPLES / "mpi-halo/mpi-halo.0.sqlite", folder))
    names = (HOSTILE[n % len(HOSTILE)] + str(n) for n in range(10**9))
    with closing(sqlite3.connect(path, isolation_level=None)) as changed:
        changed.create_function("hostile", 0, lambda: next(names))
        kernels = "SELECT shortName FROM CUPTI_ACTIVITY_KIND_KERNEL UNION SELECT demangledName FROM"
        changed.execute(
            f"UPDATE StringIds SET value = hostile() WHERE id IN ({kernels} CUPTI_ACTIVITY_KIND_KERNEL)"
            " OR id IN (SELECT nameId FROM ThreadNames) OR id IN (SELECT textId FROM NVTX_EVENTS)"
        )
        changed.execute("UPDATE NVTX_EVENTS SET text = hostile() WHERE text IS NOT NULL")
        changed.execute("UPDATE PROCESSES SET name = hostile()")
        changed.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = hostile() WHERE name = 'Hostname'")
    return path


def test_a_translation_with_hostile_names_writes_a_trace_and_nothing_else(
    hostile: Path, cli: Command, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = output.parent.parent / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    before = hostile.read_bytes()
    said = cli("translate", hostile, "-o", output, "--states")
    assert said.code == 0, said.err
    assert left_in(output.parent) == FILES
    assert left_in(empty) == []
    assert left_in(hostile.parent) == [hostile.name]
    assert hostile.read_bytes() == before
    assert not list(output.parent.parent.rglob("*pwned*"))


def test_each_hostile_name_is_one_line_of_a_file_of_labels(hostile: Path, cli: Command, output: Path) -> None:
    cli("translate", hostile, "-o", output, "--quiet")
    row = output.with_suffix(".row").read_text(encoding="utf-8").split("\n")
    at = 0
    while at < len(row) and row[at]:
        level = re.fullmatch(r"LEVEL \w+ SIZE (\d+)", row[at])
        assert level is not None, row[at]
        at += int(level[1]) + 1
        at += at < len(row) and not row[at]
    assert at == len(row)
    for line in output.with_suffix(".pcf").read_text(encoding="utf-8").split("VALUES\n")[1:]:
        values = line.split("\n\n")[0].rstrip("\n").split("\n")
        assert all(re.match(r"\d+ {6}\S", value) for value in values), values


class Elements(HTMLParser):
    """Elements of a page and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def elements(page: Path) -> Iterator[tuple[str, dict[str, str | None]]]:
    parser = Elements()
    parser.feed(page.read_text(encoding="utf-8"))
    parser.close()
    yield from parser.found


def test_the_page_holds_no_element_of_a_hostile_name(hostile: Path, cli: Command, tmp_path: Path) -> None:
    page, plain = tmp_path / "hostile.html", tmp_path / "plain.html"
    said = cli("analyze", hostile, "--html", page)
    assert said.code == 0, said.err
    assert cli("analyze", SAMPLES / "mpi-halo/mpi-halo.0.sqlite", "--html", plain).code == 0
    # Blocks of data are scripts of plain text, whose letters are those of base64.
    tags = [[tag for tag, attributes in elements(one) if tag in ("script", "img", "iframe", "link")
             and attributes.get("type") != "text/plain"] for one in (page, plain)]  # fmt: skip
    assert tags[0] == tags[1]
    blocks = re.findall('<script type="text/plain" id="b[0-9]+">([^<]*)</script>', page.read_text(encoding="utf-8"))
    assert all(re.fullmatch("[A-Za-z0-9+/=]+", block) for block in blocks)
    assert not [a for _, attributes in elements(page) for a in attributes if a.startswith("on")]
    texts = [zlib.decompress(b64decode(block), -zlib.MAX_WBITS) for block in blocks]
    assert any(b"alert(1)" in text for text in texts), "the name is there, as a text"
