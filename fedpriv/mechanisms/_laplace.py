"""Discrete Laplace noise on a grid, also called two-sided geometric: see `fedpriv.mechanisms._grid`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, exp, expm1, log, log2
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.curves.atoms import ROUNDING, Atoms
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, finite_inputs, positive
from fedpriv.mechanisms._grid import Grid, Levels, information, not_too_narrow, not_too_wide
from fedpriv.randomness import exact as sampling_exact
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency

WIDEST = 6000.0  # steps of the grid: past it no table of the noise is drawn from
FAR = 690  # scales, past which masses are below 1e−300


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    """A grid value plus discrete Laplace noise, P(v) ∝ e^{−|v|/b}: a pure ε of l/b. Ghosh et al. 2009."""

    clip: Annotated[float, positive, "c, the largest |coordinate|"]
    levels: Levels
    noise: Annotated[float, positive, "the noise's scale, in the data's units: b = noise/g steps of the grid"]

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "noise": -1}
    alphabet: ClassVar = None

    def __post_init__(self) -> None:
        check_fields(self)
        not_too_narrow(self.scale)

    @property
    def peak(self) -> float:
        """The largest coordinate."""
        return self.clip

    @property
    def grid(self) -> Grid:
        """Where values are rounded to."""
        return Grid(self.clip, self.levels)

    @property
    def centre(self) -> Fraction:
        """The middle of the grid."""
        return self.grid.centre

    @property
    def scale(self) -> float:
        """b in grid steps."""
        return self.noise / self.grid.step

    @property
    def law(self) -> tuple[NDArray[np.int64], Vector]:
        """The noise's values and their log masses, cut where nothing is ever drawn."""
        reach = ceil(FAR * self.scale) + 2
        not_too_wide(reach)
        k = np.arange(-reach, reach + 1)
        return k, log(-expm1(-1 / self.scale) / (1 + exp(-1 / self.scale))) - np.abs(k) / self.scale

    @cached_property
    def entropy(self) -> float:
        """Bits of information in one coordinate's noise."""
        return information(self.law[1])

    @property
    def bits(self) -> float:
        """Bits one coordinate takes on the wire, all but 2⁻⁴⁰ of the time."""
        return float(ceil(log2(self.levels + 56 * self.scale + 3)))

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """Grid value plus noise."""
        if not self.scale <= WIDEST:
            raise FedprivError(f"noise of {self.scale:.3g} grid steps is too wide: at most {WIDEST:g}, or fewer levels")
        index = self.grid.index(x)
        return index + sampling_exact.discrete_laplace(self.scale, index.shape, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The mean of n inputs from the sum of their messages."""
        return self.grid.mean(total, n)

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve that separates two inputs of one coordinate: what lies beyond either of them is one outcome.

        With the inputs n steps apart and a = e^{−1/b}: up to the lower one P has 1/(1 + a) and Q that times aⁿ, the j
        steps between follow, and beyond the upper one it is the other way round. The loss is (2j − n)/b, no more.
        """
        finite_inputs(x, y)
        first, last = self.grid.index([x, y])
        apart = abs(int(last - first))
        j = np.arange(apart + 1)
        end, inside = -np.log1p(np.exp(-1 / self.scale)), np.log(-expm1(-1 / self.scale))
        log_p = end - j / self.scale + np.where((j > 0) & (j < apart), inside, 0.0)
        loss = (2.0 * j - apart) / self.scale
        if not apart:
            return Tradeoff.between([1.0], [1.0])
        return Tradeoff(Atoms.sorted(log_p, log_p[::-1], loss, 64 * ROUNDING, balanced=True))

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate: noise against noise moved by l, its own mirror image.

        >>> f = DiscreteLaplace(clip=0.5, levels=1, noise=4).tradeoff()
        >>> round(f.epsilon(0.0), 12), round(f.delta(0.0), 9)
        (0.25, 0.124353002)
        """
        return self.between(-self.clip, self.clip)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """No bound for vectors but that of every coordinate at its largest."""
        return
