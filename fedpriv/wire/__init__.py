"""What travels from a node to the server, and every check on what arrives.

A frame holds the packed messages of some clients, or their sum. Nothing that arrives can do more than be rejected:
sizes are compared with what was expected before anything is made of them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Bytes, Numbers
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Mechanism
from fedpriv.packed import sparse
from fedpriv.packed.forms import Trits
from fedpriv.packed.symbols import packing_of, whole_numbers
from fedpriv.wire._sizes import (
    HEADER,
    SETTING,
    Size,
    alone,
    client_bytes,
    masked_bits,
    packed_bits,
    settings_bytes,
    varies,
)
from fedpriv.wire.frames import CLIENT, FRONT, frame_bytes, taken_apart
from fedpriv.wire.replies import REASONS, Rejected, frames_of, reply_bytes

__all__ = [
    "HEADER", "REASONS", "Adapted", "Expected", "Messages", "Rejected", "Size", "Sum", "adapted_frame", "alone",
    "client_bytes", "frames_of", "masked_bits", "messages_frame", "opened_frame", "packed_bits", "reply_bytes",
    "settings_bytes", "sum_frame", "wrapped_sum",
]  # fmt: skip


# Forms of content, one byte of a frame's header.
_DENSE = 0  # packed messages, each in full
_SPARSE = 1  # ternary messages by their non-zero coordinates
_ADAPTED = 6  # settings of releases that adapt
_ALONE = struct.Struct("<Q")  # bytes that the messages of a sum would have taken, behind it
# Sums, by the smallest width that holds them.
_SUMS: dict[int, np.dtype[Any]] = {2: np.dtype("<i1"), 3: np.dtype("<i2"), 4: np.dtype("<i4"), 5: np.dtype("<i8")}


@dataclass(frozen=True)
class Expected:
    """What a frame may say."""

    study: bytes  # eight of them, its id
    round: int  # from 1
    clients: Numbers  # sorted: who may speak in it
    dimension: int  # symbols of a message
    mechanism: Mechanism  # which decides what a message may hold
    masked: int | None = None  # under secure aggregation, how many clients' messages a sum must hold
    settings: int = 0  # how many settings of a client's release adapt


@dataclass(frozen=True)
class Messages:
    """Packed messages, one row a client."""

    clients: Numbers  # whose rows these are
    payload: Bytes  # (clients, bytes of a message in full)
    refused: Numbers  # clients whose row was not of the alphabet, and is left out


@dataclass(frozen=True)
class Sum:
    """The sum of some clients' messages."""

    clients: Numbers  # whose messages are in it
    total: Numbers  # of symbols, one a coordinate
    alone: int | None = None  # bytes these would have taken, headers included, where that depends on what they say


@dataclass(frozen=True)
class Adapted:
    """The settings of some clients' releases after a round, one row a client: public, and each client's own affair."""

    clients: Numbers  # whose rows these are
    settings: NDArray[np.float64]  # (clients, how many adapt)


def messages_frame(
    study: bytes, round: int, clients: Numbers, payload: Bytes, dimension: int, mechanism: Mechanism
) -> bytes:
    """A node's frame of packed messages, a row a client; ternary ones sparse where that is clearly shorter.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> sign = StochasticSign(clip=1, scale=2)
    >>> frame = messages_frame(b"eightful", 3, np.array([7]), np.array([[0b10100000]], np.uint8), 3, sign)
    >>> found = opened_frame(frame, Expected(b"eightful", 3, np.array([6, 7]), 3, sign))
    >>> found.clients, packing_of(sign).unpack(found.payload, 3), len(frame) - HEADER
    (array([7]), array([[ 1, -1,  1]], dtype=int8), 1)
    """
    short = sparse.sparse_form(payload, dimension) if isinstance(packing_of(mechanism), Trits) else None
    if short is not None:
        return frame_bytes(_SPARSE, study, round, clients, dimension, short)
    return frame_bytes(_DENSE, study, round, clients, dimension, np.ascontiguousarray(payload).tobytes())


def sum_frame(study: bytes, round: int, clients: Numbers, total: Numbers, alone: int | None = None) -> bytes:
    """A node's frame of the sum of some clients' messages, in the smallest width; `alone`: what they would take."""
    low, high = int(total.min()), int(total.max())
    form = next(key for key, kind in _SUMS.items() if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    told = b"" if alone is None else _ALONE.pack(alone)
    return frame_bytes(form, study, round, clients, len(total), total.astype(_SUMS[form]).tobytes() + told)


def adapted_frame(study: bytes, round: int, clients: Numbers, settings: NDArray[np.float64]) -> bytes:
    """A node's frame of its clients' settings that have moved, such as clip norms, for the next round.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> expected = Expected(b"eightful", 3, np.array([6, 7]), 3, StochasticSign(clip=1, scale=2), settings=1)
    >>> opened_frame(adapted_frame(b"eightful", 3, np.array([7]), np.array([[0.5]])), expected)
    Adapted(clients=array([7]), settings=array([[0.5]]))
    """
    return frame_bytes(_ADAPTED, study, round, clients, settings.shape[1], settings.astype(SETTING).tobytes())


def opened_frame(frame: bytes | memoryview, expected: Expected) -> Messages | Sum | Adapted:
    """What a node's frame says, checked by the server against what it asked for; else `Rejected`.

    Size, checksum, study and round, clients and content are checked in this order.

    A message that is not of the alphabet is rejected where its client sends alone; in company only its row is left out,
    so that a cohort's other clients lose nothing by it.
    """
    most, size = len(expected.clients), _size(expected)
    # No content is longer than everybody's messages, a sum in eight bytes, or everybody's settings: sparse is shorter.
    longest = max(most * size, 8 * expected.dimension + _ALONE.size, most * expected.settings * SETTING.itemsize)
    head, who, content = taken_apart(frame, expected.study, expected.round, FRONT + most * CLIENT.itemsize + longest)
    if head.form == _ADAPTED and expected.settings:
        count, settings = head.clients, head.dimension
        if settings != expected.settings or len(content) != count * settings * SETTING.itemsize:
            raise Rejected("shape", f"{len(content)} bytes for {count} × {settings} settings")
        clients = _checked_clients(who, expected)
        return Adapted(clients, np.frombuffer(content, SETTING).astype(np.float64).reshape(count, settings))
    if head.dimension != expected.dimension or len(content) not in _lengths(head.form, head.clients, expected):
        raise Rejected(
            "shape", f"{len(content)} bytes of form {head.form} for {head.clients} × {head.dimension} symbols"
        )
    clients = _checked_clients(who, expected)
    if head.form in _SUMS:
        return _opened_sum(clients, head.form, content, expected)
    payload = np.frombuffer(content, np.uint8)
    if head.form != _SPARSE:
        return _checked_messages(clients, payload.reshape(head.clients, -1), expected)
    try:
        dense = sparse.read_sparse(payload, head.clients, expected.dimension)
    except FedprivError as error:
        raise Rejected("shape", str(error)) from None
    return _checked_messages(clients, dense, expected)


def _opened_sum(clients: Numbers, form: int, content: memoryview, expected: Expected) -> Sum:
    """A frame's sum, checked to be one that so many messages can have: in their reach, in steps of the alphabet.

    Under secure aggregation any residue may come: who looks at a sum modulo 2ʷ cannot tell.
    """
    count, numbers = len(clients), expected.dimension * _SUMS[form].itemsize
    total = np.frombuffer(content[:numbers], _SUMS[form]).astype(np.int64)
    alphabet = whole_numbers(expected.mechanism)
    assert alphabet is not None  # or the content's length was wrong
    low, high = count * alphabet[0], count * alphabet[-1]
    if expected.masked is not None:
        high = low + alphabet.step * ((1 << masked_bits(expected.mechanism, expected.masked)) - 1)
    if not (total.min() >= low and total.max() <= high):
        raise Rejected("alphabet", f"{count} messages have no sum outside {low} … {high}")
    if alphabet.step != 1 and ((total - low) % alphabet.step).any():
        raise Rejected("alphabet", f"{count} messages have sums in steps of {alphabet.step} from {low}")
    if not varies(expected.mechanism, expected.masked):
        return Sum(clients, total)
    (alone,) = _ALONE.unpack(content[numbers:])
    if not count * HEADER <= alone <= count * (HEADER + _size(expected)):
        raise Rejected("shape", f"{count} messages take no {alone} bytes")
    return Sum(clients, total, alone)


def _size(expected: Expected) -> int:
    """Bytes that one packed message must have in full, by the expected mechanism and dimension."""
    return packing_of(expected.mechanism).size(expected.dimension)


def _lengths(form: int, count: int, expected: Expected) -> range:
    """How many bytes a frame's content of that form may have, for so many clients: any others are rejected."""
    if form == _SPARSE and isinstance(packing_of(expected.mechanism), Trits):
        return range(count * _size(expected))
    exact = {_DENSE: count * _size(expected)}
    if whole_numbers(expected.mechanism) is not None:
        told = _ALONE.size if varies(expected.mechanism, expected.masked) else 0
        exact |= {key: kind.itemsize * expected.dimension + told for key, kind in _SUMS.items()}
    return range(exact[form], exact[form] + 1) if form in exact else range(0)


def _checked_clients(who: memoryview, expected: Expected) -> Numbers:
    """The clients that a frame speaks for: some of those asked, each once, or it is rejected."""
    clients = np.frombuffer(who, CLIENT).astype(np.int64)
    if not clients.size:
        raise Rejected("shape", "a frame must speak for somebody")
    known = np.isin(clients, expected.clients)
    if not known.all():
        raise Rejected("sender", f"client {clients[~known][0]} was not asked here")
    if len(np.unique(clients)) != len(clients):
        raise Rejected("duplicate", "a client stands twice in one frame")
    return clients


def _checked_messages(clients: Numbers, payload: Bytes, expected: Expected) -> Messages:
    """A frame's messages that are of the mechanism's alphabet, and the clients whose were not."""
    good = packing_of(expected.mechanism).valid(payload, expected.dimension)
    if good.all():
        return Messages(clients, payload, clients[:0])
    if len(clients) == 1:
        raise Rejected("alphabet", f"client {clients[0]} sent what {type(expected.mechanism).__name__} cannot send")
    return Messages(clients[good], payload[good], clients[~good])


def wrapped_sum(total: Numbers, count: int, mechanism: Mechanism, clients: int) -> Numbers:
    """A sum of `count` messages as secure aggregation shows it: steps from the least there can be, modulo 2ʷ.

    What honest messages add up to stays as it is.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> wrapped_sum(np.array([-3, 3, 5, -5]), 3, StochasticSign(clip=1, scale=2), clients=3)
    array([-3,  3, -3,  3])
    """
    alphabet = whole_numbers(mechanism)
    assert alphabet is not None  # or there would be no sum
    steps = (total - count * alphabet[0]) // alphabet.step
    return count * alphabet[0] + alphabet.step * (steps & ((1 << masked_bits(mechanism, clients)) - 1))
