"""Votes: each coordinate's sign, as the sum of all symbols has it, or most rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.aggregation.rows import Aid, usable_rows
from fedpriv.errors import FedprivError
from fedpriv.mechanisms.centre import votes_past_centre
from fedpriv.settings import check_fields

Ties = Literal["zero", "plus", "minus", "random"]
_ROWS = 127  # of a block, whose sums of signs fit a byte
_BYTES = 1 << 18  # columns of a block of bytes, which is read as it is
_WIDER = 1 << 12  # columns of a block of wider numbers, which are compared in cache


@dataclass(frozen=True, kw_only=True)
class MajorityVote:
    """The sign of the sum of all symbols, about the mechanism's centre: each of a message's M trials is a vote.

    [F] section 5.1. It works on sums, and takes symbols alone: whole numbers. Where rows are clipped, mixed or averaged
    before, or reals to begin with, `ClientVote` gives each of them one sign.

    >>> from fractions import Fraction
    >>> counts = np.array([[4, 4, 0], [4, 0, 1], [1, 0, 3], [1, 4, 4], [1, 3, 2]])  # of 4 trials
    >>> MajorityVote()(counts, Aid(centre=Fraction(2)))
    array([1., 1., 0.])
    """

    ties: Annotated[Ties, "what as many + as − give: 0, +1, −1, or either at random"] = "zero"

    needs_rows: ClassVar[bool] = False
    votes: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, a word for ties that is none of those known."""
        check_fields(self)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The vote a coordinate, −1, 0 or +1, of messages of symbols around `aid.centre`: the server's direction."""
        rows, aid = usable_rows(matrix, self.least, self), aid or Aid()
        if rows.dtype.kind == "f" and (rows % 1).any():
            raise FedprivError("MajorityVote adds up symbols, whole numbers: of other rows ClientVote takes the signs")
        total = np.add.reduce(rows, axis=0, dtype=np.float64)
        return self.of_sum(votes_past_centre(total, len(rows), aid.centre), aid.rng)

    def of_sum(self, total: NDArray[Any], rng: Generator | None = None) -> Vector:
        """The vote a coordinate, −1, 0 or +1, from the messages' sum less the centre; `rng` draws once for each tie.

        >>> MajorityVote(ties="plus").of_sum(np.array([-3, 0, 2]))
        array([-1.,  1.,  1.])
        """
        return _decided(np.asarray(total), self.ties, rng)


@dataclass(frozen=True, kw_only=True)
class ClientVote:
    """Each coordinate's more frequent sign: every row has one vote, however far it lies from 0; zeros abstain.

    >>> ClientVote()(np.array([[1.0, -1.0, 0.0], [5.0, -1.0, 2.0], [-9.0, 1.0, -2.0]]))
    array([ 1., -1.,  0.])
    """

    ties: Annotated[Ties, "what as many + as − give: 0, +1, −1, or either at random"] = "zero"

    needs_rows: ClassVar[bool] = True
    votes: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, a word for ties that is none of those known."""
        check_fields(self)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The vote a coordinate, −1, 0 or +1, of messages, each by its sign: the server's direction."""
        return _decided(_sum_of_signs(usable_rows(matrix, self.least, self)), self.ties, aid.rng if aid else None)


def _sum_of_signs(rows: Vector) -> NDArray[np.int64]:
    """In each coordinate, how many messages are above 0 less how many below: what a vote is decided by."""
    total = np.zeros(rows.shape[1], np.int64)
    for _, columns, signs in _signs(rows):
        total[columns] += signs.sum(axis=0, dtype=np.int8)
    return total


def _decided(total: NDArray[Any], ties: str, rng: Generator | None) -> Vector:
    """The signs of sums of votes, −1, 0 or +1; where a sum is 0, what `ties` says, at random by `rng`."""
    votes: Vector = np.subtract(total > 0, total < 0, dtype=np.int8).astype(np.float64)
    if ties == "zero":
        return votes
    tied = votes == 0
    match ties:
        case "plus":
            votes[tied] = 1
        case "minus":
            votes[tied] = -1
        case "random":
            if rng is None:
                raise FedprivError("a vote with ties = 'random' needs a generator")
            votes[tied] = 2 * rng.integers(0, 2, int(tied.sum())) - 1
    return votes


@dataclass(frozen=True, kw_only=True)
class WeightedVote:
    """A vote in which a row that is right with probability p weighs ln(p / (1 − p)).

    No other weights are right more often: Nitzan, Paroush 1982. p is estimated by how often a row agrees with the
    majority, a first step of Dawid, Skene 1979, by Laplace's rule of succession: p = (agreed + 1) / (agreed +
    disagreed + 2). A row that contradicts most of the time counts against its own signs. Zeros abstain, in the vote and
    in the count; a tie gives 0.

    >>> WeightedVote()(np.array([[1.0, 1.0, 1.0, -1.0], [1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, 1.0, 1.0]]))
    array([1., 1., 1., 1.])
    """

    needs_rows: ClassVar[bool] = True
    votes: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The vote a coordinate, −1, 0 or +1, of messages weighed by how often each agrees with most."""
        rows = usable_rows(matrix, self.least, self)
        majority = np.sign(_sum_of_signs(rows))
        agreed, total = np.zeros((2, len(rows), 1)), np.zeros(rows.shape[1])
        for part, columns, signs in _signs(rows):
            own = signs * majority[columns].astype(np.int8)
            for side, sign in enumerate((1, -1)):
                agreed[side, part, 0] += np.count_nonzero(own == sign, axis=1)
        weights = np.log((agreed[0] + 1) / (agreed[1] + 1))
        for part, columns, signs in _signs(rows):
            total[columns] += (signs * weights[part]).sum(axis=0)
        return np.asarray(np.sign(np.where(np.abs(total) > 1e-9 * np.abs(weights).sum(), total, 0)))


def _signs(rows: Vector) -> Iterator[tuple[slice, slice, NDArray[np.int8]]]:
    """Blocks of a matrix of messages, rows and columns, with the signs there; bytes that are signs are not copied."""
    width = _BYTES if rows.dtype == np.int8 else _WIDER
    for start in range(0, len(rows), _ROWS):
        part = slice(start, start + _ROWS)
        for first in range(0, rows.shape[1], width):
            columns = slice(first, first + width)
            block = rows[part, columns]
            if block.dtype != np.int8:
                signs = (block > 0).view(np.int8) - (block < 0).view(np.int8)
            else:
                few = block.min() >= -1 and block.max() <= 1
                signs = (block if few else np.sign(block)).view(np.int8)
            yield part, columns, signs
