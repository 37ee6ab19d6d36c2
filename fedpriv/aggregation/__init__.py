"""Many messages in, one vector out: every rule by its kind, the class's name.

A rule is called with a matrix of one row a client and gives a vector. A row with anything that is not a finite number
is left out, too few rows are an error, and the matrix is never changed. `needs_rows` says whether the rule must see
each message, or can work on their sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, cast

from fedpriv.aggregation.order_statistics import Median, TrimmedMean
from fedpriv.aggregation.rows import finite_rows
from fedpriv.aggregation.sums import Mean, NormTrimmedSum
from fedpriv.aggregation.votes import MajorityVote
from fedpriv.arrays import Vector
from fedpriv.kinds import made

__all__ = [
    "RULES", "MajorityVote", "Mean", "Median", "NormTrimmedSum", "Rule", "TrimmedMean", "finite_rows", "make_rule",
]  # fmt: skip


class Rule(Protocol):
    """A matrix of one row a client in, a vector out."""

    needs_rows: ClassVar[bool]

    def __call__(self, matrix: Vector) -> Vector:
        """What the rows agree on."""


RULES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Mean, MajorityVote, TrimmedMean, Median, NormTrimmedSum)
}


def make_rule(kind: str, settings: Mapping[str, Any]) -> Rule:
    """The rule of that kind with those settings, or one line that says what is wrong.

    >>> make_rule("TrimedMean", {"dropped": 10})
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: unknown rule 'TrimedMean' (did you mean 'TrimmedMean'?); rules: Mean, MajorityVote, ...
    """
    return cast(Rule, made("rule", RULES, kind, settings))
