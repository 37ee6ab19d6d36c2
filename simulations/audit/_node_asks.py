"""What a server asks of a node, and everything that it sees come back, through Flower's message and the client's app.

Bytes that answer are taken apart and put together again: where that gives the same bytes, they are a function of what
is public (study, round, who was asked) and of the symbols, and nothing else is in them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from clients import app as client
from clients.asks import ranges
from clients.guard import Node
from clients.policy import Refused
from fedpriv import wire
from fedpriv.packed_forms import Trits
from fedpriv.packing import packing
from fedpriv.study import Study
from fedpriv.trust import sums_only
from simulations.audit.node_home import Copy

PATIENCE = 3600.0  # seconds for one answer
OPENED = wire.Messages | wire.Sum | wire.Adapted
Numbers = NDArray[np.int64]
Rows = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Ask:
    """One question, and what to call it."""

    about: str
    study: Study
    text: str  # of the study, as it is sent
    round: int
    clients: Numbers
    weights: Rows
    run: str = "first"
    settings: NDArray[np.float64] | None = None

    @property
    def expected(self) -> wire.Expected:
        """What an honest answer may say."""
        own = self.study.privacy
        settings = 0 if own.private_sum is None else len(own.private_sum.adapts)
        chosen = own.chosen
        return wire.Expected(
            self.study.id, self.round, self.clients, self.weights.size, chosen, self.study.masked, settings
        )


class Heard(NamedTuple):
    """What came back: in words all that is seen of it beside symbols; its frames, opened; the bytes."""

    words: str
    frames: tuple[OPENED, ...] = ()
    content: bytes = b""


@contextmanager
def in_flower() -> Iterator[None]:
    """Flower makes messages inside its runtime only, which it knows by these three."""
    names = ("_task_id", "_run_id", "_node_id")
    before = [getattr(TaskIdentity, name) for name in names]
    for name in names:
        setattr(TaskIdentity, name, 1)
    try:
        yield
    finally:
        for name, was in zip(names, before, strict=True):
            setattr(TaskIdentity, name, was)


def heard(copy: Copy, ask: Ask) -> Heard:
    """The node's answer, by the client's app; of a sum that masks hide, by what makes the vector that they are put on.

    What a node writes into its own log is not the server's to see.
    """
    with redirect_stderr(io.StringIO()):
        reply = _without_mask(copy, ask) if masked(copy, ask.study) else _by_message(copy, ask)
    return Heard(f"it refuses: {reply}") if isinstance(reply, str) else _read(ask, *reply)


def masked(copy: Copy, study: Study) -> bool:
    """Whether a node would put masks on what it answers."""
    return copy.home.policy.trust == "secure-aggregation" and sums_only(study.privacy.trust)


def _by_message(copy: Copy, ask: Ask) -> str | tuple[bytes, str]:
    task = {"study": ask.text, "round": ask.round, "seconds": PATIENCE, "until": 0.0, "restarted": False,
            "code": client.code(), "run": ask.run}  # fmt: skip
    arrays = {"weights": Array(ask.weights), "clients": Array(ask.clients)}
    if ask.settings is not None:
        arrays["settings"] = Array(ask.settings)
    content = RecordDict({"task": ConfigRecord(task), "arrays": ArrayRecord(arrays)})  # type: ignore[arg-type]
    context = Context(run_id=1, node_id=1, node_config=copy.config, state=RecordDict(), run_config={})
    reply = client.app(Message(content, 1, "train"), context)
    if reply.has_error():
        return f"{reply.error.reason} (code {reply.error.code})"
    records: Any = reply.content
    names = [f"{kind} {name!r} of {sorted(record)}" for kind, held in (
        ("arrays", records.array_records), ("metrics", records.metric_records), ("settings", records.config_records),
    ) for name, record in held.items()]  # fmt: skip
    return records.array_records["answer"]["frames"].data, "; ".join(names)


def _without_mask(copy: Copy, ask: Ask) -> str | tuple[bytes, str]:
    try:
        node = Node.of(copy.config)
        reply = node.answer(ask.text, ask.weights, ask.round, ask.clients, ask.settings, run=ask.run, masked=True)
    except Refused as error:
        return f"{client.REFUSED}: {error}"
    return reply, "the vector that masks are put on"


def _read(ask: Ask, content: bytes, names: str) -> Heard:
    """What is seen of an answer: its records, its frames, whom they speak for, who failed and why, and its size."""
    try:
        parts, failed = wire.frames_of(content)
        frames = tuple(wire.opened(part, ask.expected) for part in parts)
    except wire.Rejected as error:
        return Heard(f"it answers what no server reads ({error}), {names}", (), content)
    same = all(bytes(part) == _written(ask, frame) for part, frame in zip(parts, frames, strict=True))
    kinds = [f"{type(frame).__name__} of clients {ranges(np.sort(frame.clients))}" for frame in frames]
    size = f"{len(content):,} bytes" if _steady(ask, frames) else "as many bytes as its symbols take"
    words = f"it answers: {names}; {', '.join(kinds) or 'no frame'}; {size}; failed: {failed or 'nobody'}"
    return Heard(words if same else f"{words}; with bytes that no symbol accounts for", frames, content)


def _written(ask: Ask, frame: OPENED) -> bytes:
    """The only bytes that say so."""
    own = ask.expected
    match frame:
        case wire.Messages():
            return wire.messages(own.study, own.round, frame.clients, frame.payload, own.dimension, own.mechanism)
        case wire.Sum():
            return wire.summed(own.study, own.round, frame.clients, frame.total, frame.alone)
        case wire.Adapted():
            return wire.adapted(own.study, own.round, frame.clients, frame.settings)


def _steady(ask: Ask, frames: tuple[OPENED, ...]) -> bool:
    """Whether all answers to it are of one size: sums take what their largest entry needs, and zeros are left out."""
    short = isinstance(packing(ask.expected.mechanism), Trits)
    return not any(isinstance(frame, wire.Sum) or (short and isinstance(frame, wire.Messages)) for frame in frames)
