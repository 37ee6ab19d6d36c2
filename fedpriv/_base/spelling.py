"""How a number is spelt wherever people read it: 1e-5, 3e8, ∞. Files and JSON keep Python's own and the word "inf"."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import isfinite

FIXED = range(-5, 9)  # exponents at which all digits are written out


def short_number(value: float, digits: int = 6) -> str:
    """A number for people, to the nearest in so many digits: of settings, of δ, of estimates that bound nothing.

    >>> short_number(1e-5), short_number(0.001), short_number(2.5e8), short_number(float("inf"))
    ('1e-5', '0.001', '2.5e8', '∞')
    """
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), f"{value:.{digits}g}").replace("inf", "∞")


def rounded_up(value: float, digits: int = 4) -> str:
    """An ε or the like for people, rounded to no smaller a number: upper bounds stay upper bounds.

    >>> rounded_up(3.95222), rounded_up(2), rounded_up(float("inf")), rounded_up(1.23456e-9)
    ('3.953', '2', '∞', '1.235e-9')
    """
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 4) -> str:
    """An ε or the like for people, rounded to no larger a number: lower bounds stay lower bounds.

    >>> rounded_down(3.34466)
    '3.344'
    """
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> str:
    """A number for people in so many digits, rounded one way, without zeros at its end."""
    if not isfinite(value):
        return short_number(value)
    exact = Context(prec=digits, rounding=rounding).create_decimal(Decimal(value)).normalize()
    if not exact or exact.adjusted() in FIXED:
        return f"{exact:f}"
    return f"{exact:e}".replace("e+", "e")
