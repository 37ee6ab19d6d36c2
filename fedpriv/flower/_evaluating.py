"""Private evaluation in anybody's Flower app: how much of a node's data the model gets right, through a mechanism.

The app's own evaluate function is asked as Flower asks it. Of what it answers one number is used, the share right; it
leaves as one symbol, charged to the node's ledger before the function runs, and nothing else of the answer leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from logging import getLogger
from math import isfinite
from typing import Annotated, Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from fedpriv.accounting.event import Event
from fedpriv.accounting.ledger import Budget
from fedpriv.aggregation import Mean
from fedpriv.channel import Channel
from fedpriv.errors import FedprivError
from fedpriv.flower._answering import answered_once, drawn_frame
from fedpriv.flower._inbox import Inbox
from fedpriv.flower._ledger import Home
from fedpriv.flower._terms import SELF, TERMS, Terms, channel_words
from fedpriv.flower._vector import unmoved_by_app
from fedpriv.mechanisms import Mechanism
from fedpriv.node.asks import Ask
from fedpriv.studies.directions import Reading
from fedpriv.studies.evaluating import accuracy_found
from fedpriv.studies.kinds import ANSWERS
from fedpriv.trust import Local

ROUNDING = 1e-6  # by which an app's floats may pass a share of 0 or 1
NAMES = ("evaluation",)  # in the place of the arrays whose update is asked for
log = getLogger("fedpriv")


@dataclass(frozen=True, kw_only=True)
class PrivateEvaluation:
    """How nodes answer about the model: by which mechanism, and which metric of the app says how much is right.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> PrivateEvaluation(mechanism=StochasticSign(clip=1, scale=3)).accuracy
    'accuracy'
    """

    mechanism: Annotated[Mechanism, "of clip and peak 1: StochasticSign, RandomisedResponse, Cldp, Binomial, Ternary"]
    accuracy: Annotated[str, "the app's metric that is the share right, or with `of` how many are"] = "accuracy"
    of: Annotated[str | None, "the app's metric that says of how many; None where the first is a share"] = None

    def __post_init__(self) -> None:
        """Refuse a mechanism whose answers have no known error, or that is of another range than an answer's."""
        own = self.mechanism
        if not isinstance(self.accuracy, str) or not isinstance(self.of, str | None):
            raise FedprivError(f"evaluate: accuracy and of are names of metrics, got {self.accuracy!r} and {self.of!r}")
        if not isinstance(own, tuple(ANSWERS.values())) or (own.clip, own.peak) != (1, 1):
            raise FedprivError(
                f"evaluate: the mechanism must be of clip and peak 1 and one of {', '.join(ANSWERS)}, got {own!r}"
            )

    @property
    def channel(self) -> Channel:
        """What an answer, from −1 (nothing right) to 1 (all), goes through into a node's message."""
        return Channel.of("coordinates", self.mechanism)

    @property
    def event(self) -> Event:
        """What a node's ledger is charged for one answer, which the server sees."""
        return self.channel.event(1, Local())

    def share(self, metrics: dict[str, Any]) -> float:
        """The share right that an app's metrics say; an error for the node's own log where they say none."""
        right = float(metrics[self.accuracy])
        share = right if self.of is None else right / float(metrics[self.of])
        if not (isfinite(share) and -ROUNDING <= share <= 1 + ROUNDING):
            raise FedprivError(f"the app's metrics say a share of {share!r}, and it must be from 0 to 1")
        return min(max(share, 0.0), 1.0)


def answer_in_private(
    own: PrivateEvaluation, ledger: Any, budget: Budget | None, parts: list[bytes],
    message: Message, context: Context, call_next: ClientAppCallable,
) -> RecordDict:  # fmt: skip
    """A node's answer to an evaluation: charged on its disk, asked of the app, drawn, kept; or the one it gave before.

    Where the app's answer says no share, an answer of 0 is sent, for an absence would tell of the data.
    """
    terms, here = Terms.of(message.content), channel_words(own.channel)
    if (terms.channel, terms.names) != (here, NAMES):
        raise FedprivError(f"the server evaluates by {terms.channel}, and this app's clients answer through {here}")
    home = Home.of(ledger, budget, context.node_config, context.run_config)
    ask = Ask.of(terms.identity, terms.round, SELF, *parts, run=terms.run)

    def drawn() -> tuple[bytes, dict[str, Any]]:
        """The frame of what the app says is right, or of half where it says nothing."""
        message.content = RecordDict({name: each for name, each in message.content.items() if name != TERMS})
        told = 0.0
        try:
            records = call_next(message, context).content.metric_records.values()
            told = 2 * own.share({key: value for record in records for key, value in record.items()}) - 1
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            log.error("round %d: the answer sent is that of half right: %s", terms.round, error, exc_info=error)
        with unmoved_by_app():
            return drawn_frame(own.channel, terms, np.array([[told]])), {}

    return answered_once(home, ask, own.event, "an evaluation", drawn)


def evaluation_terms(own: PrivateEvaluation, round: int, run: str, model: str) -> Terms:
    """What a strategy tells nodes beside the model that they are to answer about."""
    return Terms(round=round, run=run, channel=channel_words(own.channel), names=NAMES, model=model)


def found_in_private(
    own: PrivateEvaluation, terms: Terms, nodes: Collection[int], replies: Iterable[Message]
) -> tuple[dict[str, float], dict[int, int]]:
    """What the nodes' answers come to, as metrics: accuracy, its error and interval, how many answered and were not.

    With it, by node, how often its ledger was charged for answers, as it says.
    """
    reading = Reading(mechanism=own.mechanism, rule=Mean(), decoder="mean", seed=0)
    inbox = Inbox(reading, terms, 1, nodes)
    inbox.take(replies)
    told: dict[str, float] = {"answered": inbox.answered, "rejected": inbox.rejected.total()}
    if inbox.first:
        told |= accuracy_found(own.mechanism, float(inbox.direction()[0]), inbox.answered)
    return told, inbox.charged
