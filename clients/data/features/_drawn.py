"""Images of drawn shapes: what features of images look like on average, known to all, for no data were looked at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Rows
from fedpriv.errors import FedprivError

DRAWN = 1000  # images


def drawn_shapes(shape: tuple[int, ...]) -> Rows:
    """Images of one to three soft ellipses and boxes each, between 0 and 1, in the shape of a study's records.

    >>> drawn_shapes((1, 8, 8)).shape
    (1000, 1, 8, 8)
    """
    sides = [side for side in shape if side > 3]
    if len(sides) != 2:
        raise FedprivError(f"centre = true draws images, and these records have the shape {shape}: leave centre out")
    rng = np.random.default_rng(0)
    down, right = np.meshgrid(*(np.linspace(-1, 1, side) for side in sides), indexing="ij")
    out = np.zeros((DRAWN, *sides), np.float32)
    for image in out:
        for _ in range(rng.integers(1, 4)):
            _draw(image, down, right, rng)
    where = (DRAWN, *(side if side > 3 else 1 for side in shape))
    return np.ascontiguousarray(np.broadcast_to(out.reshape(where), (DRAWN, *shape)))


def _draw(image: Rows, down: NDArray[np.float64], right: NDArray[np.float64], rng: np.random.Generator) -> None:
    """Lay one shape of its own place, size, turn, softness and brightness over an image."""
    turn, (x, y), (wide, high) = rng.uniform(0, np.pi), rng.normal(0, 0.2, 2), rng.uniform(0.2, 1, 2)
    power, soft, bright = rng.choice([2, 4, 8]), rng.uniform(2, 10), rng.uniform(0.2, 1)
    along = (np.cos(turn) * (right - x) + np.sin(turn) * (down - y)) / wide
    across = (np.cos(turn) * (down - y) - np.sin(turn) * (right - x)) / high
    edge = np.minimum((along**power + across**power - 1) * soft, 50.0)
    cover = 1 / (1 + np.exp(edge))
    image += (cover * (bright - image)).astype(np.float32)
