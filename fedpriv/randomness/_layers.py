"""The layers of one area under the curve e^{−(x/s)^p/p}, by which wide noise is drawn (Marsaglia and Tsang 2000)."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import Literal

import numpy as np

from fedpriv._base.arrays import Vector, Words
from fedpriv._base.compiled import compiled

Power = Literal[1, 2]  # p: Laplace, Gaussian

LAYERS = 256
_EDGE = {1: "7.7457", 2: "3.6631"}  # where the lowest layer ends, in s: with these 256 layers just pass the top


@lru_cache(maxsize=2)
def layers_of(power: Power) -> tuple[Vector, float, float]:
    """The widths, block width and layer area by which wide noise of scale 1 is drawn, all rounded up.

    The lowest layer is [0, r) below f(r) and the blocks beyond: f falls from r on at least as fast as e^{−r^{p−1}·x},
    so it halves within ln 2/r^{p−1}. Each layer lies on the one before, as wide as the curve is there. In decimal
    digits, for then the numbers are the same everywhere.
    """
    with localcontext(Context(prec=30)):
        edge, up = Decimal(_EDGE[power]), 1 + Decimal(2) ** -50
        block = Decimal(2).ln() / edge ** (power - 1) * up
        height = (-(edge**power) / power).exp()
        area = Decimal(float(height * (edge + 2 * block) * up))
        widths = [edge * up]
        for _ in range(LAYERS - 1):
            widths.append((-power * height.ln()) ** (Decimal(1) / power) * up)
            height += area / Decimal(float(widths[-1]))
        if not height >= 1:
            raise RuntimeError(f"{LAYERS} layers end at {height}, below the top of the curve")
        return np.array([float(width) for width in widths]), float(block), float(area)


@compiled
def lay_out(
    scale: float, room: float, whole: float, power: int, widths: Vector, beyond: int,
    cells: Words, spare: Words, inner: Words, heights: Vector,
) -> None:  # fmt: skip
    """Fill in the cells, spare words, inner cells and heights of the 256 layers that noise of this scale is drawn by.

    Compiled, because a clip norm that adapts has noise of a new width in every step.
    """
    for layer in range(len(widths)):
        count = np.int64(np.ceil(scale * widths[layer])) + 1
        if layer == 0:
            count += beyond
        cells[layer] = np.uint64(count)
        spare[layer] = (np.uint64(1 << 55) % cells[layer]) << np.uint64(9)
        heights[layer + 1] = heights[layer] + whole / count
        # its upper edge is at most (1 + room)² times what it is for widths: so much nearer it is under the curve
        upper = widths[layer + 1] if layer + 1 < len(widths) else 0.0
        curved = upper * upper if power == 2 else upper
        near = min(4 * room / curved, 1.0) if curved > 0 else 1.0
        inner[layer] = np.uint64(max(np.floor(scale * upper * (1 - near)) - 1, 0.0))
