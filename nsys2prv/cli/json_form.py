"""JSON of commands, as docs/schemas/ describes it: an object with a version for each command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

# Version of the JSON of all commands. It rises when a field is removed or changes its meaning, and not for new fields.
VERSION = 1


def say_json(values: Mapping[str, Any]) -> None:
    """Print the JSON of a command."""
    click.echo(json.dumps({"version": VERSION, **values}, indent=2, default=str))
