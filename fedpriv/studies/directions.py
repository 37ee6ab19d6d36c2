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
from fedpriv.tolerance import check_mirrored


def needs_rows(study: Study) -> bool:
    """Whether a server must see each message of a round: for its rule, or as sums of floats depend on their order."""
    return study.rule.needs_rows or packing_of(study.privacy.drawn_by) == REAL


def of_sum(study: Study, round: int, total: NDArray[np.int64], count: int) -> Vector:
    """A round's direction from the sum of its messages, as the server has it: the updates' mean, or a vote's signs."""
    mechanism, rule = study.privacy.drawn_by, study.rule
    if study.decoder == "mean":
        return np.asarray(mechanism.decode(total, count), float)
    rule = rule if isinstance(rule, MajorityVote) else MajorityVote()
    return rule.of_sum(votes_past_centre(total, count, mechanism.centre), _draws(study, round))


def of_rows(study: Study, round: int, matrix: Vector, reference: Vector | None = None) -> Vector:
    """A round's direction from messages as the server's rule sees them, a row a client; a sum is divided by its rows.

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
    """Ask a study's decoder, and a rule or step of its own, once for a made-up direction, before anybody trains."""
    own, mechanism = study.aggregation, study.privacy.drawn_by
    if study.server.tolerance or study.run.measure_votes:
        check_mirrored(mechanism)
    if study.decoder == "mean" and not needs_rows(study):
        try:
            mechanism.decode(np.zeros(1, np.int64), 1)
        except FedprivError as error:
            raise FedprivError(f"aggregation: no {own.kind} of a sum of messages: {error}") from None
    if not any(":" in kind for kind in [own.kind, *(step["kind"] for step in own.settings.get("before", []))]):
        return
    rule, rng = study.rule, stream(study.run.seed, "rehearsal")
    common = rng.normal(size=dimension)
    rows = (common + rng.normal(size=(max(rule.least, 4), dimension))).astype(np.float32)
    of_rows(study, 0, np.rint(rows) if isinstance(rule_alone(rule), MajorityVote) else rows, common)


def rows_seen(study: Study, symbols: NDArray[np.generic]) -> NDArray[np.float64]:
    """A round's messages as the server's rule sees them, a row each: decoded, or, where it counts votes, centred.

    Those are symbols about their centre.

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
    """The random generator that the server's rule draws from in a round of a study, as for ties."""
    return stream(study.run.seed, "aggregate", round)
