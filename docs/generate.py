"""Write the tables of the pages in PAGES from the code: `python docs/generate.py`.

Tables stand between `<!-- NAME: begin -->` and `<!-- NAME: end -->`; tests/test_docs.py fails when they are stale.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from sqlalchemy import Column, Table, TypeDecorator

from nsys2prv.analysis.facts import thresholds
from nsys2prv.analysis.question import Question
from nsys2prv.cli.main import COMMANDS, cli
from nsys2prv.cli.options import DocumentedOption
from nsys2prv.database.schema import METADATA
from nsys2prv.families.family import Family
from nsys2prv.families.host.states import FAMILY as STATES
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.selection import Selection, default_families
from nsys2prv.model.event_type import EventType, NumberedBy, TypeBlock
from nsys2prv.model.event_types import BLOCKS, EFFICIENCY_FACTOR, EVENT_TYPES, NOTHING, NVTX_NUMBER, WINDOW
from nsys2prv.model.losses import Loss
from nsys2prv.model.option import declarations, default_of
from nsys2prv.model.palette import FAMILY_BLOCKS, KIND_COLORS, OPERATION_BLOCKS, ValueBlock
from nsys2prv.paraver.cfg import CFGS, Cfg
from nsys2prv.paraver.cfg.hwcounters import METRIC_LABELS
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.write.trace_output import TraceOutput
from nsys2prv.run.run_options import RunOptions

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

from messages import UNKNOWN, messages  # noqa: E402

# More tables than this are named by what their names begin with.
FEW_TABLES = 4
BY_PLAN = (WINDOW, EFFICIENCY_FACTOR, NOTHING, NVTX_NUMBER)


def families_table() -> str:
    """One row a family, in the order of the registry."""
    head = ("family", "what", "tables", "event types", "makes rows", "default", "seen", "`-t`")
    return _table(head, map(_family_row, FAMILIES))


def _family_row(family: Family) -> Sequence[str]:
    tables = sorted(t.name for t in family.draws or family.reads)
    named = ", ".join(f"`{t}`" for t in tables) or "what other families read"
    if len(tables) > FEW_TABLES:
        named = f"{', '.join(f'`{b}*`' for b in _beginnings(tables))} ({len(tables)} tables)"
    return (
        f"`{family.name}`",
        family.title,
        named,
        _numbers(family.emits) or ("state records" if family is STATES else "lines"),
        "yes" if family.makes_rows else "no",
        "on" if family.default else "off",
        "yes" if family.seen else "no",
        ", ".join(f"`{name}`" for name in family.public),
    )


def _beginnings(names: Sequence[str]) -> list[str]:
    """What the names begin with, up to the first underscore of those that have little else in common."""
    shortest = min(names, key=len)
    common = next(shortest[:n] for n in range(len(shortest), -1, -1) if all(s.startswith(shortest[:n]) for s in names))
    return [common] if common else sorted({name.partition("_")[0] + "_" for name in names})


def _numbers(event_types: Iterable[EventType | TypeBlock]) -> str:
    """Numbers in order, successive ones as a span; a block by its first and last."""
    event_types = list(event_types)
    single = sorted({t.number for t in event_types if isinstance(t, EventType)})
    spans = [[n for _, n in run] for _, run in groupby(enumerate(single), lambda pair: pair[1] - pair[0])]
    texts = [(s[0], str(s[0]) if len(s) == 1 else f"{s[0]}-{s[-1]}") for s in spans]
    texts += [(t.number, _block_numbers(t)) for t in event_types if isinstance(t, TypeBlock)]
    return ", ".join(text for _, text in sorted(texts))


def _block_numbers(block: TypeBlock) -> str:
    last = block.number + block.step * (block.size - 1)
    return f"{block.number}-{last}" + (f" by {block.step}" if block.step > 1 else "")


def event_types_table() -> str:
    """One row an event type or block of them, in order of number."""
    event_types = sorted((*EVENT_TYPES.values(), *BLOCKS.values()), key=lambda t: t.number)
    return _table(("number", "label", "values", "families"), map(_type_row, event_types))


def _type_row(event_type: EventType | TypeBlock) -> Sequence[str]:
    emitting = [f"`{f.name}`" for f in FAMILIES if event_type in f.emits]
    number = str(event_type.number) if isinstance(event_type, EventType) else _block_numbers(event_type)
    families = ", ".join(emitting) or ("added by the plan" if event_type in BY_PLAN else "none yet")
    return number, event_type.label.replace("{name}", "*name*"), _values(event_type), families


def _values(event_type: EventType | TypeBlock) -> str:
    if isinstance(event_type, EventType) and event_type.numbered_by != NumberedBy.ORDER:
        return f"names by {event_type.numbered_by.value}"
    if event_type.labelled:
        return "names"
    if isinstance(event_type, EventType) and event_type.values:
        return ", ".join(f"{n} {text}" for n, text in sorted(event_type.values.items()))
    if isinstance(event_type, EventType) and event_type.precision:
        return f"number, with {event_type.precision} decimal places"
    return "number"


def kinds_table() -> str:
    """One row a kind of activity."""
    return _table(("kind", "color"), ((name, f"`{color.hex}`") for name, color in KIND_COLORS.items()))


def blocks_table(blocks: Iterable[ValueBlock]) -> str:
    """One row a block of values: its name, numbers and color."""
    rows = ((b.name, f"{b.first}-{b.first + b.size - 1}", f"`{b.color.hex}`") for b in blocks)
    return _table(("labels", "values", "color"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def cfgs_table(folder: str) -> str:
    """One row a cfg of a folder, with its screenshot where docs/img has one."""
    rows = (_cfg_row(cfg) for cfg in CFGS if cfg.folder == folder)
    return _table(("cfg", "shows", "what to record"), rows)


def _cfg_row(cfg: Cfg) -> Sequence[str]:
    image = f"img/{cfg.folder}-{cfg.name}.png"
    shot = f"<br>![{cfg.name}]({image})" if (DOCS / image).exists() else ""
    # The question that it answers stands on a line of its own.
    about = " ".join(cfg.about.split()).replace("? ", "?<br>", 1)
    return f"`{cfg.name}`", f"**{cfg.title}.** {about}{shot}", cfg.record


def metrics_table() -> str:
    """One row a metric of hwcounters: file name and the label that finds it."""
    return _table(
        ("cfg", "metric"), ((f"`{slug}`", label.replace("*", "\\*")) for slug, label in METRIC_LABELS.items())
    )


def messages_table() -> str:
    """One row a message."""
    rows = ((_literal(m.cause), _literal(m.next_step), str(m.code)) for m in messages())
    return _table(("message", "what to do", "exit code"), rows)


def losses_table() -> str:
    """One row a loss, from harmless to serious."""
    rows = [(_literal(loss.text.replace("{}", UNKNOWN)), loss.severity.value) for loss in Loss]
    return _table(("rows", "meaning"), rows)


def _literal(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return re.sub(r"([\\*_<\[\]])", r"\\\1", text)


def options_table(name: str) -> str:
    """One row an option of a command; those that an earlier command has as well share a row at the end."""
    before = list(COMMANDS)[: list(COMMANDS).index(name)]
    earlier = {_key(option): other for other in reversed(before) for option in _options(other)}
    rows = [_option_row(option) for option in _options(name) if _key(option) not in earlier]
    shared: dict[str, list[str]] = {}
    for option in _options(name):
        if _key(option) in earlier:
            shared.setdefault(earlier[_key(option)], []).append(_flags(option))
    rows += [(", ".join(flags), f"as for [`{other}`](#{other})") for other, flags in shared.items()]
    return _table(("option", "effect"), rows)


def _options(name: str) -> list[DocumentedOption]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return [option for option in command.params if isinstance(option, DocumentedOption)]


def _key(option: DocumentedOption) -> tuple[str, str | None, str]:
    return _flags(option), option.help, option.more


def _flags(option: DocumentedOption) -> str:
    return ", ".join(f"`{flag}`" for flag in sorted(option.opts, key=len))


def _option_row(option: DocumentedOption) -> Sequence[str]:
    """Return the cells of an option: its flags; its help, choices, default and further text."""
    default = option.default if option.show_default and option.default is not None else ()
    values = default if isinstance(default, list | tuple) else (default,)
    choices = (
        ", ".join(f"`{choice}`" for choice in option.type.choices) if isinstance(option.type, click.Choice) else ""
    )
    shown = ", ".join(f"`{value}`" for value in values)
    facts = [choices and f"One of {choices}", shown and f"Default: {shown}", option.more]
    return _flags(option), " ".join([(option.help or "").replace("<", "&lt;"), *(f"{f}." for f in facts if f)])


def fields_table(group: type) -> str:
    """One row a field of a group of parameters."""
    rows = (
        (f"`{each.name}`", f"`{each.type}`", _default(default_of(each)), ", ".join(f"`{o.flag}`" for o in told.options),
         told.about)
        for each, told in declarations(group)
    )  # fmt: skip
    return _table(("field", "type", "default", "options", "meaning"), rows)


def _default(value: object) -> str:
    return f"the {len(value)} families that are on" if value == default_families() else f"`{value!r}`"


GROUPS = (Selection, RunOptions, Execution, TraceOutput, Question)


def thresholds_table() -> str:
    """One row a threshold of the findings, in the order of their module."""
    found = [(name, value) for name, value in vars(thresholds).items() if isinstance(value, thresholds.Threshold)]
    rows = ((f"`{name}`", f"{one.value:,g}", one.unit, one.reason) for name, one in found)
    return _table(("threshold", "value", "unit", "reason"), rows)


def database_tables() -> str:
    """A section a table of the database, with a row a column."""
    return "\n\n".join(map(_database_table, METADATA.tables.values()))


def _database_table(table: Table) -> str:
    rows = ((f"`{c.name}`", _kind(c), c.comment or "") for c in table.columns)
    return f"**`{table.name}`**: {table.comment}.\n\n{_table(('column', 'type', 'meaning'), rows)}"


def _kind(column: Column[Any]) -> str:
    kind = column.type.impl if isinstance(column.type, TypeDecorator) else column.type
    named = {"datetime": "time", "biginteger": "integer", "double": "number"}
    name = type(kind).__name__.lower()
    return f"{named.get(name, name)}{', key' if column.primary_key else ' or null' if column.nullable else ''}"


def schemas_table() -> str:
    """One row a JSON Schema: the command, its content, and the file."""
    files = sorted((DOCS / "schemas").glob("*.json"))
    titles = [json.loads(file.read_text(encoding="utf-8"))["title"].partition(": ")[2] for file in files]
    rows = (
        (f"[`{f.stem}`](commands.md#{f.stem})", title, f"[schema](schemas/{f.name})")
        for f, title in zip(files, titles, strict=True)
    )
    return _table(("command", "content", "described by"), rows)


# Page -> name of each of its tables -> what makes it.
PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "findings.md": {"thresholds": thresholds_table},
    "database.md": {"tables": database_tables},
    "trace.md": {
        "families": families_table,
        "event types": event_types_table,
        "kinds": kinds_table,
        "kernel families": partial(blocks_table, FAMILY_BLOCKS),
        "operations": partial(blocks_table, OPERATION_BLOCKS),
    },
    "cfgs.md": {
        "basics": partial(cfgs_table, "basics"),
        "views": partial(cfgs_table, "views"),
        "analysis": partial(cfgs_table, "analysis"),
        "metrics": metrics_table,
    },
    "commands.md": {f"{name} options": partial(options_table, name) for name in COMMANDS},
    "schemas.md": {"schemas": schemas_table},
    "python.md": {group.__name__: partial(fields_table, group) for group in GROUPS},
    "troubleshooting.md": {"messages": messages_table, "losses": losses_table},
}


def filled(page: str, text: str) -> str:
    """The text of a page with every table between its markers made anew."""
    for name, made in PAGES[page].items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        between = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if not between.search(text):
            raise ValueError(f"{page}: no markers of the table {name!r}")
        table = made()
        text = between.sub(lambda _, whole=f"{begin}\n{table}\n{end}": whole, text)
    return text


if __name__ == "__main__":
    for page in PAGES:
        path = DOCS / page
        path.write_text(filled(page, path.read_text(encoding="utf-8")), encoding="utf-8")
