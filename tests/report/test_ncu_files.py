"""Files of Nsight Compute: pages of any locale and unit, what is wrong with them, and the programs that write them."""

from __future__ import annotations

import csv
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import nsys2prv
from nsys2prv.errors import ReportError, UsageError
from nsys2prv.report.ncu.names import name_key
from nsys2prv.report.ncu.numbers import as_numbers, decimal_sign, unit_factor
from nsys2prv.report.ncu.profile import ProfileFile, profile_file, read_profile

DATA = Path(__file__).parents[1] / "data" / "ncu"
STEPS = DATA / "steps.csv"
# Prefix of a unit, and its factor.
FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "us": 1e3, "Ghz": 1e9}
HEAD = '"ID","Process ID","Kernel Name","Block Size","Grid Size","gpu__time_duration.sum"\n'
UNITS = '"","","","","","us"\n'
ROW = '"0","7","k()","(128, 1, 1)","(4, 1, 1)","1.5"\n'


def plain(path: Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Units and rows of a raw page, by Python's own reader."""
    with path.open(newline="") as file:
        units, *rows = csv.DictReader(file)
    return units, rows


def base(text: str, unit: str) -> float:
    """A number of a raw page in base units."""
    if unit in ("us", "Ghz"):
        return float(text) * FACTORS[unit]
    return float(text) * FACTORS[re.fullmatch(r"([KMG]?)\S*", unit)[1]]  # type: ignore[index]


def kernels(path: Path) -> pl.DataFrame:
    return read_profile(profile_file(path)).kernels


def test_a_raw_page_is_what_a_plain_reading_says() -> None:
    units, rows = plain(STEPS)
    found = kernels(STEPS)
    assert found.height == len(rows) == 328
    assert found["name"].to_list() == [row["Kernel Name"] for row in rows]
    assert found["id"].to_list() == list(range(328))
    for column, metric in {
        "ns": "gpu__time_duration.sum",
        "sm_percent": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "tensor_percent": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "dram_bytes": "dram__bytes.sum",
        "l2_bytes": "lts__t_bytes.sum",
        "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
        "registers": "launch__registers_per_thread",
        "flop_tensor": "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
    }.items():
        expected = [base(row[metric], units[metric].removesuffix("register/thread")) for row in rows]
        assert found[column].to_list() == pytest.approx(expected), column
    sizes = found.select("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ").rows()
    assert sizes == [tuple(map(int, re.findall(r"\d+", row["Grid Size"] + row["Block Size"]))) for row in rows]


def test_operations_and_peaks_are_those_of_the_hardware() -> None:
    found = kernels(STEPS)
    product = found.filter(pl.col("name") == "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_bias_TNT").row(0, named=True)
    # Two operations for each multiplication of [2048, 512] with [512, 1536].
    assert product["flop_tensor"] == 2 * 2048 * 512 * 1536
    assert product["flop"] == pytest.approx(product["flop_tensor"] + product["flop_fp32"])
    # The data sheet of the H100 SXM: 989.4 TFLOP/s of dense BF16 at 1.83 GHz, 66.9 of FP32 at 1.98 GHz, on 132 SMs.
    _, rows = plain(STEPS)
    clock = [base(row["sm__cycles_elapsed.avg.per_second"], "Ghz") for row in rows]
    assert (found["peak_tensor"] / pl.Series(clock)).to_list() == pytest.approx([989.4e12 / 1.83e9] * 328, rel=1e-3)
    assert (found["peak_fp32"] / pl.Series(clock)).to_list() == pytest.approx([66.9e12 / 1.98e9] * 328, rel=1e-3)
    assert found["peak_bytes"].median() == pytest.approx(3.35e12, rel=0.01)


def test_the_peak_is_not_known_without_that_of_a_type_that_the_kernel_used(tmp_path: Path) -> None:
    """One kernel uses BF16, one FP8, too, and one neither; of FP8 the file has no peak."""
    done = "sm__ops_path_tensor_src_{}_dst_fp32.sum"
    metrics = [done.format("bf16"), done.format("fp8"), f"{done.format('bf16')}.peak_sustained"]
    path = tmp_path / "types.csv"
    with path.open("w", newline="") as file:
        columns = ["ID", "Kernel Name", "Block Size", "Grid Size", "sm__cycles_elapsed.avg.per_second", *metrics]
        csv.writer(file).writerow(columns)
        for number, operations in enumerate([(1000, 0), (1000, 3000), (0, 0)]):
            csv.writer(file).writerow([number, "k()", "(1, 1, 1)", "(1, 1, 1)", 1000, *operations, 100])
    assert kernels(path).select("flop_tensor", "peak_tensor").rows() == [(1000, 1e5), (4000, None), (0, 1e5)]


def test_the_main_stall_is_the_reason_of_most_warps() -> None:
    _, rows = plain(STEPS)
    waited = {re.findall(r"stalled_(\w+?)_per", c)[0]: c for c in rows[0] if "stalled" in c and "_selected_" not in c}
    waited["not_selected"] = next(c for c in rows[0] if "not_selected" in c)
    expected = [max(waited, key=lambda reason: float(row[waited[reason]])) for row in rows]
    assert kernels(STEPS)["stall"].to_list() == expected


def test_a_details_page_has_the_same_figures_rounded() -> None:
    details, raw = kernels(DATA / "details.csv"), kernels(STEPS).head(24)
    assert details.height == 24
    assert details["registers"].to_list() == raw["registers"].to_list()
    for column in ("ns", "dram_bytes", "l2_bytes", "occupancy_percent"):
        assert details[column].to_list() == pytest.approx(raw[column].to_list(), rel=0.01), column
    assert details["sm_percent"].to_list() == pytest.approx(raw["sm_percent"].to_list(), abs=0.006)


def german(text: str) -> str:
    """A number with a decimal comma, and points between thousands."""
    whole, point, rest = text.partition(".")
    return f"{int(whole):,}".replace(",", ".") + (f",{rest}" if point else "")


def test_numbers_of_another_locale_are_the_same(tmp_path: Path) -> None:
    def changed(match: re.Match[str]) -> str:
        return f'"{german(match[1])}"'

    head, units, *rows = STEPS.read_text().splitlines()
    rows = [re.sub(r'"(\d+(?:\.\d+)?)"(?=,"|$)', changed, row) for row in rows]
    # The first cells are ids.
    path = tmp_path / "german.csv"
    path.write_text("\n".join([head, units, *rows]) + "\n")
    assert '"1.' in path.read_text()
    assert kernels(path).drop("process").equals(kernels(STEPS).drop("process"))


@pytest.mark.parametrize(
    ("texts", "sign"),
    [
        (["1,234"], "."), (["1.5"], "."), (["1,5"], ","), (["1,234.5"], "."), (["1.234,5"], ","),
        (["0,123"], ","), (["0.123"], "."), (["1.234.567"], ","), (["1,234,567"], "."), (["n/a", "no data"], "."),
        (["1,5", "1.5"], None),
    ],
)  # fmt: skip
def test_the_decimal_sign_is_that_of_the_file(texts: list[str], sign: str | None) -> None:
    assert decimal_sign(pl.Series(texts)) == sign


def test_cells_that_are_no_number_have_none() -> None:
    cells = ["158 (0: 158)", "1,234.5", "n/a", "no data", "", "nan", "PolicySpread", "-3", "2e3", "1e999", " 7 "]
    found = pl.DataFrame({"cell": cells}).select(as_numbers(pl.col("cell"), "."))["cell"].to_list()
    assert found == [158, 1234.5, None, None, None, None, None, -3, 2000, None, 7]


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("byte", 1), ("Kbyte", 1e3), ("Gbyte/s", 1e9), ("Tbyte/second", 1e12), ("Kbyte/block", 1e3), ("%/Kbyte", 1e-3),
        ("usecond", 1e3), ("us", 1e3), ("msecond", 1e6), ("second", 1e9), ("Ghz", 1e9), ("cycle/nsecond", 1e9),
        ("cycle/usecond", 1e6), ("%", 1), ("", 1), ("register/thread", 1), ("Mbyte", 1e6),
    ],
)  # fmt: skip
def test_units_become_base_units(unit: str, factor: float) -> None:
    assert unit_factor(unit) == pytest.approx(factor)


@pytest.mark.parametrize(
    "spellings",
    [
        (
            "void at::native::<unnamed>::norm<float, (bool)0, (at::native::MODE)1>(int, const T1 *)",
            "void at::<unnamed>::norm<float, 0, 1>(int, const T1 *)",
            "void norm<float, false, 1>(int, const T1*)",
            "void at::native::(anonymous namespace)::norm<float, false, 1>(int, const T1 *)",
        ),
        ("k<std::array<char *, (unsigned long)2>>(int)", "k<std::array<char *, 2ul> >(int)"),
        ("k<(int)-1>()", "k<-1>()"),
    ],
)
def test_spellings_of_a_name_have_one_key(spellings: tuple[str, ...]) -> None:
    assert len(set(pl.DataFrame({"name": spellings}).select(name_key(pl.col("name")))["name"])) == 1


def test_other_lambdas_and_arguments_have_another_key() -> None:
    names = [
        "f::[lambda(int) (instance 1)]::operator ()() const", "f::[lambda(int) (instance 2)]::operator ()() const",
        "k<float>(T1 *)", "k<double>(T1 *)", "k<1, 2>()", "k<12>()",
    ]  # fmt: skip
    assert pl.DataFrame({"name": names}).select(name_key(pl.col("name")))["name"].n_unique() == len(names)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no line of column names"),
        ("==PROF== Connected to process 7\n==ERROR== nothing\n", "no line of column names"),
        (HEAD, "holds no kernels"),
        (HEAD + UNITS, "holds no kernels"),
        (HEAD + UNITS + ROW[:-12], "in the middle of a line"),
        (HEAD + UNITS + ROW[:-1].rpartition(",")[0], "in the middle of a line"),
        (HEAD + UNITS + ROW + ROW, "1 kernels twice"),
        ('"ID","Metric"\n"0","1"\n', "lacks the columns Kernel Name"),
        ('"ID","Kernel Name","a__b.sum"\n"","",""\n"0","k","1"\n', "grids and blocks"),
        (HEAD + UNITS + ROW + ROW.replace('"0"', '"1"').replace("1.5", "1,5"), "decimal points"),
        (HEAD + UNITS + '"0","7","k"x"y,\n', "is no CSV"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    with pytest.raises(ReportError, match=said) as error:
        kernels(path)
    assert str(path) in str(error.value)
    assert ";" in str(error.value)


def test_a_file_without_a_last_line_end_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "whole.csv"
    path.write_text(HEAD + UNITS + ROW[:-1])
    assert kernels(path)["ns"].to_list() == [1500]


def test_lines_of_the_profiler_and_of_the_program_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "loud.csv"
    between = "==PROF== Profiling\nloss 8.3\n"
    path.write_text(
        f"==PROF== Connected\nstarting\n{HEAD}{UNITS}{ROW}{between}{ROW.replace('0', '1', 1)}==ERROR== no\n"
    )
    assert kernels(path)["id"].to_list() == [0, 1]


def test_a_file_may_name_its_rank(tmp_path: Path) -> None:
    assert profile_file("3=a/b.csv") == ProfileFile(Path("a/b.csv"), 3)
    assert profile_file("a=b.csv") == ProfileFile(Path("a=b.csv"))
    with pytest.raises(UsageError, match="names no file"):
        profile_file("")
    with pytest.raises(ReportError, match="cannot be read"):
        read_profile(ProfileFile(tmp_path / "gone.csv"))
    assert nsys2prv.read_profile(nsys2prv.ProfileFile(STEPS, 3)).file.rank == 3


# Prints a page whatever it is given, or fails; keeps the words that it was called with.
FAKE = """
import pathlib, sys
pathlib.Path({words!r}).write_text("\\n".join(sys.argv[1:]))
if "newer" in sys.argv[2]:
    sys.exit("==ERROR== Failed to load report file.")
sys.stdout.write("==PROF== opened\\n" + pathlib.Path({page!r}).read_text())
"""


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in ncu's place, on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program, text = folder / "ncu", folder / "ncu.py"
    text.write_text(FAKE.format(words=str(folder / "words"), page=str(STEPS)))
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(text)])} "$@"\n')
    program.chmod(0o755)
    monkeypatch.delenv("NCU_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    return program


def report(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(b"\x00")
    return path


def test_a_report_is_read_by_ncu(fake_ncu: Path, tmp_path: Path) -> None:
    path = report(tmp_path, "kernels.ncu-rep")
    assert kernels(path).equals(kernels(STEPS))
    words = (fake_ncu.parent / "words").read_text().split("\n")
    assert words == ["-i", str(path), "--page", "raw", "--csv", "--print-units", "base"]


def test_ncu_of_its_home_counts_first(fake_ncu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCU_HOME", str(fake_ncu.parent))
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    assert kernels(report(tmp_path, "kernels.ncu-rep")).height == 328


def test_a_report_that_ncu_cannot_read_says_so(fake_ncu: Path, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"ncu could not read it \(==ERROR== Failed to load report file.\)"):
        kernels(report(tmp_path, "newer.ncu-rep"))
    fake_ncu.write_text("#!/gone\n")
    with pytest.raises(ReportError, match=r"could not (run|read)"):
        kernels(report(tmp_path, "kernels.ncu-rep"))


def test_without_ncu_the_next_step_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NCU_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ReportError, match=r"needs `ncu` or the module ncu_report, .*--page raw --csv"):
        kernels(report(tmp_path, "kernels.ncu-rep"))
    with pytest.raises(ReportError, match="is no file"):
        kernels(tmp_path / "gone.ncu-rep")


class Action:
    """A kernel as `ncu_report` gives it."""

    def __init__(self, name: str, values: dict[str, tuple[str, object]]) -> None:
        self._name, self._values = name, values

    def name(self) -> str:
        return self._name

    def metric_names(self) -> list[str]:
        return list(self._values)

    def metric_by_name(self, name: str) -> object:
        unit, value = self._values.get(name, ("", None))
        return SimpleNamespace(unit=lambda: unit, value=lambda: value) if name in self._values else None


def test_a_report_is_read_by_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {f"launch__{what}_dim_{a}": ("", n) for what in ("grid", "block") for n, a in enumerate("xyz", 1)}
    time = ("ns", 1500.0)
    actions = [
        Action('k<"a,b">(int)', {**sizes, "gpu__time_duration.sum": time, "other__metric.sum": ("", 3)}),
        Action("m()", {**sizes, "dram__bytes.sum": ("byte", 12_800), "launch__registers_per_thread": ("", 32)}),
    ]
    monkeypatch.setitem(sys.modules, "ncu_report", SimpleNamespace(load_report=lambda path: [actions]))
    monkeypatch.delenv("NCU_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    found = kernels(report(tmp_path, "kernels.ncu-rep"))
    assert found.select("name", "gridX", "gridZ", "blockY", "ns", "dram_bytes", "registers").rows() == [
        ('k<"a,b">(int)', 1, 3, 2, 1500.0, None, None),
        ("m()", 1, 3, 2, None, 12_800.0, 32),
    ]
