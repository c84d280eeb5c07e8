"""Names in lines for the user are short, few, and lead to the one that was meant."""

from collections.abc import Iterable

import pytest

from nsys2prv.model.words import NAME_WIDTH, are_similar, did_you_mean, few, few_ranks, short


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "rank 3"),
        ([2, 0], "ranks 0 and 2"),
        ([0, 1], "ranks 0 and 1"),
        ([5, 2, 9], "ranks 2, 5 and 9"),
        (range(1000), "ranks 0 to 999"),
        (range(0, 16, 2), "ranks 0, 2, 4, 6, 8, 10, 12 and 14"),
        (range(0, 18, 2), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 1 more"),
    ],
)
def test_ranks_are_named_in_a_few_words(ranks: Iterable[int], text: str) -> None:
    assert few_ranks(ranks) == text


def test_a_text_is_cut_to_its_most_characters() -> None:
    assert short("a" * 10, 10) == "a" * 10
    assert short("a" * 11, 10) == "aaaaaaa..."


def test_the_first_names_are_listed_and_the_others_counted() -> None:
    assert few(["a", "b", "c"]) == "a, b, c"
    assert few(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert few(["a" * (NAME_WIDTH + 1)]) == "a" * (NAME_WIDTH - 3) + "..."


def test_only_a_similar_name_is_suggested() -> None:
    assert did_you_mean("kernel", ["kernels", "nvtx"]) == ", did you mean 'kernels'?"
    assert did_you_mean("mpi", ["kernels", "nvtx"]) == ""


def test_names_are_similar_without_their_endings() -> None:
    assert are_similar("report1", "report2")
    assert not are_similar("zero", "nope")
