"""Symbols in less than a byte: bits by planes, and five of three symbols together.

Both put coordinates that lie side by side into different planes or bytes, so that packing, unpacking and summing are
passes over contiguous memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Bytes, Mask, Symbols
from fedpriv.errors import FedprivError

_AT_ONCE = 1 << 21  # bits held as bytes while rows are packed


@dataclass(frozen=True)
class Planes:
    """⌈log₂ K⌉ bits a coordinate, by planes: the lowest bit of each coordinate's place in the alphabet, then the next.

    The planes follow each other without a gap, in the order of `np.packbits`: what comes first is the highest bit of a
    byte. For two symbols that is one call: `np.packbits(symbols == alphabet[-1], axis=1)`. So a row of d coordinates is
    a row of width·d votes, and is summed as such.

    >>> form = Planes(range(5))
    >>> form.pack(np.array([[4, 1, 2]])), form.unpack(np.array([[0b010_001_10, 0b0_0000000]], np.uint8), 3)
    (array([[70,  0]], dtype=uint8), array([[4, 1, 2]], dtype=uint8))
    """

    alphabet: range

    @property
    def width(self) -> int:
        """How many bits a coordinate's symbol takes, ⌈log₂ K⌉ for K symbols: as many planes."""
        return max(1, (len(self.alphabet) - 1).bit_length())

    def size(self, dimension: int) -> int:
        """How many bytes a packed message of so many coordinates takes."""
        return -(-self.width * dimension // 8)

    def pack(self, symbols: Symbols) -> Bytes:
        """Messages as they are sent, rows of bytes, from rows of symbols of the alphabet; any other is refused."""
        symbols = matrix_of(symbols)
        if len(self.alphabet) == 2:
            upper = symbols == self.alphabet[-1]
            if not (upper | (symbols == self.alphabet[0])).all():
                raise FedprivError(f"symbols must be {self.alphabet[0]} or {self.alphabet[-1]}")
            return np.packbits(upper, axis=1)
        check_alphabet(symbols, self.alphabet)
        rows, dimension = symbols.shape
        payload = np.empty((rows, self.size(dimension)), np.uint8)
        for part in _blocks(rows, self.width * dimension):
            index = symbols[part]  # each symbol's place in the alphabet
            if self.alphabet.start == 0 and self.alphabet.step == 1:
                index = index.astype(np.min_scalar_type(len(self.alphabet) - 1), copy=False)
            else:
                index, rest = np.divmod(index.astype(np.int64) - self.alphabet.start, self.alphabet.step)
                if rest.any():
                    raise FedprivError(f"symbols must be in {self.alphabet}")
            bits = np.empty((len(index), self.width, dimension), np.bool_)
            for plane in range(self.width):
                np.not_equal(index & index.dtype.type(1 << plane), 0, out=bits[:, plane])
            payload[part] = np.packbits(bits.reshape(len(index), -1), axis=1)
        return payload

    def unpack(self, payload: Bytes, dimension: int) -> Symbols:
        """Rows of symbols, in the smallest integer type, from messages as they were sent, rows of bytes."""
        payload = payload_of(payload, self.size(dimension))
        symbols = np.empty((len(payload), dimension), smallest_type(self.alphabet))
        for part in _blocks(len(payload), self.width * dimension):
            bits = np.unpackbits(payload[part], axis=1, count=self.width * dimension).reshape(-1, self.width, dimension)
            index = symbols[part]
            index[:] = bits[:, -1]
            for plane in range(self.width - 2, -1, -1):
                index += index
                index |= bits[:, plane]
            index *= self.alphabet.step
            index += self.alphabet.start
        return symbols

    def valid(self, payload: Bytes, dimension: int) -> Mask:
        """Which messages that arrived, rows of bytes, hold symbols of the alphabet alone, and zero padding."""
        payload = payload_of(payload, self.size(dimension))
        spare = 8 * self.size(dimension) - self.width * dimension
        good: Mask = payload[:, -1] & ((1 << spare) - 1) == 0
        if len(self.alphabet) != 1 << self.width:
            places = Planes(range(1 << self.width))
            for part in _blocks(len(payload), self.width * dimension):
                good[part] &= places.unpack(payload[part], dimension).max(axis=1) < len(self.alphabet)
        return good


@dataclass(frozen=True)
class Places:
    """A few numbers with gaps between them, ⌈log₂ K⌉ bits a coordinate: the place of each among the K, by `Planes`.

    >>> Places((0, 1, 7)).pack(np.array([[7, 0, 1]])), Places((0, 1, 7)).unpack(np.array([[0b001_100_00]], np.uint8), 3)
    (array([[48]], dtype=uint8), array([[7, 0, 1]], dtype=uint8))
    """

    numbers: tuple[int, ...]  # rising

    @property
    def _places(self) -> Planes:
        """How a message of gapped symbols is packed: each by its place among those that may be sent."""
        return Planes(range(len(self.numbers)))

    def size(self, dimension: int) -> int:
        """Bytes a row."""
        return self._places.size(dimension)

    def pack(self, symbols: Symbols) -> Bytes:
        """Rows of numbers as rows of bytes."""
        symbols, numbers = matrix_of(symbols), np.array(self.numbers)
        check_alphabet(symbols, range(self.numbers[0], self.numbers[-1] + 1))
        place = np.searchsorted(numbers, symbols)
        if not np.array_equal(numbers[place], symbols):
            raise FedprivError(f"symbols must be among {len(numbers)} of the numbers {numbers[0]} … {numbers[-1]}")
        return self._places.pack(place)

    def unpack(self, payload: Bytes, dimension: int) -> Symbols:
        """Rows of bytes as rows of numbers; of a payload that is not valid, some of them."""
        kind = smallest_type(range(self.numbers[0], self.numbers[-1] + 1))
        place = self._places.unpack(payload, dimension)
        return np.array(self.numbers, kind)[np.minimum(place, len(self.numbers) - 1)]

    def valid(self, payload: Bytes, dimension: int) -> Mask:
        """Which rows have zero padding and no place past the last number."""
        return self._places.valid(payload, dimension)


@dataclass(frozen=True)
class Trits:
    """−1, 0 and 1, five to a byte: byte i holds the coordinates i, i + m, … i + 4m as digits of 1, 3, 9, 27, 81.

    m is the number of bytes, a digit is the symbol plus one, and digits past the last coordinate are zero.

    >>> Trits().pack(np.array([[-1, 0, 1, 0, -1, 1, -1]]))
    array([[ 6, 22]], dtype=uint8)
    """

    def size(self, dimension: int) -> int:
        """How many bytes a packed ternary message of so many coordinates takes: five of them to a byte."""
        return -(-dimension // 5)

    def pack(self, symbols: Symbols) -> Bytes:
        """Ternary messages as they are sent, rows of bytes, from rows of −1, 0 and 1; any other symbol is refused."""
        symbols = matrix_of(symbols)
        check_alphabet(symbols, range(-1, 2))
        rows, dimension = symbols.shape
        padded = np.zeros((rows, 5 * self.size(dimension)), np.uint8)
        np.add(symbols, 1, out=padded[:, :dimension], casting="unsafe")
        digits = padded.reshape(rows, 5, self.size(dimension))
        payload = digits[:, 4].copy()
        for place in range(3, -1, -1):
            payload *= 3
            payload += digits[:, place]
        return payload

    def unpack(self, payload: Bytes, dimension: int) -> Symbols:
        """Rows of −1, 0 and 1 from ternary messages as they were sent, rows of bytes."""
        rest = payload_of(payload, self.size(dimension))
        digits = np.empty((len(rest), 5, rest.shape[1]), np.uint8)
        for place in range(5):
            quotient = rest // 3
            np.subtract(rest, 3 * quotient, out=digits[:, place])
            rest = quotient
        return digits.reshape(len(rest), 5 * rest.shape[1])[:, :dimension].view(np.int8) - np.int8(1)

    def valid(self, payload: Bytes, dimension: int) -> Mask:
        """Which ternary messages that arrived, rows of bytes, have no byte past 242, no digit past the end."""
        payload = payload_of(payload, self.size(dimension))
        good: Mask = payload.max(axis=1) < 3**5
        for spare in range(dimension, 5 * self.size(dimension)):
            place, byte = divmod(spare, self.size(dimension))
            good &= payload[:, byte] // 3**place % 3 == 0
        return good


def smallest_type(alphabet: range) -> np.dtype[Any]:
    """The smallest integer type for the symbols of an alphabet, signed only where it must be.

    >>> smallest_type(range(-1, 2)), smallest_type(range(256)), smallest_type(range(257))
    (dtype('int8'), dtype('uint8'), dtype('uint16'))
    """
    low, high = alphabet[0], alphabet[-1]
    kinds = [np.dtype(f"{'i' if low < 0 else 'u'}{width}") for width in (1, 2, 4, 8)]
    return next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)


def check_alphabet(symbols: Symbols, alphabet: range) -> None:
    """Refuse to pack symbols that are no whole numbers, or lie past an end of the mechanism's alphabet."""
    if symbols.dtype.kind not in "iu":
        raise FedprivError(f"symbols must be whole numbers, got {symbols.dtype}")
    if symbols.size and not (alphabet[0] <= symbols.min() and symbols.max() <= alphabet[-1]):
        raise FedprivError(f"symbols must lie in {alphabet[0]} … {alphabet[-1]}")


def payload_of(payload: Bytes, size: int) -> Bytes:
    """Packed messages in one piece, refused where they are not rows of `size` bytes: before they are unpacked."""
    if payload.dtype != np.uint8 or payload.ndim != 2 or payload.shape[1] != size or not size:
        raise FedprivError(f"a payload must be rows of {size} bytes, got shape {payload.shape} of {payload.dtype}")
    return np.ascontiguousarray(payload)


def matrix_of(symbols: NDArray[Any]) -> NDArray[Any]:
    """Symbols to be packed, refused where they are no matrix of one row a client."""
    if symbols.ndim != 2 or not symbols.shape[1]:
        raise FedprivError(f"symbols must be a matrix with one row a client, got shape {symbols.shape}")
    return symbols


def _blocks(rows: int, bits: int) -> Iterator[slice]:
    """Blocks of rows, as slices, to pack or unpack at once: their bits, a byte each, stay in cache."""
    step = max(1, _AT_ONCE // bits)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))
