"""DP-FedAvg: a trusted server adds Gaussian noise to the clipped sum of the updates of Poisson-sampled clients.

McMahan, Ramage, Talwar, Zhang 2018; with a clip norm that follows a quantile of the updates' lengths: Andrew, Thakkar,
McMahan, Ramaswamy 2021. A round is DP-SGD's step with clients in the place of records: the same sum, on the same grid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.accounting.calibration import calibrate
from fedpriv.accounting.event import Event
from fedpriv.aggregation.rows import Aid
from fedpriv.errors import FedprivError, limited, positive, probability, real
from fedpriv.estimation.curators import Around, Bound, Count, Differing, Multiplier, filled_settings
from fedpriv.mechanisms import Gaussian
from fedpriv.population.participation import All, Poisson
from fedpriv.releases import AdaptiveDpSgd, Batch, DpSgd, Released, event_of_sum, release_at
from fedpriv.settings import check_fields
from fedpriv.trust import Central


@dataclass(frozen=True, kw_only=True)
class DpFedAvg:
    """(Σ clipped updates + σ·bound·N(0, I)) / qN₀: for trust 'central', with participation All or Poisson.

    Neither the number of clients drawn nor who they are is used but for the sum, so a round is charged to every client.
    With `count_noise` the clip norm follows a quantile of the updates' lengths, by a noisy count of the short ones;
    sum and count are then one Gaussian release, of noise (σ⁻² + (2σ_b)⁻²)^(−½).
    """

    noise: Multiplier = None
    count_noise: Annotated[
        float | None, positive, "σ_b, the noise on the count of short updates, in clients; none: the clip norm stays"
    ] = None
    quantile: Annotated[float, real, probability, "the share of updates that is to be shorter than the clip norm"] = 0.5
    rate: Annotated[float, positive, limited(most=10.0), "how fast the clip norm follows the quantile"] = 0.2
    bound: Bound = None
    sampling: Annotated[
        float | None, probability, positive, "q, the chance of a client to be asked, which a study fills in"
    ] = None
    clients: Count = None
    adjacency: Differing = "add-remove"

    needs_rows: ClassVar[bool] = True
    least: ClassVar[int] = 0
    composes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings that no round could be made with."""
        check_fields(self)
        if self.noise is not None and None not in (self.bound, self.sampling):
            _ = self.private_sum

    @staticmethod
    def settled(settings: dict[str, Any], around: Around) -> dict[str, Any]:
        """A study's settings of DP-FedAvg, with the clip norm, the sampling and the clients that it has elsewhere."""
        own = around.participation
        if type(own) not in (All, Poisson):  # a class of somebody's own, though it inherits theirs, may ask otherwise
            raise FedprivError(
                f"clients.participation must be All or Poisson with DpFedAvg, got {type(own).__name__}: only coins of "
                "their own hide who is asked"
            )
        if "count_noise" in settings and (around.clip is not None or "bound" not in settings):
            raise FedprivError(
                "a clip norm that follows lengths needs them: aggregation.bound, the first one, and no clip in "
                "privacy.mechanism"
            )
        facts = {
            "sampling": ("participation.rate", getattr(own, "rate", 1.0)),
            "clients": ("clients.count", around.clients),
            "adjacency": ("privacy.adjacency", around.adjacency or settings.get("adjacency", "add-remove")),
        }
        bound = {} if "count_noise" in settings else {"bound": ("the mechanism's clip", around.clip)}
        return filled_settings(settings, facts | bound)

    @property
    def private_sum(self) -> DpSgd | AdaptiveDpSgd:
        """The sum of a round, as clients make one of their records: its clipping, its grid, its noise and its cost."""
        if self.noise is None or self.bound is None or self.sampling is None:
            raise FedprivError("DpFedAvg needs noise, or a privacy.epsilon that it is calibrated to")
        if self.count_noise is None:
            return DpSgd(clip=self.bound, noise=self.noise, sampling=self.sampling)
        return AdaptiveDpSgd(
            clip=self.bound, noise=self.noise, sampling=self.sampling,
            count_noise=self.count_noise, quantile=self.quantile, rate=self.rate,
        )  # fmt: skip

    @property
    def expected(self) -> float:
        """q·N₀, by which a round's sum is divided: public, however many clients were drawn."""
        assert self.sampling is not None  # as a study has filled in
        assert self.clients is not None
        return self.sampling * self.clients

    @property
    def charges_all(self) -> bool:
        """Whether clients are drawn, so that a round is charged to those that were not, too."""
        return self.sampling != 1.0

    @property
    def first_settings(self) -> tuple[float, ...]:
        """The clip norm of the first round, where it adapts."""
        return () if self.count_noise is None or self.bound is None else (self.bound,)

    def calibrated(self, dimension: int, rounds: int, epsilon: float | None, delta: float) -> DpFedAvg:
        """The same with the noise, where it is not given, at which so many rounds cost ε at δ.

        >>> free = DpFedAvg(bound=1.0, sampling=0.05, clients=1000)
        >>> round(free.calibrated(10, 100, epsilon=3.50215, delta=1e-5).noise, 3)
        1.0
        """
        if self.noise is not None or epsilon is None:
            _ = self.private_sum
            return self
        found, _ = calibrate(
            "Gaussian", {"clip": 1.0}, lambda own: self._event_of(own, dimension, rounds), epsilon=epsilon, delta=delta
        )
        noise = float(found.noise)
        if self.count_noise is not None:
            noise = AdaptiveDpSgd.from_cost({"count_noise": self.count_noise}, noise)
        return replace(self, noise=noise)

    def event(self, dimension: int, rounds: int) -> Event:
        """What `rounds` noisy sums give away of one client, drawn or not, as a ledger has it.

        >>> DpFedAvg(noise=1.0, bound=0.5, sampling=0.05, clients=1000).event(10, 100).adjacency
        'add-remove'
        """
        return self._event_of(self.private_sum.mechanism, dimension, rounds)

    def _event_of(self, mechanism: Gaussian, dimension: int, rounds: int) -> Event:
        """The event of so many sums under the noise of a mechanism, at a client's sensitivity of 1."""
        made = event_of_sum(DpSgd(clip=1.0, noise=mechanism.noise, sampling=self.sampling or 1.0), dimension, rounds)
        return replace(made, trust=Central(), unit="client", adjacency=self.adjacency)

    def check(self, clients: int, dimension: int) -> None:
        """Refuse a study of so many clients that no exact sum of their updates is there."""
        self.private_sum.check(self.expected)

    def released(self, matrix: Vector, aid: Aid) -> Released:
        """A round's direction of the updates of those drawn, a row each, and the clip norm of the next round.

        >>> from fedpriv.randomness.streams import stream
        >>> rule = DpFedAvg(noise=1e-9, bound=1.0, sampling=0.5, clients=4)
        >>> rule.released(np.array([[3.0, 4.0], [0.0, 0.5]]), Aid(stream(1, "aggregate", 1))).total.round(4)
        array([0.3 , 0.65])
        """
        own = self.private_sum
        if aid.settings:
            own = release_at(own, aid.settings)  # type: ignore[assignment]
        rows = np.ascontiguousarray(matrix, np.float32)
        batch = Batch.of(own, rows, np.arange(len(rows)), self.expected)
        found = own.released(batch, aid.draws_for("DpFedAvg"))
        return found._replace(total=found.total / self.expected)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The server's direction: the noisy sum of clients' clipped updates, over the number expected."""
        return self.released(matrix, aid or Aid()).total
