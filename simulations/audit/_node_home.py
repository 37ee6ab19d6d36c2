"""A node's directory, which is read and never written; and the copy of it that is asked in its place.

The copy is named where the audit's own files go, is its owner's alone, and is removed at the end: it holds the key by
which the node deals its records, for the copy has to deal them as the node does.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clients.own_key import BYTES, DEALING
from clients.own_ledger import ANSWERS, FILE
from clients.policy import Policy, read
from fedpriv.errors import FedprivError
from fedpriv.study import Kind
from fedpriv.tables import toml

POLICY, LEDGER, DATA, NODE = "policy.toml", "ledger", "data", "node"
MEMORY, PREFIX = Path("/dev/shm"), "fedpriv-audit-"  # a file system in memory, where there is one


@dataclass(frozen=True)
class Home:
    """What whoever owns the node has laid down in its directory."""

    directory: Path
    policy: Policy
    table: dict[str, Any]  # the policy as it is written
    place: tuple[int, int]  # partition p of P, as its ledger has it
    key: bytes = field(repr=False)  # by which it deals its records

    @staticmethod
    def of(directory: Path) -> Home:
        """The node of a directory, or one line that says what is missing there."""
        policy, table = policy_of(directory)
        if policy.noise != "cryptographic":
            raise FedprivError(
                f"{directory / POLICY}: noise = {policy.noise!r}: who knows the study's seed can subtract it, so there "
                "is nothing to audit"
            )
        ledger = directory / policy.ledger
        return Home(directory, policy, table, _place(ledger / FILE), _key(ledger / DEALING))

    @property
    def ledger(self) -> Path:
        """Where its ledger and its keys are."""
        return self.directory / self.policy.ledger


def policy_of(directory: Path) -> tuple[Policy, dict[str, Any]]:
    """The policy in a directory, and the same as it is written."""
    file = directory / POLICY
    if not file.is_file():
        raise FedprivError(
            f"{directory}: there is no {POLICY} in it, so it is no node's directory: fedpriv deploy status names them"
        )
    policy = read(file)
    path = policy.data.settings.get("path") if policy.data else None
    if isinstance(path, str) and not Path(path).is_absolute():
        raise FedprivError(f"{file}: data.path = {path!r} means another place wherever a node starts: write it in full")
    return policy, tomllib.loads(file.read_text(encoding="utf-8-sig"))


def _place(file: Path) -> tuple[int, int]:
    """The partition that a ledger is of."""
    try:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        own, of = [line["place"] for line in lines if "place" in line][-1]
        return int(own), int(of)
    except OSError as error:
        why = "this node has no ledger yet" if isinstance(error, FileNotFoundError) else str(error.strerror)
        raise FedprivError(f"{file}: {why}: fedpriv deploy up makes it, and so does a node's first round") from None
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise FedprivError(f"{file}: damaged ledger ({error})") from None


def _key(file: Path) -> bytes:
    """The node's key; where it has none yet, one of this audit's, as any it makes will do."""
    try:
        return file.read_bytes() if file.exists() else os.urandom(BYTES)
    except OSError as error:
        raise FedprivError(f"{file}: cannot be read ({error.strerror})") from None


@dataclass(frozen=True)
class Copy:
    """A node that is asked in the place of another: the same policy and key, a ledger of its own."""

    home: Home
    directory: Path  # which is this audit's alone

    @property
    def config(self) -> dict[str, Any]:
        """What Flower would tell it."""
        own, of = self.home.place
        return {"policy": str(self.directory / POLICY), "partition-id": own, "num-partitions": of}

    @property
    def ledger(self) -> Path:
        """Where it is charged."""
        return self.directory / LEDGER

    def lay(self, data: Kind | None) -> None:
        """Write the policy, with these data in the place of its own; paths are the same whatever the data are.

        How long a round may take ends a process, and time is not audited.
        """
        table = {name: value for name, value in self.home.table.items() if name not in ("ledger", "longest_round")}
        if data is not None:
            settings = dict(data.settings)
            if data.kind == "Arrays":
                link = self.directory / DATA
                link.unlink(missing_ok=True)
                link.symlink_to(settings["path"])
                settings["path"] = str(link)
            table["data"] = {"kind": data.kind} | settings
        (self.directory / POLICY).write_text(toml(table), encoding="utf-8")

    def begin(self, *, as_it_stands: bool = False) -> None:
        """Empty the ledger, or put that of the node in its place; the key stays the node's."""
        shutil.rmtree(self.ledger, ignore_errors=True)
        self.ledger.mkdir(mode=0o700)
        (self.ledger / DEALING).write_bytes(self.home.key)
        if as_it_stands:
            _copied(self.home.ledger, self.ledger)


@contextmanager
def copied(home: Home, place: Path) -> Iterator[Copy]:
    """A copy that is gone afterwards, and so is what one that was killed has left.

    Every answer is on disk before it leaves, so a copy that is asked thousands of times stands in memory where it can.
    """
    _gone(place)
    place.mkdir(mode=0o700, parents=True)
    try:
        if os.access(MEMORY, os.W_OK | os.X_OK):
            (place / NODE).symlink_to(tempfile.mkdtemp(prefix=PREFIX, dir=MEMORY))
        else:
            (place / NODE).mkdir(mode=0o700)
        yield Copy(home, place / NODE)
    finally:
        _gone(place)


def _gone(place: Path) -> None:
    """Remove a copy, where it stands in memory too."""
    if (link := place / NODE).is_symlink() and (made := link.readlink()).match(f"{MEMORY}/{PREFIX}*"):
        shutil.rmtree(made, ignore_errors=True)
    shutil.rmtree(place, ignore_errors=True)


def _copied(source: Path, target: Path) -> None:
    """A ledger and its answers, as they are while the node itself is at neither: a lock leaves nothing on disk."""
    try:
        lock = os.open(source, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            shutil.copyfile(source / FILE, target / FILE)
            if (source / ANSWERS).is_dir():
                shutil.copytree(source / ANSWERS, target / ANSWERS, copy_function=shutil.copyfile)
                (target / ANSWERS).chmod(0o700)  # whatever the node's is
        finally:
            os.close(lock)
    except (OSError, shutil.Error) as error:
        raise FedprivError(f"{source}: cannot be copied ({getattr(error, 'strerror', None) or error})") from None
