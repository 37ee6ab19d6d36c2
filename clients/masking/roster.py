"""What all members of a sum must see alike: who they are, by which keys, and what the study says of them.

Every key and every mask is derived from a digest of it: members who were told different things share nothing, and their
vectors stay masked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np

from clients.masking import _graph as graph
from clients.masking.identity import SIGNATURE, UNSIGNED
from clients.masking.keys import KEY
from fedpriv.errors import FedprivError
from fedpriv.studies.promise import fewest_answers
from fedpriv.studies.study import Study

_ENTRY = np.dtype([
    ("member", "<u4"), ("clients", "<u4"),
    ("channel", f"V{KEY}"), ("pairing", f"V{KEY}"), ("signature", f"V{SIGNATURE}"),
])  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the study says, which each member reads for itself: no message can change it."""

    about: bytes  # a digest of study and round
    round: int
    threshold: int  # the clients without whom there is no sum
    hosted: Mapping[int, int]  # how many of the clients that are asked in this round each node hosts
    colluding: int  # of them, with the server
    neighbours: int | None  # 0: everybody's; None: as few as are safe


def hosted_clients(study: Study, round: int, partitions: int) -> dict[int, int]:
    """How many of the clients that a round asks each of so many nodes hosts, by the study alone."""
    own = study.clients
    asked = np.sort(own.schedule.asked(own.count, study.run.seed, round))
    bounds = [part * own.count // partitions for part in range(partitions + 1)]
    return dict(enumerate(np.diff(np.searchsorted(asked, bounds)).tolist()))


def terms_of(study: Study, text: str, round: int, hosted: Mapping[int, int]) -> Terms:
    """The terms of one round of a study, whose text stands for all it says."""
    return Terms(
        about=sha256(b"fedpriv masking 2\0" + round.to_bytes(8) + text.encode()).digest(),
        round=round,
        threshold=fewest_answers(study),
        hosted=hosted,
        colluding=study.privacy.colluding,
        neighbours=study.masking.neighbours if study.masking else None,
    )


@dataclass(frozen=True, kw_only=True)
class Owner:
    """What a node's owner asks of any sum, whatever the study says; each field as the study has it."""

    neighbours: int | None = None  # at least
    colluding: int = 0  # at least

    def check(self, roster: Roster) -> None:
        """Refuse a graph that the server could cut more easily."""
        own, members = roster.terms.colluding, len(roster.entries)
        if own < self.colluding:
            raise FedprivError(f"masking: colluding = {own}, at least {self.colluding} in this client's policy")
        least = graph.fewest_neighbours(members, roster.nodes, own, self.neighbours)
        if roster.arrangement.degree < least:
            raise FedprivError(
                f"masking: {roster.arrangement.degree} neighbours of {members} nodes, at least {least} in this "
                "client's policy"
            )


@dataclass(frozen=True)
class Entry:
    """A member, as it has told the server who it is."""

    clients: int  # how many it speaks for
    channel: bytes  # the public key that it is written to by
    pairing: bytes  # the public key that its masks come from
    signature: bytes = UNSIGNED  # of both


@dataclass(frozen=True, eq=False)
class Roster:
    """Who has sent keys. Shares are for closed neighbourhoods: a member's neighbours, and itself."""

    terms: Terms
    entries: Mapping[int, Entry]  # by member, rising

    def __post_init__(self) -> None:
        keys = [key for entry in self.entries.values() for key in (entry.channel, entry.pairing)]
        if len(set(keys)) != len(keys):
            raise FedprivError("masking: two keys of the roster are the same")
        if not min((entry.clients for entry in self.entries.values()), default=0) > 0:
            raise FedprivError("masking: the roster is empty, or a member speaks for nobody")
        if (spoken := self.clients(self.entries)) < (needed := self.terms.threshold):
            raise FedprivError(f"masking: the roster speaks for {spoken} clients, where {needed} are needed")
        for member, entry in self.entries.items():
            if entry.clients > (own := self.terms.hosted.get(member, 0)):
                lets = f"lets node {member} speak for {entry.clients} clients"
                raise FedprivError(f"masking: the roster {lets}, where it hosts {own} of those asked")
        graph.check_arranged(len(self.entries), self.nodes, self.terms.colluding, self.terms.neighbours)

    @staticmethod
    def read(terms: Terms, content: bytes) -> Roster:
        """A roster from its `content`, or one line that says what is wrong with those bytes."""
        most = sum(own > 0 for own in terms.hosted.values())
        if not content or len(content) % _ENTRY.itemsize or len(content) > most * _ENTRY.itemsize:
            raise FedprivError(f"masking: a roster of {len(content)} bytes")
        rows = np.frombuffer(content, _ENTRY)
        if (np.diff(rows["member"].astype(np.int64)) <= 0).any():
            raise FedprivError("masking: the roster's members must rise")
        keys = ("channel", "pairing", "signature")
        return Roster(
            terms,
            {int(row["member"]): Entry(int(row["clients"]), *(bytes(row[name]) for name in keys)) for row in rows},
        )

    @cached_property
    def content(self) -> bytes:
        """The members as bytes, as they are sent."""
        rows = [
            (member, each.clients, each.channel, each.pairing, each.signature) for member, each in self.entries.items()
        ]
        return np.array(rows, _ENTRY).tobytes()

    @property
    def signed(self) -> bool:
        """Whether all members have signed their keys."""
        return all(entry.signature != UNSIGNED for entry in self.entries.values())

    @cached_property
    def digest(self) -> bytes:
        """What stands for terms and members."""
        said = (self.terms.threshold, self.terms.colluding, *self.arrangement)
        return sha256(self.terms.about + repr(said).encode() + b"\0" + self.content).digest()

    @cached_property
    def nodes(self) -> int:
        """How many members there must be at least: as many as can hold the threshold's clients, and more than half.

        Half of all and those that collude: two sums of one round would then need an honest member to open both.
        """
        held = np.cumsum(sorted((entry.clients for entry in self.entries.values()), reverse=True))
        return max(int(np.searchsorted(held, self.terms.threshold)) + 1, (len(held) + self.terms.colluding) // 2 + 1)

    @cached_property
    def arrangement(self) -> graph.Arrangement:
        """How many neighbours and holders there are."""
        return graph.arranged(len(self.entries), self.nodes, self.terms.colluding, self.terms.neighbours)

    @cached_property
    def _circle(self) -> list[int]:
        """The members in an order that follows from all their keys, so that nobody chose it."""
        about = sha256(self.terms.about + self.content).digest()
        return sorted(self.entries, key=lambda member: sha256(about + member.to_bytes(4)).digest())

    @cached_property
    def _at(self) -> dict[int, int]:
        return {member: place for place, member in enumerate(self._circle)}

    @cached_property
    def _known(self) -> dict[int, list[int]]:
        return {}

    def neighbours(self, member: int) -> list[int]:
        """Whom a member is masked with, rising."""
        if member not in self._known:
            count, half = len(self._circle), self.arrangement.degree // 2
            steps = [*range(-half, 0), *range(1, half + 1)]
            self._known[member] = (
                [other for other in self.entries if other != member]
                if self.arrangement.degree >= count - 1
                else sorted(self._circle[(self._at[member] + step) % count] for step in steps)
            )
        return self._known[member]

    def holders(self, member: int) -> list[int]:
        """Who holds shares of a member's secrets, rising."""
        return sorted([member, *self.neighbours(member)])

    def place(self, member: int) -> int:
        """Where its shares stand on the polynomials: never 0."""
        return self._at[member] + 1

    def clients(self, members: Iterable[int]) -> int:
        """How many clients these speak for."""
        return sum(self.entries[member].clients for member in members)
