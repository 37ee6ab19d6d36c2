"""Every way to an upper bound of one event.

The exact pair of one coordinate composed over coordinates; a Gaussian curve for whole vectors (`vectors`,
`secure_aggregation`); Rényi divergences, which are also small where the Gaussian curve of one vote is not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf, sqrt
from typing import Any, NamedTuple, assert_never

from fedpriv.accounting.event import Event
from fedpriv.bounds import geometry_of, renyi
from fedpriv.bounds import sums as secure_aggregation
from fedpriv.bounds.vectors import OUTWARD
from fedpriv.curves.atoms import Atoms
from fedpriv.curves.compose import Part, compose
from fedpriv.curves.joint import joint
from fedpriv.curves.tilting import log_moment
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms import Binomial, Cldp, Gaussian, Histogram, Laplace, NoisySign, Ptr, StochasticSign, Ternary
from fedpriv.mechanisms.abilities import AddsUp, OneRelease, Proved, votes_of
from fedpriv.mechanisms.own import is_own
from fedpriv.mechanisms.ptr_pairs import Seen
from fedpriv.registry import kind_of
from fedpriv.trust import Central, Local, Sums

SET_ASIDE = 1e-12  # of δ: all that a secure-aggregation certificate may leave to an unlucky number of coins
BOXED = 64  # coordinates up to which the box around the ball is worth a look
REPLACED = "a record made its opposite in a sum, Poisson sampled"
THEOREMS: dict[type[Any], str] = {  # of whole vectors; of votes it is Theorem A
    Ternary: "Theorem A for ternary symbols", NoisySign: "the Gaussian mechanism whose sign it is",
    Gaussian: "Gaussian curve",
}  # fmt: skip
JOINT = 64  # coordinates sampled together that are convolved one by one


class Route(NamedTuple):
    """One way to an upper bound of one event: a curve composed so often, or Rényi divergences; δ set aside for it."""

    proof: str  # in words
    parts: tuple[Part, ...] = ()  # curves, and how often each is composed
    divergence: renyi.Curve | None = None  # D_α of everything, in the place of parts
    aside: float = 0.0  # of δ


def route_epsilon(route: Route, delta: float, tolerance: float) -> float:
    """The upper bound of ε at δ that one route of an account proves; ∞ where it sets more than δ aside."""
    if delta < route.aside:
        return inf
    if route.divergence is not None:
        return renyi.renyi_epsilon(route.divergence, delta - route.aside)
    return compose(route.parts).upper_epsilon(delta - route.aside, tolerance)


def route_delta(route: Route, epsilon: float, tolerance: float) -> float:
    """The upper bound of δ at ε that one route of an account proves."""
    if route.divergence is not None:
        return min(renyi.renyi_delta(route.divergence, epsilon) + route.aside, 1.0)
    return min(compose(route.parts).delta(epsilon, tolerance).upper + route.aside, 1.0)


def with_divergence(route: Route) -> Route | None:
    """A route of curves as one of Rényi divergences, to be added to other events'; None where they are infinite."""
    if any(_divergence(curve, 2.0) == inf for curve, _ in route.parts):
        return None
    parts = route.parts

    def divergence(alpha: float) -> float:
        """The divergence D_α of all the route's curves together."""
        return sum(count * _divergence(curve, alpha) for curve, count in parts) * OUTWARD

    return route._replace(parts=(), divergence=divergence)


def finite_divergence(route: Route) -> Route:
    """A route of curves as one of finite losses' Rényi divergences, for budgets; infinite ones are set aside from δ."""
    parts = route.parts
    lost = sum(count * max(side.impossible for side in _sides(curve)) for curve, count in parts)

    def divergence(alpha: float) -> float:
        """The divergence D_α of all the route's curves together, infinite losses left out."""
        return sum(count * _finite(curve, alpha) for curve, count in parts) * OUTWARD

    return route._replace(parts=(), divergence=divergence, aside=(route.aside + lost) * OUTWARD)


def _sides(curve: Tradeoff) -> tuple[Atoms, ...]:
    """The distributions of loss above a route's curve, of both directions where they differ, for its divergences."""
    return (curve.above,) if curve.symmetric else (curve.above, curve.inverse.above)


def _divergence(curve: Tradeoff, alpha: float) -> float:
    """D_α of a route's curve in its worse direction: αμ²/2 of the Gaussian, else ln E_Q[e^{(α−1)·loss}]/(α − 1)."""
    if curve.gaussian_mu is None and any(side.impossible > 0 for side in _sides(curve)):
        return inf
    return _finite(curve, alpha)


def _finite(curve: Tradeoff, alpha: float) -> float:
    """Rényi divergence D_α of a route's curve in its worse direction, infinite losses left out."""
    if curve.gaussian_mu is not None:
        return alpha * curve.gaussian_mu**2 / 2
    sides = _sides(curve)
    return max(log_moment(side.finite.loss, side.finite.log_q, alpha - 1) for side in sides) / (alpha - 1)


def routes_of(event: Event) -> list[Route]:
    """Every upper bound of one event: what an account composes, and takes the best of.

    Of a sampled message also those of one that is always sent whole: sampling only helps, if not every bound of it.
    """
    if (one := event.one_release) is not event:
        return [own._replace(proof=f"rounds as one (docs/proofs/correlated.md): {own.proof}") for own in routes_of(one)]
    match event.trust:
        case Sums(certain):
            found = _sum_routes(event, certain)
        case Local() | Central():  # whatever is sent, or given out, is seen as it is
            found = _seen_routes(event)
        case _ as never:
            assert_never(never)
    if event.sampling == 1 or isinstance(event.mechanism, Ptr | Histogram) or isinstance(event.trust, Central):
        return found
    if event.of_sum:
        return found  # which is exact
    whole = routes_of(replace(event, sampling=1.0))
    return found + [route._replace(proof=f"{route.proof}, sampling left aside") for route in whole]


def _seen_routes(event: Event) -> list[Route]:
    """The routes of an event whose messages, or a curator's answers, are seen one by one."""
    if isinstance(event.mechanism, Ptr):  # exact pairs, whatever the dimension; and a theorem, which bounds any noise
        proof = f"exact pairs of propose-test-release, {event.seen} seen, their hull composed (docs/ptr.md)"
        theorem = "[P] Theorem 4.3" + ", a coin its test" * (event.mechanism.test_noise is None)
        divergences = Route(f"Rényi divergences of {theorem}", (), event.mechanism.renyi(event.rounds))
        curve = event.mechanism.tradeoff(seen=seen_of(event))
        if event.sampling == 1:
            return [Route(proof, ((curve, event.rounds),)), divergences]
        shared = _sampled(curve, event, f"{proof}, test and sum on one Poisson sample")
        return [shared, divergences._replace(proof=divergences.proof + ", sampling left aside")]
    if isinstance(event.mechanism, OneRelease):
        return [Route(event.mechanism.proof, ((event.mechanism.tradeoff(event.adjacency), event.rounds),))]
    if isinstance(event.mechanism, Histogram):  # counts; the chance that an empty bin would show is set aside from δ
        gaussian = Tradeoff.gaussian(event.mechanism.shift(event.adjacency) * sqrt(event.dimension))
        aside = event.rounds * event.dimension * event.mechanism.failure(event.adjacency) * OUTWARD
        proof = f"stable histogram (docs/proofs/prime.md){', sampling left aside' * (event.sampling < 1)}"
        return [Route(proof, ((gaussian, event.rounds),), None, aside)]
    replaced = replaced_on_a_sum(event)
    found = [] if replaced is None else [Route(f"{REPLACED} (docs/proofs/replacing.md)", ((replaced, event.rounds),))]
    if found and (isinstance(event.mechanism, Gaussian) or event.dimension == 1):
        return found  # which is exact
    if event.dimension == 1 or geometry_of(event.bound) == "linf":
        return found + _coordinate_routes(event)
    return found + _vector_routes(event)


def replaced_on_a_sum(
    event: Event,
    rounding: float = OUTWARD,  # times the reach: a little more than 1 for a bound, a little less for a witness
) -> Tradeoff | None:
    """The curve of a record replaced in a Poisson sample under a curator's Gaussian or Laplace sum; else None.

    A record that is not drawn adds nothing. A client's own message is another matter: it is sent whoever was drawn.
    """
    mechanism = event.mechanism
    if not isinstance(mechanism, Gaussian | Laplace) or event.sampling == 1 or event.adjacency != "replace":
        return None
    norm = 2 if isinstance(mechanism, Gaussian) else 1  # whose largest value within the bound counts, ℓ2 or ℓ1
    match geometry_of(event.bound):
        case "linf":
            largest = float(mechanism.peak * event.dimension ** (1 / norm))
        case "l2":
            largest = float(mechanism.clip * (1 if norm == 2 else sqrt(event.dimension)))
        case None:
            largest = float(mechanism.clip)
        case _ as other:
            assert_never(other)
    match event.trust:
        case Central():
            made = Tradeoff.gaussian_replaced if norm == 2 else Tradeoff.laplace_replaced
            return made(largest / mechanism.noise * rounding, event.sampling)
        case Local() | Sums():
            return None
        case _ as never:
            assert_never(never)


def seen_of(event: Event) -> Seen:
    """What is seen of the test before a release (`Ptr`): its margin, or only which branch was taken."""
    assert event.seen is not None  # or the event were refused
    return event.seen


def _coordinate_routes(event: Event, curve: Tradeoff | None = None, proof: str = "") -> list[Route]:
    """Routes by the worst pair of one coordinate, or another `curve` of one, composed over coordinates, rounds."""
    curve = curve or event.mechanism.tradeoff(event.adjacency)
    own = event.mechanism.proof if isinstance(event.mechanism, Proved) else "exact pair of one coordinate"
    if is_own(event.mechanism):
        own = f"pair of one coordinate, the worst by the word of {kind_of(event.mechanism)} ({own})"
    around = " over the box around the ball" * (event.dimension > 1 and geometry_of(event.bound) == "l2")
    proof = proof or f"{own}, composed{around}"
    if event.sampling == 1:
        return [Route(proof, ((curve, event.dimension * event.rounds),))]
    found = []
    if event.dimension <= JOINT:
        found.append(_sampled(joint([(curve, event.dimension)]), event, proof + ", Poisson sampled"))
    if event.dimension > 1 and curve.mu < inf:
        gaussian = Tradeoff.gaussian(curve.mu * sqrt(event.dimension))
        found.append(_sampled(gaussian, event, "Gaussian curve of every coordinate, Poisson sampled"))
    return found


def _vector_routes(event: Event) -> list[Route]:
    """Routes of messages of ‖x‖₂ ≤ clip: bounds without the dimension, and by the box around the ball."""
    assert not isinstance(event.mechanism, Ptr | Histogram)  # which have routes of their own
    bound = event.mechanism.vector(event.dimension, event.adjacency)
    found = []
    if bound is not None and bound.mu < inf:
        theorem = THEOREMS.get(type(event.mechanism), "Theorem A")
        found.append(_gaussian_route(event, bound.mu, f"{theorem} (docs/proofs/vectors.md)"))
    divergence = bound.renyi(event.rounds) if bound is not None and event.sampling == 1 else None
    if divergence is not None:
        found.append(Route("Rényi divergences of vectors (docs/proofs/renyi.md)", (), divergence))
    if not found or event.dimension <= BOXED:
        found += _coordinate_routes(event)
    return found


def _gaussian_route(event: Event, mu: float, proof: str, aside: float = 0.0) -> Route:
    """The route of releases that are μ-GDP in every round, but for a failure of probability `aside` in all."""
    gaussian = Tradeoff.gaussian(mu)
    if event.sampling < 1:
        return _sampled(gaussian, event, f"{proof}, Poisson sampled")._replace(aside=aside)
    return Route(proof, ((gaussian, event.rounds),), None, aside)


def _sampled(curve: Tradeoff, event: Event, proof: str) -> Route:
    """The route of a curve that is met once a round on the event's Poisson sample."""
    return Route(proof, ((curve.subsampled(event.sampling, event.adjacency), event.rounds),))


def _sum_routes(event: Event, clients: int) -> list[Route]:
    """Routes where sums of `clients` messages are seen: the others' coins hide one; and those as if each were seen."""
    mechanism = event.mechanism
    if isinstance(mechanism, AddsUp):
        found = _seen_routes(replace(event, mechanism=mechanism.aggregated(clients), trust=Local()))
        return [route._replace(proof=f"noise of {clients} clients summed; {route.proof}") for route in found]
    alone = _seen_routes(replace(event, trust=Local()))
    if event.dimension == 1 or geometry_of(event.bound) == "linf":
        curve = _pair_of_sums(event, clients)
        lazy = isinstance(mechanism, Ternary)
        coins = "lazy coins in the other clients' symbols" if lazy else "coins in the other clients' votes"
        return _coordinate_routes(event, curve, f"{coins}, number known") + alone
    if not isinstance(mechanism, Binomial | StochasticSign | Cldp):
        return alone
    (trials, _), votes = votes_of(mechanism), mechanism.vector(event.dimension)
    bound = secure_aggregation.vector_bound(
        clients, trials, votes.clip, votes.peak, votes.scale, dimension=event.dimension,
        failure=SET_ASIDE / max(event.rounds, 1), tolerance=1e-5,
    )  # fmt: skip
    proof = f"Theorem B with {bound.coins} coins (docs/proofs/secure-aggregation.md)"
    return [_gaussian_route(event, bound.mu, proof, SET_ASIDE), *alone] if bound.mu < inf else alone


@lru_cache(maxsize=128)
def _pair_of_sums(event: Event, clients: int) -> Tradeoff:
    """The curve of one coordinate of a sum of `clients` messages, unlucky numbers of coins being set aside."""
    mechanism, set_aside = event.mechanism, SET_ASIDE**2 / max(event.rounds * event.dimension, 1)
    if isinstance(mechanism, Ternary):
        peak, spread, scale = mechanism.peak, mechanism.spread, mechanism.scale
        return Tradeoff.between(*secure_aggregation.ternary_pair(clients, peak, spread, scale, set_aside=set_aside))
    return Tradeoff.between(*secure_aggregation.scalar_pair(clients, *votes_of(mechanism), set_aside=set_aside))


def seen_as_one(event: Event) -> Any:
    """The mechanism that costs what is seen of an event: its own, or of summed noise that of the whole sum."""
    match event.trust:
        case Sums(certain) if isinstance(event.mechanism, AddsUp):
            return event.mechanism.aggregated(certain)
        case Local() | Central() | Sums():
            return event.mechanism
        case _ as never:
            assert_never(never)


@lru_cache(maxsize=1024)
def mu_of(event: Event) -> float:
    """A Gaussian-DP μ of one round of an event, as if every message were seen; sampling only helps."""
    if isinstance(event.mechanism, Ptr):
        return event.mechanism.mu
    if isinstance(event.mechanism, Histogram):
        return inf  # δ is never 0
    mechanism = seen_as_one(event)
    one: float = mechanism.tradeoff(event.adjacency).mu * sqrt(event.dimension)
    bound = mechanism.vector(event.dimension, event.adjacency)
    if geometry_of(event.bound) == "linf" or bound is None or event.dimension == 1:
        return one
    return min(one, float(bound.mu))
