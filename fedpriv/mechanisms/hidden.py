"""The last of several noisy local steps, of which nothing else is seen, as one Gaussian release.

Proof: docs/proofs/hidden.md.

It is costed as mechanisms are, and not sent as they are: a client makes its steps by `clients.training.hidden`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, expm1, inf, log1p, sqrt, tanh
from typing import Annotated, ClassVar

from fedpriv.bounds.vectors import OUTWARD, AdditiveNoise
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, at_least_zero, limited, positive, real, whole
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency, Trust, Unit, units_touched

LEAST, MOST = 1e-6, 1e6  # of radius and learning rate: between them no float of a step comes near its ends
Radius = Annotated[
    float,
    positive,
    limited(least=LEAST, most=MOST),
    "X, the ℓ2 norm that a record with its 1 for the bias is shortened to",
]
Penalty = Annotated[float, positive, "λ, the weight of ½‖w‖² beside the mean loss"]
PerStep = Annotated[
    float,
    positive,
    limited(most=1e30),
    "σ of each local step's noise, a multiple of what one record's gradient moves a step by at most",
]

NOT_COVERED = {  # what would make steps others than the theorem's, and why
    "clip": "clipped gradients do not contract, so K local steps with clipping are not covered: DpSgd charges each",
    "sampling": "random batches are not covered: fixed ones that are public take turns; DpSgd charges each step",
    "momentum": "steps with momentum are not covered, nor are Adam's: plain gradient steps are",
}


@dataclass(frozen=True, kw_only=True)
class HiddenState:
    """w_K of w ← w − η(∇ + λw) + N(0, τ²I), ∇ a mean over one of l fixed batches in turn; w_1, …, w_{K−1} stay inside.

    The loss is the cross entropy of a linear model (softmax) of records of norm at most X: a record's gradient has
    norm at most √2·X, of which `noise` is τ·b/η as a multiple, and the mean loss a curvature between 0 and X²/2. So a
    step brings two models nearer by the factor c = max(|1 − ηλ|, |1 − η(λ + X²/2)|), which must be less than 1.
    """

    noise: PerStep
    radius: Radius
    penalty: Penalty
    rate: Annotated[float, positive, "η, the learning rate of local steps"]
    steps: Annotated[int, whole, "K, local steps in a round"]
    batches: Annotated[int, whole, "l, fixed batches that take turns; steps are whole turns"] = 1
    rounding: Annotated[
        float, real, at_least_zero, "how far floats may move a step from the exact one, a multiple of its noise τ"
    ] = 0.0

    refused: ClassVar[Mapping[str, str]] = NOT_COVERED
    effects: ClassVar[Mapping[str, int]] = {"noise": -1}
    alphabet: ClassVar = None
    bits: ClassVar = 32.0
    entropy: ClassVar = 24.0
    proof: ClassVar = "the last of K hidden steps as one release (docs/proofs/hidden.md)"
    clip: ClassVar[float] = 1.0
    peak: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.gap > 0:
            most = 2 / (self.penalty + self.radius**2 / 2)
            raise FedprivError(
                f"steps do not contract: the learning rate must be below 2/(λ + X²/2) = {most:.6g}, got {self.rate:g}"
            )
        if self.steps % self.batches:
            raise FedprivError(f"local steps must be whole turns of {self.batches} batches, got {self.steps}")

    @property
    def gap(self) -> float:
        """1 − c, by how much a local step of logistic regression brings two models nearer, rounded down.

        >>> round(HiddenState(noise=10, radius=1, penalty=0.1, rate=1, steps=50).gap, 12)
        0.1
        """
        slow, fast = self.rate * self.penalty, self.rate * (self.penalty + self.radius**2 / 2) * (1 + 2.0**-50)
        return min(slow, 2 - fast) * (1 - 2.0**-40) if fast < 2 else 0.0

    def mu(self, adjacency: Adjacency = "add-remove") -> float:
        """μ of Gaussian DP of the last local step, whatever the dimension; 2√K of `rounding` is added to the theorem's.

        >>> own = HiddenState(noise=10, radius=1, penalty=0.1, rate=1, steps=50)
        >>> round(own.mu("replace"), 9), round(own.mu_of_all_steps("replace"), 9)
        (0.86729835, 1.414213562)
        """
        decay = -log1p(-self.gap) if self.gap < 1 else inf  # −ln c
        turn, left = self.batches * decay, self.steps - self.batches
        if self.batches == 1:
            spread = tanh(self.steps * decay / 2) * (2 - self.gap) / self.gap
        else:  # the last turn's step hides its own record, the steps between first and last turn what came before
            behind = exp(2 * (decay - turn)) / expm1(-turn) ** 2 if decay < inf else 0.0
            spread = 1 + behind * self.gap * (2 - self.gap) * (tanh(left * decay / 2) if left else 0.0)
        return (units_touched(adjacency) / self.noise * sqrt(spread) + self._rounded) * OUTWARD

    def reached(self, adjacency: Adjacency = "add-remove") -> tuple[str, Tradeoff]:
        """The lower bound of hidden steps: records in words, and the curve that they come as near to as one likes.

        The model received is far away and wrong about the record, so that its gradient is √2·X all the way: every step
        then multiplies by 1 − ηλ alone, and that is the upper bound itself where c = 1 − ηλ and there is one
        batch. In floats a model from so far is brought nearer first, and no such records are known.

        >>> words, curve = HiddenState(noise=10, radius=1, penalty=0.1, rate=1, steps=50).reached("replace")
        >>> round(curve.mu, 7)
        0.8672983
        """
        kept = 1 - self.rate * self.penalty
        if self.rounding or not 0 < kept < 1:
            return "none: of hidden steps in floats none are known", Tradeoff.between([1.0], [1.0])
        turns = (1 - kept**self.steps) / (1 - kept**self.batches)
        moved = turns * sqrt((1 - kept**2) / (1 - kept ** (2 * self.steps)))
        curve = Tradeoff.gaussian(units_touched(adjacency) / self.noise * moved * (1 - 2.0**-30))
        return "records so wrong that their gradients stay what they are, in the limit", curve

    def mu_of_all_steps(self, adjacency: Adjacency = "add-remove") -> float:
        """μ where every local step is charged, by composition: what `mu` is shown beside, and never above."""
        turns = self.steps // self.batches
        return (units_touched(adjacency) / self.noise * sqrt(turns) + self._rounded) * OUTWARD

    @property
    def _rounded(self) -> float:
        """What floats add to μ: every step's noise hides two roundings more, of one data set and of the other."""
        return 2 * self.rounding * sqrt(self.steps)

    def check_event(self, unit: Unit, trust: Trust, sampling: float, rounds: int) -> None:
        """Refuse an event of hidden local steps which their theorem does not cover: of clients, or random batches."""
        if unit != "record":
            raise FedprivError("HiddenState protects records, whose steps its client makes: unit must be 'record'")
        if sampling < 1:
            raise FedprivError(
                f"sampling = {sampling:g}: HiddenState is of fixed batches that are public; random ones inside its "
                "steps are not covered, and DpSgd charges each step on them"
            )

    def vector(self, dimension: int, adjacency: Adjacency = "add-remove") -> AdditiveNoise:
        """The bound of a whole model that hidden steps end at, for a ledger's sum of μ, whatever its dimension."""
        return AdditiveNoise(shift=self.mu(adjacency))

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve of a lower bound by two inputs: none, as what is released is no function of one number."""
        return Tradeoff.pure(0.0)

    def tradeoff(self, adjacency: Adjacency = "add-remove") -> Tradeoff:
        """The curve that certifies the last local step of a round: G_μ, of vectors of any dimension."""
        return Tradeoff.gaussian(self.mu(adjacency))
