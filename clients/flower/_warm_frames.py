"""A message, its node and the answer as bytes, between two processes of one user: Flower's own forms, and lengths."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any, cast

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, RecordDict

_LENGTH = struct.Struct("<Q")


def send(connection: socket.socket, parts: Sequence[bytes]) -> None:
    """Write parts of any lengths to a socket, between a node's worker and the process of one of Flower's messages."""
    connection.sendall(b"".join(map(_LENGTH.pack, (len(parts), *map(len, parts)))))
    for part in parts:
        connection.sendall(part)


def received(connection: socket.socket) -> list[bytes]:
    """The parts that `send` wrote at the socket's other end; EOFError where they do not come to their end.

    >>> here, there = socket.socketpair()
    >>> send(here, [b"a model", b""]), received(there)
    (None, [b'a model', b''])
    """
    (count,) = _LENGTH.unpack(exactly(connection, _LENGTH.size))
    lengths = [_LENGTH.unpack(exactly(connection, _LENGTH.size))[0] for _ in range(count)]
    return [exactly(connection, length) for length in lengths]


def exactly(connection: socket.socket, length: int) -> bytes:
    """So many bytes from a socket between a node's worker and a message's process; EOFError where there are fewer."""
    found = bytearray(length)
    view, place = memoryview(found), 0
    while place < length:
        if not (read := connection.recv_into(view[place:])):
            raise EOFError
        place += read
    return bytes(found)


def packed(action: str, content: RecordDict, context: Context) -> list[bytes]:
    """A server's message and the node it asks, as parts to hand to the node's worker: all that an answer depends on."""
    arrays = content.array_records["arrays"]
    told = [ConfigRecord(dict(context.node_config)), content.config_records["task"]]
    state = packed_state(context)
    heads = [(name, each.dtype, each.shape, each.stype) for name, each in arrays.items()]
    head = json.dumps({"action": action, "state": len(state), "arrays": heads}).encode()
    return [head, *(each.deflate() for each in told), *state, *(each.data for each in arrays.values())]


def unpacked(parts: Sequence[bytes]) -> tuple[str, RecordDict, Context]:
    """The action, message and node's Context that `packed` wrote, for the worker's fork that answers."""
    head, (config, task, *rest) = json.loads(parts[0]), parts[1:]
    state, data = rest[: head["state"]], rest[head["state"] :]
    arrays = {name: Array(dtype, tuple(shape), stype, own)
              for (name, dtype, shape, stype), own in zip(head["arrays"], data, strict=True)}  # fmt: skip
    content = RecordDict({"task": ConfigRecord.inflate(task), "arrays": ArrayRecord(arrays)})
    settings = cast(dict[str, bool | float | int | str], dict(ConfigRecord.inflate(config)))  # `packed` had only such
    held = RecordDict(unpacked_state(state))
    return head["action"], content, Context(run_id=0, node_id=0, node_config=settings, state=held, run_config={})


def packed_state(context: Context) -> list[bytes]:
    """What a node keeps between two messages as parts, names and records by turns: sent to its worker and back."""
    return [part for name, own in context.state.config_records.items() for part in (name.encode(), own.deflate())]


def unpacked_state(parts: Sequence[bytes]) -> dict[str, Any]:
    """What a node keeps between two messages, by name, from the parts that `packed_state` wrote."""
    return {name.decode(): ConfigRecord.inflate(own) for name, own in zip(parts[::2], parts[1::2], strict=True)}
