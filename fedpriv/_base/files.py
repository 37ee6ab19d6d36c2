"""Files that are never half written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from fedpriv.errors import FedprivError


def path_given(given: object) -> Path:
    """The path that somebody gave for a run's file or directory, words or a path; an error of a line for other things.

    >>> path_given("runs/few").name
    'few'
    """
    if not isinstance(given, str | os.PathLike):
        raise FedprivError(f"a file or a directory is named by words or a path, got {given!r}"[:200])
    return Path(given)


def replace_file(target: Path, content: bytes | memoryview, mode: int | None = None, *, durable: bool = True) -> None:
    """Write a file at once and durably, as ledgers and checkpoints are: whatever goes wrong, the old one stays whole.

    It is the owner's alone unless a mode is given. One that is not durable outlives this process, not a power cut.
    """
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
            if mode is not None:
                os.chmod(file.name, mode)
            os.replace(file.name, target)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)  # Ctrl-C may come when it is in its place already
            raise


def user_cache() -> Path:
    """The directory of what can be made again, in the user's own cache: $FEDPRIV_CACHE, where that is given."""
    if given := os.environ.get("FEDPRIV_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedpriv"


def sync_directory(folder: Path) -> None:
    """Have the disk keep a directory's new file names, so that a ledger's file is still there after a power cut."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
