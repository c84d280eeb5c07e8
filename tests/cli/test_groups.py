"""Options of commands and groups of parameters are of one declaration."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from nsys2prv.analysis.question import Question
from nsys2prv.cli.main import COMMANDS, cli
from nsys2prv.cli.options import group_of, group_options
from nsys2prv.commands.batch.jobs import Settings
from nsys2prv.errors import UsageError
from nsys2prv.families.selection import Selection, default_families
from nsys2prv.intervals.reduction_options import Reduction
from nsys2prv.model.option import declarations, spelled
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.write.trace_output import TraceOutput
from nsys2prv.run.run_options import RunOptions

GROUPS: tuple[type, ...] = (Selection, RunOptions, Execution, TraceOutput, Question)


def parsed(group: type, line: str) -> Any:
    """Return the group that a command makes of a command line."""

    @click.command()
    @group_options(group)
    def command(**given: Any) -> Any:
        found = group_of(group, given)
        assert given == {}
        return found

    return command.main(shlex.split(line), standalone_mode=False)


@pytest.mark.parametrize("group", GROUPS)
def test_without_options_a_group_has_its_defaults(group: type) -> None:
    # On the command line progress is shown.
    default = replace(Execution(), quiet=False) if group is Execution else group()
    assert parsed(group, "") == default


MADE = {
    "--only kernels,nvtx": Selection(("kernels", "nvtx")),
    "--skip osrt,gpu_metrics": Selection(tuple(f for f in default_families() if f not in ("osrt", "gpu_metrics"))),
    "--only kernels --also overhead": Selection(("kernels", "overhead")),
    "--time 1.5s:": Selection(time=(1_500_000_000, None)),
    "--nvtx 'step 5@default'": Selection(nvtx="step 5@default"),
    "--min-duration 10us --metrics-every 1ms --merge-streams": Selection(reduction=Reduction(10_000, 1_000_000, True)),
    "--align utc --rank-from pid --ranks 0,4-6 --threads all": RunOptions(
        "utc", rank_from="pid", ranks=frozenset((0, 4, 5, 6)), every_thread=True
    ),
    "--jobs 2 --dask local --memory 2GiB --keep-going --quiet": Execution(2, "local", 2 << 30, None, True, True),
    "--compress --redact --max-size 500MB": TraceOutput(compress=True, redact=True, max_size=500_000_000),
    "--nccl useful --phase a --phase b --metric 'SMs Active' --gaps 0": Question(
        "useful", phases=("a", "b"), metrics=("SMs Active",), gaps=0
    ),
}  # fmt: skip


@pytest.mark.parametrize("line", MADE)
def test_options_make_a_group(line: str) -> None:
    assert parsed(type(MADE[line]), line) == MADE[line]


@pytest.mark.parametrize("group", [g for g in MADE.values() if isinstance(g, Selection | RunOptions)])
def test_a_group_is_spelled_as_the_options_that_make_it(group: Selection | RunOptions) -> None:
    assert parsed(type(group), " ".join(spelled(group))) == group


def test_values_by_default_are_not_spelled() -> None:
    assert [spelled(group()) for group in GROUPS] == [[]] * len(GROUPS)


@pytest.mark.parametrize("group", GROUPS)
def test_every_field_is_declared_and_explained(group: type) -> None:
    for each, told in declarations(group):
        assert told.options
        assert f"    {each.name}: {told.about}" in str(group.__doc__)


@pytest.mark.parametrize("line", ["--time 5", "--time 1x:2", "--only nothing", "--only nvtx -t nccl", "-t nothing"])
def test_a_value_that_cannot_be_read_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        parsed(Selection, line)


def test_settings_of_a_batch_are_parameters_of_a_translation() -> None:
    from inspect import signature

    from nsys2prv.commands.translate import translate

    named = signature(translate).parameters
    assert set(Settings._fields) <= set(named)
    assert len(named) <= 8


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_loads_no_library(command: str) -> None:
    """Polars and NumPy take longer to load than a help may take."""
    probe = f"import sys; import nsys2prv.cli.{command}; print(sorted({{'polars', 'numpy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_sentence_of_help(command: str) -> None:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    assert [
        p.name for p in found.params if isinstance(p, click.Option) and not (p.help or "").endswith((".", "))"))
    ] == []


def test_a_file_of_hosts_is_read(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("rank[01] left\n")
    assert parsed(RunOptions, f"--hosts {tmp_path / 'hosts'}").hosts == {"rank[01]": "left"}
