"""What a lying server can open of a masked sum, by the rules of the graph alone, and a search for the worst of it.

    python tests/masked_cuts.py [--rosters 10000] [--seed 1]

`opened` is exact: `tests/fedpriv/masking/test_masking_attacks.py` holds it against the real state machines, and
against every choice that a server has on small circles. The search draws rosters of 5 to 1,000 nodes, and on each
looks for the dropouts by which the fewest clients' messages come out: all pairs of gaps in the circle, several
circles a roster, the fewest who may sign. Exit code 1 where a sum opens of fewer clients than are charged.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random

sys.path.append(str(Path(__file__).resolve().parent.parent))

from fedpriv.errors import FedprivError
from fedpriv.masking._graph import Arrangement, arranged
from fedpriv.masking.roster import Entry, Roster, Terms

CIRCLES = 4  # that the server tries for each roster, by whom it leaves out or by its colluders' keys
STARTS = 12  # gaps that a search begins with, where there are more
Members = int  # a set of places on the circle, a bit each


def those(places: Sequence[int]) -> Members:
    return sum(1 << place for place in places)


@dataclass(frozen=True, kw_only=True)
class Circle:
    """Members by their places on the circle, k neighbours each; `colluders` give the server all they hold."""

    members: int
    arrangement: Arrangement
    colluders: Members = 0

    @cached_property
    def closed(self) -> list[Members]:
        """Each member with its neighbours: the holders of its shares."""
        half, everyone = self.arrangement.degree // 2, (1 << self.members) - 1
        if self.arrangement.degree >= self.members - 1:
            return [everyone] * self.members
        window = (1 << (2 * half + 1)) - 1
        return [_turned(window, place - half, self.members) for place in range(self.members)]

    def around(self, part: Members) -> Members:
        """A part with all its neighbours."""
        found = 0
        for place in _places(part):
            found |= self.closed[place]
        return found


@dataclass(frozen=True, kw_only=True)
class Told:
    """What some members were told: who is present, by which model. Their masks fit nobody else's."""

    present: Members
    members: Members


def opened(circle: Circle, survivors: Members, *told: Told) -> tuple[Members, list[Members]]:
    """Who gives shares away, and every part whose sum alone the server can see, with all that it was ever sent.

    Who was told the first is what has signed the list; the others refuse to open it, and are listed all the same.
    """
    closed, threshold, first = circle.closed, circle.arrangement.threshold, told[0]
    enough = [
        those([each for each in _places(own.members) if (closed[each] & own.present).bit_count() >= threshold])
        for own in told
    ]
    givers = enough[0] & survivors & ~circle.colluders
    everyone = (1 << circle.members) - 1

    def given(holders: Members, whose: Members) -> Members:
        return those([each for each in _places(whose) if (closed[each] & holders).bit_count() >= threshold])

    by_colluders = given(circle.colluders, everyone) if circle.colluders.bit_count() >= threshold else 0
    known = circle.colluders | by_colluders | given(givers | circle.colluders, first.present & ~survivors)
    seeds = by_colluders | given(givers | circle.colluders, first.present & survivors)
    parts = []
    for own, able in zip(told, enough, strict=True):
        for part in _pieces(circle, able & ~circle.colluders, known):
            border = circle.around(part) & ~part & own.present & ~known if part & ~known else 0
            if not border and not part & ~seeds:
                parts.append(part)
    return givers, parts


def _pieces(circle: Circle, members: Members, known: Members) -> Iterator[Members]:
    """What masks hold together that nobody else can work out; whose key is known stands alone."""
    for place in _places(members & known):
        yield 1 << place
    members &= ~known
    while members:
        part = members & -members
        while (grown := circle.around(part) & members) != part:
            part = grown
        yield part
        members &= ~part


def _places(members: Members) -> Iterator[int]:
    while members:
        yield (members & -members).bit_length() - 1
        members &= members - 1


def _turned(members: Members, by: int, count: int) -> Members:
    by %= count
    return (members << by | members >> (count - by)) & ((1 << count) - 1)


# --- the worst a server can choose ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A roster as the server meets it: the circle, whose clients are whose, and what a list has to reach."""

    circle: Circle
    clients: Sequence[int]  # by place
    nodes: int
    threshold: int  # clients

    def spoken(self, members: Members) -> int:
        return sum(self.clients[place] for place in _places(members))

    @property
    def charged(self) -> int:
        """The clients whose noise is counted on."""
        return self.threshold - self.spoken(self.circle.colluders)


def smallest(setting: Setting, rng: Random) -> int:
    """The fewest honest clients whose sum the server can see."""
    return min([_fewest_signers(setting, rng), *_cuts(setting, rng)])


def _fewest_signers(setting: Setting, rng: Random) -> int:
    """All who survive are one part; only who signs has looked at its own count, so all others' may be dropped."""
    everyone, found = list(range(setting.circle.members)), sum(setting.clients)
    for order in (sorted(everyone, key=lambda each: setting.clients[each]), rng.sample(everyone, len(everyone))):
        order.sort(key=lambda each: not setting.circle.colluders >> each & 1)  # who works with the server comes first
        signers, spoken = list(order), sum(setting.clients)
        for each in reversed(order):
            if len(signers) > setting.nodes and spoken - setting.clients[each] >= setting.threshold:
                signers.remove(each)
                spoken -= setting.clients[each]
        found = min(found, setting.spoken(those(signers) & ~setting.circle.colluders))
    return found


def _cuts(setting: Setting, rng: Random) -> Iterator[int]:
    """The clients of the parts between two gaps of half the neighbours, wherever a gap's keys can be had."""
    circle, count = setting.circle, setting.circle.members
    half, threshold = circle.arrangement.degree // 2, circle.arrangement.threshold
    if circle.arrangement.degree >= count - 1:
        return
    gap = (1 << half) - 1
    gaps = [_turned(gap, place, count) for place in range(count)]
    possible = [place for place in range(count)
                if (gaps[place] & circle.colluders).bit_count() + half + 1 >= threshold]  # fmt: skip
    for first in rng.sample(possible, min(STARTS, len(possible))):
        for second in sorted(possible, key=lambda place: (place - first) % count):
            if gaps[first] & gaps[second]:
                continue
            if (found := _between(setting, gaps[first] | gaps[second])) is not None:
                yield found
                break


def _between(setting: Setting, gone: Members) -> int | None:
    """The clients of the smallest part that opens, if who is left may open anything."""
    everyone = (1 << setting.circle.members) - 1
    survivors = everyone & ~(gone & ~setting.circle.colluders)
    if survivors.bit_count() < setting.nodes or setting.spoken(survivors) < setting.threshold:
        return None
    givers, parts = opened(setting.circle, survivors, Told(present=everyone, members=everyone))
    signers = givers | (survivors & setting.circle.colluders)
    if signers.bit_count() < setting.nodes or setting.spoken(signers) < setting.threshold or len(parts) < 2:
        return None
    return min(map(setting.spoken, parts))


# --- rosters --------------------------------------------------------------------------------------------------------


def drawn(rng: Random) -> list[Setting]:
    """One roster, uneven or even, on several circles, among whose nodes as many collude as its study supposes."""
    while True:
        count = round(5 * 200 ** rng.random())
        hosted = dict(enumerate(_uneven(rng, count)))
        asked = sum(hosted.values())
        colluding = rng.choice([0, 0, 1, rng.randint(0, asked // 4)])
        least = (asked + colluding) // 2 + 1
        if least > asked:
            continue
        terms = Terms(about=rng.randbytes(32), round=1, threshold=rng.randint(least, asked), hosted=hosted,
                      colluding=colluding, neighbours=0)  # fmt: skip
        with suppress(FedprivError):  # fewer nodes than may open anything
            terms = replace(terms, neighbours=rng.choice([0, None, _fewest(rng, terms), _fewest(rng, terms)]))
            return [_setting(rng, terms) for _ in range(CIRCLES)]


def _fewest(rng: Random, terms: Terms) -> int:
    """As few neighbours as a study may ask for."""
    nodes = Roster(terms, _entries(rng, terms)).nodes
    for degree in range(2, len(terms.hosted), 2):
        with suppress(FedprivError):
            return arranged(len(terms.hosted), nodes, terms.colluding, degree).degree
    return 0


def _uneven(rng: Random, count: int) -> list[int]:
    how = rng.randrange(4)
    if how == 0:
        return [rng.choice([1, 1, 8, 40])] * count
    if how == 1:
        return [rng.randint(1, 40) for _ in range(count)]
    if how == 2:
        return [1 + int(40 * rng.random() ** 8) for _ in range(count)]
    return [rng.randint(1, 1 + count)] + [1] * (count - 1)


def _setting(rng: Random, terms: Terms) -> Setting:
    """A roster of the real code, and its circle."""
    roster = Roster(terms, entries := _entries(rng, terms))
    left, with_server = terms.colluding, []
    for each in rng.sample(sorted(entries), len(entries)):
        if terms.hosted[each] <= left:
            left -= terms.hosted[each]
            with_server.append(roster.place(each) - 1)
    clients = [terms.hosted[each] for each in sorted(entries, key=roster.place)]
    circle = Circle(members=len(entries), arrangement=roster.arrangement, colluders=those(with_server))
    return Setting(circle=circle, clients=clients, nodes=roster.nodes, threshold=terms.threshold)


def _entries(rng: Random, terms: Terms) -> dict[int, Entry]:
    return {each: Entry(own, rng.randbytes(32), rng.randbytes(32)) for each, own in terms.hosted.items()}


def searched(rosters: int, seed: int) -> Iterator[tuple[Setting, int]]:
    """Rosters with the fewest clients whose sum the server can see, of all circles it has tried."""
    rng = Random(seed)
    for _ in range(rosters):
        yield min(((each, smallest(each, rng)) for each in drawn(rng)), key=lambda found: found[1] - found[0].charged)


def weaker(setting: Setting) -> Setting:
    """The same with a secret's threshold at what a gap leaves: the mistake that the search has to find."""
    degree = setting.circle.arrangement.degree
    return replace(setting, circle=replace(setting.circle, arrangement=Arrangement(degree, degree // 2 + 1)))


def main() -> int:
    parser = argparse.ArgumentParser(description="sums that open of fewer clients than are charged")
    parser.add_argument("--rosters", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begun, short, sparse, largest, margin = time.perf_counter(), 0, 0, 0, sys.maxsize
    for setting, found in searched(options.rosters, options.seed):
        short += found < setting.charged
        sparse += setting.circle.arrangement.degree < setting.circle.members - 1
        largest, margin = max(largest, setting.circle.members), min(margin, found - setting.charged)
    took = time.perf_counter() - begun
    print(f"{options.rosters:,} rosters of up to {largest:,} nodes, {sparse:,} on sparse graphs, {took:.0f} s: {short} "
          f"open fewer clients than are charged; the closest opens {margin} more than charged")  # fmt: skip
    return int(short > 0)


if __name__ == "__main__":
    sys.exit(main())
