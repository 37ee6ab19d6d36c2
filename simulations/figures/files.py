"""The files of a report, put in their place one by one, each whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fedpriv.errors import FedprivError


def put_files(directory: Path, content: Mapping[str, bytes], stale: tuple[str, ...] = ()) -> list[Path]:
    """Write a report's files into its directory, each whole or not at all: their paths; `stale` pictures go.

    Those are an earlier report's, whose names begin so and which this one has not.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, each in content.items():
            beside = directory / f".{name}.{os.getpid()}"  # somebody may be looking at the old one
            beside.write_bytes(each)
            os.replace(beside, directory / name)
        for old in directory.glob("*.png"):
            if old.name.startswith(stale) and old.name not in content:
                old.unlink()
    except OSError as error:
        raise FedprivError(f"{directory}: cannot be written ({error.strerror or error})") from None
    return [directory / name for name in content]
