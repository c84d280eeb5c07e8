"""`nsys2prv compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsys2prv.analysis.question import Question
from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import INPUT, db_option, format_option, group_of, group_options, option
from nsys2prv.cli.output_file import file_option, force_option, write_text
from nsys2prv.database.recorded import Recorded
from nsys2prv.families.selection import STATES_OPTION, Selection
from nsys2prv.pipeline.workers.execution import QUIET_OPTION, Execution
from nsys2prv.run.run_options import NCU_OPTION, RunOptions

if TYPE_CHECKING:
    from nsys2prv.analysis.compare.comparison import Comparison
    from nsys2prv.analysis.compare.conditions import Judgment

# Exit code if a condition of --fail-on holds.
REGRESSION = 3


@click.command("compare")
@click.argument("run_a", type=INPUT)
@click.argument("run_b", type=INPUT, required=False)
@option(
    "--against",
    metavar="db:NAME",
    help="Compare with a recorded run instead of a first one: its name or number in --db, or db:LAST.",
    more="`db:LAST` is the latest run of the same program, ranks and GPUs that is of other reports than RUN "
    "([a database of runs](database.md#comparing))",
)
@db_option(required=False)
@group_options(Selection, "families", "time", "nvtx", "classes", without=[STATES_OPTION])
@group_options(RunOptions, without=[NCU_OPTION])
@group_options(Question, "nccl", "window", "phases", "iteration", "metrics")
@option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Number of kernels to show, the most changed ones first (all in JSON and CSV).",
)
@option(
    "--fail-on",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Exit with code 3 if this holds, such as 'iteration > 3%' or 'parallel < -2%'. May be repeated.",
    more="[Names and units](#conditions)",
)
@option("--anyway", is_flag=True, help="Compare also other programs, and other numbers of ranks or GPUs.")
@file_option("--html", "Write one self-contained page of both runs, too.")
@force_option()
@format_option("json", "csv", "markdown", help="Form of the comparison.", more="`markdown` is for a pull request")
@group_options(Execution, without=[QUIET_OPTION])
def command(
    run_a: Path,
    run_b: Path | None,
    top: int,
    conditions: tuple[str, ...],
    form: str,
    html: Path | None,
    **given: Any,
) -> None:
    """Compare two runs (a report, or a folder of reports, each): say if the second is slower, and what changed.

    A difference is reported only if the spread of iterations does not explain it.

    \b
    Examples:
      nsys2prv compare before/ after/
      nsys2prv compare before/ after/ --fail-on 'iteration > 3%' --fail-on 'parallel < -2%'
      nsys2prv compare before/ after/ --format markdown > comment.md
      nsys2prv compare before/ after/ --html changes.html
      nsys2prv compare after/ --against db:LAST --db runs.db
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.analysis.compare.conditions import condition_of, judge
    from nsys2prv.commands.compare import compare

    # A mistyped condition is refused before the work begins.
    wanted = [condition_of(text) for text in conditions]
    a, b = _sides(run_a, run_b, given.pop("against"), given.pop("db"))
    found = compare(
        a,
        b,
        question=group_of(Question, given),
        selection=group_of(Selection, given),
        options=group_of(RunOptions, given),
        execution=group_of(Execution, given),
        anyway=given["anyway"],
        whole=html is not None,
    )
    judgments = judge(found, wanted)
    _show(found, judgments, form, top)
    if html:
        # Loaded on request: most comparisons do without.
        from nsys2prv.page.page import comparison_page

        write_text(html, comparison_page(found), form)
    for one in judgments:
        if one.holds or one.holds is None:
            click.echo(f"nsys2prv: {'regression: ' if one.holds else ''}{one.text}", err=True)
    if any(one.holds for one in judgments):
        click.get_current_context().exit(REGRESSION)


def _show(comparison: Comparison, judgments: Sequence[Judgment], form: str, top: int) -> None:
    """Print a comparison in a form, with the most changed kernels (JSON and CSV: all)."""
    from nsys2prv.cli.comparison_text import comparison_markdown, comparison_text

    if form == "json":
        conditions = [{"condition": one.condition.text, "holds": one.holds, "text": one.text} for one in judgments]
        say_json({**comparison.as_json(), "conditions": conditions})
    elif form == "csv":
        click.echo(comparison.rows.write_csv(), nl=False)
    elif form == "markdown":
        click.echo(comparison_markdown(comparison, judgments, top))
    else:
        click.echo(comparison_text(comparison, top))


def _sides(run_a: Path, run_b: Path | None, against: str | None, db: str | None) -> tuple[Path | Recorded, Path]:
    """Return the runs to compare, the first one from the database with --against. Raises click.UsageError."""
    if against is None and db is None:
        if run_b is None:
            raise click.UsageError("give two runs, or one and --against db:NAME --db DATABASE")
        return run_a, run_b
    if against is None:
        raise click.UsageError("--db goes with --against db:NAME, which takes the place of the first run")
    if run_b is not None:
        raise click.UsageError("--against takes the place of the first run; give one run")
    prefix, _, name = against.partition(":")
    if prefix != "db" or not name or db is None:
        raise click.UsageError("--against and --db go together: --against db:NAME --db DATABASE")
    return Recorded(db, name), run_a
