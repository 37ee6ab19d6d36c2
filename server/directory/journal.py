"""The ledger of a run, on disk before anything is asked of anybody: a crash may waste budget, never hide a release.

Each line is one round's charge. What a client has given away is counted from these lines alone. A round asked again
draws the same noise from the same seed, and its messages are the same bits: it is one release. Noise that cannot be
drawn again makes every time of asking another release.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError
from fedpriv.records import Writer
from fedpriv.studies import identity
from fedpriv.studies.study import Study

FILE = "ledger.jsonl"
FORMAT = 1  # of its lines
Asked = tuple[int, str]  # a round, and the digest of the model that its evaluation is about; "" of messages


class Journal:
    """Which clients were asked for a message, and how often."""

    def __init__(
        self, directory: Path, study: Study, release: dict[str, Any] | None, beside: list[dict[str, Any]] | None = None
    ) -> None:
        """Open a run's ledger, its charges read back, or begin one; refused where it is another study's."""
        self._study = study
        self._path = directory / FILE
        self._charges: dict[Asked, list[Numbers | None]] = {}  # None: all whom the round asks
        self._counts = {asks: np.zeros(study.clients.count, np.int64) for asks in (False, True)}  # True: of answers
        known = self._path.exists()
        self._lines = Writer(self._path)
        if not (known and self._path.stat().st_size):
            head = {"format": FORMAT, "kind": "ledger", "study": study.id.hex(), "study_format": identity.FORMAT,
                    "release": release, **({"beside": beside} if beside else {})}  # fmt: skip
            self._lines.append(head, durable=True)
            return
        first, *lines = self._path.read_text(encoding="utf-8").splitlines()
        try:
            about = json.loads(first)
            if about["study"] != study.id.hex():
                raise FedprivError(
                    f"{self._path}: is the ledger of {identity.whose_study(about.get('study_format', 0))}"
                )
            for line in map(json.loads, lines):
                own, asked = line["clients"], (int(line["round"]), str(line.get("model", "")))
                self._count(asked, None if own is None else np.array(own, np.int64))
        except FedprivError:
            raise
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise FedprivError(f"{self._path}: damaged ledger ({error})") from None

    def charge(self, round: int, clients: Numbers, again: bool, model: str = "") -> None:
        """Write into a run's ledger, durably, that a round is about to ask these clients; `again`: once more.

        `model` is the digest of the one that they are asked about in an evaluation; of messages there is none.
        """
        if self.paid(round, model):
            return
        told = {"model": model} if model else {}
        self._lines.append({"round": round, "clients": clients.tolist() if again else None} | told, durable=True)
        self._count((round, model), clients if again else None)

    def paid(self, round: int, model: str = "") -> bool:
        """Whether asking in that round costs nothing more: it is charged, and the seed draws the same noise again."""
        return (round, model) in self._charges and self._study.privacy.noise != "cryptographic"

    def given(self, last: int | None = None) -> tuple[Numbers, Numbers]:
        """How many messages, and answers, each client of a run has given, for its ε: in all, or up to round `last`."""
        found = {asks: counts.copy() for asks, counts in self._counts.items()}
        later = [] if last is None else [asked for asked in self._charges if asked[0] > last]
        for asked in later:
            for charge in self._charges[asked]:
                found[bool(asked[1])][self._asked(asked[0]) if charge is None else charge] -= 1
        return found[False], found[True]

    def check(self, last: int) -> None:
        """Refuse a run's ledger that has lost a round: what was asked up to `last` must be in it."""
        own, rounds = self._study.evaluation, self._study.run.rounds
        asked = self._charges.keys()
        about = {round for round, model in asked if model}
        answered = own is not None and self._study.privacy.budget is None  # which may have paid for no evaluation
        lost = [
            round
            for round in range(1, last + 1)
            if ((round, "") not in asked or (answered and own and own.due(round, rounds) and round not in about))
            and self._asked(round).size
        ]
        if lost:
            raise FedprivError(f"{self._path}: lacks round {lost[0]}, which was asked: the ledger was cut or replaced")

    def close(self) -> None:
        """Write no more into the run's ledger."""
        self._lines.close()

    def _count(self, asked: Asked, clients: Numbers | None) -> None:
        """Count one more message, or answer, of each of these clients in the run; None: of all whom the round asks."""
        self._charges.setdefault(asked, []).append(clients)
        self._counts[bool(asked[1])][self._asked(asked[0]) if clients is None else clients] += 1

    def _asked(self, round: int) -> Numbers:
        """The clients that a round asks, by the study's schedule."""
        own = self._study.clients
        return own.schedule.asked(own.count, self._study.run.seed, round)
