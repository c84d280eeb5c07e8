"""`nsys2prv`: commands are loaded when they run, so that `--help` is quick."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
import time
from types import FrameType

import click
from click.shell_completion import CompletionItem

from nsys2prv.cli.standard_streams import robust_stream
from nsys2prv.errors import INTERRUPTED, Nsys2prvError, UsageError
from nsys2prv.model.version import VERSION
from nsys2prv.model.words import did_you_mean

PROGRAM = "nsys2prv"
COMMANDS = {
    "translate": "Translate the reports of one run into one Paraver trace.",
    "cut": "Cut a written trace to a span of its time.",
    "batch": "Translate every run under a folder, each once.",
    "analyze": "Show where a run spends its time.",
    "whatif": "Predict the iteration times if something took another time.",
    "compare": "Say if a run is slower than another, and what changed.",
    "record": "Record the figures of a run in a database of runs.",
    "history": "Show the runs of a database over time.",
    "export": "Write the frames of a run as Parquet files.",
    "inspect": "Show the contents of reports.",
    "cfgs": "List the Paraver configurations, or install them.",
    "align": "Show how the clocks of the reports are aligned, and how well they agree.",
    "doctor": "Check what nsys2prv needs and can use on this machine.",
}
# Signals that interrupt a command.
WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CORES = len(os.sched_getaffinity(0))
# Variables that libraries, also those of worker processes, read when they are imported.
LIBRARIES = {
    # Polars' memory comes in large pages, from an arena for two cores instead of four for each, and goes back after 1 s
    # instead of 1.5, large pieces too, which would go at once: half of the page faults, and less memory that is free
    # and kept.
    "_RJEM_MALLOC_CONF": f"narenas:{(CORES + 1) // 2},dirty_decay_ms:1000,muzzy_decay_ms:0,"
    "thp:always,oversize_threshold:0",
    # With 16 threads on 16 cores a translation takes as long as with four, and 1.5 times the processor time.
    "POLARS_MAX_THREADS": str(min(CORES, 4)),
    # NumPy starts a thread a core for linear algebra, which is hardly used here.
    "OPENBLAS_NUM_THREADS": "1",
}
# Seconds for which further interrupts are ignored.
CLEANING = 5.0


class _Lazy(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete options and commands that begin with a text, without importing the commands."""
        named = [CompletionItem(n, help=text) for n, text in COMMANDS.items() if n.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command of that name."""
        if name not in COMMANDS:
            raise click.UsageError(f"no such command {name!r}{did_you_mean(name, COMMANDS)}", ctx)
        command = importlib.import_module(f"nsys2prv.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Lazy,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(VERSION, "-V", "--version")
@click.pass_context
def cli(context: click.Context) -> None:
    """Nsight Systems reports of a run on many GPUs and nodes: where its time goes, and one Paraver trace of all.

    \b
    Examples:
      nsys2prv analyze reports/
      nsys2prv translate reports/ -o trace
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the command line: exit code 0, 1 for a failure, 2 for wrong usage, 3 for a regression, 130 for Ctrl-C."""
    for name, value in LIBRARIES.items():
        os.environ.setdefault(name, value)
    sys.stdout, sys.stderr = robust_stream(sys.stdout), robust_stream(sys.stderr)
    interrupted = _watched_signals()
    try:
        sys.exit(cli(prog_name=PROGRAM, standalone_mode=False))
    except (Exception, KeyboardInterrupt) as error:
        # A library that is interrupted may raise an error of its own.
        if interrupted or isinstance(error, click.exceptions.Abort | KeyboardInterrupt):
            # A second interrupt would kill the interpreter as it ends, when its handlers are gone.
            for number in WATCHED:
                signal.signal(number, signal.SIG_IGN)
            _fail(INTERRUPTED, 130)
        _report(error)
        raise


def _watched_signals() -> list[float]:
    """Let SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt, and return a list that receives the time (s) of each."""
    came: list[float] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        # A second interrupt would stop the cleaning up after the first. A later one counts, in case the first was lost.
        if came and now - came[-1] < CLEANING:
            return
        came.append(now)
        raise KeyboardInterrupt

    # A shell that starts a command in the background may have it ignore SIGINT.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    # A batch system ends a job with SIGTERM: clean up as after Ctrl-C.
    signal.signal(signal.SIGTERM, interrupt)
    # A terminal that closes ends its programs, but for those that `nohup` started.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, interrupt)
    return came


def _report(error: BaseException) -> None:
    """End with one line and an exit code, if the user can act on the error."""
    match error:
        case click.ClickException():
            _fail(_one_line(error), error.exit_code)
        case UsageError():
            _fail(str(error), 2)
        case Nsys2prvError():
            _fail(str(error), 1)
        case OSError(errno=errno.ENOSPC, filename=None):
            cause = f"standard output cannot be written ({error.strerror})"
            _fail(f"{cause}; free space there, or print elsewhere", 1)


def _one_line(error: click.ClickException) -> str:
    """Return click's message on wrong usage, and the command that shows the right one."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    # click has no context while it reads the words of a command.
    command = context.command_path if context else " ".join([PROGRAM, *(w for w in sys.argv[1:2] if w in COMMANDS)])
    return f"{message}; `{command} --help` shows the usage"


def _fail(message: str, code: int) -> None:
    click.echo(f"nsys2prv: {message}", err=True)
    sys.exit(code)
