"""The look of windows in Paraver's GUI: colors, what a pixel shows, place and size. No figure depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from nsys2prv.model.palette import Color

Colors = Literal["code", "null_gradient"]
Scale = tuple[float, float]


class Look(NamedTuple):
    """The look of a window in the GUI, without effect on numbers. `lines` draws communication lines.

    `palette`: the color of single values, where the trace's own table has another. `scale`: the values of the first and
    the last color (None: the least and the largest of the data).
    """

    open: bool = False
    colors: Colors = "code"
    lines: bool = False
    palette: Mapping[int, Color] = {}
    scale: Scale | None = None


HIDDEN = Look()
CODE = Look(open=True)
# The value as a color, and nothing where it is 0.
GRADIENT = Look(open=True, colors="null_gradient")
# A share in percent has the same colors in every trace.
PERCENT: Scale = (0.0, 100.0)

# How a pixel shows several values. The largest of numbers that stand for names means nothing, and would hide all names
# but one: a random one of them is shown.
_DRAWN: Mapping[Colors, str] = {"code": "draw_randnotzero", "null_gradient": "draw_maximum"}


def look_keys(look: Look, shown: int, of: int) -> list[str]:
    """Return the GUI keys. The windows that open with a file, `of` in number, lie below each other."""
    # All fit on a screen.
    height = 300 if of < 2 else 250 if of < 4 else 90
    return [
        "window_position_x 40",
        f"window_position_y {40 + shown * (height + 50)}",
        "window_width 1000",
        f"window_height {height}",
        f"window_comm_lines_enabled {str(look.lines).lower()}",
        "window_flags_enabled false",
        "window_noncolor_mode true",
        f"window_color_mode window_in_{look.colors}_mode",
        "window_logical_filtered true",
        "window_physical_filtered false",
        *_custom_colors(look),
        f"window_drawmode {_DRAWN[look.colors]}",
        f"window_drawmode_rows {_DRAWN[look.colors]}",
        *_scale(look.scale),
        "window_pixel_size 1",
        "window_labels_to_draw 1",
        f"window_open {str(look.open).lower()}",
    ]


def _custom_colors(look: Look) -> list[str]:
    if not look.palette:
        return []
    pairs = ",".join(f"{{{n}:{c.red},{c.green},{c.blue}}}" for n, c in sorted(look.palette.items()))
    return ["window_custom_color_enabled true", f"window_custom_color_palette {pairs}"]


def _scale(scale: Scale | None) -> list[str]:
    if scale is None:
        return ["window_compute_y_max true"]
    return [
        "window_compute_y_max false",
        f"window_minimum_y {scale[0]:.12f}",
        f"window_maximum_y {scale[1]:.12f}",
    ]
