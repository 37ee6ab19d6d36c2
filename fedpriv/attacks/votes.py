"""Attackers who vote against what the honest clients want, by guess or by knowledge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv.arrays import Symbols, Vector
from fedpriv.attacks.messages import extremes, shared_signs
from fedpriv.attacks.view import Knowledge, View
from fedpriv.errors import probability
from fedpriv.mechanisms import Mechanism, Ternary
from fedpriv.packed_forms import smallest

TERNARY = range(-1, 2)


@dataclass(frozen=True, kw_only=True)
class VoteAgainst:
    """Each of an attacker's votes is against sign μ_j with a probability of its own choice: [F] Theorem 10, p_att.

    μ is the mean of the updates it knows; a zero counts as a plus. A message of M votes holds Bin(M, p_att) of them, as
    each symbol of an alphabet 0 … M is that many. A ternary message is zero as often as an honest one, 1 − A/B
    ([F] Theorem 11 with its p_att, q_att for p_att·A/B and the rest). Without an alphabet a message is one vote, as far
    out as noise reaches. Blind attackers of [F] section 5 are those with ½ + |x̄|/2B.
    """

    probability: float = 1.0

    knowledge: ClassVar[tuple[Knowledge, ...]] = ("own", "byzantine", "everything")

    def __post_init__(self) -> None:
        probability(probability=self.probability)

    def on_messages(self, updates: Vector, view: View) -> Symbols | Vector:
        """A row of symbols for each generator."""
        plus = np.where(view.mean >= 0, 1 - self.probability, self.probability)
        return np.stack([_votes(view.mechanism, plus, rng) for rng in view.generators()])


@dataclass(frozen=True, kw_only=True)
class OmniscientVote:
    """Every attacker sends −sign(V), V the vote of the honest messages: no other votes turn more coordinates.

    Where V = 0, a sign that all share. `stealthy`: so only where |V| is no more than what f extreme messages weigh, so
    that they turn the vote or make it a tie; elsewhere they vote with the others.
    """

    stealthy: bool = False

    knowledge: ClassVar[tuple[Knowledge, ...]] = ("everything",)

    def on_messages(self, updates: Vector, view: View) -> Symbols | Vector:
        """The same row for all."""
        low, high = extremes(view.mechanism)
        vote = view.once("vote", lambda: honest_vote(view))
        up = np.where(vote == 0, shared_signs(updates, view), vote < 0)
        if self.stealthy:
            up = np.where(np.abs(vote) <= view.byzantine * _weight(view.mechanism), up, vote > 0)
        return np.where(up, high, low)


def honest_vote(view: View) -> Vector:
    """V: how far the honest symbols are from the middle of the alphabet, added up and doubled; of reals their signs."""
    low, high = extremes(view.mechanism)
    if low.dtype.kind == "f":
        return np.asarray(np.sign(view.messages).sum(axis=0, dtype=np.float64))
    messages = view.messages
    total = messages.sum(axis=0, dtype=np.int64)
    return np.asarray(2 * total - len(messages) * (int(low) + int(high)), np.float64)


def _weight(mechanism: Mechanism) -> float:
    """How much one message can add to V."""
    low, high = extremes(mechanism)
    return 1.0 if low.dtype.kind == "f" else float(high) - float(low)


def _votes(mechanism: Mechanism, plus: Vector, rng: Generator) -> NDArray[np.generic]:
    """One message whose votes are + with these probabilities."""
    alphabet = mechanism.alphabet
    if alphabet is not None and alphabet != TERNARY:
        steps = rng.binomial(len(alphabet) - 1, plus)
        return np.asarray((alphabet.start + alphabet.step * steps).astype(smallest(alphabet)))
    low, high = extremes(mechanism)
    votes = np.where(rng.random(len(plus)) < plus, high, low)
    if isinstance(mechanism, Ternary):
        votes[rng.random(len(plus)) >= mechanism.spread / mechanism.scale] = 0
    return votes
