"""A node's part in a masked sum, message by message: the study's terms, the member's state, and its clients' answer.

The state stands in Flower's Context, which lives in the SuperNode's memory for one run: each message is handled by a
process of its own. A SuperNode that ends has dropped out of the sum, and no key of it is on any disk. That a state is
used once does not rest on Flower: a deployed node marks on its own disk how far it has come (`once.py`). In a
simulation, where nobody has anything to hide from itself, there is no such mark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from numpy.typing import NDArray

from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError
from fedpriv.masking import member, vector
from fedpriv.masking.identity import Identity
from fedpriv.masking.member import State
from fedpriv.masking.once import Marker
from fedpriv.masking.roster import Owner, Terms, hosted_clients, terms_of
from fedpriv.studies.study import Study
from fedpriv.trust import sums_only
from fedpriv.wire import Expected

Weights = NDArray[np.float32]
Seal = Callable[[bytes], bytes]  # a reply that all could read, as one that nobody can
Answer = Callable[[bytes, Seal], bytes]  # the clients' reply, sealed; the first argument tells this sum from others

PHASES = ("keys", "shares", "vector", "survivors", "opening")
_STATE = "masking"


@dataclass(frozen=True, kw_only=True, eq=False)
class Ask:
    """One message of the server's."""

    phase: str  # one of PHASES
    text: str  # the study
    round: int
    clients: Numbers  # those this node is asked for
    body: bytes  # what the phase's function of `member` reads
    weights: Weights  # empty but with "vector"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Who takes part: node p of P, by which key, on whose terms; a simulated one has no owner and no disk."""

    place: tuple[int, int]  # p and P
    identity: Identity
    owner: Owner | None = None
    marker: Marker | None = None  # of how far it has come, on its disk


def answered_phase(ask: Ask, study: Study, part: Part, memory: RecordDict, answer: Answer) -> bytes:
    """A node's bytes in answer to one phase of a masked sum; its state before is gone from Flower's memory anyway."""
    if ask.phase not in PHASES or not sums_only(study.privacy.trust):
        raise FedprivError(f"masking: no phase {ask.phase!r} of a study of {study.privacy.trust} trust")
    (me, partitions), identity = part.place, part.identity
    terms = terms_of(study, ask.text, ask.round, hosted_clients(study, ask.round, partitions))
    if ask.phase == "keys":
        state, sent = member.advertised_keys(terms, me, identity)
        if part.marker:
            part.marker.begin(state.session)
    elif ask.phase == "shares":
        state, sent = member.shared_secrets(
            _taken(memory, ask, part), terms, me, len(ask.clients), ask.body, identity, part.owner
        )
    elif ask.phase == "vector":
        return _vector(ask, study, terms, part, memory, answer)
    elif ask.phase == "survivors":
        state, sent = member.confirmed_survivors(_taken(memory, ask, part), terms, me, ask.body, identity)
    else:
        state, sent = member.opened_shares(_taken(memory, ask, part), terms, me, ask.body, identity)
    _put(memory, state)
    return sent


def _vector(ask: Ask, study: Study, terms: Terms, part: Part, memory: RecordDict, answer: Answer) -> bytes:
    """A node's third phase: its clients' sum under its masks; whoever answers asks its policy and its ledger first."""
    weights, me = ask.weights, part.place[0]
    if not len(weights):
        raise FedprivError("masking: a vector is asked for, and no model sent")
    state = _taken(memory, ask, part)
    state = member.received_shares(state, terms, me, len(ask.clients), ask.body, part.identity)
    expected = Expected(study.id, ask.round, ask.clients, len(weights), study.privacy.drawn_by, study.masked)

    def seal(reply: bytes) -> bytes:
        """The clients' reply as the node's masked vector: messages added up and masked, the next state in memory."""
        sent = vector.added_vectors(reply, expected)
        if not len(sent.clients):
            raise FedprivError(next(iter(sent.failed.values()), "no client of this node has a message"))
        width, spoken = vector.width_of(expected), len(sent.clients)
        after, hidden = member.masked_vector(state, terms, me, sent.residues, width, weights.tobytes(), spoken)
        _put(memory, after)
        return vector.vector_bytes(expected, sent._replace(residues=hidden))

    return answer(sha256(state.roster + state.present).digest(), seal)


def _taken(memory: RecordDict, ask: Ask, part: Part) -> State:
    """A member's state out of Flower's memory, and marked as used on disk: whatever goes wrong, never used again."""
    found: Mapping[str, Any] | None = memory.config_records.get(_STATE)
    if found is None:
        raise FedprivError("masking: this node has taken no part in the phases before, or has answered this one")
    del memory[_STATE]
    state = State(**found)
    if part.marker:
        named = member.name_of(ask.body) if ask.phase == "survivors" else b""
        before = part.marker.advance(state.session, PHASES.index(ask.phase), named)
        state = replace(state, named=before or state.named)
    return state


def _put(memory: RecordDict, state: State) -> None:
    """Keep a member's state in Flower's memory until the server's next message of the masked sum."""
    memory[_STATE] = ConfigRecord(asdict(state))
