"""A whole masked sum in this process: every member a state of its own, and whatever a test does to its messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedpriv.masking import masks, member
from fedpriv.masking.identity import Identity
from fedpriv.masking.roster import Terms
from fedpriv.masking.session import Session
from fedpriv.wire import Rejected

Change = Callable[[int, bytes], bytes | None]  # what becomes of a member's answer; None: it never arrives
MODEL = b"weights"


def terms(threshold: int, asked: int, colluding: int = 0, neighbours: int | None = None, round: int = 1) -> Terms:
    return Terms(about=bytes(31) + bytes([round]), round=round, threshold=threshold, colluding=colluding,
                 hosted=dict.fromkeys(range(asked), 1), neighbours=neighbours)  # fmt: skip


@dataclass
class Sum:
    """One sum of `vectors`, a row a member; `changes` are by phase: keys, shares, masked, confirmed, opened."""

    vectors: NDArray[np.int64]
    terms: Terms
    width: int = 20
    clients: Mapping[int, int] = field(default_factory=dict)  # one each, unless said
    changes: Mapping[str, Change] = field(default_factory=dict)
    identities: Sequence[Identity] = ()  # none, unless given

    def __post_init__(self) -> None:
        count, dimension = self.vectors.shape
        self.spoken = {each: self.clients.get(each, 1) for each in range(count)}
        self.terms = replace(self.terms, hosted=self.spoken)
        self.who = self.identities or [Identity()] * count
        self.session = Session(self.terms, self.spoken, dimension, self.width, MODEL)
        self.states: dict[int, member.State] = {}
        self.refused: list[Rejected] = []

    def total(self) -> NDArray[np.int64]:
        self.keys()
        self.shares()
        self.masked()
        self.confirmed()
        self.opened()
        return self.session.total()

    def keys(self) -> None:
        for each in range(len(self.vectors)):
            self.states[each], answer = member.advertised_keys(self.terms, each, self.who[each])
            self._arrives("keys", each, answer, self.session.take_keys)

    def shares(self) -> None:
        roster = self.session.roster
        for each in roster.entries:
            self.states[each], answer = self.dealt(each, roster.content)
            self._arrives("shares", each, answer, self.session.take_shares)

    def dealt(self, each: int, roster: bytes) -> tuple[member.State, bytes]:
        return member.shared_secrets(self.states[each], self.terms, each, self.spoken[each], roster, self.who[each])

    def masked(self) -> None:
        for each in self.session.present:
            state = self.heard(each, self.session.letters(each))
            self.states[each], answer = self.hidden(each, state)
            self._arrives("masked", each, masks.packed_residues(answer, self.width), self._take_masked)

    def heard(self, each: int, content: bytes) -> member.State:
        return member.received_shares(self.states[each], self.terms, each, self.spoken[each], content, self.who[each])

    def hidden(self, each: int, state: member.State) -> tuple[member.State, masks.Residues]:
        vector = masks.residues_of(self.vectors[each], self.width)
        return member.masked_vector(state, self.terms, each, vector, self.width, MODEL, self.spoken[each])

    def confirmed(self) -> None:
        listed = self.session.listed()
        for each in list(self.session.survivors) if self.session.roster.signed else []:
            self.states[each], answer = member.confirmed_survivors(
                self.states[each], self.terms, each, listed, self.who[each]
            )
            self._arrives("confirmed", each, answer, self.session.take_signature)

    def opened(self) -> None:
        content = self.session.opening()
        for each in list(self.session.survivors):
            self.states[each], answer = self.told(each, content)
            self._arrives("opened", each, answer, self.session.take_opened)

    def told(self, each: int, content: bytes) -> tuple[member.State, bytes]:
        return member.opened_shares(self.states[each], self.terms, each, content, self.who[each])

    @property
    def plain(self) -> NDArray[np.int64]:
        """What the survivors' vectors add up to when everybody sees them."""
        whole: NDArray[np.int64] = self.vectors[list(self.session.survivors)].sum(axis=0) % (1 << self.width)
        return whole

    def _take_masked(self, each: int, content: bytes) -> None:
        if len(content) != masks.packed_size(self.vectors.shape[1], self.width):
            raise Rejected("shape", "masked vector")
        vector = masks.unpacked_residues(content, self.vectors.shape[1], self.width)
        self.session.take_masked(each, vector, self.spoken[each])

    def _arrives(self, phase: str, each: int, answer: bytes, take: Callable[[int, bytes], None]) -> None:
        change = self.changes.get(phase)
        found = answer if change is None else change(each, answer)
        try:
            if found is not None:
                take(each, found)
        except Rejected as error:
            self.refused.append(error)
