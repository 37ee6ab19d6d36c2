"""What a person sees of a run while it goes: one line that is drawn anew, and at the end a table."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from shlex import quote
from statistics import median
from typing import Any, Self, TextIO

from server.words import ASSUMED_HERE, down, duration, how, share, size, small, tally, up

REDRAWN = 0.1  # seconds between two drawings on a terminal
REPEATED = 5.0  # and between two lines where there is none
REMEMBERED = 20  # rounds whose pace counts
WIDEST, NARROWEST = 30, 6  # characters of the bar


class Progress:
    """The line of a run on standard error, kept to the width of the terminal; elsewhere a plain line now and then."""

    def __init__(
        self,
        total_rounds: int,
        clients: int,
        quiet: bool,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total, self.clients, self.quiet, self._clock = total_rounds, clients, quiet, clock
        self._stream = sys.stderr if stream is None else stream
        self._live = not quiet and self._stream.isatty()
        self._round, self._accuracy, self._epsilon = 0, None, None
        self._rejected = self._failed = 0
        self._noted = False  # whether a reason was shown
        self._paces: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)  # seconds of a round, and who answered
        self._shown = clock()
        self._drawn = 0  # characters on the line now

    def __enter__(self) -> Self:
        if self._live:
            self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def update(self, line: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
        """Take in one round: its line of the records, and its seconds."""
        now, self._round = self._clock(), line["round"]
        self._paces.append((float(timing["seconds"]), line["answered"]))
        self._rejected += sum(line["rejected"].values())
        self._failed += sum(line["failed"].values())
        if line["accuracy"] is not None:
            self._accuracy = line["accuracy"]
        if line["epsilon"] is not None:
            self._epsilon = line["epsilon"]["upper"]
        note = line.get("note")
        if note and not self._noted:
            self._noted = True
            self._say(f"round {line['round']}, the first that failed: {note}")
        if line["skipped"]:
            self._say(f"round {line['round']} skipped: {line['skipped']}")
        if now - self._shown >= (REDRAWN if self._live else REPEATED) or self._round >= self.total:
            self._shown = now
            self._draw()

    def finish(self, result: Mapping[str, Any]) -> None:
        """The table of the whole run."""
        self._clear()
        if not self.quiet:
            self._print(table(result))

    def _say(self, words: str) -> None:
        """A line that stays."""
        self._clear()
        if not self.quiet:
            self._print(words)

    def _draw(self) -> None:
        if self.quiet:
            return
        if not self._live:
            self._print("  ".join([self._counted(), *self._facts()]))
            return
        text = self._fitted(_columns(self._stream) - 1)
        self._stream.write(_writable("\r" + text.ljust(self._drawn), self._stream))
        self._stream.flush()
        self._drawn = len(text)

    def _clear(self) -> None:
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()
        self._drawn = 0

    def _print(self, text: str) -> None:
        self._stream.write(_writable(text + "\n", self._stream))
        self._stream.flush()

    def _fitted(self, width: int) -> str:
        """The line, its bar made small and then its least important facts left out until it fits."""
        facts = self._facts()
        while facts and len("  ".join([self._counted(), *facts])) + NARROWEST + 2 > width:
            facts.pop()
        left = width - len("  ".join([self._counted(), *facts])) - 2
        bar = [self._bar(min(left, WIDEST))] if left >= NARROWEST else []
        return "  ".join([self._counted(), *bar, *facts])[: max(width, 0)]

    def _counted(self) -> str:
        return f"round {self._round:{len(str(self.total))}}/{self.total}"

    def _bar(self, width: int) -> str:
        done = round(width * min(1.0, self._round / max(1, self.total)))
        return "━" * done + "─" * (width - done)

    def _facts(self) -> list[str]:
        """The most important first; those that change are of one width, so that the bar stands still."""
        facts = []
        if self._accuracy is not None:
            facts.append(f"accuracy {share(self._accuracy)}")
        if self._epsilon is not None:
            facts.append(f"ε ≤ {up(self._epsilon):<6}")
        typical = median(seconds for seconds, _ in self._paces) if self._paces else 0.0  # the first may be slow
        if self._paces and self._round < self.total:
            facts.append(f"{duration(typical * (self.total - self._round))} left".ljust(11))
        if self._rejected:
            facts.append(f"{self._rejected:,} rejected")
        if self._failed:
            facts.append(f"{self._failed:,} failed")
        if typical > 0:
            pace = median(answered for _, answered in self._paces) / typical
            facts.append(f"{pace:,.0f} clients/s".rjust(16))
        return facts


def table(result: Mapping[str, Any]) -> str:
    """What `fedpriv run --json` prints, for people."""
    cost, delta, clients = result["epsilon"], small(result["delta"]), max(1, result["clients"])
    private = cost is not None and result["adjacency"] is not None
    rows = [("accuracy", share(result["accuracy"])), ("rounds", f"{result['rounds']:,}, {result['why']}")]
    if private:
        rows.append(("privacy", f"ε at most {up(cost['upper'])}, at least {down(cost['lower'])}, at δ = {delta}"))
        rows.append(("", how(result["trust"], result["unit"], result["adjacency"]) + ", the worst client"))
        rows += [("", ASSUMED_HERE)] * (result["trust"] == "secure-aggregation")
    else:
        rows.append(("privacy", "none: updates were sent as they are"))
    rows += [
        ("sent", f"{size(result['bytes_up'] / clients)} a client, {size(result['bytes_up'])} in all"),
        ("rejected", tally(result["rejected"])),
        ("failed", tally(result["failed"])),
        ("time", duration(result["seconds"])),
        ("directory", str(result["directory"])),
        ("", f"fedpriv report {quote(str(result['directory']))}"),
    ]
    return _lines(rows)


def _lines(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _columns(stream: TextIO) -> int:
    """The width of the terminal that is written to: standard output may be another."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or shutil.get_terminal_size().columns
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


def _writable(text: str, stream: TextIO) -> str:
    """The text in letters that the stream has."""
    try:
        text.encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        for letter, plain in (("━", "#"), ("─", "-"), ("ε ≤", "eps <="), ("ε", "eps"), ("δ", "delta"), ("∞", "inf")):
            text = text.replace(letter, plain)
    return text
