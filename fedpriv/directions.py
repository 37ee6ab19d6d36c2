"""What a round's messages agree on: the direction the server reads from them, which an omniscient attacker foresees."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv.aggregation import Aid, Chain, MajorityVote, Rule, rule_alone
from fedpriv.arrays import Vector
from fedpriv.attacks.messages import extremes
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.mechanisms import Mechanism
from fedpriv.packing import REAL, packing
from fedpriv.random_streams import stream
from fedpriv.study import Study


def needs_rows(study: Study) -> bool:
    """Whether each message must be seen: by the rule, or because sums of floats depend on their order."""
    return study.rule.needs_rows or packing(study.privacy.chosen) == REAL


def of_sum(study: Study, round: int, total: NDArray[np.int64], count: int) -> Vector:
    """The direction of so many messages, from their sum: the mean of the updates, or its sign under a vote."""
    mechanism, rule = study.privacy.chosen, study.rule
    if study.decoder == "mean":
        return np.asarray(mechanism.decode(total, count), float)
    rule = rule if isinstance(rule, MajorityVote) else MajorityVote()
    low, high = extremes(mechanism)  # as far from the middle of the alphabet, or of a grid without end
    return np.sign(rule.of_sum(2 * total - count * (int(low) + int(high)), _draws(study, round)))


def of_rows(study: Study, round: int, matrix: Vector, reference: Vector | None = None) -> Vector:
    """The direction of decoded messages, a row a client, in the order of clients; a sum is divided by their number.

    `reference` is the server's own update, where the rule asks for one.
    """
    rule = study.rule
    found = _ruled(study, rule, matrix, Aid(_draws(study, round), reference))
    if getattr(rule_alone(rule), "sums", False):
        found = found / (rule.left(len(matrix)) if isinstance(rule, Chain) else len(matrix))
    return np.sign(found) if study.decoder == "vote" else found


def _ruled(study: Study, rule: Rule, matrix: Vector, aid: Aid) -> Vector:
    """What a rule makes of the rows; of one that somebody else wrote, if it is a direction at all."""
    kind = study.aggregation.kind
    if ":" not in kind:
        return rule(matrix, aid)
    try:
        found = np.asarray(rule(matrix, aid), float)
    except FAULTS as error:
        raise FedprivError(f"aggregation {kind}: {reason(error)}") from error
    if found.shape != matrix.shape[1:] or not np.isfinite(found).all():
        raise FedprivError(f"aggregation {kind} must give {matrix.shape[1]} finite numbers, got {_told(found)}")
    return found


def _told(found: Vector) -> str:
    return f"an array of shape {found.shape}" if np.isfinite(found).all() else "some that are not finite"


def decoded(mechanism: Mechanism, symbols: NDArray[np.generic]) -> NDArray[np.float64]:
    """Each message by itself; the votes as they are where there is no unbiased decoder."""
    try:
        return np.asarray(mechanism.decode(symbols, 1), float)
    except FedprivError:
        return symbols.astype(float)


def _draws(study: Study, round: int) -> Generator:
    return stream(study.run.seed, "aggregate", round)
