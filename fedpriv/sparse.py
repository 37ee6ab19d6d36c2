"""Ternary messages that are mostly zero: where the others stand, and their signs.

First the number of each row's gap bytes, then the gaps of all rows, then the signs at one bit each. A gap counts the
zeros before the next non-zero coordinate of its row; the byte 255 means 255 zeros and that the gap goes on. So every
message has exactly one such form, and it is read in a few passes over all rows at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpriv.errors import FedprivError
from fedpriv.packed_forms import Bytes, Trits

_CLEARLY = 0.9  # of the dense size: past it, the shorter form is not worth the longer way
_ON = 255
_COUNT = np.dtype("<u4")
_NONZEROS = (np.arange(256)[:, np.newaxis] // 3 ** np.arange(5) % 3 != 1).sum(axis=1)  # digits of a byte


def written(payload: Bytes, dimension: int) -> bytes | None:
    """The sparse form of packed ternary messages, or None where it is not clearly shorter.

    >>> few = np.zeros((1, 1000), np.int8)
    >>> few[0, [3, 700]] = 1, -1
    >>> written(Trits().pack(few), 1000)
    b'\\x04\\x00\\x00\\x00\\x03\\xff\\xff\\xba\\x80'
    """
    padding = 5 * payload.shape[1] - dimension  # digits that stand for no symbol
    nonzeros = int(_NONZEROS[payload].sum()) - padding * len(payload)
    if _COUNT.itemsize * len(payload) + nonzeros + nonzeros // 8 >= _CLEARLY * payload.size:
        return None
    body = _written(Trits().unpack(payload, dimension))
    return body if len(body) < _CLEARLY * payload.size else None


def _written(symbols: NDArray[np.integer]) -> bytes:
    rows, places = np.nonzero(symbols)
    first = np.diff(rows, prepend=-1) != 0
    zeros = np.diff(places, prepend=0) - 1
    zeros[first] = places[first]
    taken = zeros // _ON + 1
    gaps = np.full(int(taken.sum()), _ON, np.uint8)
    gaps[np.cumsum(taken) - 1] = zeros % _ON
    counts = np.bincount(rows, taken, len(symbols)).astype(_COUNT)
    return counts.tobytes() + gaps.tobytes() + np.packbits(symbols[rows, places] > 0).tobytes()


def read(body: Bytes, rows: int, dimension: int) -> Bytes:
    """The packed messages; refused where `body` is not the sparse form of any.

    >>> payload = read(np.frombuffer(b"\\x04\\x00\\x00\\x00\\x03\\xff\\xff\\xba\\x80", np.uint8), 1, 1000)
    >>> Trits().unpack(payload, 1000)[0, [2, 3, 4, 700]]
    array([ 0,  1,  0, -1], dtype=int8)
    """
    start = rows * _COUNT.itemsize
    if len(body) < start:
        raise FedprivError("the numbers of gaps are cut short")
    counts = body[:start].view(_COUNT).astype(np.int64)
    stop = start + int(counts.sum())
    gaps = body[start:stop]
    ends = gaps != _ON
    if len(body) != stop + -(-int(ends.sum()) // 8):
        raise FedprivError("gaps and signs are not as long as they say")
    signs = np.unpackbits(body[stop:])
    last = np.cumsum(counts)[counts > 0] - 1
    owners = np.repeat(np.arange(rows), counts)[ends]
    places = _places(gaps, ends, counts)[ends]
    if signs[len(places) :].any() or not ends[last].all() or (places >= dimension).any():
        raise FedprivError("a row's gaps or signs pass its end")
    symbols = np.zeros((rows, dimension), np.int8)
    symbols[owners, places] = 2 * signs[: len(places)].view(np.int8) - 1
    return Trits().pack(symbols)


def _places(gaps: Bytes, ends: NDArray[np.bool_], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The coordinate that each gap byte reaches in its own row."""
    reached = np.cumsum(gaps, dtype=np.int64) + np.cumsum(ends)
    before = np.concatenate(([0], reached))[np.cumsum(counts) - counts]
    return np.asarray(reached - np.repeat(before, counts) - 1)
