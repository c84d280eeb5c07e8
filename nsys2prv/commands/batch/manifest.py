"""The manifest of a batch, JSON beside the traces: inputs, options, version and outcome of each run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nsys2prv.errors import OutputError, UsageError, output_not_written
from nsys2prv.model.whole_file import replace_text
from nsys2prv.report.fingerprint import files_of, hash_of_begin

NAME = "nsys2prv-batch.json"
FORMAT = 1

Outcome = Literal["begun", "done", "failed"]


class Input(NamedTuple):
    """The state of a report: path relative to the root, size in bytes, time of change in ns, SHA-256 of its header."""

    path: str
    size: int
    mtime_ns: int
    header: str


class Record(NamedTuple):
    """The record of one run. `outputs`: bytes of each file of its trace; `figures`: counts of the translation.

    A run that is `begun` was being translated when its batch was killed.
    """

    inputs: tuple[Input, ...]
    options: Mapping[str, Any]
    version: str
    outcome: Outcome = "begun"
    error: str | None = None
    outputs: Mapping[str, int] = {}
    figures: Mapping[str, Any] = {}

    def as_json(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        return {**self._asdict(), "inputs": [i._asdict() for i in self.inputs]}


class Manifest:
    """The records of the runs in an output folder, by name of the run."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.records: dict[str, Record] = {}
        self.read()

    def read(self) -> None:
        """Read the records from disk, if there are any. Raises OutputError."""
        if self.path.exists():
            self.records = self._on_disk()

    def _on_disk(self) -> dict[str, Record]:
        """Return the records of the file. Raises OutputError for one that is no manifest of this version."""
        advice = "move it away, or choose another output folder"
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            if found["format"] != FORMAT:
                raise OutputError(f"{self.path}: written by another version of nsys2prv; {advice}")
            return {name: _record(values) for name, values in found["runs"].items()}
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be read ({error.strerror}); check its permissions") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise OutputError(f"{self.path}: this is not the manifest of a batch; {advice}") from None

    def write(self) -> None:
        """Write all records to disk, at once or not at all. Raises OutputError."""
        runs = {name: record.as_json() for name, record in sorted(self.records.items())}
        text = json.dumps({"format": FORMAT, "runs": runs}, indent=1)
        try:
            replace_text(self.path, text + "\n", lasting=True)
        except OSError as error:
            raise output_not_written(self.path, error) from None


def _record(values: Mapping[str, Any]) -> Record:
    return Record(**{**values, "inputs": tuple(Input(**i) for i in values["inputs"])})


def inputs_of(reports: Sequence[Path], root: Path) -> tuple[Input, ...]:
    """Return the present state of the reports of a run."""
    return tuple(_input(report, root) for report in reports)


def _input(report: Path, root: Path) -> Input:
    """Return the present state of a report; without sizes and hash where its files cannot be read."""
    path = report.relative_to(root).as_posix()
    try:
        files = files_of(report)
        stats = [f.stat() for f in files]
        if report.is_dir():
            sizes = [(f.name, s.st_size) for f, s in zip(files, stats, strict=True)]
            header = hashlib.sha256(repr(sizes).encode()).hexdigest()
        else:
            header = hash_of_begin(report)
    except OSError:
        # The translation reports the error.
        return Input(path, 0, 0, "")
    changed = max((s.st_mtime_ns for s in stats), default=0)
    return Input(path, sum(s.st_size for s in stats), changed, header)


def as_json(value: Any) -> Any:
    """Return options as JSON, equal for equal options. Files give their name and hash. Raises UsageError."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return as_json(value._asdict())
    if is_dataclass(value):
        return as_json({each.name: getattr(value, each.name) for each in fields(value)})
    if isinstance(value, Path):
        try:
            return {"file": value.name, "sha256": hashlib.sha256(value.read_bytes()).hexdigest()}
        except OSError as error:
            raise UsageError(f"{value}: cannot be read ({error.strerror}); check the path") from None
    if isinstance(value, Mapping):
        return {str(k): as_json(v) for k, v in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(v) for v in value]
    return value
