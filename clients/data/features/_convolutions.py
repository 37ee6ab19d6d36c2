"""Random convolutional features: what patches of an image have in common with filters that are drawn, not learned.

Coates, Lee and Ng, An analysis of single-layer networks in unsupervised feature learning (AISTATS 2011), with filters
from a public seed in the place of learned ones, so that no data have a part in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from clients.data.features._images import images_of
from fedpriv._base.arrays import Rows
from fedpriv.errors import FedprivError, at_least_zero, natural, positive, real, whole, whole_from
from fedpriv.randomness.streams import stream
from fedpriv.settings import check_fields


@dataclass(frozen=True, kw_only=True)
class RandomConvolutions:
    """Patches at mean 0 and variance 1 against random filters: what is above a threshold, averaged by regions."""

    filters: Annotated[
        int, whole, "filters: each gives two channels, one where a patch is like it, one where opposed"
    ] = 128
    side: Annotated[int, whole_from(2), "pixels a side of a patch"] = 6
    regions: Annotated[int, whole, "regions a side of an image, over each of which a channel is averaged"] = 4
    threshold: Annotated[float, real, at_least_zero, "a of max(0, w·v − a), where w has norm 1 as v has variance 1"] = (
        1.0
    )
    contrast: Annotated[float, real, positive, "e of (v − mean) / √(variance + e²): patches that are flatter fade"] = (
        0.1
    )
    seed: Annotated[int, natural, "what the filters are drawn from: public"] = 0

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, records: Rows) -> Rows:
        """The random features of a study's images, a row each: each channel's region after region.

        >>> RandomConvolutions(filters=3, regions=2)(np.zeros((5, 8, 8), np.float32)).shape
        (5, 24)
        """
        images = images_of(records, "RandomConvolutions")
        high, wide = (size - self.side + 1 for size in images.shape[2:])
        if min(high, wide) < self.regions:
            raise FedprivError(
                f"side = {self.side} and regions = {self.regions}: images of {images.shape[2]} × {images.shape[3]} "
                f"have {high} × {wide} patches"
            )
        drawn = drawn_filters(self.filters, images.shape[1] * self.side**2, self.seed)
        rows, columns = (np.arange(self.regions + 1) * size // self.regions for size in (high, wide))
        sizes = np.outer(np.diff(rows), np.diff(columns))[..., None]
        found = []
        for image in images:  # one by one: its products are then its own, to the last bit
            likeness = (self._patches(image) @ drawn).reshape(high, wide, -1)
            both = np.maximum(np.concatenate([likeness, -likeness], axis=2) - np.float32(self.threshold), 0)
            sums = np.add.reduceat(np.add.reduceat(both, rows[:-1], axis=0), columns[:-1], axis=1)
            found.append((sums / sizes).transpose(2, 0, 1).reshape(-1))
        return np.asarray(found, np.float32)

    def _patches(self, image: Rows) -> Rows:
        """All patches of one image (channels, height, width), a row each, at mean 0 and variance about 1."""
        patches = sliding_window_view(image, (self.side, self.side), axis=(1, 2)).transpose(1, 2, 0, 3, 4)
        flat = patches.reshape(patches.shape[0] * patches.shape[1], -1)
        flat = flat - flat.mean(axis=1, keepdims=True)
        deviation = np.sqrt(np.square(flat).mean(axis=1, keepdims=True) + np.float32(self.contrast**2))
        return np.asarray(flat / deviation)


@lru_cache(maxsize=4)
def drawn_filters(count: int, size: int, seed: int) -> Rows:
    """The random filters, a column each, of mean 0 and norm 1, as every process draws them from that seed."""
    drawn = stream(seed, "random features").standard_normal((size, count))
    drawn -= drawn.mean(axis=0)
    return np.asarray(drawn / np.sqrt(np.square(drawn).sum(axis=0)), np.float32)
