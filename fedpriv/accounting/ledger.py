"""What one client has given away: events kept as facts, costed on demand, refused past a budget, saved to a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from fedpriv._base.files import replace_file
from fedpriv._base.spelling import rounded_up, short_number
from fedpriv.accounting.account import Account, spent_epsilon
from fedpriv.accounting.event import Event, event_as_data, event_of
from fedpriv.curves.compose import Bounds
from fedpriv.errors import BudgetExceeded, FedprivError, one_of, positive, probability
from fedpriv.trust import Unit

__all__ = ["Budget", "Event", "Ledger"]

OLDEST = 1  # the first format of a file
FORMAT = 2  # the format that is written
# How a file of an older format becomes one of the next: format → function of the whole document. Facts are never
# dropped on the way; a format newer than ours is refused rather than read in part.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: lambda was: {{"releases": "events"}.get(name, name): value for name, value in was.items()} | {"format": 2},
}


@dataclass(frozen=True)
class Budget:
    """The most that may be given away: ε at δ.

    It is counted so that it holds where each event is chosen by what came of those before it, which costs more than a
    list that was fixed beforehand, once there are two kinds of events (`accounting.chosen_epsilon`).
    """

    epsilon: float  # positive
    delta: float  # between 0 and 1

    def __post_init__(self) -> None:
        """Refuse, in the budget of a ledger or a node's policy, an ε not positive or a δ that is no probability."""
        positive(epsilon=self.epsilon)
        probability(delta=self.delta)


@dataclass(frozen=True)
class Ledger:
    """The events of one client, in order. Adding returns a new ledger; nothing is ever taken back.

    >>> from fedpriv.accounting.event import by_hand
    >>> from fedpriv.mechanisms import StochasticSign
    >>> event = by_hand(StochasticSign(clip=0.1, scale=10), rounds=100)
    >>> low, high = Ledger().add(event).add(event).epsilon(1e-5)
    >>> low <= high < 1.2
    True
    """

    events: tuple[Event, ...] = ()  # those alike but for their rounds as one
    budget: Budget | None = None  # None where nothing is refused

    def __post_init__(self) -> None:
        """Refuse, in a client's ledger, a budget that is no Budget, and events that are no tuple of Event."""
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise FedprivError(f"budget must be a Budget, got {self.budget!r}")
        if not isinstance(self.events, tuple) or not all(isinstance(each, Event) for each in self.events):
            raise FedprivError(f"events must be a tuple of Event, got {str(self.events)[:80]}")

    def add(self, event: Event) -> Ledger:
        """A client's ledger with one more event; refused where it would pass the budget, this one staying as it is."""
        if not isinstance(event, Event):
            raise FedprivError(f"a ledger holds events, got {event!r}")
        events = (*self.events, event)
        for place, old in enumerate(self.events):
            alike = event.one_release is event and replace(old, rounds=event.rounds) == event
            if alike:  # but for its rounds: it is one event
                more = replace(old, rounds=old.rounds + event.rounds)
                events = (*self.events[:place], more, *self.events[place + 1 :])
                break
        grown = replace(self, events=events)
        if self.budget is not None:
            own = grown._account(event.unit)
            fixed = own.upper_epsilon if len(own.events) == 1 else None  # what is alike is merged into one event
            cost = spent_epsilon(own.events, self.budget.delta, fixed)
            if not cost <= self.budget.epsilon:
                raise BudgetExceeded(
                    f"this would take ε to {rounded_up(cost, 6)} at δ = {short_number(self.budget.delta)}, "
                    f"past the budget of {self.budget.epsilon:g}"
                )
        return grown

    def affords(self, event: Event) -> bool:
        """Whether an event fits the budget of a ledger that somebody keeps in Python; nodes ask their policy."""
        try:
            self.add(event)
        except BudgetExceeded:
            return False
        return True

    def of_unit(self, unit: Unit | None = None) -> tuple[Event, ...]:
        """The ledger's events that protect records, or clients; which, must be said where it holds both."""
        if unit is not None:
            one_of(get_args(Unit), unit=unit)
        units = {event.unit for event in self.events}
        if unit is None and len(units) > 1:
            raise FedprivError("this ledger holds record-level and client-level events: say which unit to cost")
        return tuple(event for event in self.events if unit is None or event.unit == unit)

    def epsilon(self, delta: float, unit: Unit | None = None) -> Bounds:
        """ε(δ), from both sides, of all that a client's ledger holds of one unit."""
        return self._account(unit).epsilon(delta).bounds

    def delta(self, epsilon: float, unit: Unit | None = None) -> Bounds:
        """δ(ε), from both sides, of all that a client's ledger holds of one unit."""
        return self._account(unit).delta(epsilon).bounds

    def _account(self, unit: Unit | None) -> Account:
        """The ledger's events that protect one unit, as an account that costs them together."""
        return Account(self.of_unit(unit))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a client's ledger to a file of JSON, in the old one's place at once: a crash leaves either whole."""
        try:
            target = Path(path)
            if not target.name or target.is_dir() or "\0" in str(target):
                raise FedprivError(f"{str(path)!r} is not the name of a file")
        except (TypeError, ValueError, OSError) as error:
            raise FedprivError(f"{path!r} is not the name of a file ({error})") from None
        budget = None if self.budget is None else vars(self.budget)
        document = {"format": FORMAT, "budget": budget, "events": [event_as_data(event) for event in self.events]}
        text = json.dumps(document, indent=1, default=_plain)
        try:
            replace_file(target, text.encode())
        except OSError as error:
            raise FedprivError(f"{path}: cannot be written ({error.strerror or error})") from None

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Ledger:
        """A client's ledger of events from its file, older formats brought up to date; a damaged one is refused."""
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            found = document["format"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise FedprivError(f"{path}: not a ledger ({_short(error)})") from None
        if type(found) is not int or not OLDEST <= found <= FORMAT:
            raise FedprivError(f"{path}: ledger format {found!r}, where this version reads {OLDEST} to {FORMAT}")
        try:
            for step in range(found, FORMAT):
                document = UPGRADES[step](document)
            if set(document) != {"format", "budget", "events"} or not isinstance(document["events"], list):
                raise FedprivError("it must hold format, budget and a list of events, and nothing else")
            budget = None if document["budget"] is None else Budget(**document["budget"])
            return Ledger(tuple(event_of(entry) for entry in document["events"]), budget)
        except (AttributeError, KeyError, TypeError, FedprivError) as error:
            raise FedprivError(f"{path}: damaged ledger ({_short(error)})") from None


def _short(error: Exception) -> str:
    """The first line of an error, or its name, for the message that a ledger's file is damaged."""
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def _plain(value: Any) -> Any:
    """A numpy number as Python's own, for the JSON of a ledger's file; anything else is refused."""
    if hasattr(value, "item"):
        return value.item()
    raise FedprivError(f"a ledger holds numbers and words, not {value!r}")
