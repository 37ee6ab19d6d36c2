"""Everything that a server sees beside messages, of a node and of its neighbour: it must be the same.

Refusals and their words, whether there is an answer, of whom, of how many bytes, in which records, and who failed why.
Both nodes are asked the same script: rounds, the same again, and what no honest server asks. Time is not looked at.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from fedpriv._base.arrays import Rows
from simulations.audit._node_asks import heard
from simulations.audit._node_charges import Fault, other_price, overspent, still, uncharged
from simulations.audit._node_home import Copy, ledger_of
from simulations.audit._node_script import other_studies, tried
from simulations.audit._node_trials import Asked, World, session

SESSIONS = 2  # of each world with an empty ledger; and one with the ledger as it stands
CHARGE = "clients"  # is in each line of a ledger that is a charge
LONGEST = 300  # characters of what is told of an answer


class Seen(NamedTuple):
    """What was compared, and what was found."""

    asks: int  # questions, to both worlds
    answers: int  # how many of them were not refused
    faults: tuple[Fault, ...]  # each once


@dataclass
class Sitting:
    """One script asked of one world: what was heard, and what its ledger says of what left."""

    heard: list[tuple[str, str]] = field(default_factory=list)  # what each question is called, and what came back
    answers: int = 0  # questions that were not refused
    faults: list[Fault] = field(default_factory=list)  # what is one whatever the other world says
    charges: list[str] = field(default_factory=list)  # lines of the ledger
    # Noisy counts behind the clip norms of rounds that were all asked alike, by client.
    counts: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))


def compared(copy: Copy, worlds: tuple[World, World], asked: Asked, weights: Rows) -> Seen:
    """Ask the node and its neighbour the same script, and collect all but messages that tells them apart, as faults."""
    asks, answers, faults, names = 0, 0, list[Fault](), [world.name for world in worlds]
    counts = defaultdict[tuple[int, int], list[float]](list)  # by world and client
    for as_it_stands in (False, True):
        sides = []
        for world in worlds:
            times = range(1 if as_it_stands else SESSIONS)
            with world.at(copy):
                sides.append([_sitting(copy, asked, weights, as_it_stands=as_it_stands) for _ in times])
        for place, sat in [(0, sat) for sat in sides[0]] + [(1, sat) for sat in sides[1]]:
            asks, answers, faults = asks + len(sat.heard), answers + sat.answers, faults + sat.faults
            for client, some in sat.counts.items():
                counts[place, client] += some
        for place, (about, _) in enumerate(sides[0][0].heard):
            was, now = ({each.heard[place][1] for each in side} for side in sides)
            if was != now:
                faults.append(Fault(about, f"{names[0]}: {_either(was)}; {names[1]}: {_either(now)}"))
        was, now = ({json.dumps(each.charges) for each in side} for side in sides)
        if was != now:
            words = f"{names[0]} and {names[1]} are charged otherwise for the same questions"
            faults.append(Fault("the ledger", words))
    found = (still(asked.study, list(counts.values())), overspent(copy, worlds[0], asked, weights))
    faults += [fault for fault in found if fault]
    return Seen(asks, answers, tuple(dict.fromkeys(faults)))


def _either(words: set[str]) -> str:
    """What several sittings heard to one question, joined by "or" for a fault, each once and cut at a length."""
    return " or ".join(each if len(each) <= LONGEST else each[:LONGEST] + "…" for each in sorted(words))


def _sitting(copy: Copy, asked: Asked, weights: Rows, *, as_it_stands: bool) -> Sitting:
    """Ask one world all rounds, then what a curious server might try: what came back, left and was charged."""
    copy.begin(as_it_stands=as_it_stands)
    beside = chain(tried(copy.home, asked, weights), other_studies(copy.home, asked, weights))
    script = chain(session(copy, asked, weights, adapts=False), ((ask, heard(copy, ask)) for ask in beside))
    sat, before, new = Sitting(), len(ledger_of(copy)), 0
    left, charges = defaultdict[int, set[bytes]](set), list[dict[str, Any]]()  # messages by client
    for ask, had in script:
        sat.heard.append((ask.about, had.words))
        sat.answers += bool(had.content)
        lines = ledger_of(copy, before + new)
        new += len(lines)
        charged = [line for line in lines if CHARGE in line]
        charges += charged
        wrong = [Fault(ask.about, had.fault) if had.fault else None, *(other_price(copy, ask, own) for own in charged)]
        sat.faults += [fault for fault in wrong if fault]
        for frame in had.frames:
            for client, message in ask.messages_in(frame):
                left[client].add(message)  # what is the same twice has left once
            for client, count in ask.counts_in(frame) if ask.about == f"round {ask.round}" else ():
                sat.counts[client].append(count)
    if fault := uncharged(left, charges):
        sat.faults.append(fault)
    sat.charges += [json.dumps(line) for line in charges]
    return sat
