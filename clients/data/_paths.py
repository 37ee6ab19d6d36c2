"""Paths that data sets are given: checked when they are written down, in full where they are looked up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fedpriv.errors import FedprivError


def fill_path(data: Any) -> None:
    """Write the `path` of an `Idx`, `Arrays` or `Leaf` as a str into it; refused where it cannot name a directory."""
    path = os.fspath(data.path) if isinstance(data.path, os.PathLike) else data.path
    if not isinstance(path, str) or not path or "\0" in path:
        raise FedprivError(f"path must name a directory, got {path!r}")
    object.__setattr__(data, "path", path)


def absolute_path(path: str) -> str:
    """A data set's path in full, ~ replaced: workers are started in directories of their own."""
    try:
        return str(Path(path).expanduser().absolute())
    except RuntimeError:  # ~somebody, where there is no such person
        raise FedprivError(f"path {path!r} names a home that is not there") from None
