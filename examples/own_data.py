"""A data set of one's own: a class whose `load` gives records to train on and records that nobody trains on.

fedpriv run examples/own_data.toml
"""

from __future__ import annotations

import numpy as np

from clients.data.pool import Pool


class Rings:
    """Points of a plane in two rings about the origin, as three features: both coordinates and the squared radius."""

    where = None  # the records come with the class: people need no place to look for them

    def __init__(self, records: int = 1200, held_out: int = 300, width: float = 0.15) -> None:
        self.records, self.held_out = records, held_out
        self.width = width  # how far a point may lie from its ring, as a standard deviation

    def load(self) -> Pool:
        """The records, the same in every process."""
        rng = np.random.default_rng(2026)
        labels = np.arange(self.records + self.held_out) % 2
        radius = 1.0 + labels + rng.normal(0.0, self.width, labels.size)
        angle = rng.uniform(0.0, 2 * np.pi, labels.size)
        x = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), radius**2 / 2 - 1.25]).astype(np.float32)
        cut = self.records
        return Pool(x=x[:cut], y=labels[:cut], x_test=x[cut:], y_test=labels[cut:], classes=2, divide=1.0, subtract=0.0)
