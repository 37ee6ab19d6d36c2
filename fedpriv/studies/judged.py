"""Whom the votes of a study are judged against: its own attackers, as far as their votes are known beforehand."""

from __future__ import annotations

from typing import NamedTuple

from fedpriv.attacks import SignFlip, VoteAgainst
from fedpriv.mechanisms import Ternary
from fedpriv.mechanisms.abilities import FiniteLaw, Voting
from fedpriv.studies.study import Study
from fedpriv.tolerance.ballots import Attack, attack_probabilities


class Judged(NamedTuple):
    """Attackers as `fedpriv.tolerance` knows them."""

    attack: Attack
    probability: float | None = None  # in the place of an attack's word: how often a vote of theirs is wrong

    @property
    def words(self) -> str:
        """Who they are, for records and people."""
        return self.attack if self.probability is None else f"wrong with probability {self.probability:g}"


def judged_attackers(study: Study) -> Judged:
    """The study's attackers, or the worst there are in the place of those whose votes depend on more than the mean.

    A SignFlip is blind where its factor is lost in the norm, or is 1. Of a VoteAgainst, which votes against the sign
    of what it knows, p is the most that its votes are wrong; where p does no harm, the worst stand for it too.
    """
    mechanism = study.privacy.drawn_by
    match study.attacker:
        case SignFlip(factor=factor) if factor == 1 or study.privacy.norm == "normalise":
            return Judged("blind")
        case VoteAgainst(probability=p) if isinstance(mechanism, Voting | Ternary) and not isinstance(
            mechanism, FiniteLaw
        ):
            low, high = attack_probabilities(mechanism)
            return Judged("blind", p * high) if p * high > low else Judged("omniscient")
    return Judged("omniscient")
