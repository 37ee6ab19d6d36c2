"""Ternary messages that are mostly zero: where the others stand, and their signs.

First the number of each row's gap bytes, then the gaps of all rows, then the signs at one bit each. A gap counts the
zeros before the next non-zero coordinate of its row; the byte 255 means 255 zeros and that the gap goes on. So every
message has exactly one such form, and it is read in a few passes over all rows at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Bytes
from fedpriv._base.compiled import compiled
from fedpriv.bounds.coins import likely_window, log_binomial
from fedpriv.errors import FedprivError
from fedpriv.packed.forms import Trits

_CLEARLY = 0.9  # of the dense size: past it, the shorter form is not worth the longer way
_ON = 255  # the byte that says that a gap goes on
_COUNT = np.dtype("<u4")  # of the numbers of gap bytes
_SPOKEN = np.array(  # which digits of a byte speak, one bit each, and in the upper three bits how many do
    [sum((1 << place) + 32 for place in range(5) if byte // 3**place % 3 != 1) for byte in range(256)], np.uint8
)
_NONZEROS = (np.arange(256)[:, np.newaxis] // 3 ** np.arange(5) % 3 != 1).sum(axis=1)  # digits of a byte


def sparse_form(payload: Bytes, dimension: int) -> bytes | None:
    """Packed ternary messages in the sparse form that the wire has for them; None where it is not clearly shorter.

    >>> few = np.zeros((1, 1000), np.int8)
    >>> few[0, [3, 700]] = 1, -1
    >>> sparse_form(Trits().pack(few), 1000)
    b'\\x04\\x00\\x00\\x00\\x03\\xff\\xff\\xba\\x80'
    """
    padding = 5 * payload.shape[1] - dimension  # digits that stand for no symbol
    nonzeros = int(_NONZEROS[payload].sum()) - padding * len(payload)
    if _COUNT.itemsize * len(payload) + nonzeros + nonzeros // 8 >= _CLEARLY * payload.size:
        return None
    symbols = Trits().unpack(payload, dimension)
    rows, places = np.nonzero(symbols)
    first = np.diff(rows, prepend=-1) != 0
    zeros = np.diff(places, prepend=0) - 1
    zeros[first] = places[first]
    taken = zeros // _ON + 1
    gaps = np.full(int(taken.sum()), _ON, np.uint8)
    gaps[np.cumsum(taken) - 1] = zeros % _ON
    counts = np.bincount(rows, taken, len(symbols)).astype(_COUNT)
    body = counts.tobytes() + gaps.tobytes() + np.packbits(symbols[rows, places] > 0).tobytes()
    return body if len(body) < _CLEARLY * payload.size else None


def sparse_sizes(payload: Bytes, dimension: int) -> NDArray[np.int64]:
    """How many bytes each packed ternary message would take on the wire by itself, in whichever form it has then.

    >>> few = np.zeros((2, 1000), np.int8)
    >>> few[0, [3, 700]] = 1
    >>> few[1] = 1
    >>> sparse_sizes(Trits().pack(few), 1000)
    array([  9, 200])
    """
    found = np.empty(len(payload), np.int64)
    _sizes(np.ascontiguousarray(payload), _SPOKEN, dimension, _CLEARLY * payload.shape[1], found)
    return found


@compiled
def _sizes(payload: Bytes, spoken: Bytes, dimension: int, clearly: float, found: NDArray[np.int64]) -> None:
    """Write to `found` the bytes each packed ternary message takes by itself, sparse or dense.

    The votes of each row are counted, and in which parts of a byte's five digits each block of 64 bytes has any.
    """
    rows, width = payload.shape
    heard = np.empty(-(-width // 64), np.uint8)
    for row in range(rows):
        votes = dimension - 5 * width  # digits that stand for no symbol count as votes
        for block in range(len(heard)):
            parts = 0
            for place in range(64 * block, min(64 * block + 64, width)):
                own = spoken[payload[row, place]]
                votes += own >> 5
                parts |= own
            heard[block] = parts & 31
        size = width
        if 4 + votes + votes // 8 < clearly:
            size = 4 + votes + (votes + 7) // 8
            size += _longer(payload[row], heard, spoken, dimension)
        found[row] = size if size < clearly else width


@compiled
def _longer(payload: Bytes, heard: Bytes, spoken: Bytes, dimension: int) -> int:
    """How many bytes the gaps of one sparse message take beyond one for each of its votes.

    Its five parts follow each other.

    Between votes of blocks that have at most two others between them lie 254 zeros at the most. So where a gap has 255,
    blocks without a vote that follow each other hold 129 of them.
    """
    width, zeros, most = len(payload), 0, 0
    for part in range(5):
        end = min(width, dimension - part * width)
        for block in range(len(heard)):
            zeros = 0 if heard[block] >> part & 1 else zeros + max(min(64, end - 64 * block), 0)
            most = max(most, zeros)
    if most < _ON - 2 * 63:
        return 0
    found, before, last = 0, -1, -4  # where the last vote stands, if that is known; and its block
    for part in range(5):
        end = min(width, dimension - part * width)
        for block in range(len(heard)):
            if not heard[block] >> part & 1 or 64 * block >= end:
                continue
            if block - last > 3 or last < 0:
                if last >= 0:
                    before = _vote(payload, spoken, part, 64 * last + 63, 64 * last - 1, -1)
                    before += part * width
                first = _vote(payload, spoken, part, 64 * block, min(64 * block + 64, end), 1)
                if first >= 0:
                    found += (part * width + first - before - 1) // 255
            last = block
        if last >= 0:  # in the next part the blocks begin anew
            before = part * width + _vote(payload, spoken, part, min(64 * last + 63, end - 1), 64 * last - 1, -1)
        last = -4
    return found


@compiled
def _vote(payload: Bytes, spoken: Bytes, part: int, start: int, stop: int, step: int) -> int:
    """The first byte from `start` to `stop` of a ternary message that has a vote in that part of five; -1 for none."""
    for place in range(start, stop, step):
        if spoken[payload[place]] >> part & 1:
            return place
    return -1


def expected_size(dimension: int, share: float) -> float:
    """The mean bytes of a ternary message on the wire whose coordinates each speak with that probability.

    All are independent.

    The number of votes is binomial. A gap passes 255 m zeros where that many coordinates before a vote are silent;
    where that has any probability to speak of, a message is sparse for certain.

    >>> round(expected_size(100_000, 0.1)), round(expected_size(650, 0.5))
    (11254, 130)
    """
    dense = Trits().size(dimension)
    first, last = likely_window(dimension, share, 1e-30) if 0 < share < 1 else (round(share) * dimension,) * 2
    votes = np.arange(first, last + 1)
    chances = np.exp(log_binomial(dimension, share, first, last)) if 0 < share < 1 else np.ones(1)
    alone = _COUNT.itemsize + votes + (votes + 7) // 8
    short = (alone < _CLEARLY * dense) & (_COUNT.itemsize + votes + votes // 8 < _CLEARLY * dense)
    zeros = np.arange(_ON, dimension, _ON)
    longer = float(((dimension - zeros) * share * (1 - share) ** zeros).sum())
    return float((chances * np.where(short, alone + longer, dense)).sum() / chances.sum())


def largest_expected_size(dimension: int, share: float) -> float:
    """The largest mean bytes of a ternary message on the wire whose coordinates speak so often on average.

    Of the sparse form, a vote takes nine bits, and its gap a byte more for every 255 zeros; the dense form, taken where
    the sparse one is not clearly shorter, is never longer than it by more than that says.
    """
    sparse = _COUNT.itemsize + 9 / 8 * dimension * share + 7 / 8 + dimension / _ON
    return min(sparse / _CLEARLY, float(Trits().size(dimension)))


def read_sparse(body: Bytes, rows: int, dimension: int) -> Bytes:
    """Packed ternary messages from the sparse form that arrived; refused where `body` is the form of none.

    >>> payload = read_sparse(np.frombuffer(b"\\x04\\x00\\x00\\x00\\x03\\xff\\xff\\xba\\x80", np.uint8), 1, 1000)
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
    reached = np.cumsum(gaps, dtype=np.int64) + np.cumsum(ends)  # by each gap byte, were all rows one
    before = np.concatenate(([0], reached))[np.cumsum(counts) - counts]
    places = (reached - np.repeat(before, counts) - 1)[ends]
    if signs[len(places) :].any() or not ends[last].all() or (places >= dimension).any():
        raise FedprivError("a row's gaps or signs pass its end")
    symbols = np.zeros((rows, dimension), np.int8)
    symbols[owners, places] = 2 * signs[: len(places)].view(np.int8) - 1
    return Trits().pack(symbols)
