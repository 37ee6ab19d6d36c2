"""What a server tells each node beside the model: which round of which run, through which channel, of which arrays."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedpriv.aggregation import RULES, Rule, rule_of
from fedpriv.channel import Channel
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import MECHANISMS, Mechanism, settings_of
from fedpriv.registry import kind_of
from fedpriv.settings import kind_and_settings
from fedpriv.wire import Rejected

TERMS = "fedpriv"  # the ConfigRecord that a strategy adds to its messages
SELF = np.zeros(1, np.int64)  # the one client of a node, as its frames and its ledger number it
FRAME = "fedpriv"  # the ArrayRecord of a reply, and its one array
TOLD = ".told"  # behind its name, the MetricRecord of a reply: how often the node was charged, metrics allowed by name
CHARGED = "charged"  # in it
RAW = "bytes"  # how a frame travels: as it is
VERSION = 1  # of all this
LONGEST = 300  # characters of what a node says
UNWRAPPED = (
    "the message lacks what fedpriv.flower.Private adds: wrap the server's strategy, as in Private(FedAvg(), mechanism)"
)

ChannelLike = Channel | Mechanism | str


@dataclass(frozen=True, kw_only=True)
class Terms:
    """One round's ask, as server and node must see it alike."""

    round: int  # from 1
    run: str  # drawn anew for each run
    channel: str  # in words
    model: str  # the name of the ArrayRecord that is trained
    names: tuple[str, ...]  # of the arrays whose update is asked for, in order

    @property
    def identity(self) -> str:
        """What makes asks of one run alike but for their round, for a node's ledger."""
        return repr((VERSION, self.channel, self.model, self.names))

    @property
    def id(self) -> bytes:
        """Eight bytes that the frames of a run name it by: a frame made for another channel or run is rejected."""
        return blake2b(f"{self.run}\0{self.identity}".encode(), digest_size=8).digest()

    def record(self) -> ConfigRecord:
        """The terms as the record that travels beside the model."""
        told: dict[str, Any] = {"version": VERSION, **vars(self), "names": list(self.names)}
        return ConfigRecord(told)

    @staticmethod
    def of(content: RecordDict) -> Terms:
        """The terms in a server's message; refused where it has none, or others than this version writes."""
        if TERMS not in content.config_records:
            raise FedprivError(UNWRAPPED)
        told: dict[str, Any] = dict(content.config_records[TERMS])
        version, names = told.pop("version", None), told.pop("names", None)
        kinds = {"round": int, "run": str, "channel": str, "model": str}
        whole = {name: type(value) for name, value in told.items()} == kinds and isinstance(names, list)
        if version != VERSION or not whole or not 1 <= told["round"] < 2**32:
            raise FedprivError(f"the server's terms are not those of version {VERSION}: one fedpriv for both sides")
        return Terms(**told, names=tuple(map(str, names)))


def channel_of(given: ChannelLike) -> Channel:
    """The channel that an app names: itself, a mechanism behind its norm bound, or a mechanism in words.

    >>> channel_of("StochasticSign clip=1 peak=.25 scale=1")
    Channel(bound=Norm(clip=1.0), mechanism=StochasticSign(clip=1.0, scale=1.0, peak=0.25))
    """
    if isinstance(given, Channel):
        return given
    found = MECHANISMS.made(*kind_and_settings(given)) if isinstance(given, str) else given
    if isinstance(found, type) or not hasattr(found, "effects"):
        raise FedprivError(f"a mechanism, its words or a Channel must be given, got {str(given)[:80]}")
    return Channel.of("clip", found)


def channel_words(channel: Channel) -> str:
    """A channel in words that are alike on both sides, whether its numbers were written whole or not.

    >>> channel_words(channel_of("StochasticSign clip=1 scale=2"))
    "Norm StochasticSign {'clip': 1.0, 'scale': 2.0, 'peak': 1.0}"
    """
    own = {name: float(value) if isinstance(value, Real) else value
           for name, value in settings_of(channel.mechanism).items()}  # fmt: skip
    return f"{type(channel.bound).__name__} {kind_of(channel.mechanism)} {own}"


def rule_from(given: Rule | str) -> Rule:
    """The rule that an app names: itself, or one in words.

    >>> rule_from("TrimmedMean dropped=2")
    TrimmedMean(dropped=2)
    """
    found = rule_of(*kind_and_settings(given), RULES) if isinstance(given, str) else given
    if isinstance(found, type) or not hasattr(found, "needs_rows"):
        raise FedprivError(f"rule must be a rule or its words, as in 'TrimmedMean dropped=2', got {str(given)[:80]}")
    return found


def reply_of(frame: bytes, told: dict[str, Any], place: str = FRAME) -> RecordDict:
    """What leaves a node: a frame, and what is told beside it, as records of these names."""
    array = Array("uint8", (len(frame),), RAW, frame)
    return RecordDict({place: ArrayRecord({FRAME: array}), place + TOLD: MetricRecord(told)})


def check_answered(reply: Message) -> None:
    """Raise `Rejected` where a node's reply is an error of Flower's or of the node's: in its words, those printable."""
    if reply.has_error():
        said = "".join(filter(str.isprintable, reply.error.reason or "no reason given"))
        raise Rejected("error", said[:LONGEST])


def names_from(name: str, given: Collection[str]) -> tuple[str, ...]:
    """A collection of names as a tuple; a single word is refused, for it would be taken letter by letter."""
    if isinstance(given, str) or not isinstance(given, Collection) or not all(isinstance(each, str) for each in given):
        raise FedprivError(f"{name} must be a collection of names, such as ('{given}',), got {given!r}")
    return tuple(given)
