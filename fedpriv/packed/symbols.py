"""Symbols as bytes: ⌈log₂ K⌉ bits for K of them, five to a byte for −1, 0, 1, and 32 bits where there is no end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Bytes, Mask, Numbers
from fedpriv.mechanisms import Mechanism
from fedpriv.mechanisms.abilities import Gapped
from fedpriv.packed.forms import Places, Planes, Trits, check_alphabet, matrix_of, payload_of


class Packing(Protocol):
    """How messages are written: matrices of one row a client, (n, d) symbols or (n, size(d)) bytes."""

    def size(self, dimension: int) -> int:
        """How many bytes a packed message of so many coordinates takes."""

    def pack(self, symbols: NDArray[Any]) -> Bytes:
        """Messages as they are sent, rows of bytes, from rows of symbols."""

    def unpack(self, payload: Bytes, dimension: int) -> NDArray[Any]:
        """Rows of symbols, in the smallest type that holds them, from messages as they were sent, rows of bytes."""

    def valid(self, payload: Bytes, dimension: int) -> Mask:
        """Which messages that arrived hold symbols of the alphabet and nothing else: padding zero, reals finite."""


@dataclass(frozen=True)
class Words:
    """32 bits a coordinate, little endian: whole numbers ("<i4") or reals ("<f4")."""

    kind: str  # "<i4" or "<f4"

    def size(self, dimension: int) -> int:
        """How many bytes a packed message of so many coordinates takes, four each."""
        return 4 * dimension

    def pack(self, symbols: NDArray[Any]) -> Bytes:
        """Messages as they are sent, rows of bytes, from rows of numbers: whole ones of 32 bits, or reals rounded.

        Reals go even if not finite.
        """
        symbols = matrix_of(symbols)
        if self.kind == "<i4":
            check_alphabet(symbols, _INT32)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.ascontiguousarray(symbols, dtype=self.kind).view(np.uint8)

    def unpack(self, payload: Bytes, dimension: int) -> NDArray[Any]:
        """Rows of numbers, 32 bits each, from messages as they were sent, rows of bytes."""
        return payload_of(payload, self.size(dimension)).view(self.kind)

    def valid(self, payload: Bytes, dimension: int) -> Mask:
        """Which messages that arrived, rows of bytes, hold finite numbers alone."""
        numbers = self.unpack(payload, dimension)
        return np.asarray(np.isfinite(numbers).all(axis=1))


WHOLE = Words("<i4")
REAL = Words("<f4")
_INT32 = range(-(2**31), 2**31)


def packing_of(mechanism: Mechanism) -> Packing:
    """How a mechanism's symbols are packed to be sent: by planes, as trits, or in 32 bits where there is no end.

    An alphabet without end is of whole numbers where the mechanism has a grid, else of reals.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> packing_of(StochasticSign(clip=1, scale=2)).pack(np.array([[-1, -1, 1, -1, -1, -1, -1, 1, 1]]))
    array([[ 33, 128]], dtype=uint8)
    """
    if mechanism.alphabet is None:
        return REAL if sends_reals(type(mechanism)) else WHOLE
    if isinstance(mechanism, Gapped) and len(mechanism.numbers) < len(mechanism.alphabet):
        return Places(mechanism.numbers)
    return Trits() if mechanism.alphabet == range(-1, 2) else Planes(mechanism.alphabet)


def sends_reals(kind: type[Any]) -> bool:
    """Whether messages of a kind of mechanism are reals: it has neither an alphabet nor a grid.

    >>> from fedpriv.mechanisms import MECHANISMS
    >>> [name for name, kind in MECHANISMS.items() if sends_reals(kind)]
    ['Gaussian', 'Laplace']
    """
    return getattr(kind, "alphabet", kind) is None and not hasattr(kind, "grid")


def whole_numbers(mechanism: Mechanism) -> range | None:
    """The symbols that one coordinate of a message may be; all of 32 bits without an alphabet, None of reals.

    >>> from fedpriv.mechanisms import Skellam
    >>> len(whole_numbers(Skellam(clip=1, levels=8, noise=1))) == 2**32
    True
    """
    if mechanism.alphabet is None and packing_of(mechanism) == WHOLE:
        return _INT32
    return mechanism.alphabet


def symbol_counts(mechanism: Mechanism, payload: Bytes) -> Numbers:
    """How many of packed messages of one coordinate each are each symbol of the mechanism, from 0 on.

    >>> from fedpriv.mechanisms import RandomisedResponse
    >>> own = RandomisedResponse(clip=1, levels=2, epsilon=1.0)
    >>> symbol_counts(own, packing_of(own).pack(np.array([[2], [0], [2]])))
    array([1, 0, 2])
    """
    told = packing_of(mechanism).unpack(payload, 1).reshape(-1).astype(np.int64)
    return np.bincount(told, minlength=len(mechanism.alphabet or ()))
