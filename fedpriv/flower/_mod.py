"""The mod of a ClientApp: what the app returns leaves as a channel's message, charged before; nothing else leaves.

What follows from the server's message, the app's settings and the ledger is refused in words, before anything is
charged. Whatever the app does after the charge, a message is drawn and sent: of its update, or of an update of 0 where
it has none that can be sent. An error, a missing answer or one of another shape would tell of the records that it came
from, and a server chooses the model which the app meets them with. Why, stands in the node's own log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from logging import getLogger
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flwr.app import Array, Context, Error, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.accounting.ledger import Budget
from fedpriv.channel import Channel
from fedpriv.errors import FedprivError, one_of
from fedpriv.flower._answering import answered_once, drawn_frame
from fedpriv.flower._evaluating import PrivateEvaluation, answer_in_private
from fedpriv.flower._ledger import MECHANISM, Home, check_budget, full_path
from fedpriv.flower._masks import SUM, SumsOnly, check_sums, member_of, message_event, model_digest
from fedpriv.flower._terms import (
    SELF,
    TERMS,
    ChannelLike,
    Terms,
    channel_of,
    channel_words,
    names_from,
)
from fedpriv.flower._vector import Layout, unmoved_by_app, update_between
from fedpriv.node.asks import Ask

REFUSED = 6  # Flower's code for a mod whose precondition failed
Evaluate = Literal["public"] | PrivateEvaluation | None
Metrics = dict[str, Any]
log = getLogger("fedpriv")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an app says of its clients' privacy: the arguments of `private`."""

    channel: ChannelLike | None
    ledger: str | Path | None
    budget: Budget | None
    evaluate: Evaluate
    metrics: Collection[str]
    frozen: Collection[str]
    errors: Literal["public"] | None
    sums: SumsOnly | None


def private(
    channel: ChannelLike | None = None,  # or a mechanism, which stands for its norm bound, or one in words
    *,
    ledger: str | Path | None = None,  # a directory, in which each node keeps a file of its own
    budget: Budget | None = None,  # of each node, beside its owner's
    evaluate: Evaluate = None,  # a PrivateEvaluation; or "public": what clients evaluate leaves as it is
    metrics: Collection[str] = (),  # names of training metrics that leave as they are
    frozen: Collection[str] = (),  # names of arrays that stay as the server sent them
    errors: Literal["public"] | None = None,  # "public": an app's errors leave as they are
    sums: SumsOnly | None = None,  # that messages leave in masked sums alone, as the server must say too
) -> Mod:
    """A Flower client mod that makes an app's answers private: `ClientApp(mods=[private(mechanism, ledger="~/led")])`.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> mod = private(StochasticSign(clip=1, peak=0.25, scale=1), ledger="~/ledgers", budget=Budget(100.0, 1e-5))
    """
    words = {"errors": errors} | ({} if isinstance(evaluate, PrivateEvaluation) else {"evaluate": evaluate})
    one_of(("public",), **{name: word for name, word in words.items() if word is not None})
    check_budget(budget)
    check_sums(sums)
    if ledger is not None:
        full_path("ledger", ledger)
    own = Settings(
        channel=None if channel is None else channel_of(channel), ledger=ledger, budget=budget, evaluate=evaluate,
        metrics=names_from("metrics", metrics), frozen=names_from("frozen", frozen), errors=errors,
        sums=sums,
    )  # fmt: skip
    if isinstance(own.channel, Channel):
        message_event(own.channel, sums, 1)  # refused at once where nothing certifies such sums

    def private_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Flower's call for each message: the private answer to a round, or one line why there is none."""
        try:
            kind = message.metadata.message_type
            if kind.split(".")[0] == "train":
                return Message(_answer(own, message, context, call_next), reply_to=message)
            if kind.split(".")[0] != "evaluate":
                raise FedprivError(f"a message of type {kind!r} is none that a ledger can account for")
            if isinstance(asked := own.evaluate, PrivateEvaluation):
                parts, led = _parts(message, context), (own.ledger, own.budget)
                return Message(answer_in_private(asked, *led, parts, message, context, call_next), reply_to=message)
            if own.evaluate != "public":
                raise FedprivError('no evaluation: evaluate=PrivateEvaluation(…) is charged, evaluate="public" is not')
        except Passed as error:
            return error.reply
        except FedprivError as error:
            return Message(Error(REFUSED, f"fedpriv: {error}"), reply_to=message)
        return call_next(message, context)

    return private_mod


class Passed(Exception):
    """The app's own answer, an error, that its settings let leave as it is."""

    def __init__(self, reply: Message) -> None:
        """The answer that leaves in the place of a private one."""
        self.reply = reply


def _answer(own: Settings, message: Message, context: Context, call_next: ClientAppCallable) -> RecordDict:
    """A node's answer to one round: looked at, charged on its disk, trained, drawn, kept; or the one it gave before."""
    if not message.has_content():
        raise FedprivError("the server's message holds nothing")
    content = message.content
    home = Home.of(own.ledger, own.budget, context.node_config, context.run_config)
    terms = Terms.of(content)
    named: Any = own.channel or context.run_config.get(MECHANISM)
    if named is None or named == "":
        raise FedprivError(f"no mechanism: private(MECHANISM, …), or {MECHANISM} in the run's configuration")
    channel = channel_of(named)
    if terms.channel != (here := channel_words(channel)):
        raise FedprivError(f"the server aggregates {terms.channel}, and this app's clients send {here}")
    member = member_of(own.sums, terms, content, context, home.folder)
    if member is not None and not member.trains:
        return member.answered()
    if terms.model not in content.array_records:
        raise FedprivError(f"the server's message has no ArrayRecord {terms.model!r}, which its strategy trains")
    model = content.array_records[terms.model]
    layout = Layout.of(model, own.frozen)
    if layout.names != terms.names:
        raise FedprivError("the server trains other arrays than this app's clients: the same frozen= on both sides")
    sent = layout.vector(model)
    if not np.isfinite(sent).all():
        raise FedprivError("the server's model holds numbers that are not finite")
    if left := layout.left_out(model):
        tell_once(f"these arrays stay as the server sends them: {', '.join(left)}")
    seal = None if member is None else member.sealing(model_digest(model))
    event = message_event(channel, own.sums, layout.dimension)
    ask = Ask.of(terms.identity, terms.round, SELF, *_parts(message, context), run=terms.run)

    def drawn() -> tuple[bytes, Metrics]:
        """The frame of what the app trains, and the metrics that may leave with it."""
        message.content = RecordDict({name: record for name, record in content.items() if name not in (TERMS, SUM)})
        update, told = _trained(own, terms, channel, layout, sent, lambda: call_next(message, context))
        with unmoved_by_app():
            return drawn_frame(channel, terms, update, seal), told

    # two messages under one mask would show how their noise differs
    return answered_once(home, ask, event, "a round", drawn, durable=seal is not None)


def _parts(message: Message, context: Context) -> list[bytes]:
    """All that an answer depends on, and which node gives it, as bytes for the digest of an ask."""
    parts = [f"{context.node_id}\0{message.metadata.message_type}".encode()]
    for name, record in sorted(message.content.items()):
        parts.append(f"{type(record).__name__} {name}".encode())
        for key, value in record.items():
            if isinstance(value, Array):
                parts += [repr((key, value.dtype, value.shape, value.stype)).encode(), value.data]
            else:
                parts.append(repr((key, value)).encode())
    return parts


def _trained(
    own: Settings, terms: Terms, channel: Channel, layout: Layout, sent: Vector, train: Callable[[], Message]
) -> tuple[NDArray[np.float32], Metrics]:
    """The update that an app's training comes to, as a row, and its metrics that may leave; 0 where it has none."""
    allowed: Metrics = {}
    try:
        reply = train()
        if reply.has_error() and own.errors == "public":
            raise Passed(reply)
        if not reply.has_error():  # metrics leave whatever the arrays are
            allowed = {key: value for record in reply.content.metric_records.values()
                       for key, value in record.items() if key in own.metrics}  # fmt: skip
        with unmoved_by_app():
            update = update_between(sent, layout.vector(_model(reply, terms)))
            if not channel.bounded(update).finite.all():
                raise FedprivError("the update is not finite, or too large for its norm to be")
        if others := [name for name in reply.content if name != terms.model]:
            let_out = f", but for {', '.join(allowed)}" if allowed else ""
            tell_once(f"these records of the app's answers stay on the node{let_out}: {', '.join(others)}")
    except (Passed, KeyboardInterrupt):
        raise
    except BaseException as error:  # asyncio's and Rust's are no Exception
        if own.errors == "public" and not isinstance(error, FedprivError):
            raise
        log.error("round %d: an update of 0 is sent, for the app gave none: %s", terms.round, error, exc_info=error)
        return np.zeros((1, layout.dimension), np.float32), allowed
    return update, allowed


def _model(reply: Message, terms: Terms) -> Any:
    """The one ArrayRecord of an app's answer that is the model; an error for the node's own log where there is none."""
    if not isinstance(reply, Message) or reply.has_error():
        raise FedprivError(f"the app answered {getattr(reply, 'error', reply)!r}"[:1000])
    found = reply.content.array_records
    if terms.model in found:
        return found[terms.model]
    if len(found) != 1:
        raise FedprivError(f"the app's answer has ArrayRecords {list(found)}, and {terms.model!r} is wanted")
    return next(iter(found.values()))


@cache
def tell_once(words: str) -> None:
    """Write one line into this process's log, the first time that it is to be said."""
    log.warning("%s", words)
