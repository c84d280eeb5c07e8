"""Declarations of options: each field of a group of parameters names its options on the command line.

A group is a frozen dataclass whose fields are made by `declared`. From these declarations come the options of commands
(`cli.options`), the options in the comments of a trace (`spelled`), and the tables of options and fields in the docs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, TypeVar

# `path`: a file that may not exist yet; `file` and `folder`: ones that do.
ValueKind = Literal["text", "flag", "count", "file", "folder", "path"]
Group = TypeVar("Group")


@dataclass(frozen=True)
class Option:
    """One option of the command line.

    `flag`: its name with dashes; `help`: one sentence; `more`: further sentences for docs/commands.md, as Markdown;
    `value`: name of its value in the help; `default`: as a user would type it (None: the field's own); `least`: lowest
    value of a `count`; `short`: a second name of one letter; `repeated`: several values make a tuple.
    """

    flag: str
    help: str
    more: str = ""
    value: str = ""
    kind: ValueKind = "text"
    choices: tuple[str, ...] = ()
    default: Any = None
    least: int = 1
    short: str = ""
    repeated: bool = False

    @property
    def name(self) -> str:
        """Return the name of the parameter that takes its value."""
        return self.flag.lstrip("-").replace("-", "_")


@dataclass(frozen=True)
class Declaration:
    """The text form of a field of a group: `parse` reads it, `spell` writes it, `about` explains it in Python.

    `parse` takes the value of a single option, or the values of several options by name.
    """

    options: tuple[Option, ...]
    about: str
    parse: Callable[..., Any]
    spell: Callable[[Any], Iterable[str]]


def declared(
    *options: Option,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    about: str = "",
    parse: Callable[..., Any] | None = None,
    spell: Callable[[Any], Iterable[str]] | None = None,
) -> Any:
    """Return a field of a dataclass with its options. `about`: its meaning in Python, if it differs from the help."""
    flag = options[0].flag

    def spell_value(value: Any) -> Iterable[str]:
        return [flag] if value is True else [f"{flag} {value}"]

    made = Declaration(options, about or options[0].help, parse or (lambda value: value), spell or spell_value)
    # `field` takes one of the two; the other is MISSING.
    return field(default=default, default_factory=default_factory, metadata={"declaration": made})


def declarations(group: type) -> Iterator[tuple[Field[Any], Declaration]]:
    """Yield each field of a group that has options, with its declaration."""
    for each in fields(group):
        if "declaration" in each.metadata:
            yield each, each.metadata["declaration"]


def default_of(each: Field[Any]) -> Any:
    """Return the default value of a field."""
    return each.default if each.default_factory is MISSING else each.default_factory()


def spelled(group: object) -> list[str]:
    """Return the options that make a group, as on a command line. Default values are left out."""
    values = ((each, option, getattr(group, each.name)) for each, option in declarations(type(group)))
    return [text for each, option, value in values if value != default_of(each) for text in option.spell(value)]


def documented(group: type[Group]) -> type[Group]:
    """Add the meaning of each field to the docstring of a group."""
    lines = [f"    {each.name}: {option.about}" for each, option in declarations(group)]
    group.__doc__ = "\n".join([f"{group.__doc__}", "", *lines])
    return group
