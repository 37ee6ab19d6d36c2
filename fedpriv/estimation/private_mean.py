"""A rule that hides every client from whoever sees the model: a private mean, its noise added by a trusted server."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.aggregation.rows import Aid
from fedpriv.bounds import Norm
from fedpriv.bounds.vectors import OUTWARD
from fedpriv.errors import FedprivError, positive, real
from fedpriv.estimation._estimate import Estimator
from fedpriv.estimation._noisy_means import DpMean
from fedpriv.estimation._settings import OUTVOTED, Delta, Epsilon
from fedpriv.estimation.curators import Around, filled_settings
from fedpriv.estimation.prime import Prime
from fedpriv.mechanisms import Gaussian
from fedpriv.releases import Released
from fedpriv.settings import check_fields
from fedpriv.trust import Central

Method = Literal["dp-mean", "prime"]
MANY = 10**12  # records: a plan's μ are those of any number of records, and of any number of coordinates


@dataclass(frozen=True, kw_only=True)
class PrivateMean:
    """The mean of the rows by a private estimator, `epsilon` and `delta` a round: for trust 'central' alone.

    The records are the clients' updates, held to the norm `bound`; a neighbour has all of one client's data replaced.
    All noise is Gaussian, so a round is one release, μ-GDP, and the rounds are composed as such. A round in which the
    estimator fails counts as one: what it tried was seen.
    """

    epsilon: Epsilon
    delta: Delta
    method: Annotated[Method, "the estimator: without robustness, or PRIME"] = "dp-mean"
    bound: Annotated[float | None, positive, "the norm that updates are clipped to, which a study fills in"] = None
    corruption: Annotated[float | None, real, OUTVOTED, "α, of prime: the share of updates that may be anything"] = None
    scale: Annotated[
        float | None, positive, "of prime: the standard deviation of honest updates in every direction"
    ] = None

    needs_rows: ClassVar[bool] = True
    least: ClassVar[int] = 1
    composes: ClassVar[bool] = True
    charges_all: ClassVar[bool] = False  # who is asked is public, and the mean is of them
    first_settings: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        """Refuse settings that cannot be, and once the bound is there, another method's."""
        check_fields(self)
        if self.bound is not None:
            self._checked_estimator()

    @staticmethod
    def settled(settings: dict[str, Any], around: Around) -> dict[str, Any]:
        """A study's settings of the rule, with the norm that its clients hold updates to."""
        if around.adjacency == "add-remove":
            raise FedprivError(
                "adjacency 'add-remove' is not that of a PrivateMean, which divides by the number asked, for who sends "
                "none is seen to be absent: 'replace', or none given"
            )
        return filled_settings(settings, {"bound": ("the mechanism's clip", around.clip)})

    def calibrated(self, dimension: int, rounds: int, epsilon: float | None, delta: float) -> PrivateMean:
        """The rule as it is: its own ε and δ say how much noise a round has, whatever a study's target is."""
        return self

    @property
    def estimator(self) -> Estimator:
        """The estimator (DP Mean or PRIME) that a round's rule takes means of the clients' updates by."""
        return self._checked_estimator()

    def _checked_estimator(self) -> Estimator:
        """The rule's estimator; refused where a setting is missing or is another method's."""
        if self.bound is None:
            raise FedprivError("PrivateMean needs bound: the norm that updates are clipped to")
        own: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "bound": self.bound}
        if self.method == "prime":
            if self.corruption is None or self.scale is None:
                raise FedprivError("PrivateMean with method = 'prime' needs corruption and scale")
            return Prime(**own, corruption=self.corruption, scale=self.scale)
        if self.corruption is not None or self.scale is not None:
            raise FedprivError("PrivateMean: corruption and scale are of method = 'prime'")
        return DpMean(**own)

    @property
    def mechanism(self) -> Gaussian:
        """One round of the rule as one Gaussian release, as the ledger charges it: the μ of all its accesses.

        That is G_μ with μ² = Σ μᵢ², as Gaussian curves compose.

        >>> found = PrivateMean(epsilon=1, delta=1e-5, bound=2.0).mechanism
        >>> round(found.tradeoff("replace").epsilon(1e-5), 2)
        1.0
        """
        squares = 0.0
        for own in self.estimator.events(MANY, 1):
            if not isinstance(own.mechanism, Gaussian):
                raise FedprivError(f"PrivateMean: {type(own.mechanism).__name__} is no Gaussian noise")
            squares += own.rounds * (2 * own.mechanism.clip / own.mechanism.noise) ** 2
        assert self.bound is not None  # or there were no estimator
        return Gaussian(clip=self.bound, noise=2 * self.bound / (sqrt(squares) * OUTWARD))

    def event(self, dimension: int, rounds: int) -> Event:
        """What `rounds` of the rule's means give away of a client whose data are replaced, as the ledger has it."""
        own = self.mechanism
        return Event(
            mechanism=own, bound=Norm(own.clip), dimension=dimension, trust=Central(), unit="client",
            adjacency="replace", rounds=rounds,
        )  # fmt: skip

    def check(self, clients: int, dimension: int) -> None:
        """Refuse a study whose rounds have too few clients for the rule's ε and δ."""
        self.estimator.events(clients, dimension)

    def released(self, matrix: Vector, aid: Aid) -> Released:
        """A round's direction: the private mean of clients' updates, a row each, held to the bound."""
        rng = aid.draws_for("PrivateMean")
        found = self.estimator.estimate(np.asarray(matrix, np.float64), rng)
        if found.mean is None:
            raise FedprivError(f"PrivateMean: {found.failure}")
        return Released(np.asarray(found.mean))

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The server's direction: the private mean of clients' updates."""
        return self.released(matrix, aid or Aid()).total
