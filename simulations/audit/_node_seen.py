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
from scipy.special import chdtr

from clients.node.asks import Ask as Line
from fedpriv import wire
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event, event_of
from fedpriv.errors import FedprivError
from fedpriv.releases import AdaptiveDpSgd
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from simulations.audit._node_asks import Ask, Heard, drawn, heard, honest
from simulations.audit._node_home import Copy, ledger_of
from simulations.audit._node_trials import Asked, World, session
from simulations.audit._settings import halves_of

SESSIONS = 2  # of each world with an empty ledger; and one with the ledger as it stands
ENOUGH = 1.001  # times what one message costs: rounding aside, what a second one does not fit in
UNLIKELY = 1e-6  # that honest counts spread as little
MANY = (2, 3, 4, 6, 8, 12, 16)  # messages that a budget of one is tried with
CHARGE = "clients"  # is in each line of a ledger that is a charge
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
    faults: tuple[Fault, ...]  # what is one whatever the other world says
    charges: list[str]
    counts: dict[int, list[float]]  # noisy, behind the clip norms of rounds that were all asked alike, by client


def compared(copy: Copy, worlds: tuple[World, World], asked: Asked, weights: Rows, told: Callable[[], None]) -> Seen:
    """Ask both worlds alike, with an empty ledger and with the node's own."""
    asks, answers, faults, counts = 0, 0, dict[Fault, None](), defaultdict[tuple[int, int], list[float]](list)
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
            faults |= dict.fromkeys(one.faults)
        faults |= dict.fromkeys(_differences(sides[0], sides[1], (worlds[0].name, worlds[1].name)))
        for place, side in enumerate(sides):
            for name, some in (item for one in side for item in one.counts.items()):
                counts[place, name] += some
    found = (_still(asked.study, list(counts.values())), _overspent(copy, worlds[0], asked, weights))
    faults |= {fault: None for fault in found if fault}
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
    known, left, found, answers = len(ledger_of(copy)), defaultdict[int, set[bytes]](set), [], 0
    faults, new, counts = dict[Fault, None](), list[dict[str, Any]](), defaultdict[int, list[float]](list)
    for ask, had in _script(copy, asked, weights):
        found.append((ask.about, had.words))
        answers += bool(had.content)
        lines = ledger_of(copy, known + len(new))
        new += lines
        wrong = [
            Fault(ask.about, had.fault) if had.fault else None,
            *(_other_price(copy, ask, own) for own in lines if CHARGE in own),
        ]
        faults |= dict.fromkeys(fault for fault in wrong if fault)
        for frame in had.frames:
            for number, message in _messages(ask, frame):
                left[number].add(message)
            if isinstance(frame, wire.Adapted) and ask.about == f"round {ask.round}":
                for number, count in zip(frame.clients.tolist(), _counts(ask, frame), strict=True):
                    counts[number].append(count)
    charges = [line for line in new if CHARGE in line]
    uncharged = _uncharged(left, charges)
    both = tuple(fault for fault in (*faults, uncharged) if fault)
    return Sitting(found, answers, both, [json.dumps(line) for line in charges], counts)


def _counts(ask: Ask, frame: wire.Adapted) -> list[float]:
    """The noisy counts behind clip norms that adapt."""
    own, study = ask.study.privacy.private_sum, ask.study
    if not isinstance(own, AdaptiveDpSgd) or ask.settings is None:
        return [0.0] * len(frame.clients)
    before = ask.settings[np.searchsorted(ask.clients, frame.clients), 0]
    expected = own.sampling * study.clients.records
    found = halves_of(own, before, frame.settings[:, 0], expected, study.training.local_steps)
    return [float(count) for count in found]


def _still(study: Study, counts: list[list[float]]) -> Fault | None:
    """Where the counts behind clip norms spread less than their noise alone: rows of counts that were asked for alike.

    Whatever else they depend on adds to their spread, so Σ(count − mean)²/σ_b² is no less than χ² but by chance.
    """
    own = study.privacy.private_sum
    if not isinstance(own, AdaptiveDpSgd):
        return None
    many = sum(len(row) - 1 for row in counts)
    squares = sum(float(np.var(row)) * len(row) for row in counts)
    variance = own.count_noise**2 * study.training.local_steps
    if not many or chdtr(many, squares / variance) > UNLIKELY:
        return None
    spread = (squares / many / study.training.local_steps) ** 0.5
    words = f"the count behind its clip norm spreads by {spread:.3g}, and {own.count_noise:g} is charged"
    return Fault("the settings", words)


def _other_price(copy: Copy, ask: Ask, line: dict[str, Any]) -> Fault | None:
    """Where a ledger is charged another event than that of the channel or release that the study asked for draws by."""
    found, due = tuple(map(event_of, line["events"])), drawn(copy, ask.study, ask.weights.size)
    if found == due:
        return None
    return Fault("the ledger", f"{ask.about} is charged as {_short(found)}, where {_short(due)} is drawn")


def _short(events: tuple[Event, ...]) -> str:
    return " and ".join(f"{each.mechanism} of {each.trust}" for each in events)


def _overspent(copy: Copy, world: World, asked: Asked, weights: Rows) -> Fault | None:
    """Where a node whose budget is spent still answers: with as much as one message costs, it is asked for several."""
    (event,), delta = drawn(copy, asked.study, weights.size), copy.home.policy.budget.delta
    budget = Account((event,)).upper_epsilon(delta) * ENOUGH
    many = next((n for n in MANY if _at_least(event, n, delta) > budget), None)
    if many is None:
        return None
    with world.at(copy, budget):
        copy.begin()
        answers = sum(bool(heard(copy, asked.ask(n, weights, asked.first)).content) for n in range(1, many + 1))
    words = f"all {many} messages of a client leave, whose ε is at least {_at_least(event, many, delta):.4g}, with a "
    return Fault("the budget", f"{words}budget of {budget:.4g}") if answers == many else None


def _at_least(event: Event, messages: int, delta: float) -> float:
    return Account((replace(event, rounds=event.rounds * messages),)).epsilon(delta).bounds.lower


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
    everybody = replace(asked, clients=honest(copy.home, study))
    yield replace(everybody.ask(next_round + 2, first.weights, everybody.first), about="all its clients")
    beyond = replace(asked, clients=np.array([study.clients.count], np.int64))
    yield replace(beyond.ask(next_round + 3, first.weights, beyond.first), about="a client that is not its own")
    for words, overrides in _variants(study):
        try:
            other = study_file.parsed(asked.text, overrides=overrides)
        except FedprivError:
            continue  # no study
        own = honest(copy.home, other)
        if own.size:
            about = Asked(other, 1, own)
            yield replace(about.ask(1, first.weights, about.first), about=words)


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
