"""Which way records are divided among the clients of a node, as its ledger has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shares:
    """Which way records are divided among clients, as a ledger has it.

    Two studies of one name have the same records at clients that are as far from the node's `first`. Of other names, a
    client of the one may have its records at all clients of the other.
    """

    name: str  # a hash of the way
    first: int  # of the node's clients, among the study's
    moves: bool  # whether a record that takes another's place may be at another client than that one

    def line(self) -> dict[str, Any]:
        """The way a node's records are divided, as a line of its ledger has it."""
        return {"name": self.name, "first": self.first, "moves": self.moves}

    @staticmethod
    def of_line(line: Mapping[str, Any] | None, study: str) -> Shares:
        """The way of dividing records that a ledger's line tells; one of the study's own in ledgers older than ways."""
        return (
            Shares(study, 0, False) if line is None else Shares(line["name"], int(line["first"]), bool(line["moves"]))
        )
