"""Propose-test-release of anybody's functions: f₂ with little noise where a test lets it, else f₁, or nothing. [P].

It is costed as mechanisms are, and it is not sent as they are: a curator releases a value of all records by it
(`fedpriv.estimation.ProposeTestRelease`). Proofs: docs/proofs/ptr-general.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, inf, log
from typing import Annotated, ClassVar

from scipy.special import ndtri

from fedpriv.bounds.vectors import OUTWARD
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, limited, positive, whole
from fedpriv.mechanisms._branch_pairs import Branch, Branches, hull_of_branches
from fedpriv.mechanisms._coin import Coin, coin_at, coin_step
from fedpriv.mechanisms.ptr import INVERTIBLE, Failure
from fedpriv.mechanisms.ptr_pairs import log_passing
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency

MOST_MARGIN = 20_000  # each margin is a pair of its own
_SEEN_TO = 1e-10  # δ₀ at most, by which it is chosen how far out noise is looked at: three deviations past it


@dataclass(frozen=True, kw_only=True)
class GeneralPtr:
    """f₂ under noise, or as it is, where a test of its margin passes; else f₁ under noise, or nothing. [P] Algorithm 1.

    The margin counts the records that must change before f₂ could move by more than τ; a neighbour's differs by at most
    one. Noises are multiples of what they hide: σ₂ = noise·τ on f₂, σ₁ = noise·(global sensitivity) on f₁.
    """

    failure: Failure
    margin: Annotated[
        int,
        whole,
        limited(most=MOST_MARGIN),
        "F, the margin past which more is not counted: of the coin, where it ends",
    ]
    noise: Annotated[
        float | None, positive, INVERTIBLE, "σ/τ of f₂, and σ₁ over what f₁ can move by; none for an f₂ of τ = 0"
    ] = None
    fallback: Annotated[bool, "whether a test that fails releases f₁ under noise; else nothing is released"] = False
    reach: Annotated[
        float | None, positive, "how far f₂ can move where the margin is 0, in units of τ; any distance if not given"
    ] = None
    test_noise: Annotated[
        float | None,
        positive,
        INVERTIBLE,
        "b, the scale of Laplace noise on the margin; if not given the test is a coin",
    ] = None

    effects: ClassVar[Mapping[str, int]] = {"noise": -1, "margin": -1, "test_noise": -1}
    alphabet: ClassVar = None
    bits: ClassVar = 32.0
    entropy: ClassVar = 24.0
    clip: ClassVar[float] = 1.0
    peak: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.fallback and self.noise is None:
            raise FedprivError("fallback = true needs noise: f₁ is released under noise, or nothing is")
        least = ceil(coin_step(self.failure, 1)) if self.test_noise is None else self.enough
        if self.margin < least:
            why = f"the coin to go from failure = {self.failure:g} to 1 - {self.failure:g}"
            raise FedprivError(
                f"margin must be at least {least} for {why if self.test_noise is None else 'the test to pass'}, "
                f"got {self.margin}"
            )

    @property
    def enough(self) -> int:
        """The least whole margin, noisy where there is noise, at which the test passes at least every other time."""
        if self.test_noise is None:
            return ceil(self.margin / 2)
        return ceil(-self.test_noise * log(2 * self.failure) * OUTWARD + 0.5)

    def coin(self, margin: int) -> Coin:
        """What a test of a function's margin shows that is a coin: the rarer side, and its chance, the float to draw.

        >>> GeneralPtr(failure=1e-8, margin=36).coin(0)
        Coin(passes=True, chance=1e-08)
        """
        return coin_at(self.failure, self.margin, margin)

    def chances(self, margin: int) -> tuple[float, float]:
        """The chances that the test of a function's margin passes and fails, whichever kind of test it is."""
        if self.test_noise is not None:
            passed, failed = log_passing(self.test_noise, self.enough, min(margin, self.margin))
            return exp(passed), exp(failed)
        passes, chance = self.coin(margin)
        return (chance, 1 - chance) if passes else (1 - chance, chance)

    def tradeoff(self, adjacency: Adjacency = "add-remove") -> Tradeoff:
        """The curve that certifies one tested release, for neighbours as its margin and sensitivities count them.

        >>> round(GeneralPtr(failure=1e-8, margin=36, noise=1.1, reach=2, fallback=True).tradeoff().epsilon(1e-5), 4)
        4.0955
        """
        return _hull(self)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """None: a tested release costs the same whatever the dimension of its value, by ℓ2 sensitivities."""
        return

    def _pair(self, margin: int, falls: int = 1) -> Branches:
        """Both branches of neighbours whose margins are m and m − `falls`; of m = 0, of those that have none."""
        before, after = self.chances(margin), self.chances(max(margin - falls, 0))
        moved = 0.0 if self.noise is None else OUTWARD / self.noise
        far = inf if self.reach is None or self.noise is None else moved * self.reach
        branches = Branch(before[0], after[0], moved if margin else far), Branch(before[1], after[1], moved)
        return branches if self.fallback else (branches[0], branches[1]._replace(mu=0.0))


def general_attained(own: GeneralPtr, rounds: int) -> list[tuple[str, Tradeoff]]:
    """Explicit functions and data in words, with the curve that a tested release of them reaches in every round.

    In one round the worst of all pairs is met: which one it is depends on δ, and from below the curve is that of each.
    """
    if rounds <= 1:
        return [("explicit functions and records: the worst of all margins", own.tradeoff())]
    found = {"no margin": own._pair(0)} | {f"a margin of {m}": own._pair(m) for m in (own.enough, own.margin)}
    return [
        (f"explicit functions and records: {words} in every round", hull_of_branches([pair], _deviations(own.failure)))
        for words, pair in found.items()
    ]


@lru_cache(maxsize=64)
def _hull(own: GeneralPtr) -> Tradeoff:
    """The curve above every pair of neighbours of a tested release: no margin, one that falls by one, one that stays.

    Of those that stay the chances lie between two of them, and the curve is linear in a chance.
    """
    margins = range(1, own.margin + 1)
    pairs = [own._pair(0), *(own._pair(m) for m in margins), own._pair(1, falls=0), own._pair(own.margin, falls=0)]
    return hull_of_branches(pairs, _deviations(own.failure))


def _deviations(failure: float) -> float:
    """How far out the noise of a tested release is looked at: three deviations past where δ₀ lies, or 1e-10."""
    return 3.0 - float(ndtri(min(failure, _SEEN_TO)))
