"""What events cost together: the best upper bound, the best lower one, and what proves each.

An event says what happened; what it costs is a function of it, so that a better proof can cost an old one anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedpriv.accounting._attackers import checked_band, chosen_mu, reached_type_two, route_mu, route_type_two
from fedpriv.accounting._witnesses import Witness, witnesses_of
from fedpriv.accounting.event import Event
from fedpriv.accounting.routes import (
    Route,
    finite_divergence,
    mu_of,
    route_delta,
    route_epsilon,
    routes_of,
    with_divergence,
)
from fedpriv.bounds import vectors
from fedpriv.bounds.renyi import Curve
from fedpriv.curves.compose import FINE, LOWER, QUICK, ROUGH, Band, Bounds, Mu, Part, compose, gaussian_type_two
from fedpriv.curves.pair import error_rates
from fedpriv.errors import FedprivError, at_least_zero, probability

__all__ = ["Account", "Cost", "Event", "chosen_epsilon", "spent_epsilon"]

FOLLOWED = 10**10  # rounds up to which compositions are tight
ORDERS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 256.0)  # fixed before anything is released
RESERVED = 2.0**-10  # of δ, for what proofs of single events set aside
CHOSEN = 1 / 16  # of δ, for events that are chosen one after another; the rest is for one kind of event alone


class Cost(NamedTuple):
    """A bound from both sides and what proves each."""

    bounds: Bounds  # of ε or of δ, whichever was asked for
    upper_proof: str  # in words
    lower_proof: str  # in words


@dataclass(frozen=True)
class Account:
    """Events that one observer saw about one unit, costed together."""

    events: tuple[Event, ...]  # all of one unit and of one adjacency

    def __post_init__(self) -> None:
        """Refuse to cost together events of two units, or of two adjacencies: no one ε speaks of both."""
        object.__setattr__(self, "events", tuple(self.events))  # an iterator would be empty at the second look
        for name in ("unit", "adjacency"):
            found = sorted({getattr(event, name) for event in self.events})
            if len(found) > 1:
                raise FedprivError(f"events of different {name} cannot be costed together: {' and '.join(found)}")

    @property
    def spent(self) -> tuple[Event, ...]:
        """The account's events of at least one round: those that cost anything."""
        return tuple(event for event in self.events if event.rounds)

    def epsilon(self, delta: float, tolerance: float = FINE) -> Cost:
        """The least ε at δ of the account's events: bounds from either side with proofs; more tolerance is quicker."""
        probability(delta=delta)
        return self._cost(
            lambda route, t: route_epsilon(route, delta, t),
            lambda parts, t: compose(parts).lower_epsilon(delta, t),
            tolerance,
        )

    def delta(self, epsilon: float, tolerance: float = FINE) -> Cost:
        """The least δ at ε of the account's events, as a bound from either side with its proof."""
        at_least_zero(epsilon=epsilon)
        return self._cost(
            lambda route, t: route_delta(route, epsilon, t),
            lambda parts, t: compose(parts).delta(epsilon, t).lower,
            tolerance,
        )

    def upper_epsilon(self, delta: float, tolerance: float = QUICK) -> float:
        """The certified ε at δ of the account's events, an upper bound alone: quicker, and hardly larger."""
        return min((route_epsilon(route, delta, tolerance) for route in self.routes), default=0.0)

    def upper_delta(self, epsilon: float, tolerance: float = QUICK) -> float:
        """The certified δ at ε of the account's events, an upper bound alone: quicker, and hardly larger."""
        return min((route_delta(route, epsilon, tolerance) for route in self.routes), default=0.0)

    def tradeoff(self, alpha: ArrayLike, tolerance: float = FINE) -> Band:
        """The least type II error at a type I error, or at each of several: no attack gets below, some data get so far.

        >>> from fedpriv.accounting.event import by_hand
        >>> from fedpriv.mechanisms import StochasticSign
        >>> low, high = Account((by_hand(StochasticSign(clip=0.1, scale=1), rounds=100),)).tradeoff(0.01)
        >>> round(low, 6), round(high, 6)
        (0.62671, 0.62671)
        """
        levels = error_rates(alpha)
        flat = np.atleast_1d(levels)
        found = Band(1 - flat, 1 - flat)
        if self.spent:
            above = [route_type_two(route, flat, tolerance) for route in self.routes]
            gaussian = gaussian_type_two(inf if self.mu is None else self.mu, flat, -1)
            reached = [reached_type_two(own.parts, flat, tolerance) for own in self.witnesses]
            found = checked_band([gaussian, *above], reached)
        return found if levels.ndim else Band(*(float(own[0]) for own in found))

    def true_positive_rate(self, false_positive_rate: ArrayLike, tolerance: float = FINE) -> Band:
        """The largest share of units that an attacker finds, at a given share of false alarms: 1 − `tradeoff`."""
        low, high = self.tradeoff(false_positive_rate, tolerance)
        return Band(1 - high, 1 - low)

    @property
    def advantage(self) -> Bounds:
        """max (1 − α − β) = δ(0), from both sides: an attacker's best edge over guessing."""
        return self.delta(0.0).bounds

    def mu_between(self, up_to: float = 0.0, tolerance: float = FINE) -> Mu:
        """μ of everything from both sides: exactly, or up to so much of every error, where that makes it smaller."""
        if not self.spent:
            return Mu(0.0, 0.0, 0.0)
        return chosen_mu(
            inf if self.mu is None else self.mu,
            lambda aside: max(compose(own.parts).mu_between(aside, tolerance, LOWER).lower for own in self.witnesses),
            lambda aside: min(route_mu(own, aside, tolerance) for own in self.routes),
            up_to,
        )

    def _cost(
        self,
        upper: Callable[[Route, float], float],
        lower: Callable[[tuple[Part, ...], float], float],
        tolerance: float,
    ) -> Cost:
        """Upper bound by the best route; lower bound by the best witness, found by a rough look at all of them."""
        if not self.spent:
            return Cost(Bounds(0.0, 0.0), "nothing was released", "nothing was released")
        above = [upper(route, tolerance) for route in self.routes]
        witnesses, several = self.witnesses, len(self.witnesses) > 1
        below = [lower(witness.parts, ROUGH if several else tolerance) for witness in witnesses]
        best, worst = above.index(min(above)), below.index(max(below))
        reached = below[worst]
        if several and tolerance < ROUGH:
            reached = max(reached, lower(witnesses[worst].parts, tolerance))
        if reached > above[best] * (1 + 1e-6) + 1e-9:  # a proof or its code is wrong: no number would be right
            raise RuntimeError(f"{witnesses[worst].proof}: {reached}, past {above[best]} by {self.routes[best].proof}")
        bounds = Bounds(float(min(reached, above[best])), float(above[best]))  # no numpy numbers
        proof = witnesses[worst].proof
        if bounds.upper > 2 * bounds.lower and max(event.rounds for event in self.spent) > FOLLOWED:
            proof += f" (loose: floating point follows {FOLLOWED:.0e} rounds at most)"
        return Cost(bounds, self.routes[best].proof, proof)

    @cached_property
    def routes(self) -> list[Route]:
        """The routes to an upper bound of all events together: their curves composed, or their divergences added."""
        options = [_routes(event) for event in self.spent]
        curves = [[route for route in own if route.divergence is None] for own in options]
        divergent = [next((route for route in own if route.divergence), None) for own in options]
        if len(options) == 1:
            return curves[0] + [route for route in divergent if route]
        together = []
        if options and all(curves):
            best = [_best(own) for own in curves]
            together.append(Route(_named(best), _parts(best), None, sum(route.aside for route in best)))
        if any(divergent):  # of an event without a divergence of its own that of its best curve, where it is finite
            for place, composed in enumerate(curves):
                divergent[place] = divergent[place] or (with_divergence(_best(composed)) if composed else None)
            own = [route for route in divergent if route and route.divergence]
            if len(own) == len(options):
                added = [route.divergence for route in own if route.divergence]
                aside = sum(route.aside for route in own)
                together.append(Route(_named(own), (), lambda alpha: sum(curve(alpha) for curve in added), aside))
        return together

    @cached_property
    def witnesses(self) -> list[Witness]:
        """Witnesses of all events together, for lower bounds: the i-th of each event, its last where it has fewer."""
        options = [witnesses_of(event) for event in self.spent]
        most = max(len(own) for own in options)
        chosen = [[own[min(i, len(own) - 1)] for own in options] for i in range(most)]
        return [Witness(_named(own), _parts(own)) for own in chosen]

    @cached_property
    def mu(self) -> float | None:
        """A certified Gaussian-DP μ of all events together, of each or of all composed; None where none is finite.

        A route that sets some δ aside proves none.
        """
        apart = (
            sqrt(sum(own.rounds * mu_of(own) ** 2 for own in (event.one_release for event in self.spent)))
            * vectors.OUTWARD
        )
        composed = [compose(route.parts).mu for route in self.routes if not route.aside and route.divergence is None]
        found = min([apart, *composed])
        return found if found < inf else None


def spent_epsilon(events: Sequence[Event], delta: float, fixed: Callable[[float], float] | None) -> float:
    """What a ledger's or a policy's budget counts of its events: an ε at δ that holds whatever is asked next, by whom.

    `fixed` gives ε at a δ of a list in which nothing was chosen but when to stop; None where there is none such.
    """
    if fixed is not None:
        return fixed((1 - CHOSEN) * delta)
    return chosen_epsilon(events, CHOSEN * delta)


def chosen_epsilon(events: Sequence[Event], delta: float) -> float:
    """A certified ε at δ, for budgets, of events each of which was chosen by what came of those before it.

    Curves composed exactly are those of a list that is fixed beforehand: where the next event is chosen by the
    outcomes, every list may keep to ε and all of them together not. Rényi divergences add up under any choice. With
    A = `ORDERS`, ε = min over α in A of ΣD_α + ln(|A|/δ)/(α − 1) (docs/proofs/composition.md, section 13).

    >>> from fedpriv.accounting.event import by_hand
    >>> from fedpriv.mechanisms import Gaussian
    >>> two = [by_hand(Gaussian(clip=1, noise=noise)) for noise in (4, 5)]
    >>> Account(tuple(two)).upper_epsilon(1e-5) < chosen_epsilon(two, 1e-5) < 2.5
    True
    """
    spent = [event for event in events if event.rounds]
    if not spent:
        return 0.0
    pure = sum(Account((event,)).upper_epsilon(0.0) for event in spent)  # no δ: these add up under any choice too
    reserved, share = RESERVED * delta / len(spent), (1 - RESERVED) * delta / len(ORDERS)
    curves: list[list[Curve]] = []
    for event in spent:
        finite = [route if route.divergence else finite_divergence(route) for route in _routes(event)]
        kept = [route for route in finite if route.aside <= reserved / len(finite)]
        curves.append([route.divergence for route in kept if route.divergence is not None])
    if not delta or not all(curves):
        return pure
    sums = [sum(min(curve(alpha) for curve in own) for own in curves) for alpha in ORDERS]
    found = (total - log(share) / (alpha - 1) for total, alpha in zip(sums, ORDERS, strict=True))
    return min(pure, *found) * vectors.OUTWARD


def _routes(event: Event) -> list[Route]:
    """The routes to an upper bound of one event; an event without any is refused."""
    found = routes_of(event)
    if not found:
        raise FedprivError(
            f"no certificate for {event.dimension} coordinates of {type(event.mechanism).__name__} sampled together"
        )
    return found


def _named(routes: Sequence[Route | Witness]) -> str:
    """The proofs of several events' routes or witnesses in words, each once, as an account prints them."""
    return "; ".join(dict.fromkeys(route.proof for route in routes))


def _parts(several: Sequence[Route | Witness]) -> tuple[Part, ...]:
    """The curves of several events' routes or witnesses in one tuple, to be composed together."""
    return tuple(part for one in several for part in one.parts)


def _best(routes: Sequence[Route]) -> Route:
    """Of one event's routes the one with the smallest ε at δ = 1e−5, to be composed with others: any is a proof."""
    return routes[0] if len(routes) == 1 else min(routes, key=lambda route: route_epsilon(route, 1e-5, ROUGH))
