"""Reading each kind of data set into a pool, once a process."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from clients.data.idx import IdxFiles, read_idx
from clients.data.leaf import leaf_records
from clients.data.pool import Labels, Pool, Records, Stored, pool_of
from clients.data.users import numbered_users
from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError, nearest_hint, reason
from fedpriv.randomness.streams import stream

LETTERS = 26  # of the alphabet: EMNIST has a class for each
NPY = ("x.npy", "y.npy", "x_test.npy", "y_test.npy", "users.npy")

Stamp = tuple[tuple[str, int, int, int, int], ...]  # of each file its path, size, number and two times of change


def files_stamp(paths: Iterable[Path]) -> Stamp:
    """Each file's path, size, number and two times of change: under another stamp a data set is read anew, not kept.

    The second time is the one that nobody can set back.
    """
    found = [(path, os.stat(path)) for path in paths if os.access(path, os.R_OK)]  # others are for who reads to name
    return tuple((str(path), own.st_size, own.st_ino, own.st_mtime_ns, own.st_ctime_ns) for path, own in found)


@lru_cache(maxsize=4)
def read_digits(held_out: int, divide: float, subtract: float) -> Pool:
    """A study's `Digits` as a pool: scikit-learn's file, without its code, which loads slowly; `held_out` apart."""
    sklearn = find_spec("sklearn")
    assert sklearn is not None, "scikit-learn is installed with fedpriv"
    file = Path(str(sklearn.origin)).parent / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(file, np.uint8, delimiter=",")
    x, y = table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)
    if not held_out < len(y):
        raise FedprivError(f"held_out must be below {len(y)}, which is all there is, got {held_out}")
    apart = np.isin(np.arange(len(y)), evenly_by_label(y, held_out))
    training, held = (Records(x[rows], y[rows], "digits", "digits") for rows in (~apart, apart))
    return pool_of(training, held, divide, subtract)


def evenly_by_label(y: Numbers, count: int) -> Numbers:
    """The `count` digits held out: numbers at even distances in order of labels, of every class its share, none drawn.

    >>> evenly_by_label(np.array([0, 1, 0, 1, 0, 1, 0, 1]), 2)
    array([4, 5])
    """
    ranks = (2 * np.arange(count) + 1) * len(y) // (2 * count)
    return np.argsort(y, kind="stable")[ranks]


@lru_cache(maxsize=4)
def read_idx_folder(files: IdxFiles, stamp: Stamp, divide: float, subtract: float, classes: int | None = None) -> Pool:
    """A study's `Idx` data as a pool, from a set's four files; kept in the process while `stamp` is the same."""
    y, y_test = read_idx(files.y, 1), read_idx(files.y_test, 1)
    if y.size and y_test.size and (y.min(), y.max()) == (1, LETTERS) and y_test.min() >= 1:
        y, y_test = y - 1, y_test - 1  # EMNIST numbers its letters from 1, where a class 0 would be a 27th, nobody's
    training = Records(read_idx(files.x, 3), y, str(files.x), str(files.y))
    held_out = Records(read_idx(files.x_test, 3), y_test, str(files.x_test), str(files.y_test))
    return pool_of(training, held_out, divide, subtract, classes)


@lru_cache(maxsize=4)
def read_arrays(
    folder: Path, stamp: Stamp, held_out: int | None, divide: float, subtract: float,
    classes: int | None = None, labels: Labels = "classes",
) -> Pool:  # fmt: skip
    """A study's `Arrays` as a pool, from a directory's .npy files; kept in the process while `stamp` is the same."""
    apart = (folder / "x_test.npy").exists() or (folder / "y_test.npy").exists()
    if apart and held_out is not None:
        raise FedprivError(f"{folder} holds x_test.npy or y_test.npy: leave out held_out, or remove them")
    training = _npy(folder, "x.npy", "y.npy")
    if apart:
        halves = training, _npy(folder, "x_test.npy", "y_test.npy")
    elif held_out is None:
        raise FedprivError(f"{folder} holds no x_test.npy and y_test.npy: add them, or say how many are held_out")
    else:
        halves = _parted(training, held_out)
    pool = pool_of(*halves, divide, subtract, classes, labels)
    if not (file := folder / "users.npy").exists():
        return pool
    return replace(pool, owners=numbered_users(mapped_array(file), len(training.y), str(file), slice(len(pool))))


def _parted(records: Records, held_out: int) -> tuple[Records, Records]:
    """Records of a study's `Arrays` in two: to train on, and the last `held_out`; refused where sorted by label."""
    x, y, x_name, y_name = records
    if not held_out < min(len(x), len(y)):
        raise FedprivError(f"{x_name}: held_out must be below its {len(x)} records, got {held_out}")
    if y.ndim == 1 and y.dtype.kind in "fiub" and y[0] < y[-1] and (y[1:] >= y[:-1]).all():
        raise FedprivError(
            f"{y_name} is sorted, so the last {held_out} are of the last labels only: shuffle both files"
        )
    last = Records(x[-held_out:], y[-held_out:], x_name, y_name)
    return Records(x[:-held_out], y[:-held_out], x_name, y_name), last


def _npy(folder: Path, x: str, y: str) -> Records:
    """A study's `Arrays`: features and labels of two .npy files, mapped and unchecked, with their paths for errors."""
    return Records(mapped_array(folder / x), mapped_array(folder / y), str(folder / x), str(folder / y))


def mapped_array(path: Path) -> Stored:
    """The array of a study's or a node's .npy file, mapped, so read where it is needed; refused where it is none."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FedprivError(f"{path} is missing") from None
    except (OSError, ValueError, EOFError, OverflowError, BadZipFile) as error:
        raise FedprivError(f"{path}: not an array in .npy format ({reason(error)})") from None
    if not isinstance(found, np.ndarray):
        raise FedprivError(f"{path}: an archive of arrays, where one array is needed")
    if found.ndim == 0:
        raise FedprivError(f"{path}: a single number, where an array is needed")
    return found if found.flags.c_contiguous else np.ascontiguousarray(found)


@lru_cache(maxsize=4)
def read_hub(
    name: str, subset: str | None, revision: str | None, columns: tuple[str, str], splits: tuple[str, str],
    divide: float, subtract: float, classes: int | None = None, labels: Labels = "classes", user: str | None = None,
) -> Pool:  # fmt: skip
    """A study's `Hub` data as a pool: two splits of a set on the hub, (train, test), in the order they are stored."""
    training, held_out = hub_splits(name, subset, revision, columns, splits)
    pool = pool_of(training, held_out, divide, subtract, classes, labels)
    if user is None:
        return pool
    (own,) = hub_splits(name, subset, revision, (columns[1], user), splits[:1])  # labels again, and whose they are
    return replace(pool, owners=numbered_users(own.y, len(pool), own.y_name))


def hub_splits(
    name: str, subset: str | None, revision: str | None, columns: tuple[str, str], splits: Sequence[str]
) -> list[Records]:
    """The records of some splits of a hub's set by Flower Datasets, unchecked, for `Hub` or a node's own data."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # read at import: nobody is told what we load
    try:
        flower = importlib.import_module("flwr_datasets")
    except ImportError:
        raise FedprivError("Hub needs Flower Datasets: pip install 'flwr-datasets[vision]'") from None
    pinned = {} if revision is None else {"revision": revision}
    try:
        source = flower.FederatedDataset(dataset=name, subset=subset, partitioners={}, shuffle=False, **pinned)
        loaded = [source.load_split(split) for split in splits]
    except Exception as error:  # whatever is not in order with the hub, its cache or a file in it
        raise FedprivError(f"{name}: cannot be loaded by Flower Datasets ({reason(error)})") from None
    found = []
    for split in loaded:
        known = split.column_names
        for column in columns:
            if column not in known:
                hint = nearest_hint(column, known)
                raise FedprivError(f"{name} has no column {column!r}{hint}; columns: {', '.join(known)}")
        rows = split.with_format("numpy")
        try:
            x, y = (np.asarray(rows[column][:]) for column in columns)
        except Exception as error:  # an image that is damaged, or nothing here to decode it with
            raise FedprivError(f"{name}: its records cannot be read ({reason(error)})") from None
        found.append(Records(x, y, *(f"{name}, {column}" for column in columns)))
    return found


@lru_cache(maxsize=4)
def read_leaf(folder: Path, stamp: Stamp, divide: float, subtract: float, classes: int | None = None) -> Pool:
    """A study's `Leaf` data as a pool, from LEAF's .json files; kept in the process while `stamp` is the same."""
    (training, users), (held_out, _) = (leaf_records(folder / half) for half in ("train", "test"))
    pool = pool_of(training, held_out, divide, subtract, classes)
    return replace(pool, owners=numbered_users(users, len(pool), training.x_name))


@lru_cache(maxsize=4)
def synthetic_blobs(records: int, features: int, classes: int, held_out: int, seed: int) -> Pool:
    """A study's `Synthetic` data as a pool: Gaussian blobs around seeded centres; labels go round and round."""

    def blobs(purpose: str, count: int) -> Records:
        """`count` records around the same centres, drawn for one purpose: training, or held out."""
        centres = stream(seed, "synthetic centres").standard_normal((classes, features))
        y = np.arange(count) % classes
        x = centres[y] + stream(seed, purpose).standard_normal((count, features))
        return Records(x.astype(np.float32), y, "synthetic", "synthetic")

    try:
        halves = blobs("synthetic training", records), blobs("synthetic held out", held_out)
    except (MemoryError, ValueError, OverflowError) as error:  # past what an array can hold
        raise FedprivError(f"{records} records of {features} features do not fit into memory ({error})") from None
    return pool_of(*halves, divide=1.0, subtract=0.0)


@lru_cache(maxsize=4)
def linear_numbers(records: int, features: int, deviation: float, held_out: int, seed: int) -> Pool:
    """A study's `Linear` data as a pool: labels lie along a seeded direction of Gaussian features, and noise."""
    direction = stream(seed, "linear direction").standard_normal(features) / features**0.5

    def drawn(purpose: str, count: int) -> Records:
        """`count` records along the same direction, drawn for one purpose: training, or held out."""
        rng = stream(seed, purpose)
        x = rng.standard_normal((count, features))
        y = x @ direction + deviation * rng.standard_normal(count)
        return Records(x.astype(np.float32), y, "linear", "linear")

    try:
        halves = drawn("linear training", records), drawn("linear held out", held_out)
    except (MemoryError, ValueError, OverflowError) as error:  # past what an array can hold
        raise FedprivError(f"{records} records of {features} features do not fit into memory ({error})") from None
    return pool_of(*halves, divide=1.0, subtract=0.0, labels="numbers")
