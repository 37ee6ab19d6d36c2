"""What a person sees of a run: while it goes one line that is drawn anew, and at its end a table."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from statistics import median
from typing import Any, Self, TextIO

from fedpriv._base.spelling import rounded_down, rounded_up, short_number
from fedpriv.trust import sums_only
from server.progress.accuracy_words import accuracy_rows, labels_rows
from server.progress.live_line import LiveLine
from server.progress.words import (
    ASSUMED_HERE,
    MASKED_HERE,
    NOT_TRIED,
    SECRET,
    bytes_words,
    duration_words,
    epsilons_in_words,
    finding_words,
    measured_words,
    share_words,
    tally_words,
    unit_and_trust,
    units_in_words,
    word_of_author,
)

REMEMBERED = 20  # rounds whose pace counts


class Progress:
    """The line of a run on standard error, kept to the width of the terminal; elsewhere a plain line now and then."""

    def __init__(
        self,
        total_rounds: int,
        clients: int,
        quiet: bool,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        shown: Sequence[str] = ("epsilon",),
    ) -> None:
        self.total = total_rounds
        self.clients = clients
        self._line = LiveLine(quiet, stream, clock)
        self._round = 0
        self._measured = ""  # of the held-out records, in words
        self._shown = shown  # of what is given away
        self._spent: list[str] = []  # that, in words
        self._tolerance: float | None = None
        self._rejected = self._failed = 0
        self._noted = False  # whether a reason was shown
        self._paces: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)  # seconds of a round, and who answered

    def __enter__(self) -> Self:
        """Draw a run's line for the first time, before its first round."""
        self._line.begin(*self._standing())
        return self

    def __exit__(self, *_: object) -> None:
        """Take a run's line off the screen, however the run has ended."""
        self._line.clear()

    def update(self, line: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
        """Take one round (its line of the records, its seconds) into the run's line on the screen."""
        self._round = line["round"]
        self._paces.append((float(timing["seconds"]), line.get("answered", 0)))
        self._rejected += sum(line.get("rejected", {}).values())
        self._failed += sum(line.get("failed", {}).values())
        for measured in (line, line.get("evaluated") or {}):  # on held-out records, else by clients' answers
            if measured.get("accuracy") is not None or measured.get("r2") is not None:
                self._measured = " ".join(measured_words(measured))
                if (success := measured.get("backdoor")) is not None:
                    self._measured += f", backdoor {share_words(success)}"
                break
        if line.get("tolerance") is not None:
            self._tolerance = line["tolerance"]
        if line["epsilon"] is not None:
            self._spent = [spent_words(name, line[name]) for name in self._shown if line.get(name) is not None]
        note = line.get("note")
        if note and not self._noted:
            self._noted = True
            self._line.say(f"round {line['round']}, the first that failed: {note}")
        if line["skipped"]:
            self._line.say(f"round {line['round']} skipped: {line['skipped']}")
        self._line.show(*self._standing(), at_once=self._round >= self.total)

    def _standing(self) -> tuple[str, float, list[str]]:
        """What a run's line shows: what is done, in words and as a share, and facts, the most important first.

        Facts that change are of one width, so that the bar stands still.
        """
        facts = [self._measured] * bool(self._measured) + self._spent
        if self._tolerance is not None:
            facts.append(f"tolerance covers {self._tolerance:.0%} of votes".ljust(30))
        typical = median(seconds for seconds, _ in self._paces) if self._paces else 0.0  # the first may be slow
        if self._paces and self._round < self.total:
            facts.append(f"{duration_words(typical * (self.total - self._round))} left".ljust(11))
        wrong = ((self._rejected, "rejected"), (self._failed, "failed"))
        facts += [f"{count:,} {how}" for count, how in wrong if count]
        if typical > 0:
            pace = median(answered for _, answered in self._paces) / typical
            facts += [f"{pace:,.0f} clients/s".rjust(16)] * (pace > 0)
        counted = f"round {self._round:{len(str(self.total))}}/{self.total}"
        return counted, self._round / max(1, self.total), facts


def spent_words(name: str, value: Mapping[str, Any]) -> str:
    """One measure of what is given away, short and of one width: ε, μ, or β where one attack in a thousand is wrong.

    >>> spent_words("epsilon", {"upper": 3.95222}), spent_words("beta", {"0.001": {"lower": 0.98486}})
    ('ε ≤ 3.953 ', 'β(0.001) ≥ 0.9848')
    """
    if name == "beta":
        return f"β(0.001) ≥ {rounded_down(value['0.001']['lower']):<6}"
    return f"{'ε' if name == 'epsilon' else 'μ'} ≤ {rounded_up(value['upper']):<6}"


def early_words(done: Mapping[str, Any] | None) -> list[str]:
    """What a run's ε is of that ended early, in two rows of its tables: all rounds planned, and those done alone.

    >>> early_words(None), early_words({"epsilon": {"lower": 1.04, "upper": 1.04321}})[1:]
    ([], ['of those done ε at most 1.044, at least 1.04, if nothing that was sent had a part in when it ended'])
    """
    if done is None:
        return []
    upper, lower = rounded_up(done["epsilon"]["upper"]), rounded_down(done["epsilon"]["lower"])
    return [
        "of all rounds planned: when it ended may tell of what was sent",
        f"of those done ε at most {upper}, at least {lower}, if nothing that was sent had a part in when it ended",
    ]


def result_table(result: Mapping[str, Any]) -> str:
    """A finished run's result.json as the table that `fedpriv run` prints: accuracy, ε, bytes, failures."""
    cost, delta, clients = result["epsilon"], short_number(result["delta"]), max(1, result["clients"])
    private = cost is not None and result["adjacency"] is not None
    rows = accuracy_rows(result, result.get("accuracy_is", ""), result.get("evaluated"))
    rows += labels_rows(result.get("labels"))
    rows.append(("rounds", f"{result['rounds']:,}, {result['why']}"))
    if still := result.get("still"):
        rows.append(("", f"in {still:,} of them the direction was 0 in every coordinate: the model did not move"))
    if private:
        sides = f"ε at most {rounded_up(cost['upper'])}, at least {rounded_down(cost['lower'])}"
        rows.append(("privacy", f"{sides}, at δ = {delta}"))
        rows.append(("", unit_and_trust(result["trust"], result["unit"], result["adjacency"]) + ", the worst client"))
        rows += [("", said) for said in early_words(result.get("of_rounds_done"))]
        rows += units_in_words(result.get("units"), result["unit"])
        rows += [("", word_of_author(result["by_word_of"]))] if "by_word_of" in result else []
        rows += [("", said) for said in [finding_words(result.get("beta"), result["unit"])] if said]
        rows += [("", MASKED_HERE if result.get("masked") else ASSUMED_HERE)] * sums_only(result["trust"])
    else:
        rows.append(("privacy", "none: updates were sent as they are"))
    if result.get("not_tried"):
        rows.insert(1, ("attack", f"{NOT_TRIED}: {result['not_tried']}"))
    if "epsilons" in result:
        rows += zip(("records kept", ""), epsilons_in_words(result["epsilons"]), strict=True)
    if result.get("left_out"):
        rows.append(("left out", result["left_out"]))
    if result.get("tolerance") is not None:
        who = result.get("judged", "omniscient")
        kinds = {"omniscient": "attackers voting against it", "blind": "blind attackers"}
        attackers = f"all {result['byzantine']:,} {kinds.get(who, f'attackers {who}')}"
        rows.append(("tolerance", f"{result['tolerance']:.0%} of coordinates' votes survive {attackers} (estimate)"))
    sent = result.get("bytes_up")
    sent_words = SECRET if sent is None else f"{bytes_words(sent / clients)} a client, {bytes_words(sent)} in all"
    rows += [
        ("sent", sent_words),
        *((name, tally_words(result[name])) for name in ("rejected", "failed") if name in result),
        ("time", duration_words(result["seconds"])),
        ("directory", str(result["directory"])),
        ("", f"fedpriv report {quote(str(result['directory']))}"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)
