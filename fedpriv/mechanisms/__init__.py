"""Every mechanism by its kind: the class name is the name in studies, on the command line, in tests and in docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import Any, ClassVar, Protocol

from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedpriv._base.arrays import Vector
from fedpriv.bounds.vectors import VectorBound
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms._discrete import BinomialNoise, DiscreteGaussian
from fedpriv.mechanisms._exponential import Exponential
from fedpriv.mechanisms._histogram import Histogram
from fedpriv.mechanisms._laplace import DiscreteLaplace
from fedpriv.mechanisms._skellam import Skellam
from fedpriv.mechanisms.additive import Gaussian, Laplace
from fedpriv.mechanisms.cldp import Cldp
from fedpriv.mechanisms.ptr import Ptr
from fedpriv.mechanisms.response import RandomisedResponse, Sign
from fedpriv.mechanisms.shaped import ShapedBinomial
from fedpriv.mechanisms.table import Table
from fedpriv.mechanisms.ternary import Ternarize, Ternary
from fedpriv.mechanisms.votes import Binomial, NoisySign, StochasticSign
from fedpriv.registry import Registry
from fedpriv.trust import Adjacency

__all__ = [
    "COSTED",
    "MECHANISMS",
    "Binomial",
    "BinomialNoise",
    "Cldp",
    "Costed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "Histogram",
    "Laplace",
    "Mechanism",
    "NoisySign",
    "Ptr",
    "RandomisedResponse",
    "ShapedBinomial",
    "Sign",
    "Skellam",
    "StochasticSign",
    "Table",
    "Ternarize",
    "Ternary",
    "settings_of",
]  # fmt: skip


class Mechanism(Protocol):
    """What every mechanism can do. `effects` says which way a setting moves ε: +1 up, −1 down."""

    effects: ClassVar[Mapping[str, int]]

    @property
    def clip(self) -> float:
        """The ℓ2 norm, or the largest coordinate, of an input."""

    @property
    def peak(self) -> float:
        """The largest coordinate of an input."""

    @property
    def alphabet(self) -> range | None:
        """What one coordinate may send; None where that has no end."""

    @property
    def centre(self) -> Fraction:
        """The mean symbol of an input of 0: past it, a sum of messages leans to plus."""

    @property
    def entropy(self) -> float:
        """Bits of information in one coordinate."""

    @property
    def bits(self) -> float:
        """Bits one coordinate takes on the wire."""

    def vector(self, dimension: int, adjacency: Adjacency) -> VectorBound | None:
        """What bounds whole vectors, if anything does."""

    def encode(self, x: ArrayLike, rng: Generator) -> NDArray[Any]:
        """The message for x."""

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The mean of n inputs from the sum of their messages."""

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve that separates two inputs of one coordinate."""

    def tradeoff(self, adjacency: Adjacency) -> Tradeoff:
        """The curve of the worst pair of inputs of one coordinate."""


MECHANISMS = Registry(
    "mechanism",
    Mechanism,
    (
        BinomialNoise, Binomial, StochasticSign, Cldp, NoisySign, Ternary, Ternarize,
        DiscreteGaussian, Skellam, DiscreteLaplace, Gaussian, Laplace,
        Table, RandomisedResponse, ShapedBinomial, Sign,
    ),
)  # fmt: skip
Costed = Mechanism | Ptr | Histogram | Exponential
# With releases of whole batches of records, which are costed and never sent as they are.
COSTED: Registry[Costed] = Registry("mechanism", Mechanism, (*MECHANISMS.values(), Ptr, Histogram, Exponential))


def settings_of(mechanism: Costed) -> dict[str, Any]:
    """The settings as they would be written in a study."""
    return asdict(mechanism)  # type: ignore[arg-type]
