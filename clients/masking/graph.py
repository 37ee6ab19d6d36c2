"""Who is masked with whom: everybody with everybody, or k neighbours each on a circle nobody chose (Bell et al. 2020).

A member's secrets are shared out to its neighbours and itself, k + 1 in all, t of whom can give one back. With n
members, d that may drop out and c that may work with the server, three things are asked, each but for a chance of 2⁻⁴⁰
(2⁻³⁰ for the second, which costs the round and no secret), for all members at once:

1. 2t > k + 1 + c', where c' of those k + 1 may work with the server: a server that names other survivors to each member
   gets t shares of one of its two secrets at most, as every honest holder gives one of the two once.
2. At least t of those k + 1 stay.
3. The graph stays in one piece without those d and c, so that no sum of fewer comes apart: on a circle with the next
   k/2 on either side that is so unless k/2 that stand next to each other are gone (their Lemma 3.7).

Neighbours are a uniform draw from the others, so the first two are tails of hypergeometric laws.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb, prod
from typing import NamedTuple

from fedpriv.errors import FedprivError

SECRECY, SUCCESS = Fraction(1, 2**40), Fraction(1, 2**30)
SUPPOSED = Fraction(1, 5)  # a graph of our own choice keeps its promise where so many work with the server


class Arrangement(NamedTuple):
    """How many neighbours each member has, and how many holders can give a secret back."""

    degree: int
    threshold: int


@lru_cache(maxsize=64)
def arranged(members: int, survivors: int, colluding: int, neighbours: int | None) -> Arrangement:
    """The arrangement for so many members of whom `survivors` must stay; the smallest there is where none is asked for.

    `neighbours` is 0 for everybody.

    >>> arranged(5, 4, colluding=0, neighbours=None), arranged(1000, 900, 0, None)
    (Arrangement(degree=4, threshold=4), Arrangement(degree=160, threshold=117))
    """
    if not 0 < survivors <= members or not colluding >= 0:
        raise FedprivError(f"masking: {survivors} of {members} nodes are to stay, with {colluding} colluding")
    if not 2 * survivors > members + colluding:
        raise FedprivError(f"masking: {survivors} nodes must be more than half of {members} and {colluding} colluding")
    if neighbours is None:
        supposed = max(colluding, -(-members * SUPPOSED.numerator // SUPPOSED.denominator))
        found = (_sparse(members, survivors, supposed, degree) for degree in range(2, members - 1, 2))
        return next(filter(None, found), Arrangement(members - 1, survivors))
    if neighbours == 0 or neighbours >= members - 1:
        return Arrangement(members - 1, survivors)
    sparse = _sparse(members, survivors, colluding, neighbours) if neighbours % 2 == 0 else None
    if sparse is None:
        raise FedprivError(
            f"masking: neighbours = {neighbours} are too few, or odd, for {members} nodes of whom {survivors} must "
            "stay (0: all)"
        )
    return sparse


def _sparse(members: int, survivors: int, colluding: int, degree: int) -> Arrangement | None:
    """The arrangement of that degree, if it keeps its promises."""
    dropped = members - survivors
    if members * _all_gone(members, dropped + colluding, degree // 2) > SECRECY:
        return None
    corrupt = _most(members - 1, min(colluding, members - 1), degree, SECRECY / members)
    of_survivor = 1 + degree - _most(members - 1, dropped, degree, SUCCESS / members)
    of_dropped = degree - _most(members - 1, max(dropped - 1, 0), degree, SUCCESS / members)
    threshold = min(of_survivor, of_dropped) if dropped else of_survivor
    return Arrangement(degree, threshold) if 2 * threshold > degree + 1 + corrupt else None


def _all_gone(members: int, gone: int, drawn: int) -> Fraction:
    """The chance that all of so many are among those gone."""
    return (
        Fraction(prod(range(gone, gone - drawn, -1)), prod(range(members, members - drawn, -1)))
        if gone >= drawn
        else Fraction(0)
    )


def _most(others: int, marked: int, drawn: int, chance: Fraction) -> int:
    """The least number that the marked ones among those drawn exceed with no more than this chance."""
    total, above, most = comb(others, drawn), 0, min(marked, drawn)
    while most > 0:
        above += comb(marked, most) * comb(others - marked, drawn - most)
        if Fraction(above, total) > chance:
            return most
        most -= 1
    return most
