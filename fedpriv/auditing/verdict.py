"""What an audit found, beside what is certified: bounds with a confidence, and whether the certificate stands."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from fedpriv.accounting import Account
from fedpriv.audit.ranks import Lines, Ranks, enough
from fedpriv.audit.statistic import (
    Trials,
    by_threshold,
    epsilon_lower,
    epsilon_of_shape,
    mu_of_epsilon,
    mu_of_share,
)
from fedpriv.event import Event
from fedpriv.privacy_loss import ROUGH

SLOPES = 16  # lines of the certified curve that a point is held against


class Found(NamedTuple):
    """μ that releases show at least, the most that the certificate allows there, and how it was counted."""

    mu: float
    allowed: float
    proof: str


def verdict(
    trials: Trials, event: Event, *, delta: float, confidence: float, in_a_tail: bool, ranked: bool = False
) -> dict[str, Any]:
    """Everything `fedpriv audit` says of its trials, as plain data.

    Where what tells x from x′ is rare, the count and a threshold are both tried, each with half of what may go wrong.
    `ranked` says beforehand that scores take many values, so that their ranks tell more than right guesses alone.
    """
    account = Account((event,))
    cost = account.epsilon(delta)
    lower, upper = cost.bounds
    if ranked and enough(confidence):
        found = [_by_ranks(trials, account, confidence)]
    else:
        each = 1 - (1 - confidence) / 2 if in_a_tail else confidence
        found = [_by_count(trials, account, each)] + ([_beyond(trials, account, each)] if in_a_tail else [])
    shown, audited = max(found), epsilon_lower(trials, delta, confidence)
    return {
        "canaries": len(trials), "confidence": confidence, "right": trials.right,
        "mu": {"audited": shown.mu, "certified": shown.allowed, "of_epsilon": mu_of_epsilon(upper, delta)},
        "epsilon": {
            "audited": audited, "shape": epsilon_of_shape(shown.mu, delta), "lower": lower, "upper": upper,
        },
        "delta": delta,
        "stands": all(own.mu <= own.allowed for own in found) and audited <= upper,
        "proof": {"audited": shown.proof, "certified": cost.upper_proof, "lower": cost.lower_proof},
    }  # fmt: skip


def _by_count(trials: Trials, account: Account, confidence: float) -> Found:
    """The plain count: under the certificate no attacker is right more often than (1 + δ(0))/2."""
    most = account.upper_delta(0.0)
    told = f"{trials.right:,} of {len(trials):,} fair coins told by the likelihood ratio"
    proof = f"{told}, Clopper–Pearson at {confidence:g}"
    return Found(trials.mu(confidence), mu_of_share((1 + min(most, 1.0)) / 2), proof)


def _by_ranks(trials: Trials, account: Account, confidence: float) -> Found:
    """Ranks: under the certificate no attacker's scores are further apart than those of the certificate's own curve."""
    shown = Ranks(trials).shown(confidence, lines_of(account))
    proof = (
        f"normal scores of the ranks of {len(trials):,} likelihood ratios, beside simulated audits, at {confidence:g}"
    )
    return Found(shown.mu, shown.allowed, proof)


def _beyond(trials: Trials, account: Account, confidence: float) -> Found:
    """A threshold from one half: under the certificate no attacker has a larger TPR at that FPR than 1 − f(FPR)."""
    point, lines = by_threshold(trials, confidence), lines_of(account)
    most = float(min((lines.intercepts + lines.slopes * point.false_positive).min(), 1.0))
    proof = (
        f"true and false positives beyond a threshold that one half of {len(trials):,} trials chose and the other "
        f"judged, Clopper–Pearson at {confidence:g}"
    )
    allowed = float(ndtri(most) - ndtri(point.false_positive)) if point.false_positive < 1 else 0.0  # of few trials
    return Found(point.mu, max(allowed, 0.0), proof)


def lines_of(account: Account) -> Lines:
    """What (ε, δ) certificates say of true and false positives: TPR ≤ δ + e^ε·FPR, and 1 − FPR ≤ δ + e^ε·(1 − TPR)."""
    epsilons = max(account.upper_epsilon(1e-6, ROUGH), 1e-3) * np.linspace(0, 1, SLOPES) ** 2
    deltas = np.array([account.upper_delta(float(epsilon), ROUGH) for epsilon in epsilons])
    steep, flat = np.exp(epsilons), np.exp(-epsilons)
    return Lines(np.concatenate([deltas, 1 - flat * (1 - deltas)]), np.concatenate([steep, flat]))
