"""The quick suite, which a plain `pytest` runs: every family, command and stage, in about two minutes on two cores.

`pytest --all` runs everything. `.ci/run` runs the quick suite, then `pytest --rest`: the others, but of many alike
cases only a part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

# Begins of node ids. Every family and stage has a golden test, every command a test in `test_quick.py`.
QUICK = (
    "tests/golden/",
    "tests/intervals/",
    "tests/model/",
    "tests/families/",
    "tests/cli/",
    "tests/report/",
    "tests/analysis/test_efficiency.py",
    "tests/page/test_page_detail.py",
    "tests/pipeline/test_extract.py",
    "tests/pipeline/test_match.py",
    "tests/run/test_clocks.py",
    "tests/test_basic_analysis.py",
    "tests/test_contributing.py",
    "tests/test_packages.py",
    "tests/test_quick.py",
    "tests/test_trust.py",
)
# Among them, those that take the longest.
SLOW = (
    "tests/families/test_random_samples.py",
    "tests/cli/test_align.py",
    "tests/cli/test_bad_input.py",
    "tests/cli/test_batch_command.py",
    "tests/cli/test_compare.py",
    "tests/cli/test_json_schemas.py",
    "tests/cli/test_options.py",
    "tests/report/test_nsys.py",
    "tests/report/test_nvprof.py",
    "tests/report/test_versions.py",
)


def in_quick_suite(node: str) -> bool:
    """Tell whether a test belongs to the quick suite."""
    return node.startswith(QUICK) and not node.startswith(SLOW)


# Tests with many cases that differ in the run, column, or place alone. `pytest --rest` runs every n-th of their cases,
# as all of them would take CI beyond its 40 minutes; `pytest --all` runs all.
EVERY_NTH = {
    "tests/analysis/test_damaged_runs.py::test_a_rank_that_began_to_record_late_is_named": 4,
    "tests/analysis/test_damaged_runs.py::test_a_rank_that_slept_is_named": 3,
    "tests/analysis/test_damaged_runs.py::test_a_rank_whose_kernels_are_always_slow_is_named": 3,
    "tests/analysis/test_damaged_runs.py::test_a_rank_with_slow_kernels_in_one_iteration_is_named": 4,
    "tests/analysis/test_damaged_runs.py::test_a_rank_without_a_table_is_named": 5,
    "tests/analysis/test_explained_events.py::test_events_add_up_to_the_figures_of_analyze": 3,
    "tests/cli/test_align.py::test_a_translation_by_its_own_alignment_is_the_same": 2,
    "tests/cli/test_bad_input.py::test_a_full_disk_is_said_and_leaves_nothing": 3,
    "tests/commands/test_batch.py::test_an_accident_is_one_bad_run": 3,
    "tests/page/test_page_access.py::test_axe_finds_no_error": 3,
    "tests/page/test_page_figures.py::test_nothing_that_the_terminal_prints_is_missing": 3,
    "tests/page/test_page_use.py::test_it_fits_420_pixels": 3,
    "tests/paraver/test_figures.py::test_analysis_equals_analyze": 5,
    "tests/paraver/test_figures.py::test_analysis_equals_sql": 5,
    "tests/paraver/test_figures.py::test_metric_in_kernels_equals_sql": 11,
    "tests/pipeline/test_bundles.py::test_bundled_equals_whole": 3,
    "tests/pipeline/test_bytes.py::test_shuffled_rows_give_the_same_bytes": 3,
    "tests/pipeline/test_form.py::test_every_begin_has_its_end_on_the_same_row_and_type": 3,
    "tests/pipeline/test_form.py::test_outer_intervals_begin_before_and_end_after_what_they_enclose": 3,
    "tests/pipeline/test_report_repeats.py::test_the_window_by_the_order_of_launches_is_that_of_the_analysis": 3,
    "tests/pipeline/test_left_out.py::test_rows_without_a_time_are_counted_once": 5,
    "tests/pipeline/test_parts.py::test_parts_equal_whole": 4,
    "tests/pipeline/test_parts.py::test_parts_equal_whole_of_a_selection": 2,
    "tests/pipeline/test_parts.py::test_parts_have_the_figures_of_nsight_compute": 2,
    "tests/pipeline/test_slices.py::test_sliced_equals_whole": 2,
    "tests/pipeline/test_slices.py::test_sliced_equals_whole_of_a_family_alone": 3,
    "tests/pipeline/test_slices.py::test_sliced_equals_whole_of_a_span_of_time": 3,
    "tests/pipeline/test_slices.py::test_sliced_equals_whole_of_averaged_metrics": 2,
    "tests/pipeline/test_slices.py::test_sliced_equals_whole_of_nccl_operations": 2,
    "tests/pipeline/test_slices.py::test_slices_tell_as_many_gpus_of_a_process": 3,
    "tests/report/test_versions.py::test_the_trace_is_the_same_whatever_the_version": 4,
    "tests/run/test_constructed.py::test_with_any_one_table_missing_a_report_translates_or_says_what_is_wrong": 6,
    "tests/test_construct.py::test_metrics_move_within_their_host": 2,
    "tests/test_examples.py::test_an_example_runs": 2,
}


def in_rest(nodes: Sequence[str]) -> list[bool]:
    """Tell of each test, in order, whether `pytest --rest` runs it."""
    numbers: Counter[str] = Counter()
    chosen = []
    for node in nodes:
        name = node.partition("[")[0]
        chosen.append(not in_quick_suite(node) and numbers[name] % EVERY_NTH.get(name, 1) == 0)
        numbers[name] += 1
    return chosen
