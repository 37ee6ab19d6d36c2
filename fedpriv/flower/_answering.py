"""How a node's answer to a round or an evaluation comes about: charged on its disk, drawn, kept, and only then sent."""

from __future__ import annotations

from collections.abc import Callable
from logging import getLogger
from typing import Any

import numpy as np
from flwr.app import RecordDict

from fedpriv import wire
from fedpriv._base.arrays import Rows
from fedpriv.accounting.event import Event
from fedpriv.channel import Channel
from fedpriv.channel.encoding import Fresh
from fedpriv.flower._ledger import Home, charged
from fedpriv.flower._masks import Seal
from fedpriv.flower._terms import CHARGED, FRAME, SELF, Terms, reply_of
from fedpriv.flower._vector import unmoved_by_app
from fedpriv.node.asks import Ask
from fedpriv.node.own_ledger import opened_ledger
from fedpriv.randomness.cryptographic import cryptographic_generator

log = getLogger("fedpriv")


def answered_once(
    home: Home, ask: Ask, event: Event, what: str, drawn: Callable[[], tuple[bytes, dict[str, Any]]],
    *, place: str = FRAME, durable: bool = False,
) -> RecordDict:  # fmt: skip
    """A node's answer to an ask, from `drawn` once it is charged, with metrics; the one it gave before, where it did.

    `what` an ask is of is for the refusal of another of the same; the records of the answer are named by `place`. One
    that may not be drawn twice, whatever it is charged, must be kept durably.
    """
    with opened_ledger(home.folder, home.place) as ledger:
        told: dict[str, Any] = {}
        if (frame := ledger.stored(ask, f"one ledger is of one node, which answers {what} of a run once")) is None:
            charged(ledger, ask, event, home.budgets)
            frame, told = drawn()
            with unmoved_by_app():
                ledger.store(ask, frame, durable)
        return reply_of(frame, told | {CHARGED: ledger.asked(ask.study)}, place)


def drawn_frame(channel: Channel, terms: Terms, update: Rows, seal: Seal | None = None) -> bytes:
    """The bytes of one message of an update through a channel, masked by `seal`: noise that nobody can draw again."""
    dimension, noise = update.shape[1], Fresh(cryptographic_generator(), 1)
    try:
        payload = channel.messages(update, noise)
    except Exception as error:  # of this update alone, or it happens again
        log.error("round %d: an update of 0 is sent, for the app's cannot be: %s", terms.round, error, exc_info=error)
        payload = channel.messages(np.zeros_like(update), noise)
    if seal is not None:
        return seal(payload, dimension, channel.mechanism)
    return wire.messages_frame(terms.id, terms.round, SELF, payload, dimension, channel.mechanism)
