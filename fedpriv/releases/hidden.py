"""Local steps of which only the last leaves a client: their settings, their public numbers, and what they cost.

Every step is a gradient step of penalised logistic regression plus noise; a round is one Gaussian release, not one for
each step. `clients.training.hidden` makes the steps. Proof, with what floats do to it: docs/proofs/hidden.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Annotated, ClassVar

from fedpriv.accounting.event import Event
from fedpriv.bounds import Norm
from fedpriv.errors import FedprivError, whole
from fedpriv.mechanisms.hidden import LEAST, MOST, NOT_COVERED, Penalty, PerStep, Radius
from fedpriv.mechanisms.hidden import HiddenState as Mechanism
from fedpriv.randomness.grid import FineGrid
from fedpriv.registry import UNPROVED, Kind, Registry
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency, Local

UNIT = 2.0**-53  # of float64: what it rounds, of a number
COARSE = 0.01  # of a step's noise: where floats move a step by more they are no longer a small part of what it costs

COVERED: Mapping[str, tuple[object, str]] = {  # what [training] must say, and what there is a theorem of
    "model": (Kind("Logistic"), "convex losses alone, those of Logistic, and no network"),
    "loss": (Kind("CrossEntropy"), "the plain cross entropy, whose slope and curvature are known"),
    "batch": (0, "fixed batches, privacy.release.batch, not ones that the seed draws anew"),
    "sampling": (None, "fixed batches that are public, not ones drawn by chance (Poisson)"),
    "optimiser": (Kind("Sgd"), "plain gradient steps, neither momentum nor Adam"),
    "proximal": (0.0, "the penalty of its own alone, privacy.release.penalty"),
    "device": ("cpu", "steps in float64 on the processor"),
}


@dataclass(frozen=True, kw_only=True)
class HiddenState:
    """w ← w − η(∇ + λw) + N(0, τ²I), K = training.local_steps times at a client, and only where that ends leaves it.

    For `Logistic` under the plain cross entropy, on all of a client's records or on fixed batches in turn. Each record
    with its 1 for the bias is shortened to norm `radius`; no gradient is clipped. What is sent is (w₀ − w_K)/η.
    """

    radius: Radius
    penalty: Penalty
    noise: PerStep
    batch: Annotated[int | None, whole, "b, records of a fixed batch; all of clients.records if not given"] = None

    refused: ClassVar[Mapping[str, str]] = NOT_COVERED

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def gradient(self) -> float:
        """G = √2·X, the most that one record's gradient of the cross entropy can be long, whatever the model.

        >>> round(HiddenState(radius=1, penalty=0.1, noise=10).gradient, 6)
        1.414214
        """
        return sqrt(2) * self.radius


HIDDEN = Registry("release", HiddenState, (HiddenState,), proof=UNPROVED)


def check_hidden(release: Kind | None, training: Mapping[str, object]) -> None:
    """Refuse a study's training settings under which hidden steps are none of the theorem's; which condition fails.

    >>> check_hidden(Kind("HiddenState"), {"model": Kind("Logistic"), "device": "cpu", "proximal": 0.5})
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: training.proximal = 0.5: HiddenState covers the penalty of its own ...
    """
    asked = () if release is None or release.kind not in HIDDEN else COVERED.items()
    for name, (covered, what) in asked:
        if name in training and (own := training[name]) != covered:
            told = own.kind if isinstance(own, Kind) else own
            raise FedprivError(f"training.{name} = {told}: HiddenState covers {what}; DpSgd charges every step of any")


@dataclass(frozen=True, kw_only=True)
class Walk:
    """All that a client needs for hidden steps, and an account to cost them: public, and nothing of any record.

    >>> own = HiddenState(radius=1, penalty=0.1, noise=10)
    >>> walk = Walk(release=own, records=100, rate=1.0, steps=50, dimension=650)
    >>> walk.batch, walk.batches, round(walk.deviation, 4), walk.mechanism.rounding < 1e-9
    (100, 1, 0.1414, True)
    """

    release: HiddenState
    records: int  # a client's, as the study says; it never depends on how many a client really has
    rate: float  # η
    steps: int  # K
    dimension: int  # d

    def __post_init__(self) -> None:
        if not LEAST <= self.rate <= MOST:
            raise FedprivError(f"training.learning_rate must be between {LEAST:g} and {MOST:g}, got {self.rate:g}")
        if self.records % self.batch:
            raise FedprivError(f"batch must divide clients.records = {self.records}, got {self.batch}")

    @property
    def batch(self) -> int:
        """b, by which a hidden step divides: how many records a batch has places for."""
        return self.release.batch or self.records

    @property
    def batches(self) -> int:
        """l, how many fixed batches a client's hidden steps take in turn."""
        return self.records // self.batch

    @property
    def deviation(self) -> float:
        """τ, the standard deviation of each hidden step's noise, in the model's units, rounded up."""
        return self.release.noise * self.rate * self.release.gradient / self.batch * (1 + 8 * UNIT)

    @property
    def ball(self) -> float:
        """The norm that hidden steps hold a model to before each: twice what the penalty and the noise let it have."""
        wander = self.deviation * sqrt(self.dimension / self.exact.gap)
        return 2 * (self.release.gradient / self.release.penalty + wander)

    @property
    def grid(self) -> FineGrid:
        """The grid that every hidden step ends on, as fine as noise can be drawn: a step is exact but for `error`."""
        return FineGrid.of(self.deviation * 2.0**-19, self.deviation, records=1)

    @property
    def error(self) -> float:
        """How far a hidden step in floats may end from the exact one, in ℓ2 norm: docs/proofs/hidden.md, section 3."""
        radius, ball = self.release.radius, self.ball
        moved = self.rate * radius
        products = (4 * self.dimension + 64) * (ball + moved * (1 + radius * ball)) + 2 * moved * self.batch
        return 1.02 * UNIT * products + self.grid.step * sqrt(self.dimension)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that a round of hidden steps is charged as, with what floats may do to a step.

        Refused where steps do not contract, or where floats would be no small part of the noise.
        """
        rounding = self.error / self.deviation
        if not rounding <= COARSE:
            raise FedprivError(
                f"floats may move a step by {rounding:.2g} of its noise, at most {COARSE:g}: more noise or penalty"
            )
        return replace(self.exact, rounding=rounding)

    def event(self, adjacency: Adjacency, rounds: int) -> Event:
        """The ledger's event of so many rounds of a client's hidden steps: only where each round ends is seen."""
        return Event(
            mechanism=self.mechanism, bound=Norm(1.0), dimension=self.dimension, trust=Local(), unit="record",
            adjacency=adjacency, rounds=rounds,
        )  # fmt: skip

    @property
    def exact(self) -> Mechanism:
        """The mechanism of exact hidden steps: what contracts, whatever floats do."""
        own = self.release
        return Mechanism(
            noise=own.noise, radius=own.radius, penalty=own.penalty, rate=self.rate, steps=self.steps,
            batches=self.batches,
        )  # fmt: skip
