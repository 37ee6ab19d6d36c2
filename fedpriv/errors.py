"""What a person did wrong, said in one line: what was wrong, where, and what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from math import inf
from numbers import Integral, Real
from typing import Any

MOST = 2**70  # whole numbers past it are slips
LARGEST = 1e150  # past it, squares of settings overflow
FAULTS = (Exception, SystemExit)  # what code that a study names may end with; Ctrl-C is nobody's fault


class FedprivError(ValueError):
    """Input that cannot be honoured. The message is one line, fit to be shown to the person who gave it."""


class BudgetExceeded(FedprivError):
    """A release was refused because it would take a ledger past its budget."""


class Unreachable(FedprivError):
    """No value of the free setting reaches the target; the message names the best that can be had."""


def reason(error: BaseException | None) -> str:
    """An exception in one line.

    >>> reason(KeyError("a"))
    "KeyError: 'a'"
    """
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")[:200]


def real(**values: Any) -> None:
    """Refuse what is not a finite real number.

    >>> real(scale="wide")
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: scale must be a number, got 'wide'
    """
    for name, value in values.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise FedprivError(f"{name} must be a number, got {value!r}")
        try:
            size = abs(float(value))
        except OverflowError:  # a whole number beyond all floats
            size = inf
        if not size <= LARGEST:
            wanted = f"at most {LARGEST:g} in size" if LARGEST < size < inf or isinstance(value, Integral) else "finite"
            raise FedprivError(f"{name} must be {wanted}, got {str(value)[:40]}")


def positive(**values: Any) -> None:
    """Refuse what is not a finite number above zero (nan fails: the test is written so).

    >>> positive(scale=0)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: scale must be positive, got 0
    """
    for name, value in values.items():
        real(**{name: value})
        if not value > 0:
            raise FedprivError(f"{name} must be positive, got {value}")


def finite_inputs(*values: Any) -> None:
    """Refuse inputs of a mechanism that are not finite numbers."""
    for value in values:
        real(input=value)


def at_least_zero(**values: Any) -> None:
    """Refuse what is not a number from 0 to infinity.

    >>> at_least_zero(epsilon=-1)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: epsilon must be at least 0, got -1
    """
    for name, value in values.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise FedprivError(f"{name} must be a number, got {value!r}")
        if not float(value) >= 0:
            raise FedprivError(f"{name} must be at least 0, got {value}")


def whole(at_least: int = 1, **values: Any) -> None:
    """Refuse what is not a whole number of at least `at_least`.

    >>> whole(trials=2.5)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: trials must be a whole number, got 2.5
    """
    for name, value in values.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or int(value) != value:
            raise FedprivError(f"{name} must be a whole number, got {value!r}")
        if not at_least <= int(value) <= MOST:
            bound = f"at least {at_least}" if int(value) < at_least else f"at most {MOST:.0e}"
            raise FedprivError(f"{name} must be {bound}, got {str(value)[:40]}")


def above(bound_name: str, bound: float, **values: Any) -> None:
    """Refuse what does not exceed a named bound.

    >>> above("peak", 1.0, scale=0.5)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: scale must be larger than peak = 1.0, got 0.5
    """
    for name, value in values.items():
        real(**{name: value})
        if not value > bound:
            raise FedprivError(f"{name} must be larger than {bound_name} = {bound}, got {value}")


def at_most(bound_name: str, bound: float, **values: Any) -> None:
    """Refuse what exceeds a named bound.

    >>> at_most("clip", 1.0, peak=2.0)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: peak must be at most clip = 1.0, got 2.0
    """
    for name, value in values.items():
        real(**{name: value})
        if not value <= bound:
            raise FedprivError(f"{name} must be at most {bound_name} = {bound}, got {value}")


def probability(**values: Any) -> None:
    """Refuse what is not a number in [0, 1].

    >>> probability(delta=-1e-5)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: delta must be between 0 and 1, got -1e-05
    """
    for name, value in values.items():
        if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
            shown = value if isinstance(value, Real) else repr(value)  # a number by itself, whoever's it is
            raise FedprivError(f"{name} must be between 0 and 1, got {shown}")


def one_of(choices: Iterable[str], **values: Any) -> None:
    """Refuse a word that is not among the choices, naming the nearest.

    >>> one_of(["local", "central"], trust="centrel")
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: trust 'centrel' is unknown (did you mean 'central'?); choices: local, central
    """
    choices = list(choices)
    for name, value in values.items():
        if value not in choices:
            hint = nearest(str(value), choices)
            raise FedprivError(f"{name} {value!r} is unknown{hint}; choices: {', '.join(choices)}")


def nearest(word: str, choices: Iterable[str]) -> str:
    """The hint ' (did you mean ...?)', or nothing where no choice is near."""
    lower = {choice.lower(): choice for choice in choices}
    found = get_close_matches(word.lower(), lower, n=1, cutoff=0.5)
    return f" (did you mean '{lower[found[0]]}'?)" if found else ""
