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

from fedpriv.errors import FedprivError
from fedpriv.masking import _graph as graph
from fedpriv.masking.identity import SIGNATURE, UNSIGNED
from fedpriv.masking.keys import KEY
from fedpriv.studies.observers import fewest_answers
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
    """By node, how many of the clients that a round asks it hosts, by the study alone: part of a masked sum's terms."""
    own = study.clients
    asked = np.sort(own.schedule.asked(own.count, study.run.seed, round))
    bounds = [part * own.count // partitions for part in range(partitions + 1)]
    return dict(enumerate(np.diff(np.searchsorted(asked, bounds)).tolist()))


def terms_of(study: Study, text: str, round: int, hosted: Mapping[int, int]) -> Terms:
    """A masked sum's terms in one round of a study, whose text stands for all it says: each member makes its own."""
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
        """Refuse a masked sum whose graph a server could cut more easily than this node's policy allows."""
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
        """Refuse a roster with a key twice, too few clients, a node that speaks for others', or no safe graph."""
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
        """A masked sum's roster from the server's bytes, or one line that says what is wrong with them."""
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
        """The roster's members, clients and keys as bytes, as the server sends them to every member."""
        rows = [
            (member, each.clients, each.channel, each.pairing, each.signature) for member, each in self.entries.items()
        ]
        return np.array(rows, _ENTRY).tobytes()

    @property
    def signed(self) -> bool:
        """Whether all members have signed their keys: if so, they sign who survives as well."""
        return all(entry.signature != UNSIGNED for entry in self.entries.values())

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of a masked sum's terms and members, from which every key and mask of it is derived."""
        said = (self.terms.threshold, self.terms.colluding, *self.arrangement)
        return sha256(self.terms.about + repr(said).encode() + b"\0" + self.content).digest()

    @cached_property
    def nodes(self) -> int:
        """How many members a masked sum needs: enough to hold the threshold's clients, and more than half.

        Half of all and those that collude: two sums of one round would then need an honest member to open both.
        """
        held = np.cumsum(sorted((entry.clients for entry in self.entries.values()), reverse=True))
        return max(int(np.searchsorted(held, self.terms.threshold)) + 1, (len(held) + self.terms.colluding) // 2 + 1)

    @cached_property
    def arrangement(self) -> graph.Arrangement:
        """The masked sum's graph: how many neighbours each member has, and how many holders give a secret back."""
        return graph.arranged(len(self.entries), self.nodes, self.terms.colluding, self.terms.neighbours)

    @cached_property
    def _circle(self) -> list[int]:
        """The masked sum's members in an order that follows from all their keys, so that nobody chose neighbours."""
        about = sha256(self.terms.about + self.content).digest()
        return sorted(self.entries, key=lambda member: sha256(about + member.to_bytes(4)).digest())

    @cached_property
    def _at(self) -> dict[int, int]:
        """Each member's place on the circle on which neighbours stand next to one another."""
        return {member: place for place, member in enumerate(self._circle)}

    @cached_property
    def _known(self) -> dict[int, list[int]]:
        """By member, the neighbours worked out so far: `neighbours` fills it."""
        return {}

    def neighbours(self, member: int) -> list[int]:
        """The members that one shares masks with, rising: all others, or the nearest on the circle."""
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
        """The members that hold shares of one's secrets, itself among them, rising; the server asks them in the end."""
        return sorted([member, *self.neighbours(member)])

    def place(self, member: int) -> int:
        """Where a holder's shares stand on the polynomials of secret sharing: its place on the circle, never 0."""
        return self._at[member] + 1

    def clients(self, members: Iterable[int]) -> int:
        """How many clients these members of a masked sum speak for."""
        return sum(self.entries[member].clients for member in members)
