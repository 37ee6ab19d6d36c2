"""Privacy, bits, error and attackers together: each mechanism that meets a target (ε, δ), and what it then comes to.

Privacy is given, and everything else follows from it: `compared_mechanisms` calibrates every mechanism that a client's
message can have, under local trust and where sums alone are seen. A `Candidate` says what is sent and how far the mean
is off; `attackers_survived` how many attackers its vote survives. [F] section 5 calls it the three-way tradeoff.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedpriv.errors import FedprivError, Unreachable
from fedpriv.frontier._search import candidates_of
from fedpriv.frontier.candidates import (
    TRUSTS,
    Candidate,
    Survived,
    Target,
    attackers_survived,
    unbeaten_candidates,
)
from fedpriv.mechanisms import MECHANISMS
from fedpriv.trust import Word

__all__ = [
    "TRUSTS", "Candidate", "Compared", "Survived", "Target", "attackers_survived",
    "compared_mechanisms", "unbeaten_candidates",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Compared:
    """All mechanisms beside one another under one trust."""

    trust: Word
    points: tuple[Candidate, ...]  # every setting that was tried and meets the target, kind by kind
    left_out: dict[str, str]  # kinds that cannot, and why

    @property
    def best(self) -> list[Candidate]:
        """Of each kind the settings of least error, the least first; kinds without a mean come last."""
        found: dict[str, Candidate] = {}
        for each in self.points:
            if each.kind not in found or each.distance < found[each.kind].distance:
                found[each.kind] = each
        return sorted(found.values(), key=lambda each: each.distance)


def compared_mechanisms(target: Target) -> list[Compared]:
    """Every mechanism calibrated to the target, under each trust; refused where no mechanism meets it under any.

    >>> local, summed = compared_mechanisms(Target(epsilon=0.5, delta=1e-5, clients=20, dimension=1))
    >>> local.best[0].kind, round(local.best[0].distance, 3), summed.left_out["Gaussian"]
    ('Binomial', 0.885, 'Gaussian sends reals, which secure aggregation cannot add')
    """
    found, refused = [], list[tuple[str, Unreachable]]()
    for word in TRUSTS:
        points, left_out = list[Candidate](), dict[str, str]()
        for kind in MECHANISMS:
            try:
                points += candidates_of(target, kind, word)
            except FedprivError as error:
                left_out[kind] = str(error)
                refused += [(f"{kind} under {word} trust", error)] if isinstance(error, Unreachable) else []
        found.append(Compared(trust=word, points=tuple(points), left_out=left_out))
    if not any(own.points for own in found):
        name, nearest = min(refused, key=lambda one: one[1].best)
        raise Unreachable(f"no mechanism reaches the target. The nearest is {name}: {nearest}", nearest.best)
    return found
