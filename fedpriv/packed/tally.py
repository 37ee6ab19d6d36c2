"""Exact sums of packed messages, in any order and in memory that does not grow with their number."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Bytes
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Mechanism
from fedpriv.packed._bit_counter import BitCounter
from fedpriv.packed.forms import Planes, Trits, payload_of
from fedpriv.packed.symbols import REAL, packing_of

_ROWS = 256  # of a block: sums of so many bytes fit 16 bits
_COLUMNS = 1 << 12  # of a block: it stays in cache


class Tally:
    """The sum of the symbols of every message added.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> sign = StochasticSign(clip=1, scale=2)
    >>> tally = Tally(sign, 2)
    >>> tally.add(packing_of(sign).pack(np.array([[1, -1], [1, 1], [1, -1]])))
    >>> tally.total(), tally.signs(), tally.count
    (array([ 3, -1]), array([ 1, -1], dtype=int8), 3)
    """

    def __init__(self, mechanism: Mechanism, dimension: int) -> None:
        """A sum of no messages yet, of one mechanism's symbols on so many coordinates."""
        self.count = 0
        self._form, self._dimension = packing_of(mechanism), dimension
        self._size = self._form.size(dimension)
        if isinstance(self._form, Planes):
            self._counter = BitCounter(self._form.width * dimension)
        else:
            self._sums = np.zeros((5, self._size) if isinstance(self._form, Trits) else (1, dimension), np.int64)

    def add(self, payload: Bytes) -> None:
        """Add rows of packed messages, found valid before, to the sum that the server, or a cohort, is forming."""
        payload = payload_of(payload, self._size)
        if self._form == REAL and len(payload):
            raise FedprivError("sums of reals depend on their order: sum the messages' rows, sorted by client")
        if isinstance(self._form, Planes):
            self._counter.add(payload)
        elif isinstance(self._form, Trits):
            # sums of ⌊byte / 3ᵏ⌋: a digit is such a quotient less three times the next, and so are the sums
            for row, column in product(range(0, len(payload), _ROWS), range(0, self._size, _COLUMNS)):
                columns = slice(column, column + _COLUMNS)
                quotient = payload[row : row + _ROWS, columns]
                for place in range(5):
                    self._sums[place, columns] += np.add.reduce(quotient, axis=0, dtype=np.uint16)
                    quotient = quotient // 3
        else:
            self._sums[0] += self._form.unpack(payload, self._dimension).sum(axis=0, dtype=np.int64)
        self.count += len(payload)

    def total(self) -> NDArray[np.int64]:
        """The sum of all messages added, coordinate by coordinate: what a mean is decoded from."""
        if isinstance(self._form, Planes):
            alphabet = self._form.alphabet
            total, *planes = self._counter.counts().reshape(self._form.width, self._dimension)
            for plane, counts in enumerate(planes, 1):
                total += counts << plane
            total *= alphabet.step
            total += self.count * alphabet.start
            return np.asarray(total)
        if isinstance(self._form, Trits):
            digits = self._sums.copy()
            digits[:-1] -= 3 * self._sums[1:]
            return np.asarray(digits.reshape(-1)[: self._dimension] - self.count)
        return np.array(self._sums[0])

    def signs(self) -> NDArray[np.int8]:
        """The sign of the sum in each coordinate, for a majority vote; of symbols ±1 from counts, without the sums."""
        if isinstance(self._form, Planes) and self._form.alphabet == range(-1, 2, 2):
            return self._counter.majority(self.count)
        return np.sign(self.total()).astype(np.int8)
