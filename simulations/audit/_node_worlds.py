"""What is audited of a node, and the node beside it: one that somebody names, or one with a record changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clients.data.pool import Pool
from clients.node.own_records import pool_of_policy, wrong_with_data
from clients.training.prepared import net_of
from fedpriv.accounting.event import Event
from fedpriv.errors import FedprivError
from fedpriv.studies import promise as guarantee
from fedpriv.studies.study import Study
from server.rounds import planned
from simulations.audit._node_asks import drawn, honest, masked
from simulations.audit._node_home import POLICY, Copy, Home, policy_of
from simulations.audit._node_messages import release_of, sent_by
from simulations.audit._node_neighbours import Change, Difference, How, candidates, most_telling, written
from simulations.audit._node_trials import World, held_by

LOOKED_AT = 3  # rounds in which candidates are compared
Rows = NDArray[np.float32]


class Pair(NamedTuple):
    """The node and its neighbour; `swapped`: whether a record took the place of another."""

    worlds: tuple[World, World]
    words: str
    swapped: bool = False


@dataclass(frozen=True, eq=False)
class Subject:
    """A node asked for a study: as a server would send it, at its first model, and what a message is charged."""

    copy: Copy
    study: Study
    pool: Pool
    weights: Rows
    event: Event

    @staticmethod
    def of(copy: Copy, study: Study) -> Subject:
        """Everything that cannot be audited is refused here."""
        policy = copy.home.policy
        if (kept := study.privacy.kept) is not None:
            raise FedprivError(f"{type(kept).__name__} keeps its noise on records: no audit of it is built")
        copy.lay(policy.data)
        copy.begin()
        if wrong := wrong_with_data(copy.directory / POLICY):
            raise FedprivError(f"{copy.home.directory}: this node's data allow no answer: {wrong}")
        own = pool_of_policy(policy)
        study, pool = _resolved(study, own)
        policy.check(study)
        weights = net_of(study, pool).initial()
        policy.events(study, weights.size, masked=masked(copy, study))  # or why this policy takes none
        return Subject(copy, study, pool, weights, drawn(copy, study, weights.size)[0])

    @property
    def node(self) -> World:
        """The node as it is."""
        return World("the node", self.copy.home.policy.data)

    @property
    def honest(self) -> NDArray[np.int64]:
        """The node's clients, but for those that a study has play attackers."""
        found = honest(self.copy.home, self.study)
        if not found.size:
            (own, of), count = self.copy.home.place, self.study.clients.count
            raise FedprivError(f"partition {own} of {of} hosts no honest client of the {count} of {self.study.name!r}")
        return found

    def changed(self) -> Pair:
        """The one of ten changes that changes messages most."""
        policy, division = self.copy.home.policy, held_by(self.copy, self.node, self.study)[1]
        whole, own_data = policy.unit == "client", policy.data is not None
        some = candidates(division, self.honest, self._how, whole=whole)
        best = most_telling(some, lambda change: self._effect(change, division))
        words = f"its neighbour, {best.words}"
        if not own_data:
            return Pair((self.node, World(words, None, best)), words)
        data = written(best.made(self.pool), self.copy.beside / "neighbour")
        return Pair((self.node, World(words, data)), words)

    @property
    def _how(self) -> How:
        """Of the node's own data a record's place is not taken by one that may be dealt to another client."""
        policy = self.copy.home.policy
        alone = policy.unit == "client" and len(self.honest) == 1
        return "another" if self.event.adjacency == "replace" and (policy.data is None or alone) else "out"

    def _effect(self, change: Change, division: Any) -> float:
        """How far a change moves what a client's messages are drawn from."""
        sides = (self.pool, division), change.of_study(self.pool, division)
        if self.study.privacy.private_sum is not None:
            return float(np.linalg.norm(release_of(self.study, sides, change.whose, self.weights)[2]))
        client, rounds = np.array([change.whose]), min(self.study.run.rounds, LOOKED_AT)
        sent = [sent_by(self.study, side, client, rounds, self.weights) for side in sides]
        return float(sum(np.linalg.norm(x - y) for x, y in zip(*sent, strict=True)))

    def beside(self, directory: Path) -> Pair:
        """The neighbour that somebody names: its data, all else being the node's."""
        home = self.copy.home
        policy, table = policy_of(directory)
        for place, own in ((home.directory, home.policy), (directory, policy)):
            if own.data is None:
                raise FedprivError(
                    f"{place / POLICY}: names no data, so its records are a study's: leave out --neighbour"
                )
        _check_same(home, directory, table)
        try:
            other = pool_of_policy(policy)
            assert other is not None  # it names data
            difference = Difference.of(self.pool, other)
        except FedprivError as error:
            raise FedprivError(f"{directory}: these data are no neighbour's: {error}") from None
        swapped = all(map(len, difference.only))
        one = home.policy.unit == "record" or home.policy.clients > 1
        difference.check((home.directory, directory), one=one, replaced=self.event.adjacency == "replace" and swapped)
        words = f"its neighbour {directory}, {difference.words}"
        return Pair((self.node, World(words, policy.data)), words, swapped and one)


def _resolved(study: Study, own: Pool | None) -> tuple[Study, Pool]:
    """The study as a server would send it, and the records it is asked about."""
    if own is None:
        plan = planned(study)
        return plan.study, plan.pool
    return guarantee.calibrated(study, net_of(study, own).dimension), own


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
