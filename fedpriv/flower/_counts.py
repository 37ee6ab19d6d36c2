"""What a strategy's nodes have given away, at most: by what it asked of them, and by what their ledgers say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Literal, get_args

from flwr.app import Message
from flwr.serverapp import Grid

from fedpriv.accounting.account import Account
from fedpriv.accounting.course import UP_TO, Course
from fedpriv.accounting.event import Event
from fedpriv.accounting.ledger import Budget, Ledger
from fedpriv.curves.compose import QUICK
from fedpriv.errors import BudgetExceeded

Given = Literal["messages", "answers", "labels"]  # to training; about the model; a class, once in a run


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


class Spending:
    """What each node of a strategy has given away, over all its runs: the budget it keeps, and what the worst costs."""

    def __init__(self, budget: Budget | None, delta: float) -> None:
        """Nobody has given anything yet; ε is told at this δ."""
        self.budget, self.delta = budget, delta
        self.bare = False  # whether some node's update came in the clear
        self._counts: dict[Given, Counts] = {kind: Counts() for kind in get_args(Given)}
        self._events: dict[Given, Event] = {}

    def begin(self) -> None:
        """Begin a run: nodes are asked anew, and what they gave before goes on to be counted."""
        for counts in self._counts.values():
            counts.begin()

    def meet(self, messages: Iterable[Message], grid: Grid, event: Event) -> frozenset[int]:
        """The nodes that messages are for, as `Counts.meet` has them; `event` is of one message of their model."""
        self._events["messages"] = event
        return frozenset().union(*(counts.meet(messages, grid) for counts in self._counts.values()))

    def pays(self, nodes: Collection[int], events: Mapping[Given, Event]) -> bool:
        """Whether these nodes may be asked for one more event of each kind, within the budget; counted if they may."""
        if self.budget is not None and nodes:
            most = {kind: max(self._counts[kind].times[node] for node in nodes) for kind in self._counts}
            try:
                ledger = Ledger((), self.budget)
                for kind, event in {**self._events, **events}.items():
                    times = most[kind] + (kind in events)
                    ledger = ledger.add(replace(event, rounds=times)) if times else ledger
            except BudgetExceeded:
                return False
        for kind, event in events.items():
            self._events[kind] = event
            self._counts[kind].times.update(nodes)
        return True

    def believe(self, kind: Given, charged: Mapping[int, int], server_round: int) -> None:
        """Count what nodes' ledgers say of one kind of event in this run, where it is more than was asked."""
        self._counts[kind].believe(charged, server_round)

    def cost(self, taken: int) -> dict[str, float]:
        """The certified ε at δ of the worst node's messages, answers and labels, from both sides, and μ, as metrics.

        At most: of all that any node was asked for or was charged, whichever it is. At least: of the messages of one
        node that were taken, so many.
        """
        times = {kind: counts.worst for kind, counts in self._counts.items()}
        course, rounds = self._course, times["messages"]
        if times["answers"] or times["labels"]:
            given = Account(tuple(replace(self._events[kind], rounds=most) for kind, most in times.items() if most))
            high = float(given.epsilon(self.delta).bounds.upper)
            mu = float(given.mu_between(UP_TO * self.delta, QUICK).upper)
        else:
            high, mu = course.epsilon(rounds).upper, course.mu(rounds, course.tradeoff(rounds).upper).upper
        if self.bare:  # the worst node is one that told everything
            high = mu = inf
        return {"epsilon": high, "epsilon-lower": course.epsilon(taken).lower, "delta": self.delta, "mu": mu}

    @cached_property
    def _course(self) -> Course:
        """What a node's messages cost after any number of them: a strategy has one model."""
        return Course((self._events["messages"],), self.delta)
