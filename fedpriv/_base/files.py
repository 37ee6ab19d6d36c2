"""Files that are never half written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(target: Path, content: bytes | memoryview, mode: int | None = None) -> None:
    """Put the content in the target's place at once and durably: whatever goes wrong, the old file stays whole.

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
    """Let a directory's new names survive the end of the machine."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
