"""`nsys2prv.cli.main`: what a process of the command line is set up like."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from runs import COMMAND, ROOT

import nsys2prv

PROBE = """
import sys
from nsys2prv.cli.main import main
sys.argv = ["nsys2prv", "doctor"]
try:
    main()
except SystemExit:
    pass
import polars
print(polars.thread_pool_size())
"""
# `confirm_conf`: Polars' allocator tells what it has read; what it does not know it names in any case.
TELL = ",confirm_conf:true"


def test_libraries_are_set_up_before_they_are_imported() -> None:
    given = {k: v for k, v in os.environ.items() if k not in ("POLARS_MAX_THREADS", "_RJEM_MALLOC_CONF")}
    telling = f"from nsys2prv.cli.main import LIBRARIES\nLIBRARIES['_RJEM_MALLOC_CONF'] += {TELL!r}\n"
    command = [sys.executable, "-c", telling + PROBE]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) == min(len(os.sched_getaffinity(0)), 4)
    assert "Invalid conf" not in done.stderr
    assert "Set conf value: oversize_threshold:0" in done.stderr


INTERRUPTED = """
import os, signal, time
from nsys2prv.cli import main
def cli(**how):
    try:
        os.kill(os.getpid(), signal.SIGNAL)
        time.sleep(10)
    except KeyboardInterrupt:
        raise TypeError("'<unprintable str object>' is not a Polars data type") from None
main.cli = cli
# `nohup`, under which tests may run, has SIGHUP ignored.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
main.main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_is_one_whatever_is_made_of_it(name: str) -> None:
    """A library that an interrupt reaches may raise an error of its own."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED.replace("SIGNAL", name)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "nsys2prv: interrupted; nothing was written\n")


# Modules in the place of one that the command line loads.
LOADED = {
    "at a line": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(10)",
    "as a class is made": """
class Named:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt
class Made:
    named = Named()
""",
}


@pytest.mark.parametrize("command", [COMMAND, [sys.executable, "-m", "nsys2prv"]], ids=["script", "-m"])
@pytest.mark.parametrize("click", LOADED.values(), ids=LOADED)
def test_an_interrupt_is_one_while_modules_load(command: list[str], click: str, tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(click)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([*command, "doctor"], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "nsys2prv: interrupted; nothing was written\n")


def test_an_interrupt_is_awaited_before_modules_are_loaded() -> None:
    probe = "import os, sys; old = {*sys.modules}; import nsys2prv.cli.script; print(*sorted({*sys.modules} - old))"
    done = subprocess.run([sys.executable, "-S", "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in done.stdout.split()}
    assert packages & {"nsys2prv", "click", "polars", "numpy"} == {"nsys2prv"}


def test_python_m_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "nsys2prv", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"nsys2prv, version {nsys2prv.__version__}\n"
