"""What a round's messages agree on: the direction the server reads from them, which an omniscient attacker foresees."""

from __future__ import annotations

from math import floor

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.aggregation import Aid, Chain, ClientVote, GivesSum, MajorityVote, WeightedVote, rule_alone
from fedpriv.errors import FedprivError
from fedpriv.mechanisms.centre import votes_past_centre
from fedpriv.packed.symbols import REAL, packing_of
from fedpriv.randomness.streams import stream
from fedpriv.studies.study import Study


def needs_rows(study: Study) -> bool:
    """Whether each message must be seen: by the rule, or because sums of floats depend on their order."""
    return study.rule.needs_rows or packing_of(study.privacy.drawn_by) == REAL


def of_sum(study: Study, round: int, total: NDArray[np.int64], count: int) -> Vector:
    """The direction of so many messages, from their sum: the mean of the updates, or its sign under a vote."""
    mechanism, rule = study.privacy.drawn_by, study.rule
    if study.decoder == "mean":
        return np.asarray(mechanism.decode(total, count), float)
    rule = rule if isinstance(rule, MajorityVote) else MajorityVote()
    return rule.of_sum(votes_past_centre(total, count, mechanism.centre), _draws(study, round))


def of_rows(study: Study, round: int, matrix: Vector, reference: Vector | None = None) -> Vector:
    """The direction of messages as the rule sees them, a row a client, in their order; a sum is divided by its rows.

    `reference` is the server's own update, where the rule asks for one.
    """
    rule = study.rule
    aid = Aid(_draws(study, round), reference, 2 * study.privacy.drawn_by.centre % 1)
    found = rule(matrix, aid)
    alone = rule_alone(rule)
    if isinstance(alone, GivesSum) and alone.sums:
        found = found / (rule.left(len(matrix)) if isinstance(rule, Chain) else len(matrix))
    return np.sign(found) if study.decoder == "vote" else found


def rehearse_rule(study: Study, dimension: int) -> None:
    """Ask a rule or a step of one's own once, for the direction of a few made-up updates, before anybody trains."""
    own = study.aggregation
    if not any(":" in kind for kind in [own.kind, *(step["kind"] for step in own.settings.get("before", []))]):
        return
    rule, rng = study.rule, stream(study.run.seed, "rehearsal")
    common = rng.normal(size=dimension)
    rows = (common + rng.normal(size=(max(rule.least, 4), dimension))).astype(np.float32)
    of_rows(study, 0, np.rint(rows) if isinstance(rule_alone(rule), MajorityVote) else rows, common)


def rows_seen(study: Study, symbols: NDArray[np.generic]) -> NDArray[np.float64]:
    """Messages as the rule sees them, a row each: decoded; symbols about their centre where it counts votes alone.

    They are as they were sent where there is no unbiased decoder. A MajorityVote is asked for rows only behind steps
    that choose among them, and then adds up whole numbers.
    """
    mechanism, rule = study.privacy.drawn_by, study.rule
    if isinstance(rule_alone(rule), MajorityVote):
        return symbols.astype(float) * 2 - floor(2 * mechanism.centre)
    if isinstance(rule, ClientVote | WeightedVote) and packing_of(mechanism) != REAL:
        return votes_past_centre(symbols, 1, mechanism.centre)
    try:
        return np.asarray(mechanism.decode(symbols, 1), float)
    except FedprivError:
        return symbols.astype(float)


def _draws(study: Study, round: int) -> Generator:
    return stream(study.run.seed, "aggregate", round)
