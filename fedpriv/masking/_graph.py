"""Who is masked with whom: everybody with everybody, or k neighbours each on a circle (Bell et al. 2020).

A member's secrets are shared out to its neighbours and itself, k + 1 in all, t of whom can give one back. The circle
follows from all keys, and the server has seen it before it says who drops out; it and the c that work with it may also
have tried many circles, by their own keys and by whom they leave out. Of n members three things are asked
(docs/proofs/masked-sums.md):

1. 2t > k + 1 + c', where c' of those k + 1 may work with the server: it gets t shares of one of a member's two secrets
   at most, and no seed of a member that does not sign what the others do.
2. At least t of those k + 1 stay, where members drop out by chance.
3. t > k/2 + 1 + g, where one of any two gaps of k/2 that stand next to each other holds at most g that work with the
   server: whoever it lets drop out, the sum does not come apart.

Neighbours and gaps are draws from all, so these are tails of hypergeometric laws. One circle fails the first or the
third with a chance of 2⁻⁸⁰ each, so that one of 2⁴⁰ circles that are tried does with 2⁻⁴⁰; the second costs the round
and no secret: 2⁻³⁰.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import NamedTuple

from fedpriv.errors import FedprivError

SECRECY = Fraction(1, 2**80)  # the chance that one circle fails the first or the third
SUCCESS = Fraction(1, 2**30)  # the chance that it fails the second
ONE_GAP = Fraction(1, 2**40)  # two of them have the square of it, halved: counts of gaps are negatively associated
SUPPOSED = Fraction(1, 5)  # a graph of our own choice keeps its promise where so many work with the server


class Arrangement(NamedTuple):
    """A graph: how many neighbours each member has, and how many holders can give a secret back."""

    degree: int  # k
    threshold: int  # t


@lru_cache(maxsize=64)
def arranged(members: int, survivors: int, colluding: int, neighbours: int | None) -> Arrangement:
    """A masked sum's graph for so many members, of whom `survivors` must stay; the smallest where none is asked for.

    `neighbours` is 0 for everybody.

    >>> arranged(5, 4, colluding=0, neighbours=None), arranged(1000, 900, 0, None)
    (Arrangement(degree=4, threshold=4), Arrangement(degree=222, threshold=170))
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


def check_arranged(members: int, survivors: int, colluding: int, neighbours: int | None) -> None:
    """Refuse a masked sum whose members no graph can serve: too few must stay, or too few are neighbours."""
    arranged(members, survivors, colluding, neighbours)


def fewest_neighbours(members: int, survivors: int, colluding: int, own: int | None) -> int:
    """How many neighbours a node's owner asks of a masked sum at least; `own`: so many, 0 all, None as many as safe.

    >>> fewest_neighbours(1000, 900, 0, None), fewest_neighbours(5, 4, 0, 20), fewest_neighbours(1000, 900, 0, 20)
    (222, 4, 20)
    """
    if own is None:
        return arranged(members, survivors, colluding, None).degree
    return min(own or members - 1, members - 1)


def _sparse(members: int, survivors: int, colluding: int, degree: int) -> Arrangement | None:
    """A masked sum's graph of so many neighbours each, if it keeps the three promises above; else None."""
    dropped, with_server = members - survivors, min(colluding, members - 1)
    if degree * (2 * dropped + with_server - members) >= 4 * members:
        return None  # whatever the tails: medians are within 1 of means
    of_survivor = 1 + degree - _most(members - 1, dropped, degree, SUCCESS / members)
    of_dropped = degree - _most(members - 1, max(dropped - 1, 0), degree, SUCCESS / members)
    threshold = min(of_survivor, of_dropped) if dropped else of_survivor
    # g: two gaps that both hold more that work with the server are never on one circle, or on none in 2⁸⁰
    in_gap = min(with_server // 2, _most(members, with_server, degree // 2, ONE_GAP / members))
    if not threshold > degree // 2 + 1 + in_gap:
        return None
    corrupt = _most(members - 1, with_server, degree, SECRECY / members)
    return Arrangement(degree, threshold) if 2 * threshold > degree + 1 + corrupt else None


def _most(others: int, marked: int, drawn: int, chance: Fraction) -> int:
    """The number that marked members (dropped, colluding) among drawn neighbours exceed with this chance at most."""
    most = min(marked, drawn)
    limit, above, term = comb(others, drawn) * chance, 0, comb(marked, most) * comb(others - marked, drawn - most)
    while most > 0:
        above += term
        if above > limit:
            return most
        term = term * most * (others - marked - drawn + most) // ((marked - most + 1) * (drawn - most + 1))
        most -= 1
    return most
