"""What a server asks a client for, as the client's own ledger knows it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from fedpriv._base.arrays import Numbers


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What a server asks for: a round of a study, of some clients."""

    study: str  # a hash of all that its id is of, and of which run of it this is where runs are told apart
    round: int
    clients: Numbers  # sorted
    digest: str  # of the clients, the model, and whatever else an answer depends on

    @staticmethod
    def of(study: str, round: int, clients: Numbers, *parts: bytes, run: str = "") -> Ask:
        """A server's ask as a ledger knows it: study by its identity, round, clients, a digest of all `parts`."""
        found = blake2b(digest_size=16)
        for part in (np.ascontiguousarray(clients, "<i8").tobytes(), *parts):
            found.update(len(part).to_bytes(8, "little") + part)
        return Ask(
            study=blake2b(f"{run}\0{study}".encode() if run else study.encode(), digest_size=16).hexdigest(),
            round=round, clients=clients, digest=found.hexdigest(),
        )  # fmt: skip

    @property
    def file(self) -> str:
        """The name, beside a node's ledger, of the file that keeps the answer to this ask."""
        return f"{self.study}-{self.round}-{self.digest}"

    def line(self) -> dict[str, Any]:
        """The ask as a line of a node's ledger has it."""
        return {"study": self.study, "round": self.round, "clients": number_ranges(self.clients), "digest": self.digest}

    @staticmethod
    def of_line(line: Mapping[str, Any]) -> Ask:
        """The ask that a node's ledger has in a line which `line` wrote."""
        clients = np.concatenate([np.arange(first, last + 1) for first, last in line["clients"]])
        return Ask(study=line["study"], round=line["round"], clients=clients, digest=line["digest"])

    def overlaps(self, other: Ask) -> bool:
        """Whether two asks are of one round, and of a client in common: a node answers only one of them."""
        same = (self.study, self.round) == (other.study, other.round)
        return same and bool(np.isin(self.clients, other.clients).any())


def number_ranges(clients: Numbers) -> list[list[int]]:
    """Client numbers as runs [first, last], as a node's ledger writes down whom a message was of.

    >>> number_ranges(np.array([3, 4, 5, 9]))
    [[3, 5], [9, 9]]
    """
    return [[int(run[0]), int(run[-1])] for run in np.split(clients, np.flatnonzero(np.diff(clients) != 1) + 1)]
