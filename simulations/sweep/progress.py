"""What a person sees of a sweep: while it goes one line that is drawn anew and what failed, at its end a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from shlex import quote
from typing import Any, Self, TextIO

from fedpriv._base.spelling import rounded_down, rounded_up, short_number
from server.progress.live_line import LiveLine
from server.progress.words import duration_words, measured_words, share_words


class SweepProgress:
    """The line of a sweep on standard error."""

    def __init__(
        self,
        total: int,  # cells of the whole sweep
        there: int,  # those that had ended before
        workers: int,
        quiet: bool,
        stream: TextIO | None = None,  # standard error unless said
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The progress of a sweep that has `total` cells, of which `there` had ended before."""
        self.total, self.there, self.done, self.failed = total, there, 0, 0
        self._workers, self._busy = workers, 0.0  # seconds that cells took, one after another
        self._line, self._clock = LiveLine(quiet, stream, clock), clock
        self._begun = clock()

    def __enter__(self) -> Self:
        """Show the sweep's line for the first time."""
        self._line.begin(*self._standing())
        return self

    def __exit__(self, *_: object) -> None:
        """Take the sweep's line off the terminal."""
        self._line.clear()

    @property
    def left(self) -> int:
        """How many cells of the sweep have neither finished nor failed."""
        return self.total - self.there - self.done - self.failed

    @property
    def seconds(self) -> float:
        """The seconds since the sweep was begun or gone on with."""
        return self._clock() - self._begun

    def ended(self, title: str, seconds: float, fault: str | None) -> None:
        """Count a cell that has ended, say why if it failed, and draw the sweep's line anew."""
        self._busy += seconds
        if fault is None:
            self.done += 1
        else:
            self.failed += 1
            self._line.say(f"failed: {title}: {fault}")
        self._line.show(*self._standing(), at_once=not self.left)

    def waited(self) -> None:
        """Draw the sweep's line anew, as a while has passed without news."""
        self._line.show(*self._standing())

    def _standing(self) -> tuple[str, float, list[str]]:
        """What the sweep's line shows: cells done in words, their share, and facts, the most important first."""
        ended = self.done + self.failed
        facts = [f"{self.failed:,} failed"] if self.failed else []
        if ended and self.left:
            at_once = min(self._workers, self.left)
            facts.append(f"{self.left:,} left, {duration_words(self._busy / ended * self.left / at_once)}".ljust(20))
        return f"cell {self.total - self.left:{len(str(self.total))}}/{self.total}", 1 - self.left / self.total, facts


def sweep_table(result: Mapping[str, Any]) -> str:
    """What `fedpriv sweep` prints for people of the whole sweep, from what `swept_grid` says of it."""
    earlier = f", {result['already']:,} of them before" if result["already"] else ""
    failed = f", {result['failed']:,} failed" if result["failed"] else ""
    rows = [("cells", f"{result['finished']:,} of {result['cells']:,} finished{earlier}{failed}")]
    if trials := result.get("trials"):
        worse = f", {result['trials_failed']:,} failed" if result["trials_failed"] else ""
        rows.append(("trials", f"{trials:,} to choose settings by{worse}; {result['trained']:,} cells trained in all"))
    if result["workers"]:
        rows.append(("time", f"{duration_words(result['seconds'])}, {result['workers']} workers"))
    for each in result["added_up"]:
        cost = f"ε ≤ {rounded_up(each['epsilon'])} at δ = {short_number(each['delta'])}"
        rows.append(
            ("together", f"{each['cells']:,} cells, had each noise of its own: {cost}, not the best one's own ε")
        )
    if result["added_up"] and result["not_added"]:
        rows.append(("", f"beside {result['not_added']:,} that promise nothing or are not known to the end: no ε"))
    rows += [("directory", result["directory"]), ("", f"fedpriv report {quote(result['directory'])}")]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def selection_table(found: Mapping[str, Any]) -> str:
    """What `fedpriv sweep --private` prints for people of a choice, done or only priced."""
    low, high = rounded_down(found["epsilon"]["lower"]), rounded_up(found["epsilon"]["upper"])
    looked = "; ".join(f"{each['runs']:,} of them ε ≤ {rounded_up(each['epsilon'])}" for each in found["looking_at"])
    trials = f"{short_number(found['trials']['mean'])} trials on average (how many is secret)"
    rows = [
        ("choice", f"{found['name']}: the best of {trials}, each of one of {found['cells']:,} cells by lot"),
        ("it costs", f"ε ≤ {high} at δ = {short_number(found['delta'])}, certified; a witness reaches {low}"),
        ("", f"{found['unit']} level, {found['adjacency']} adjacency, {found['seen']}"),
        (
            "one trial",
            f"ε ≤ {rounded_up(found['own_epsilon'])}, the best cell's own, which is not what choosing it cost",
        ),
        ("beside it", f"to look at runs and take the best costs what they add up to: {looked}"),
    ]
    if found["left_out"]:
        rows.append(("left out", f"{', '.join(found['left_out'])}: nothing is chosen by that"))
    if "place" in found:
        place = ", ".join(f"{path} = {label}" for path, label in found["place"].items())
        rows += [("chosen", place), ("", reached_words(found)), ("directory", found["directory"])]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def reached_words(found: Mapping[str, Any]) -> str:
    """What the best trial of a private choice reached, in words for its table; or that all failed, and why that did."""
    if "failed" in found:
        return f"all trials failed: {found['failed']}"
    if found.get("accuracy") is None and found.get("r2") is None and found.get("evaluated"):
        return f"accuracy at least {share_words(found['evaluated']['low'])} by clients' answers"
    return " ".join(measured_words(found))
