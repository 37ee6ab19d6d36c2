"""The vote on one coordinate, and how many attackers it survives: theorem, certificates, and the exact number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, at_most, natural, one_of, positive, probability, whole
from fedpriv.mechanisms import Binomial, Mechanism, NoisySign, StochasticSign, Ternarize, Ternary
from fedpriv.tolerance import _published as tolerance_published
from fedpriv.tolerance._chernoff import enveloped_exponent, exponent_of, least_bound
from fedpriv.tolerance._leaning import least_chance
from fedpriv.tolerance.ballots import (
    Attack,
    Ballot,
    Polled,
    attackers_ballot,
    client_ballot,
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
    >>> Vote(mechanism=vote.mechanism, honest=100, mean=0.1, sampling=0.05).exact
    48
    """

    mechanism: Mechanism
    honest: int  # N
    mean: float  # x̄ > 0, of the honest clients' coordinate
    attack: Attack = "blind"
    probability: float | None = None  # p_att, in the place of an attack's word: how often an attacker's vote is wrong
    sampling: float = 1.0  # p_s: each client, honest or not, votes with this probability, drawn for itself

    def __post_init__(self) -> None:
        whole(honest=self.honest)
        positive(mean=self.mean, sampling=self.sampling)
        probability(sampling=self.sampling)
        one_of(get_args(Attack), attack=self.attack)
        at_most("the mechanism's peak", self.mechanism.peak, mean=self.mean)
        if self.honest * self.ballots[0].steps > MOST_VOTES:
            raise FedprivError(f"honest must be at most {MOST_VOTES // self.ballots[0].steps:,}, got {self.honest}")

    @cached_property
    def ballots(self) -> tuple[Ballot, Ballot]:
        """What an honest client and an attacker vote, every client's coordinate being x̄."""
        own = self._polled
        attacker = attackers_ballot(own, self.mean, self.attack, self.probability, self.sampling)
        return client_ballot(own, self.mean, self.sampling), attacker

    @property
    def _polled(self) -> Polled:
        """The voting mechanism whose tolerance is asked; raises for one that does not vote."""
        return polled_mechanism(self.mechanism)

    def chances(self, attackers: ArrayLike) -> tuple[Vector, float]:
        """P(right) for each of these numbers of attackers, every honest client at x̄; and a bound of the error."""
        return majority_chances(*self.ballots, self.honest, attackers)

    @property
    def published(self) -> tuple[str, float | None]:
        """The theorem of [F] that speaks of this vote and its K, None where it says nothing, or nothing true."""
        if self.sampling < 1:
            return "none", None
        return tolerance_published.published(self._polled, self.honest, self.mean, self.attack, self.probability)

    @cached_property
    def hoeffding(self) -> int | None:
        """The largest K certified for *all* honest data of mean x̄, every smaller one too; None where there is none.

        A vote is a sum of U independent coins: U = M, and U = 2 for three symbols, whose generating polynomial has real
        zeros where A ≤ B/2. A sum S of n coins with a mean of at least k + 1 has P(S ≤ k) ≤ P(Bin(n, p̄) ≤ k), p̄ being
        their average (Hoeffding 1956, Theorem 4), and that is below ½, for no median of a binomial lies below its mean
        rounded down (Jogdeo and Samuels 1968). So the vote is more often right than not where its mean exceeds one half
        of all steps by 1, or by ½ where their number is odd. Decided in fractions, without rounding.

        Of NoisySign a mean x̄ leaves the mean probability open: it is no less than `least_chance` says.
        """
        return self._certified(self._lean_and_drag)

    @property
    def hoeffding_of_chance(self) -> int | None:
        """The same for all honest data whose votes are right with the mean probability that x̄ has: p̄, not x̄, given."""
        own = self._polled
        if not isinstance(own, NoisySign):
            return self.hoeffding
        return self._certified(self._leaning(Fraction(self.ballots[0].law[-1]) - Fraction(1, 2)))

    def _certified(self, leaning: tuple[Fraction | None, Fraction]) -> int | None:
        """The largest K by how much an honest step leans to the right and an attacker's to the wrong side."""
        lean, drag = leaning
        if lean is None or not lean > 0 or self.sampling < 1:
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
        """Whether a vote is a sum of coins, so that there can be a certificate."""
        return self._lean_and_drag[0] is not None

    @cached_property
    def _lean_and_drag(self) -> tuple[Fraction | None, Fraction]:
        """By how much a step of an honest client is above ½ in the mean, and one of an attacker below it."""
        own = self._polled
        if isinstance(own, NoisySign):
            return self._leaning(Fraction(least_chance(own, self.mean)) - Fraction(1, 2))
        if not isinstance(own, Binomial | StochasticSign | Ternary | Ternarize):
            return None, Fraction(0)  # a mean says nothing of its votes
        lean, drag = self._leaning(Fraction(self.mean) / (2 * Fraction(own.scale)))
        if isinstance(own, Ternary) and not 2 * own.spread <= own.scale:
            return None, drag  # a symbol is no sum of two coins
        return lean, drag

    def _leaning(self, lean: Fraction) -> tuple[Fraction, Fraction]:
        """That lean, and what attackers pull the other way."""
        own, p = self._polled, self.probability
        if p is None:
            return lean, Fraction(1, 2) if self.attack == "omniscient" else lean
        if isinstance(own, Ternarize):
            return lean, Fraction(p) / 2
        rate = Fraction(own.spread) / Fraction(own.scale) if isinstance(own, Ternary) else Fraction(1)
        return lean, Fraction(p) - rate / 2

    def wrong_at_most(self, attackers: int) -> float | None:
        """A bound of P(wrong or tie) for *all* honest data of mean x̄, blind attackers at −x̄ each; None without one.

        Theorem G (docs/proofs/votes.md). It holds where clients vote by lot, and where all do.

        >>> from fedpriv.mechanisms import Binomial
        >>> mechanism = Binomial(clip=1, scale=1.000001, trials=64)
        >>> round(Vote(mechanism=mechanism, honest=100, mean=0.3, sampling=0.05).wrong_at_most(10), 3)
        0.824
        """
        natural(attackers=attackers)
        honest = enveloped_exponent(self._polled, self.mean, self.sampling)
        return None if honest is None else least_bound(self.honest, honest, attackers, exponent_of(self.ballots[1]))

    @cached_property
    def chernoff(self) -> int | None:
        """The largest K for which `wrong_at_most` is below ½: certified where clients vote by lot; None without one."""
        honest = enveloped_exponent(self._polled, self.mean, self.sampling)
        return None if honest is None else self._bounded(honest)

    def _bounded(self, honest: Callable[[float], float]) -> int | None:
        """The largest K whose bound is below ½; more attackers never lower a bound, as their exponents are above 0."""
        attacker = exponent_of(self.ballots[1])

        def wrong(attackers: int) -> bool:
            """Whether so many attackers may turn the vote, as far as Theorem G's bound knows."""
            return least_bound(self.honest, honest, attackers, attacker) >= 0.5

        if wrong(0):
            return None
        right, following = 0, 1
        while not wrong(following):
            right, following = following, 2 * following
            if following * self.ballots[0].steps > MOST_VOTES:
                return right
        while following - right > 1:
            middle = (right + following) // 2
            right, following = (right, middle) if wrong(middle) else (middle, following)
        return right

    @property
    def certified(self) -> int | None:
        """The largest K certified for all honest data of mean x̄: Hoeffding's where all vote, else Theorem G's."""
        return self.hoeffding if self.sampling == 1 else self.chernoff

    @cached_property
    def exact(self) -> int:
        """The largest K such that it and every smaller one are tolerated where each honest client is exactly at x̄.

        −1 where the vote is not right even without attackers. One whose probability cannot be told from ½ within the
        error of the computation (below 10⁻⁸) counts as wrong. What is certified is not computed again; from there on
        every number is tried, for ties make odd and even numbers differ.
        """
        first = reached = self._tried_from
        while reached - first < MOST_TRIED:
            following = 2 * reached - first + 64  # as many again as were tried, and a few
            if following * self.ballots[0].steps > MOST_VOTES:
                break
            wrong = self._first_wrong(reached, following)
            if wrong is not None:
                return wrong - 1
            reached = following
        raise FedprivError(f"{reached:,} attackers and more are tolerated: their votes are nearly fair coins")

    @cached_property
    def _tried_from(self) -> int:
        """The first number of attackers that nothing certifies, every honest client being at x̄."""
        sampled = self.sampling < 1
        found = self._bounded(exponent_of(self.ballots[0])) if sampled else self.hoeffding_of_chance
        return 0 if found is None else found + 1

    def tolerates(self, attackers: int) -> bool:
        """Whether so many attackers, and every smaller number of them, are tolerated, each honest client at x̄."""
        natural(attackers=attackers)
        first = self._tried_from
        if self.attack == "omniscient" and self.probability is None:
            first = max(first, attackers)  # fewer of them can only harm less: the honest votes outweigh them, or not
        return first > attackers or self._first_wrong(first, attackers + 1) is None

    def _first_wrong(self, start: int, end: int) -> int | None:
        """The first number of attackers, below `end`, that is not tolerated."""
        attackers = np.arange(start, end)
        right, error = self.chances(attackers)
        wrong = attackers[~(right - error > 0.5)]
        return int(wrong[0]) if wrong.size else None
