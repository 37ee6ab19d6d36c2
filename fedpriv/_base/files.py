"""Files that are never half written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(target: Path, content: bytes | memoryview, mode: int | None = None) -> None:
    """Write a file at once and durably, as ledgers and checkpoints are: whatever goes wrong, the old one stays whole.

    It is the owner's alone unless a mode is given.
    """
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if mode is not None:
                os.chmod(file.name, mode)
            os.replace(file.name, target)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)  # Ctrl-C may come when it is in its place already
            raise


def sync_directory(folder: Path) -> None:
    """Have the disk keep a directory's new file names, so that a ledger's file is still there after a power cut."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
