"""The idx files of MNIST and its relatives: finding the four of a set, and reading one, plain or compressed."""

from __future__ import annotations

import gzip
import re
import zlib
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpriv.errors import FedprivError

_NAME = re.compile(r"(?:(?P<set>.+)-)?(?P<half>train|t10k|test)-(?P<what>images|labels)[-.]idx[13]-ubyte(?:\.gz)?")
_NAMES = {
    ("train", "images"): "train-images-idx3-ubyte",
    ("train", "labels"): "train-labels-idx1-ubyte",
    ("test", "images"): "t10k-images-idx3-ubyte",
    ("test", "labels"): "t10k-labels-idx1-ubyte",
}
FOUR_FILES = ", ".join(_NAMES.values())


class IdxFiles(NamedTuple):
    """The four files of one set."""

    x: Path  # images to train on
    y: Path  # their labels
    x_test: Path  # images held out
    y_test: Path  # their labels


def _sets_in(folder: Path) -> dict[str, dict[tuple[str, str], Path]]:
    """The idx files of each set in a directory, by (half, images or labels): what `idx_files` picks from."""
    try:
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise FedprivError(f"{folder}: cannot be read ({error.strerror})") from None
    sets: dict[str, dict[tuple[str, str], Path]] = {}
    for path in paths:  # in the order of names: a plain file comes before its compressed twin, and is taken
        if found := _NAME.fullmatch(path.name):
            half = "train" if found["half"] == "train" else "test"
            sets.setdefault(found["set"] or "", {}).setdefault((half, found["what"]), path)
    return sets


def idx_files(where: Path) -> IdxFiles:
    """A set's four idx files in a directory; of several there, as EMNIST's, `where` is DIRECTORY/emnist-balanced."""
    folder, wanted = (where, None) if where.is_dir() else (where.parent, where.name)
    sets = _sets_in(folder)
    if wanted is None and len(sets) > 1:
        example = sorted(sets)[-1]
        raise FedprivError(f"{where} holds {len(sets)} sets: name one, as in {where / example}")
    files = sets.get(wanted, {}) if wanted is not None else next(iter(sets.values()), {})
    missing = [name for key, name in _NAMES.items() if key not in files]
    if len(missing) == len(_NAMES):
        raise FedprivError(f"{where}: no idx files are there; needed are {FOUR_FILES}, plain or .gz")
    if missing:
        raise FedprivError(f"{where}: {', '.join(missing)} (plain or .gz) is missing")
    return IdxFiles(*(files[key] for key in _NAMES))


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """One idx file's bytes as an array of so many dimensions: mapped where it is plain, in memory where compressed."""
    header, plain = 4 + 4 * dimensions, path.suffix != ".gz"
    try:
        content: NDArray[np.uint8] = (
            np.memmap(path, np.uint8, "r") if plain else np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)
        )
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise FedprivError(f"{path}: cannot be read ({error or type(error).__name__})") from None
    start = content[:header].tobytes()
    if start[:4] != bytes([0, 0, 8, dimensions])[: len(start)]:
        raise FedprivError(
            f"{path}: not an idx file of bytes in {dimensions} dimension(s): "
            f"it begins with {start[:4].hex(' ')}, not 00 00 08 {dimensions:02x}"
        )
    if len(start) < header:
        raise FedprivError(f"{path}: truncated: {len(start)} bytes, where the header alone has {header}")
    shape = tuple(int(size) for size in np.frombuffer(start, ">u4", offset=4))
    if content.size != header + prod(shape):
        raise FedprivError(
            f"{path}: {content.size} bytes, where its header of {' × '.join(map(str, shape))} needs "
            f"{header + prod(shape)}"
        )
    return content[header:].reshape(shape)
