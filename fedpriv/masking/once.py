"""A state is used once: how far each session of a node has come, on the node's own disk, whatever keeps the state.

Flower hands a state to a process and takes it back; it might hand an old one out again, or lose what was written while
a process died. So each phase is written down, durably and under a lock, before anything is done with the state: a
session that has come past it, or that another has replaced, goes no further. A session is a number drawn when keys are
made; what it promises is in the member's state, and no key is on the disk.

A study's run has one session at a time, and only the latest runs are remembered: what is forgotten goes no further.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fedpriv._base.files import replace_file, sync_directory
from fedpriv.errors import FedprivError

FOLDER = "sessions"  # beside the ledger
FILE = "sessions.json"  # in it
KEPT = 64  # runs whose sessions may still go on
Marks = dict[str, dict[str, Any]]  # by run; the latest last


def _read_marks(file: Path) -> Marks:
    """How far each run's masked sums have come, from a node's file; none where it is missing, refused where damaged."""
    try:
        marks: Marks = json.loads(file.read_bytes()) if file.exists() else {}
        kinds = {"session": str, "stage": int, "named": str}
        if any({name: type(value) for name, value in mark.items()} != kinds for mark in marks.values()):
            raise ValueError("a mark is none")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise FedprivError(f"{file}: damaged ({error}): no masked sum is gone on with; remove it") from None
    return marks


@dataclass(frozen=True)
class Marker:
    """The marker of one run of a study, in a directory beside the node's ledger."""

    folder: Path
    run: str  # a hash of the study and of which run of it this is

    @staticmethod
    def of(ledger: Path, study: str, run: str) -> Marker:
        """The marker, beside a node's ledger, of a run of a study, which is given in the words of its identity."""
        return Marker(ledger / FOLDER, blake2b(f"{run}\0{study}".encode(), digest_size=16).hexdigest())

    def begin(self, session: bytes) -> None:
        """Mark the run's new session of a masked sum in the place of its last, which goes no further."""
        with self._marks() as marks:
            marks.pop(self.run, None)
            marks[self.run] = {"session": session.hex(), "stage": 0, "named": ""}

    def advance(self, session: bytes, stage: int, named: bytes = b"") -> bytes:
        """Mark a masking session as at a phase, once, or refuse; what it signed before. `named`: what it signs now."""
        with self._marks() as marks:
            own = marks.get(self.run)
            if own is None or own["session"] != session.hex() or not own["stage"] < stage:
                raise FedprivError("masking: this node has been through that phase, or a newer session has begun")
            before = bytes.fromhex(own["named"])
            own |= {"stage": stage, "named": (before or named).hex()}
            return before

    @contextmanager
    def _marks(self) -> Iterator[Marks]:
        """A context with all marks of a node, under a lock; what becomes of them is on disk before any answer."""
        with locked_directory(self.folder):
            file = self.folder / FILE
            marks = _read_marks(file)
            yield marks
            latest = dict(list(marks.items())[-KEPT:])
            try:
                replace_file(file, json.dumps(latest).encode())
                sync_directory(self.folder)
            except OSError as error:
                raise FedprivError(f"{self.folder}: the session cannot be kept there ({error.strerror})") from None


@contextmanager
def locked_directory(folder: Path, kept: str = "session") -> Iterator[None]:
    """A context in which a node's marks, or another ledger, are this process's alone; whoever wants them waits."""
    with opened_lock(folder, kept) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def opened_lock(folder: Path, kept: str) -> Iterator[int]:
    """A ledger's or marks' directory, this user's alone, as a file to lock; `kept` is an error's word for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise FedprivError(f"{folder}: the {kept} cannot be kept there ({error.strerror})") from None
    try:
        yield found
    finally:
        with suppress(OSError):  # a child that was forked meanwhile has the file too, and would keep the lock
            fcntl.flock(found, fcntl.LOCK_UN)
        os.close(found)
