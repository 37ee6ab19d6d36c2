"""Private evaluation in anybody's Flower app: how much of a node's data the model gets right, through a mechanism.

The app's own evaluate function is asked as Flower asks it. Of what it answers one number is used, the share right; it
leaves as one symbol, charged to the node's ledger before the function runs, and nothing else of the answer leaves. Once
in a run a second symbol may be asked for: the class of one of the node's records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from logging import getLogger
from math import isfinite
from typing import Annotated, Any, ClassVar

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.accounting.ledger import Budget
from fedpriv.aggregation import Mean
from fedpriv.channel import Channel
from fedpriv.errors import FedprivError, limited, positive, whole
from fedpriv.flower._answering import answered_once, drawn_frame
from fedpriv.flower._counts import Given
from fedpriv.flower._inbox import Inbox
from fedpriv.flower._ledger import Home
from fedpriv.flower._terms import FRAME, SELF, TERMS, Terms, channel_words
from fedpriv.flower._vector import unmoved_by_app
from fedpriv.mechanisms import Mechanism, RandomisedResponse
from fedpriv.mechanisms.table import MOST_LEVELS
from fedpriv.node.asks import Ask
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.settings import check_fields
from fedpriv.studies.directions import Reading
from fedpriv.studies.evaluating import accuracy_found, labels_found
from fedpriv.studies.kinds import ANSWERS
from fedpriv.trust import Local

ROUNDING = 1e-6  # by which an app's floats may pass a share of 0 or 1
LABELS = "fedpriv.labels"  # the records of a reply that hold a label told
log = getLogger("fedpriv")


@dataclass(frozen=True, kw_only=True)
class PrivateLabels:
    """Which labels nodes have: each tells the class of one of its records, once in a run, by randomised response.

    >>> PrivateLabels(classes=10, epsilon=3.0).mechanism.levels
    9
    """

    classes: Annotated[int, whole, limited(least=2, most=MOST_LEVELS), "how many the data have: one of so many is told"]
    epsilon: Annotated[float, positive, "ε of the one class told: its own is e^ε times as likely as any other"]
    counts: Annotated[str, "the app's metric that is a list: how many of a node's records are of each class"] = "labels"

    given: ClassVar[Given] = "labels"
    place: ClassVar[str] = LABELS  # of a reply

    def __post_init__(self) -> None:
        """Refuse classes and an ε that randomised response has not, and a metric that is not named in words."""
        if not isinstance(self.counts, str):
            raise FedprivError(f"labels: counts is the name of a metric, got {self.counts!r}")
        check_fields(self)
        _ = self.mechanism  # which refuses an ε that leaves no chance

    @property
    def mechanism(self) -> RandomisedResponse:
        """Randomised response of so many classes, each of which is a point of its grid."""
        return RandomisedResponse(clip=1.0, levels=self.classes - 1, epsilon=self.epsilon)

    def told(self, metrics: dict[str, Any]) -> float:
        """The class of one record drawn by lot, as its point of the grid, from an app's metrics: its counts."""
        counts = np.array(metrics[self.counts])
        if counts.shape != (self.classes,) or not (np.isfinite(counts) & (counts >= 0)).all() or not counts.any():
            raise FedprivError(f"{self.counts} must be a list of {self.classes} counts, got {metrics[self.counts]!r}")
        return self._drawn(counts / counts.sum())

    def untold(self) -> float:
        """What is told where an app counts nothing: any class, as the lot has it."""
        return self._drawn(np.full(self.classes, 1 / self.classes))

    def found(self, inbox: Inbox) -> dict[str, Any]:
        """What the labels of an inbox come to, as metrics: of each class its share, and an interval of all together."""
        classes = labels_found(self.mechanism, inbox.symbols_told())["classes"]
        names = {"share": "labels", "low": "labels-low", "high": "labels-high"}
        return {told: [float(each[name]) for each in classes] for name, told in names.items()}

    def _drawn(self, shares: Vector) -> float:
        """A class by lot, as its point of the grid."""
        return float(np.linspace(-1, 1, self.classes)[cryptographic_generator().choice(self.classes, p=shares)])


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
    labels: Annotated[PrivateLabels | None, "which labels nodes have, told once in a run, beside its first answer"] = (
        None
    )

    given: ClassVar[Given] = "answers"
    place: ClassVar[str] = FRAME  # of a reply

    def __post_init__(self) -> None:
        """Refuse a mechanism whose answers have no known error, or that is of another range than an answer's."""
        own = self.mechanism
        if not isinstance(self.labels, PrivateLabels | None):
            raise FedprivError(f"evaluate: labels must be a PrivateLabels, got {self.labels!r}")
        if not isinstance(self.accuracy, str) or not isinstance(self.of, str | None):
            raise FedprivError(f"evaluate: accuracy and of are names of metrics, got {self.accuracy!r} and {self.of!r}")
        if not isinstance(own, tuple(ANSWERS.values())) or (own.clip, own.peak) != (1, 1):
            raise FedprivError(
                f"evaluate: the mechanism must be of clip and peak 1 and one of {', '.join(ANSWERS)}, got {own!r}"
            )

    def told(self, metrics: dict[str, Any]) -> float:
        """From −1 (nothing right) to 1 (all) by an app's metrics; an error, for the node's log, where they say none."""
        right = float(metrics[self.accuracy])
        share = right if self.of is None else right / float(metrics[self.of])
        if not (isfinite(share) and -ROUNDING <= share <= 1 + ROUNDING):
            raise FedprivError(f"the app's metrics say a share of {share!r}, and it must be from 0 to 1")
        return 2 * min(max(share, 0.0), 1.0) - 1

    def untold(self) -> float:
        """What is told where an app says nothing: that half is right."""
        return 0.0

    def found(self, inbox: Inbox) -> dict[str, Any]:
        """What the answers of an inbox come to, as metrics: accuracy, its error and interval."""
        return accuracy_found(self.mechanism, float(inbox.direction()[0]), inbox.answered)

    def asked(self, labels: bool) -> tuple[Question, ...]:
        """What one evaluation asks: about the model, and where labels are due in it for those too."""
        return (self, self.labels) if labels and self.labels is not None else (self,)


Question = PrivateEvaluation | PrivateLabels


def question_channel(own: Question) -> Channel:
    """What an answer, a number from −1 to 1, goes through into a node's message."""
    return Channel.of("coordinates", own.mechanism)


def question_event(own: Question) -> Event:
    """What a node's ledger is charged for one answer, which the server sees."""
    return question_channel(own).event(1, Local())


def answer_in_private(
    own: PrivateEvaluation, ledger: Any, budget: Budget | None, parts: list[bytes],
    message: Message, context: Context, call_next: ClientAppCallable,
) -> RecordDict:  # fmt: skip
    """A node's answers to an evaluation: charged on its disk, asked of the app, drawn, kept; or those it gave before.

    Where the app's answer says nothing, something is sent all the same, for an absence would tell of the data.
    """
    terms = Terms.of(message.content)
    asked = own.asked(len(terms.names) > 1)
    here = evaluation_terms(asked, terms.round, terms.run, terms.model)
    if terms != here:
        raise FedprivError(
            f"the server evaluates by {terms.channel}, and this app's clients answer through {here.channel}"
        )
    home = Home.of(ledger, budget, context.node_config, context.run_config)

    @cache
    def said() -> dict[str, Any]:
        """All metrics of the app, which runs once; none where it fails, and why in the node's own log."""
        message.content = RecordDict({name: each for name, each in message.content.items() if name != TERMS})
        try:
            records = call_next(message, context).content.metric_records.values()
            return {key: value for record in records for key, value in record.items()}
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            log.error("round %d: the app's evaluation failed: %s", terms.round, error, exc_info=error)
            return {}

    records: dict[str, Any] = {}
    for each in asked:
        alone = evaluation_terms((each,), 1, "", "").identity  # whatever it is asked together with
        ask = Ask.of(alone, terms.round, SELF, *parts, run=terms.run)
        if each is not own:  # a label is told once in a run, whatever the model and the round
            ask = Ask.of(alone, 1, SELF, run=terms.run)
        drawn = _drawing(each, terms, said)
        records |= answered_once(home, ask, question_event(each), "an evaluation", drawn, place=each.place)
    return RecordDict(records)


def _drawing(
    own: Question, terms: Terms, said: Callable[[], dict[str, Any]]
) -> Callable[[], tuple[bytes, dict[str, Any]]]:
    """What draws the frame of one answer, from what the app says."""

    def drawn() -> tuple[bytes, dict[str, Any]]:
        """The frame, and no metrics beside it."""
        metrics = said()
        with unmoved_by_app():
            try:
                told = own.told(metrics)
            except Exception as error:
                log.error("round %d: %s: the app says nothing: %r", terms.round, own.given, error)
                told = own.untold()
            return drawn_frame(question_channel(own), terms, np.array([[told]])), {}

    return drawn


def evaluation_terms(asked: Sequence[Question], round: int, run: str, model: str) -> Terms:
    """What a strategy tells nodes beside the model that they are to answer about."""
    words = " and ".join(channel_words(question_channel(each)) for each in asked)
    return Terms(round=round, run=run, channel=words, names=tuple(each.given for each in asked), model=model)


def found_in_private(
    asked: Sequence[Question], terms: Terms, nodes: Collection[int], replies: Sequence[Message]
) -> tuple[dict[str, Any], dict[Given, dict[int, int]]]:
    """What the nodes' answers come to, as metrics, with how many answered and were not taken.

    With it, by kind and node, how often its ledger was charged for answers, as it says.
    """
    told: dict[str, Any] = {}
    charged: dict[Given, dict[int, int]] = {}
    for own in asked:
        reading = Reading(mechanism=own.mechanism, rule=Mean(), decoder="mean", seed=0)
        inbox = Inbox(reading, terms, 1, nodes, place=own.place)
        inbox.take(replies)
        if own.given == "answers":
            told |= {"answered": inbox.answered, "rejected": inbox.rejected.total()}
        if inbox.first:
            told |= own.found(inbox)
        charged[own.given] = inbox.charged
    return told, charged
