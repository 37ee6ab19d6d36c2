"""A node's own secrets: keys that stand beside its ledger, made where there are none, and read by nobody else."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fedpriv._base.files import sync_directory
from fedpriv.errors import FedprivError
from fedpriv.randomness.cryptographic import KEY_BYTES

DEALING = "dealing.key"  # by which the node's records are dealt among its clients
KEPT = "kept.key"  # from which noise is derived that is drawn once


def _make_key(path: Path, beside: Path) -> None:
    """Make a node's secret key, synced beside and linked: no process ever sees half of it, and the first stays."""
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(os.urandom(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        with suppress(FileExistsError):
            os.link(beside, path)
    finally:
        beside.unlink()
        sync_directory(path.parent)


def key_in(folder: Path, name: str) -> bytes:
    """A node's secret key of that name beside its ledger, for dealing records or kept noise; made if missing."""
    path = folder / name
    try:
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _make_key(path, folder / f"{name}.{os.getpid()}")
        found = path.read_bytes()
    except OSError as error:
        raise FedprivError(f"{path}: a key of this node cannot be kept there ({error.strerror})") from None
    if len(found) != KEY_BYTES:
        raise FedprivError(f"{path}: is no key of {KEY_BYTES} bytes: remove it, and another is made")
    return found
