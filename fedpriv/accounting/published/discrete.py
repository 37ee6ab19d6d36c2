"""What [F], and the papers it sets itself beside, say of a discrete mechanism's messages: shown beside ours."""

from __future__ import annotations

from math import ceil, inf, log, log1p, sqrt
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.accounting.published._asymptotic import subsampled_mu
from fedpriv.accounting.routes import seen_as_one
from fedpriv.bounds import Box, renyi, sums, vectors
from fedpriv.bounds.coins import likely_window, log_binomial
from fedpriv.curves.compose import compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms import Binomial, BinomialNoise, Cldp, NoisySign, StochasticSign, Ternary
from fedpriv.mechanisms.abilities import share_at, trials_of
from fedpriv.trust import certain_contributors

Found = dict[str, Any]
ORDERS = (*range(2, 129), *(1 << k for k in range(8, 15)))  # α of the Rényi divergences
MANY = 1 << 12  # votes past which their law is cut
FAR = 1e-300  # what is cut off
LEMMA_2 = "[F] Lemma 2 (asymptotic)"
AGARWAL = "Agarwal et al. 2018, Theorem 1"
POISSON_BINOMIAL = "Poisson binomial, Rényi (Chen et al. 2022)"


def discrete_published(event: Event, delta: float) -> dict[str, Found]:
    """By theorem: ε at δ of an event of votes, three symbols or binomial noise; nothing of any other.

    >>> from fedpriv.accounting.event import by_hand
    >>> noise = by_hand(BinomialNoise(clip=1, levels=8, trials=500))
    >>> round(discrete_published(noise, 0.044)[AGARWAL]["epsilon"], 2)  # [F] section 4.2 prints 3.18
    3.8
    """
    mechanism, rounds = event.mechanism, event.rounds
    if isinstance(mechanism, BinomialNoise):
        return {AGARWAL: _agarwal(event, delta)} if rounds and event.sampling == 1 and 0 < delta < 1 else {}
    pure = pure_epsilon(mechanism)
    if pure is None:
        return {}
    mu = vectors.published_theorem_7(pure, event.dimension)
    found = {"[F] Theorem 7": _gaussian(mu * sqrt(rounds), delta)}
    if event.sampling < 1:
        found[LEMMA_2] = _gaussian(subsampled_mu(mu, event.sampling, rounds), delta)
    certain = certain_contributors(event.trust)
    if certain is not None and not isinstance(mechanism, Ternary):
        trials, low, high = trials_of(mechanism), *(share_at(mechanism, r) for r in (-mechanism.peak, mechanism.peak))
        once = sums.published_epsilon(low, high, trials)
        found["[F] Theorem 9"] = {"epsilon": once * event.dimension * rounds, "delta": 0.0}
        if rounds and event.sampling == 1 and 0 < delta < 1 and not isinstance(mechanism, NoisySign):
            found[POISSON_BINOMIAL] = _by_renyi(certain, trials, high, rounds * event.dimension, delta)
    return found


def pure_epsilon(mechanism: object) -> float | None:
    """ε of one coordinate at δ = 0 by [F]'s closed forms, (16), (18), (22) and (25); None of what has none, or no form.

    >>> round(pure_epsilon(Ternary(clip=0.1, spread=0.25, scale=0.5)), 6)  # ln 7/3, as the sign alone
    0.847298
    """
    match mechanism:
        case Binomial() | StochasticSign():
            return trials_of(mechanism) * (
                log1p(mechanism.peak / mechanism.scale) - log1p(-mechanism.peak / mechanism.scale)
            )
        case Cldp():
            return pure_epsilon(mechanism.sign)
        case Ternary():
            return log1p(mechanism.peak / mechanism.spread) - log1p(-mechanism.peak / mechanism.spread)
        case NoisySign():
            ratio = mechanism.peak / mechanism.noise
            return float(log_ndtr(ratio) - log_ndtr(-ratio))
        case _:
            return None


def agarwal_trials(delta: float, p: float, dimension: int, reach: float) -> float:
    """The trials from which Agarwal et al. 2018, Theorem 1 speaks: Mp(1 − p) ≥ max(23 ln(10d/δ), 2Δ∞), Δ∞ = `reach`.

    >>> ceil(agarwal_trials(1.0, 0.5, 1, 8))  # whatever δ: [F] section 4.2
    212
    """
    return max(23 * log(10 * dimension / delta), 2 * reach) / (p * (1 - p))


def agarwal_epsilon(
    trials: int, p: float, delta: float, *, shift: tuple[float, float, float], dimension: int = 1
) -> float:
    """ε at δ of adding Bin(M, p) to whole numbers that move by (Δ₁, Δ₂, Δ∞): Agarwal et al. 2018, Theorem 1, at s = 1.

    >>> round(agarwal_epsilon(500, 0.5, 0.044, shift=(8, 8, 8)), 4)
    3.8027
    """
    p = min(p, 1 - p)  # its mirror image is as private
    one, two, most = shift
    squares, variance = p**2 + (1 - p) ** 2, trials * p * (1 - p)
    b, c, d = 2 / 3 * squares + 1 - 2 * p, sqrt(2) * (3 * p**3 + 3 * (1 - p) ** 3 + 2 * squares), 4 / 3 * squares
    return (
        two * sqrt(2 * log(1.25 / delta) / variance)
        + (two * c * sqrt(log(10 / delta)) + one * b) / (variance * (1 - delta / 10))
        + most * (2 / 3 * log(1.25 / delta) + d * log(20 * dimension / delta) * log(10 / delta)) / variance
    )


def vote_sum_renyi(alpha: float, clients: int, trials: int, high: float) -> float:
    """D_α that one client's M votes add at most to a sum of N clients' votes, p in [1 − `high`, `high`].

    Chen, Özgür, Kairouz 2022 bound it by C₀·θ²/(1 − 2θ)⁴·αM/N, θ = `high` − ½, and name no C₀. This is the divergence
    itself by its quasi-convexity: the others' votes lie at ends of the interval, half of them at one end; those alone
    hide. The client's own go from one end to the other, for chances' ratios are monotone.

    >>> round(vote_sum_renyi(2, 1, 1, 0.6), 6), round(vote_sum_renyi(2, 1000, 1, 0.6), 6)
    (0.154151, 0.000333)
    """
    own, crowd = (_votes_law(count, high) for count in (trials, ceil(trials * (clients - 1) / 2)))
    p, q = np.convolve(crowd, own), np.convolve(crowd, own[::-1])  # the crowd at the other end: the same, mirrored
    seen = (p > 0) & (q > 0)
    logs = np.log(p[seen]), np.log(q[seen])
    return max(float(np.logaddexp.reduce(alpha * a + (1 - alpha) * b)) for a, b in (logs, logs[::-1])) / (alpha - 1)


def _votes_law(count: int, p: float) -> Vector:
    """Bin(count, p), without what is too rare to be seen in a sum."""
    first, last = likely_window(count, p, FAR) if count > MANY else (0, count)
    return np.exp(log_binomial(count, p, first, last))


def _agarwal(event: Event, delta: float) -> Found:
    """Theorem 1 of each round at δ/T, added up; why it says nothing where there are too few trials."""
    mechanism, d, share = seen_as_one(event), event.dimension, delta / event.rounds
    levels, two = mechanism.levels, mechanism.levels * sqrt(d)
    if not isinstance(event.bound, Box):
        two = min(two, levels + sqrt(d))  # ‖x − x′‖₂ ≤ 2c is l steps of the grid, and rounding moves half a step
    least = agarwal_trials(share, mechanism.bias, d, levels)
    if not mechanism.trials >= least:
        return {"refused": f"needs {ceil(least):,} trials at this δ, got {mechanism.trials:,}"}
    shift = min(levels * d, sqrt(d) * two), two, levels
    once = agarwal_epsilon(mechanism.trials, mechanism.bias, share, shift=shift, dimension=d)
    return {"epsilon": event.rounds * once}


def _by_renyi(clients: int, trials: int, high: float, times: int, delta: float) -> Found:
    """The least ε over whole orders, for θ within the paper's limits."""
    if not high - 0.5 <= 0.25:
        return {"refused": f"θ = r/2B must be at most 1/4, is {high - 0.5:.4g}"}
    if trials > MANY:
        return {"refused": f"more than {MANY:,} votes a client are not summed here"}
    divergences = ((alpha, vote_sum_renyi(alpha, clients, trials, high)) for alpha in ORDERS)
    epsilon, order = min((renyi.epsilon_at(alpha, times * d, delta), alpha) for alpha, d in divergences)
    return {"epsilon": max(epsilon, 0.0), "order": order}


def _gaussian(mu: float, delta: float) -> Found:
    """ε at δ of G_μ; of an infinite μ the curve that gives everything away."""
    curve = Tradeoff.gaussian(mu) if mu < inf else Tradeoff.pure(inf)
    return {"mu": mu, "epsilon": compose([(curve, 1)]).epsilon(delta).upper}
