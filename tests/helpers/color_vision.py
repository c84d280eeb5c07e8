"""How far apart two colors are for readers of normal vision, and for those who cannot tell red from green."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nsys2prv.model.palette import Color

Floats = npt.NDArray[np.float64]
# Linear sRGB as seen without red cones and without green ones: Machado, Oliveira and Fernandes, A Physiologically-based
# Model for Simulation of Color Vision Deficiency (IEEE TVCG 15(6), 2009), severity 1.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
# IEC 61966-2-1: linear sRGB to XYZ, and its white.
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = TO_XYZ.sum(axis=1)


def seen(color: Color, vision: str) -> Floats:
    """A color in CIE L*a*b* as it is seen."""
    part = np.array(color) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    x, y, z = TO_XYZ @ np.clip(VISIONS[vision] @ linear, 0, 1) / WHITE
    fx, fy, fz = (np.cbrt(v) if v > (6 / 29) ** 3 else v / (3 * (6 / 29) ** 2) + 4 / 29 for v in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def difference(one: Floats, other: Floats) -> float:
    """CIEDE2000: Sharma, Wu and Dalal, Color Research and Application 30(1), 2005."""
    chroma = (np.hypot(*one[1:]) + np.hypot(*other[1:])) / 2
    stretch = 1 + 0.5 * (1 - np.sqrt(chroma**7 / (chroma**7 + 25.0**7)))
    (l1, a1, b1), (l2, a2, b2) = one * (1, stretch, 1), other * (1, stretch, 1)
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    light, c, hue = (l1 + l2) / 2, (c1 + c2) / 2, h1 + turn / 2 if c1 * c2 else h1 + h2
    cosines = (np.cos(np.radians(n * hue + shift)) for n, shift in ((1, -30), (2, 0), (3, 6), (4, -63)))
    t = 1 + sum(f * cosine for f, cosine in zip((-0.17, 0.24, 0.32, -0.2), cosines, strict=True))
    by_light = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2))
    by_chroma = (c2 - c1) / (1 + 0.045 * c)
    by_hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * c * t)
    blue = np.sin(np.radians(60 * np.exp(-(((hue % 360 - 275) / 25) ** 2))))
    rotation = -2 * np.sqrt(c**7 / (c**7 + 25.0**7)) * blue
    return float(np.sqrt(by_light**2 + by_chroma**2 + by_hue**2 + rotation * by_chroma * by_hue))


def apart(one: Color, other: Color) -> float:
    """The least difference of two colors over all kinds of vision."""
    return min(difference(seen(one, vision), seen(other, vision)) for vision in VISIONS)
