"""Feature maps and networks of somebody's own, as studies of the tests name them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import Tensor, nn


class Halves:
    """The mean of the upper and of the lower half of each image."""

    def __call__(self, records):
        return records.reshape(len(records), 2, -1).mean(axis=2)


class Weighted:
    """Pixels times numbers of a file."""

    def __init__(self, path, times=1.0):
        self.files = [Path(path)]
        self.times = times

    def __call__(self, records):
        return records.reshape(len(records), -1) * np.loadtxt(self.files[0]) * self.times


class Centred:
    """Looks at the records it is applied to: their mean."""

    def __call__(self, records):
        flat = records.reshape(len(records), -1)
        return flat - flat.mean(axis=0)


class Counting:
    """Keeps what it has seen: other features at every call."""

    def __init__(self):
        self.seen = 0

    def __call__(self, records):
        self.seen += 1
        return np.full((len(records), 3), float(self.seen)) + records.reshape(len(records), -1)[:, :3]


class Gaps:
    """A number that is none, of dark images."""

    def __call__(self, records):
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.log(records.reshape(len(records), -1) - 0.5)


class Failing:
    """Raises."""

    def __call__(self, records):
        raise KeyError("pixel")


class Short:
    """A row too few."""

    def __call__(self, records):
        return records.reshape(len(records), -1)[1:]


class Uneven:
    """As many features as records."""

    def __call__(self, records):
        return np.ones((len(records), len(records)))


class Small(nn.Module):
    """Two layers for 8 × 8 digits."""

    def __init__(self, units: int = 12) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, units), nn.ReLU())
        self.last = nn.Linear(units, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x))
