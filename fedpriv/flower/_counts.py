"""How often a strategy's nodes were charged, at most: by what it asked of them, and by what their ledgers say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from flwr.app import Message
from flwr.serverapp import Grid


class Counts:
    """By node, how often it was charged for one kind of message, over all runs of one strategy."""

    def __init__(self) -> None:
        """Nobody has been asked yet."""
        self.times: Counter[int] = Counter()
        self._before: Counter[int] = Counter()  # the run under way
        self._known: set[int] = set()  # nodes that were there when first was asked, or asked since

    @property
    def worst(self) -> int:
        """How often any one node was charged at most."""
        return max(self.times.values(), default=0)

    def begin(self) -> None:
        """Begin a run: nodes' ledgers speak of that alone."""
        self._before = self.times.copy()

    def meet(self, messages: Iterable[Message], grid: Grid) -> frozenset[int]:
        """The nodes that messages are for; who was not there before is counted as the worst that was.

        For a node that was started anew has another id, and the same ledger.
        """
        nodes = frozenset(message.metadata.dst_node_id for message in messages)
        self._known = self._known or {*grid.get_node_ids()}
        self.times.update(dict.fromkeys(nodes - self._known, self.worst))
        self._known |= nodes
        return nodes

    def believe(self, charged: Mapping[int, int], server_round: int) -> None:
        """Count what nodes' ledgers say of this run where it is more; no honest one is charged twice every round."""
        for node, said in charged.items():
            self.times[node] = max(self.times[node], self._before[node] + min(said, 2 * server_round))
