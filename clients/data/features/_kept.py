"""Features kept on this machine's disk, so that they are made once: each file whole, and known to be, or made anew."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from fedpriv._base.arrays import Rows
from fedpriv._base.files import user_cache
from fedpriv.errors import FedprivError

_SUM = 32  # bytes behind the array: SHA-256 of all before them
_BLOCK = 1 << 24  # bytes at a time
_LEFT = 3600.0  # seconds without a word written: whoever wrote is gone


def kept_rows(name: str, make: Callable[[], Rows], count: int) -> Rows:
    """So many features of that name from the user's cache, mapped; made, and kept there if possible, if not there.

    A file that is damaged, or cut, is made anew. Only its owner can read it: it is made of records.
    """
    path = user_cache() / "features" / f"{name}.npy"
    if (found := whole_rows(path, count)) is not None:
        return found
    rows = make()
    with suppress(OSError):  # no room, or nowhere to write: then they are made in every process
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_rows(path, rows)
        if (found := whole_rows(path, count)) is not None:
            return found
    return rows


def write_rows(path: Path, rows: Rows) -> None:
    """Write features and their SHA-256 into their place at once, so that no other process meets half a file.

    What writers that were killed have left there, features of records too, goes.
    """
    for left in path.parent.glob(".*.npy.*"):
        with suppress(OSError):  # another process was faster
            if time.time() - left.stat().st_mtime > _LEFT:
                left.unlink()
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(rows))
            file.write(rows.data.cast("B") if rows.size else b"")
            file.flush()
            with open(file.name, "rb") as written:
                found = sum_of_file(written.fileno(), os.fstat(written.fileno()).st_size)
            file.write(found)
            file.flush()
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def whole_rows(path: Path, count: int) -> Rows | None:
    """The array of a file of so many kept features, mapped; None where none is as it was written."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size - _SUM
            if size < 0 or os.pread(file.fileno(), _SUM, size) != sum_of_file(file.fileno(), size):
                return None
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    fits = isinstance(found, np.ndarray) and found.dtype == np.float32 and found.ndim > 1 and len(found) == count
    return found if fits else None


def sum_of_file(file: int, size: int) -> bytes:
    """SHA-256 of the first so many bytes of a file."""
    found = hashlib.sha256()
    for start in range(0, size, _BLOCK):
        found.update(os.pread(file, min(_BLOCK, size - start), start))
    return found.digest()


def digest_of_file(file: Path) -> str:
    """SHA-256 of a file that features come from, in hexadecimal, by which it is known again."""
    try:
        with open(file, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise FedprivError(f"{file}: cannot be read ({error.strerror})") from None
