"""[P] Theorem 5.2: where SGD by propose-test-release ends on a strongly convex loss, with every condition checked.

With two slips put right: corrupted gradients of norm R add FR² to a square, not FR, in (96)'s condition and in (134);
and M_A ≤ M_B, as (151) has it, not the other way round. The proof takes the gradients that trimming keeps for unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fedpriv.errors import FedprivError, at_least_zero, natural, positive, whole
from fedpriv.mechanisms.ptr_renyi import ConditionNotMet
from fedpriv.settings import check_fields

Step = Annotated[float, positive, "η_B, the step along a trimmed sum; after a sum it is (n − F)/n of it"]


@dataclass(frozen=True, kw_only=True)
class Descent:
    """What [P] Theorem 5.2 is told of SGD with propose-test-release, in the theorem's own units (sums, not means)."""

    batch: Annotated[int, whole, "n, the gradients of a step"]
    corrupted: Annotated[int, natural, "F, how many of them may be anything, and how many are trimmed: below n/2"]
    dimension: Annotated[int, whole, "d, the weights"]
    clip: Annotated[float, positive, "R, the largest norm of a gradient"]
    spread: Annotated[float, at_least_zero, "σ, the deviation of an honest gradient: E‖g − E g‖² ≤ σ²"]
    noise: Annotated[float, positive, "σ₁, the deviation of the noise on a sum"]
    trimmed_noise: Annotated[float, positive, "σ₂, the deviation of the noise on a trimmed sum"]
    convexity: Annotated[float, positive, "α, how strongly convex the loss is"]
    smoothness: Annotated[float, positive, "β, how smooth the loss is: at least α"]

    def __post_init__(self) -> None:
        check_fields(self)
        if not 2 * self.corrupted < self.batch:
            raise FedprivError(f"corrupted must be below batch/2 = {self.batch / 2:g}, got {self.corrupted}")
        if not self.smoothness >= self.convexity:
            raise FedprivError(f"smoothness must be at least convexity = {self.convexity:g}, got {self.smoothness:g}")

    @property
    def least_trimmed_noise(self) -> float:
        """The least σ₂ of [P] Theorem 5.2: its hypothesis (151), σ₂² ≥ (n−F)(n+1)/n²·(((n−F)σ² + FR²)/d + σ₁²).

        >>> own = Descent(batch=256, corrupted=64, dimension=10**9, clip=1, spread=0, noise=1, trimmed_noise=0.5,
        ...               convexity=1, smoothness=1)
        >>> round(own.least_trimmed_noise, 3)
        0.868
        """
        n, kept = self.batch, self.batch - self.corrupted
        gradients = (kept * self.spread**2 + self.corrupted * self.clip**2) / self.dimension
        return float((kept * (n + 1) / n**2 * (gradients + self.noise**2)) ** 0.5)

    @property
    def largest_step(self) -> float:
        """The η_B of [P] Theorem 5.2 below which ρ_B < 1, (94): 2α(n − 2F)/(n² + (n−F+1)(n−F)β²)."""
        n, kept = self.batch, self.batch - self.corrupted
        return 2 * self.convexity * (kept - self.corrupted) / (n**2 + (kept + 1) * kept * self.smoothness**2)


@dataclass(frozen=True, kw_only=True)
class Convergence:
    """What [P] Theorem 5.2 promises: E‖w − w*‖² falls to at most `limit`, by a factor of at most `rho_b` a step."""

    rho_a: float  # factor of a step after SUM
    rho_b: float  # factor of a step after TSUM_F, the larger
    m_a: float  # what a step after SUM adds to E‖w − w*‖²
    m_b: float  # what a step after TSUM_F adds, the larger
    limit: float  # M_B/(1 − ρ_B)


def convergence_bound(own: Descent, step: Step) -> Convergence:
    """[P] Theorem 5.2's bound at a step η_B along trimmed sums; refused by the condition that does not hold.

    >>> own = Descent(batch=256, corrupted=64, dimension=650, clip=1, spread=0.5, noise=4, trimmed_noise=2,
    ...               convexity=0.1, smoothness=1)
    >>> convergence_bound(own, 1e-5)
    Traceback (most recent call last):
    fedpriv.mechanisms.ptr_renyi.ConditionNotMet: [P] Theorem 5.2 needs σ₂ ≥ √((n−F)(n+1)/n²·(…)) = 3.4895, got ...
    """
    positive(step=step)
    if own.trimmed_noise < own.least_trimmed_noise:
        raise ConditionNotMet(
            f"[P] Theorem 5.2 needs σ₂ ≥ √((n−F)(n+1)/n²·(…)) = {own.least_trimmed_noise:.6g}, got "
            f"trimmed_noise = {own.trimmed_noise:g}"
        )
    if not step < own.largest_step:
        raise ConditionNotMet(f"[P] Theorem 5.2 needs η_B < {own.largest_step:.6g}, got step = {step:g}")
    n, corrupted, kept = own.batch, own.corrupted, own.batch - own.corrupted
    shorter, alpha, square = kept / n * step, own.convexity, own.smoothness**2
    honest, moved = kept * own.spread**2, (corrupted / n * own.clip) ** 2
    rho_a = 1 - 2 * shorter * alpha * kept + shorter**2 * (n**2 + (n + 1) * kept * square)
    rho_b = 1 - 2 * step * alpha * (kept - corrupted) + step**2 * (n**2 + (kept + 1) * kept * square)
    attacked = corrupted * own.clip**2 + own.dimension * own.noise**2
    m_a = shorter**2 * (n + 1) * (honest + attacked) + moved
    m_b = step**2 * (kept + 1) * (honest + own.dimension * own.trimmed_noise**2) + moved
    return Convergence(rho_a=rho_a, rho_b=rho_b, m_a=m_a, m_b=m_b, limit=m_b / (1 - rho_b))
