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
from typing import NamedTuple, assert_never

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, ConfigRecordValues, Context, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from clients import app as client
from clients.flower import answering
from clients.flower.code import code_identity
from clients.node.guard import Node
from clients.node.policy import Refused
from fedpriv import wire
from fedpriv._base.arrays import Numbers, Rows
from fedpriv.accounting.event import Event
from fedpriv.node.asks import number_ranges
from fedpriv.packed.forms import Trits
from fedpriv.packed.symbols import packing_of
from fedpriv.population.participation import byzantine_clients
from fedpriv.releases import AdaptiveDpSgd
from fedpriv.studies import promise as guarantee
from fedpriv.studies.study import Study
from fedpriv.trust import Central, Local, Sums, sums_only
from simulations.audit._node_home import Copy, Home
from simulations.audit._settings import halves_of, reached

PATIENCE = 3600.0  # seconds for one answer
OPENED = wire.Messages | wire.Sum | wire.Adapted


@dataclass(frozen=True, eq=False)
class Ask:
    """One question of a server's."""

    about: str  # what to call it
    study: Study
    text: str  # of the study, as it is sent
    round: int  # from 1 on
    clients: Numbers  # of whom it is asked, in rising order
    weights: Rows  # the model that is sent
    run: str = "first"  # whose round it is: a server that asks again is another
    settings: NDArray[np.float64] | None = None  # that adapt, a row a client

    @property
    def expected(self) -> wire.Expected:
        """What the server would accept as a node's answer to this question: its study, round, clients and sizes."""
        own = self.study.privacy
        settings = 0 if own.private_sum is None else len(own.private_sum.adapts)
        return wire.Expected(
            self.study.id, self.round, self.clients, self.weights.size, own.drawn_by, self.study.masked, settings
        )

    @property
    def message(self) -> Message:
        """The question as the Flower message that a server sends the node's client app."""
        task: dict[str, ConfigRecordValues] = {
            "study": self.text, "round": self.round, "seconds": PATIENCE, "until": 0.0, "restarted": False,
            "code": code_identity(), "run": self.run,
        }  # fmt: skip
        arrays = {"weights": Array(self.weights), "clients": Array(self.clients)}
        if self.settings is not None:
            arrays["settings"] = Array(self.settings)
        return Message(RecordDict({"task": ConfigRecord(task), "arrays": ArrayRecord(arrays)}), 1, "train")

    def settings_of(self, clients: Numbers) -> NDArray[np.float64] | None:
        """The adaptive settings that the question sent to these of its clients, a row each; None where none adapt."""
        return None if self.settings is None else self.settings[np.searchsorted(self.clients, clients)]

    def messages_in(self, frame: OPENED) -> Iterator[tuple[int, bytes]]:
        """Each client's message in a frame of a node's answer: its number, and its bytes with study and round."""
        about = f"{self.text}\0{self.round}\0".encode()
        match frame:
            case wire.Messages():
                for client, row in zip(frame.clients.tolist(), frame.payload, strict=True):
                    yield client, about + row.tobytes()
            case wire.Sum():
                for client in frame.clients.tolist():
                    yield client, about + frame.total.tobytes()
            case wire.Adapted():
                return

    def counts_in(self, frame: OPENED) -> Iterator[tuple[int, float]]:
        """Each client's noisy count behind its adaptive clip norm, worked back from a frame of a node's answer."""
        own, study, before = self.study.privacy.private_sum, self.study, self.settings_of(frame.clients)
        if isinstance(frame, wire.Adapted) and isinstance(own, AdaptiveDpSgd) and before is not None:
            expected, steps = own.sampling * study.clients.records, study.training.local_steps
            counts = halves_of(own, before[:, 0], frame.settings[:, 0], expected, steps)
            yield from zip(frame.clients.tolist(), counts.tolist(), strict=True)


class Heard(NamedTuple):
    """What came back."""

    words: str  # all that is seen of it beside symbols
    frames: tuple[OPENED, ...] = ()  # none where nobody reads them
    content: bytes = b""  # as a server takes it; none of a refusal
    fault: str = ""  # what no honest answer is, whatever its neighbour's may be


@contextmanager
def in_flower() -> Iterator[None]:
    """While it lasts the audit can make Flower's messages, as only Flower's runtime can, known by three ids."""
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
    """Ask the copied node through the client's app, and take in its answer; of a masked sum, what masks are put on.

    What a node writes into its own log is not the server's to see. Of a reply's own metadata it is told what those of
    any reply do not say, and when it was made where that is not true.
    """
    with redirect_stderr(io.StringIO()):
        if masked(copy, ask.study):
            asked = (ask.text, ask.weights, ask.round, ask.clients, ask.settings)
            try:
                content = Node.of(copy.config).answer(*asked, run=ask.run, masked=True)
            except Refused as error:
                return Heard(f"it refuses: {answering.REFUSED}: {error}")
            return _read(ask, content, "the vector that masks are put on")
        message, began = ask.message, time.time()
        reply = client.app(message, Context(1, 1, copy.config, state=RecordDict(), run_config={}))
    own, plain = (dict(vars(each.metadata)) for each in (reply, Message(RecordDict(), reply_to=message)))
    now, ends = plain.pop("_created_at"), plain.pop("_ttl")
    made, left = own.pop("_created_at"), own.pop("_ttl")
    beside = {name: value for name, value in own.items() if value != plain.get(name)}
    beside |= {} if began <= made <= now else {"made at": made}
    beside |= {} if abs(made + left - now - ends) < 1e-3 else {"left to live": left}
    about = "".join(f"; {name.lstrip('_')} {value!r}" for name, value in sorted(beside.items()))
    if reply.has_error():
        return Heard(f"it refuses: {reply.error.reason} (code {reply.error.code}){about}")
    told = "; ".join(f"{type(record).__name__} {name!r}: {_told(record)}" for name, record in reply.content.items())
    answer = reply.content.array_records.get("answer")
    content = b"" if answer is None or "frames" not in answer else answer["frames"].data  # what a server takes
    return _read(ask, content, told + about)


def masked(copy: Copy, study: Study) -> bool:
    """Whether a node would put masks on its answers to this study: its policy and the study both show sums only."""
    return copy.home.policy.trust == "secure-aggregation" and sums_only(study.privacy.trust)


def drawn(copy: Copy, study: Study, dimension: int) -> tuple[Event, ...]:
    """The events that a message of this study is, by what draws it: what the copied node's ledger must charge for it.

    Others' noise counts as far as the policy's words go, which the ledger is not asked about.
    """
    own, hidden = copy.home.policy, masked(copy, study) or copy.home.policy.trust == "simulated"

    def counted(event: Event) -> Event:
        """An event whose trust is cut to what the policy believes of others' noise: none where messages are seen."""
        match event.trust:
            case Sums(certain):
                return replace(event, trust=Sums(min(certain, own.contributors)) if hidden else Local())
            case Local() | Central():
                return event
            case _ as never:
                assert_never(never)

    return tuple(map(counted, guarantee.promised_events(study, dimension)))


def honest(home: Home, study: Study) -> Numbers:
    """The numbers of a node's clients whom an audit may ask: all but those that the study has play attackers."""
    (own, of), count, bad = home.place, study.clients.count, study.clients.attackers
    held = np.arange(own * count // of, (own + 1) * count // of)
    return np.setdiff1d(held, byzantine_clients(count, bad, study.run.seed)) if bad else held


def _told(record: ArrayRecord | ConfigRecord | MetricRecord) -> str:
    """A record of a node's answer in words to be compared: all values; of arrays all but the bytes that answer."""
    if not isinstance(record, ArrayRecord):
        return ", ".join(f"{name} = {value!r}" for name, value in record.items())
    told = []
    for name, array in record.items():
        # An array that is as long as its bytes says nothing more by its shape.
        shape = "as many as its bytes" if tuple(array.shape) == (len(array.data),) else str(tuple(array.shape))
        digest = "" if name == "frames" else f" of {blake2b(array.data, digest_size=16).hexdigest()}"
        told.append(f"{name} = {array.dtype} {shape} ({array.stype}){digest}")
    return ", ".join(told)


def _read(ask: Ask, content: bytes, names: str) -> Heard:
    """A node's answer as a server sees it: words to compare with the neighbour's, frames, and a fault if it has one.

    Settings that a release cannot have come to, whatever its noise, are a fault; so are bytes that say more than these.
    """
    try:
        parts, failed = wire.frames_of(content, len(ask.clients))
        frames = tuple(wire.opened_frame(part, ask.expected) for part in parts)
    except wire.Rejected as error:
        fault = f"the node answers what no server reads: {error}"
        return Heard(f"{fault}, {names}; {len(content):,} bytes", (), content, fault)
    kinds = [f"{type(frame).__name__} of clients {number_ranges(frame.clients)}" for frame in frames]
    # Sums take what their largest entry needs, and trits leave out zeros: the size of both is a function of symbols.
    varies = (wire.Sum, wire.Messages) if isinstance(packing_of(ask.expected.mechanism), Trits) else wire.Sum
    of_symbols = any(isinstance(frame, varies) for frame in frames)
    size = "as many bytes as its symbols take" if of_symbols else f"{len(content):,} bytes"
    words = f"it answers: {names}; {', '.join(kinds) or 'no frame'}; {size}; failed: {failed or 'nobody'}"
    own, fault, private, written = ask.expected, "", ask.study.privacy.private_sum, list[bytes]()
    for frame in frames:
        about = own.study, own.round, frame.clients
        match frame:
            case wire.Messages():
                written.append(wire.messages_frame(*about, frame.payload, own.dimension, own.mechanism))
            case wire.Sum():
                written.append(wire.sum_frame(*about, frame.total, frame.alone))
            case wire.Adapted():
                written.append(wire.adapted_frame(*about, frame.settings))
                before = ask.settings_of(frame.clients)
                if private is None or before is None or reached(private, ask.study, before, frame.settings).all():
                    continue
                fault = f"the node answers with {', '.join(private.adapts)} that no noise of its release leads to"
    if bytes(content) == wire.reply_bytes(written, failed):
        return Heard(words, frames, content, fault)
    fault = "the node answers with bytes that no symbol accounts for"
    return Heard(f"{words}; {fault}", frames, content, fault)
