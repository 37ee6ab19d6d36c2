"""One line on standard error that is drawn anew while something goes on; where there is no terminal, a plain line now
and then."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

REDRAWN = 0.1  # seconds between two drawings on a terminal
REPEATED = 5.0  # and between two lines where there is none
WIDEST = 30  # characters of the bar
NARROWEST = 6  # characters of a bar that still tells something


class LiveLine:
    """What is done, a bar, and facts, kept to the width of the terminal."""

    def __init__(self, quiet: bool, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.quiet = quiet
        self._clock = clock
        self._stream = sys.stderr if stream is None else stream
        self._live = not quiet and self._stream.isatty()
        self._shown = clock()
        self._drawn = 0  # characters on the line now

    def begin(self, counted: str, share: float, facts: list[str]) -> None:
        """Draw a run's or a sweep's line first on a terminal; elsewhere it waits until there is something to say."""
        if self._live:
            self._draw(counted, share, facts)

    def show(self, counted: str, share: float, facts: list[str], at_once: bool = False) -> None:
        """Draw a run's or a sweep's line anew, where the last drawing is long enough ago; the best fact comes first."""
        now = self._clock()
        if at_once or now - self._shown >= (REDRAWN if self._live else REPEATED):
            self._shown = now
            self._draw(counted, share, facts)

    def say(self, words: str) -> None:
        """Print lines that stay, above a run's or a sweep's live line; nothing where it is quiet."""
        self.clear()
        if not self.quiet:
            self._print(words)

    def clear(self) -> None:
        """Take the live line off the terminal, before something else is printed or when all is over."""
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()
        self._drawn = 0

    def _draw(self, counted: str, share: float, facts: list[str]) -> None:
        """Write the live line in the place of the last one, cut to the terminal's width; elsewhere a plain line."""
        if self.quiet:
            return
        if not self._live:
            self._print("  ".join([counted, *facts]).rstrip())
            return
        columns = 0
        with suppress(OSError, ValueError):  # the terminal that is written to: standard output may be another
            columns = os.get_terminal_size(self._stream.fileno()).columns
        width = (columns or shutil.get_terminal_size().columns) - 1
        shown = [counted, *facts]
        while len(shown) > 1 and len("  ".join(shown)) + NARROWEST + 2 > width:
            shown.pop()  # the least important of the facts, where not even a small bar has room beside it
        bar = min(width - len("  ".join(shown)) - 2, WIDEST)
        if bar >= NARROWEST:
            done = round(bar * min(1.0, share))
            shown.insert(1, "━" * done + "─" * (bar - done))
        text = "  ".join(shown)[: max(width, 0)]
        self._stream.write(_writable("\r" + text.ljust(self._drawn), self._stream))
        self._stream.flush()
        self._drawn = len(text)

    def _print(self, text: str) -> None:
        """Write a line that stays, beside or without a live one."""
        self._stream.write(_writable(text + "\n", self._stream))
        self._stream.flush()


def _writable(text: str, stream: TextIO) -> str:
    """A line of progress in letters that the stream has: # for ━, eps for ε."""
    try:
        text.encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        for letter, plain in (("━", "#"), ("─", "-"), ("ε ≤", "eps <="), ("ε", "eps"), ("δ", "delta"), ("∞", "inf")):
            text = text.replace(letter, plain)
    return text
