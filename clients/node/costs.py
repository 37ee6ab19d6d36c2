"""What a node's events cost together: by its budget, and for a record."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import get_args

from fedpriv.accounting.account import Account, spent_epsilon
from fedpriv.accounting.event import Event
from fedpriv.trust import Unit


@lru_cache(maxsize=4096)
def counted_epsilon(events: tuple[Event, ...], delta: float, alike: bool) -> float:
    """The ε that a node's budget counts for all these events, whatever is asked next; `alike`: none was chosen."""
    return spent_epsilon(_comparable(events), delta, partial(total_epsilon, events) if alike else None)


@lru_cache(maxsize=4096)  # an audit asks the same again and again
def total_epsilon(events: tuple[Event, ...], delta: float) -> float:
    """An upper bound of ε(δ) of a node's events together, for a record; where all are of clients, for a client too.

    Whatever hides all of a client's data hides one record of them, so the two units add up: their ε, each at half the
    δ, by basic composition. Where some are of one record in the place of another, all are costed as such.
    """
    known = _comparable(events)
    groups = [own for unit in get_args(Unit) if (own := tuple(each for each in known if each.unit == unit))]
    return sum(Account(own).upper_epsilon(delta / len(groups)) for own in groups)


def _comparable(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """A node's events, those of each unit under one adjacency, so that they can be costed together."""
    found: list[Event] = []
    for unit in get_args(Unit):
        own = [each for each in events if each.unit == unit]
        if len({each.adjacency for each in own}) > 1:
            own = [replace(each, adjacency="replace") for each in own]
        found += own
    return tuple(found)
