"""Attackers who vote against what the honest clients want, by guess or by knowledge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.attacks._messages import extremes, shared_signs
from fedpriv.attacks._view import Knowledge, View
from fedpriv.errors import probability
from fedpriv.mechanisms import Ternary
from fedpriv.mechanisms.centre import votes_past_centre
from fedpriv.packed.forms import Planes, smallest_type
from fedpriv.packed.symbols import packing_of
from fedpriv.settings import check_fields

Chance = Annotated[float, probability, "p_att, how likely each vote is against sign μ"]


@dataclass(frozen=True, kw_only=True)
class VoteAgainst:
    """Each of an attacker's votes is against sign μ_j with a probability of its own choice: [F] Theorem 10, p_att.

    μ is the mean of the updates it knows; a zero counts as a plus. A message of M votes holds Bin(M, p_att) of them, as
    each symbol of an alphabet 0 … M is that many. A ternary message is zero as often as an honest one, 1 − A/B
    ([F] Theorem 11 with its p_att, q_att for p_att·A/B and the rest). Without an alphabet a message is one vote, as far
    out as noise reaches. Blind attackers of [F] section 5 are those with ½ + |x̄|/2B.
    """

    probability: Chance = 1.0

    knowledge: ClassVar[tuple[Knowledge, ...]] = ("own", "byzantine", "everything")

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a chance of a wrong vote that is no probability."""
        check_fields(self)

    def on_messages(self, updates: Vector, view: View) -> Symbols | Vector:
        """The attackers' messages, rows of symbols: votes drawn against the sign of the mean of known updates."""
        plus = np.where(view.mean >= 0, 1 - self.probability, self.probability)
        mechanism, alphabet = view.mechanism, view.mechanism.alphabet
        if alphabet is not None and isinstance(packing_of(mechanism), Planes):
            # Of a step up: by a coin that is fair the message lies at the mechanism's centre in the mean.
            fair = min(max(float((mechanism.centre - alphabet[0]) / (alphabet[-1] - alphabet[0])), 0.0), 1.0)
            chance = np.where(plus < 0.5, 2 * fair * plus, fair + (2 * plus - 1) * (1 - fair))
            steps = np.stack([rng.binomial(len(alphabet) - 1, chance) for rng in view.generators()])
            return np.asarray((alphabet.start + alphabet.step * steps).astype(smallest_type(alphabet)))
        low, high = extremes(mechanism)
        rows = []
        for rng in view.generators():
            votes = np.where(rng.random(len(plus)) < plus, high, low)
            if isinstance(mechanism, Ternary):
                votes[rng.random(len(plus)) >= mechanism.spread / mechanism.scale] = 0
            rows.append(votes)
        return np.stack(rows)


@dataclass(frozen=True, kw_only=True)
class OmniscientVote:
    """Every attacker sends −sign(V), V the vote of the honest messages: no other votes turn more coordinates.

    V counts as the study's rule does: a ClientVote one sign a message, every other rule how far the symbols add up.
    Where V = 0, a sign that all share. `stealthy`: so only where |V| is no more than what f extreme messages weigh, so
    that they turn the vote or make it a tie; elsewhere they vote with the others.
    """

    stealthy: Annotated[bool, "whether it votes with the others where it cannot turn the vote"] = False

    knowledge: ClassVar[tuple[Knowledge, ...]] = ("everything",)

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a `stealthy` that is neither true nor false."""
        check_fields(self)

    def on_messages(self, updates: Vector, view: View) -> Symbols | Vector:
        """The message of every attacker alike, symbols against the honest messages' vote in each coordinate."""
        low, high = extremes(view.mechanism)
        vote = view.once("vote", lambda: honest_vote(view))
        up = np.where(vote == 0, shared_signs(updates, view), vote < 0)
        if self.stealthy:
            # By so much a message at either end of the alphabet moves V, and f of them turn it where it is no farther.
            ends = (-1, 1) if _by_sign(view) else votes_past_centre(np.array([low, high]), 1, view.mechanism.centre)
            most, least = (view.byzantine * -float(end) for end in ends)
            up = np.where((least <= vote) & (vote <= most), up, vote > 0)
        return np.where(up, high, low)


def honest_vote(view: View) -> Vector:
    """V, the vote of the round's honest messages as the rule counts: sums past the centre, doubled, or of signs."""
    messages, centre = view.messages, view.mechanism.centre
    if _by_sign(view):
        return np.asarray(sum(np.sign(votes_past_centre(row, 1, centre)) for row in messages), np.float64)
    return votes_past_centre(messages.sum(axis=0, dtype=np.int64), len(messages), centre)


def _by_sign(view: View) -> bool:
    """Whether each message counts as one vote by its sign: as the rule has it, or because it is of reals."""
    return view.one_vote or extremes(view.mechanism)[0].dtype.kind == "f"
