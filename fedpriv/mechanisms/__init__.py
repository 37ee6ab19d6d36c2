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
from fedpriv.mechanisms.banded import BandedGaussian
from fedpriv.mechanisms.cldp import Cldp
from fedpriv.mechanisms.general_ptr import GeneralPtr
from fedpriv.mechanisms.hidden import HiddenState
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
    "BandedGaussian",
    "Binomial",
    "BinomialNoise",
    "Cldp",
    "Costed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "GeneralPtr",
    "HiddenState",
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
        """The ℓ2 norm, or the largest coordinate, that a client's update may have before it is encoded."""

    @property
    def peak(self) -> float:
        """The largest |coordinate| that a client's update may have: encoding holds others to it."""

    @property
    def alphabet(self) -> range | None:
        """The symbols that one coordinate of a client's message may be; None where there is no end of them."""

    @property
    def centre(self) -> Fraction:
        """The mean symbol of an update of 0: where a sum of messages lies past it, a majority vote says plus."""

    @property
    def entropy(self) -> float:
        """Bits of information in one coordinate of a client's message, told beside the bits that it takes."""

    @property
    def bits(self) -> float:
        """Bits that one coordinate of a client's message takes on the wire."""

    def vector(self, dimension: int, adjacency: Adjacency) -> VectorBound | None:
        """What proves the ε of whole ℓ2-clipped vectors of that dimension, if anything does; else None."""

    def encode(self, x: ArrayLike, rng: Generator) -> NDArray[Any]:
        """A client's message for its bounded update x: random symbols or noisy reals, one a coordinate."""

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's mean of n clients' updates, from the sum of their messages."""

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between the messages for x and for y, one coordinate: of witnesses and audits."""

    def tradeoff(self, adjacency: Adjacency) -> Tradeoff:
        """The tradeoff curve of the worst two inputs of one coordinate: the accountant certifies ε by it."""


MECHANISMS = Registry(
    "mechanism",
    Mechanism,
    (
        BinomialNoise, Binomial, StochasticSign, Cldp, NoisySign, Ternary, Ternarize,
        DiscreteGaussian, Skellam, DiscreteLaplace, Gaussian, Laplace,
        Table, RandomisedResponse, ShapedBinomial, Sign,
    ),
)  # fmt: skip
Costed = Mechanism | Ptr | Histogram | Exponential | GeneralPtr | BandedGaussian | HiddenState
# With releases of whole batches of records, which are costed and never sent as they are.
COSTED: Registry[Costed] = Registry(
    "mechanism", Mechanism, (*MECHANISMS.values(), Ptr, Histogram, Exponential, GeneralPtr, BandedGaussian, HiddenState)
)


def settings_of(mechanism: Costed) -> dict[str, Any]:
    """A mechanism's settings by name, as a study or a ledger line writes them; those that are not given left out."""
    found = asdict(mechanism)  # type: ignore[arg-type]
    return {name: value for name, value in found.items() if value is not None}
