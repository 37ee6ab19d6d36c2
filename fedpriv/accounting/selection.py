"""What it costs to choose: the best of a random number of trials, each of a setting drawn by lot, let out alone.

The number of trials and who lost stay secret. Every number here is proved in docs/proofs/choosing.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import expm1, log, log1p
from typing import Annotated

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq

from fedpriv._base.arrays import Vector
from fedpriv.accounting.account import Account, Cost
from fedpriv.accounting.event import Event
from fedpriv.curves.compose import LOWER, QUICK, ROUGH, Bounds, compose
from fedpriv.errors import FedprivError, limited, positive, probability, real
from fedpriv.randomness.exact import bernoulli
from fedpriv.settings import check_fields

OUTWARD = 1 + 2.0**-40  # what floats lose in a few operations, many times over
ROUNDED = 2.0**-50  # what a type II error close to 1 loses in its last digits: more than all of a tiny power
MOST = 10_000.0  # trials on average: more than that nobody waits for
CLOSE = 1e-4  # of ε₁, how near its least value the search ends
USUAL = 1e-5  # the δ by which one of several witnesses is chosen: any is a proof
FALSE_ALARMS = np.concatenate(
    ([0.0], np.logspace(-40, -9, 40), np.logspace(-8.9, -0.002, 160))
)  # at which a witness of the lower bound is tried


@dataclass(frozen=True, kw_only=True)
class TrialLaw:
    """The law of the number of trials: a truncated negative binomial, the geometric one unless `eta` says else.

    >>> law = TrialLaw.geometric(10)
    >>> round(law.mean), round(float(law.best_within(0.0, 0.1)), 4)  # the best trial among the best tenth: how often?
    (10, 0.5263)
    """

    gamma: Annotated[float, positive, probability, "γ: 1 is one trial, and the smaller the more there are"]
    eta: Annotated[float, real, limited(above=-1), "η, its shape: 1 geometric, 0 logarithmic"] = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    @staticmethod
    def geometric(mean: float) -> TrialLaw:
        """The law of so many trials on average, each of which is the last with the same chance."""
        real(trials=mean)
        if not 1 <= mean <= MOST:
            raise FedprivError(f"trials must be at least 1 on average and at most {MOST:g}, got {mean:g}")
        return TrialLaw(gamma=1 / mean)

    @property
    def mean(self) -> float:
        """How many trials there are on average, E K = f′(1) of their generating function f."""
        gamma, eta = self.gamma, self.eta
        if gamma == 1 or eta == 1:
            return 1 / gamma
        if eta == 0:
            return (1 / gamma - 1) / -log(gamma)
        return eta * (1 - gamma) / (gamma * -expm1(eta * log(gamma)))

    def best_within(self, above: float | Vector, width: float | Vector) -> float | Vector:
        """The chance that the best of all trials is among the share `width` of outcomes right below the best `above`.

        That is f(1 − above) − f(1 − above − width), without the difference.
        """
        gamma, eta = self.gamma, self.eta
        if gamma == 1:
            return width
        start = gamma + (1 - gamma) * above
        wider = np.log1p((1 - gamma) * width / start)
        if eta == 0:
            return wider / -log(gamma)
        end = start + (1 - gamma) * width
        return end**-eta * np.expm1(eta * wider) / expm1(-eta * log(gamma))

    def drawn(self, rng: Generator) -> int:
        """How many trials there are this time, drawn exactly; of the geometric law alone.

        >>> TrialLaw.geometric(1).drawn(np.random.default_rng(1))
        1
        """
        if self.eta != 1:
            raise FedprivError(f"trials are drawn by the geometric law, eta = 1, got eta = {self.eta:g}")
        number = 1
        while not bernoulli([self.gamma], rng)[0]:
            number += 1
        return number


@dataclass(frozen=True)
class Selection:
    """The best of trials, by whatever score of what they let out, chosen from settings that each cost these events.

    >>> from fedpriv.accounting.event import by_hand
    >>> from fedpriv.mechanisms import Gaussian
    >>> one = by_hand(Gaussian(clip=1, noise=1))
    >>> low, high = Selection(TrialLaw.geometric(10), ((one,),)).epsilon(1e-5).bounds
    >>> round(low, 3), round(high, 3), round(Account((one,)).upper_epsilon(1e-5), 3)
    (6.403, 6.618, 4.377)
    """

    law: TrialLaw
    trials: tuple[tuple[Event, ...], ...]  # of each setting in the grid, what one trial of it gives away

    def __post_init__(self) -> None:
        """Refuse a selection of nothing, and one of settings that promise something to different units."""
        if not self.trials:
            raise FedprivError("a selection is of one setting at least")
        Account(tuple(event for events in self.trials for event in events))

    @cached_property
    def shares(self) -> dict[Account, float]:
        """What a trial costs, once for all settings that cost the same, and which share of the settings that is."""
        counts = Counter(self.trials)
        return {Account(events): count / len(self.trials) for events, count in counts.items()}

    def epsilon(self, delta: float) -> Cost:
        """ε at δ of what is let out: certified, and what a witness reaches whose score is a likelihood ratio."""
        probability(delta=delta)
        upper, (lower, proof) = self.upper_epsilon(delta), self.reached(delta)
        if lower > upper * (1 + 1e-6) + 1e-9:  # a proof or its code is wrong: no number would be right
            raise RuntimeError(f"choosing: {proof} reaches {lower}, past {upper}")
        return Cost(Bounds(min(lower, upper), upper), "profile of one trial (docs/proofs/choosing.md)", proof)

    def upper_epsilon(self, delta: float) -> float:
        """The certified ε at δ: ε₂ + (η + 1)·ε₁ with E K·δ(ε₂) ≤ δ and δ(ε₁) ≤ (e^ε₁ − 1)·γ/(1 − γ)."""
        probability(delta=delta)
        each = delta / (self.law.mean * OUTWARD)
        two = max(account.upper_epsilon(each) for account in self.shares)
        return (two + (self.law.eta + 1) * self.ratio) * OUTWARD

    @cached_property
    def ratio(self) -> float:
        """ε₁: how far, as a logarithm, neighbours move γ + (1 − γ)·(the share of outcomes better than one), at most."""
        return max(least_ratio(account.upper_delta, self.law.gamma) for account in self.shares)

    def reached(self, delta: float) -> tuple[float, str]:
        """The largest ε at δ that a score and an event of a witness reach, and what they are."""
        levels, (means, most) = FALSE_ALARMS, self.powers
        found = min(account.epsilon(delta, QUICK).bounds.lower for account in self.shares)  # all scores the same
        for way in (slice(None), slice(None, None, -1)):  # either of two neighbours may be the one that is looked for
            (forward, backward), (largest, widest) = means[way], most[way]
            # ranked first: what the neighbour gives more often; looked for: what comes next, which these data do
            above, its_above = levels[:, None], forward[:, None]
            width, its_width = backward[None, :], levels[None, :]
            own = self.law.best_within(above, np.minimum(width, 1 - above))
            its = self.law.best_within(its_above, its_width)
            fits = (above + widest <= 1) & (largest[:, None] + its_width <= 1) & (its_width > 0)  # in every setting
            shown = np.where(fits, (own / OUTWARD - delta) / np.where(fits, its * OUTWARD, 1.0), 0.0)
            found = max(found, log(max(float(shown.max()), 1.0)))
        return found / OUTWARD, "explicit data, the score a likelihood ratio in three steps (docs/proofs/choosing.md)"

    @cached_property
    def powers(self) -> tuple[Vector, Vector]:
        """The power of tests of one trial at each of `FALSE_ALARMS`, a row of Q against P and one of P against Q.

        Each setting's own test, which its witness reaches, at the same rate: their mean, and the most of any of them.
        """
        each = [power_each_way(account) if account.spent else np.array([FALSE_ALARMS] * 2) for account in self.shares]
        return np.average(each, axis=0, weights=list(self.shares.values())), np.max(each, axis=0)


def power_each_way(account: Account) -> Vector:
    """The power that a witness of an account reaches at each of `FALSE_ALARMS`, Q against P and P against Q."""
    composed = [compose(witness.parts) for witness in account.witnesses]
    best = composed[0]
    if len(composed) > 1:
        best = max(composed, key=lambda own: own.lower_epsilon(USUAL, ROUGH))
    bands = best.tradeoffs(FALSE_ALARMS, QUICK, LOWER)
    powers = [np.maximum(1 - band.upper - ROUNDED, 0.0) for band in bands]
    return np.array([powers[0], powers[-1]])


def least_ratio(profile: Callable[[float], float], gamma: float) -> float:
    """The least ε₁ ≥ 0 with δ(ε₁) ≤ (e^ε₁ − 1)·γ/(1 − γ), a little more, for a selection: any that meets it is proved.

    `profile` is δ as a function of ε, of one trial and of the worse direction.

    >>> round(least_ratio(lambda epsilon: 0.0 if epsilon >= 1 else 1.0, 0.5), 3)
    0.693
    """
    if gamma == 1:
        return 0.0
    odds = gamma / (1 - gamma) / OUTWARD

    def lacking(ratio: float) -> float:
        """How far δ(ε₁) is from what ε₁ allows, as a logarithm: at most 0 where the ratio will do."""
        return log(max(profile(ratio), 1e-300)) - log(expm1(ratio) * odds)

    high = log1p(1 / odds) * (1 + CLOSE)  # where even δ = 1 will do
    low = high
    while low > 1e-12 and lacking(low) <= 0:
        low /= 4
    if low <= 1e-12:
        return 4 * low
    found = float(brentq(lacking, low, min(4 * low, high), rtol=CLOSE))
    while lacking(found) > 0:
        found *= 1 + CLOSE
    return found


def epsilon_of_all(runs: Mapping[tuple[Event, ...], int], delta: float) -> float:
    """The certified ε at δ of so many runs of each kind, had each drawn noise of its own: what looking at all costs.

    >>> from fedpriv.accounting.event import by_hand
    >>> from fedpriv.mechanisms import Gaussian
    >>> round(epsilon_of_all({(by_hand(Gaussian(clip=1, noise=1)),): 4}, 1e-5), 3)
    9.997
    """
    found: list[Event] = []
    for events, count in runs.items():
        for event in events:
            alone = event.one_release  # whose rounds are one release, so that more of them are others
            found += [replace(event, rounds=event.rounds * count)] if alone is event else [alone] * count
    return Account(tuple(found)).upper_epsilon(delta)
