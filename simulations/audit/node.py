"""The audit of a deployed node: its policy, data, dealing, ledger and answers, on a copy that is asked in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.cohort import net_of
from clients.own_records import pool_of_policy, wrong_with_data
from clients.pool import Pool
from fedpriv import guarantee, study_file
from fedpriv.errors import FedprivError
from fedpriv.event import Event
from fedpriv.participation import attackers
from fedpriv.study import Study
from fedpriv.trust import Sums
from server.rounds import Plan
from simulations.audit import node_neighbours as neighbours
from simulations.audit.node_asks import in_flower, masked
from simulations.audit.node_home import POLICY, Copy, Home, copied, policy_of
from simulations.audit.node_neighbours import Change, Difference, Held, How
from simulations.audit.node_seen import Fault, Seen, compared
from simulations.audit.node_trials import Asked, NodeTrials, World, event_of, held_by, release_of, sent_by, session
from simulations.audit.sources import Audit

TRIED = "digits"  # what a policy that takes any study is tried with
LOOKED_AT = 3  # rounds in which candidates are compared
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
    with copied(home, place / "copy") as copy, in_flower():
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
        return study_file.read(source, overrides)
    except FedprivError as error:
        hint = "" if study else ": --study names its file"
        raise FedprivError(f"{error}{hint}") from None


def _examined(copy: Copy, neighbour: Path | None, study: Study, told: Callable[[str], None]) -> Examined:
    policy, home = copy.home.policy, copy.home
    if study.privacy.kept is not None:
        raise FedprivError(f"{type(study.privacy.kept).__name__} keeps its noise on records: no audit of it is built")
    copy.lay(policy.data)
    copy.begin()
    if wrong := wrong_with_data(copy.directory / POLICY):
        raise FedprivError(f"{home.directory}: this node's data allow no answer: {wrong}")
    own = pool_of_policy(policy)
    study, pool = _resolved(study, own)
    policy.check(study)
    weights = net_of(study, pool).initial()
    event = policy.events(study, weights.size, masked=masked(copy, study))[0]
    told("looking for the neighbour")
    node = World("the node", policy.data)
    if neighbour is not None:
        other, words = _beside(copy, neighbour, pool, event.adjacency)
    else:
        other, words = _own_neighbour(copy, study, pool, weights, event.adjacency, own is not None)
    worlds = (node, other)
    held = (held_by(copy, node, study), held_by(copy, other, study))
    differ = _differing(held, _honest(copy, study))
    asked = Asked(study, guarantee.releases_of_worst(study), np.array(differ, np.int64))
    charged = _charged(copy, worlds, asked, weights)
    told("asking both")
    seen = compared(copy, worlds, asked, weights, lambda: None)
    if len(differ) > 1:
        some = ", ".join(map(str, differ[:3])) + (", …" if len(differ) > 3 else "")
        many = f"{words}: the data of {len(differ):,} clients are others ({some}), where a ledger counts one"
        seen = seen._replace(faults=(*seen.faults, Fault("dealing", many)))
    about = _about(copy, study, held, words)
    trial = _trial(copy, asked, words, event.trust)
    source = NodeTrials(about, trial, charged, copy, worlds, held, asked, weights)
    dealing = {"neighbour": words, "clients": differ[:100], "differ": len(differ)}
    audit = Audit(source, "node", study.run.seed, 0)
    return Examined(audit, f"{home.directory.name}, {study.name}", policy.budget.delta, dealing, seen)


def _resolved(study: Study, own: Pool | None) -> tuple[Study, Pool]:
    """The study as a server would send it, and the records it is asked about."""
    if own is None:
        plan = Plan.of(study)
        return plan.study, plan.pool
    return guarantee.resolved(study, net_of(study, own).dimension), own


def _honest(copy: Copy, study: Study) -> NDArray[np.int64]:
    """The node's clients, but for those that a study has play attackers."""
    (own, of), count = copy.home.place, study.clients.count
    held = np.arange(own * count // of, (own + 1) * count // of)
    bad = attackers(count, study.clients.attackers, study.run.seed) if study.clients.attackers else held[:0]
    honest = np.setdiff1d(held, bad)
    if not honest.size:
        raise FedprivError(f"partition {own} of {of} hosts no honest client of the {count} of {study.name!r}")
    return honest


def _differing(held: tuple[Held, Held], honest: NDArray[np.int64]) -> list[int]:
    found = [each for each in neighbours.moved(*held) if each in set(honest.tolist())]
    if not found:
        raise FedprivError("no client of this node has other data than its neighbour's: there is nothing to audit")
    return found


def _own_neighbour(
    copy: Copy, study: Study, pool: Pool, weights: Rows, adjacency: str, own_data: bool
) -> tuple[World, str]:
    """The one of ten changes that changes messages most."""
    policy, honest = copy.home.policy, _honest(copy, study)
    division = held_by(copy, World("the node", policy.data), study)[1]
    whole = policy.unit == "client"
    alone = not own_data or len(honest) == 1
    how: How = "another" if (adjacency == "replace" and (not own_data or (whole and alone))) else "out"
    private = study.privacy.private_sum

    def effect(change: Change) -> float:
        sides = (pool, division), change.of_study(pool, division)
        client = np.array([change.whose])
        if private is not None:
            return float(np.linalg.norm(release_of(study, sides, change.whose, weights)[2]))
        sent = [sent_by(study, side, client, min(study.run.rounds, LOOKED_AT), weights) for side in sides]
        return float(sum(np.linalg.norm(x - y) for x, y in zip(*sent, strict=True)))

    best = neighbours.most_telling(neighbours.candidates(division, honest, how, whole=whole), effect)
    words = f"its neighbour, {best.words}"
    if not own_data:
        return World(words, None, best), words
    return World(words, neighbours.written(best.made(pool), copy.directory.parent / "neighbour")), words


def _beside(copy: Copy, directory: Path, pool: Pool, adjacency: str) -> tuple[World, str]:
    """The neighbour that somebody names: its data, all else being the node's."""
    home = copy.home
    policy, table = policy_of(directory)
    if home.policy.data is None or policy.data is None:
        none = home.directory if home.policy.data is None else directory
        raise FedprivError(f"{none / POLICY}: names no data, so its records are a study's: leave out --neighbour")
    _check_same(home, directory, table)
    try:
        other = pool_of_policy(policy)
    except FedprivError as error:
        raise FedprivError(f"{directory}: these data allow no answer: {error}") from None
    assert other is not None  # it names data
    try:
        difference = Difference.of(pool, other)
    except FedprivError as error:
        raise FedprivError(f"{directory}: {error}") from None
    if home.policy.unit == "record" or home.policy.clients > 1:
        difference.check((home.directory, directory), replaced=adjacency == "replace" and _one_for_one(difference))
    elif not any(map(len, difference.only)):
        raise FedprivError(f"{directory}: holds the same records as {home.directory}: a neighbour differs")
    words = f"its neighbour {directory}, {_in_words(difference)}"
    return World(words, policy.data), words


def _one_for_one(difference: Difference) -> bool:
    return len(difference.only[0]) == len(difference.only[1])


def _in_words(difference: Difference) -> str:
    (gone, come) = difference.only
    if len(gone) > 1 or len(come) > 1:
        return "all of the client's data others"
    if len(gone) and len(come):
        return f"record {gone[0]} replaced by its record {come[0]}"
    return f"record {gone[0]} left out" if len(gone) else f"with its record {come[0]} more"


def _check_same(home: Home, directory: Path, table: dict[str, Any]) -> None:
    """Refuse another policy: neighbours differ in data."""

    def rest(of: dict[str, Any]) -> dict[str, Any]:
        own = {f"data.{name}": value for name, value in of["data"].items() if name != "path"}
        return {name: value for name, value in of.items() if name not in ("data", "ledger")} | own

    one, other = rest(home.table), rest(table)
    if names := sorted(name for name in one | other if one.get(name) != other.get(name)):
        raise FedprivError(
            f"{directory / POLICY}: {names[0]} = {other.get(names[0])!r}, where {home.directory / POLICY} says "
            f"{one.get(names[0])!r}: neighbours differ in data alone"
        )


def _charged(copy: Copy, worlds: tuple[World, World], asked: Asked, weights: Rows) -> Event:
    """What the copy's ledger is charged for all rounds, where either world answers any."""
    words = ""
    for world in worlds:
        with world.at(copy):
            copy.begin()
            found = [had for _, had in session(copy, asked, weights)]
            events = event_of(copy)
        if any(had.content for had in found) and len(events) == 1:
            return events[0]
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
            return f"{seen}, each in a sum with {max(certain - clients, 0):,} others drawn anew, as its policy believes"
        case _:
            return seen


def _about(copy: Copy, study: Study, held: tuple[Held, Held], words: str) -> str:
    """All that trials depend on, so that blocks of others are not taken up."""
    digest = blake2b(digest_size=16)
    for pool, _ in held:
        for each in neighbours.digests(pool):
            digest.update(each)
    digest.update(repr((study_file.text(study), copy.home.table, copy.home.place, words)).encode() + copy.home.key)
    return digest.hexdigest()
