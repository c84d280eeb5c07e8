"""Every table of every report is drawn, defines something, or is left out for a reason that is said."""

from pathlib import Path

import pytest
from exports import MAIN, REPORTS, export

from nsys2prv.commands.inspect import UNDECLARED, UnusedTable, inspect
from nsys2prv.families.registry import FAMILIES
from nsys2prv.families.unsupported_tables import why_left_out

DATA = Path(__file__).parents[1] / "data"
ALL = {path.stem: path for base in (*REPORTS, DATA) for path in sorted(base.glob("*/*.sqlite"))}


@pytest.mark.parametrize("report", ALL)
def test_nothing_is_left_out_without_a_reason(report: str) -> None:
    (found,), _ = inspect([ALL[report]])
    assert {name for name, out in found.left_out.items() if out.reason == UNDECLARED} == set()


def test_what_is_left_out_is_listed_with_rows_and_reason(tmp_path: Path) -> None:
    """Stacks of CUDA calls are not drawn; a table that nobody declared is told apart."""
    call = "start end globalTid nameId"
    report = export(
        tmp_path / "report.sqlite",
        CUBLAS_EVENTS=(call, [(1, 2, MAIN, "cublasCreate")]),
        CUDA_CALLCHAINS=("id symbol", [(1, "main"), (2, "main")]),
        FUTURE_EVENTS=("start", [(1,), (2,), (3,)]),
        ETW_EVENTS=("timestamp", []),
    )
    (found,), _ = inspect([report])
    assert found.rows["cublas"] == 1
    assert found.left_out == {
        "CUDA_CALLCHAINS": UnusedTable(2, str(why_left_out("CUDA_CALLCHAINS"))),
        "FUTURE_EVENTS": UnusedTable(3, UNDECLARED),
    }


def test_what_is_drawn_is_not_declared_as_left_out() -> None:
    assert {t.name for f in FAMILIES for t in f.draws if why_left_out(t.name)} == set()
