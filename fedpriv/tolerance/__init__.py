"""How many attackers the vote on one coordinate survives: the papers' bounds, a certificate, and the exact number.

N honest clients have the mean x̄ > 0 on a coordinate (for a negative mean turn all signs round). K attackers vote beside
them. The vote is *right* when the sum of all votes has the sign of x̄, and K attackers are *tolerated* when that is more
probable than not: P(right) > ½, as in [F] section 5. A tie is not right.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import floor, inf
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector, finite_floats
from fedpriv.errors import FedprivError, at_most, natural, one_of, positive, whole
from fedpriv.mechanisms import Mechanism, Ternarize, Ternary
from fedpriv.tolerance import _published as tolerance_published
from fedpriv.tolerance.ballots import (
    Attack,
    Ballot,
    Polled,
    attackers_ballot,
    honest_ballot,
    majority_chances,
    polled_mechanism,
)

MOST_VOTES = 10**9  # of all honest clients together
MOST_TRIED = 1 << 18  # numbers of attackers, past those that are certified


@dataclass(frozen=True, kw_only=True)
class Vote:
    """The vote on one coordinate, and how many attackers it survives.

    >>> from fedpriv.mechanisms import Binomial
    >>> vote = Vote(mechanism=Binomial(clip=0.1, scale=0.5, trials=1), honest=100, mean=0.1)
    >>> round(vote.published[1], 2), vote.hoeffding, vote.exact
    (26.05, 91, 95)
    """

    mechanism: Mechanism
    honest: int  # N
    mean: float  # x̄ > 0, of the honest clients' coordinate
    attack: Attack = "blind"
    probability: float | None = None  # p_att, in the place of an attack's word: how often an attacker's vote is wrong

    def __post_init__(self) -> None:
        """Refuse a vote whose mechanism has no tolerance, or whose mean or number of clients cannot be."""
        whole(honest=self.honest)
        positive(mean=self.mean)
        one_of(get_args(Attack), attack=self.attack)
        at_most("the mechanism's peak", self.mechanism.peak, mean=self.mean)
        if self.honest * self.ballots[0].steps > MOST_VOTES:
            raise FedprivError(f"honest must be at most {MOST_VOTES // self.ballots[0].steps:,}, got {self.honest}")

    @cached_property
    def ballots(self) -> tuple[Ballot, Ballot]:
        """What an honest client and an attacker vote on one coordinate, every client's own being x̄."""
        own = self._polled
        return honest_ballot(own, self.mean), attackers_ballot(own, self.mean, self.attack, self.probability)

    @property
    def _polled(self) -> Polled:
        """The voting mechanism whose tolerance is asked; raises for one that does not vote."""
        return polled_mechanism(self.mechanism)

    def chances(self, attackers: ArrayLike) -> tuple[Vector, float]:
        """P(the vote is right) for each number of attackers, every honest client at x̄; and a bound of the error."""
        return majority_chances(*self.ballots, self.honest, attackers)

    @property
    def published(self) -> tuple[str, float | None]:
        """[F]'s theorem about this vote, and the attackers K it says are tolerated; None where it says nothing."""
        return tolerance_published.published(self._polled, self.honest, self.mean, self.attack, self.probability)

    @cached_property
    def hoeffding(self) -> int | None:
        """The most attackers K certified for *all* honest data of mean x̄, fewer too; None where there is none.

        A vote is a sum of U independent coins: U = M, and U = 2 for three symbols, whose generating polynomial has real
        zeros where A ≤ B/2. A sum S of n coins with a mean of at least k + 1 has P(S ≤ k) ≤ P(Bin(n, p̄) ≤ k), p̄ being
        their average (Hoeffding 1956, Theorem 4), and that is below ½, for no median of a binomial lies below its mean
        rounded down (Jogdeo and Samuels 1968). So the vote is more often right than not where its mean exceeds one half
        of all steps by 1, or by ½ where their number is odd. Decided in fractions, without rounding.
        """
        lean, drag = self._lean_and_drag
        if lean is None:
            return None
        steps = self.ballots[0].steps
        certified = floor((self.honest * lean - Fraction(1, steps)) / drag)  # the mean is 1 above one half, or more
        following = max(certified, -1) + 1
        odd = (self.honest + following) * steps % 2 == 1
        if odd and steps * (self.honest * lean - following * drag) >= Fraction(1, 2):
            return following
        return certified if certified >= 0 else None

    @property
    def certifiable(self) -> bool:
        """Whether a vote is a sum of coins, so that a number of attackers can be certified (`hoeffding`)."""
        return self._lean_and_drag[0] is not None

    @property
    def _lean_and_drag(self) -> tuple[Fraction | None, Fraction]:
        """How much a step of an honest vote is above ½ in the mean, and one of an attacker below: for `hoeffding`."""
        own, p = self._polled, self.probability
        lean = Fraction(self.mean) / (2 * Fraction(own.scale))
        if p is None:
            drag = Fraction(1, 2) if self.attack == "omniscient" else lean
        elif isinstance(own, Ternarize):
            drag = Fraction(p) / 2
        else:
            rate = Fraction(own.spread) / Fraction(own.scale) if isinstance(own, Ternary) else Fraction(1)
            drag = Fraction(p) - rate / 2
        if isinstance(own, Ternary) and not 2 * own.spread <= own.scale:
            return None, drag  # a symbol is no sum of two coins
        return lean, drag

    @cached_property
    def exact(self) -> int | None:
        """The most attackers K that are tolerated, fewer too, every honest client at x̄; None where 0 is too many.

        None where the vote is not right even without attackers. One whose probability cannot be told from ½ within the
        error of the computation (below 10⁻⁸) counts as wrong. What `hoeffding` certifies is not computed again; from
        there on every number is tried, for ties make odd and even numbers differ.
        """
        first = reached = 0 if self.hoeffding is None else self.hoeffding + 1
        while reached - first < MOST_TRIED:
            following = 2 * reached - first + 64  # as many again as were tried, and a few
            if following * self.ballots[0].steps > MOST_VOTES:
                break
            wrong = self._first_wrong(reached, following)
            if wrong is not None:
                return wrong - 1 if wrong else None
            reached = following
        raise FedprivError(f"{reached:,} attackers and more are tolerated: their votes are nearly fair coins")

    def tolerates(self, attackers: int) -> bool:
        """Whether the vote survives so many attackers, and any smaller number, each honest client at x̄."""
        natural(attackers=attackers)
        first = 0 if self.hoeffding is None else self.hoeffding + 1
        if self.attack == "omniscient" and self.probability is None:
            first = max(first, attackers)  # fewer of them can only harm less: the honest votes outweigh them, or not
        return first > attackers or self._first_wrong(first, attackers + 1) is None

    def _first_wrong(self, start: int, end: int) -> int | None:
        """The first number of attackers, from `start` and below `end`, that the vote does not survive; or None."""
        attackers = np.arange(start, end)
        right, error = self.chances(attackers)
        wrong = attackers[~(right - error > 0.5)]
        return int(wrong[0]) if wrong.size else None


@lru_cache(maxsize=64)
def least_mean(mechanism: Mechanism, honest: int, byzantine: int, attack: Attack = "blind") -> float:
    """The smallest |x̄| of a coordinate whose vote survives so many attackers, honest clients at x̄; or ∞.

    By bisection: that a larger mean never hurts is proven for omniscient attackers alone, whose votes ignore it.

    >>> from fedpriv.mechanisms import Binomial
    >>> round(least_mean(Binomial(clip=0.1, scale=0.5, trials=1), 100, 95), 3)
    0.083
    """
    low, high = 0.0, float(mechanism.peak)
    if not Vote(mechanism=mechanism, honest=honest, mean=high, attack=attack).tolerates(byzantine):
        return inf
    for _ in range(40):
        middle = (low + high) / 2
        survived = Vote(mechanism=mechanism, honest=honest, mean=middle, attack=attack).tolerates(byzantine)
        low, high = (low, middle) if survived else (middle, high)
    return high


def covered_share(
    mechanism: Mechanism, honest: int, byzantine: int, means: ArrayLike, attack: Attack = "blind"
) -> float:
    """The share of a round's coordinates whose vote survives so many attackers, given their honest means.

    >>> from fedpriv.mechanisms import Binomial
    >>> covered_share(Binomial(clip=1, scale=2, trials=4), 100, 10, [0.9, 0.5, -0.3, 0.1, 0.0], "omniscient")
    0.6
    """
    values = np.abs(finite_floats(means))
    least = least_mean(mechanism, honest, byzantine, attack)  # type: ignore[arg-type] # frozen, so hashable
    return float(np.mean(values >= least)) if values.size else 1.0
