"""DP-FTRL by a banded matrix factorisation: a trusted server's noise, of which later rounds take back a part.

Kairouz et al. 2021; Choquette-Choo et al. 2023. Nobody is drawn by chance: clients take part in turns, far enough apart
that no two of one client's rounds share noise. Noise is streamed: of a round's ẑ_t = z_t − Σ c_j ẑ_{t−j} the last few
are kept, and drawn anew from the seed where a run goes on (docs/proofs/correlated.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.accounting.calibration import calibrate
from fedpriv.accounting.event import Event
from fedpriv.aggregation.rows import Aid
from fedpriv.bounds import Norm
from fedpriv.bounds.clipping import clip_factors
from fedpriv.errors import FedprivError, whole
from fedpriv.estimation.curators import Around, Bound, Count, Differing, Multiplier, filled_settings
from fedpriv.mechanisms import BandedGaussian, Gaussian
from fedpriv.mechanisms.banded import MOST_BANDS, PLACES, band_numerators
from fedpriv.population.participation import Cyclic
from fedpriv.randomness.grid import FineGrid
from fedpriv.randomness.streams import stream
from fedpriv.releases import Batch, Released
from fedpriv.settings import check_fields
from fedpriv.trust import Central

_DRAWN = 46  # binary places of noise on the finest grid that it is drawn on
_LOW = 32  # binary places that are multiplied apart from those above, so that no product passes 64


@dataclass(frozen=True, kw_only=True)
class DpFtrl:
    """(Σ clipped updates + (C⁻¹Z)_t) / (clients of a block): for trust 'central', with participation Cyclic.

    C is the first `bands` of the square root of the sums of rounds; all rounds together are one Gaussian release. Z has
    σ·bound times what one client's rounds move CX by at most, so the whole run is 1/σ-GDP if a client is left out,
    2/σ-GDP if it is another (`BandedGaussian`). A run that ends early has given away less.
    """

    noise: Multiplier = None
    bands: Annotated[
        int | None, whole, "b̂, the bands of C, at most 4096; as many as blocks, or rounds, if not given"
    ] = None
    bound: Bound = None
    clients: Count = None
    apart: Annotated[int | None, whole, "b, the rounds from one of a client's to its next, which a study fills in"] = (
        None
    )
    planned: Annotated[int | None, whole, "T, the rounds of the run, which a study fills in"] = None
    adjacency: Differing = "add-remove"

    needs_rows: ClassVar[bool] = True
    least: ClassVar[int] = 0
    composes: ClassVar[bool] = False
    charges_all: ClassVar[bool] = True
    first_settings: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        """Refuse bands that no proof allows, once the run's rounds are there."""
        check_fields(self)
        if None not in (self.bands, self.apart, self.planned):
            _ = self.mechanism

    @staticmethod
    def settled(settings: dict[str, Any], around: Around) -> dict[str, Any]:
        """A study's settings of DP-FTRL, with the clip norm, the turns, the rounds that it has elsewhere."""
        own = around.participation
        if type(own) is not Cyclic:  # one of somebody's own that inherits it may ask otherwise
            raise FedprivError(
                f"clients.participation must be Cyclic with DpFtrl, got {type(own).__name__}: the rounds of one client "
                "must lie apart"
            )
        facts = {
            "bound": ("the mechanism's clip", around.clip),
            "clients": ("clients.count", around.clients),
            "apart": ("participation.blocks", own.blocks),
            "planned": ("run.rounds", around.rounds),
            "adjacency": ("privacy.adjacency", around.adjacency or settings.get("adjacency", "add-remove")),
        }
        return filled_settings({"bands": min(own.blocks, around.rounds, MOST_BANDS)} | settings, facts)

    @property
    def mechanism(self) -> BandedGaussian:
        """The noise of the whole run at a client's sensitivity of 1, as the ledger has it."""
        return BandedGaussian(clip=1.0, noise=1.0 if self.noise is None else self.noise, **self._shape)

    @property
    def _shape(self) -> dict[str, int]:
        """Bands, turns and rounds, as a BandedGaussian has them."""
        assert self.bands is not None  # as a study has filled in
        assert self.apart is not None
        assert self.planned is not None
        return {"bands": self.bands, "apart": self.apart, "planned": self.planned}

    @property
    def expected(self) -> float:
        """The clients of a block, by which a round's sum is divided: public."""
        assert self.clients is not None
        assert self.apart is not None
        return self.clients / self.apart

    @property
    def spread(self) -> float:
        """The standard deviation of each number of Z, in the updates' units."""
        if self.noise is None or self.bound is None:
            raise FedprivError("DpFtrl needs noise, or a privacy.epsilon that it is calibrated to")
        return self.mechanism.spread * self.bound

    @property
    def fine(self) -> FineGrid:
        """The grid of clipped updates; noise lies on one that is finer by `PLACES` binary places, as C·X does."""
        assert self.bound is not None
        assert self.clients is not None
        step = FineGrid.of(self.bound, self.spread, 4 * self.clients).step
        return FineGrid(max(step, 2.0 ** (frexp(self.spread)[1] - _DRAWN + PLACES)))

    def calibrated(self, dimension: int, rounds: int, epsilon: float | None, delta: float) -> DpFtrl:
        """The same with the noise, where it is not given, at which the whole run costs ε at δ.

        >>> free = DpFtrl(bound=1.0, clients=100, bands=4, apart=4, planned=16)
        >>> round(free.calibrated(10, 16, epsilon=4.3772, delta=1e-5).noise, 4)
        1.0
        """
        if self.noise is None and epsilon is not None:
            given: dict[str, Any] = {"clip": 1.0, **self._shape}
            found, _ = calibrate(
                "BandedGaussian",
                given,
                lambda own: self._event_of(own, dimension, rounds),
                epsilon=epsilon,
                delta=delta,
            )
            return replace(self, noise=float(found.noise))
        _ = self.spread
        return self

    def event(self, dimension: int, rounds: int) -> Event:
        """What the run's first `rounds` rounds give away of one client, whenever it takes part, as a ledger has it."""
        return self._event_of(self.mechanism, dimension, rounds)

    def _event_of(self, mechanism: BandedGaussian | Gaussian, dimension: int, rounds: int) -> Event:
        """The event of so many rounds under the noise of a mechanism, at a client's sensitivity of 1."""
        return Event(
            mechanism=mechanism, bound=Norm(1.0), dimension=dimension, trust=Central(), unit="client",
            adjacency=self.adjacency, rounds=rounds,
        )  # fmt: skip

    def check(self, clients: int, dimension: int) -> None:
        """Refuse a study of so many clients that no exact sum of their updates is there."""
        assert self.bound is not None
        self.fine.check(clients, self.bound)

    def released(self, matrix: Vector, aid: Aid) -> Released:
        """A round's direction of the updates of the clients whose turn it is, a row each.

        >>> rule = DpFtrl(noise=1e-9, bound=1.0, clients=4, bands=2, apart=2, planned=4)
        >>> rule.released(np.array([[3.0, 4.0], [0.0, 0.5]]), Aid(seed=1, round=1)).total.round(4)
        array([0.3 , 0.65])
        """
        assert self.bound is not None
        rows, fine = np.ascontiguousarray(matrix, np.float32), self.fine
        factors, total = clip_factors(rows, self.bound, "clip"), np.zeros(rows.shape[1])
        Batch(rows, factors, np.arange(len(rows)), self.expected).add_to(total, np.isfinite(factors), fine)
        noise = correlated_noise(self, aid.seed, aid.round, total.size)
        whole_sum = (total.astype(np.int64) << PLACES) + noise
        return Released(whole_sum * (fine.step / 2**PLACES) / self.expected)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The server's direction: the noisy sum of clients' clipped updates, over the number of a block."""
        return self.released(matrix, aid or Aid()).total


_LAST: dict[tuple[DpFtrl, int, int], tuple[int, NDArray[np.int64]]] = {}  # a run's last round and noises, newest first


def correlated_noise(rule: DpFtrl, seed: int, round: int, dimension: int) -> NDArray[np.int64]:
    """ẑ of a curator's round, in steps of the noise's grid: z less what it takes back of the noises before it.

    What it takes back is rounded to the grid, so that a round's sum plus ẑ is a function of CX + Z all the same. Noises
    before are drawn again where they are not those of the last call: each round has a generator of its own.
    """
    law = FineGrid(rule.fine.step / 2**PLACES).law(rule.spread, 2)
    later = band_numerators(rule.mechanism.bands)[1:]
    at, last = _LAST.get((rule, seed, dimension), (0, np.zeros((0, dimension), np.int64)))
    if at > round:
        at, last = 0, last[:0]
    for now in range(at + 1, round + 1):
        drawn = law.draw(dimension, stream(seed, "aggregate", now))
        last = np.vstack([drawn - taken_back(last, later), last])[: max(len(later), 1)]
    _LAST.clear()
    _LAST[rule, seed, dimension] = round, last
    return np.asarray(last[0])


def taken_back(last: NDArray[np.int64], later: tuple[int, ...]) -> NDArray[np.int64]:
    """Σ c_j ẑ_{t−j}, rounded to the noise's grid, of a curator's last noises, the newest first: exact in 64 bits.

    >>> taken_back(np.array([[4, -4], [1, 1]]), (512, 384))  # ½·4 + ⅜·1 and ½·(−4) + ⅜·1
    array([ 2, -2])
    """
    factors = np.array(later[: len(last)], np.int64)[:, None]
    high, low = last[: len(factors)] >> _LOW, last[: len(factors)] & ((1 << _LOW) - 1)
    below = (factors * low).sum(axis=0) + (1 << PLACES >> 1)
    return np.asarray(((factors * high).sum(axis=0) << _LOW - PLACES) + (below >> PLACES))
