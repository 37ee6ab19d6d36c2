"""What a round's messages agree on: the direction the server reads from them, which an omniscient attacker foresees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.aggregation import Aid, Chain, ClientVote, GivesSum, MajorityVote, Rule, WeightedVote, rule_alone
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Mechanism
from fedpriv.mechanisms.centre import votes_past_centre
from fedpriv.packed.symbols import REAL, packing_of
from fedpriv.randomness.streams import stream
from fedpriv.releases import Released
from fedpriv.studies.study import Study
from fedpriv.studies.tables import Decoder
from fedpriv.tolerance import check_mirrored


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a server reads messages: which mechanism drew them, by which rule they agree, as a mean or as a vote.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> votes = Reading(mechanism=StochasticSign(clip=1, scale=2), rule=MajorityVote(), decoder="vote", seed=1)
    >>> votes.of_sum(1, np.array([3, -1]), 3)
    array([ 1., -1.])
    """

    mechanism: Mechanism
    rule: Rule
    decoder: Decoder
    seed: int  # of what the rule draws, as for ties

    @property
    def needs_rows(self) -> bool:
        """Whether a server must see each message of a round: for its rule, or as float sums depend on their order."""
        return self.rule.needs_rows or packing_of(self.mechanism) == REAL

    def of_sum(self, round: int, total: NDArray[np.int64], count: int) -> Vector:
        """A round's direction from the sum of its messages, as the server has it: the mean, or a vote's signs."""
        if self.decoder == "mean":
            return np.asarray(self.mechanism.decode(total, count), float)
        rule = self.rule if isinstance(self.rule, MajorityVote) else MajorityVote()
        return rule.of_sum(votes_past_centre(total, count, self.mechanism.centre), self._draws(round))

    def of_rows(self, round: int, matrix: Vector, reference: Vector | None = None) -> Vector:
        """A round's direction from messages as the server's rule sees them, a row a client; a sum by its rows.

        `reference` is the server's own update, where the rule asks for one.
        """
        rule = self.rule
        found = rule(matrix, self._aid(round, reference))
        alone = rule_alone(rule)
        if isinstance(alone, GivesSum) and alone.sums:
            found = found / (rule.left(len(matrix)) if isinstance(rule, Chain) else len(matrix))
        return np.sign(found) if self.decoder == "vote" else found

    def curated(self, round: int, matrix: Vector, settings: tuple[float, ...]) -> Released:
        """A round's direction from a curator, and the settings that adapt after it, given them as they were before."""
        rule: Any = self.rule
        found: Released = rule.released(matrix, replace(self._aid(round), settings=settings))
        return found

    def rows_seen(self, symbols: NDArray[np.generic]) -> NDArray[np.float64]:
        """A round's messages as the server's rule sees them, a row each: decoded, or, where it counts votes, centred.

        Those are symbols about their centre.

        They are as they were sent where there is no unbiased decoder. A MajorityVote is asked for rows only behind
        steps that choose among them, and then adds up whole numbers.
        """
        mechanism, rule = self.mechanism, self.rule
        if isinstance(rule_alone(rule), MajorityVote):
            return symbols.astype(float) * 2 - floor(2 * mechanism.centre)
        if isinstance(rule, ClientVote | WeightedVote) and packing_of(mechanism) != REAL:
            return votes_past_centre(symbols, 1, mechanism.centre)
        try:
            return np.asarray(mechanism.decode(symbols, 1), float)
        except FedprivError:
            return symbols.astype(float)

    def _aid(self, round: int, reference: Vector | None = None) -> Aid:
        """What the server's rule may know of a round besides the messages."""
        return Aid(self._draws(round), reference, 2 * self.mechanism.centre % 1, self.seed, round)

    def _draws(self, round: int) -> Generator:
        """The random generator that the server's rule draws from in a round, as for ties."""
        return stream(self.seed, "aggregate", round)


def reading_of(study: Study) -> Reading:
    """How the server of a study reads its messages; an omniscient attacker foresees it by the same."""
    return Reading(mechanism=study.privacy.drawn_by, rule=study.rule, decoder=study.decoder, seed=study.run.seed)


def rehearse_rule(study: Study, dimension: int) -> None:
    """Ask a study's decoder, and a rule or step of its own, once for a made-up direction, before anybody trains."""
    own, mechanism = study.aggregation, study.privacy.drawn_by
    if study.server.tolerance or study.run.measure_votes:
        check_mirrored(mechanism)
    if study.decoder == "mean" and not reading_of(study).needs_rows:
        try:
            mechanism.decode(np.zeros(1, np.int64), 1)
        except FedprivError as error:
            raise FedprivError(f"aggregation: no {own.kind} of a sum of messages: {error}") from None
    if not any(":" in kind for kind in [own.kind, *(step["kind"] for step in own.settings.get("before", []))]):
        return
    rule, rng = study.rule, stream(study.run.seed, "rehearsal")
    common = rng.normal(size=dimension)
    rows = (common + rng.normal(size=(max(rule.least, 4), dimension))).astype(np.float32)
    reading_of(study).of_rows(0, np.rint(rows) if isinstance(rule_alone(rule), MajorityVote) else rows, common)
