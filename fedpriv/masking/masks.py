"""Masks: residues modulo 2ʷ from a key, as fast as AES in counter mode writes them, and what is added to a vector."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from fedpriv.errors import FedprivError
from fedpriv.packed.forms import Planes

Residues = NDArray[Any]  # unsigned, of the smallest width that holds w bits: its own overflow is the modulus, or more
MOST = 62  # bits: packing counts its symbols in a signed word
_BLOCK = 16  # bytes of one of AES
_zeros = lru_cache(maxsize=2)(bytes)  # of that length: what is enciphered, kept for the next mask of the size


def residue_type(width: int) -> np.dtype[Any]:
    """The unsigned type that residues of so many bits have in masks and masked vectors.

    >>> residue_type(13), residue_type(17)
    (dtype('uint16'), dtype('uint32'))
    """
    if not 0 < width <= MOST:
        raise FedprivError(f"residues have 1 to {MOST} bits, got {width}")
    return np.dtype(f"<u{next(size for size in (1, 2, 4, 8) if 8 * size >= width)}")


def mask_stream(key: bytes, dimension: int, width: int) -> Residues:
    """A mask of so many residues: AES-256-CTR's stream under a key of no other use, so its counter begins at zero.

    Bits past the w-th stay in: they never reach the lower ones, and `packed_residues` drops them.

    >>> int(mask_stream(bytes(32), 3, 16)[0]) == int.from_bytes(bytes.fromhex("dc95"), "little")  # AES-256 of zeros
    True
    """
    own = residue_type(width)
    size = dimension * own.itemsize
    stream = bytearray(size + _BLOCK)
    Cipher(AES(key), CTR(bytes(_BLOCK))).encryptor().update_into(_zeros(size), stream)
    return np.frombuffer(stream, own, dimension)


def packed_residues(residues: Residues, width: int) -> bytes:
    """A masked vector's residues as bytes, w bits each, as a member sends them."""
    return _planes(width).pack(_within(residues, width)[None]).tobytes()


def unpacked_residues(content: bytes | memoryview, dimension: int, width: int) -> Residues:
    """A masked vector's residues for the server, from `packed_residues`' bytes; other sizes are refused."""
    rows = np.frombuffer(content, np.uint8)[None]
    return np.asarray(_planes(width).unpack(rows, dimension)[0], residue_type(width))


def packed_size(dimension: int, width: int) -> int:
    """How many bytes a masked vector of so many residues, of w bits each, takes in a reply."""
    return _planes(width).size(dimension)


def _planes(width: int) -> Planes:
    """The packing of a masked vector's residues, of w bits each, into bytes and back."""
    return Planes(range(1 << width))


def _within(residues: Residues, width: int) -> Residues:
    """Residues without what their type holds past the w-th bit, which masks leave there."""
    return np.asarray(residues & residues.dtype.type((1 << width) - 1))


def whole_numbers(residues: Residues, width: int) -> NDArray[np.int64]:
    """An unmasked sum's residues as numbers from 0 to 2ʷ − 1, from which the server works out the total."""
    return _within(residues, width).astype(np.int64)


def residues_of(numbers: NDArray[np.int64], width: int) -> Residues:
    """A node's sum of messages in whole numbers as residues modulo 2ʷ, of the type that masks have."""
    return (numbers & ((1 << width) - 1)).astype(residue_type(width))
