"""A clip norm that follows the gradients' lengths: a quantile of them, tracked by a noisy count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, hypot, sqrt
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator

from fedpriv.errors import FedprivError, limited, positive, probability, real
from fedpriv.mechanisms import Gaussian
from fedpriv.randomness.grid import FineGrid
from fedpriv.releases._batch import Batch, Blocks, Released
from fedpriv.releases._settings import How, Sampling, Scale, check_size
from fedpriv.settings import check_fields

INWARD = 1 - 2.0**-50
LEAST, MOST = 1e-12, 1e12  # clip norms between which it may wander
FASTEST = 10.0  # rate: a step then multiplies a clip norm by e^100 at most, which is a float


@dataclass(frozen=True, kw_only=True)
class AdaptiveDpSgd:
    """DP-SGD whose clip norm R follows the `quantile` of the lengths. Andrew, Thakkar, McMahan, Ramaswamy 2021.

    R ← R·exp(−rate·(b − quantile)), b = ½ + (Σ(1[‖x‖ ≤ R] − ½) + N(0, σ_b²)) / (batch expected): one record moves the
    sum of the halves by ½. Sum and count see one sample, and both noises are Gaussian: together they are one Gaussian
    mechanism, 1/σ² and 1/(2σ_b)² added up (their Theorem 1). That is what the ledger has.

    What leaves is in units of R: gradients grow shorter as a model learns, and R with them, so that steps along them as
    they are come to nothing. R is public, so either unit says the same.
    """

    clip: Annotated[
        float,
        positive,
        limited(f"must be between {LEAST:g} and {MOST:g}", least=LEAST, most=MOST),
        "R to begin with, the ℓ2 norm that a record's gradient is held to",
    ]
    noise: Scale
    sampling: Sampling
    count_noise: Annotated[float, positive, "σ_b, the noise on the count of short gradients, in records"]
    quantile: Annotated[float, real, probability, "the share of gradients that is to be shorter than R"] = 0.5
    rate: Annotated[float, positive, limited(most=FASTEST), "how fast R follows"] = 0.2
    norm: How = "clip"
    units: Annotated[
        Literal["clip", "gradient"], "what leaves in units of R, or of the gradients, which R shrinks with"
    ] = "clip"

    kind_of_cost: ClassVar = "Gaussian"
    adapts: ClassVar[tuple[str, ...]] = ("clip",)
    orders: ClassVar = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_size(self.clip, self.noise)

    @property
    def unit(self) -> float:
        """What a client divides its private sum by: R, so that a step is as long wherever R has come to; or 1."""
        return self.clip if self.units == "clip" else 1.0

    @property
    def fine(self) -> FineGrid:
        """The grid on which clipped gradients are added up and noised, so that what leaves is exact."""
        return FineGrid.of(self.clip, self.noise * self.clip)

    @property
    def mechanism(self) -> Gaussian:
        """The one Gaussian mechanism that noisy sum and count together cost, at sensitivity 1: the ledger's.

        >>> round(AdaptiveDpSgd(clip=1, noise=1, sampling=1, count_noise=0.5).mechanism.noise, 4)
        0.7071
        """
        return Gaussian(clip=1.0, noise=INWARD / hypot(1 / self.noise, 1 / (2 * self.count_noise)))

    @staticmethod
    def from_cost(settings: Mapping[str, Any], noise: float) -> float:
        """σ of the sum for a calibrated study: sum and count then cost a Gaussian mechanism of that noise."""
        left = noise**-2 - (2 * settings["count_noise"]) ** -2
        if not left > 0:
            raise FedprivError(f"count_noise = {settings['count_noise']} alone costs more than ε allows: more of it")
        return (1 + 2.0**-48) / sqrt(left)

    def check(self, expected: float) -> None:
        """Refuse a study of more records than are added up exactly, at any clip norm: the grid moves with it."""
        self.fine.check(2 * expected / self.sampling, self.clip)

    def released(self, batch: Batch | Blocks, rng: Generator) -> Released:
        """What a client releases of a batch: the noisy sum of finite gradients, and the next step's clip norm."""
        total = self.fine.noisy(batch.summed(batch.usable, self), self.noise * self.clip, 2, rng)
        within, halves = batch.lengths[batch.usable] <= self.clip, FineGrid.of(0.5, self.count_noise)
        count = float(halves.noisy(np.asarray(halves.whole(within - 0.5).sum()), self.count_noise, 2, rng))
        share = 0.5 + count / batch.expected
        moved = self.clip * exp(-self.rate * min(max(share - self.quantile, -10.0), 10.0))
        return Released(total, (min(max(moved, LEAST), MOST),))
