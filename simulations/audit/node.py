"""The audit of a deployed node: its policy, data, dealing, ledger and answers, on a copy that is asked in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpriv.accounting.event import Event
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies import promise as guarantee
from fedpriv.studies.study import Study
from fedpriv.trust import Sums
from simulations.audit._node_asks import in_flower, masked
from simulations.audit._node_home import POLICY, Copy, Home, copied
from simulations.audit._node_messages import event_of
from simulations.audit._node_neighbours import Held, digests, moved
from simulations.audit._node_seen import Fault, Seen, compared
from simulations.audit._node_trials import Asked, NodeTrials, World, held_by, session
from simulations.audit._node_worlds import Subject
from simulations.audit._places import alone
from simulations.audit.sources import Audit

TRIED = "digits"  # what a policy that takes any study is tried with
Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Examined:
    """What is audited, and what was found before the first trial."""

    audit: Audit
    name: str
    delta: float
    dealing: dict[str, Any]
    seen: Seen

    @property
    def found(self) -> dict[str, Any]:
        """As `--json` has it."""
        own = self.seen
        seen = {"asks": own.asks, "answers": own.answers}
        return {"dealing": self.dealing, "seen": seen, "faults": [fault._asdict() for fault in own.faults]}


@contextmanager
def examined(
    directory: Path, neighbour: Path | None, study: str | None, overrides: list[str], place: Path,
    told: Callable[[str], None],
) -> Iterator[Examined]:  # fmt: skip
    """A node, copied into `place` while this lasts, and looked at; its trials are still to come."""
    home = Home.of(directory)
    if place.resolve().is_relative_to(directory.resolve()):
        raise FedprivError(f"{place}: lies in the node's directory, in which nothing is written: --out names another")
    with alone(place), copied(home, place) as copy, in_flower():
        yield _examined(copy, neighbour, named(home, study, overrides), told)


def named(home: Home, study: str | None, overrides: list[str]) -> Study:
    """The study that is audited: the one that is asked for, or the only one that the policy takes."""
    accepted = home.policy.studies
    if study is None and accepted is not None and len(accepted) != 1:
        raise FedprivError(
            f"{home.directory / POLICY}: takes {len(accepted)} studies ({', '.join(accepted)}): --study says which"
        )
    source = study or (accepted[0] if accepted else TRIED)
    try:
        study_file.read(source, [] if study is None else overrides)
    except FedprivError as error:
        raise FedprivError(f"{error}{': --study names its file' if study is None else ''}") from None
    return study_file.read(source, overrides)


def _examined(copy: Copy, neighbour: Path | None, study: Study, told: Callable[[str], None]) -> Examined:
    subject = Subject.of(copy, study)
    told("looking for the neighbour")
    pair = subject.beside(neighbour) if neighbour is not None else subject.changed()
    held = (held_by(copy, pair.worlds[0], subject.study), held_by(copy, pair.worlds[1], subject.study))
    differ = _differing(held, subject.honest)
    if pair.swapped and len(differ) > 1:
        raise FedprivError(
            f"{pair.words}: the one is dealt to client {differ[0]} and the other to client {differ[1]}, and this "
            "node's certificate is of one record more or less"
        )
    asked = Asked(subject.study, guarantee.releases_of_worst(subject.study), np.array(differ, np.int64))
    charged = _charged(subject, pair.worlds, asked)
    told("asking both")
    seen = compared(copy, pair.worlds, asked, subject.weights, lambda: None)
    if len(differ) > 1:
        seen = seen._replace(faults=(*seen.faults, _dealt_to_many(pair.words, differ)))
    about, trial = _about(subject, held, pair.words), _trial(copy, asked, pair.words, charged.trust)
    source = NodeTrials(about, trial, charged, copy, pair.worlds, held, asked, subject.weights)
    name = f"{copy.home.directory.name}, {subject.study.name}"
    dealing = {"neighbour": pair.words, "clients": differ[:100], "differ": len(differ)}
    audit = Audit(source, "node", subject.study.run.seed, 0)
    return Examined(audit, name, copy.home.policy.budget.delta, dealing, seen)


def _differing(held: tuple[Held, Held], honest: NDArray[np.int64]) -> list[int]:
    """Whose data are others."""
    among = set(honest.tolist())
    found = [each for each in moved(*held) if each in among]
    if not found:
        raise FedprivError("no client of this node has other data than its neighbour's: there is nothing to audit")
    return found


def _dealt_to_many(words: str, clients: list[int]) -> Fault:
    some = ", ".join(map(str, clients[:3])) + (", …" if len(clients) > 3 else "")
    found = f"{words}: the data of {len(clients):,} clients are others ({some}), where a ledger counts one"
    return Fault("dealing", found)


def _charged(subject: Subject, worlds: tuple[World, World], asked: Asked) -> Event:
    """What the copy's ledger is charged for all rounds, where either world answers any.

    A ledger that is charged nothing, or several things, promises nothing: there it is what the channel draws.
    """
    copy, words = subject.copy, ""
    for world in worlds:
        with world.at(copy):
            copy.begin()
            found = [had for _, had in session(copy, asked, subject.weights)]
            events = event_of(copy)
        if any(had.content for had in found):
            own = subject.event
            return events[0] if len(events) == 1 else replace(own, rounds=own.rounds * asked.rounds)
        words = words or found[0].words
    raise FedprivError(f"the node answers no round of {asked.study.name!r}: {words}")


def _trial(copy: Copy, asked: Asked, words: str, trust: Any) -> str:
    rounds, clients = asked.rounds, len(asked.clients)
    who = f"client {asked.clients[0]}" if clients == 1 else f"{clients:,} clients"
    seen = f"{rounds:,} rounds of {who} asked of the node or of {words}, through the client's app"
    match trust:
        case Sums(certain) if masked(copy, asked.study):
            return f"{seen}; masks off, each in a sum with {max(certain - clients, 0):,} others drawn anew"
        case Sums(certain):
            sums = f"{seen}, each in a sum with {max(certain - clients, 0):,} others drawn anew, as its policy believes"
            return f"{sums}: simulated, no mask hides them, so a server sees each message, and nothing here is of that"
        case _:
            return seen


def _about(subject: Subject, held: tuple[Held, Held], words: str) -> str:
    """All that trials depend on, so that blocks of others are not taken up."""
    digest = blake2b(digest_size=16)
    for pool, _ in held:
        for each in digests(pool):
            digest.update(each)
    home = subject.copy.home
    digest.update(repr((study_file.text(subject.study), home.table, home.place, words)).encode() + home.key)
    return digest.hexdigest()
