"""Time analysis cfgs in Paraver on a trace of many ranks: `python benchmarks/many_ranks.py TRACE.prv RANKS [CFG ...]`.

The ranks of the trace are repeated, on further nodes, until there are so many; messages stay within each repetition.
CFG chooses some by name. Needs paramedir (PARAVER_HOME or PATH). Each cfg is a run of its own, so that loading is
in its time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from nsys2prv.paraver.cfg import CFGS, FOLDER

HEADER = re.compile(r"(.*?_ns):(\d+)\(([\d,]+)\):1:(\d+)\(([\d:,]+)\),0")
# Fields with a CPU and with a task: of every record, and of who receives a message.
CPUS, TASKS = ("f1", "f7"), ("f3", "f9")
FIELDS = 11


def repeat(prv: Path, ranks: int, folder: Path) -> Path:
    """The trace with its tasks repeated, and ROW and PCF beside it."""
    head, _, body = prv.read_text().partition("\n")
    match = HEADER.fullmatch(head)
    if match is None:
        raise SystemExit(f"{prv}: not a trace of nsys2prv's")
    start, nodes, tasks = match[1], int(match[2]), int(match[4])
    cpus = [int(n) for n in match[3].split(",")]
    places = [tuple(map(int, place.split(":"))) for place in match[5].split(",")]
    copies = -(-ranks // tasks)
    made = folder / "ranks.prv"
    fields = [f"f{n}" for n in range(FIELDS)]
    split = pl.col("line").str.splitn(":", FIELDS).struct.rename_fields(fields)
    records = pl.DataFrame({"line": body.splitlines()}).select(split).unnest("line")
    is_message = records["f0"] == "3"
    with made.open("wb") as sink:
        on = ",".join(f"{threads}:{node + k * nodes}" for k in range(copies) for threads, node in places)
        cpu_counts = ",".join(map(str, cpus * copies))
        sink.write(f"{start}:{nodes * copies}({cpu_counts}):1:{tasks * copies}({on}),0\n".encode())
        for k in range(copies):
            by = {CPUS[0]: k * sum(cpus), TASKS[0]: k * tasks}
            of_messages = by | {CPUS[1]: k * sum(cpus), TASKS[1]: k * tasks}
            for part, shifts in ((records.filter(~is_message), by), (records.filter(is_message), of_messages)):
                moved = part.with_columns(pl.col(c).cast(pl.Int64) + shift for c, shift in shifts.items())
                text = moved.select(pl.concat_str(fields, separator=":", ignore_nulls=True))
                text.write_csv(sink, include_header=False, quote_style="never")
    shutil.copy(prv.with_suffix(".pcf"), made.with_suffix(".pcf"))
    made.with_suffix(".row").write_text(_names(prv.with_suffix(".row").read_text(), copies))
    return made


def _names(text: str, copies: int) -> str:
    """The names of each level repeated, those of ranks and nodes told apart."""
    levels = []
    for level in text.strip().split("\n\n"):
        head, *names = level.split("\n")
        kind = head.split()[1]
        times = 1 if kind == "APPL" else copies
        told = kind in ("TASK", "NODE")
        repeated = [f"{name}, {k}" if told else name for k in range(times) for name in names]
        levels.append("\n".join([f"LEVEL {kind} SIZE {len(repeated)}", *repeated]))
    return "\n\n".join(levels) + "\n"


def seconds(program: str, prv: Path, cfg: str, folder: Path) -> float:
    """Time that paramedir takes for one cfg. Raises SystemExit when it gives nothing."""
    out = folder / "out.csv"
    out.unlink(missing_ok=True)
    started = time.perf_counter()
    environment = {**os.environ, "HOME": str(folder)}
    subprocess.run([program, "-npr", prv, FOLDER / cfg, out], env=environment, capture_output=True, check=True)
    took = time.perf_counter() - started
    if not out.exists():
        raise SystemExit(f"{cfg}: paramedir wrote nothing")
    return took


def main() -> None:
    """Print the seconds of each cfg."""
    home = os.environ.get("PARAVER_HOME")
    program = shutil.which("paramedir", path=f"{home}/bin" if home else None)
    if program is None or len(sys.argv) < 3:
        raise SystemExit(__doc__)
    chosen = [c.path for c in CFGS if c.folder == "analysis" and (c.name in sys.argv[3:] or not sys.argv[3:])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prv = repeat(Path(sys.argv[1]), int(sys.argv[2]), folder)
        print(f"{prv.stat().st_size / 1e6:.0f} MB")
        for cfg in chosen:
            print(f"{seconds(program, prv, cfg, folder):6.1f} s  {cfg}", flush=True)


if __name__ == "__main__":
    main()
