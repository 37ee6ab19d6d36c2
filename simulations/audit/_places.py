"""Where an audit writes, one process at a time; and directories of its own that no process leaves behind for good.

Both are kept by a lock on the directory itself, which ends with its process however that ends and leaves nothing on
disk. So what a killed audit has left can be told from what another one is at work in, and goes with the next audit.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedpriv.errors import FedprivError

PREFIX, MARK = "fedpriv-audit-", ".fedpriv-audit"
FILES, BLOCKS = ("audit.json", "audit.png"), "blocks"
OURS = re.compile(r"\.?(block-\d+\.npz|audited)(\..*)?")  # and what is not yet in the place of one


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """The directory in which an audit is written, made where there is none, and refused where that could not be done.

    Before the first trial: nothing of anybody else's is in the way then, and no other audit is at work there.
    """
    new = [each for each in (place, *place.parents) if not each.exists()]
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise FedprivError(f"{place}: no audit can be written there ({error.strerror})") from None
    try:
        if not _taken(lock):
            raise FedprivError(f"{place}: another audit is at work there: --out names another place")
        _check(place)
        yield
    finally:
        os.close(lock)
        with suppress(OSError):  # one that holds something
            for each in new:
                each.rmdir()


def _check(place: Path) -> None:
    if not os.access(place, os.W_OK | os.X_OK):
        raise FedprivError(f"{place}: no audit can be written there (not writable)")
    for file in (place / name for name in FILES):
        if file.exists() and not file.is_file():
            raise FedprivError(f"{file}: an audit is written there, and that is no file: --out names another place")
    if not (blocks := place / BLOCKS).exists():
        return
    if not blocks.is_dir():
        raise FedprivError(f"{blocks}: an audit keeps its trials there, and that is no directory: --out")
    if foreign := sorted(path.name for path in blocks.iterdir() if not OURS.fullmatch(path.name)):
        raise FedprivError(f"{blocks / foreign[0]}: no file of an audit's, where one keeps its trials: --out")


@contextmanager
def own_directory(parent: Path) -> Iterator[Path]:
    """A directory that is gone afterwards; before it, all those are that killed audits have left there."""
    _sweep(parent)
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    lock = os.open(made, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (made / MARK).touch()  # from here on it is known as ours, and while the lock lasts nobody takes it away
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(lock)


def _sweep(parent: Path) -> None:
    for each in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.geteuid() and (each / MARK).is_file() and _taken(lock):
                    shutil.rmtree(each, ignore_errors=True)
            finally:
                os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise FedprivError(f"an audit's directory cannot be locked ({error.strerror}): a local disk") from None
    return True
