"""What a person did wrong, said in one line: what was wrong, where, and what would be right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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

    def __init__(self, message: str, best: float = inf) -> None:
        """The line that is shown, and the smallest ε that was found, to choose among several that are out of reach."""
        super().__init__(message)
        self.best = best


def reason(error: BaseException | None) -> str:
    """An exception as one line of at most 200 characters, for errors and records that name what failed.

    >>> reason(KeyError("a"))
    "KeyError: 'a'"
    """
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")[:200]


@dataclass(frozen=True, eq=False)
class Constraint:
    """What a value must be. Called with values by name it refuses the wrong ones; at a field it is declared once.

    A field that is `Annotated[float, positive, "a sentence"]` is checked by it (`fedpriv.settings.check_fields`),
    explained by `fedpriv list`, and said to editors by `fedpriv schema`.

    >>> positive(scale=0)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: scale must be positive, got 0
    """

    words: str  # for people, such as "positive"
    schema: Mapping[str, Any]  # for editors, in JSON Schema: no more than `fault` says
    fault: Callable[[Any], str]  # what is wrong with a value, to be read behind its name; empty where nothing is

    def __call__(self, **values: Any) -> None:
        """Refuse the first of some settings, given by name, that is not allowed, in one line for whoever wrote it."""
        for name, value in values.items():
            if fault := self.fault(value):
                raise FedprivError(f"{name} {fault}")


def _no_number(value: Any) -> str:
    """The end of an error line where a setting is no number: "must be a number, got 'a'"; empty where it is one."""
    return "" if isinstance(value, Real) and not isinstance(value, bool) else f"must be a number, got {value!r}"


def _not_finite(value: Any) -> str:
    """The end of an error line where a setting is no finite number, or past 1e150; empty where it is well."""
    if fault := _no_number(value):
        return fault
    try:
        size = abs(float(value))
    except OverflowError:  # a whole number beyond all floats
        size = inf
    if size <= LARGEST:
        return ""
    wanted = f"at most {LARGEST:g} in size" if LARGEST < size < inf or isinstance(value, Integral) else "finite"
    return f"must be {wanted}, got {str(value)[:40]}"


def _not_whole(value: Any, least: int) -> str:
    """The end of an error line where a setting is no whole number from `least` to 2^70; empty where it is one."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) != value:
        return f"must be a whole number, got {value!r}"
    if least <= int(value) <= MOST:
        return ""
    bound = f"at least {least}" if int(value) < least else f"at most {MOST:.0e}"
    return f"must be {bound}, got {str(value)[:40]}"


def whole_from(least: int) -> Constraint:
    """The check that fields of settings are declared with: a whole number of at least `least`.

    >>> whole_from(2)(classes=1)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: classes must be at least 2, got 1
    """
    return Constraint(f"a whole number of at least {least}", {"minimum": least}, lambda own: _not_whole(own, least))


def limited(
    told: str = "",  # what an error says behind the name; "must be …" as the bounds are, where it is not given
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> Constraint:
    """The check that fields of settings are declared with: a number within bounds, and nan within none.

    Whether it may be infinite the bounds say.

    >>> limited(least=0, below=1)(momentum=1.5)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: momentum must be at least 0 and below 1, got 1.5
    """
    bounds = [
        ("exclusiveMinimum", "above", above), ("minimum", "at least", least),
        ("exclusiveMaximum", "below", below), ("maximum", "at most", most),
    ]  # fmt: skip
    words = " and ".join(
        f"{word} {bound if isinstance(bound, int) else f'{bound:g}'}" for _, word, bound in bounds if bound is not None
    )

    def fault(value: Any) -> str:
        """What is wrong with a value outside of the bounds, for an error line that begins with its name; else empty."""
        if wrong := _no_number(value):
            return wrong
        inside = (above is None or value > above) and (least is None or value >= least)
        inside = inside and (below is None or value < below) and (most is None or value <= most)
        return "" if inside else f"{told or f'must be {words}'}, got {value}"

    return Constraint(words, {key: bound for key, _, bound in bounds if bound is not None}, fault)


real = Constraint("finite", {}, _not_finite)
positive = Constraint(
    "positive", {"exclusiveMinimum": 0},
    lambda own: _not_finite(own) or ("" if own > 0 else f"must be positive, got {own}"),
)  # fmt: skip
at_least_zero = limited(least=0)
probability = Constraint(
    "between 0 and 1",
    {"minimum": 0, "maximum": 1},
    lambda value: (
        ""
        if not _no_number(value) and 0 <= value <= 1
        else f"must be between 0 and 1, got {value if isinstance(value, Real) else repr(value)}"
    ),
)
whole = whole_from(1)
natural = whole_from(0)
truth = Constraint(
    "true or false", {}, lambda own: "" if isinstance(own, bool) else f"must be true or false, got {own!r}"
)


def finite_inputs(*values: Any) -> None:
    """Refuse inputs x and x′ that are not finite numbers, before a mechanism's curve between them is worked out."""
    for value in values:
        real(input=value)


def above(bound_name: str, bound: float, **values: Any) -> None:
    """Refuse settings, given by name, that do not exceed another setting, whose name and value come first.

    >>> above("peak", 1.0, scale=0.5)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: scale must be larger than peak = 1.0, got 0.5
    """
    for name, value in values.items():
        real(**{name: value})
        if not value > bound:
            raise FedprivError(f"{name} must be larger than {bound_name} = {bound}, got {value}")


def at_most(bound_name: str, bound: float, **values: Any) -> None:
    """Refuse settings, given by name, that exceed another setting, whose name and value come first.

    >>> at_most("clip", 1.0, peak=2.0)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: peak must be at most clip = 1.0, got 2.0
    """
    for name, value in values.items():
        real(**{name: value})
        if not value <= bound:
            raise FedprivError(f"{name} must be at most {bound_name} = {bound}, got {value}")


def one_of(choices: Iterable[str], **values: Any) -> None:
    """Refuse a setting, given by name, that is not among the words it may be; the error names the nearest.

    >>> one_of(["local", "central"], trust="centrel")
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: trust 'centrel' is unknown (did you mean 'central'?); choices: local, central
    """
    word_among(choices)(**values)


def word_among(choices: Iterable[str]) -> Constraint:
    """The check that fields of settings are declared with: one of a few words.

    >>> word_among(["local", "central"])(trust="local")
    """
    known = tuple(choices)

    def fault(value: Any) -> str:
        """For an error line, what is wrong with a value that is none of the words, and the nearest; else empty."""
        if value in known:
            return ""
        return f"{value!r} is unknown{nearest_hint(str(value), known)}; choices: {', '.join(known)}"

    return Constraint(" or ".join(f'"{word}"' for word in known), {"enum": list(known)}, fault)


def words_among(choices: Iterable[str]) -> Constraint:
    """A list of a few words, at least one and none twice.

    >>> words_among(["epsilon", "mu"])(shown=["mu", "epsilon"])
    """
    known = tuple(choices)

    def fault(value: Any) -> str:
        """What is wrong with a list of words, for the setting's line; nothing where it is right."""
        if not isinstance(value, list | tuple) or not value or len({*map(repr, value)}) < len(value):
            return f"must be a list of {' or '.join(known)}, none twice, got {value!r}"
        return next((told for told in map(word_among(known).fault, value) if told), "")

    schema = {"minItems": 1, "uniqueItems": True, "items": {"enum": list(known)}}
    return Constraint("a list of " + " or ".join(f'"{word}"' for word in known), schema, fault)


def nearest_hint(word: str, choices: Iterable[str]) -> str:
    """The end of an error about an unknown word, ' (did you mean ...?)'; empty where no choice is near."""
    lower = {choice.lower(): choice for choice in choices}
    found = get_close_matches(word.lower(), lower, n=1, cutoff=0.5)
    return f" (did you mean '{lower[found[0]]}'?)" if found else ""
