"""What is audited of a node, and the node beside it: one that somebody names, or one with a record changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clients.data.pool import Pool
from clients.node.own_records import pool_of_policy, wrong_with_data
from clients.training.prepared import net_of
from fedpriv._base.arrays import Rows
from fedpriv.accounting.event import Event
from fedpriv.errors import FedprivError
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.study import Study
from server.rounds import planned
from simulations.audit._node_asks import drawn, honest, masked
from simulations.audit._node_home import POLICY, Copy, policy_of
from simulations.audit._node_messages import effect_of, event_of
from simulations.audit._node_neighbours import Difference, How, candidates, written
from simulations.audit._node_trials import Asked, World, held_by, session
from simulations.audit._settings import check_rounds_alike

LOOKED_AT = 3  # rounds in which candidates are compared


class Pair(NamedTuple):
    """The node and its neighbour."""

    worlds: tuple[World, World]  # in that order
    words: str  # the neighbour, for people
    swapped: bool = False  # whether a single record took the place of another


@dataclass(frozen=True, eq=False)
class Subject:
    """A node asked for a study: as a server would send it, at its first model, and what a message is charged."""

    copy: Copy  # which is asked in the node's place
    study: Study  # as a server would send it
    pool: Pool  # its own records, or else the study's
    weights: Rows  # the study's first model
    event: Event  # what a message is an event of

    @staticmethod
    def of(copy: Copy, study: Study) -> Subject:
        """What is audited of a copied node for a study, which is calibrated; refused where no audit of it can be."""
        policy = copy.home.policy
        if (kept := study.privacy.kept) is not None:
            raise FedprivError(f"{type(kept).__name__} keeps its noise on records: no audit of it is built")
        check_rounds_alike(study)
        copy.lay(policy.data)
        copy.begin()
        if wrong := wrong_with_data(copy.directory / POLICY):
            raise FedprivError(f"{copy.home.directory}: this node's data allow no answer: {wrong}")
        if (pool := pool_of_policy(policy)) is None:  # the study's own records, as its server would send it to the node
            plan = planned(study)
            study, pool = plan.study, plan.pool
        else:
            study = calibrated_study(study, net_of(study, pool).dimension)
        policy.check(study)
        if study.privacy.hidden is not None:
            raise FedprivError(
                f"{study.name}: the node hides its steps, so what its messages should say of a record cannot be worked "
                "out from beside it: fedpriv audit STUDY tries the same code with canaries"
            )
        weights = net_of(study, pool).initial()
        policy.events(study, weights.size, 1, masked=masked(copy, study))  # or why this policy takes none
        return Subject(copy, study, pool, weights, drawn(copy, study, weights.size)[0])

    @property
    def node(self) -> World:
        """The first of the two worlds that trials choose from: the node with the data its policy names."""
        return World("the node", self.copy.home.policy.data)

    @property
    def honest(self) -> NDArray[np.int64]:
        """The numbers of the node's clients that play no attackers in the study; refused where there is none."""
        found = honest(self.copy.home, self.study)
        if not found.size:
            (own, of), count = self.copy.home.place, self.study.clients.count
            raise FedprivError(f"partition {own} of {of} hosts no honest client of the {count} of {self.study.name!r}")
        return found

    def changed(self) -> Pair:
        """The node and a neighbour that the audit makes: of ten changes of a unit the one that moves messages most."""
        policy, division = self.copy.home.policy, held_by(self.copy, self.node, self.study)[1]
        # Of the node's own data a record's place is not taken by one that may be dealt to another client.
        in_place = policy.data is None or (policy.unit == "client" and len(self.honest) == 1)
        how: How = "another" if self.event.adjacency == "replace" and in_place else "out"
        some = candidates(division, self.honest, how, whole=policy.unit == "client")
        own = self.pool, division
        moves = [effect_of(self.study, (own, one.of_study(*own)), one.whose, self.weights, LOOKED_AT) for one in some]
        best = some[int(np.argmax(moves))]
        words = f"its neighbour, {best.words}"
        if policy.data is None:
            return Pair((self.node, World(words, None, best)), words)
        data = written(best.made(self.pool), self.copy.beside / "neighbour")
        return Pair((self.node, World(words, data)), words)

    def charged(self, worlds: tuple[World, World], asked: Asked) -> Event:
        """The event that the copy's ledger comes to when all rounds are asked: what the certificate is of.

        A ledger that is charged nothing, or several things, promises nothing: there it is what the channel draws.
        """
        copy, words = self.copy, ""
        for world in worlds:
            with world.at(copy):
                copy.begin()
                found = [had for _, had in session(copy, asked, self.weights)]
                events = event_of(copy)
            if any(had.content for had in found):
                return events[0] if len(events) == 1 else replace(self.event, rounds=self.event.rounds * asked.rounds)
            words = words or found[0].words
        raise FedprivError(f"the node answers no round of {asked.study.name!r}: {words}")

    def beside(self, directory: Path) -> Pair:
        """The node and the neighbour that --neighbour names, checked to differ in the data of one unit alone."""
        home = self.copy.home
        policy, table = policy_of(directory)
        for place, own in ((home.directory, home.policy), (directory, policy)):
            if own.data is None:
                raise FedprivError(
                    f"{place / POLICY}: names no data, so its records are a study's: leave out --neighbour"
                )
        home.check_same(directory, table)
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
