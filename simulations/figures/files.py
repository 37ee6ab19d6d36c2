"""The files of a report, put in their place one by one, each whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fedpriv.errors import FedprivError


def put(directory: Path, content: Mapping[str, bytes], stale: tuple[str, ...] = ()) -> list[Path]:
    """Write them, and take away pictures of an earlier report whose names begin so and are no longer there."""
    try:
        directory.mkdir(exist_ok=True)
        for name, each in content.items():
            _whole(directory / name, each)
        for old in directory.glob("*.png"):
            if old.name.startswith(stale) and old.name not in content:
                old.unlink()
    except OSError as error:
        raise FedprivError(f"{directory}: cannot be written ({error.strerror or error})") from None
    return [directory / name for name in content]


def _whole(path: Path, content: bytes) -> None:
    """Somebody may be looking at the old one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    os.replace(beside, path)
