"""A Flower strategy around another: the replies of private clients checked, aggregated, accounted for and handed on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from copy import copy
from dataclasses import dataclass
from logging import getLogger
from secrets import token_hex
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedpriv.accounting.event import Event
from fedpriv.accounting.ledger import Budget
from fedpriv.aggregation import Mean, Rule
from fedpriv.errors import FAULTS, FedprivError, limited, one_of, reason
from fedpriv.flower._counts import Spending
from fedpriv.flower._evaluating import (
    PrivateEvaluation,
    Question,
    evaluation_terms,
    found_in_private,
    question_event,
)
from fedpriv.flower._fitting import check_strategy, reading_by
from fedpriv.flower._inbox import Inbox
from fedpriv.flower._ledger import USUAL, check_budget
from fedpriv.flower._masks import MaskedRound, SumsOnly, check_sums, message_event
from fedpriv.flower._mod import Evaluate
from fedpriv.flower._terms import TERMS, ChannelLike, Terms, channel_of, channel_words, names_from, rule_from
from fedpriv.flower._vector import Layout

log = getLogger("fedpriv")


@dataclass(frozen=True)
class Asked:
    """A round under way: what was sent, and to whom."""

    terms: Terms
    model: ArrayRecord
    nodes: frozenset[int]
    masked: MaskedRound | None  # where the server sees their sum alone


class Private(Strategy):
    """A strategy that averages, for clients whose answers `fedpriv.flower.private` makes: used as that strategy is.

    It adds to the model what the messages agree on and hands that on as one result of weight 1, so that a server's
    optimiser inside goes on working. Each round's metrics tell the certified ε and μ of the worst node.
    """

    def __init__(
        self,
        strategy: Strategy,
        channel: ChannelLike,  # or a mechanism, which stands for its norm bound, or one in words: the clients' own
        *,
        rule: Rule | str | None = None,  # how messages become a direction; None: their mean, by exact sums
        budget: Budget | None = None,  # of every node: the run ends, with its model, before one passes it
        delta: float | None = None,  # at which ε is told: the budget's, or 1e-5
        frozen: Collection[str] = (),  # names of arrays that are not trained: as the clients have them
        evaluate: Evaluate = None,  # the clients' PrivateEvaluation; or "public": what they tell is not charged
        metrics: Collection[str] = (),  # of training, that clients let out: their means are told
        sums: SumsOnly | None = None,  # that messages are asked for in masked sums alone, as the clients must say too
    ) -> None:
        """Wrap a strategy; refused where it chooses among results, or where the rule or the mechanism does not fit."""
        if evaluate is not None and not isinstance(evaluate, PrivateEvaluation):
            one_of(("public",), evaluate=evaluate)
        check_strategy(strategy, Private)
        check_sums(sums)
        self.strategy = strategy
        self.channel = channel_of(channel)
        self.reading = reading_by(self.channel.mechanism, Mean() if rule is None else rule_from(rule))
        check_budget(budget)
        self.frozen, self.metrics = names_from("frozen", frozen), names_from("metrics", metrics)
        self.budget, self.evaluate = budget, evaluate
        self.sums = sums
        if sums is not None and self.reading.needs_rows:
            own = type(self.reading.rule).__name__
            raise FedprivError(f"{own} looks at each message, and sums= shows none: rule='Mean' or 'MajorityVote'")
        message_event(self.channel, self.sums, 1)  # refused at once where nothing certifies such sums
        self.delta = delta if delta is not None else budget.delta if budget is not None else USUAL
        limited(least=0, below=1)(delta=self.delta)
        self._layout: Layout | None = None
        self._timeout = 3600.0  # seconds, of a masked sum's phases: Flower's own for a round
        self._spending = Spending(budget, self.delta)
        self._taken: Counter[int] = Counter()  # messages of each node that are in a direction
        self._begin()

    def _begin(self) -> None:
        """Begin a run: nodes are asked anew, and what they gave in runs before goes on to be counted."""
        self._run, self._round, self._asked = token_hex(8), 0, cast(Asked | None, None)
        self._reached, self._heard = set[int](), set[int]()  # nodes that the round was asked of, and in its direction
        self._evaluating = cast(
            tuple[tuple[Question, ...], Terms, frozenset[int]] | None, None
        )  # the evaluation under way
        self._labels_due = True  # with the run's first evaluation
        self._spending.begin()
        self.ended = False  # by its budget

    def summary(self) -> None:
        """Say in the log what is aggregated and how, then what the strategy inside says of itself."""
        log.info("private: %s, %s, δ = %g", self.channel, self.reading.rule, self.delta)
        self.strategy.summary()

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Flower's rounds as a new run, until they are over or the budget is: a Result with the model in any case.

        Budget and ε are of all runs of this object: a budget that is spent asks nobody, and the log says so.
        """
        self._begin()
        self._timeout = timeout
        if self.evaluate is None and getattr(self.strategy, "fraction_evaluate", False):
            log.warning("clients are not asked to evaluate: evaluate=PrivateEvaluation(…) on both sides asks, charged")
        if (told := evaluate_fn) is not None:  # nothing in rounds that the budget left none of
            evaluate_fn = lambda number, arrays: None if self.ended else told(number, arrays)  # noqa: E731
        result = super().start(grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn)
        result.arrays = result.arrays or initial_arrays
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of the strategy inside, and the round's terms in each; none once the budget would be passed."""
        self._asked = None
        if self.ended:
            return []
        layout = Layout.of(arrays, self.frozen)
        if self._layout not in (None, layout):
            raise FedprivError("the model's arrays have other names or shapes than in the round before")
        if not np.isfinite(layout.vector(arrays)).all():
            raise FedprivError("the model holds numbers that are not finite, and no node would answer to that")
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        self._layout = layout
        nodes = self._spending.meet(messages, grid, self._event)
        if server_round < self._round:
            self._begin()
        if server_round != self._round:
            self._round, self._reached, self._heard = server_round, set(), set()
        new = nodes - self._reached  # who is asked again gives the same answer
        if not self._spending.pays(new, {"messages": self._event}):
            log.warning("round %d: the budget of %s ends the run, with the model as it is", server_round, self.budget)
            self.ended = True
            return []
        self._reached |= new
        terms = Terms(
            round=server_round, run=self._run, channel=channel_words(self.channel), names=layout.names,
            model=self._record,
        )  # fmt: skip
        for message in messages:
            message.content[TERMS] = terms.record()
        masked = None
        if self.sums is not None and messages:
            masked = MaskedRound(
                self.sums, terms, arrays, layout.dimension, self.channel.mechanism, grid, messages, self._timeout
            )
            messages = masked.configured()
        self._asked = Asked(terms, arrays, nodes, masked)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The model that the strategy inside makes of what the messages agree on, and the round's cost as metrics."""
        asked, layout = self._asked, self._layout
        if asked is None or layout is None or asked.terms.round != server_round:
            return None, None
        inbox = Inbox(self.reading, asked.terms, layout.dimension, asked.nodes, asked.masked)
        inbox.take(replies)
        self._spending.believe("messages", inbox.charged, server_round)
        self._spending.bare = self._spending.bare or inbox.rejected["unprotected"] > 0
        arrays, metrics = self._stepped(server_round, inbox, asked.model, layout)
        counts = inbox.rejected + (Counter() if asked.masked is None else asked.masked.rejected)
        rejected = {f"rejected-{why}": count for why, count in sorted(counts.items())}
        told = {"answered": inbox.answered, "rejected": counts.total(), **rejected, **self._cost()}
        return arrays, MetricRecord({**metrics, **told})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of the strategy inside where clients' evaluation is public; else none."""
        self._evaluating = None
        if self.evaluate is None or self.ended:
            return []
        messages = list(self.strategy.configure_evaluate(server_round, arrays, config, grid))
        if not isinstance(own := self.evaluate, PrivateEvaluation):
            return messages
        self._layout = self._layout or Layout.of(arrays, self.frozen)
        nodes, asked = self._spending.meet(messages, grid, self._event), own.asked(self._labels_due)
        if not self._spending.pays(nodes, {each.given: question_event(each) for each in asked}):
            log.warning("round %d: the budget of %s pays for no evaluation", server_round, self.budget)
            return []
        self._labels_due = self._labels_due and not nodes
        terms = evaluation_terms(asked, server_round, self._run, self._record)
        for message in messages:
            message.content[TERMS] = terms.record()
        self._evaluating = asked, terms, nodes
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """What the strategy inside makes of public evaluations; None where there are none, or it can make nothing."""
        if self.evaluate is None:
            return None
        if isinstance(self.evaluate, PrivateEvaluation):
            if self._evaluating is None:
                return None
            found, charged = found_in_private(*self._evaluating, list(replies))
            for kind, times in charged.items():
                self._spending.believe(kind, times, server_round)
            return MetricRecord({**found, **self._cost()})
        try:
            return self.strategy.aggregate_evaluate(server_round, replies)
        except FAULTS as error:
            log.warning("round %d: the clients' evaluations are left out: %s", server_round, reason(error))
            return None

    @property
    def _record(self) -> str:
        """The name of the record that holds the model, in messages of the strategy inside."""
        return str(getattr(self.strategy, "arrayrecord_key", "arrays"))

    @property
    def _event(self) -> Event:
        """What a node's ledger is charged for one message of the model."""
        assert self._layout is not None  # or nobody is asked
        return message_event(self.channel, self.sums, self._layout.dimension)

    def _cost(self) -> dict[str, float]:
        """The certified ε at δ of the worst node, from both sides, and its μ, as a round's metrics."""
        return self._spending.cost(max(self._taken.values(), default=0))

    def _stepped(
        self, server_round: int, inbox: Inbox, model: ArrayRecord, layout: Layout
    ) -> tuple[ArrayRecord | None, dict[str, Any]]:
        """The model after a round's direction, by the strategy inside, and its metrics.

        None of too few messages, and none that is not finite: the run goes on with the last one that is.
        """
        if inbox.first is None:
            return None, {}
        try:
            direction = inbox.direction()
        except FedprivError as error:
            log.warning("round %d changes nothing: %s", server_round, error)
            return None, {}
        self._taken.update(inbox.nodes - self._heard)
        self._heard |= inbox.nodes
        weight = str(getattr(self.strategy, "weighted_by_key", "num-examples"))
        metrics = MetricRecord({**inbox.metrics(self.metrics), weight: 1.0})
        one = copy(inbox.first)  # whose content stays as it came
        one.content = RecordDict({self._record: layout.moved(model, direction), "metrics": metrics})
        arrays, found = self.strategy.aggregate_train(server_round, [one])
        moved = None if arrays is None else layout.restored(model, arrays)
        if moved is not None and not np.isfinite(layout.vector(moved)).all():
            log.warning("round %d changes nothing: its model, by %s, is not finite", server_round, self.strategy)
            moved = None
        return moved, dict(found or {})
