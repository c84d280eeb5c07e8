"""The shipped cfgs as text: fresh, complete, and free of what Paraver refuses or what fits one trace only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nsys2prv.families.registry import FAMILIES
from nsys2prv.model import event_types
from nsys2prv.paraver.cfg import CFGS, FOLDER, Cfg, write_all
from nsys2prv.paraver.cfg.hwcounters import METRIC_LABELS

LABELS = {t.number: t.label for t in event_types.EVENT_TYPES.values()}
DEFAULT_RANGES = event_types.NVTX_DOMAIN.label.format(name=event_types.DEFAULT_DOMAIN)
FILTER = re.compile(r"^window_filter_module evt_type (\d+) (.*)$", re.M)
LABEL = re.compile(r"^window_filter_module evt_type_label (\d+) (.*)$", re.M)
IDENTIFIERS = re.compile(r"^window_identifiers (\d+) (\d+)$", re.M)

each_cfg = pytest.mark.parametrize("cfg", CFGS, ids=lambda c: c.path)


def test_shipped_files_are_fresh(tmp_path: Path) -> None:
    """`python -m nsys2prv.paraver.cfg` writes them anew."""
    write_all(tmp_path)
    made = {p.relative_to(tmp_path): p.read_text() for p in tmp_path.rglob("*.cfg")}
    shipped = {p.relative_to(FOLDER): p.read_text() for p in FOLDER.rglob("*.cfg")}
    assert shipped == made


def test_no_two_configurations_share_a_path() -> None:
    assert len({c.path for c in CFGS}) == len(CFGS)


def test_every_family_has_a_timeline() -> None:
    """A cfg shows a family if it has the family's name, or shows an event type that the family emits."""
    basics = [c for c in CFGS if c.folder in ("basics", "views")]
    names = {c.name for c in basics}
    labels = {text for c in basics for _, found in LABEL.findall(c.text()) for text in re.findall(r'"([^"]*)"', found)}
    shown = {f.name for f in FAMILIES if f.name in names or labels & {t.label for t in f.emits}}
    assert shown == {f.name for f in FAMILIES}


def is_known(label: str) -> bool:
    """Whether it names an event type. The numbers of metrics and NVTX domains differ between traces."""
    listed = (*LABELS.values(), *METRIC_LABELS.values(), "MPI *")
    return label in listed or label.startswith(("NVTX ", "*Bytes received"))


@each_cfg
def test_event_types_are_known_by_number_and_label(cfg: Cfg) -> None:
    """A type that a trace may lack has the number of another one that the cfg shows, of none (0), or of NOTHING."""
    text = cfg.text()
    numbered, labelled = FILTER.findall(text), LABEL.findall(text)
    assert len(numbered) == len(labelled)
    assert numbered or "{thread, State As Is}" in text
    for (n, numbers), (m, labels) in zip(numbered, labelled, strict=True):
        pairs = list(zip(map(int, numbers.split()), re.findall(r'"([^"]*)"', labels), strict=True))
        assert int(n) == int(m) == len(pairs)
        for number, label in pairs:
            assert is_known(label)
            own = re.fullmatch(re.escape(label).replace(r"\*", ".*"), LABELS.get(number, ""))
            another = f'"{LABELS.get(number, DEFAULT_RANGES)}"' in text
            assert own or another or number in (0, event_types.NOTHING.number)


@each_cfg
def test_fits_every_trace(cfg: Cfg) -> None:
    """No objects, no times, no window derived from a later one, one blank inside braces."""
    text = cfg.text()
    assert not re.search(r"^(window_object|window_zoom_objects|window_begin_time |Analyzer2D\.Objects)", text, re.M)
    assert not re.search(r"\{(thread|task|evt_type),\S| \}\s*\},|,\s{2}", text)
    blocks = text.split("window_name ")[1:]
    assert f"ConfigFile.NumWindows: {len(blocks)}\n" in text
    for number, block in enumerate(blocks, start=1):
        for first, second in IDENTIFIERS.findall(block):
            assert int(first) < number > int(second)


@each_cfg
def test_a_configuration_says_its_title_and_what_to_record(cfg: Cfg) -> None:
    head = cfg.text().split("ConfigFile.EndDescription")[0]
    assert cfg.title in head
    assert "What to record: nsys profile" in head or cfg.path == "basics/window.cfg"


def off_by_default() -> dict[int, str]:
    """Event types that no family emits without being asked for, and the option that brings them."""
    # Files beside the reports bring the figures of Nsight Compute.
    options = {f.name: "--ncu FILE" if f.name == "ncu" else f"--also {f.name}" for f in FAMILIES if not f.default}
    brought = {t.number: f"`translate {options[f.name]}`" for f in FAMILIES if not f.default for t in f.emits}
    usual = {t.number for f in FAMILIES if f.default for t in f.emits}
    return {number: option for number, option in brought.items() if number not in usual}


@each_cfg
def test_names_the_option_that_brings_what_is_off_by_default(cfg: Cfg) -> None:
    text = cfg.text()
    described = " ".join(text.split("ConfigFile.EndDescription")[0].split())
    shown = {int(n) for _, numbers in FILTER.findall(text) for n in numbers.split()}
    for number, option in off_by_default().items():
        assert number not in shown or option in described
    if "{thread, State As Is}" in text:
        assert "`translate --states`" in described


def test_no_window_is_shown_by_two_cfgs() -> None:
    """One file for each question: what is drawn alone in one cfg is not drawn alone in another."""
    drawn = [c._replace(folder="", name="", title="", about="", record="") for c in CFGS if not c.histograms]
    texts = [re.sub(r"^(window_name|ConfigFile|\s*$|#).*$", "", c.text(), flags=re.M) for c in drawn]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("cfg", [c for c in CFGS if c.folder == "analysis"], ids=lambda c: c.path)
def test_the_window_of_interest_bounds_every_analysis(cfg: Cfg) -> None:
    """By the control, or by the data where the control only names columns, or because events lie in it alone."""
    inside = {f'"{kind.label}"' for kind in (event_types.WINDOW, event_types.CRITICAL_PATH, event_types.IDLE_CAUSE)}
    for histogram in cfg.histograms:
        bounding = [w for w in (histogram.control, histogram.data) if w is not None]
        text = Cfg("", "", "", "", "", windows=tuple(bounding)).text()
        assert any(label in text for label in inside)
    assert cfg.histograms


@each_cfg
def test_data_and_control_share_no_parent(cfg: Cfg) -> None:
    """Paraver computes one of them wrong where they do."""
    for histogram in cfg.histograms:
        if histogram.data is not None:
            parts = (histogram.control, histogram.data)
            parents = [Cfg("", "", "", "", "", windows=(w,)).all_windows() for w in parts]
            assert not {id(w) for w in parents[0]} & {id(w) for w in parents[1]}
