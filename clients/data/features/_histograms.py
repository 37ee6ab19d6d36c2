"""Histograms of gradients: how strongly an image changes in each direction, in each of its cells.

Dalal and Triggs, Histograms of oriented gradients for human detection (CVPR 2005), without a window to search. Loops go
through one image after another, so that what an image gives does not depend on those beside it, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, floor, pi, sqrt
from typing import Annotated, Any, Literal

import numpy as np

from clients.data.features._images import images_of
from fedpriv._base.arrays import Rows
from fedpriv._base.compiled import compiled
from fedpriv.errors import Constraint, FedprivError, at_least_zero, real, whole, whole_from
from fedpriv.settings import check_fields

Signs = Literal["off", "on", "both"]


def _no_sides(value: Any) -> str:
    """What is wrong with a list of cells' sides, for its error line; nothing where it is right."""
    if not isinstance(value, list | tuple) or not value or len(set(map(repr, value))) < len(value):
        return f"must be a list of at least one side in pixels, none twice, got {value!r}"
    return next((fault for fault in map(whole.fault, value) if fault), "")


sides = Constraint(
    "a list of whole numbers of at least 1, none twice",
    {"minItems": 1, "uniqueItems": True, "items": {"type": "integer", "minimum": 1}},
    _no_sides,
)


@dataclass(frozen=True, kw_only=True)
class Histograms:
    """Gradient histograms of an image's cells, of one or several sizes, with and without the gradient's sign."""

    cells: Annotated[tuple[int, ...], sides, "sides of cells in pixels: each gives histograms of its own"] = (4, 7)
    orientations: Annotated[
        int, whole_from(2), "directions of a histogram in half a turn; with signs twice as many in a whole one"
    ] = 9
    signs: Annotated[Signs, "whether light to dark is another direction than dark to light, or one of each"] = "both"
    blocks: Annotated[int, whole, "cells a side of a block, which is brought to a norm; blocks overlap"] = 1
    floor: Annotated[
        float, real, at_least_zero, "e of v / √(‖v‖² + e²), by which a block v is normalised: as large as noise"
    ] = 0.02
    root: Annotated[bool, "whether their square roots are given, in which weak gradients count more"] = False

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "cells", tuple(int(side) for side in self.cells))

    def __call__(self, records: Rows) -> Rows:
        """The histograms of a study's images, a row each; of colours the one that changes most counts at each pixel.

        >>> edge = np.zeros((1, 8, 8), np.float32)
        >>> edge[:, :, 4:] = 1
        >>> Histograms(cells=(8,), orientations=4, signs="off", floor=0)(edge).tolist()
        [[1.0, 0.0, 0.0, 0.0]]
        """
        images = images_of(records, "Histograms")
        bins = {"off": (1,), "on": (2,), "both": (1, 2)}[self.signs]
        plan = [(side, own) for side in self.cells for own in bins]
        high, wide = images.shape[2:]
        if max(self.cells) > min(high, wide):
            raise FedprivError(f"cells: {max(self.cells)} pixels a side, and images are {high} × {wide}")
        width = 0
        for side, own in plan:
            rows, columns = high // side, wide // side
            block = [min(self.blocks, count) for count in (rows, columns)]
            width += (rows - block[0] + 1) * (columns - block[1] + 1) * block[0] * block[1] * own * self.orientations
        out = np.empty((len(images), width), np.float32)
        write_histograms(images, np.array(plan, np.int64), self.orientations, self.blocks, float(self.floor), out)
        return np.sqrt(out, out) if self.root else out


@compiled
def write_histograms(images: Any, plan: Any, orientations: int, blocks: int, least: float, out: Any) -> None:
    """Write the normalised histograms of images, one image a row, for each (side of cells, turns) of a plan."""
    high, wide = images.shape[2:]
    strength, angle = np.empty((high, wide)), np.empty((high, wide))
    for each in range(len(images)):
        write_gradients(images[each], strength, angle)
        at = 0
        for row in range(len(plan)):
            side, bins = plan[row, 0], plan[row, 1] * orientations
            cells = np.zeros((high // side, wide // side, bins))
            add_histogram(strength, angle, side, plan[row, 1], cells)
            at = write_blocks(cells, min(blocks, cells.shape[0]), min(blocks, cells.shape[1]), least, out[each], at)


@compiled
def write_gradients(image: Any, strength: Any, angle: Any) -> None:
    """Write how strongly an image (channels, height, width) changes at each pixel, and in which half turns from 0."""
    channels, high, wide = image.shape
    for i in range(high):
        for j in range(wide):
            strength[i, j], angle[i, j] = 0.0, 0.0
            for channel in range(channels):
                x = float(image[channel, i, min(j + 1, wide - 1)]) - float(image[channel, i, max(j - 1, 0)])
                y = float(image[channel, min(i + 1, high - 1), j]) - float(image[channel, max(i - 1, 0), j])
                length = sqrt(x * x + y * y)
                if length > strength[i, j]:
                    strength[i, j], angle[i, j] = length, atan2(y, x) / pi


@compiled
def add_histogram(strength: Any, angle: Any, side: int, turns: int, cells: Any) -> None:
    """Add each pixel's strength to the two nearest directions of the four nearest cells, each by its nearness."""
    rows, columns, bins = cells.shape
    top, left = (strength.shape[0] - rows * side) // 2, (strength.shape[1] - columns * side) // 2
    for i in range(rows * side):
        for j in range(columns * side):
            if strength[top + i, left + j] == 0:
                continue
            turned = angle[top + i, left + j] / turns
            turned = (turned - floor(turned)) * bins
            first = int(turned)
            part = turned - first
            share = strength[top + i, left + j] / (side * side)
            row, column = (i + 0.5) / side - 0.5, (j + 0.5) / side - 0.5
            add_shares(row, column, first % bins, share * (1 - part), cells)
            add_shares(row, column, (first + 1) % bins, share * part, cells)


@compiled
def add_shares(row: float, column: float, bin: int, strength: float, cells: Any) -> None:
    """Add a strength to one direction of the four cells whose centres are nearest, by nearness; none is outside."""
    for near in range(floor(row), floor(row) + 2):
        for beside in range(floor(column), floor(column) + 2):
            if 0 <= near < cells.shape[0] and 0 <= beside < cells.shape[1]:
                cells[near, beside, bin] += strength * (1 - abs(row - near)) * (1 - abs(column - beside))


@compiled
def write_blocks(cells: Any, high: int, wide: int, least: float, out: Any, at: int) -> int:
    """Write every block of `high` × `wide` cells, brought to a norm, from place `at` of a row on; the place after."""
    for i in range(cells.shape[0] - high + 1):
        for j in range(cells.shape[1] - wide + 1):
            block = cells[i : i + high, j : j + wide]
            total = least * least + np.sum(block**2)
            scale = 1 / sqrt(total) if total > 0 else 0.0
            for p in range(high):
                for q in range(wide):
                    for bin in range(cells.shape[2]):
                        out[at] = block[p, q, bin] * scale
                        at += 1
    return at
