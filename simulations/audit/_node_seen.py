"""Everything that a server sees beside messages, of a node and of its neighbour: it must be the same.

Refusals and their words, whether there is an answer, of whom, of how many bytes, in which records, and who failed why.
Both nodes are asked the same script: rounds, the same again, and what no honest server asks. Time is not looked at.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clients.asks import Ask as Line
from clients.own_ledger import FILE
from fedpriv import study_file, wire
from fedpriv.errors import FedprivError
from fedpriv.study import Study
from simulations.audit.node_asks import Ask, Heard, heard
from simulations.audit.node_home import Copy
from simulations.audit.node_trials import Asked, World, session

SESSIONS = 2  # of each world with an empty ledger; and one with the ledger as it stands
LONGEST = 300  # characters of what is told of an answer
Rows = NDArray[np.float32]


class Fault(NamedTuple):
    """Something that tells two neighbours apart for certain, or that was not charged."""

    about: str
    words: str


class Seen(NamedTuple):
    """What was compared, and what was found."""

    asks: int
    answers: int
    faults: tuple[Fault, ...]


@dataclass
class Sitting:
    """One script asked of one world: what was heard, and what its ledger says of what left."""

    heard: list[tuple[str, str]]
    answers: int
    uncharged: Fault | None
    charges: list[str]


def compared(copy: Copy, worlds: tuple[World, World], asked: Asked, weights: Rows, told: Callable[[], None]) -> Seen:
    """Ask both worlds alike, with an empty ledger and with the node's own."""
    asks, answers, faults = 0, 0, dict[Fault, None]()
    for as_it_stands in (False, True):
        sides = []
        for world in worlds:
            with world.at(copy):
                sat = []
                for _ in range(1 if as_it_stands else SESSIONS):
                    sat.append(_sitting(copy, asked, weights, as_it_stands=as_it_stands))
                    told()
            sides.append(sat)
        for one in (each for side in sides for each in side):
            asks, answers = asks + len(one.heard), answers + one.answers
            faults |= {one.uncharged: None} if one.uncharged else {}
        faults |= dict.fromkeys(_differences(sides[0], sides[1], (worlds[0].name, worlds[1].name)))
    return Seen(asks, answers, tuple(faults))


def _differences(one: list[Sitting], other: list[Sitting], names: tuple[str, str]) -> Iterator[Fault]:
    for place, (about, _) in enumerate(one[0].heard):
        was, now = ({each.heard[place][1] for each in side} for side in (one, other))
        if was != now:
            yield Fault(about, f"{names[0]}: {_either(was)}; {names[1]}: {_either(now)}")
    was, now = ({json.dumps(each.charges) for each in side} for side in (one, other))
    if was != now:
        yield Fault("the ledger", f"{names[0]} and {names[1]} are charged otherwise for the same questions")


def _either(words: set[str]) -> str:
    return " or ".join(each if len(each) <= LONGEST else each[:LONGEST] + "…" for each in sorted(words))


def _sitting(copy: Copy, asked: Asked, weights: Rows, *, as_it_stands: bool) -> Sitting:
    copy.begin(as_it_stands=as_it_stands)
    before, left, found, answers = len(_lines(copy)), defaultdict[int, set[bytes]](set), [], 0
    for ask, had in _script(copy, asked, weights):
        found.append((ask.about, had.words))
        answers += bool(had.content)
        for frame in had.frames:
            for number, message in _messages(ask, frame):
                left[number].add(message)
    new = _lines(copy)[before:]
    return Sitting(found, answers, _uncharged(left, new), [json.dumps(line) for line in new])


def _messages(ask: Ask, frame: wire.Messages | wire.Sum | wire.Adapted) -> Iterator[tuple[int, bytes]]:
    """Each client's message, and what it answers: what is the same twice has left once."""
    about = f"{ask.text}\0{ask.round}\0".encode()
    match frame:
        case wire.Messages():
            for number, row in zip(frame.clients.tolist(), frame.payload, strict=True):
                yield number, about + row.tobytes()
        case wire.Sum():
            for number in frame.clients.tolist():
                yield number, about + frame.total.tobytes()
        case wire.Adapted():
            return


def _lines(copy: Copy) -> list[dict[str, Any]]:
    file = copy.ledger / FILE
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [line for line in map(json.loads, lines) if "clients" in line]


def _uncharged(left: dict[int, set[bytes]], lines: list[dict[str, Any]]) -> Fault | None:
    """The client of whom most more left than its ledger holds."""
    charged = defaultdict[int, int](int)
    for line in lines:
        for number in Line.of_line(line).clients.tolist():
            charged[number] += 1
    more = {number: len(some) - charged[number] for number, some in left.items() if len(some) > charged[number]}
    if not more:
        return None
    worst = max(more, key=lambda number: (more[number], -number))
    words = f"{len(left[worst]):,} different messages of client {worst} left, and {charged[worst]:,} are charged"
    return Fault("the ledger", words)


def _script(copy: Copy, asked: Asked, weights: Rows) -> Iterator[tuple[Ask, Heard]]:
    """All rounds, then what a server might try to learn more by."""
    first = asked.ask(1, weights, asked.first)
    yield from session(copy, asked, weights, adapts=False)  # or questions would depend on noise
    for ask in _tried(copy, asked, first):
        yield ask, heard(copy, ask)


def _tried(copy: Copy, asked: Asked, first: Ask) -> Iterator[Ask]:
    study, next_round = asked.study, asked.rounds + 1
    moved, wild = first.weights.copy(), np.full_like(first.weights, np.nan)
    moved[:1] += np.float32(1)
    steep = first.weights + np.float32(1e30)
    yield replace(first, about="round 1 again")
    yield replace(first, about="round 1 again, by another run", run="second")
    yield replace(first, about="round 1 with another model", weights=moved)
    yield replace(first, about="a model of nan", round=next_round, weights=wild)
    yield replace(first, about="a model at which gradients overflow", round=next_round, weights=steep)
    yield replace(first, about="a model one coordinate shorter", round=next_round + 1, weights=first.weights[:-1])
    yield replace(first, about="a round that cannot be", round=2**40)
    everybody = replace(asked, clients=_hosted(copy, study))
    yield replace(everybody.ask(next_round + 2, first.weights, everybody.first), about="all its clients")
    beyond = replace(asked, clients=np.array([study.clients.count], np.int64))
    yield replace(beyond.ask(next_round + 3, first.weights, beyond.first), about="a client that is not its own")
    for words, overrides in _variants(study):
        try:
            other = study_file.parsed(asked.text, overrides=overrides)
        except FedprivError:
            continue  # no study
        own = _hosted(copy, other)
        if own.size:
            about = Asked(other, 1, own)
            yield replace(about.ask(1, first.weights, about.first), about=words)


def _hosted(copy: Copy, study: Study) -> NDArray[np.int64]:
    own, of = copy.home.place
    return np.arange(own * study.clients.count // of, (own + 1) * study.clients.count // of)


def _variants(study: Study) -> Iterator[tuple[str, list[str]]]:
    """The same study otherwise: divided among others, in larger batches, more steps, with hardly any noise."""
    own, count = study.privacy, study.clients.count
    yield "another number of clients", [f"clients.count={2 * count + 1}"]
    yield "more records of each client than there are", ["clients.records=1000000"]
    yield "another seed", [f"run.seed={study.run.seed + 1}"]
    yield "more steps", [f"training.local_steps={study.training.local_steps + 1}"]
    yield "batches of one record", ["training.batch=1"]
    if own.private_sum is not None:
        yield "hardly any noise", ["privacy.release.noise=1e-9"]
    else:
        peak = float(getattr(own.chosen, "peak", own.chosen.clip))
        yield "hardly any noise", [f"privacy.mechanism.scale={peak * 1.000001!r}"]
        yield "hardly any noise at all", ["privacy.mechanism.noise=1e-9"]
