"""Sums that nobody sees the parts of, in somebody's own Flower app: a node's phases, and the strategy's side of them.

All phases are training messages, for those alone reach a mod whatever the app has registered. Keys and shares are
exchanged while a round is configured, the masked vector is the answer to the round itself, and the sum is opened while
it is aggregated. A member is a place in the list of those asked, which the server numbers: nobody's identity is
checked, so a server that makes members up, or passes on keys of its own, is not kept from single messages
(docs/flower-sums.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from logging import getLogger
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid

from fedpriv._base.arrays import Bytes, Numbers
from fedpriv.accounting.event import Event
from fedpriv.channel import Channel
from fedpriv.errors import FedprivError, natural, whole
from fedpriv.flower._terms import TERMS, Terms, check_answered
from fedpriv.masking import masks, member, vector
from fedpriv.masking.identity import Identity
from fedpriv.masking.member import State
from fedpriv.masking.once import Marker
from fedpriv.masking.roster import Terms as Members
from fedpriv.masking.session import Session
from fedpriv.mechanisms import Mechanism
from fedpriv.packed.symbols import packing_of
from fedpriv.settings import check_fields
from fedpriv.trust import Local, Sums
from fedpriv.wire import Expected, Rejected

SUM = "fedpriv.sum"  # the ConfigRecord of a phase, in messages and in what a node keeps between them
PHASES = ("keys", "shares", "vector", "opening")
MOST = 100_000  # members of one sum
NOBODY = Identity()  # signs nothing, and believes whatever the server says of members
Seal = Callable[[Bytes, int, Mechanism], bytes]  # a packed message, of so many coordinates, as a masked vector
Take = Callable[[int, bytes], None]  # of a place, what its member sent; `Rejected` where it does not fit
log = getLogger("fedpriv")


@dataclass(frozen=True, kw_only=True)
class SumsOnly:
    """That a server sees sums of messages alone, by masks; the same on both sides, or there is no sum.

    >>> SumsOnly(fewest=16, byzantine=2).trust
    Sums(certain=14)
    """

    fewest: Annotated[int, whole, "answers that a sum holds at least, or nobody opens it"]
    byzantine: Annotated[int, natural, "of these, clients whose noise is not counted on"] = 0
    colluding: Annotated[int, natural, "of these, clients that tell the server what they know"] = 0
    neighbours: Annotated[int | None, natural, "clients each is masked with: 0 for all; else as few as are safe"] = None

    def __post_init__(self) -> None:
        """Refuse, in an app's or a strategy's settings, a sum in which nobody is certain to have drawn noise."""
        check_fields(self)
        if self.fewest - self.byzantine - self.colluding < 1:
            raise FedprivError(
                f"of fewest = {self.fewest} answers, {self.byzantine} may be Byzantine and {self.colluding} colluding: "
                "none is certain to have drawn noise"
            )

    @property
    def trust(self) -> Sums:
        """Who sees what, as an event has it: sums, with so many certain to have drawn noise."""
        return Sums(int(self.fewest - self.byzantine - self.colluding))

    @property
    def words(self) -> str:
        """The settings as server and members compare them."""
        return " ".join(f"{name}={value}" for name, value in vars(self).items())

    def members(self, terms: Terms, count: int) -> Members:
        """What all members of one round's sum must see alike; each makes its own from its own settings."""
        about = repr((terms.run, terms.identity, terms.round, self.words)).encode()
        return Members(
            about=sha256(b"fedpriv flower sum 1\0" + about).digest(), round=terms.round, threshold=self.fewest,
            hosted=dict.fromkeys(range(count), 1), colluding=self.colluding, neighbours=self.neighbours,
        )  # fmt: skip


def check_sums(sums: object) -> None:
    """Refuse, in an app's or a strategy's settings, sums that are given as something else, such as a number."""
    if sums is not None and not isinstance(sums, SumsOnly):
        raise FedprivError(f"sums must be SumsOnly, as in SumsOnly(fewest=16), got {sums!r}")


def message_event(channel: Channel, sums: SumsOnly | None, dimension: int) -> Event:
    """What one message of a node is charged, on its own ledger and by the server: alone, or in sums of such."""
    return channel.event(dimension, Local() if sums is None else sums.trust)


def model_digest(model: ArrayRecord) -> bytes:
    """SHA-256 of all of a model: who was sent another one has masks that do not come off."""
    found = sha256()
    for name, array in model.items():
        head = repr((name, array.dtype, tuple(array.shape), array.stype, len(array.data))).encode()
        found.update(head + b"\0" + array.data)
    return found.digest()


# --- a node -----------------------------------------------------------------------------------------------------------


def member_of(
    sums: SumsOnly | None, terms: Terms, content: RecordDict, context: Context, folder: Path
) -> Member | None:
    """A node's part in the sum that a message is of; None where neither side asks for sums, refused where one does."""
    told = content.config_records.get(SUM)
    if sums is None:
        if told is not None:
            raise FedprivError("the server asks for a masked sum: private(…, sums=SumsOnly(…)), as it has it")
        return None
    if told is None:
        raise FedprivError("this app's clients answer in masked sums alone: Private(…, sums=SumsOnly(…)), as they have")
    if {"identity", "peers"} & set(context.node_config):
        raise FedprivError(
            "masking: this sum checks no keys of nodes, and --node-config names some (docs/flower-sums.md)"
        )
    if told.get("sums") != sums.words:
        raise FedprivError(f"masking: the server has {str(told.get('sums'))[:100]}, this app's clients {sums.words}")
    return Member(sums, terms, dict(told), context.state, Marker.of(folder, terms.identity, terms.run))


class Member:
    """A node's part in one round's sum: its state stands in Flower's memory, how far it has come on its own disk."""

    def __init__(
        self, sums: SumsOnly, terms: Terms, told: Mapping[str, Any], memory: RecordDict, marker: Marker
    ) -> None:
        self._sums, self._terms, self._told = sums, terms, told
        self._memory, self._marker = memory, marker
        body = told.get("body", b"")
        if told.get("phase") not in PHASES or not isinstance(body, bytes):
            raise FedprivError(f"masking: no phase {str(told.get('phase'))[:20]!r} of a sum")
        self._phase: str = told["phase"]
        self._body = body

    @property
    def trains(self) -> bool:
        """Whether this is the phase in which the app is asked for an update."""
        return self._phase == "vector"

    def answered(self) -> RecordDict:
        """A node's answer to a phase in which nobody trains: keys, shares, or the opening of a sum."""
        if self._phase == "keys":
            place, count = self._told.get("place"), self._told.get("members")
            if type(place) is not int or type(count) is not int or not 0 <= place < count <= MOST:
                raise FedprivError(
                    f"masking: place {place!r} of {count!r}: members are numbered from 0, {MOST} at most"
                )
            state, sent = member.advertised_keys(self._sums.members(self._terms, count), place, NOBODY)
            self._marker.begin(state.session)
        else:
            state, place, count = self._taken()
            of_all = self._sums.members(self._terms, count)
            if self._phase == "shares":
                state, sent = member.shared_secrets(state, of_all, place, 1, self._body, NOBODY)
            else:
                state, sent = member.opened_shares(state, of_all, place, self._body, NOBODY)
        self._kept(state, place, count)
        return RecordDict({SUM: ConfigRecord({"body": sent})})

    def sealing(self, model: bytes) -> Seal:
        """What hides one packed message of a node, in the sum whose letters the server has passed on.

        All that can be refused is refused here, before anything is charged.
        """
        state, place, count = self._taken()
        of_all = self._sums.members(self._terms, count)
        state = member.received_shares(state, of_all, place, 1, self._body, NOBODY)

        def sealed(payload: Bytes, dimension: int, mechanism: Mechanism) -> bytes:
            """A packed message as the node's masked vector; the state that opens it is kept."""
            expected = expected_of(self._terms, [place], dimension, mechanism, count)
            width = vector.width_of(expected)
            symbols = packing_of(mechanism).unpack(payload, dimension)[0].astype(np.int64)
            steps = masks.residues_of(vector.sum_steps(symbols, 1, mechanism), width)
            after, hidden = member.masked_vector(state, of_all, place, steps, width, model, 1)
            self._kept(after, place, count)
            return vector.vector_bytes(expected, vector.Masked(expected.clients, hidden, {}))

        return sealed

    def _taken(self) -> tuple[State, int, int]:
        """A node's state, place and number of members, out of Flower's memory, and marked as used on its disk."""
        if SUM not in self._memory.config_records:
            raise FedprivError("masking: this node has taken no part in the phases before, or has answered this one")
        found: dict[str, Any] = dict(self._memory.config_records[SUM])
        del self._memory[SUM]
        state = State(**{field.name: found[field.name] for field in fields(State)})
        self._marker.advance(state.session, PHASES.index(self._phase))
        return state, found["place"], found["members"]

    def _kept(self, state: State, place: int, count: int) -> None:
        """Keep a node's state in Flower's memory until the server's next message of the sum."""
        self._memory[SUM] = ConfigRecord({**asdict(state), "place": place, "members": count})


def expected_of(terms: Terms, places: Sequence[int], dimension: int, mechanism: Mechanism, members: int) -> Expected:
    """What a masked vector of these members may be, for who writes it and for who reads it."""
    asked: Numbers = np.array(places, np.int64)
    return Expected(terms.id, terms.round, asked, dimension, mechanism, members)


# --- a strategy -------------------------------------------------------------------------------------------------------


class MaskedRound:
    """The server's side of one round's sum, over Flower's grid: what it passes on, what comes back, and the sum."""

    def __init__(
        self, sums: SumsOnly, terms: Terms, model: ArrayRecord, dimension: int, mechanism: Mechanism,
        grid: Grid, messages: Sequence[Message], timeout: float,
    ) -> None:  # fmt: skip
        self._terms, self._grid, self._timeout = terms, grid, timeout
        self._mechanism, self._dimension = mechanism, dimension
        self._sums = sums
        self.rejected: Counter[str] = Counter()  # of what phases were answered by
        self._asked = list(messages)  # a round's messages, by the place of the member that each is for
        count, width = len(self._asked), vector.width_of(self._expected([]))
        hosted = dict.fromkeys(range(count), 1)
        self._session = Session(sums.members(terms, count), hosted, dimension, width, model_digest(model))

    def configured(self) -> list[Message]:
        """A round's messages, with what their masks need, to the members that gave keys and shares; none of too few."""
        session, everyone = self._session, range(len(self._asked))
        self._exchanged("keys", dict.fromkeys(everyone, b""), session.take_keys)
        try:
            roster = session.roster
            self._exchanged("shares", dict.fromkeys(roster.entries, roster.content), session.take_shares)
            letters = {place: session.letters(place) for place in session.present}
        except FedprivError as error:
            log.warning("round %d changes nothing: %s", self._terms.round, error)
            return []
        for place, body in letters.items():
            message = self._asked[place]  # its content is made anew: Flower's strategies share one
            message.content = RecordDict({**message.content, SUM: self._told("vector", place, body)})
        return [self._asked[place] for place in letters]

    def take(self, node: int, content: bytes) -> None:
        """Take the masked vector of a node, by Flower's id of it, into the sum; `Rejected` where it is none."""
        place = {each.metadata.dst_node_id: place for place, each in enumerate(self._asked)}.get(node, -1)
        own = self._expected([place])
        self._session.take_masked(place, vector.read_vector(content, own).residues, 1)

    def total(self) -> tuple[Numbers, int]:
        """The sum of the messages whose masked vectors were taken, opened by the members, and of how many it is."""
        survivors = list(self._session.survivors)
        self._exchanged("opening", dict.fromkeys(survivors, self._session.opening()), self._session.take_opened)
        opened = self._session.total()
        self.rejected.update(each.reason for each in self._session.rejected)
        return vector.total_of(opened, len(survivors), self._mechanism), len(survivors)

    def _expected(self, places: Sequence[int]) -> Expected:
        """What the masked vector of these members may be."""
        return expected_of(self._terms, places, self._dimension, self._mechanism, len(self._asked))

    def _told(self, phase: str, place: int, body: bytes) -> ConfigRecord:
        """What a member is told in a phase."""
        count = len(self._asked)
        return ConfigRecord({"phase": phase, "body": body, "sums": self._sums.words, "place": place, "members": count})

    def _exchanged(self, phase: str, bodies: Mapping[int, bytes], take: Take) -> None:
        """One phase of a sum: each member is told its body, and answers in time and well, or has dropped out."""
        waiting, messages = dict[int, int](), []
        for place, body in bodies.items():
            content = RecordDict({TERMS: self._terms.record(), SUM: self._told(phase, place, body)})
            asked = self._asked[place].metadata
            messages.append(Message(content, asked.dst_node_id, asked.message_type))
            waiting[asked.dst_node_id] = place
        for reply in self._grid.send_and_receive(messages, timeout=self._timeout):
            place = waiting.pop(reply.metadata.src_node_id, -1)
            try:
                take(place, _body_of(reply))
            except Rejected as error:
                self.rejected[error.reason] += 1
                log.warning("round %d: %s of a node's part in the sum: %s", self._terms.round, phase, error)
        if waiting:
            log.warning("round %d: %s: %d nodes gave no answer", self._terms.round, phase, len(waiting))


def _body_of(reply: Message) -> bytes:
    """The bytes of a node's answer to a phase; `Rejected` where it has none."""
    check_answered(reply)
    record = reply.content.config_records.get(SUM)
    body = None if record is None else record.get("body")
    if not isinstance(body, bytes):
        raise Rejected("shape", "no bytes, where a phase of a sum was to be answered")
    return body
