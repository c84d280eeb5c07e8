"""`nsys2prv batch`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsys2prv.cli.json_form import say_json
from nsys2prv.cli.options import SectionedCommand, db_option, format_option, group_of, group_options, option
from nsys2prv.cli.text_table import aligned
from nsys2prv.families.selection import Selection
from nsys2prv.model.units import bytes_text
from nsys2prv.pipeline.workers.execution import Execution
from nsys2prv.pipeline.write.trace_output import SUMMARY_OPTION, TraceOutput
from nsys2prv.run.run_options import NCU_OPTION, RunOptions

if TYPE_CHECKING:
    from nsys2prv.commands.batch.batch import Attempt, BatchResult


@click.command("batch", cls=SectionedCommand)
@click.argument("root", type=click.Path(path_type=Path), metavar="ROOT")
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="OUTDIR",
    help="The folder for the traces and the manifest; it is created if needed. A dry run does without.",
)
@option(
    "--group",
    metavar="PATTERN",
    help="Group reports into runs by their names, such as %job_%node_%rank, instead of by folder.",
    more="The pattern stands for the name of a report without its ending. The fields `%rank`, `%local` and `%pid` "
    "(numbers), `%node`, `%host` and `%any` differ within a run; every other field names it, and its values joined by "
    "`_` are the name of the trace. A field takes as much as it can, the first one first. Without `--group` a folder "
    "with reports directly in it is a run, and its path below ROOT is the name of the trace",
)
@group_options(Selection)
@group_options(RunOptions, without=[NCU_OPTION])
@group_options(TraceOutput, without=[SUMMARY_OPTION])
@group_options(Execution)
@db_option(
    required=False,
    more="Each run is recorded when its trace is written, as [`record`](#record) does it, without GPU metrics; its "
    "name is that of the trace. Runs that are not recorded yet are translated again",
)
@option("--force", is_flag=True, help="Translate all runs again, and write over traces that no batch made.")
@option(
    "--dry-run",
    is_flag=True,
    help="Show which runs would be translated, why, and which would fail; write nothing.",
    more="A run is said to fail if a report cannot be opened, or if its reports are of several runs. Damage inside of "
    "a report shows only when it is translated, and what `nsys` would export first is not judged. Without `-o` all "
    "runs are new",
)
@format_option(
    "json",
    help="Form of the result.",
    more="`json` has every run with the action, its reason, and its record in the manifest",
)
def command(
    root: Path,
    output: Path | None,
    group: str | None,
    db: str | None,
    force: bool,
    dry_run: bool,
    form: str,
    **given: Any,
) -> None:
    """Translate every run under ROOT into a trace in OUTDIR, each once.

    A folder with reports directly in it is a run, and its trace has the name of the folder. With --group the fields of
    PATTERN other than %rank, %node, %host, %local, %pid and %any name the run, in any folder.

    A manifest in OUTDIR records the inputs of each run. Running the command again translates only the runs that are
    new, changed, failed or interrupted. One bad run does not stop the others: the exit code is 1 then.

    \b
    Examples:
      nsys2prv batch results/ -o traces
      nsys2prv batch results/ -o traces --group %job_%node_%rank --skip osrt --jobs 16
      nsys2prv batch results/ -o traces --db runs.db
      nsys2prv batch results/ --dry-run
    """
    # Loaded when the command runs, so that its help is quick.
    from nsys2prv.commands.batch.batch import batch
    from nsys2prv.commands.batch.jobs import Settings

    settings = Settings(
        group_of(Selection, given),
        group_of(RunOptions, given),
        group_of(Execution, given),
        group_of(TraceOutput, given),
    )
    try:
        found = batch(root, output, group=group, settings=settings, db=db, force=force, dry_run=dry_run)
    except KeyboardInterrupt:
        click.echo("nsys2prv: interrupted; finished traces stay, the same command continues with the rest", err=True)
        click.get_current_context().exit(130)
    failed = [run for run in found.runs if run.did == "failed"]
    if form == "json":
        say_json(_as_json(found))
    elif not settings.execution.quiet:
        click.echo(_text(found, dry_run))
        if settings.writing.redact:
            click.echo("Share the traces without the manifest: it names the reports.")
    else:
        for run in failed:
            click.echo(f"nsys2prv: {run.name}: {run.record.error}", err=True)
    click.get_current_context().exit(1 if failed else 0)


def _text(found: BatchResult, dry_run: bool) -> str:
    failed = "would fail" if dry_run else "failed"
    lines = [
        aligned(["run", "is", "because", "reports", "seconds", "size"], [_row(run, failed) for run in found.runs]),
        "",
    ]
    lines += [f"{failed}: {run.name}: {run.record.error}" for run in found.runs if run.did == "failed"]
    lines += [f"{run.name}: left out: {text}" for run in found.runs for text in run.record.figures.get("left_out", ())]
    if found.strangers:
        unlike = len(found.strangers)
        reports = "report whose name does" if unlike == 1 else "reports whose names do"
        lines.append(f"left out: {unlike} {reports} not match, as {found.strangers[0]}")
    if found.gone:
        lines.append(f"{len(found.gone)} traces of runs whose reports are no longer there stay, as {found.gone[0]}")
    told = {"done": "done", "kept": "kept", "failed": failed, "to do": "to do"}
    counts = [f"{n} {word}" for did, word in told.items() if (n := sum(r.did == did for r in found.runs))]
    runs = f"{len(found.runs)} run{'s' * (len(found.runs) != 1)}"
    place = f" Manifest: {found.manifest}" if found.manifest else ""
    return "\n".join([*lines, f"{runs}: {', '.join(counts)}.{place}"])


def _row(run: Attempt, failed: str) -> list[str]:
    """Return the cells of a run. `failed`: the word for one that fails."""
    figures = run.record.figures
    size = sum(run.record.outputs.values())
    return [
        run.name,
        failed if run.did == "failed" else run.did,
        run.why,
        str(figures.get("reports", len(run.record.inputs))),
        f"{figures['seconds']:.1f}" if run.did == "done" else "",
        bytes_text(size) if size else "",
    ]


def _as_json(found: BatchResult) -> dict[str, Any]:
    runs = [{"run": r.name, "did": r.did, "because": r.why, **r.record.as_json()} for r in found.runs]
    return {
        "manifest": found.manifest and str(found.manifest),
        "runs": runs,
        "unmatched": [str(p) for p in found.strangers],
        "gone": list(found.gone),
    }
