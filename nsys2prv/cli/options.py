"""Options that commands share, and the groups of parameters that their values make.

An option of several commands is declared as an `Option` beside the field that it sets: in `families/selection.py`,
`run/run_options.py`, `pipeline/workers/execution.py` or `pipeline/write/trace_output.py`. That of one command is in its
module in `cli/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from nsys2prv.model.option import Group, Option, declarations

Command = TypeVar("Command", bound=Callable[..., Any])

# Unreadable inputs are reported when they are read, in one line, as all others.
INPUT = click.Path(path_type=Path, readable=False)
INPUTS = click.argument("inputs", nargs=-1, required=True, type=INPUT, metavar="INPUT...")

# Heading of a command's own options in its help, and of the options of each group, by the group's name.
OWN = "Options"
HEADINGS = {
    "Selection": "Part of the run",
    "RunOptions": "How reports become one run",
    "Question": "What is analyzed",
    "TraceOutput": "What is written",
    "Execution": "How the work is done",
}


class DocumentedOption(click.Option):
    """An option with further text for docs/commands.md beside its help, and the heading under which help lists it."""

    def __init__(self, *given: Any, more: str = "", heading: str = OWN, **named: Any) -> None:
        super().__init__(*given, **named)
        self.more, self.heading = more, heading


class SectionedCommand(click.Command):
    """A command whose help lists its options under headings: first its own ones, then those of each group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section of options for each heading."""
        sections: dict[str, list[tuple[str, str]]] = {OWN: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(parameter, "heading", OWN), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


option = partial(click.option, cls=DocumentedOption)

OUTPUT = option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="The trace to write: OUT.prv, OUT.pcf and OUT.row.",
    more="A path without ending, or one that ends in `.prv` or `.prv.gz`",
)
FORCE = option("--force", is_flag=True, help="Write over an existing trace.")
JSON_HELP = "Print JSON: the same as --format json."
# Key of click's context under which the value of --json is kept.
JSON_KEY = "nsys2prv --json"
DETAILS = option(
    "--details", is_flag=True, help="Also print remarks that hardly matter, such as those that nsys always writes."
)


DB_HELP = "The database of runs: an SQLite file, or a URL such as postgresql://host/runs."


def db_option(required: bool = True, more: str = "") -> Callable[[Command], Command]:
    """Return a decorator that adds `--db`."""
    return option("--db", required=required, metavar="DATABASE", help=DB_HELP, more=more)


def format_option(*forms: str, help: str, more: str = "") -> Callable[[Command], Command]:
    """Return a decorator that adds `--format`, the parameter `form`: `text` by default, or one of `forms`.

    `--json` is its short form.
    """
    choice = click.Choice(["text", *forms])
    long = option(
        "--format", "form", type=choice, default="text", show_default=True, help=help, more=more, callback=_form
    )
    short = option("--json", is_flag=True, is_eager=True, expose_value=False, callback=_json, help=JSON_HELP)

    def add(command: Command) -> Command:
        return long(short(command))

    return add


def _json(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    """Keep the value of --json for the callback of --format."""
    context.meta[JSON_KEY] = given


def _form(context: click.Context, parameter: click.Parameter, form: str) -> str:
    """Return the form that --format or --json names, as the callback of --format."""
    if not context.meta.get(JSON_KEY) or form == "json":
        return form
    if context.get_parameter_source("form") is ParameterSource.COMMANDLINE:
        raise click.UsageError(f"--json and --format {form} exclude each other; give one of them", context)
    return "json"


def group_options(group: type, *names: str, without: Sequence[Option] = ()) -> Callable[[Command], Command]:
    """Return a decorator that adds the options of a group to a command, under the heading of the group.

    `names`: only of these fields.
    """
    chosen = [setting for each, setting in declarations(group) if not names or each.name in names]
    options = [o for setting in chosen for o in setting.options if o not in without]
    heading = HEADINGS.get(group.__name__, OWN)

    def add(command: Command) -> Command:
        for declared in reversed(options):
            command = _decorator(declared, heading)(command)
        return command

    return add


def group_of(group: type[Group], given: dict[str, Any]) -> Group:
    """Make a group from the values of its options, and take them out of `given`. Raises UsageError."""
    values = {}
    for each, setting in declarations(group):
        own = {o.name: given.pop(o.name) for o in setting.options if o.name in given}
        # Without a value the default of the field stands.
        own = {name: value for name, value in own.items() if value is not None}
        if own and len(setting.options) > 1:
            values[each.name] = setting.parse(**own)
        elif own:
            values[each.name] = setting.parse(*own.values())
    return group(**values)


def _decorator(declared: Option, heading: str) -> Callable[[Command], Command]:
    """Return the decorator that adds a declared option, which help lists under a heading."""
    flags = [declared.short, declared.flag] if declared.short else [declared.flag]
    return option(
        *flags,
        type=_type(declared),
        is_flag=declared.kind == "flag",
        multiple=declared.repeated,
        default=False if declared.kind == "flag" else declared.default,
        show_default=declared.default is not None,
        metavar=declared.value or None,
        help=declared.help,
        more=declared.more,
        heading=heading,
    )


def _type(declared: Option) -> click.ParamType[Any] | None:
    """Return the type by which click reads the value of a declared option; None for a text or a flag."""
    if declared.choices:
        return click.Choice(declared.choices)
    match declared.kind:
        case "count":
            return click.IntRange(min=declared.least)
        case "file":
            return click.Path(exists=True, dir_okay=False, path_type=Path)
        case "folder":
            return click.Path(exists=True, file_okay=False, path_type=Path)
        case "path":
            return click.Path(path_type=Path)
    return None
