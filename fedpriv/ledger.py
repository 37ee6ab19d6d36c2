"""What one client has given away: releases kept as facts, costed on demand, refused past a budget, saved to a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

from fedpriv.accounting import Account
from fedpriv.errors import BudgetExceeded, FedprivError, one_of, positive, probability
from fedpriv.files import replaced
from fedpriv.mechanisms import make_release
from fedpriv.privacy_loss import Bounds
from fedpriv.release import Release, Unit, described

__all__ = ["Budget", "Ledger", "Release"]

OLDEST = FORMAT = 1
# How a file of an older format becomes one of the next: format → function of the whole document. Facts are never
# dropped on the way; a format newer than ours is refused rather than read in part.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}


@dataclass(frozen=True)
class Budget:
    """The most that may be given away: ε at δ."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        probability(delta=self.delta)


@dataclass(frozen=True)
class Ledger:
    """The releases of one client, in order. Adding returns a new ledger; nothing is ever taken back.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> release = Release(mechanism=StochasticSign(clip=0.1, scale=10), rounds=100)
    >>> low, high = Ledger().add(release).add(release).epsilon(1e-5)
    >>> low <= high < 1.2
    True
    """

    releases: tuple[Release, ...] = ()
    budget: Budget | None = None

    def __post_init__(self) -> None:
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise FedprivError(f"budget must be a Budget, got {self.budget!r}")
        if not isinstance(self.releases, tuple) or not all(isinstance(each, Release) for each in self.releases):
            raise FedprivError(f"releases must be a tuple of Release, got {str(self.releases)[:80]}")

    def add(self, release: Release) -> Ledger:
        """The ledger with one more release; refused where it would pass the budget, which leaves this one unchanged."""
        if not isinstance(release, Release):
            raise FedprivError(f"a ledger holds releases, got {release!r}")
        grown = replace(self, releases=_merged(self.releases, release))
        if self.budget is not None:
            cost = Account(grown.of_unit(release.unit)).upper_epsilon(self.budget.delta)
            if not cost <= self.budget.epsilon:
                raise BudgetExceeded(
                    f"this release would take ε to {cost:.6g} at δ = {self.budget.delta:g}, "
                    f"past the budget of {self.budget.epsilon:g}"
                )
        return grown

    def affords(self, release: Release) -> bool:
        """Whether `add` would take the release."""
        try:
            self.add(release)
        except BudgetExceeded:
            return False
        return True

    def of_unit(self, unit: Unit | None = None) -> tuple[Release, ...]:
        """The releases that protect one unit; which, must be said where there are both."""
        if unit is not None:
            one_of(get_args(Unit), unit=unit)
        units = {release.unit for release in self.releases}
        if unit is None and len(units) > 1:
            raise FedprivError("this ledger holds record-level and client-level releases: say which unit to cost")
        return tuple(release for release in self.releases if unit is None or release.unit == unit)

    def epsilon(self, delta: float, unit: Unit | None = None) -> Bounds:
        """ε(δ) of everything so far, from both sides."""
        return Account(self.of_unit(unit)).epsilon(delta).bounds

    def delta(self, epsilon: float, unit: Unit | None = None) -> Bounds:
        """δ(ε) of everything so far, from both sides."""
        return Account(self.of_unit(unit)).delta(epsilon).bounds

    def save(self, path: str | os.PathLike[str]) -> None:
        """Written beside the old file and put in its place at once, so that a crash leaves one of the two whole."""
        target = _target(path)
        document = {
            "format": FORMAT,
            "budget": None if self.budget is None else vars(self.budget),
            "releases": [described(release) for release in self.releases],
        }
        text = json.dumps(document, indent=1, default=_plain)
        try:
            replaced(target, text.encode())
        except OSError as error:
            raise FedprivError(f"{path}: cannot be written ({error.strerror or error})") from None

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Ledger:
        """The ledger of a file, older formats brought up to date."""
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            found = document["format"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise FedprivError(f"{path}: not a ledger ({_short(error)})") from None
        if type(found) is not int or not OLDEST <= found <= FORMAT:
            raise FedprivError(f"{path}: ledger format {found!r}, where this version reads {OLDEST} to {FORMAT}")
        for step in range(found, FORMAT):
            document = UPGRADES[step](document)
        try:
            if set(document) != {"format", "budget", "releases"} or not isinstance(document["releases"], list):
                raise FedprivError("it must hold format, budget and a list of releases, and nothing else")
            budget = None if document["budget"] is None else Budget(**document["budget"])
            return Ledger(tuple(release_of(entry) for entry in document["releases"]), budget)
        except (AttributeError, KeyError, TypeError, FedprivError) as error:
            raise FedprivError(f"{path}: damaged ledger ({_short(error)})") from None


def _target(path: str | os.PathLike[str]) -> Path:
    try:
        target = Path(path)
        if not target.name or target.is_dir() or "\0" in str(target):
            raise FedprivError(f"{str(path)!r} is not the name of a file")
    except (TypeError, ValueError, OSError) as error:
        raise FedprivError(f"{path!r} is not the name of a file ({error})") from None
    return target


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def _plain(value: Any) -> Any:
    """A numpy number as Python's own."""
    if hasattr(value, "item"):
        return value.item()
    raise FedprivError(f"a ledger holds numbers and words, not {value!r}")


def release_of(entry: dict[str, Any]) -> Release:
    """The release that `described` has made plain data of, with every fact in it."""
    facts = {name: value for name, value in entry.items() if name not in ("kind", "settings")}
    missing = sorted({field.name for field in fields(Release)} - {"mechanism"} - set(facts))
    if missing:  # a fact left out must not be filled in: the default may cost less
        raise FedprivError(f"a release lacks {', '.join(missing)}")
    if facts["unit"] is None or facts["adjacency"] is None:
        raise FedprivError("a release must name its unit and its adjacency")
    return Release(mechanism=make_release(entry["kind"], entry["settings"]), **facts)


def _merged(releases: tuple[Release, ...], release: Release) -> tuple[Release, ...]:
    """The release appended, or its rounds added to one that is otherwise the same."""
    for place, old in enumerate(releases):
        if replace(old, rounds=release.rounds) == release:
            return (*releases[:place], replace(old, rounds=old.rounds + release.rounds), *releases[place + 1 :])
    return (*releases, release)
