"""`nsys2prv translate`."""

from __future__ import annotations

from pathlib import Path

import click

from nsys2prv.cli.options import INPUT, reducing, reduction, run_options, selecting, selection, size
from nsys2prv.cli.summary import summary_text
from nsys2prv.engine.translate import translate


@click.command("translate")
@click.argument("inputs", nargs=-1, required=True, type=INPUT, metavar="INPUT...")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="The trace to write: OUT.prv, OUT.pcf and OUT.row.",
)
@selecting
@reducing
@click.option("--states", is_flag=True, help="State records of host threads and streams, too.")
@click.option("--compress", is_flag=True, help="Write OUT.prv.gz instead of OUT.prv.")
@click.option("--force", is_flag=True, help="Write over an existing trace.")
@click.option("--keep-going", is_flag=True, help="Leave out reports that cannot be read, and name them.")
@click.option(
    "--dry-run", is_flag=True, help="Say what would be written, how large and how slow to load; write nothing."
)
@click.option(
    "--max-size",
    metavar="SIZE",
    default="4GB",
    show_default=True,
    help="Write nothing if the trace would be larger than this.",
)
@click.option(
    "--nsys",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The nsys that exports .nsys-rep files (default: NSYS_HOME, PATH).",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes (default: one for small inputs, else one a core).",
)
@click.option("--summary", is_flag=True, help="Close with the efficiency and overlap of the run: the short `analyze`.")
@click.option("--quiet", is_flag=True, help="Print errors only.")
def command(
    inputs: tuple[Path, ...],
    output: Path,
    only: str | None,
    also: str | None,
    skip: str | None,
    public: str | None,
    ranks: str | None,
    time: str | None,
    nvtx: str | None,
    states: bool,
    classes: Path | None,
    threads: str,
    align: str,
    offsets: Path | None,
    hosts: Path | None,
    rank_from: str,
    min_duration: str,
    metrics_every: str,
    merge_streams: bool,
    compress: bool,
    force: bool,
    keep_going: bool,
    dry_run: bool,
    max_size: str,
    nsys: Path | None,
    jobs: int | None,
    summary: bool,
    quiet: bool,
) -> None:
    """Translate the reports of one run into one Paraver trace.

    INPUT are reports (.sqlite, .nsys-rep), parquetdir/arrowdir exports, or folders that hold them. All of them
    together are one run.

    \b
    Examples:
      nsys2prv translate reports/ -o trace
      nsys2prv translate job.*.sqlite -o trace --skip osrt --ranks 0-3
      nsys2prv translate reports/ -o step5 --nvtx "step 5"
      nsys2prv translate reports/ -o small --min-duration 10us --metrics-every 10ms
    """
    less = reduction(min_duration, metrics_every, merge_streams)
    chosen = selection(only, skip, public, time, nvtx, classes, also, states, less)
    options = run_options(align, offsets, hosts, rank_from, ranks, threads)
    result = translate(
        inputs,
        output,
        selection=chosen,
        options=options,
        nsys=nsys,
        jobs=jobs,
        compress=compress,
        force=force,
        keep_going=keep_going,
        dry_run=dry_run,
        max_size=size(max_size),
        quiet=quiet,
    )
    if not quiet:
        click.echo(summary_text(result))
    if summary:
        # Loaded only when it is asked for: most translations do without.
        from nsys2prv.cli.tables import short_text_of
        from nsys2prv.engine.analyze import analyze

        found = analyze(
            inputs, selection=chosen, options=options, metrics=(), nsys=nsys, jobs=jobs, keep_going=keep_going
        )
        click.echo("\n" + short_text_of(found))
