"""Words on a command line as values, and what a command found as words: what all subcommands share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from fedpriv import records

LONGEST = 60  # characters of a list that is shown whole


def settings_words(settings: Mapping[str, Any]) -> str:
    """Settings in one line, numbers in as many digits as tell them; of long lists how long they are.

    >>> settings_words({"clip": 0.1, "levels": (-1.0, 1.0)})
    'clip=0.1 levels=[-1, 1]'
    """
    return " ".join(f"{name}={_value_words(value)}" for name, value in settings.items())


def mechanism_words(found: Mapping[str, Any]) -> str:
    """A mechanism of a command's findings in a line, its kind and settings: headings, rows, the names of curves."""
    return f"{found['kind']} {settings_words(found['settings'])}"


def _value_words(value: Any) -> str:
    """One setting of a mechanism as a command's table shows it."""
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_value_words, value))
        return f"[{inner}]" if len(inner) <= LONGEST else f"[{len(value)} of them]"
    return f"{value:.12g}" if isinstance(value, float | int) else str(value)


def as_whole(text: str) -> int:
    """The type of a command's options that are whole numbers: the text as one, 1e9 included, or argparse's error."""
    try:
        value = float(text)
        if text.lstrip("+-").isdigit():
            return int(text)
        if value != int(value):
            raise ValueError
        return int(value)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def as_real(text: str) -> float:
    """The type of a command's options that are real numbers: the text as one, or argparse's error."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def as_rates(text: str) -> tuple[float, ...]:
    """Numbers between 0 and 1, with commas between them."""
    rates = tuple(map(as_real, text.split(",")))
    if not all(0 < rate < 1 for rate in rates):
        raise argparse.ArgumentTypeError(f"must be numbers above 0 and below 1, commas between them, got {text!r}")
    return rates


def print_json(value: Any) -> None:
    """Print a command's result as JSON on standard output, infinities being words."""
    print(json.dumps(records.plain_values(value), indent=1, ensure_ascii=False, allow_nan=False))


def show_found(found: Mapping[str, Any], words: str, as_json: bool) -> None:
    """Print what a command found: `found` as a JSON object under --json, else `words` for people."""
    if as_json:
        print_json(found)
    else:
        print(words)
