"""How many of many rows of bits have each bit set, without ever taking the bits apart.

A count is kept as planes: plane k holds bit k of every column's count. Two rows are added at a time by the carry-save
adder of five operations; what it carries waits for its like and then goes to the next plane, so that a row costs five
passes in all (Harley and Seal; Warren, Hacker's Delight, 5-1). Short rows are laid side by side, in lanes, until they
are long enough for numpy to be quick; long ones are cut in blocks of columns that stay in cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
_BLOCK = 1 << 17  # bytes of a row worked on at once: the few arrays that an adder touches then fit a core's cache
_MOST_LANES = 255  # a byte's worth of each can be added up in 16 bits
_LINE = 64  # bytes: operands that begin with a cache line are a third quicker


class BitCounter:
    """Counts of `columns` bits, over rows of ⌈columns/8⌉ bytes in the bit order of `np.packbits`.

    >>> counter = BitCounter(3)
    >>> for _ in range(5):
    ...     counter.add(np.array([[0b101_00000], [0b001_00000]], np.uint8))
    >>> counter.counts()
    array([ 5,  0, 10])
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._size = -(-columns // 8)
        self._lanes = min(_MOST_LANES, max(1, _BLOCK // self._size))
        width = self._lanes * self._size
        self._blocks = [_Block(slice(start, min(start + _BLOCK, width))) for start in range(0, width, _BLOCK)]
        self._waiting = np.zeros((2, width), np.uint8)
        self._filled = 0  # rows in it

    def add(self, rows: Bytes) -> None:
        """Count a matrix of rows."""
        rows = np.ascontiguousarray(rows)
        together = 2 * self._lanes
        first = min(-self._filled % together, len(rows))
        self._keep(rows[:first])
        whole = (len(rows) - first) // together
        self._count(rows[first : first + whole * together].reshape(whole, *self._waiting.shape))
        self._keep(rows[first + whole * together :])

    def counts(self) -> NDArray[np.int64]:
        """The counts."""
        self._flush()
        counts = np.zeros(8 * self._size, np.int64)
        for block in self._blocks:
            for columns, count in block.counts(self._lanes):
                counts[columns] = count
        return counts[: self._columns]

    def majority(self, rows: int) -> NDArray[np.int8]:
        """1 where more than half of so many rows have the bit set, −1 where less, 0 where just half.

        Long rows are decided on the planes, eight columns a byte, without counts.
        """
        if self._lanes > 1:
            return np.sign(2 * self.counts() - rows).astype(np.int8)
        self._flush()
        signs = np.empty(8 * self._size, np.int8)
        for block in self._blocks:
            above, below = block.majority(rows)
            columns = slice(8 * block.columns.start, 8 * block.columns.stop)
            np.subtract(np.unpackbits(above).view(np.int8), np.unpackbits(below).view(np.int8), out=signs[columns])
        return signs[: self._columns]

    def _keep(self, rows: Bytes) -> None:
        self._waiting.reshape(-1, self._size)[self._filled : self._filled + len(rows)] = rows
        self._filled += len(rows)
        if self._filled == 2 * self._lanes:
            self._count(self._waiting[np.newaxis])
            self._filled = 0

    def _flush(self) -> None:
        if self._filled:
            self._waiting.reshape(-1, self._size)[self._filled :] = 0
            self._count(self._waiting[np.newaxis])
            self._filled = 0

    def _count(self, pairs: Bytes) -> None:
        for block in self._blocks:
            for first, second in pairs[:, :, block.columns]:
                block.add(first, second)


class _Block:
    """The planes of some columns, and for each plane a carry into it that waits for a second one."""

    def __init__(self, columns: slice) -> None:
        self.columns = columns
        self._width = columns.stop - columns.start
        self._planes = [self._room()]
        self._carries: list[Bytes | None] = [None]
        self._spare: list[Bytes] = []
        self._differ = self._room()

    def add(self, first: Bytes, second: Bytes) -> None:
        """Count two rows."""
        total, differ = self._planes[0], self._differ
        carry = self._spare.pop() if self._spare else self._room()
        np.bitwise_xor(first, second, differ)  # reads both rows from memory at once; all else is in cache
        np.bitwise_xor(total, differ, total)
        np.bitwise_xor(first, total, carry)
        np.bitwise_or(carry, differ, carry)
        np.bitwise_xor(carry, total, carry)
        self._carry(carry)

    def _carry(self, carry: Bytes, level: int = 1) -> None:
        """Take in a carry; where one waits already, add both to the plane and carry on."""
        while level < len(self._planes):
            waiting = self._carries[level]
            if waiting is None:
                self._carries[level] = carry
                return
            self._carries[level] = None
            _add(self._planes[level], waiting, carry)
            self._spare.append(carry)
            carry, level = waiting, level + 1
        self._planes.append(self._room())
        self._carries.append(carry)

    def settled(self) -> list[Bytes]:
        """The planes once nothing waits."""
        level = 0
        while level < len(self._planes):
            if (waiting := self._carries[level]) is not None:
                self._carries[level] = None
                nothing = self._room()
                _add(self._planes[level], waiting, nothing)
                self._spare.append(nothing)
                if waiting.any():
                    self._carry(waiting, level + 1)
            level += 1
        return self._planes

    def counts(self, lanes: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Counts of a few columns at a time, lanes added up, and which columns they are."""
        planes = [plane.reshape(lanes, -1) for plane in self.settled()]
        size = planes[0].shape[1]
        step = max(1, (_BLOCK // 4) // lanes)
        for start in range(0, size, step):
            part = slice(start, min(start + step, size))
            count = np.zeros(8 * (part.stop - part.start), np.int64)
            for lowest in range(0, len(planes), 8):
                byte = np.zeros((lanes, count.size), np.uint8)
                for plane in planes[lowest : lowest + 8][::-1]:
                    byte += byte
                    byte |= np.unpackbits(plane[:, part], axis=1)
                count += np.add.reduce(byte, axis=0, dtype=np.uint16).astype(np.int64) << lowest
            offset = self.columns.start if lanes == 1 else 0
            yield slice(8 * (offset + part.start), 8 * (offset + part.stop)), count

    def majority(self, rows: int) -> tuple[Bytes, Bytes]:
        """Where counts are above half of `rows`, and where below: compared with it from the highest bit down."""
        half = rows // 2
        above, equal = np.zeros(self._width, np.uint8), np.full(self._width, 255, np.uint8)
        for level in range(max(len(self.settled()), half.bit_length()) - 1, -1, -1):
            plane = self._planes[level] if level < len(self._planes) else np.uint8(0)
            if half >> level & 1:
                equal &= plane
            else:
                above |= equal & plane
                equal &= ~plane
        below = above | equal if rows % 2 == 0 else above  # a half that was rounded down is missed by those equal to it
        return above, np.invert(below)

    def _room(self) -> Bytes:
        raw = np.zeros(self._width + _LINE, np.uint8)
        start = -raw.ctypes.data % _LINE
        return raw[start : start + self._width]


def _add(total: Bytes, first: Bytes, second: Bytes) -> None:
    """total + first + second, a bit a column: the sum in `total`, the carry in `first`; `second` is spoilt."""
    np.bitwise_xor(second, first, second)
    np.bitwise_xor(total, second, total)
    np.bitwise_xor(first, total, first)
    np.bitwise_or(first, second, first)
    np.bitwise_xor(first, total, first)
