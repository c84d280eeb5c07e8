"""Redaction of a trace's texts: names of hosts, users and reports, folders of paths, secrets of the environment.

It works on the texts that reports brought: our own words, numbers and times are those of the trace without it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from nsys2prv.errors import ReportError
from nsys2prv.model.event_types import EVENT_TYPES
from nsys2prv.paraver.labels import PcfType
from nsys2prv.report.discover import without_ending
from nsys2prv.report.identity import Identity
from nsys2prv.run.clocks.alignment import Alignment, ReportClock
from nsys2prv.run.plan import Plan

HOST_NAMES, USER_NAMES, REPORT_NAMES, PATHS, SECRETS = (
    "host names",
    "user names",
    "report names",
    "paths",
    "values of the environment",
)

# Variables of the environment that hold names of hosts and users, and words in the names of secrets.
_HOST_VARIABLES = (
    "HOSTNAME",
    "HOST",
    "SLURMD_NODENAME",
    "SLURM_SUBMIT_HOST",
    "SLURM_LAUNCH_NODE_IPADDR",
    "MASTER_ADDR",
)
_USER_VARIABLES = ("USER", "LOGNAME", "USERNAME", "SLURM_JOB_USER", "SUDO_USER")
_SECRET_VARIABLE = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
# Shorter ones are numbers and switches, which are in every trace.
_SHORTEST_SECRET = 6
_HOME_FOLDER = re.compile(r"(?:/home|/Users|/users|[A-Za-z]:\\Users)[/\\]([^/\\:;]+)")

_PART = r"[^\s/\\:;,=\"'<>|()\[\]{}]+"
# The text between two slashes of a path from the root is one folder, whose name may have spaces, unless it begins
# with a file's name: `/data/x.bin to out/y.bin` are two paths.
_FOLDER = rf"(?:{_PART}|(?!\S*\.[A-Za-z]\w{{0,4}}\s){_PART}(?: +{_PART}){{1,5}})"


@cache
def _path_pattern() -> re.Pattern[str]:
    """Return the pattern of a path; compiling it takes longer than reading a small report, so only redaction does."""
    return re.compile(
        # From the root, or of a file whose name has an ending. Its last part stays.
        rf"(?<![\w./\\~-])(?:(?:~|[A-Za-z]:)?[/\\](?:{_FOLDER}[/\\])*(?P<rooted>{_PART})[/\\]?"
        rf"|(?:{_PART}[/\\])+(?P<file>[\w+-]+(?:\.[A-Za-z]\w{{0,4}})+)(?!\w))"
    )


# Cfgs find our event types by label.
_OWN_TYPES = {event_type.label: event_type for event_type in EVENT_TYPES.values()}


def _any(names: Iterable[str]) -> str:
    """Return the pattern of any of some names, the longest first."""
    return f"(?:{'|'.join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))})"


def _word(names: Iterable[str]) -> str:
    """Return the pattern of any of some names as a word."""
    return f"(?<![A-Za-z0-9]){_any(names)}(?![A-Za-z0-9])"


@dataclass
class Redaction:
    """Texts to remove, and counts of their removals."""

    # Name -> its replacement, and its kind. Names of reports are kept apart: they may be any word or number.
    names: Mapping[str, tuple[str, str]]
    reports: Mapping[str, tuple[str, str]]
    # Names of folders with spaces: without them nobody knows where the path begins in `load My Data/x.bin`.
    folders: frozenset[str] = frozenset()
    removed: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, plan: Plan, failed: Iterable[ReportError] = ()) -> Redaction:
        """Make the redaction of a run from its reports, and from the names of reports that could not be read."""
        identities = [s.identity for s in plan.summaries]
        hosts = {*plan.objects.nodes, *(n for i in identities for n in _hosts(i))}
        users = {n for i in identities for n in _users(i)}
        secrets = {v for i in identities for k, v in i.environment.items() if _SECRET_VARIABLE.search(k)}
        names = {value: ("(removed)", SECRETS) for value in secrets if len(value) >= _SHORTEST_SECRET}
        names |= _numbered(USER_NAMES, "user", users) | _numbered(HOST_NAMES, "host", hosts)
        folders = frozenset(f for i in identities for f in _spaced_folders(i))
        reports = {*(s.name for s in plan.summaries), *(without_ending(error.path).name for error in failed)}
        return cls(names, _numbered(REPORT_NAMES, "report", reports), folders)

    def text(self, text: str) -> str:
        """Redact a text that reports brought, such as a label."""
        return _path_pattern().sub(self._path, self._named(self._joined(text), _word(self.names), self.names))

    def report(self, name: str) -> str:
        """Redact the name of a report, with or without an ending; a name that is nothing but an ending is none."""
        own = name if name in self.reports else without_ending(Path(name)).name
        if own not in self.reports:
            return self.text(name)
        other, kind = self.reports[own]
        self.removed[kind] += 1
        return other + name.removeprefix(own)

    def comment(self, text: str) -> str:
        """Redact a text of the comments, names of files that are called as a report, and a report before it, included.

        Elsewhere the name of a report may be a word or a number of the text.
        """
        named = rf"(?<![\w.]){_any(self.reports)}(?=\.[A-Za-z])|^{_any(self.reports)}(?=: )"
        return self.text(self._named(text, named, self.reports))

    def types(self, types: Iterable[PcfType]) -> list[PcfType]:
        """Redact the labels of event types; of our own types only those of values that reports brought."""
        return [self._type(one) for one in types]

    def _type(self, one: PcfType) -> PcfType:
        own = _OWN_TYPES.get(one.label)
        listed = {own.ended, *own.values.values()} if own else ()
        label = one.label if own else self.text(one.label)
        values = {n: text if text in listed else self.text(text) for n, text in one.values.items()}
        return one._replace(label=label, values=values)

    def clock(self, clock: ReportClock) -> ReportClock:
        """Redact the names of report and host."""
        return clock._replace(name=self.report(clock.name), host=self.text(clock.host))

    def alignment(self, alignment: Alignment) -> Alignment:
        """Redact the names of reports and hosts."""
        reports = tuple(map(self.clock, alignment.reports))
        return alignment._replace(reference=self.report(alignment.reference), reports=reports)

    def _joined(self, text: str) -> str:
        """Return the text with the names of known folders as single words."""
        for folder in sorted(self.folders, key=len, reverse=True):
            text = re.sub(rf"{re.escape(folder)}(?=[/\\])", folder.replace(" ", "_"), text)
        return text

    def _named(self, text: str, pattern: str, names: Mapping[str, tuple[str, str]]) -> str:
        """Return a text with what matches replaced by the substitute of that name, and count them by kind."""

        def instead(found: re.Match[str]) -> str:
            other, kind = names[found[0]]
            self.removed[kind] += 1
            return other

        return re.sub(pattern, instead, text) if names else text

    def _path(self, found: re.Match[str]) -> str:
        self.removed[PATHS] += 1
        return found["rooted"] or found["file"]


def _hosts(identity: Identity) -> Iterator[str]:
    """Yield the names of a report's hosts, with and without their domains."""
    known = (identity.host, *(identity.environment.get(name, "") for name in _HOST_VARIABLES))
    for name in filter(None, known):
        yield name
        # Its name without the domain is in labels, too; an address has none.
        if not re.fullmatch(r"[\d.]+", name):
            yield name.partition(".")[0]


def _users(identity: Identity) -> Iterator[str]:
    """Yield the names of users in the environment, and in its paths of home folders."""
    known = (identity.environment.get(name, "") for name in _USER_VARIABLES)
    homes = [name.strip() for value in identity.environment.values() for name in _HOME_FOLDER.findall(value)]
    # A variable may hold a path with spaces, or words after a path.
    yield from filter(None, (*known, *homes, *(name.partition(" ")[0] for name in homes)))


def _spaced_folders(identity: Identity) -> Iterator[str]:
    """Yield the names with spaces among the folders in paths of the environment and of programs."""
    for value in (*identity.environment.values(), *(p.name for p in identity.processes)):
        yield from (part for part in re.split(r"[/\\:;]", value)[:-1] if " " in part.strip())


def _numbered(kind: str, word: str, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Number names in their order: `host1`, `host2`, ..."""
    ordered = sorted(filter(None, names))
    return {name: (f"{word}{number:0{len(str(len(ordered)))}}", kind) for number, name in enumerate(ordered, start=1)}
