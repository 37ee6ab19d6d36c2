"""Propose-test-release of anybody's functions: f₂ with little noise where a test lets it, else f₁, or nothing. [P].

It is costed as mechanisms are, and it is not sent as they are: a curator releases a value of all records by it
(`fedpriv.estimation.ProposeTestRelease`). Proofs: docs/proofs/ptr-general.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, hypot, inf, log
from typing import Annotated, ClassVar, Literal

from fedpriv.bounds.vectors import OUTWARD
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, limited, positive, whole
from fedpriv.mechanisms._branch_pairs import Branch, Branches, by_branch, hull_of_branches
from fedpriv.mechanisms._coin import Coin, coin_at, coin_step
from fedpriv.mechanisms.ptr import INVERTIBLE, Failure
from fedpriv.mechanisms.ptr_pairs import EVERYTHING, NOTHING, log_passing
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency, Central, Trust, Unit, word_of

MOST_MARGIN = 10**9
MANY = 1024  # margins past which a Gaussian curve above all their pairs takes the place of their hull: ε is 5% more
TRIED = 32  # of so many margins, those at which explicit data are looked at
LEAST = 5e-324  # of a Laplace test's chances as floats: none is 0
DEEPEST = 12.0  # deviations that a witness is told apart by at most: of more, masses underflow
_AT_ENDS = {0.0: NOTHING, inf: EVERYTHING}  # curves of a value that does not move, and of one that nothing hides


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
    otherwise: Annotated[
        Literal["nothing", "fallback"], "what a test that fails releases: nothing, or f₁ under noise"
    ] = "nothing"
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
        if self.otherwise == "fallback" and self.noise is None:
            raise FedprivError("otherwise = 'fallback' needs noise: f₁ is released under noise, or nothing is")
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
            return max(exp(passed), LEAST), max(exp(failed), LEAST)
        passes, chance = self.coin(margin)
        return (chance, 1 - chance) if passes else (1 - chance, chance)

    def tradeoff(self, adjacency: Adjacency = "add-remove") -> Tradeoff:
        """The curve that certifies one tested release, for neighbours as its margin and sensitivities count them.

        >>> paper = GeneralPtr(failure=1e-8, margin=36, noise=1.1, reach=2, otherwise="fallback")
        >>> round(paper.tradeoff().epsilon(1e-5), 4)
        4.0955
        """
        return Tradeoff(hull_of_margins(self).above)

    @property
    def proof(self) -> str:
        """Why no neighbours give away more than the curve of a tested release."""
        return "every pair of margins of a tested release, their hull (docs/proofs/ptr-general.md)"

    def check_event(self, unit: Unit, trust: Trust, sampling: float, rounds: int) -> None:
        """Refuse an event of a tested release that is no curator's, or of a sample of the records."""
        if not (sampling == 1 and isinstance(trust, Central)):
            raise FedprivError(
                "GeneralPtr is a curator's answer about all records: trust must be 'central', sampling 1, got "
                f"{word_of(trust)!r}, {sampling:g}"
            )

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """None: a tested release costs the same whatever the dimension of its value, by ℓ2 sensitivities."""
        return

    def pair_at(self, margin: int, falls: int = 1) -> Branches:
        """Both branches of neighbours whose margins are m and m − `falls`; of m = 0, of those that have none."""
        before, after = self.chances(margin), self.chances(max(margin - falls, 0))
        far = inf if self.reach is None or self.noise is None else self.moved * self.reach
        left = self.moved if self.otherwise == "fallback" else 0.0
        return Branch(before[0], after[0], self.moved if margin else far), Branch(before[1], after[1], left)

    @property
    def moved(self) -> float:
        """By how many deviations of its noise a neighbour moves what a tested release gives, at most."""
        return 0.0 if self.noise is None else OUTWARD / self.noise

    @property
    def step(self) -> float:
        """μ of the test alone: by how much one record moves what a tested release's branch tells, in Gaussian DP."""
        if self.test_noise is not None:
            return Tradeoff.laplace(1 / self.test_noise).mu
        return coin_step(self.failure, self.margin)


def general_attained(own: GeneralPtr) -> list[tuple[str, Tradeoff]]:
    """Explicit functions and data in words, each with the curve that a tested release of them reaches, time after time.

    Each is one pair of neighbours, at one margin: which margin is the worst depends on δ.
    """
    margins = sorted({*range(0, own.margin + 1, ceil(own.margin / TRIED)), own.enough, own.margin})
    return [(f"explicit functions and records: a margin of {m}", _reached(own.pair_at(m))) for m in margins]


def _reached(pair: Branches) -> Tradeoff:
    """The curve of one pair of neighbours of a tested release, as it is."""
    passed, failed = pair
    return by_branch(_moved(passed), _moved(failed), (log(passed.p), log(failed.p)), (log(passed.q), log(failed.q)))


def _moved(branch: Branch) -> Tradeoff:
    """The curve of what a branch of a tested release gives out, where it is taken."""
    return _AT_ENDS[branch.mu] if branch.mu in _AT_ENDS else Tradeoff.gaussian(min(branch.mu, DEEPEST))


@lru_cache(maxsize=64)
def hull_of_margins(own: GeneralPtr) -> Tradeoff:
    """The curve above every pair of neighbours of a tested release: no margin, one that falls by one, one that stays.

    Of those that stay the chances lie between two of them, and the curve is linear in a chance. Of many margins a
    Gaussian curve stands for all, of the test's μ and the value's together.
    """
    if own.margin > MANY:
        return hull_of_branches([own.pair_at(0), (Branch(1.0, 1.0, hypot(own.step, own.moved)),)], own.failure)
    margins = [own.pair_at(m) for m in range(own.margin + 1)]
    return hull_of_branches([*margins, own.pair_at(1, falls=0), own.pair_at(own.margin, falls=0)], own.failure)
