"""The ledger of a run, on disk before anything is asked of anybody: a crash may waste budget, never hide a release.

Each line is one round's charge. What a client has given away is counted from these lines alone. A round asked again
draws the same noise from the same seed, and its messages are the same bits: it is one release. It is refused where they
may be others, by another model, code, library or device: two messages under one noise give away what nothing was
charged for. Noise that cannot be drawn again makes every time of asking another release.
"""

from __future__ import annotations

import json
import re
import secrets
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from clients.flower.code import code_identity
from clients.models.devices import device_named
from fedpriv._base.arrays import Numbers, Vector
from fedpriv._base.digests import object_digest
from fedpriv._base.loading import loaded_object
from fedpriv.errors import FedprivError
from fedpriv.given import MODULE
from fedpriv.records import Writer
from fedpriv.studies import file as study_file
from fedpriv.studies import identity
from fedpriv.studies.spending import Given, charged_clients, given_in_round, given_row
from fedpriv.studies.study import Study

FILE = "ledger.jsonl"
FORMAT = 1  # of its lines
Asked = tuple[int, str]  # a round, and what its evaluation asks about (`asked_about`); "" of messages


class Journal:
    """Which clients were asked for a message, and how often."""

    def __init__(
        self, directory: Path, study: Study, release: dict[str, Any] | None, beside: list[dict[str, Any]] | None = None
    ) -> None:
        """Open a run's ledger, its charges read back, or begin one; refused where it is another study's."""
        self._study = study
        self._path = directory / FILE
        self._charges: dict[Asked, list[Numbers | None]] = {}  # None: all whom the round asks
        self._released: dict[int, str] = {}  # of a curator's rounds: a digest of what was added up
        self._made: dict[Asked, str] = {}  # a digest of what decides the bits; "" where an earlier version asked
        self._counts = np.zeros((len(Given._fields), study.clients.count), np.int64)  # a row for each that is given
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
                if "released" in line:
                    self._released[int(line["round"])] = str(line["released"])
                    continue
                own, asked = line["clients"], (int(line["round"]), str(line.get("model", "")))
                self._count(asked, None if own is None else np.array(own, np.int64))
                self._made[asked] = str(line.get("made", ""))
        except FedprivError:
            raise
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise FedprivError(f"{self._path}: damaged ledger ({error})") from None

    def charge(self, round: int, clients: Numbers, again: bool, model: str, evaluates: bool = False) -> None:
        """Write into a run's ledger, durably, that a round is about to ask these clients; `again`: once more.

        `model` is the digest of the one that they are asked with, or where the round `evaluates` what it asks about:
        that digest, or labels. What has asked already is refused where it may not be the same bits under one noise.
        """
        asked, made = (round, model if evaluates else ""), f"{model}{self._maker}"
        if self.paid(*asked):
            if self._made[asked] == made:
                return
            raise FedprivError(
                f"{self._path}: round {round} has asked already, by another model, code, library or device: other "
                "messages under the same noise would tell more than is charged. Go on with what it was begun with, or "
                "begin another run (--out); one with privacy.noise = 'cryptographic' can ask again"
            )
        own = clients if again or ":" in self._study.clients.participation.kind else None  # whose code may change
        named = None if own is None else own.tolist()
        self._lines.append(
            {"round": round, "clients": named, **({"model": model} if evaluates else {}), "made": made}, durable=True
        )
        self._made[asked] = made
        self._count(asked, own)

    def release(self, round: int, who: Numbers, settings: Vector) -> None:
        """Write into a run's ledger, durably, whose messages a curator's noise is about to be drawn for.

        Refused where it was drawn for others: two sums of one round under one noise show how they differ.
        """
        digest = blake2b(np.sort(who).tobytes() + b"\0" + settings.tobytes(), digest_size=8).hexdigest()
        if round not in self._released:
            self._lines.append({"round": round, "released": digest}, durable=True)
            self._released[round] = digest
        elif self._released[round] != digest:
            raise FedprivError(
                f"{self._path}: round {round} was given out already, of other clients' messages: a second sum under "
                "the same noise would show how they differ. It goes on where the same clients answer; or begin another "
                "run (--out)"
            )

    def paid(self, round: int, model: str = "") -> bool:
        """Whether asking in that round costs nothing more: it is charged, and the seed draws the same noise again."""
        return (round, model) in self._charges and self._study.privacy.noise != "cryptographic"

    def given(self, last: int | None = None) -> Numbers:
        """How many messages, answers and labels each client of a run has given, a row each: in all, or up to `last`."""
        found = self._counts.copy()
        later = [] if last is None else [asked for asked in self._charges if asked[0] > last]
        for asked in later:
            for charge in self._charges[asked]:
                found[given_row(asked[1]), self._asked(asked[0]) if charge is None else charge] -= 1
        return found

    def check(self, last: int) -> None:
        """Refuse a run's ledger that has lost a round: what was asked up to `last` must be in it."""
        asked = {(round, given_row(about)) for round, about in self._charges}
        most = len(Given._fields) if self._study.privacy.budget is None else 1  # it may have paid for no evaluation
        lost = [
            round
            for round in range(1, last + 1)
            if any(
                own and (round, row) not in asked for row, own in enumerate(given_in_round(self._study, round)[:most])
            )
            and self._asked(round).size
        ]
        if lost:
            raise FedprivError(f"{self._path}: lacks round {lost[0]}, which was asked: the ledger was cut or replaced")

    @cached_property
    def _maker(self) -> str:
        """A digest of all besides the model that decides a run's messages: own classes, our code, libraries, device."""
        training = self._study.training
        named = sorted(set(re.findall(r'\b(?:kind|path) = "([\w.]+:[\w.]+)"', study_file.study_text(self._study))))
        own = [each if each.startswith(f"{MODULE}:") else object_digest(loaded_object(each)) for each in named]
        if None in own:  # nothing tells its code from another
            return secrets.token_hex(8)
        libraries = [(name, version(name)) for name in ("torch", "numpy")]
        words = repr((named, own, code_identity(), libraries, str(device_named(training.device))))
        return blake2b(words.encode(), digest_size=8).hexdigest()

    def close(self) -> None:
        """Write no more into the run's ledger."""
        self._lines.close()

    def _count(self, asked: Asked, clients: Numbers | None) -> None:
        """Count one more message, or answer, of each of these clients in the run; None: of all whom the round asks."""
        self._charges.setdefault(asked, []).append(clients)
        self._counts[given_row(asked[1]), self._asked(asked[0]) if clients is None else clients] += 1

    def _asked(self, round: int) -> Numbers:
        """The clients that a round is charged to, by the study's schedule."""
        return charged_clients(self._study, round)
