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

PREFIX = "fedpriv-audit-"  # of the names of an audit's own directories
MARK = ".fedpriv-audit"  # a file that stands in each of them
FILES = ("audit.json", "audit.png")  # what was found, and its picture
BLOCKS = "blocks"  # the directory of trials that are done
OURS = re.compile(r"\.?(block-\d+\.npz|audited)(\..*)?")  # and what is not yet in the place of one


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """While it lasts, the directory an audit writes to is this process's: made if need be, refused if unusable.

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
        if not os.access(place, os.W_OK | os.X_OK):
            raise FedprivError(f"{place}: no audit can be written there (not writable)")
        for file in (place / name for name in FILES):
            if file.exists() and not file.is_file():
                raise FedprivError(f"{file}: an audit is written there, and that is no file: --out names another place")
        blocks = place / BLOCKS
        if blocks.exists() and not blocks.is_dir():
            raise FedprivError(f"{blocks}: an audit keeps its trials there, and that is no directory: --out")
        held = sorted(path.name for path in blocks.iterdir()) if blocks.exists() else []
        if foreign := [name for name in held if not OURS.fullmatch(name)]:
            raise FedprivError(f"{blocks / foreign[0]}: no file of an audit's, where one keeps its trials: --out")
        yield
    finally:
        os.close(lock)
        with suppress(OSError):  # one that holds something
            for each in new:
                each.rmdir()


@contextmanager
def own_directory(parent: Path) -> Iterator[Path]:
    """A temporary directory of an audit's own, removed at the end; those of killed audits there go first."""
    for each in parent.glob(f"{PREFIX}*"):
        with suppress(OSError), opened(each, os.O_DIRECTORY | os.O_NOFOLLOW) as lock:
            if os.fstat(lock).st_uid == os.geteuid() and (each / MARK).is_file() and _taken(lock):
                shutil.rmtree(each, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    with opened(made) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (made / MARK).touch()  # from here on it is known as ours, and while the lock lasts nobody takes it away
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


@contextmanager
def opened(directory: Path, flags: int = 0) -> Iterator[int]:
    """A directory's open descriptor, on which an audit locks it; closed at the end, which ends the lock.

    `flags` are those of `os.open` beside reading.
    """
    descriptor = os.open(directory, os.O_RDONLY | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(lock: int) -> bool:
    """Lock an audit's directory by its descriptor: True if it is ours now, False if another process holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise FedprivError(f"an audit's directory cannot be locked ({error.strerror}): a local disk") from None
    return True
