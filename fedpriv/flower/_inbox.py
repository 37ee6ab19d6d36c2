"""One round's replies at a strategy: each checked before it touches anything, rejected with a reason otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Set
from logging import getLogger
from typing import Any

import numpy as np
from flwr.app import Message
from numpy.typing import NDArray

from fedpriv import wire
from fedpriv._base.arrays import Numbers, Vector
from fedpriv.errors import LARGEST
from fedpriv.flower._masks import MaskedRound
from fedpriv.flower._terms import CHARGED, FRAME, LONGEST, RAW, SELF, TOLD, Terms, check_answered
from fedpriv.packed.symbols import packing_of, symbol_counts
from fedpriv.packed.tally import Tally
from fedpriv.studies.directions import Reading
from fedpriv.wire import Rejected

UNPROTECTED = (
    "it came as the app made it, in the clear: its ClientApp lacks fedpriv.flower.private among its mods, as in "
    "ClientApp(mods=[private(mechanism, ledger=DIRECTORY)])"
)
log = getLogger("fedpriv")


class Inbox:
    """Takes the replies of one round in any order; whatever is not what was asked for is counted and left out."""

    def __init__(
        self, reading: Reading, terms: Terms, dimension: int, asked: Collection[int],
        masked: MaskedRound | None = None, place: str = FRAME,
    ) -> None:  # fmt: skip
        """An inbox for the messages of these nodes in a round; of a masked sum they are taken into that.

        Of a reply the records named by `place` are read.
        """
        self._masked = masked
        self.rejected: Counter[str] = Counter()
        self.charged: dict[int, int] = {}  # by node: how often its ledger was, as it says
        self.first: Message | None = None  # reply that was taken
        self._reading, self._terms, self._dimension, self._asked = reading, terms, dimension, frozenset(asked)
        self._place = place
        self._rows: dict[int, NDArray[np.uint8]] = {}  # packed messages, by node
        self._told: dict[int, dict[str, Any]] = {}  # metrics, by node

    @property
    def nodes(self) -> Set[int]:
        """Whose messages were taken."""
        return self._rows.keys()

    @property
    def answered(self) -> int:
        """How many nodes' messages were taken."""
        return len(self._rows)

    def take(self, replies: Iterable[Message]) -> None:
        """Look at the replies of a round; nothing in one can do more than be rejected, and each reason is logged."""
        for reply in replies:
            node = reply.metadata.src_node_id
            try:
                self._rows[node] = self._opened(node, reply)
            except Rejected as error:
                self.rejected[error.reason] += 1
                if self.rejected[error.reason] == 1:
                    loud = log.error if error.reason == "unprotected" else log.warning
                    loud("round %d: a reply is left out: node %d: %s", self._terms.round, node, error)
                continue
            self.first = self.first or reply

    def direction(self) -> Vector:
        """What the messages agree on, the same whatever order they came in."""
        if self._masked is not None:
            return self._reading.of_sum(self._terms.round, *self._masked.total())
        mechanism, rows = self._reading.mechanism, np.concatenate([self._rows[node] for node in sorted(self._rows)])
        if not self._reading.needs_rows:
            tally = Tally(mechanism, self._dimension)
            tally.add(rows)
            return self._reading.of_sum(self._terms.round, tally.total(), tally.count)
        symbols = packing_of(mechanism).unpack(rows, self._dimension)
        return self._reading.of_rows(self._terms.round, self._reading.rows_seen(symbols).astype(np.float32))

    def symbols_told(self) -> Numbers:
        """How many of a round's messages of one coordinate are each symbol of the mechanism from 0 on."""
        return symbol_counts(self._reading.mechanism, np.concatenate(list(self._rows.values())))

    def metrics(self, names: Iterable[str]) -> dict[str, float]:
        """The mean of each of these metrics over the nodes that told it as a number."""
        found: dict[str, float] = {}
        for name in names:
            told = [own.get(name) for own in self._told.values()]
            if numbers := [float(each) for each in told if isinstance(each, int | float) and abs(each) <= LARGEST]:
                found[name] = float(np.mean(numbers))
        return found

    def _opened(self, node: int, reply: Message) -> NDArray[np.uint8]:
        """The packed message in a node's reply, by the checks of `fedpriv.wire`; none of one that is in a masked sum.

        What it tells beside it is kept.
        """
        if node not in self._asked:
            raise _rejected("sender", "it was not asked")
        if node in self._rows:
            raise _rejected("duplicate", "it has answered already")
        check_answered(reply)
        if self._place not in reply.content.array_records:
            raise _rejected("unprotected", UNPROTECTED)
        try:
            frame = reply.content.array_records[self._place][FRAME]
            if frame.stype != RAW:
                raise _rejected("shape", f"a frame travels as {RAW}, not as {str(frame.stype)[:40]}")
            told: dict[str, Any] = dict(reply.content.metric_records.get(self._place + TOLD, {}))
            if self._masked is not None:
                self._masked.take(node, frame.data)  # it is in the sum now, and nowhere else
                row = np.empty((1, 0), np.uint8)
            else:
                own, terms = self._reading.mechanism, self._terms
                expected = wire.Expected(terms.id, terms.round, SELF, self._dimension, own)
                found = wire.opened_frame(frame.data, expected)
                if not isinstance(found, wire.Messages):
                    raise _rejected("shape", "a sum, where one client's message was asked for")
                row = np.array(found.payload)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, Rejected):
                raise
            raise _rejected("shape", repr(error)) from None
        count = told.pop(CHARGED, 0)
        self.charged[node] = count if isinstance(count, int) else 0
        self._told[node] = told
        return row


def _rejected(reason: str, why: str) -> Rejected:
    """A reply's rejection: the reason that is counted, and the words for the server's log."""
    return Rejected(reason, why[:LONGEST])
