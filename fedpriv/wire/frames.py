"""A frame: a header, a checksum, the numbers of the clients it speaks for, and content. Numbers are little endian."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpriv.wire.replies import Rejected

_MAGIC = b"fdpv"  # how every frame begins
_VERSION = 1  # of this layout
_HEAD = struct.Struct("<4sBB8sIIIQ")  # magic, version, form, study, round, clients, dimension, bytes of content
_CHECKSUM = struct.Struct("<I")  # CRC-32 of all but itself

CLIENT = np.dtype("<u4")
FRONT = _HEAD.size + _CHECKSUM.size  # bytes before the clients


class Head(NamedTuple):
    """What a header says of the content."""

    form: int  # of the content: messages, a sum, settings
    clients: int  # how many it speaks for
    dimension: int  # numbers for each of them, or of their sum


def frame_bytes(
    form: int, study: bytes, round: int, clients: NDArray[np.int64], dimension: int, content: bytes
) -> bytes:
    """A frame as a node sends it: header, check sum, the clients it speaks for and its content, as bytes."""
    head = _HEAD.pack(_MAGIC, _VERSION, form, study, round, len(clients), dimension, len(content))
    who = clients.astype(CLIENT).tobytes()
    checksum = zlib.crc32(content, zlib.crc32(who, zlib.crc32(head)))
    return b"".join((head, _CHECKSUM.pack(checksum), who, content))


def taken_apart(frame: bytes | memoryview, study: bytes, round: int, most: int) -> tuple[Head, memoryview, memoryview]:
    """A received frame's header, clients and content, checked in size, check sum, study and round; else `Rejected`.

    >>> head, who, content = taken_apart(frame_bytes(0, b"eightful", 3, np.array([7]), 2, b"ab"), b"eightful", 3, 100)
    >>> head, np.frombuffer(who, CLIENT), bytes(content)
    (Head(form=0, clients=1, dimension=2), array([7], dtype=uint32), b'ab')
    """
    frame = memoryview(frame).cast("B")
    if len(frame) < FRONT:
        raise Rejected("truncated", f"{len(frame)} bytes, where a header takes {FRONT}")
    magic, version, form, made_for, at, count, dimension, length = _HEAD.unpack_from(frame)
    if magic != _MAGIC or version != _VERSION:
        raise Rejected("version", f"a frame begins with {_MAGIC!r} and version {_VERSION}")
    if len(frame) > most:
        raise Rejected("oversized", f"{len(frame)} bytes, where at most {most} were expected")
    if len(frame) != (said := FRONT + count * CLIENT.itemsize + length):
        reason = "truncated" if len(frame) < said else "oversized"
        raise Rejected(reason, f"{len(frame)} bytes, where the header says {said}")
    if _CHECKSUM.unpack_from(frame, _HEAD.size) != (zlib.crc32(frame[FRONT:], zlib.crc32(frame[: _HEAD.size])),):
        raise Rejected("checksum", "the bytes were changed on their way")
    if made_for != study:
        raise Rejected("study", f"made for study {made_for.hex()}, not {study.hex()}")
    if at != round:
        raise Rejected("round", f"made for round {at}, not {round}")
    middle = FRONT + count * CLIENT.itemsize
    return Head(form, count, dimension), frame[FRONT:middle], frame[middle:]
