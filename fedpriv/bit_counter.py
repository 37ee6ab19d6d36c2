"""How many of many rows of bits have each bit set, without ever taking the bits apart.

A count is kept as planes: plane k holds bit k of every column's count. Two rows are added at a time by the carry-save
adder of five operations; what it carries waits for its like and then goes to the next plane, so that a row costs five
passes in all (Harley and Seal; Warren, Hacker's Delight, 5-1). Short rows are laid side by side, in lanes, until they
are long enough for numpy to be quick; long ones are cut in blocks of columns that stay in cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
_BLOCK = 1 << 17  # bytes of a row worked on at once: the few arrays that an adder touches then fit a core's cache
_AT_ONCE = 1 << 12  # of them turned into counts at once
_LINE = 64  # bytes: operands that begin with a cache line are a third quicker
_ROOMS = 40  # asked for together: past 4 MB numpy asks for large pages, in which planes do not evict each other


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
        self._lanes = 1 << max(1, _BLOCK // self._size).bit_length() - 1  # a power of two, to be halved in the end
        width = self._lanes * self._size
        cuts = np.linspace(0, width, -(-width // _BLOCK) + 1, dtype=int)
        self._blocks = [_Block(slice(start, stop)) for start, stop in pairwise(cuts.tolist())]
        self._waiting = np.zeros((2, width), np.uint8)
        self._filled = 0  # rows in it

    def add(self, rows: Bytes) -> None:
        """Count a matrix of rows."""
        rows = np.ascontiguousarray(rows)
        together = 2 * self._lanes
        first = min(-self._filled % together, len(rows))
        last = len(rows) - (len(rows) - first) % together
        self._keep(rows[:first])
        self._count(rows[first:last].reshape(-1, *self._waiting.shape))
        self._keep(rows[last:])

    def counts(self) -> NDArray[np.int64]:
        """The counts."""
        counts = np.zeros(8 * self._size, np.int64)
        for first, planes in self._settled():
            for start in range(0, planes[0].size, _AT_ONCE):
                found = _counts([plane[start : start + _AT_ONCE] for plane in planes])
                counts[8 * (first + start) :][: found.size] = found
        return counts[: self._columns]

    def majority(self, rows: int) -> NDArray[np.int8]:
        """1 where more than half of so many rows have the bit set, −1 where less, 0 where just half: without counts."""
        signs = np.empty(8 * self._size, np.int8)
        for first, planes in self._settled():
            above, below = (np.unpackbits(bits).view(np.int8) for bits in _majority(planes, rows))
            np.subtract(above, below, out=signs[8 * first :][: above.size])
        return signs[: self._columns]

    def _settled(self) -> Iterator[tuple[int, list[Bytes]]]:
        """Each block's first byte, and its planes once every row is counted and every lane added."""
        if self._filled:
            self._waiting.reshape(-1, self._size)[self._filled :] = 0
            self._count(self._waiting[np.newaxis])
            self._filled = 0
        return ((block.columns.start, _one_lane(block.settled(), self._lanes)) for block in self._blocks)

    def _keep(self, rows: Bytes) -> None:
        self._waiting.reshape(-1, self._size)[self._filled : self._filled + len(rows)] = rows
        self._filled += len(rows)
        if self._filled == 2 * self._lanes:
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
        self._rooms: list[Bytes] = []
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

    def _room(self) -> Bytes:
        """Zeros for a plane or a carry."""
        if not self._rooms:
            stride = (self._width // _LINE + 2) * _LINE
            raw = np.zeros(_ROOMS * stride, np.uint8)
            start = -raw.ctypes.data % _LINE
            self._rooms = [raw[place : place + self._width] for place in range(start, raw.size - stride, stride)][::-1]
        return self._rooms.pop()


def _add(total: Bytes, first: Bytes, second: Bytes) -> None:
    """total + first + second, a bit a column: the sum in `total`, the carry in `first`; `second` is spoilt."""
    np.bitwise_xor(second, first, second)
    np.bitwise_xor(total, second, total)
    np.bitwise_xor(first, total, first)
    np.bitwise_or(first, second, first)
    np.bitwise_xor(first, total, first)


def _one_lane(planes: list[Bytes], lanes: int) -> list[Bytes]:
    """The planes of the lanes' sum: half of the lanes are added to the other half, bit by bit, until one is left."""
    planes = [plane.copy() for plane in planes]
    while lanes > 1:
        lanes //= 2
        half = planes[0].size // 2
        carry = np.zeros(half, np.uint8)
        for level, plane in enumerate(planes):
            planes[level], other = plane[:half], plane[half:]
            _add(planes[level], other, carry)
            carry = other
        planes.append(carry)
    return planes


def _counts(planes: list[Bytes]) -> NDArray[np.int64]:
    """Counts from planes, eight of which make a byte."""
    counts = np.zeros(8 * planes[0].size, np.int64)
    for lowest in range(0, len(planes), 8):
        byte = np.zeros(counts.size, np.uint8)
        for plane in planes[lowest : lowest + 8][::-1]:
            byte += byte
            byte |= np.unpackbits(plane)
        counts += byte.astype(np.int64) << lowest
    return counts


def _majority(planes: list[Bytes], rows: int) -> tuple[Bytes, Bytes]:
    """Where counts are above half of `rows`, and where below: compared with it from the highest bit down."""
    half = rows // 2
    above, equal = np.zeros(planes[0].size, np.uint8), np.full(planes[0].size, 255, np.uint8)
    for level in range(max(len(planes), half.bit_length()) - 1, -1, -1):
        plane = planes[level] if level < len(planes) else np.uint8(0)
        if half >> level & 1:
            equal &= plane
        else:
            above |= equal & plane
            equal &= ~plane
    return above, ~above if rows % 2 else ~(above | equal)  # equal to a half that was rounded down is below it
