"""A client's own ledger, on its own disk: charged durably before anything is released, and the answers it gave.

A line is one message: of which study, in which round, of which clients, in answer to what. A message that is asked for
again is not drawn again: the stored one is sent. Nothing in it depends on a clock.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, assert_never

from fedpriv._base.files import replace_file, sync_directory
from fedpriv.accounting.event import Event, event_as_data, event_of
from fedpriv.accounting.ledger import Ledger
from fedpriv.errors import FedprivError
from fedpriv.masking import once
from fedpriv.node.asks import Ask
from fedpriv.node.shares import Shares
from fedpriv.records import Writer, record_bytes
from fedpriv.trust import Central, Local, Sums, Unit

FILE = "ledger.jsonl"
ANSWERS = "answers"  # a directory beside it
OLDEST = 1  # the oldest format of a ledger that is read
FORMAT = 2  # the one that is written
KEPT = 64  # answers that are still there to be sent again
WAITS = 10.0  # seconds for another message of the same client to be done with
REMEDY = "another run needs another name or seed, or reruns = true in this client's policy"  # of a deployed node


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One message, and what it gives away."""

    ask: Ask
    events: tuple[Event, ...]
    shares: Shares  # which way records are divided among the clients that were asked
    kept: str | None = None  # the name of what is released once, in however many messages it is used

    def line(self) -> dict[str, Any]:
        """The charge as a line of a node's ledger has it: ask, division of records, events."""
        own = self.ask.line() | {"shares": self.shares.line()}
        return own | {"kept": self.kept, "events": [event_as_data(event) for event in self.events]}

    @staticmethod
    def of_line(line: Mapping[str, Any]) -> Charge:
        """The charge that a node's ledger has in a line, of this format or of the one before."""
        events = line["events"] if "events" in line else line["releases"] if "kept" in line else [line["release"]]
        ask = Ask.of_line(line)
        shares = Shares.of_line(line.get("shares"), ask.study)
        return Charge(ask=ask, events=_events_of(json.dumps(events)), shares=shares, kept=line.get("kept"))


@lru_cache
def _events_of(text: str) -> tuple[Event, ...]:
    """The events of a charge, of their JSON: made once, for most lines of a ledger are of the same ones."""
    return tuple(map(event_of, json.loads(text)))


class OwnLedger:
    """The ledger of one node's clients, in a directory that `opened_ledger` keeps to one process at a time."""

    def __init__(self, folder: Path, place: Sequence[int]) -> None:
        """Open a node's ledger, of partition p of P, begun where there is none; a last line cut short is mended."""
        self._folder, self._path = folder, folder / FILE
        self._charges: list[Charge] = []
        # A kill leaves behind half a line at the end, of a charge whose answer was not drawn. All else is refused.
        try:
            content = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise FedprivError(f"{self._path}: cannot be read ({error.strerror}): a ledger is a file") from None
        _, newline, rest = content.rpartition(b"\n")
        if not newline and (any((self._folder / ANSWERS).glob("*")) or not record_bytes(_head(place)).startswith(rest)):
            raise FedprivError(f"{self._path}: damaged ledger (its beginning is gone): nothing is released without it")
        with suppress(ValueError):  # a line that lacks its end alone is a charge
            if rest and json.loads(rest):
                with self._path.open("ab") as file:
                    file.write(b"\n")
        self._lines = Writer(self._path)
        if self._path.stat().st_size:
            self._read(place)
        else:
            self._append(_head(place))
            sync_directory(folder)

    def events(self, new: Charge | None = None, unit: Unit = "client") -> tuple[Event, ...]:
        """All that a node has released, and one more charge where given: `charged_events` of its ledger."""
        return charged_events([*self._charges, *([] if new is None else [new])], unit)

    def alike(self, new: Charge) -> bool:
        """Whether all a node's messages, this one too, were of the same events: nothing was chosen but their number."""
        return all((charge.events, charge.kept) == (new.events, new.kept) for charge in self._charges)

    def has(self, kept: str | None) -> bool:
        """Whether a node's ledger has charged what is kept under that name: using it again costs nothing."""
        return kept is not None and any(charge.kept == kept for charge in self._charges)

    def asked(self, study: str) -> int:
        """How many messages of a study, as asks name it, a node's ledger has been charged for."""
        return sum(charge.ask.study == study for charge in self._charges)

    def stored(self, ask: Ask, remedy: str = REMEDY) -> bytes | None:
        """A node's answer given before; None where there was none. Refused where the round was answered otherwise.

        `remedy` is that refusal's end: what would be answered. A charge without an answer is of a crash between the
        two: nothing has left, so it may be asked for anew.
        """
        answer = self._folder / ANSWERS / ask.file
        if kept := _content(answer):
            return kept
        for place, was in enumerate(charge.ask for charge in self._charges):
            if not was.overlaps(ask):
                continue
            # an answer may have left if it is kept, or so old that it no longer is
            if place < len(self._charges) - KEPT or _content(self._folder / ANSWERS / was.file):
                other = was.digest != ask.digest
                why = "to another model or with other clients" if other else "and the answer is no longer kept"
                raise FedprivError(f"round {ask.round} was answered already, {why}: {remedy}")
        return None

    def charge(self, new: Charge) -> None:
        """Write into a node's ledger, durably, that this is about to be released."""
        self._append(new.line())
        self._charges.append(new)

    def store(self, ask: Ask, answer: bytes, durable: bool = True) -> None:
        """Keep a node's answer on disk before it leaves, to be sent again: what cannot be kept is not sent.

        One that is not durable may be gone after a power cut; asked for again it is then drawn, and charged, anew.
        """
        folder = self._folder / ANSWERS
        try:
            folder.mkdir(exist_ok=True, mode=0o700)
            replace_file(folder / ask.file, answer, durable=durable)
            if durable:
                sync_directory(folder)
            oldest = {charge.ask.file for charge in self._charges[-KEPT - 1 : -KEPT]}
            for old in oldest - {charge.ask.file for charge in self._charges[-KEPT:]}:
                (folder / old).unlink(missing_ok=True)
        except OSError as error:
            raise FedprivError(f"{folder}: the answer cannot be kept ({error.strerror}), so it is not sent") from None

    def close(self) -> None:
        """Write no more into a node's ledger."""
        self._lines.close()

    def _append(self, line: dict[str, Any]) -> None:
        """Write one line into a node's ledger: on disk when this returns."""
        self._lines.append(line, durable=True)

    def _read(self, place: Sequence[int]) -> None:
        """Take in the charges of a node's ledger file; refused where it is damaged, or is another partition's."""
        was, charges = read_charges(self._path)
        self._charges += charges
        if was[1] == place[1] and was[0] != place[0]:  # a node keeps its partition, unless all are numbered anew
            raise FedprivError(
                f"{self._path}: is the ledger of partition {was[0]} of {was[1]}, and this node is partition "
                f"{place[0]}: each needs a policy and a ledger of its own"
            )
        if was != list(place):
            self._append({"place": list(place)})


def _content(answer: Path) -> bytes:
    """What is kept of an answer: nothing where there is no file, or one that a power cut has left empty."""
    return answer.read_bytes() if answer.exists() else b""


def read_charges(path: Path) -> tuple[list[int], list[Charge]]:
    """The partition that a node's ledger file is of, as its last line on that says, and all charges in it.

    Of a file that was begun and has no line, neither.
    """
    try:
        *whole, rest = path.read_text(encoding="utf-8").split("\n")
        with suppress(ValueError):  # a line that lacks its end alone is a charge; half a line is a kill's
            whole += [rest] if rest and json.loads(rest) else []
        if not whole and not any((path.parent / ANSWERS).glob("*")):
            return [], []  # killed as it was begun
        head, *lines = map(json.loads, whole)
        if type(head["format"]) is not int or not OLDEST <= head["format"] <= FORMAT:
            raise FedprivError(f"format {head['format']!r}, where this version reads {OLDEST} to {FORMAT}")
        places = [head, *(line for line in lines if "place" in line)]
        charges = [Charge.of_line(line) for line in lines if "place" not in line]
        return [int(each) for each in places[-1]["place"]], charges
    except (OSError, ValueError, KeyError, TypeError, AttributeError, MemoryError, RecursionError) as error:
        raise FedprivError(f"{path}: damaged ledger ({error}): nothing is released without it") from None


def charged_events(charges: Sequence[Charge], unit: Unit = "client") -> tuple[Event, ...]:
    """All that a node's charges have released, as events that count for one `unit`'s budget.

    Of each study what its worst client has, composed as if that were always the same one: no server's numbering
    of clients can make it less. What is kept is released once, whichever studies ask for it.

    Whose budget it is may be at several clients of one study (`_apart`): a *client* where studies divide its data
    in different ways, for then its records may be at all clients of another study; a *record* where neighbours
    have another in its place, which is at another client. Then the messages of all those clients are about it, and
    are composed: between two neighbours each of them changes as much as one client's message may. That they are in
    one sum would not be one change of it, but as many. So they count as if each were seen, which tells more.
    """
    apart = _apart(charges, unit)
    together = Ledger()  # in which what is alike is one event of more rounds
    for each, own, kept in _counted(charges):
        times, seen = max(own.values()), each
        if apart and not kept and (each.unit == "client" or not each.of_sum):  # a message, no sum of its records
            times = sum(count for _, count in own.most_common(None if unit == "client" else 2))
            seen = event_alone(each)
        together = together.add(replace(seen, rounds=each.rounds * times))
    return together.events


def _apart(charges: Sequence[Charge], unit: Unit) -> bool:
    """Whether messages of several clients of one study may be about one unit, so that a node's ledger adds them up.

    A record that is kept is so in the place of another (`fedpriv.releases.kept`), and so are most that the batch of a
    message hides; with them in one ledger all that the other messages tell is costed for such neighbours. Dealt by
    content, one client then has a record less and another one a record more. For sums of records that is no more than
    both at one client: with u, v ≤ clip the pair of the two messages is that of one message of twice as many
    coordinates, which sums (u, 0) in the one case and (0, v) in the other. What a record does to a client's message is
    no such sum: both messages are about it.
    """
    if unit == "client":
        return len({charge.shares.name for charge in charges}) > 1
    replaced = any(
        charge.kept or any((each.unit, each.adjacency) == ("record", "replace") for each in charge.events)
        for charge in charges
    )
    return replaced and any(charge.shares.moves for charge in charges)


def event_alone(event: Event) -> Event:
    """A message in a sum as if it were seen by itself, which tells more: how a node's ledger may have to count it."""
    match event.trust:
        case Sums():
            return replace(event, trust=Local())
        case Local() | Central():
            return event
        case _ as never:
            assert_never(never)


def _counted(charges: Sequence[Charge]) -> Iterator[tuple[Event, Counter[int], bool]]:
    """Each event of a study in a node's ledger, how often each client is charged for it, and whether it is kept."""
    counts: dict[tuple[str, str, int, Event, bool], Counter[int]] = {}
    for charge in charges:
        for place, event in enumerate(charge.events):
            name = charge.kept or charge.ask.study
            key = (name, "" if charge.kept else charge.shares.name, place, event, charge.kept is not None)
            own = counts.setdefault(key, Counter())
            for client in (charge.ask.clients - charge.shares.first).tolist():
                own[client] = 1 if charge.kept else own[client] + 1
    for (_, _, _, event, kept), own in counts.items():
        yield event, own, kept


def _head(place: Sequence[int]) -> dict[str, Any]:
    """The first line of a node's ledger: its format, and the partition whose it is."""
    return {"format": FORMAT, "kind": "client's ledger", "place": list(place)}


def _take_lock(lock: int, folder: Path, until: float) -> None:
    """Wait so long for the lock of a node's ledger, which another message may hold, and refuse to go on without it."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise FedprivError(
                    f"{folder}: the ledger is in use by another process: two clients cannot share one"
                ) from None
            time.sleep(0.02)
        except OSError as error:
            raise FedprivError(
                f"{folder}: cannot be locked ({error.strerror}): keep the ledger on a local disk"
            ) from None


@contextmanager
def opened_ledger(folder: Path, place: Sequence[int], waits: float = WAITS) -> Iterator[OwnLedger]:
    """A context with a node's ledger for this process alone, in which one message is charged and answered."""
    with once.opened_lock(folder, "ledger") as lock:
        _take_lock(lock, folder, time.monotonic() + waits)
        with closing(OwnLedger(folder, place)) as ledger:
            yield ledger
