"""What releases cost: every route that proves an upper bound, real data that prove a lower one, and the best of each.

A `Release` says what happened; this module says what it gives away, so a saved release can be costed anew by a
better proof. Routes for the upper bound: the exact pair of one coordinate composed over coordinates; a Gaussian curve
for whole vectors (`vectors`, `secure_aggregation`); Rényi divergences. Lower bounds compose pairs of explicit inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf, sqrt
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from fedpriv import asymptotic, renyi, secure_aggregation, vectors
from fedpriv.densities import Density
from fedpriv.errors import FedprivError, one_of, probability, whole
from fedpriv.joint import joint
from fedpriv.mechanisms import Binomial, Cldp, Gaussian, Laplace, Mechanism, NoisySign, StochasticSign, settings_of
from fedpriv.privacy_loss import FINE, QUICK, ROUGH, Bounds, Part, compose
from fedpriv.tradeoff import Adjacency, Tradeoff

Geometry = Literal["l2", "linf"]
Unit = Literal["record", "client"]
Trust = Literal["local", "secure-aggregation", "central"]

SET_ASIDE = 1e-12  # of δ: all that a secure-aggregation certificate may leave to an unlucky number of coins
JOINT = 64  # coordinates sampled together that are convolved one by one


@dataclass(frozen=True, kw_only=True)
class Release:
    """A mechanism applied `rounds` times to `dimension` coordinates, and who sees what.

    `sampling` is the Poisson rate of the unit in each round; `clients` the contributors certain to have drawn noise,
    this one included. What is not given: unit is record where sampled, else client; adjacency is add-remove for
    Gaussian and Laplace noise, else replace.
    """

    mechanism: Mechanism
    rounds: int = 1
    dimension: int = 1
    geometry: Geometry | None = None
    sampling: float = 1.0
    trust: Trust = "local"
    clients: int | None = None
    unit: Unit | None = None
    adjacency: Adjacency | None = None

    def __post_init__(self) -> None:
        whole(at_least=0, rounds=self.rounds)
        whole(dimension=self.dimension)
        probability(sampling=self.sampling)
        self._fill("unit", "record" if self.sampling < 1 else "client")
        self._fill("adjacency", "add-remove" if isinstance(self.mechanism, Gaussian | Laplace) else "replace")
        one_of(get_args(Trust), trust=self.trust)
        one_of(get_args(Unit), unit=self.unit)
        one_of(get_args(Adjacency), adjacency=self.adjacency)
        self._check_geometry()
        self._check_trust()

    def _fill(self, name: str, value: str) -> None:
        if getattr(self, name) is None:
            object.__setattr__(self, name, value)

    def _check_geometry(self) -> None:
        if self.geometry is not None:
            one_of(get_args(Geometry), geometry=self.geometry)
        elif self.dimension > 1:
            raise FedprivError(f"geometry must be given for dimension {self.dimension}: l2 (norm at most clip) or linf")

    def _check_trust(self) -> None:
        if self.unit == "client" and self.sampling < 1 and self.trust != "central":
            raise FedprivError(
                f"sampling clients amplifies nothing under {self.trust} trust: the server knows whom it asked"
            )
        if self.trust != "secure-aggregation":
            if self.clients is not None:
                raise FedprivError(f"clients counts only under secure-aggregation trust, not {self.trust}")
            return
        if self.clients is None:
            raise FedprivError("secure-aggregation trust needs clients: how many are certain to have drawn noise")
        whole(clients=self.clients)
        if not (isinstance(self.mechanism, Summed) or hasattr(self.mechanism, "aggregated")):
            kinds = [kind.__name__ for kind in Summed] + ["BinomialNoise", "Skellam", "Gaussian"]
            name = type(self.mechanism).__name__
            raise FedprivError(f"{name} has no certificate under secure aggregation; these have: {', '.join(kinds)}")


Summed = (Binomial, StochasticSign, Cldp, NoisySign)


class Route(NamedTuple):
    """One way to an upper bound of one release: a curve composed so often, or Rényi divergences; δ set aside for it."""

    proof: str
    parts: tuple[Part, ...] = ()
    divergence: renyi.Curve | None = None
    aside: float = 0.0


class Witness(NamedTuple):
    """Explicit inputs and the pair they produce, composed so often: a lower bound."""

    proof: str
    parts: tuple[Part, ...]


class Cost(NamedTuple):
    """A bound from both sides and what proves each."""

    bounds: Bounds
    upper_proof: str
    lower_proof: str


@dataclass(frozen=True)
class Account:
    """Releases to one observer about one unit, costed together."""

    releases: tuple[Release, ...]

    def epsilon(self, delta: float, tolerance: float = FINE) -> Cost:
        """The smallest ε at δ, between two bounds; a larger tolerance is quicker, its bounds lie further apart."""
        probability(delta=delta)
        return self._cost(
            lambda route, t: _route_epsilon(route, delta, t),
            lambda parts, t: compose(parts).epsilon(delta, t).lower,
            tolerance,
        )

    def delta(self, epsilon: float, tolerance: float = FINE) -> Cost:
        """δ at ε, between two bounds."""
        if not epsilon >= 0:
            raise FedprivError(f"epsilon must be at least 0, got {epsilon}")
        return self._cost(
            lambda route, t: _route_delta(route, epsilon, t),
            lambda parts, t: compose(parts).delta(epsilon, t).lower,
            tolerance,
        )

    def upper_epsilon(self, delta: float, tolerance: float = QUICK) -> float:
        """The upper bound alone, in less time and hardly larger."""
        return min((_route_epsilon(route, delta, tolerance) for route in self.routes), default=0.0)

    def _cost(
        self,
        upper: Callable[[Route, float], float],
        lower: Callable[[tuple[Part, ...], float], float],
        tolerance: float,
    ) -> Cost:
        """The best route, and the best witness: of several the best by a rough look, looked at again."""
        if not self.releases:
            return Cost(Bounds(0.0, 0.0), "nothing was released", "nothing was released")
        above = [upper(route, tolerance) for route in self.routes]
        witnesses, several = self.witnesses, len(self.witnesses) > 1
        below = [lower(witness.parts, ROUGH if several else tolerance) for witness in witnesses]
        best, worst = above.index(min(above)), below.index(max(below))
        reached = below[worst]
        if several and tolerance < ROUGH:
            reached = max(reached, lower(witnesses[worst].parts, max(tolerance, QUICK)))
        bounds = Bounds(min(reached, above[best]), above[best])
        return Cost(bounds, self.routes[best].proof, witnesses[worst].proof)

    @cached_property
    def routes(self) -> list[Route]:
        """The ways to an upper bound of all releases together: curves composed, and divergences added up."""
        options = [_routes(release) for release in self.releases]
        curves = [[route for route in own if route.divergence is None] for own in options]
        together = curves[0] if len(curves) == 1 else [_joined([_best(own) for own in curves])]
        divergent = [next((route for route in own if route.divergence), None) for own in options]
        if all(divergent):
            together.append(_added([route for route in divergent if route]))
        return together

    @cached_property
    def witnesses(self) -> list[Witness]:
        """Explicit data for all releases: the i-th witness of each, the last one where it has fewer."""
        options = [_witnesses(release) for release in self.releases]
        most = max(len(own) for own in options)
        chosen = [[own[min(i, len(own) - 1)] for own in options] for i in range(most)]
        return [Witness(_named(own), tuple(p for witness in own for p in witness.parts)) for own in chosen]

    @cached_property
    def mu(self) -> float | None:
        """A certified Gaussian-DP parameter of everything, None where there is none."""
        found = sqrt(sum(release.rounds * _mu(release) ** 2 for release in self.releases)) if self.releases else 0.0
        return found * vectors.OUTWARD if found < inf else None


def _route_epsilon(route: Route, delta: float, tolerance: float) -> float:
    if delta < route.aside:
        return inf
    if route.divergence is not None:
        return renyi.epsilon(route.divergence, delta - route.aside)
    return compose(route.parts).upper_epsilon(delta - route.aside, tolerance)


def _route_delta(route: Route, epsilon: float, tolerance: float) -> float:
    if route.divergence is not None:
        return min(renyi.delta(route.divergence, epsilon) + route.aside, 1.0)
    return min(compose(route.parts).delta(epsilon, tolerance).upper + route.aside, 1.0)


def _joined(routes: Sequence[Route]) -> Route:
    return Route(_named(routes), tuple(p for route in routes for p in route.parts), None, sum(r.aside for r in routes))


def _added(routes: Sequence[Route]) -> Route:
    curves = [route.divergence for route in routes if route.divergence]
    if len(curves) == 1:
        return routes[0]
    return Route(_named(routes), (), lambda alpha: sum(curve(alpha) for curve in curves))


def _named(routes: Sequence[Route | Witness]) -> str:
    return "; ".join(dict.fromkeys(route.proof for route in routes))


def _best(routes: list[Route]) -> Route:
    """Of the curves of one release, the one with the smallest ε at δ = 1e−5: any choice is a proof."""
    return routes[0] if len(routes) == 1 else min(routes, key=lambda route: _route_epsilon(route, 1e-5, ROUGH))


def _routes(release: Release) -> list[Route]:
    """Every upper bound of one release."""
    if release.trust == "secure-aggregation":
        return _sum_routes(release)
    if release.dimension == 1 or release.geometry == "linf":
        return _coordinate_routes(release)
    return _vector_routes(release)


def _coordinate_routes(release: Release, curve: Tradeoff | None = None, proof: str = "") -> list[Route]:
    """The worst pair of one coordinate, composed over coordinates and rounds."""
    curve = curve or release.mechanism.tradeoff(_adjacency(release))
    proof = proof or "exact pair of one coordinate, composed"
    if release.sampling == 1:
        return [Route(proof, ((curve, release.dimension * release.rounds),))]
    if release.dimension <= JOINT:
        return [_sampled(joint([(curve, release.dimension)]), release, proof + ", Poisson sampled")]
    if curve.mu == inf:
        raise FedprivError(f"no certificate for {release.dimension} sampled coordinates of this mechanism under linf")
    gaussian = Tradeoff.gaussian(curve.mu * sqrt(release.dimension))
    return [_sampled(gaussian, release, "Gaussian curve of every coordinate, Poisson sampled")]


def _vector_routes(release: Release) -> list[Route]:
    """Dimension-free bounds under ‖x‖₂ ≤ clip, and the box around the ball."""
    bound = release.mechanism.vector(release.dimension, _adjacency(release))
    found = []
    if bound is not None and bound.mu < inf:
        gaussian = Tradeoff.gaussian(bound.mu)
        if release.sampling < 1:
            found.append(_sampled(gaussian, release, f"{_theorem(release)}, Poisson sampled"))
        else:
            found.append(Route(_theorem(release), ((gaussian, release.rounds),)))
    if not (found and release.dimension > 1 << 12):
        found += _coordinate_routes(
            release, proof="exact pair of one coordinate, composed over the box around the ball"
        )
    if bound is not None and release.sampling == 1 and release.rounds:
        divergence = bound.renyi(release.rounds)
        if divergence is not None:
            found.append(Route("Rényi divergences of vectors (docs/proofs/renyi.md)", (), divergence))
    return found


def _theorem(release: Release) -> str:
    names = {"Ternary": "Theorem A for ternary symbols", "NoisySign": "the Gaussian mechanism whose sign it is"}
    gaussian = {"Gaussian": "Gaussian curve"}
    return {**names, **gaussian}.get(type(release.mechanism).__name__, "Theorem A") + " (docs/proofs/vectors.md)"


def _sampled(curve: Tradeoff, release: Release, proof: str) -> Route:
    assert release.adjacency is not None
    return Route(proof, ((curve.subsampled(release.sampling, release.adjacency), release.rounds),))


def _adjacency(release: Release) -> Adjacency:
    assert release.adjacency is not None
    return release.adjacency


def _sum_routes(release: Release) -> list[Route]:
    """Under secure aggregation: the coins in the others' votes, and what would hold if every message were seen."""
    mechanism, clients = release.mechanism, release.clients or 1
    if hasattr(mechanism, "aggregated"):
        seen = replace(release, mechanism=mechanism.aggregated(clients), trust="local", clients=None)
        return [route._replace(proof=f"noise of {clients} clients summed; {route.proof}") for route in _routes(seen)]
    alone = _routes(replace(release, trust="local", clients=None))
    trials, p_max = _votes_of(mechanism)
    if release.dimension == 1 or release.geometry == "linf":
        curve = _sum_pair(clients, trials, p_max, SET_ASIDE**2 / max(release.rounds * release.dimension, 1))
        return _coordinate_routes(release, curve, "coins in the other clients' votes, number known") + alone
    if not isinstance(mechanism, Binomial | StochasticSign | Cldp):
        return alone
    votes = mechanism.vector(release.dimension)
    bound = secure_aggregation.vector_bound(
        clients, trials, votes.clip, votes.peak, votes.scale, dimension=release.dimension,
        failure=SET_ASIDE / max(release.rounds, 1), tolerance=1e-5,
    )  # fmt: skip
    proof = f"Theorem B with {bound.coins} coins (docs/proofs/secure-aggregation.md)"
    gaussian = Tradeoff.gaussian(bound.mu)
    if release.sampling < 1:
        return [_sampled(gaussian, release, proof + ", Poisson sampled")._replace(aside=SET_ASIDE), *alone]
    return [Route(proof, ((gaussian, release.rounds),), None, SET_ASIDE), *alone]


@lru_cache(maxsize=64)
def _sum_pair(clients: int, trials: int, p_max: float, set_aside: float) -> Tradeoff:
    return Tradeoff.between(*secure_aggregation.scalar_pair(clients, trials, p_max, set_aside=set_aside))


def _votes_of(mechanism: Any) -> tuple[int, float]:
    """(M, p_max) of a mechanism whose votes are summed."""
    source = mechanism.sign if isinstance(mechanism, Cldp) else mechanism
    return getattr(source, "trials", 1), float(source.chance(np.array(source.peak)))


def _witnesses(release: Release) -> list[Witness]:
    """Explicit pairs of inputs, at one or several numbers of coordinates."""
    if release.trust == "secure-aggregation" and not hasattr(release.mechanism, "aggregated"):
        return _sum_witnesses(release)
    mechanism: Any = release.mechanism
    if release.trust == "secure-aggregation":
        mechanism = mechanism.aggregated(release.clients)
    if isinstance(mechanism, Gaussian) and release.geometry != "linf":
        return [_witness(release, _ends(mechanism, release, mechanism.clip), 1)]
    return [_witness(release, _ends(mechanism, release, level), count) for level, count in _levels(release)]


def _levels(release: Release) -> list[tuple[float, int]]:
    if release.dimension == 1 or release.geometry == "linf":
        return [(release.mechanism.peak, release.dimension)]
    clip, peak = release.mechanism.clip, release.mechanism.peak
    return vectors.spans(clip=clip, peak=peak, dimension=release.dimension)


def _ends(mechanism: Mechanism, release: Release, level: float) -> Tradeoff:
    """The pair of inputs ±level; one of them absent (zero) where that is what neighbours, or samples, differ by."""
    return mechanism.between(level, 0.0 if _absent(release) else -level)


def _absent(release: Release) -> bool:
    """Whether real data of this noise differ by a record that is there or not, its noise being added to a sum."""
    summed = isinstance(release.mechanism, Gaussian | Laplace)
    return summed and (release.adjacency == "add-remove" or release.sampling < 1)


def _witness(release: Release, pair: Tradeoff, count: int) -> Witness:
    """The pair on `count` coordinates at once, sampled in the direction that reveals most, composed over rounds."""
    inputs = f"±clip/√k on k = {count} coordinates" if release.geometry == "l2" and release.dimension > 1 else "±peak"
    proof = f"explicit pair {'clip and nothing' if _absent(release) else inputs}"
    if release.sampling == 1:
        return Witness(proof, ((pair, count * release.rounds),))
    whole_pair = joint([(pair, min(count, JOINT))])
    held = whole_pair.subsampled(release.sampling, "add-remove")
    if release.adjacency == "add-remove" or isinstance(release.mechanism, Gaussian | Laplace):
        return Witness(proof + ", Poisson sampled", ((held, release.rounds),))
    half = release.rounds // 2
    return Witness(
        proof + ", Poisson sampled, now one and now the other data set holding the odd record",
        ((held, release.rounds - half), (held.inverse, half)),
    )


def _sum_witnesses(release: Release) -> list[Witness]:
    """Explicit data of everybody: the others all at one end, all at the other, or half and half."""
    clients, (trials, _) = release.clients or 1, _votes_of(release.mechanism)
    found = []
    for level, count in _levels(release):
        share = _share_at(release.mechanism, level)
        for high in sorted({0, (clients - 1) // 2, clients - 1}):
            pair = Tradeoff.between(*secure_aggregation.scalar_pair_lower(clients, trials, share, high=high))
            witness = _witness(release, pair, count)
            found.append(witness._replace(proof=f"{witness.proof}, {high} of the others high, the rest low"))
    return found


def _share_at(mechanism: Any, level: float) -> float:
    source = mechanism.sign if isinstance(mechanism, Cldp) else mechanism
    return float(source.chance(np.array(level)))


def _mu(release: Release) -> float:
    """Gaussian-DP of one round, as if every message were seen; sampling only helps."""
    seen = replace(release, trust="local", clients=None, sampling=1.0)
    if release.trust == "secure-aggregation" and hasattr(release.mechanism, "aggregated"):
        mechanism: Any = release.mechanism
        seen = replace(seen, mechanism=mechanism.aggregated(release.clients))
    one = seen.mechanism.tradeoff(_adjacency(seen)).mu * sqrt(release.dimension)
    bound = seen.mechanism.vector(seen.dimension, _adjacency(seen))
    if release.geometry == "linf" or bound is None or release.dimension == 1:
        return one
    return min(one, bound.mu)


def published(account: Account, delta: float) -> dict[str, dict[str, Any]]:
    """The papers' values beside ours, by theorem: not certificates of this project, and asymptotic ones say so."""
    if len(account.releases) != 1:
        return {}
    release, found = account.releases[0], {}
    mechanism: Any = release.mechanism
    rounds = release.rounds
    source = mechanism.sign if isinstance(mechanism, Cldp) else mechanism
    if isinstance(source, Binomial | StochasticSign):
        trials = getattr(source, "trials", 1)
        mu = vectors.published_theorem_7(
            clip=source.peak, scale=source.scale, trials=trials, dimension=release.dimension
        )
        composed = mu * sqrt(rounds)
        found["[F] Theorem 7"] = {"mu": composed, "epsilon": compose([(_gauss(composed), 1)]).epsilon(delta).upper}
        if release.sampling < 1:
            limit = asymptotic.subsampled_mu(mu, release.sampling, rounds)
            found["[F] Lemma 2 (asymptotic)"] = {
                "mu": limit,
                "epsilon": compose([(_gauss(limit), 1)]).epsilon(delta).upper,
            }
        if release.trust == "secure-aggregation" and trials == 1:
            low, high = _share_at(mechanism, -source.peak), _share_at(mechanism, source.peak)
            pure = secure_aggregation.published_epsilon(low, high)
            found["[F] Theorem 9"] = {"epsilon": pure * release.dimension * rounds, "delta": 0.0}
    return found


def asymptotics(account: Account, delta: float) -> dict[str, float]:
    """What the central limit theorem and the Edgeworth expansion would say of ε(δ): approximations, never bounds.

    Only for one release of many votes, one coordinate's curve composed, without outcomes that give a unit away.
    """
    if len(account.releases) != 1 or not 0 < delta < 1:
        return {}
    parts = [route.parts[0] for route in account.routes if len(route.parts) == 1]
    curve, count = parts[0] if parts else (Tradeoff.between([1.0], [1.0]), 0)
    exact = isinstance(curve.pair, Density) and curve.pair.gaussian is not None
    pair = curve.below
    if exact or count < 2 or curve.mu == 0 or np.isinf(pair.loss).any():
        return {}
    return {
        "central limit": asymptotic.clt_epsilon(pair.p, pair.q, count, delta),
        "Edgeworth": asymptotic.edgeworth_epsilon(pair.p, pair.q, count, delta),
    }


def _gauss(mu: float) -> Tradeoff:
    return Tradeoff.gaussian(mu) if mu < inf else Tradeoff.pure(inf)


def described(release: Release) -> dict[str, Any]:
    """A release as plain data, for ledgers and reports."""
    own = {"kind": type(release.mechanism).__name__, "settings": settings_of(release.mechanism)}
    names = ("unit", "trust", "adjacency", "geometry", "dimension", "rounds", "sampling", "clients")
    return own | {name: getattr(release, name) for name in names}
