"""Gaussian noise that a run's rounds share: a banded matrix factorisation, costed as one release of all its rounds.

What is released is x_t + (C⁻¹Z)_t, which is a function of CX + Z: C is lower triangular, so x may depend on what came
before (Denisov et al. 2022; Choquette-Choo et al. 2023; proof: docs/proofs/correlated.md). It is costed as mechanisms
are, and not sent as they are: a curator draws it (`fedpriv.estimation.dp_ftrl`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import sqrt
from typing import Annotated, ClassVar

from fedpriv.bounds import vectors
from fedpriv.bounds.vectors import OUTWARD
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, at_most, finite_inputs, positive, whole
from fedpriv.mechanisms.additive import Gaussian
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency, Central, Trust, Unit

PLACES = 10  # binary places of the factors: exact up to seven bands
MOST = 10**6  # rounds
MOST_BANDS = 4096


@lru_cache
def band_numerators(bands: int) -> tuple[int, ...]:
    """The first bands of C, of whom a curator mixes rounds' noise, as whole numbers of 2^−PLACES: C = A^½, rounded.

    A has ones on and below its diagonal: it adds rounds up. Its root has binom(2j, j)/4^j on the j-th band.

    >>> [m / 2**PLACES for m in band_numerators(4)]
    [1.0, 0.5, 0.375, 0.3125]
    """
    middle = accumulate(range(1, bands), lambda before, j: before * (4 * j - 2) // j, initial=1)  # binom(2j, j)
    return tuple((own << PLACES) >> 2 * j for j, own in enumerate(middle))


@dataclass(frozen=True, kw_only=True)
class BandedGaussian:
    """Sums of a run's rounds under the noise C⁻¹Z: what later rounds draw takes part of the earlier noise back.

    C is the first `bands` of A^½ (A adds rounds up). Who takes part does so at least `apart` ≥ `bands` rounds apart:
    then no two of its columns of C meet, and it moves CX by √(Σ‖C e_i‖²) over its rounds i, whatever it adds. Z has
    `noise` times the most that this can be in all `planned` rounds. An event's `rounds` are the first of one run.
    """

    clip: Annotated[float, positive, "c, the ℓ2 norm of what one unit adds to one round"]
    noise: Annotated[float, positive, "σ, of Z, in the data's units: times what one unit's rounds move CX by at c = 1"]
    bands: Annotated[int, whole, "b̂, the bands of C: 1 for independent noise; at most apart"]
    apart: Annotated[int, whole, "b, how far apart the rounds of one unit are at least"]
    planned: Annotated[int, whole, "T, the rounds of the whole run"]

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "noise": -1}
    alphabet: ClassVar = None
    bits: ClassVar = 32.0
    entropy: ClassVar = 24.0

    def __post_init__(self) -> None:
        """Refuse bands of which two that a unit takes part in would meet, or more of them than rounds."""
        check_fields(self)
        at_most("10^6", MOST, planned=self.planned)
        at_most("the most", MOST_BANDS, bands=self.bands)
        for name, most in (("apart", self.apart), ("planned", self.planned)):
            if self.bands > most:
                raise FedprivError(f"bands must be at most {name} = {most}, got {self.bands}")

    @property
    def peak(self) -> float:
        """The largest |coordinate| of what one unit adds to a round: the clip itself, whatever an accountant asks."""
        return self.clip

    def moved(self, rounds: int) -> Fraction:
        """The square of what one unit of norm 1 moves CX by at most in a run's first rounds, for its ε: exact.

        ‖C e_i‖ of the first rounds is the smaller the later i is, so of all rounds that are `apart` the earliest move
        CX most.

        >>> banded = BandedGaussian(clip=1, noise=1, bands=4, apart=4, planned=16)
        >>> round(float(banded.moved(16)) ** 0.5, 9)
        2.439902662
        """
        squares = [m * m for m in band_numerators(self.bands)]
        whole_columns, left = divmod(rounds, self.apart)  # the last has but so many rounds
        return Fraction(whole_columns * sum(squares) + sum(squares[:left]), 4**PLACES)

    @property
    def spread(self) -> float:
        """The standard deviation of each number of Z that a curator draws, never less than is charged for."""
        return self.noise * sqrt(self.moved(self.planned)) * OUTWARD

    def after(self, rounds: int) -> Gaussian:
        """The one Gaussian release that the first rounds of a run are, for the accountant; all of them have `noise`."""
        share = self.moved(self.planned) / self.moved(rounds)
        return Gaussian(clip=self.clip, noise=self.noise * (sqrt(share) / OUTWARD if share > 1 else 1.0))

    def check_event(self, unit: Unit, trust: Trust, sampling: float, rounds: int) -> None:
        """Refuse an event of a run's shared noise that has more rounds than planned, samples, or is no curator's."""
        at_most("planned", self.planned, rounds=rounds)
        if sampling < 1 or not isinstance(trust, Central):
            raise FedprivError(
                "BandedGaussian is a curator's noise on sums of units that take part at set rounds: trust "
                "'central', and no sampling"
            )

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve of a whole run between a unit that adds x in each of its rounds and one that adds y."""
        finite_inputs(x, y)
        return self.after(self.planned).between(x, y)

    def tradeoff(self, adjacency: Adjacency = "add-remove") -> Tradeoff:
        """The curve that certifies a whole run, G_μ: μ = c/σ if a unit adds nothing in its place, 2c/σ if another.

        >>> round(BandedGaussian(clip=1, noise=1, bands=4, apart=4, planned=16).tradeoff().epsilon(1e-5), 6)
        4.377178
        """
        return self.after(self.planned).tradeoff(adjacency)

    def vector(self, dimension: int, adjacency: Adjacency = "add-remove") -> vectors.AdditiveNoise:
        """The bound that certifies a whole run of vectors, whatever their dimension."""
        return self.after(self.planned).vector(dimension, adjacency)
