"""A node's directory, which is read and never written; and the copy of it that is asked in its place.

The copy is its owner's alone, and is removed at the end, or by the next audit where this one is killed: it holds the
key by which the node deals its records, for the copy has to deal them as the node does.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clients.data.featured import told_features
from clients.node.own_key import DEALING
from clients.node.policy import Policy, read_policy
from fedpriv._base.tables import toml_text
from fedpriv.errors import FedprivError
from fedpriv.node.own_ledger import ANSWERS, FILE
from fedpriv.randomness.cryptographic import KEY_BYTES
from fedpriv.studies.study import Kind
from simulations.audit._node_ledger import lines_of, place_of
from simulations.audit._places import opened, own_directory

POLICY = "policy.toml"  # in a node's directory, and in its copy's
LEDGER = "ledger"  # the copy's, whatever the node's is called
DATA = "data"  # in the copy: a link to whatever data it is to hold
NODE = "node"  # the copy itself, in the audit's own directory
MEMORY = Path("/dev/shm")  # a file system in memory, where there is one


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
        """Read the node of a directory for its audit: policy, partition, key; refused where one of them is missing."""
        policy, table = policy_of(directory)
        if policy.noise != "cryptographic":
            raise FedprivError(
                f"{directory / POLICY}: noise = {policy.noise!r}: who knows the study's seed can subtract it, so there "
                "is nothing to audit"
            )
        place, file = place_of(directory / policy.ledger / FILE), directory / policy.ledger / DEALING
        try:  # where it has no key yet, one of this audit's will do, as any it makes would
            key = file.read_bytes() if file.exists() else os.urandom(KEY_BYTES)
        except OSError as error:
            raise FedprivError(f"{file}: cannot be read ({error.strerror})") from None
        if len(key) != KEY_BYTES:
            raise FedprivError(f"{file}: is no key of {KEY_BYTES} bytes: remove it, and the node makes another")
        return Home(directory, policy, table, place, key)

    @property
    def ledger(self) -> Path:
        """The directory of the node's own ledger and keys, which an audit reads and copies and never writes."""
        return self.directory / self.policy.ledger

    def check_same(self, directory: Path, table: dict[str, Any]) -> None:
        """Refuse a --neighbour directory whose policy table differs from the node's in more than its data."""
        one, other = (
            {name: value for name, value in of.items() if name not in ("data", "ledger")}
            | {f"data.{name}": value for name, value in of["data"].items() if name != "path"}
            for of in (self.table, table)
        )
        if names := sorted(name for name in one | other if one.get(name) != other.get(name)):
            raise FedprivError(
                f"{directory / POLICY}: {names[0]} = {other.get(names[0])!r}, where {self.directory / POLICY} says "
                f"{one.get(names[0])!r}: neighbours differ in data alone"
            )


def policy_of(directory: Path) -> tuple[Policy, dict[str, Any]]:
    """The policy.toml of a node's directory: the checked policy, and the table that the file holds."""
    file = directory / POLICY
    if not file.is_file():
        raise FedprivError(
            f"{directory}: there is no {POLICY} in it, so it is no node's directory: fedpriv deploy status names them"
        )
    policy = read_policy(file)
    if policy.data and (made := told_features(policy.data)) != "none":
        raise FedprivError(
            f"{file}: data.features = {made}: a node's audit puts records in the place of others, and these are "
            "features of records: audit the study, or a node without features"
        )
    path = policy.data.settings.get("path") if policy.data else None
    if isinstance(path, str) and not Path(path).is_absolute():
        raise FedprivError(f"{file}: data.path = {path!r} means another place wherever a node starts: write it in full")
    return policy, tomllib.loads(file.read_text(encoding="utf-8-sig"))


@dataclass(frozen=True)
class Copy:
    """A node that is asked in the place of another: the same policy and key, a ledger of its own."""

    home: Home  # in whose place it is asked
    directory: Path  # which is this audit's alone
    beside: Path  # on disk, for the data of a neighbour

    def named(self, words: str) -> str:
        """Words of an error with the copy's paths replaced by the node's, for nobody will find the copy's."""
        path = self.home.policy.data.settings.get("path", "data") if self.home.policy.data else "data"
        for own, known in ((DATA, path), (LEDGER, self.home.ledger), (POLICY, self.home.directory / POLICY)):
            words = words.replace(str(self.directory / own), str(known))
        return words

    @property
    def config(self) -> dict[str, Any]:
        """The node config that Flower would give the client app of the copied node: policy file and partition."""
        own, of = self.home.place
        return {"policy": str(self.directory / POLICY), "partition-id": own, "num-partitions": of}

    @property
    def ledger(self) -> Path:
        """The directory of the copy's own ledger, where what an audit asks is charged in place of the node's."""
        return self.directory / LEDGER

    def lay(self, data: Kind | None, budget: float | None = None) -> None:
        """Write the copy's policy.toml: the node's with these data and this ε to spend; all data lie at one path.

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
        if budget is not None:
            table["budget"] = table["budget"] | {"epsilon": budget}
        (self.directory / POLICY).write_text(toml_text(table), encoding="utf-8")

    def begin(self, *, as_it_stands: bool = False) -> None:
        """Empty the copy's ledger before questions are asked, or lay the node's own in its place; the key stays.

        The node's is copied while the node itself is not at it: a lock on its directory leaves nothing on disk.
        """
        shutil.rmtree(self.ledger, ignore_errors=True)
        self.ledger.mkdir(mode=0o700)
        (self.ledger / DEALING).write_bytes(self.home.key)
        if not as_it_stands:
            return
        try:
            with opened(self.home.ledger) as lock:
                fcntl.flock(lock, fcntl.LOCK_SH)
                shutil.copyfile(self.home.ledger / FILE, self.ledger / FILE)
                if (self.home.ledger / ANSWERS).is_dir():
                    shutil.copytree(self.home.ledger / ANSWERS, self.ledger / ANSWERS, copy_function=shutil.copyfile)
                    (self.ledger / ANSWERS).chmod(0o700)  # whatever the node's is
        except OSError as error:  # or `shutil.Error`, which has no reason of its own
            raise FedprivError(f"{self.home.ledger}: cannot be copied ({error.strerror or error})") from None


def ledger_of(copy: Copy, after: int = 0) -> list[dict[str, Any]]:
    """What the copied node was charged, as its ledger's lines after the first `after` of them."""
    file = copy.ledger / FILE
    return lines_of(file, after) if file.exists() else []


@contextmanager
def copied(home: Home, place: Path) -> Iterator[Copy]:
    """While it lasts, a copy of the node to ask in its place; copies that killed audits have left are removed.

    Every answer is on disk before it leaves, so a copy that is asked thousands of times stands in memory where it can.
    """
    memory = MEMORY if os.access(MEMORY, os.W_OK | os.X_OK) else place
    with own_directory(place) as beside, own_directory(memory) as own:
        (own / NODE).mkdir(mode=0o700)
        copy = Copy(home, own / NODE, beside)
        try:
            yield copy
        except FedprivError as error:
            raise FedprivError(copy.named(str(error))) from None
