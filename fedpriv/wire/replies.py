"""A node's reply: its frames one after the other, and for each client without a message why there is none."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from fedpriv.errors import FedprivError

REASONS = (
    "truncated", "oversized", "checksum", "version", "study", "round", "sender", "duplicate", "shape", "alphabet",
)  # fmt: skip
# Why a client has no message.
NOT_FINITE = "not finite"  # an update that an honest clip refuses
BROKEN = "attack"  # one that could not be carried out
ABSENT = "absent"  # an attack that sends nothing on purpose
_COUNTS = struct.Struct("<II")  # frames, failures
_LENGTH = struct.Struct("<Q")
_FAILURE = struct.Struct("<IB")  # client, bytes of the reason
_WHY = 200  # bytes of a reason


class Rejected(FedprivError):
    """Bytes that are not what was asked for; `reason` is one of REASONS."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(f"{reason}: {why}")
        self.reason = reason


def reply_bytes(frames: Sequence[bytes], failed: Mapping[int, str]) -> bytes:
    """A node's reply as bytes: its frames, and for each client without a message why there is none.

    >>> frames, failed = frames_of(reply_bytes([b"one", b"two"], {7: "raised"}))
    >>> [bytes(frame) for frame in frames], failed
    ([b'one', b'two'], {7: 'raised'})
    """
    parts = [_COUNTS.pack(len(frames), len(failed))]
    for frame in frames:
        parts += [_LENGTH.pack(len(frame)), frame]
    for client, why in failed.items():
        text = why.encode(errors="replace")[:_WHY]
        parts += [_FAILURE.pack(client, len(text)), text]
    return b"".join(parts)


def frames_of(content: bytes | memoryview, clients: int | None = None) -> tuple[list[memoryview], dict[int, str]]:
    """The frames of a node's reply, unopened, and its clients' failures; `Rejected` where it is no reply.

    Of so many clients each may have a frame of its own, and all of them one for their messages and one for their
    settings: many that are empty would take far more memory here than they did on their way.
    """
    rest = memoryview(content).cast("B")
    (count, failures), rest = _taken(_COUNTS, rest)
    if clients is not None and (count > clients + 2 or failures > clients):
        raise Rejected("oversized", f"{count} frames and {failures} failures of {clients} clients")
    frames: list[memoryview] = []
    for _ in range(count):
        (length,), rest = _taken(_LENGTH, rest)
        frame, rest = _cut(rest, length)
        frames.append(frame)
    failed: dict[int, str] = {}
    for _ in range(failures):
        (client, length), rest = _taken(_FAILURE, rest)
        text, rest = _cut(rest, length)
        failed[client] = "".join(filter(str.isprintable, bytes(text).decode(errors="ignore")))
    if len(rest):
        raise Rejected("oversized", f"{len(rest)} bytes after the end of a reply")
    return frames, failed


def _taken(layout: struct.Struct, rest: memoryview) -> tuple[tuple[int, ...], memoryview]:
    """The next numbers of a received reply, as the layout has them, and what follows them."""
    content, rest = _cut(rest, layout.size)
    return layout.unpack(content), rest


def _cut(rest: memoryview, length: int) -> tuple[memoryview, memoryview]:
    """The next so many bytes of a received reply, and what follows them; rejected where it ends before."""
    if len(rest) < length:
        raise Rejected("truncated", f"a reply ends {length - len(rest)} bytes early")
    return rest[:length], rest[length:]
