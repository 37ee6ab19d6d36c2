"""What the same events, met again in every round, cost after each of them: the schedule is public, so ε is too.

Routes and witnesses are those of `Account`. Each is made, and its transforms taken, once for all rounds between two
powers of four (`curves.repeated`); a round then costs a power. Both bounds hold for each number of rounds by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, sqrt

import numpy as np
from scipy.special import ndtri

from fedpriv._base.arrays import Vector
from fedpriv.accounting._attackers import checked_band, chosen_mu
from fedpriv.accounting._witnesses import Witness
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event
from fedpriv.accounting.routes import Route, mu_of
from fedpriv.bounds import renyi
from fedpriv.bounds.renyi_errors import renyi_type_two
from fedpriv.bounds.vectors import OUTWARD
from fedpriv.curves.compose import FINE, LOWER, UPPER, Band, Bounds, Mu, gaussian_type_two
from fedpriv.curves.repeated import Repeated, first_of_block, first_parts, last_of_block
from fedpriv.errors import natural, probability

NEAR = 1.2  # routes whose ε is about so many times the best are asked in every round
COARSE = 1e-4  # relative error of ε that a lower bound aims at where it lies far below the upper one
APART = 0.1  # of ε, which is far
LEVELS = (0.001, 0.01, 0.05, 0.1)  # type I errors at which a course tells what is left of the other
UP_TO = 1e-3  # of δ, what μ may set aside
FEW = last_of_block(2)  # rounds for which witnesses are made that serve any more rounds


@dataclass(frozen=True, eq=False)
class _Upper:
    """A route for `base` rounds, and its curves where it has any."""

    route: Route
    base: int  # rounds
    curves: Repeated | None  # None where the route has divergences

    @staticmethod
    def of(route: Route, base: int, delta: float, in_turn: int | None) -> _Upper:
        """A route, made for `base` rounds, with its curves prepared for any number of rounds; divergences need none."""
        curves = Repeated(route.parts, base, delta, in_turn) if route.divergence is None else None
        return _Upper(route, base, curves)

    def epsilon(self, rounds: int, delta: float) -> float:
        """The upper bound of ε at δ after `rounds` rounds by this route; what it sets aside of δ grows with them."""
        aside = self.route.aside * rounds / self.base * OUTWARD
        if delta < aside:
            return inf
        if self.curves is not None:
            return self.curves.upper(rounds, aside=aside)
        return renyi.renyi_epsilon(self._divergence(rounds), delta - aside)

    def type_two(self, rounds: int, alpha: Vector) -> Vector:
        """The lower bound of the type II error at each type I error."""
        aside = self.route.aside * rounds / self.base * OUTWARD
        if self.curves is not None:
            found = self.curves.tradeoff(rounds, alpha, UPPER).lower
        else:
            found = renyi_type_two(self._divergence(rounds), alpha)
        return np.asarray(np.maximum(found - aside, 0.0))

    def mu(self, rounds: int, up_to: float) -> float:
        """A μ, up to so much; ∞ where there is none."""
        aside = self.route.aside * rounds / self.base * OUTWARD
        if self.curves is None or aside > up_to:
            return inf
        exact = self.curves.mu(rounds)
        return exact if up_to == aside else min(exact, self.curves.mu_up_to(rounds, up_to - aside))

    def nearly(self, rounds: int, delta: float) -> float:
        """A quick number near `epsilon`, never above it, to choose routes by: limits for votes' divergences."""
        aside = self.route.aside * rounds / self.base * OUTWARD
        if delta < aside:
            return inf
        if self.curves is not None:
            return self.curves.upper(rounds, aside=aside)
        curve = self._divergence(rounds)
        return renyi.renyi_epsilon(curve.floor if isinstance(curve, renyi.VoteCurve) else curve, delta - aside)

    def _divergence(self, rounds: int) -> renyi.Curve:
        """The route's Rényi divergences by order, scaled from its own rounds to so many."""
        assert self.route.divergence is not None
        return renyi.repeated_curve(self.route.divergence, rounds / self.base)


@dataclass(frozen=True, eq=False)
class _Lower:
    """The witnesses that reach farthest at either end of a block, and how exactly they are asked."""

    curves: list[Repeated]
    tolerance: float  # relative error of ε

    @staticmethod
    def of(curves: list[Repeated], first: int, last: int, upper: float) -> _Lower:
        """The curves that reach the largest ε after `first` or `last` rounds of a block, and how exactly to ask."""
        about = max(one.estimate(last) for one in curves)
        apart = about.epsilon > 0 and upper - about.epsilon > APART * upper
        tolerance = COARSE if apart and not about.doubt else FINE  # what is nearly Gaussian loses nothing
        farthest = set()
        for at in (first, last):
            guessed = {one: one.estimate(at) for one in curves}
            best = max(curves, key=guessed.__getitem__)
            unsure = [one for one in curves if one is not best and guessed[one].doubt + guessed[best].doubt > 0]
            if unsure and guessed[best].epsilon not in (0, inf):  # where estimates cannot tell, by asking
                best = max([best, *unsure], key=lambda one: one.lower(at, tolerance))
            farthest.add(best)
        return _Lower(list(farthest), tolerance)

    def epsilon(self, rounds: int) -> float:
        """The lower bound of ε after `rounds` rounds: the largest that one of the block's witnesses reaches."""
        return max(one.lower(rounds, self.tolerance) for one in self.curves)


def first_events(events: Sequence[Event], rounds: int) -> tuple[Event, ...]:
    """The first so many rounds of events that come one after the other, for the ε of a release whose noise changes."""
    found = first_parts([(event, event.rounds) for event in events], rounds)
    return tuple(replace(event, rounds=count) for event, count in found)


@dataclass(frozen=True, eq=False)
class Course:
    """ε(δ) of `events`, which each round repeats, after any number of rounds, each bound by itself.

    Events in turn come one after the other, as where the noise of a release changes by a schedule.

    >>> from fedpriv.accounting.event import by_hand
    >>> from fedpriv.mechanisms import StochasticSign
    >>> course = Course((by_hand(StochasticSign(clip=0.1, scale=10)),), 1e-5)
    >>> low, high = course.epsilon(100)
    >>> low <= high < 0.9
    True
    """

    events: tuple[Event, ...]  # what one round gives away
    delta: float
    in_turn: int | None = None  # a round is the next so many of the events' rounds; None: it is all of them
    _uppers: dict[int, list[_Upper]] = field(default_factory=dict)  # by the last round of a block
    _lowers: dict[int, _Lower] = field(default_factory=dict)  # by the last round of a block
    _seen: dict[int, list[tuple[Witness, Repeated]]] = field(default_factory=dict)  # by the rounds they are made for
    _worst: dict[int, Repeated] = field(default_factory=dict)  # by the last round of a block
    _known: dict[int, float] = field(default_factory=dict)  # upper bounds, by rounds

    def __post_init__(self) -> None:
        """Refuse, for the ε by rounds of a study, a δ that is no probability."""
        probability(delta=self.delta)

    def epsilon(self, rounds: int) -> Bounds:
        """ε(δ) after so many rounds, between two bounds: for each round's record line, and before a run."""
        upper = self.upper(rounds)
        if not upper:
            return Bounds(0.0, 0.0)
        lower = self._lower_of(rounds).epsilon(rounds)
        if lower > upper * (1 + 1e-6) + 1e-9:  # a proof or its code is wrong: no number would be right
            raise RuntimeError(f"after {rounds} rounds a lower bound of {lower} lies past an upper one of {upper}")
        return Bounds(min(lower, upper), upper)

    def tradeoff(self, rounds: int) -> Band:
        """The least type II error at each of `LEVELS` after so many rounds, between two bounds."""
        certified = self.type_two(rounds)
        if not self._happened(rounds):
            return Band(certified, certified)
        last, levels = last_of_block(rounds), np.array(LEVELS)
        if last not in self._worst:  # the witness that leaves the least errors at the end of a block
            curves = self._lower_of(rounds).curves
            self._worst[last] = min(curves, key=lambda one: float(one.tradeoff(last, levels, LOWER).upper.sum()))
        reached = self._worst[last].tradeoff(rounds, levels, LOWER).upper
        return checked_band([certified], [reached])

    def type_two(self, rounds: int) -> Vector:
        """The lower bound of the type II error at each of `LEVELS` alone."""
        levels = np.array(LEVELS)
        if not self._happened(rounds):
            return 1 - levels
        self.upper(rounds)  # which makes the block's routes
        gaussian = gaussian_type_two(self._apart(rounds), levels, -1)
        above = [one.type_two(rounds, levels) for one in self._uppers[last_of_block(rounds)]]
        return np.asarray(np.max([gaussian, *above], axis=0))

    def _lower_of(self, rounds: int) -> _Lower:
        """The witnesses asked for so many rounds, those of their block."""
        first, last = first_of_block(rounds), last_of_block(rounds)
        if last not in self._lowers:
            curves = [curve for _, curve in self._made(self._base(last))]
            self._lowers[last] = _Lower.of(curves, first, last, self.upper(last))
        return self._lowers[last]

    def _happened(self, rounds: int) -> bool:
        """Whether anything was released: an ε of 0 at δ says no more than that δ is enough."""
        return bool(rounds) and any(event.rounds for event in self.events)

    def mu(self, rounds: int, reached: Vector) -> Mu:
        """μ after so many rounds, between two bounds; up to a share of δ where that helps. `reached`: β at `LEVELS`."""
        if not self._happened(rounds):
            return Mu(0.0, 0.0, 0.0)
        self.upper(rounds)  # which makes the block's routes
        routes = self._uppers[last_of_block(rounds)]
        return chosen_mu(
            min(self._apart(rounds), *(one.mu(rounds, 0.0) for one in routes)),
            lambda aside: max(float((-ndtri(LEVELS) - ndtri(np.minimum(reached + aside, 1.0))).max()), 0.0),
            lambda aside: min(one.mu(rounds, aside) for one in routes),
            UP_TO * self.delta,
        )

    def _apart(self, rounds: int) -> float:
        """μ of so many rounds, as if every message were seen."""
        given = zip(self._times(rounds if self.in_turn else 1), self.events, strict=True)
        squares = [event.rounds * mu_of(own) ** 2 for event, own in given if event.rounds]
        once = sqrt(sum(squares)) * OUTWARD
        return once if self.in_turn else once * sqrt(rounds)

    def upper(self, rounds: int) -> float:
        """The certified ε(δ) after so many rounds, kept once worked out: what a study promises, its budget counts."""
        natural(rounds=rounds)
        if not self._happened(rounds):
            return 0.0
        if rounds not in self._known:
            first, last = first_of_block(rounds), last_of_block(rounds)
            if last not in self._uppers:
                self._uppers[last] = self._routes(first, last)
            self._known[rounds] = min(one.epsilon(rounds, self.delta) for one in self._uppers[last])
        return self._known[rounds]

    def _routes(self, first: int, last: int) -> list[_Upper]:
        """The routes asked for each number of rounds between `first` and `last`: those about as good as the best there.

        Made for the first round; for the last where δ has no room for what they set aside.
        """
        base = last if self.in_turn else first
        made = Account(self._times(base)).routes
        if self.in_turn:  # a divergence of all of them is not that of the first few, nor is what is set aside
            made = [route for route in made if _one_each(route, self._times(base)) and not route.aside]
        if any(route.aside * last > self.delta * first / 2 for route in made):
            base, made = last, Account(self._times(last)).routes
        found = [_Upper.of(route, base, self.delta, self.in_turn) for route in made]
        if len(found) == 1:
            return found
        ends = [[one.nearly(at, self.delta) for one in found] for at in (first, last)]
        # Those worth asking are about as good as the best at either end.
        near = {at for own in ends for at, value in enumerate(own) if value <= NEAR * min(own)}
        return [one for at, one in enumerate(found) if at in near]

    def witnesses(self, rounds: int) -> list[Witness]:
        """Witnesses of so many rounds, whose curves the central-limit ε in a record line is worked out from."""
        return [
            one._replace(parts=tuple(curve.after(rounds)))
            for one, curve in self._made(self._base(last_of_block(rounds)))
        ]

    def _base(self, last: int) -> int:
        """For how many rounds the witnesses of a block are made, by its last."""
        return last if self.in_turn else min(last, FEW)

    def _made(self, base: int) -> list[tuple[Witness, Repeated]]:
        """Witnesses of so many rounds, with curves for any number: some data are met once, some in turns."""
        if base not in self._seen:
            events = self._times(base)
            made = [own for own in Account(events).witnesses if not self.in_turn or _one_each(own, events)]
            self._seen[base] = [(one, Repeated(one.parts, base, self.delta, self.in_turn)) for one in made]
        return self._seen[base]

    def _times(self, rounds: int) -> tuple[Event, ...]:
        """The events of so many rounds: those of one round, each that many times as often; or the first in turn."""
        if self.in_turn is not None:
            return first_events(self.events, rounds * self.in_turn)
        return tuple(replace(event, rounds=event.rounds * rounds) for event in self.events)


def _one_each(own: Route | Witness, events: Sequence[Event]) -> bool:
    """Whether a route or a witness has a curve for each event, as often: so its first are those of the first events."""
    return [count for _, count in own.parts] == [event.rounds for event in events if event.rounds]
