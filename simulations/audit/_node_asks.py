"""What a server asks of a node, and everything that it sees come back, through Flower's message and the client's app.

Bytes that answer are taken apart and put together again: where that gives the same bytes, they are a function of what
is public (study, round, who was asked) and of the symbols, and nothing else is in them. Where it does not, or where no
server could read them, that is a fault by itself. All else in the message is compared by value.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple, assert_never

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from clients import app as client
from clients.flower import answering
from clients.flower.code import code
from clients.node.asks import ranges
from clients.node.guard import Node
from clients.node.policy import Refused
from fedpriv import wire
from fedpriv.accounting.event import Event
from fedpriv.packed.forms import Trits
from fedpriv.packed.symbols import packing
from fedpriv.population.participation import attackers
from fedpriv.studies import promise as guarantee
from fedpriv.studies.study import Study
from fedpriv.trust import Central, Local, Sums, sums_only
from simulations.audit._node_home import Copy, Home
from simulations.audit._settings import reached

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
    fault: str = ""  # what no honest answer is, whatever its neighbour's may be


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


def drawn(copy: Copy, study: Study, dimension: int) -> tuple[Event, ...]:
    """What a message is an event of, by the channel or release that draws it: what the node's own ledger has to say.

    Others' noise counts as far as the policy's words go, which the ledger is not asked about.
    """
    own, hidden = copy.home.policy, masked(copy, study) or copy.home.policy.trust == "simulated"

    def counted(event: Event) -> Event:
        match event.trust:
            case Sums(certain):
                return replace(event, trust=Sums(min(certain, own.contributors)) if hidden else Local())
            case Local() | Central():
                return event
            case _ as never:
                assert_never(never)

    return tuple(map(counted, guarantee.events(study, dimension)))


def honest(home: Home, study: Study) -> Numbers:
    """The node's clients, but for those that a study has play attackers."""
    (own, of), count, bad = home.place, study.clients.count, study.clients.attackers
    held = np.arange(own * count // of, (own + 1) * count // of)
    return np.setdiff1d(held, attackers(count, bad, study.run.seed)) if bad else held


def _by_message(copy: Copy, ask: Ask) -> str | tuple[bytes, str]:
    task = {"study": ask.text, "round": ask.round, "seconds": PATIENCE, "until": 0.0, "restarted": False,
            "code": code(), "run": ask.run}  # fmt: skip
    arrays = {"weights": Array(ask.weights), "clients": Array(ask.clients)}
    if ask.settings is not None:
        arrays["settings"] = Array(ask.settings)
    content = RecordDict({"task": ConfigRecord(task), "arrays": ArrayRecord(arrays)})  # type: ignore[arg-type]
    context = Context(run_id=1, node_id=1, node_config=copy.config, state=RecordDict(), run_config={})
    message, began = Message(content, 1, "train"), time.time()
    reply: Any = client.app(message, context)
    about = _about(message, reply, began)
    if reply.has_error():
        return f"{reply.error.reason} (code {reply.error.code}){about}"
    told = [f"{type(record).__name__} {name!r}: {_told(record)}" for name, record in reply.content.items()]
    return _frames(reply.content), "; ".join(told) + about


def _frames(content: RecordDict) -> bytes:
    """What a server takes from an answer; nothing where it is not there."""
    answer = content.array_records.get("answer")
    return b"" if answer is None or "frames" not in answer else answer["frames"].data


def _told(record: Any) -> str:
    """Every value of a record, and of arrays what they say of themselves: all but the bytes that carry the answer."""
    if not isinstance(record, ArrayRecord):
        return ", ".join(f"{name} = {value!r}" for name, value in record.items())
    return ", ".join(f"{name} = {_shape(array)}" + (
        "" if name == "frames" else f" of {blake2b(array.data, digest_size=16).hexdigest()}"
    ) for name, array in record.items())  # fmt: skip


def _shape(array: Array) -> str:
    """What an array says that it is: one that is as long as its bytes says nothing more."""
    shape = "as many as its bytes" if tuple(array.shape) == (len(array.data),) else str(tuple(array.shape))
    return f"{array.dtype} {shape} ({array.stype})"


def _about(message: Message, reply: Any, began: float) -> str:
    """What a reply's own metadata say that those of any reply do not; when it was made is looked at for being true."""
    own, plain = (dict(vars(each.metadata)) for each in (reply, Message(RecordDict(), reply_to=message)))
    now, ends = plain.pop("_created_at"), plain.pop("_ttl")
    made, left = own.pop("_created_at"), own.pop("_ttl")
    told = {name: value for name, value in own.items() if value != plain.get(name)}
    told |= {} if began <= made <= now else {"made at": made}
    told |= {} if abs(made + left - now - ends) < 1e-3 else {"left to live": left}
    return "".join(f"; {name.lstrip('_')} {value!r}" for name, value in sorted(told.items()))


def _without_mask(copy: Copy, ask: Ask) -> str | tuple[bytes, str]:
    try:
        node = Node.of(copy.config)
        reply = node.answer(ask.text, ask.weights, ask.round, ask.clients, ask.settings, run=ask.run, masked=True)
    except Refused as error:
        return f"{answering.REFUSED}: {error}"
    return reply, "the vector that masks are put on"


def _read(ask: Ask, content: bytes, names: str) -> Heard:
    """What is seen of an answer: its records, its frames, whom they speak for, who failed and why, and its size."""
    try:
        parts, failed = wire.frames_of(content, len(ask.clients))
        frames = tuple(wire.opened(part, ask.expected) for part in parts)
    except wire.Rejected as error:
        fault = f"the node answers what no server reads: {error}"
        return Heard(f"{fault}, {names}; {len(content):,} bytes", (), content, fault)
    kinds = [f"{type(frame).__name__} of clients {ranges(frame.clients)}" for frame in frames]
    size = f"{len(content):,} bytes" if _steady(ask, frames) else "as many bytes as its symbols take"
    words = f"it answers: {names}; {', '.join(kinds) or 'no frame'}; {size}; failed: {failed or 'nobody'}"
    if bytes(content) == wire.reply([_written(ask, frame) for frame in frames], failed):
        return Heard(words, frames, content, _unaccounted(ask, frames))
    fault = "the node answers with bytes that no symbol accounts for"
    return Heard(f"{words}; {fault}", frames, content, fault)


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


def _unaccounted(ask: Ask, frames: tuple[OPENED, ...]) -> str:
    """Settings that a release cannot have come to, whatever its noise: nothing where there are none."""
    private = ask.study.privacy.private_sum
    for frame in frames:
        if isinstance(frame, wire.Adapted) and private is not None and ask.settings is not None:
            before = ask.settings[np.searchsorted(ask.clients, frame.clients)]
            if not reached(private, ask.study, before, frame.settings).all():
                return f"the node answers with {', '.join(private.adapts)} that no noise of its release leads to"
    return ""


def _steady(ask: Ask, frames: tuple[OPENED, ...]) -> bool:
    """Whether all answers to it are of one size: sums take what their largest entry needs, and zeros are left out."""
    short = isinstance(packing(ask.expected.mechanism), Trits)
    return not any(isinstance(frame, wire.Sum) or (short and isinstance(frame, wire.Messages)) for frame in frames)
