"""Every mechanism by its kind: the class name is the name in studies, on the command line, in tests and in docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import Any, ClassVar, Protocol

from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedpriv.arrays import Vector
from fedpriv.errors import FedprivError, nearest
from fedpriv.kinds import built
from fedpriv.mechanisms.additive import Gaussian, Laplace
from fedpriv.mechanisms.exponential import Exponential
from fedpriv.mechanisms.grid import BinomialNoise, DiscreteGaussian, Skellam
from fedpriv.mechanisms.histogram import Histogram
from fedpriv.mechanisms.ptr import Ptr
from fedpriv.mechanisms.ternary import Ternarize, Ternary
from fedpriv.mechanisms.votes import Binomial, Cldp, NoisySign, StochasticSign
from fedpriv.tradeoff import Tradeoff
from fedpriv.trust import Adjacency
from fedpriv.vectors import VectorBound

__all__ = [
    "KINDS", "RELEASES", "Binomial", "BinomialNoise", "Cldp", "DiscreteGaussian", "Exponential", "Gaussian",
    "Histogram", "Laplace", "Mechanism", "NoisySign", "Ptr", "Skellam", "StochasticSign", "Ternarize", "Ternary",
    "make", "make_release", "settings_of",
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


KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        BinomialNoise, Binomial, StochasticSign, Cldp, NoisySign, Ternary, Ternarize,
        DiscreteGaussian, Skellam, Gaussian, Laplace,
    )
}  # fmt: skip
# Of whole batches of records: costed, never sent as they are.
RELEASES: dict[str, type[Any]] = {"Ptr": Ptr, "Histogram": Histogram, "Exponential": Exponential}


def make(kind: str, settings: Mapping[str, Any]) -> Mechanism:
    """The mechanism of that kind with those settings, or one line that says which setting is wrong.

    >>> make("Ternary", {"clip": 0.1, "spred": 0.25, "scale": 0.5})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: Ternary has no setting 'spred' (did you mean 'spread'?); settings: clip, spread, ...
    """
    cls = kind_of(kind)
    if kind in RELEASES:
        raise FedprivError(f"{kind} is a release of whole batches, no message: mechanisms: {', '.join(KINDS)}")
    mechanism: Mechanism = built(kind, cls, settings)
    return mechanism


def make_release(kind: str, settings: Mapping[str, Any]) -> Mechanism | Ptr | Histogram | Exponential:
    """The same of all that can be costed, releases of whole batches among them."""
    mechanism: Mechanism | Ptr | Histogram | Exponential = built(kind, kind_of(kind), settings)
    return mechanism


def kind_of(kind: str) -> type[Any]:
    """The class of that name, or an error with the nearest one."""
    known = KINDS | RELEASES
    if not isinstance(kind, str) or kind not in known:
        raise FedprivError(f"unknown mechanism {kind!r}{nearest(str(kind), known)}; mechanisms: {', '.join(known)}")
    return known[kind]


def settings_of(mechanism: Mechanism | Ptr | Histogram | Exponential) -> dict[str, Any]:
    """The settings as they would be written in a study."""
    return asdict(mechanism)  # type: ignore[arg-type]
