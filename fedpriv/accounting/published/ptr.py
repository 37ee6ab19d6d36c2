"""The paper's ways to an ε for propose-test-release, side by side, as in [P] Figures 1 to 5: not our certificates."""

from __future__ import annotations

from functools import cache
from math import inf, log, log1p
from typing import Any

import numpy as np

from fedpriv.bounds import renyi
from fedpriv.curves.compose import QUICK, compose
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms import Ptr, ptr_renyi

Found = dict[str, Any]
ORDERS = range(2, 201)  # [P] searches α in [1, 200]
SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)  # of δ that go to the rounds, the rest to their composition
BEYOND = "its Gaussian term is past 1, where it is not proved"


def ptr_published(ptr: Ptr, *, rounds: int, rate: float, delta: float) -> dict[str, Found]:
    """By theorem of [P]: ε at δ of so many rounds of PTR and the order α that gave it, or why it says nothing.

    Nothing of a coin: the paper has Laplace noise.

    >>> ptr = Ptr(clip=1, bound=0.5, noise=10, test_noise=5, failure=1e-5)
    >>> found = ptr_published(ptr, rounds=1, rate=1, delta=1e-5)["[P] Theorem 4.3"]
    >>> round(found["epsilon"], 5), found["order"]
    (0.56161, 34)
    """
    if not (0 < delta < 1 and rate > 0 and rounds) or ptr.test_noise is None:
        return {}
    curve = cache(lambda alpha: ptr_renyi.theorem_4_3(ptr, alpha))
    strongly = "[P] Theorem 4.2, strong composition (Kairouz–Oh–Viswanath)"
    if rate < 1:
        covered = [alpha for alpha in ORDERS if ptr_renyi.condition_of_4_4(ptr, rate, alpha) is None]
        reason = ptr_renyi.condition_of_4_4(ptr, rate, ORDERS[0])
        refused = {"refused": f"{reason}; the exact pairs above have no conditions"}
        white_box = {alpha: ptr_renyi.theorem_4_4(ptr, rate, alpha) for alpha in covered}
        return {
            "[P] Theorem 4.4": _least(white_box, rounds, delta) if covered else refused,
            "[P] Theorem 4.3, black-box sampling (Zhu–Wang)": _least(
                {alpha: ptr_renyi.black_box(curve, rate, alpha) for alpha in ORDERS}, rounds, delta
            ),
            "[P] Theorem 4.3, lower bound of black-box sampling": _least(
                {alpha: ptr_renyi.black_box_lower(curve, rate, alpha) for alpha in ORDERS}, rounds, delta
            ),
            strongly: _strong(ptr, rate, rounds, delta),
        }

    def together(alpha: float) -> float:
        """The Rényi divergence of all rounds at order α, by [P] Theorem 4.3."""
        return rounds * curve(alpha)

    found: dict[str, Found] = {
        "[P] Theorem 4.3": _least({alpha: curve(alpha) for alpha in ORDERS}, rounds, delta),
        "[P] Theorem 4.3, α not whole": {"epsilon": renyi.renyi_epsilon(together, delta)},
    }
    if rounds > 1:
        return found | {strongly: _strong(ptr, rate, rounds, delta)}
    direct = {"epsilon": ptr_renyi.theorem_4_2(ptr, delta), "delta": ptr.failure + delta}
    unproved = {} if ptr_renyi.gaussian_term(ptr, delta) < 1 else {"but": BEYOND}
    return found | {"[P] Theorem 4.2": direct | unproved}


def _least(divergences: dict[int, float], rounds: int, delta: float) -> Found:
    """The least ε at δ that a theorem's divergences, by order α, prove after so many rounds; with the order.

    By the conversion of Canonne–Kamath–Steinke 2020 (Balle et al. 2020).
    """
    epsilon, order = min((renyi.epsilon_at(alpha, rounds * d, delta), alpha) for alpha, d in divergences.items())
    return {"epsilon": max(epsilon, 0.0), "order": order}


def _strong(ptr: Ptr, rate: float, rounds: int, delta: float) -> Found:
    """ε at δ of PTR by [P] Theorem 4.2, sampled and composed as well as any (ε, δ) can be ([KOV15] Theorem 3.3).

    Sampled: (ln(1 + q(e^ε − 1)), qδ).

    That best composition is the one of the curve of (ε, δ). The total δ is split over a few shares.
    """
    least, beyond = inf, False
    for share in SHARES:
        own = share * delta / (rounds * rate) - ptr.failure
        if own <= 0:  # the rounds' δ₀ alone use up this share
            continue
        epsilon = ptr_renyi.theorem_4_2(ptr, min(own, 1.0))
        sampled = float(np.logaddexp(log1p(-rate), log(rate) + epsilon)) if rate < 1 else epsilon
        curve = Tradeoff.pure(sampled, rate * (ptr.failure + min(own, 1.0)))
        total = compose([(curve, rounds)]).upper_epsilon(delta, QUICK)
        if total < least:
            least, beyond = total, not ptr_renyi.gaussian_term(ptr, min(own, 1.0)) < 1
    return {"epsilon": least} | ({"but": BEYOND} if beyond else {})
