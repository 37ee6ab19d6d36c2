"""Who sees what of a message: a closed set, of which whoever tells its members apart names every one.

`match` with `assert_never` at the end is how: a fourth kind of trust then fails the type check at every place that has
said nothing of it, and nothing is certified under it until a proof is written there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never, get_args

from fedpriv.errors import FedprivError, at_most, one_of, whole

Adjacency = Literal["replace", "add-remove"]
Unit = Literal["record", "client"]
Word = Literal["local", "secure-aggregation", "central"]
MOST = 10**18  # clients, rounds or coordinates


@dataclass(frozen=True)
class Local:
    """The server, or whoever carries messages, sees each of them."""


@dataclass(frozen=True)
class Sums:
    """Sums of messages are seen and nothing else; `certain` contributors have drawn honest noise, this one included."""

    certain: int

    def __post_init__(self) -> None:
        """Refuse, in a study's or event's trust, certain contributors that are no whole number from 1 to 10^18."""
        whole(clients=self.certain)
        at_most("10^18", MOST, clients=self.certain)


@dataclass(frozen=True)
class Central:
    """A trusted curator sees the data and adds the noise; what it gives out is seen."""


Trust = Local | Sums | Central


def word_of(trust: Trust) -> Word:
    """The word for a trust in studies, ledgers and on the command line: local, secure-aggregation or central.

    >>> word_of(Sums(40))
    'secure-aggregation'
    """
    match trust:
        case Local():
            return "local"
        case Sums():
            return "secure-aggregation"
        case Central():
            return "central"
        case _ as never:
            assert_never(never)


def trust_of(word: Word, clients: int | None = None) -> Trust:
    """The trust of that name; `clients` are those certain to have drawn noise, which sums alone need.

    >>> trust_of("secure-aggregation", 40)
    Sums(certain=40)
    """
    one_of(get_args(Word), trust=word)
    if word != "secure-aggregation" and clients is not None:
        raise FedprivError(f"clients counts only under secure-aggregation trust, not {word}")
    match word:
        case "local":
            return Local()
        case "central":
            return Central()
        case "secure-aggregation":
            if clients is None:
                raise FedprivError("secure-aggregation trust needs clients: how many are certain to have drawn noise")
            return Sums(clients)
        case _ as never:
            assert_never(never)


def certain_contributors(trust: Trust) -> int | None:
    """How many clients have certainly drawn noise in a sum, which its certificate counts; None without sums."""
    match trust:
        case Sums():
            return trust.certain
        case Local() | Central():
            return None
        case _ as never:
            assert_never(never)


def units_touched(adjacency: Adjacency) -> int:
    """By how many units the sums of neighbours differ: 2 if one is replaced, 1 if one is added or removed.

    >>> units_touched("replace"), units_touched("add-remove")
    (2, 1)
    """
    match adjacency:
        case "replace":
            return 2
        case "add-remove":
            return 1
        case _ as never:
            assert_never(never)


def sums_only(word: Word) -> bool:
    """Whether under a study's word for its trust the server sees nothing but sums of messages."""
    match word:
        case "secure-aggregation":
            return True
        case "local" | "central":
            return False
        case _ as never:
            assert_never(never)


def curated(word: Word) -> bool:
    """Whether under a study's word for its trust a curator adds the noise, so that clients send what they have."""
    match word:
        case "central":
            return True
        case "local" | "secure-aggregation":
            return False
        case _ as never:
            assert_never(never)
