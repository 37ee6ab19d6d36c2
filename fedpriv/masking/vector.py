"""A masked vector on its way: whose messages it is the sum of, w bits a coordinate, in a frame like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedpriv import wire
from fedpriv._base.arrays import Numbers
from fedpriv.masking import masks
from fedpriv.masking.masks import Residues
from fedpriv.mechanisms import Mechanism
from fedpriv.packed.symbols import whole_numbers
from fedpriv.wire import Expected, Rejected
from fedpriv.wire.frames import CLIENT, FRONT, frame_bytes, taken_apart

_MASKED = 7  # the frame's form


class Masked(NamedTuple):
    """Some clients' sum, under a mask or yet without, and why others are not in it."""

    clients: Numbers
    residues: Residues  # of the sum, as steps
    failed: Mapping[int, str]  # by client, why it is not in the sum


def sum_steps(total: Numbers, count: int, mechanism: Mechanism) -> Numbers:
    """A node's sum of messages in whole steps from the least possible, to be masked; `total_of` undoes it."""
    alphabet = _alphabet(mechanism)
    return (total - count * alphabet[0]) // alphabet.step


def total_of(steps: Numbers, count: int, mechanism: Mechanism) -> Numbers:
    """The sum of so many clients' messages, from the steps that the server has unmasked."""
    alphabet = _alphabet(mechanism)
    return count * alphabet[0] + alphabet.step * steps


def _alphabet(mechanism: Mechanism) -> range:
    """The whole numbers that a coordinate of one message can be, in whose steps masked sums are counted."""
    found = whole_numbers(mechanism)
    assert found is not None  # or the study had been refused
    return found


def added_vectors(content: bytes, expected: Expected) -> Masked:
    """The sum of one node's clients' answers, not masked yet; a client without a message of its kind is left out."""
    mechanism, total = expected.mechanism, np.zeros(expected.dimension, np.int64)
    clients = np.empty(0, np.int64)
    frames, reasons = wire.frames_of(content)
    failed = dict(reasons)
    for frame in frames:
        try:
            found = wire.opened_frame(frame, expected)
            if not isinstance(found, wire.Sum) or np.isin(found.clients, clients).any():
                raise Rejected("shape", "a sum of clients who are in no other was expected")
        except Rejected as error:
            failed |= dict.fromkeys(set(expected.clients.tolist()) - set(clients.tolist()) - set(failed), str(error))
            continue
        total += found.total
        clients = np.concatenate([clients, found.clients])
    failed = {client: why for client, why in failed.items() if client not in clients}
    return Masked(clients, masks.residues_of(sum_steps(total, len(clients), mechanism), width_of(expected)), failed)


def width_of(expected: Expected) -> int:
    """w, bits a coordinate of a masked sum of the messages expected: as many as of a sum taken directly."""
    assert expected.masked is not None  # sums alone are seen
    return wire.masked_bits(expected.mechanism, expected.masked)


def vector_bytes(expected: Expected, sent: Masked) -> bytes:
    """A node's masked vector as the bytes of its reply to the server."""
    content = masks.packed_residues(sent.residues, width_of(expected))
    frame = frame_bytes(_MASKED, expected.study, expected.round, sent.clients, len(sent.residues), content)
    return wire.reply_bytes([frame], sent.failed)


def read_vector(content: bytes, expected: Expected) -> Masked:
    """A node's masked vector from reply bytes that may be anything: `Rejected` where it is not one of clients asked."""
    asked, dimension, width = expected.clients, expected.dimension, width_of(expected)
    frames, failed = wire.frames_of(content)
    if len(frames) != 1:
        raise Rejected("shape", f"{len(frames)} frames, where one masked vector was expected")
    size = masks.packed_size(dimension, width)
    most = FRONT + CLIENT.itemsize * len(asked) + size
    head, who, payload = taken_apart(frames[0], expected.study, expected.round, most)
    if head.form != _MASKED or head.dimension != dimension or len(payload) != size:
        raise Rejected("shape", f"{len(payload)} bytes of form {head.form} for {head.dimension} masked coordinates")
    clients = np.frombuffer(who, CLIENT).astype(np.int64)
    if not clients.size or len(np.unique(clients)) != len(clients) or not np.isin(clients, asked).all():
        raise Rejected("sender", "a masked vector speaks for clients who were asked, each once")
    asked_too = {client: why for client, why in failed.items() if client in asked and client not in clients}
    return Masked(clients, masks.unpacked_residues(payload, dimension, width), asked_too)
