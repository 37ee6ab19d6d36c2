"""What an audit found, beside what is certified: bounds with a confidence, and whether the certificate stands."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event
from fedpriv.auditing.ranks import Lines, Ranks, can_be_confident
from fedpriv.auditing.statistic import (
    Trials,
    by_threshold,
    epsilon_lower,
    epsilon_of_shape,
    mu_of_epsilon,
    mu_of_share,
)
from fedpriv.curves.compose import ROUGH

SLOPES = 16  # lines of the certified curve that a point is held against


class Found(NamedTuple):
    """What releases show of μ beside what is certified, and how it was counted."""

    mu: float  # that releases show at least
    allowed: float  # the most that the certificate allows there
    proof: str  # in words


def audit_verdict(
    trials: Trials,
    event: Event,  # what the trials' releases cost together
    *,
    delta: float,
    confidence: float,
    in_a_tail: bool,  # what tells x from x′ is rare: count and threshold are tried, each with half of what may go wrong
    ranked: bool = False,  # scores take many values, known beforehand: their ranks tell more than right guesses alone
) -> dict[str, Any]:
    """Everything `fedpriv audit` says of its trials, as plain data: what they show, and if the certificate stands."""
    account = Account((event,))
    cost = account.epsilon(delta)
    lower, upper = cost.bounds
    if ranked and can_be_confident(confidence):  # no scores are further apart than those of the certificate's own curve
        told = f"normal scores of the ranks of {len(trials):,} likelihood ratios, beside simulated audits"
        found = [Found(*Ranks(trials).shown(confidence, lines_of(account)), f"{told}, at {as_level(confidence)}")]
    else:  # no attacker is right more often than (1 + δ(0))/2
        each = 1 - (1 - confidence) / 2 if in_a_tail else confidence
        allowed = mu_of_share((1 + min(account.upper_delta(0.0), 1.0)) / 2)
        told = f"{trials.right:,} of {len(trials):,} fair coins told by the likelihood ratio"
        found = [Found(trials.mu(each), allowed, f"{told}, Clopper–Pearson at {as_level(each)}")]
        if in_a_tail:  # the most that the certificate allows beyond a threshold that half of the trials chose
            point, lines = by_threshold(trials, each), lines_of(account)
            most = float(min((lines.intercepts + lines.slopes * point.false_positive).min(), 1.0))
            allowed = float(ndtri(most) - ndtri(point.false_positive)) if point.false_positive < 1 else 0.0
            told = (
                f"true and false positives beyond a threshold that one half of {len(trials):,} trials chose and the "
                f"other judged, Clopper–Pearson at {as_level(each)}"
            )
            found.append(Found(point.mu, max(allowed, 0.0), told))
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


def more_than_held(trials: Trials, most: float) -> str:
    """What is wrong where an audit told more coins than its canaries' own inputs allow; empty where nothing is.

    `most` is the share that the best guesser of these inputs tells, exactly. It is no certificate, which is of all
    inputs and may allow more, so nothing but another noise or another bound than described accounts for it. So many
    right guesses of a described one come about less than once in a million audits.

    >>> more_than_held(Trials(np.arange(100) % 2 == 0, np.where(np.arange(100) % 2 == 0, 1.0, -1.0)), 0.5)[:55]
    '100 of 100 coins were told, where the inputs that canar'
    """
    if not trials.share(1 - 1e-6) > most:
        return ""
    return (
        f"{trials.right:,} of {len(trials):,} coins were told, where the inputs that canaries hold allow a share of "
        f"{most:.4g} (less than once in a million audits): the noise or the bound is another than described"
    )


def as_level(confidence: float) -> str:
    """An audit's confidence in words, as short as it goes without saying 1.

    >>> as_level(0.99), as_level(1 - 1e-9)
    ('0.99', '0.999999999')
    """
    short = f"{confidence:g}"
    return short if float(short) < 1 else repr(confidence)


def lines_of(account: Account) -> Lines:
    """What an account's certificates allow an attacker of true and of false positives: lines an audit is held to.

    TPR ≤ δ + e^ε·FPR, and 1 − FPR ≤ δ + e^ε·(1 − TPR).
    """
    epsilons = max(account.upper_epsilon(1e-6, ROUGH), 1e-3) * np.linspace(0, 1, SLOPES) ** 2
    deltas = np.array([account.upper_delta(float(epsilon), ROUGH) for epsilon in epsilons])
    steep, flat = np.exp(epsilons), np.exp(-epsilons)
    return Lines(np.concatenate([deltas, 1 - flat * (1 - deltas)]), np.concatenate([steep, flat]))
