"""Who listens to a run: what is called with each round's line of the records once that is on disk, and the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedpriv._base.spelling import rounded_up
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.records import Line, parsed_line, record_bytes
from server.progress.words import share_words

OnRound = Callable[[Line], object]  # what is true ends the run there, and it can go on

LOG = logging.getLogger("fedpriv")  # whoever embeds this decides what becomes of it
LOG.addHandler(logging.NullHandler())
ROUNDS = LOG.getChild("rounds")


def tell_round(on_round: OnRound, line: Mapping[str, Any], directory: Path) -> bool:
    """Call a run's listener with a round's line as reading it back gives it; whether it wants the run to end there."""
    try:
        return bool(on_round(parsed_line(record_bytes(line))))
    except FAULTS as error:
        raise FedprivError(
            f"on_round failed in round {line['round']} ({reason(error)}): what was done so far is whole, and "
            f"--resume {directory} goes on"
        ) from error


def logged_rounds(on_round: OnRound | None, rounds: int) -> OnRound:
    """A run's listener that also logs each round under "fedpriv.rounds": a skipped one as a warning, others as info."""

    if not (on_round is None or callable(on_round)):
        raise FedprivError(f"on_round is called with each round's line: it must be a function, got {on_round!r}"[:200])

    def log_round(line: Line) -> object:
        """Log one round of a run, and tell whoever else listens."""
        words = f"round {line['round']}/{rounds}"
        if line["accuracy"] is not None:
            words += f"  accuracy {share_words(line['accuracy'])}"
        if line["epsilon"] is not None:
            words += f"  ε ≤ {rounded_up(line['epsilon']['upper'])}"
        if line["skipped"]:
            ROUNDS.warning("%s skipped: %s", words, line["skipped"])
        else:
            ROUNDS.info("%s", words)
        return None if on_round is None else on_round(line)

    return log_round
