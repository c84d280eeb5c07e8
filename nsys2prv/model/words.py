"""Names in lines for the user: cut to a length, the first of many, ranks by their ends, the one that was meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Names in a list from which the user may choose one.
NAMES_SHOWN = 12
# Ranks that a line names: a run may have thousands.
RANKS_SHOWN = 8
# Characters of a name in a list, and of a sentence that a report says of itself.
NAME_WIDTH, SENTENCE_WIDTH = 100, 500


def short(text: str, most: int = 60) -> str:
    """Cut a text to a number of characters, for a line that quotes it."""
    return text if len(text) <= most else text[: most - 3] + "..."


def few(names: Sequence[str], most: int = 3) -> str:
    """Join the first names, each cut to NAME_WIDTH, and say how many more there are, for one line."""
    listed = ", ".join(short(name, NAME_WIDTH) for name in names[:most])
    return listed + (f" and {len(names) - most} more" if len(names) > most else "")


def in_range(least: float, most: float) -> str:
    """Return whole numbers by their ends, `5 to 13`, or the one number that both are."""
    ends = f"{least:,.0f}", f"{most:,.0f}"
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def few_ranks(ranks: Iterable[int]) -> str:
    """Name ranks for one line, a row of them by its ends: `rank 3`, `ranks 0 and 2`, `ranks 0 to 5`."""
    own = sorted(set(ranks))
    if len(own) == 1:
        return f"rank {own[0]}"
    if len(own) > 2 and own[-1] - own[0] == len(own) - 1:
        return f"ranks {own[0]} to {own[-1]}"
    shown = own[: RANKS_SHOWN if len(own) > RANKS_SHOWN else -1]
    rest = f"{len(own) - RANKS_SHOWN} more" if len(own) > RANKS_SHOWN else own[-1]
    return f"ranks {', '.join(map(str, shown))} and {rest}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'NAME'?` with the most similar of the known names; empty if none is similar."""
    # Loaded for messages alone.
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {short(near[0], NAME_WIDTH)!r}?" if near else ""


def are_similar(name: str, other: str) -> bool:
    """Return True if one name may be meant by the other, as `did_you_mean` judges."""
    # Loaded for messages alone.
    import difflib

    return bool(difflib.get_close_matches(name, [other], n=1))
