"""Feature maps and networks of somebody's own, as studies of the tests name them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
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


class Running:
    """Takes off the mean of the calls before, from the hundredth record on."""

    def __init__(self):
        self.seen, self.mean = 0, 0.0

    def __call__(self, records):
        flat = records.reshape(len(records), -1)
        out = flat - self.mean
        self.seen += len(records)
        if self.seen > 250:
            self.mean = flat.mean(axis=0)
        return out


class Counted(Weighted):
    """Says 5 in the place of its files."""

    files = 5

    def __init__(self):
        """Nothing is read."""


class Spelled(Counted):
    """Says one path in the place of a list of them."""

    files = "/a/b.npy"


class Meddled(Weighted):
    """Its file is another one when its features are made."""

    def __call__(self, records):
        out = super().__call__(records)
        self.files[0].write_text("7")
        return out


class Early(Small):
    """The body runs for bright images alone."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x)) if x.mean() > 0.5 else x


class Reused(Small):
    """The body writes into one buffer at every call, and what comes behind it writes over that."""

    def __init__(self) -> None:
        super().__init__()
        self.body.register_forward_hook(self.hook)
        self.buffer = torch.zeros(1, 12)

    def hook(self, _: nn.Module, __: object, out: Tensor) -> Tensor:
        return self.buffer.copy_(out)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x).mul_(0.0))


class Remembering(Small):
    """Adds what it gave for the record before."""

    before = 0.0

    def forward(self, x: Tensor) -> Tensor:
        out = self.body(x)
        found, self.before = out + self.before, out
        return found
