"""Kernel classes: the packaged rules on kernels labelled by hand, users' rules, and the kernel time of real reports."""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from nsys2prv.errors import Nsys2prvError
from nsys2prv.families.device.kernels import NCCL_NAME
from nsys2prv.intervals import classes
from nsys2prv.intervals.classes import OTHER, ClassRulesError, classify_kernels, family_of, load_rules

ROOT = Path(__file__).parents[2]
REPORTS = ROOT.parent / "shared" / "reports"
LABELLED = Path(__file__).with_name("kernel_classes.tsv")
DOCS = ROOT / "docs" / "kernel-classes.md"


def class_of(short: str, demangled: str | None = None, rules: Path | None = None) -> str:
    """The class of one kernel; the demangled name is the short one unless given."""
    names = pl.DataFrame({"short": [short], "demangled": [demangled or short]})
    return str(classify_kernels(names, load_rules(rules))["class"].item())


@pytest.fixture(scope="module")
def labelled() -> pl.DataFrame:
    """The labelled kernels: source, short, demangled, expected, and the class that the rules give."""
    names = pl.read_csv(LABELLED, separator="\t", quote_char=None, infer_schema=False)
    return names.with_columns(classify_kernels(names)["class"])


def test_kernels_of_nccl_s_class_are_drawn_as_nccl_s(labelled: pl.DataFrame) -> None:
    of_class = pl.col("expected").str.starts_with("NCCL") & (pl.col("short") != "oneRankReduce")
    assert labelled.filter(pl.col("short").str.contains(NCCL_NAME) != of_class)["short"].to_list() == []
    assert labelled.filter(of_class).height > 10


def table_of_classes(labelled: pl.DataFrame) -> list[str]:
    """The lines of the table in the documentation: families with kernels that are not right, and all others."""
    right, missed = pl.col("class") == pl.col("expected"), pl.col("class") == OTHER
    counted = (
        labelled.filter(pl.col("expected") != OTHER)
        .group_by(pl.col("expected").map_elements(family_of, return_dtype=pl.String).alias("family"))
        .agg(count=pl.len(), right=right.sum(), missed=missed.sum(), wrong=(~right & ~missed).sum())
        .sort("count", "family", descending=[True, False])
    )
    all_right = pl.col("right") == pl.col("count")
    others, everything = (
        part.select(pl.lit(name).alias("family"), pl.exclude("family").sum())
        for name, part in (("all others", counted.filter(all_right)), ("all", counted))
    )
    rows = pl.concat([counted.filter(~all_right), others, everything]).rows()
    return ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def test_no_labelled_kernel_is_in_a_wrong_class(labelled: pl.DataFrame) -> None:
    wrong = labelled.filter((pl.col("class") != pl.col("expected")) & (pl.col("class") != OTHER))
    assert wrong.select("short", "expected", "class").rows() == []


def test_nearly_all_labelled_kernels_have_their_class(labelled: pl.DataFrame) -> None:
    named = labelled.filter(pl.col("expected") != OTHER)
    assert named.height > 850
    assert named.filter(pl.col("class") == pl.col("expected")).height >= 0.95 * named.height


def test_kernels_without_a_class_are_other(labelled: pl.DataFrame) -> None:
    unnamed = labelled.filter(pl.col("expected") == OTHER)
    assert unnamed.height > 30
    assert set(unnamed["class"]) == {OTHER}


def test_every_rule_and_every_pattern_is_needed_by_a_labelled_kernel(labelled: pl.DataFrame) -> None:
    left = labelled
    for rule in load_rules().rules:
        hit = left.filter(rule.matches())
        for column, patterns in rule.patterns.items():
            unused = [pattern for pattern in patterns if not hit[column].str.contains(pattern).any()]
            assert unused == [], rule.template
        left = left.filter(~rule.matches())


def test_the_table_in_the_documentation_is_current(labelled: pl.DataFrame) -> None:
    table = DOCS.read_text(encoding="utf-8").partition("| family | labeled |")[2].partition("\n\n")[0]
    assert table.splitlines()[2:] == table_of_classes(labelled)


@pytest.mark.parametrize(
    ("short", "demangled", "expected"),
    [
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT", None, "GEMM tn 256x128x64"),
        ("nvjet_tst_192x192_64x3_2x1_v_bz_coopB_NTN", None, "GEMM nt 192x192x64"),
        ("nvjet_sm121_tst_mma_128x128x64_3_64x32x64_tmaAB_splitK_TNNN", None, "GEMM tn 128x128x64"),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", None, "GEMM tn 128x128x64"),
        ("volta_sgemm_128x64_nn", None, "GEMM nn 128x64"),
        ("sgemm_32x32x32_NT_vec", None, "GEMM nt 32x32x32"),
        (
            "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize256x128x64_warpgroupsize2x1x1_execute_segment_k_on_kernel__5x_cublas",
            None,
            "GEMM tn 256x128x64",
        ),
        (
            "Kernel2",
            "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x64_32x3_nn_align4>(T1::Params)",
            "GEMM nn 256x64x32",
        ),
        (
            "Kernel2",
            "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1>(T1::Params)",
            "GEMM tn 256x128 align1",
        ),
        (
            "Kernel2",
            "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align2>(T1::Params)",
            "GEMM tn 32x32x128 align2",
        ),
        (
            "Kernel2",
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(T1::Params)",
            "GEMM nt 256x128x8",
        ),
        (
            "device_kernel",
            "void cutlass::device_kernel<cutlass3x_sm90_tensorop_s64x256x16gemm_f16_f16_f32_void_f32_128x256x64_2x1x1_0"
            "_ttt_align8_warpspecialized_cooperative_epi_tma>(T1::Params)",
            "GEMM tt 128x256x64",
        ),
        ("splitKreduce_kernel", "void cublasLt::splitKreduce_kernel<(int)32, (int)16>", "GEMM split-K reduction"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", None, "NCCL ReduceScatter"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float", None, "NCCL AllReduce"),
    ],
)
def test_library_kernels_give_layout_and_tile_or_operation(short: str, demangled: str | None, expected: str) -> None:
    assert class_of(short, demangled) == expected


@pytest.mark.parametrize("short", ["Kernel", "Kernel2", "kernel", "device_kernel", "multi_tensor_apply_kernel"])
def test_short_names_of_launchers_say_nothing(short: str) -> None:
    assert class_of(short) == OTHER


@pytest.mark.parametrize(
    ("short", "expected"),
    [
        ("rotary_embedding_kernel", "elementwise"),
        ("_chunk_scan_fwd_kernel", "state-space model"),
        ("triton_poi_fused_native_layer_norm_3", "Triton pointwise"),
        ("setup_grouped_gemm_kernel", OTHER),
        (
            "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize64x128x64_execute",
            "convolution fprop",
        ),
    ],
)
def test_words_that_mislead(short: str, expected: str) -> None:
    assert class_of(short) == expected


def test_names_may_be_missing_and_order_is_kept() -> None:
    names = pl.DataFrame(
        {
            "short": ["softmax_warp_forward", None, "stencil", "gemv2T_kernel_val"],
            "demangled": [None, None, "stencil()", ""],
        }
    )
    assert classify_kernels(names)["class"].to_list() == ["softmax", OTHER, OTHER, "GEMV"]
    assert classify_kernels(names.clear())["class"].to_list() == []


def test_rules_are_tried_once_on_names_that_reports_share(
    labelled: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    by_rules = classes._by_rules

    def trying(texts: pl.DataFrame, rules: classes.Rules) -> pl.Series:
        tried.append(texts.height)
        return by_rules(texts, rules)

    monkeypatch.setattr(classes, "_by_rules", trying)
    classes._kept().clear()
    names, given = labelled.select(classes.NAME_COLUMNS), labelled["class"].to_list()
    for first, count in ((0, 20), (10, 20), (0, 30)):
        part = names.slice(first, count)
        assert classify_kernels(part)["class"].to_list() == given[first : first + count]
    assert tried == [20, 10]
    # What is kept is bounded: all is tried again.
    monkeypatch.setattr(classes, "MOST_KEPT", 35)
    assert classify_kernels(names.slice(20, 20))["class"].to_list() == given[20:40]
    assert classify_kernels(names.head(40))["class"].to_list() == given[:40]
    assert tried == [20, 10, 20, 40]
    assert len(classes._kept()) <= 35


def test_a_users_rules_are_tried_on_names_that_the_packaged_ones_know(tmp_path: Path) -> None:
    assert class_of("softmax_warp_forward") == "softmax"
    own = tmp_path / "own.toml"
    own.write_text('[[rule]]\nclass = "mine"\nfamily = "mine"\nshort = "^softmax_warp"\n')
    assert class_of("softmax_warp_forward", rules=own) == "mine"


def test_classes_of_one_operation_are_one_family() -> None:
    assert family_of("GEMM tn 128x128x64") == "GEMM"
    assert family_of("GEMM split-K reduction") == "GEMM"
    assert family_of("GEMV") == "GEMV"
    assert family_of("flash attention backward") == "flash attention"
    assert family_of("attention forward") == "attention"
    assert family_of("convolution wgrad") == "convolution"
    assert family_of("NCCL AllReduce") == "NCCL"
    assert family_of("Triton GEMM") == "Triton"
    assert family_of(OTHER) == OTHER
    assert family_of("of no rule") == "of no rule"


def test_letters_and_digits_of_regexes_are_ascii(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text("[[rule]]\nclass = 'plain {size}'\nshort = '^[\\w$]+_(?P<size>\\d+)$'\n", encoding="utf-8")
    names = pl.DataFrame({"short": ["Ab_$_9", "é_9", "a_٩"], "demangled": None})
    assert classify_kernels(names, load_rules(file))["class"].to_list() == ["plain 9", "other", "other"]


def test_a_users_rules_come_first(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        """
        [[rule]]
        class = "stencil {size:lower}"
        short = ['^stencil_(?P<size>[0-9]+P)$', '^stencil$']

        [[rule]]
        class = "GEMM of mine"
        family = "GEMM"
        short = '^Kernel2$'
        demangled = 'my_gemm'

        [[rule]]
        class = "other"
        short = '^softmax_'
        """,
        encoding="utf-8",
    )
    assert class_of("stencil_7P", rules=mine) == "stencil 7p"
    assert class_of("stencil", rules=mine) == "stencil"
    assert class_of("Kernel2", "void my_gemm::Kernel2<float>", rules=mine) == "GEMM of mine"
    assert class_of("Kernel2", "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>", rules=mine) == (
        "GEMM nn 64x64x8"
    )
    assert class_of("softmax_warp_forward", rules=mine) == OTHER
    assert class_of("nvjet_tst_64x8_64x16_2x1_v_bz_NNT", rules=mine) == "GEMM nn 64x8x64"
    rules = load_rules(mine)
    assert (family_of("stencil 7p", rules), family_of("GEMM of mine", rules)) == ("stencil", "GEMM")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("[[rule]", "not TOML"),
        ("", "expected tables [[rule]] and nothing else"),
        ("rule = 3", "expected tables [[rule]] and nothing else"),
        ("[[rule]]\nclass = 'x'\nshort = 'x'\n[[rules]]\nclass = 'y'", "expected tables [[rule]] and nothing else"),
        ("[[rule]]\nclass = 'x'", "rule 1 (x): needs a regex in 'short', in 'demangled', or in both"),
        ("[[rule]]\nshort = 'x'", "rule 1 (no class): 'class' must be a text of one line"),
        ("[[rule]]\nclass = 3\nshort = 'x'", "rule 1 (3): 'class' must be a text of one line"),
        ("[[rule]]\nclass = 'x'\nname = 'x'", "rule 1 (x): unknown key 'name'"),
        ("[[rule]]\nclass = 'x'\nshort = []", "rule 1 (x): 'short' must be a regex or a list of regexes"),
        ("[[rule]]\nclass = 'x'\nshort = 'a('", "rule 1 (x): regex 'a(' in 'short': unclosed group"),
        ("[[rule]]\nclass = 'x'\nshort = '(?=a)'", "in 'short': look-around"),
        ("[[rule]]\nclass = 'x {y}'\nshort = 'a'", "rule 1 (x {y}): no regex has a group (?P<y>...)"),
        ("[[rule]]\nclass = 'x {}'\nshort = 'a'", "rule 1 (x {}): in 'class', braces hold a group name"),
        ("[[rule]]\nclass = 'x {y:upper}'\nshort = '(?P<y>a)'", "braces hold a group name"),
        ("[[rule]]\nclass = 'x {y'\nshort = '(?P<y>a)'", "rule 1 (x {y): "),
        ("[[rule]]\nclass = '{y}'\nshort = '(?P<y>a)'", "rule 1 ({y}): 'class' must begin with text"),
        ("[[rule]]\nclass = 'x y'\nfamily = 'z'\nshort = 'a'", "'family' with the first words of that text"),
        (
            "[[rule]]\nclass = 'x'\nshort = 'x'\n[[rule]]\nclass = 'y'\nshort = '['",
            "rule 2 (y): regex '[' in 'short': unclosed character class",
        ),
    ],
)
def test_a_malformed_rules_file_is_one_line_with_file_rule_and_cause(tmp_path: Path, text: str, cause: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ClassRulesError) as caught:
        load_rules(path)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, Nsys2prvError)
    assert str(caught.value).startswith(f"{path}: ")
    assert cause in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rules_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ClassRulesError, match=r"none\.toml: cannot be read: No such file"):
        load_rules(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ClassRulesError, match="not UTF-8"):
        load_rules(tmp_path / "binary.toml")


def test_a_hundred_thousand_names_are_worked_on_by_columns(labelled: pl.DataFrame) -> None:
    """No call of a function for each of them."""
    copies = -(-100_000 // labelled.height)
    names = pl.concat([labelled.select("short", "demangled")] * copies).with_row_index()
    names = names.with_columns(pl.format("{} [{}]", "demangled", "index").alias("demangled"))
    load_rules()
    calls = Counter[str]()
    sys.setprofile(lambda frame, event, given: calls.update([event]))
    try:
        classes = classify_kernels(names)["class"]
    finally:
        sys.setprofile(None)
    assert classes.len() == names.height
    assert 0 < calls["call"] + calls["c_call"] < names.height // 2


def kernel_times(folder: Path) -> pl.DataFrame:
    """Kernel time of the reports of a folder: short, demangled, ns; one row a distinct kernel of a report."""
    query = """
        SELECT short.value AS short, long.value AS demangled, SUM(kernel.end - kernel.start) AS ns
        FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel
        JOIN StringIds AS short ON short.id = kernel.shortName
        JOIN StringIds AS long ON long.id = kernel.demangledName
        GROUP BY 1, 2
    """
    rows: list[tuple[str, str, int]] = []
    for report in sorted(folder.glob("*.sqlite")):
        with closing(sqlite3.connect(f"file:{report}?immutable=1", uri=True)) as database:
            rows += database.execute(query).fetchall()
    return pl.DataFrame(rows, schema=["short", "demangled", "ns"], orient="row")


@pytest.mark.shared
@pytest.mark.skipif(not REPORTS.is_dir(), reason="no shared reports beside the checkout")
@pytest.mark.parametrize("run", ["gpt-ddp", "mesh-tp-pp", "metric-frequency"])
def test_the_kernel_time_of_real_runs_is_classed(run: str) -> None:
    kernels = kernel_times(REPORTS / run)
    kernels = kernels.with_columns(classify_kernels(kernels)["class"])
    assert kernels.height > 0
    # Most of the time of two of these runs is waiting in NCCL: the rest must be classed as well.
    compute = kernels.filter(~pl.col("class").str.starts_with("NCCL "))
    for part in (kernels, compute):
        assert int(part.filter(pl.col("class") != OTHER)["ns"].sum()) >= 0.95 * int(part["ns"].sum())
