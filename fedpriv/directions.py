"""What a round's messages agree on: the direction the server reads from them, which an omniscient attacker foresees."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv.aggregation import Aid, Chain, MajorityVote, rule_alone
from fedpriv.arrays import Vector
from fedpriv.attacks.messages import extremes
from fedpriv.errors import FedprivError
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
    found = rule(matrix, Aid(_draws(study, round), reference))
    if getattr(rule_alone(rule), "sums", False):
        found = found / (rule.left(len(matrix)) if isinstance(rule, Chain) else len(matrix))
    return np.sign(found) if study.decoder == "vote" else found


def decoded(mechanism: Mechanism, symbols: NDArray[np.generic]) -> NDArray[np.float64]:
    """Each message by itself; the votes as they are where there is no unbiased decoder."""
    try:
        return np.asarray(mechanism.decode(symbols, 1), float)
    except FedprivError:
        return symbols.astype(float)


def _draws(study: Study, round: int) -> Generator:
    return stream(study.run.seed, "aggregate", round)
