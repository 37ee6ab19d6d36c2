"""Other numbers for an event, beside our bounds and never as such: the papers' theorems, asymptotic values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf, sqrt
from typing import Any

from fedpriv.accounting._witnesses import Witness
from fedpriv.accounting.account import Account
from fedpriv.accounting.published import _asymptotic as asymptotic
from fedpriv.accounting.published._lecture import lecture_published
from fedpriv.accounting.published.discrete import discrete_published
from fedpriv.accounting.published.ptr import ptr_published
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import HiddenState, Ptr


def published_values(account: Account, delta: float, target: float | None = None) -> dict[str, dict[str, Any]]:
    """By theorem, what the papers print of an account of one event, beside our bounds: never a certificate of ours.

    Asymptotic ones say so.

    Where ε is a `target`, also the noise that they would take for it.
    """
    if len(account.events) != 1:
        return {}
    event = account.events[0]
    if isinstance(event.mechanism, Ptr):
        return ptr_published(event.mechanism, rounds=event.rounds, rate=event.sampling, delta=delta)
    if isinstance(event.mechanism, HiddenState):
        every = Tradeoff.gaussian(event.mechanism.mu_of_all_steps(event.adjacency) * sqrt(event.rounds))
        pays = f"hiding pays past K = {round(2 / event.mechanism.gap):,} or so"
        return (
            {"every local step charged (composition)": {"epsilon": every.epsilon(delta), "pays": pays}} if delta else {}
        )
    return lecture_published(event, delta, target) | discrete_published(event, delta)


def asymptotic_values(account: Account, delta: float) -> dict[str, float]:
    """ε(δ) of an account by central limit and Edgeworth's expansion, for `fedpriv account`: no bounds.

    Only for one event of many votes, one coordinate's curve composed, without outcomes that give a unit away.
    """
    if len(account.events) != 1 or not 0 < delta < 1:
        return {}
    parts = [route.parts[0] for route in account.routes if len(route.parts) == 1]
    curve, count = parts[0] if parts else (Tradeoff.between([1.0], [1.0]), 0)
    pair = curve.below
    if curve.gaussian_mu is not None or count < 2:  # nothing to approximate
        return {}
    try:
        return {
            "central limit": asymptotic.clt_epsilon(pair.p, pair.q, count, delta),
            "Edgeworth": asymptotic.edgeworth_epsilon(pair.p, pair.q, count, delta),
        }
    except (FedprivError, ZeroDivisionError):  # infinite losses, or none that vary: there is nothing to expand
        return {}


def clt_epsilon(witnesses: Sequence[Witness], delta: float) -> float | None:
    """ε(δ) of the worst witness by the central limit, for a record line; None where the limit says nothing.

    The losses of all parts are added up: μ = Σ(KL(P‖Q) + KL(Q‖P))/√ΣVar, as in [F] Remark 13 and Dong–Roth–Su 3.4.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> from fedpriv.accounting.event import by_hand
    >>> sign = StochasticSign(clip=1, scale=20)
    >>> round(clt_epsilon(Account((by_hand(sign, rounds=100),)).witnesses, 1e-5), 2)
    4.38
    """
    mus = []
    for witness in witnesses:
        drift = variance = 0.0
        for curve, count in witness.parts:
            divergences, spread = _loss_of(curve)
            drift, variance = drift + count * divergences, variance + count * spread
        if 0 < variance < inf and drift < inf:
            mus.append(max(drift, 0.0) / sqrt(variance))  # of hardly anything, rounding may be more
    return Tradeoff.gaussian(max(mus)).epsilon(delta) if mus and 0 < delta < 1 else None


@lru_cache(maxsize=32)  # the same curves are met after every round
def _loss_of(curve: Tradeoff) -> tuple[float, float]:
    """KL(P‖Q) + KL(Q‖P) and the loss's variance of a curve, for the central limit; ∞ where losses are infinite."""
    if curve.gaussian_mu is not None:
        return curve.gaussian_mu**2, curve.gaussian_mu**2
    pair = curve.below
    try:
        forward, backward = asymptotic.moments(pair.p, pair.q), asymptotic.moments(pair.q, pair.p)
    except FedprivError:
        return inf, inf
    return forward.kl + backward.kl, forward.variance
