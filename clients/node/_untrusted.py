"""What is looked at in a study's text before it is parsed: TOML's reader takes the square of a key's length.

A key of 14,000 parts kept a node busy for 25 seconds. A study's have five.
"""

from __future__ import annotations

import re

LONGEST = 1 << 17  # characters
DEEPEST = 16  # dots of a line that are in no number: as many tables inside one another at most
DOTS = 2000  # dots of all lines that are in no number
_NUMBER = re.compile(r"(?<![^\s,\[=])[+-]?\d+\.\d+(?:[eE][+-]?\d+)?(?![^\s,\]}#])")


def fault(text: str) -> str | None:
    """Why a node does not even parse a server's study, in one line; None where it may be parsed.

    >>> fault("a.b.c = [0.5, 1.5]"), fault("a" + ".a" * 99 + " = 1")
    (None, 'line 1 of the study has 99 dots outside numbers, 16 at most')
    """
    if not len(text) <= LONGEST:
        return f"the study is {len(text):,} characters long, {LONGEST:,} at most"
    lines = [_NUMBER.sub("", line).count(".") if "." in line else 0 for line in text.split("\n")]
    if (dots := max(lines)) > DEEPEST:
        return f"line {lines.index(dots) + 1} of the study has {dots:,} dots outside numbers, {DEEPEST} at most"
    if (dots := sum(lines)) > DOTS:
        return f"the study has {dots:,} dots outside numbers, {DOTS:,} at most"
    return None
