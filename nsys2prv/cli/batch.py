"""`nsys2prv batch`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nsys2prv.cli.columns import aligned
from nsys2prv.cli.options import translate_arguments, translating
from nsys2prv.commands.batch.batch import Attempt, BatchResult, batch
from nsys2prv.errors import bytes_text


@click.command("batch")
@click.argument("root", type=click.Path(path_type=Path), metavar="ROOT")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="OUTDIR",
    help="The folder for the traces and the manifest; made if it is not there.",
)
@click.option(
    "--group",
    metavar="PATTERN",
    help="Tell runs by the names of reports, such as %job_%node_%rank, instead of a run a folder.",
)
@translating
@click.option("--force", is_flag=True, help="Translate all runs again, and write over traces that no batch made.")
@click.option("--dry-run", is_flag=True, help="Say which runs would be translated, and why; write nothing.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--quiet", is_flag=True, help="Print failures only.")
def command(
    root: Path,
    output: Path,
    group: str | None,
    force: bool,
    dry_run: bool,
    form: str,
    quiet: bool,
    **given: Any,
) -> None:
    """Translate every run under ROOT into a trace in OUTDIR, each once.

    A folder with reports directly in it is a run, and its trace is called as the folder. With --group the fields of
    PATTERN other than %rank, %node, %host, %local, %pid and %any name the run, whatever folder a report lies in.

    A manifest in OUTDIR keeps what each run was made of. Running it again translates what is new, changed, failed or
    interrupted, and nothing else. One bad run does not stop the others: the exit code is 1 then.

    \b
    Examples:
      nsys2prv batch results/ -o traces
      nsys2prv batch results/ -o traces --group %job_%node_%rank --skip osrt --jobs 16
      nsys2prv batch results/ -o traces --dry-run
    """
    arguments = translate_arguments(**given)
    try:
        found = batch(root, output, group=group, force=force, dry_run=dry_run, quiet=quiet, **arguments)
    except KeyboardInterrupt:
        click.echo("nsys2prv: interrupted; what is finished stays, the same command goes on with the rest", err=True)
        click.get_current_context().exit(130)
    failed = [run for run in found.runs if run.did == "failed"]
    if form == "json":
        click.echo(json.dumps(_as_json(found), indent=2))
    elif not quiet:
        click.echo(_text(found))
        if arguments["redact"]:
            click.echo("Share the traces without the manifest: it names the reports.")
    else:
        for run in failed:
            click.echo(f"nsys2prv: {run.name}: {run.record.error}", err=True)
    click.get_current_context().exit(1 if failed else 0)


def _text(found: BatchResult) -> str:
    lines = [aligned(["run", "is", "because", "reports", "seconds", "size"], [_row(run) for run in found.runs]), ""]
    lines += [f"failed: {run.name}: {run.record.error}" for run in found.runs if run.did == "failed"]
    lines += [f"{run.name}: left out: {text}" for run in found.runs for text in run.record.figures.get("left_out", ())]
    if found.strangers:
        lines.append(f"left out: {len(found.strangers)} reports whose names do not match, as {found.strangers[0]}")
    if found.gone:
        lines.append(f"{len(found.gone)} traces of runs whose reports are no longer there stay, as {found.gone[0]}")
    counts = [
        f"{n} {did}" for did in ("done", "kept", "failed", "to do") if (n := sum(r.did == did for r in found.runs))
    ]
    return "\n".join([*lines, f"{len(found.runs)} runs: {', '.join(counts)}. Manifest: {found.manifest}"])


def _row(run: Attempt) -> list[str]:
    figures = run.record.figures
    size = sum(run.record.outputs.values())
    return [
        run.name,
        run.did,
        run.why,
        str(figures.get("reports", len(run.record.inputs))),
        f"{figures['seconds']:.1f}" if run.did == "done" else "",
        bytes_text(size) if size else "",
    ]


def _as_json(found: BatchResult) -> dict[str, Any]:
    runs = [{"run": r.name, "did": r.did, "because": r.why, **r.record.as_json()} for r in found.runs]
    return {
        "manifest": str(found.manifest),
        "runs": runs,
        "unmatched": [str(p) for p in found.strangers],
        "gone": list(found.gone),
    }
