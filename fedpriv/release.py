"""What happened: a mechanism applied so often to so many coordinates, and who saw what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from fedpriv.errors import FedprivError, at_most, one_of, positive, probability, whole
from fedpriv.mechanisms import (
    KINDS,
    RELEASES,
    Binomial,
    Cldp,
    Exponential,
    Gaussian,
    Histogram,
    Laplace,
    Mechanism,
    NoisySign,
    Ptr,
    StochasticSign,
    Ternary,
    settings_of,
)
from fedpriv.mechanisms.ptr import check_adjacency
from fedpriv.tradeoff import Adjacency

Geometry = Literal["l2", "linf"]
Unit = Literal["record", "client"]
Trust = Literal["local", "secure-aggregation", "central"]
MOST = 10**18  # rounds, coordinates or clients

Summed = (Binomial, StochasticSign, Cldp, NoisySign, Ternary)


@dataclass(frozen=True, kw_only=True)
class Release:
    """A mechanism applied `rounds` times to `dimension` coordinates, and who sees what.

    `sampling` is the Poisson rate of the unit in each round; `clients` the contributors certain to have drawn noise,
    this one included. What is not given: unit is record where sampled and for propose-test-release, else client;
    adjacency is add-remove for Gaussian and Laplace noise and for propose-test-release, else replace.
    """

    mechanism: Mechanism | Ptr | Histogram | Exponential
    rounds: int = 1
    dimension: int = 1
    geometry: Geometry | None = None
    sampling: float = 1.0
    trust: Trust = "local"
    clients: int | None = None
    unit: Unit = None  # type: ignore[assignment]
    adjacency: Adjacency = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        known = KINDS | RELEASES
        if type(self.mechanism) not in known.values():
            raise FedprivError(f"mechanism must be one of {', '.join(known)}, got {self.mechanism!r}")
        whole(at_least=0, rounds=self.rounds)
        whole(dimension=self.dimension)
        at_most("10^18", MOST, rounds=self.rounds, dimension=self.dimension, clients=self.clients or 1)
        probability(sampling=self.sampling)
        self._fill("unit", "record" if self.sampling < 1 or isinstance(self.mechanism, Ptr) else "client")
        self._fill("adjacency", "add-remove" if isinstance(self.mechanism, Gaussian | Laplace | Ptr) else "replace")
        one_of(get_args(Trust), trust=self.trust)
        one_of(get_args(Unit), unit=self.unit)
        one_of(get_args(Adjacency), adjacency=self.adjacency)
        if isinstance(self.mechanism, Ptr):
            one_of(["record"], unit=self.unit)
            check_adjacency(self.adjacency)
            positive(sampling=self.sampling)
        self._check_geometry()
        self._check_trust()

    def _fill(self, name: str, value: str) -> None:
        if getattr(self, name) is None:
            object.__setattr__(self, name, value)

    def _check_geometry(self) -> None:
        if self.geometry is not None:
            one_of(get_args(Geometry), geometry=self.geometry)
        elif self.dimension > 1:
            raise FedprivError(f"geometry must be given for dimension {self.dimension}: l2 (norm at most clip) or linf")
        if isinstance(self.mechanism, Ptr) and self.geometry == "linf":
            raise FedprivError("Ptr clips records by their ℓ2 norm: geometry must be l2, got linf")

    def _check_trust(self) -> None:
        if self.unit == "client" and self.sampling < 1 and self.trust != "central":
            raise FedprivError(
                f"sampling clients amplifies nothing under {self.trust} trust: the server knows whom it asked"
            )
        if self.trust != "secure-aggregation":
            if self.clients is not None:
                raise FedprivError(f"clients counts only under secure-aggregation trust, not {self.trust}")
            return
        if self.clients is None:
            raise FedprivError("secure-aggregation trust needs clients: how many are certain to have drawn noise")
        whole(clients=self.clients)
        if not (isinstance(self.mechanism, Summed) or hasattr(self.mechanism, "aggregated")):
            kinds = [kind.__name__ for kind in Summed] + ["BinomialNoise", "Skellam", "Gaussian"]
            name = type(self.mechanism).__name__
            raise FedprivError(f"{name} has no certificate under secure aggregation; these have: {', '.join(kinds)}")


def described(release: Release) -> dict[str, Any]:
    """A release as plain data, for ledgers and reports."""
    own = {"kind": type(release.mechanism).__name__, "settings": settings_of(release.mechanism)}
    names = ("unit", "trust", "adjacency", "geometry", "dimension", "rounds", "sampling", "clients")
    return own | {name: getattr(release, name) for name in names}
