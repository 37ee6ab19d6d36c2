"""What a study's [data] table may choose. Features are scaled by public constants, never by the data's own mean."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Protocol

from clients.data import idx, reading
from clients.data._paths import absolute_path, fill_path
from clients.data.features import BesideData
from clients.data.idx import FOUR_FILES
from clients.data.leaf import leaf_files
from clients.data.pool import Classes, Divide, Labels, Pool, Subtract
from fedpriv.errors import FedprivError, at_least_zero, natural, real, whole, whole_from
from fedpriv.registry import Registry
from fedpriv.settings import check_fields

__all__ = ["DATA_SETS", "Arrays", "Data", "Digits", "Hub", "Idx", "Leaf", "Linear", "Pool", "Synthetic"]

DEBIAN = Path("/usr/share/datasets/fashion-mnist")


class Data(Protocol):
    """What every set can do. Loading the same choice again in one process returns the same pool."""

    def load(self) -> Pool:
        """A study's records as a pool, checked: those that clients train on, and those that the server measures by."""

    def resolved(self) -> Data:
        """The choice as any process would make it: paths in full, for workers that run in other directories."""

    @property
    def where(self) -> str | None:
        """Where a study's records lie, for a run's files and people; None where they come with the class."""


@dataclass(frozen=True)
class Digits:
    """scikit-learn's 1,797 digits of 8 × 8: every fifth or so of each class is held out, always the same ones."""

    held_out: Annotated[int, whole, "records that nobody trains on: accuracy is measured on them"] = 360
    divide: Divide = 16.0
    subtract: Subtract = 0.3

    def __post_init__(self) -> None:
        check_fields(self)

    def load(self) -> Pool:
        """scikit-learn's digits as a study's pool: 8 × 8 records to train on, and `held_out` others to measure by.

        >>> pool = Digits().load()
        >>> len(pool), len(pool.y_test), pool.shape, pool.classes
        (1437, 360, (8, 8), 10)
        """
        return reading.read_digits(self.held_out, self.divide, self.subtract)

    def resolved(self) -> Digits:
        """Itself, in any process: digits have no path to write out."""
        return self

    @property
    def where(self) -> None:
        """None: digits come with scikit-learn, so a run's files name no place that its data lie in."""


@dataclass(frozen=True)
class Idx:
    """MNIST's idx files, or EMNIST's or Fashion-MNIST's, plain (then mapped) or .gz: in `path`, else $FEDPRIV_DATA."""

    path: Annotated[
        str | None, "a directory, or DIRECTORY/emnist-balanced where it holds several sets; $FEDPRIV_DATA if not given"
    ] = None
    divide: Divide = 255.0
    subtract: Subtract = 0.0
    classes: Classes = None

    def __post_init__(self) -> None:
        if self.path is not None:
            fill_path(self)
        check_fields(self)

    def load(self) -> Pool:
        """The four idx files of a set as a study's pool, checked; read once a process while the files do not change."""
        files = idx.idx_files(Path(str(self.resolved().path)))
        return reading.read_idx_folder(files, reading.files_stamp(files), self.divide, self.subtract, self.classes)

    def resolved(self) -> Idx:
        """The choice with its directory found: `path`, else $FEDPRIV_DATA, else that of Debian's Fashion-MNIST."""
        path = self.path or os.environ.get("FEDPRIV_DATA") or (str(DEBIAN) if DEBIAN.is_dir() else None)
        if path is None:
            raise FedprivError(
                f"Idx has no path, $FEDPRIV_DATA is not set and {DEBIAN} is not there: apt-get install "
                f"dataset-fashion-mnist, or name a directory with {FOUR_FILES}, plain or .gz"
            )
        return replace(self, path=absolute_path(path))

    @property
    def where(self) -> str:
        """The directory of the idx files in full, as a run's files and people are told where its data lie."""
        return str(self.resolved().path)


@dataclass(frozen=True)
class Arrays:
    """Your own x.npy (mapped), y.npy and perhaps users.npy in a directory; x_test.npy and y_test.npy or held_out."""

    path: Annotated[str, "the directory of x.npy and y.npy"]
    held_out: Annotated[int | None, whole, "the last so many records, where there are no test files"] = None
    divide: Divide = 1.0
    subtract: Subtract = 0.0
    classes: Classes = None
    labels: Labels = "classes"

    def __post_init__(self) -> None:
        fill_path(self)
        check_fields(self)
        _check_classes(self)

    def load(self) -> Pool:
        """The directory's .npy files as a study's pool, checked; x stays on disk if rows are stored in one piece."""
        folder = Path(self.resolved().path)
        stamp = reading.files_stamp(folder / name for name in reading.NPY)
        held = self.held_out
        return reading.read_arrays(folder, stamp, held, self.divide, self.subtract, self.classes, self.labels)

    def resolved(self) -> Arrays:
        """The choice with its directory's path in full, for workers that run in other directories."""
        return replace(self, path=absolute_path(self.path))

    @property
    def where(self) -> str:
        """The directory of the .npy files in full, as a run's files and people are told where its data lie."""
        return self.resolved().path


@dataclass(frozen=True)
class Hub:
    """A set of the Hugging Face hub, or its formats in a directory, by Flower Datasets, which is installed apart."""

    name: Annotated[str, "its name on the hub, such as ylecun/mnist, or a directory"]
    subset: Annotated[str | None, "which of several subsets it has"] = None
    revision: Annotated[str | None, "a commit of the hub's, to have the same records tomorrow"] = None
    features: Annotated[str, "the column of what a model sees"] = "image"
    label: Annotated[str, "the column of the labels"] = "label"
    train: Annotated[str, "the split to train on"] = "train"
    test: Annotated[str, "the split that accuracy is measured on"] = "test"
    divide: Divide = 255.0
    subtract: Subtract = 0.0
    classes: Classes = None
    labels: Labels = "classes"
    user: Annotated[str | None, "the column of whose each record is, such as writer_id"] = None

    def __post_init__(self) -> None:
        for name in ("name", "subset", "revision", "features", "label", "train", "test", "user"):
            value = getattr(self, name)
            may_lack = name in ("subset", "revision", "user")
            if (value is not None or not may_lack) and not (isinstance(value, str) and value):
                raise FedprivError(f"{name} must be a word, got {value!r}")
        check_fields(self)
        _check_classes(self)

    def load(self) -> Pool:
        """Two splits of the hub's set as a study's pool, one to train on and one held out, checked."""
        columns, splits = (self.features, self.label), (self.train, self.test)
        name = self.resolved().name
        return reading.read_hub(
            name, self.subset, self.revision, columns, splits, self.divide, self.subtract, self.classes, self.labels,
            self.user,
        )  # fmt: skip

    def resolved(self) -> Hub:
        """The choice with a path in full, where its name is a directory; a name on the hub stays as it is."""
        return replace(self, name=absolute_path(self.name)) if Path(self.name).expanduser().is_dir() else self

    @property
    def where(self) -> str:
        """The set's name on the hub (and commit, if given) or its directory: where a run's files say its data lie."""
        return self.resolved().name + (f"@{self.revision}" if self.revision else "")


@dataclass(frozen=True)
class Leaf:
    """LEAF's JSON files of numbers, such as FEMNIST's, in train/ and test/ of a directory, and whose they are."""

    path: Annotated[str, "the directory of train/ and test/, each with .json files"]
    divide: Divide = 1.0
    subtract: Subtract = 0.0
    classes: Classes = None

    def __post_init__(self) -> None:
        fill_path(self)
        check_fields(self)

    def load(self) -> Pool:
        """LEAF's records as a study's pool, checked: train/ to train on, user after user, and test/ held out."""
        folder = Path(self.resolved().path)
        stamp = reading.files_stamp(leaf_files(folder))
        return reading.read_leaf(folder, stamp, self.divide, self.subtract, self.classes)

    def resolved(self) -> Leaf:
        """The choice with its directory's path in full, for workers that run in other directories."""
        return replace(self, path=absolute_path(self.path))

    @property
    def where(self) -> str:
        """The directory of LEAF's files in full, as a run's files and people are told where its data lie."""
        return self.resolved().path


@dataclass(frozen=True)
class Synthetic:
    """Gaussian blobs, one a class, of variance 1 around centres of variance 1: for trying and tests."""

    records: Annotated[int, whole, "records to train on"] = 1000
    features: Annotated[int, whole, "numbers a record"] = 20
    classes: Annotated[int, whole_from(2), "blobs: at most as many as records"] = 4
    held_out: Annotated[int, whole, "records that nobody trains on: accuracy is measured on them"] = 200
    seed: Annotated[int, natural, "what they are drawn from"] = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.classes <= self.records:
            raise FedprivError(f"classes must be at most records = {self.records}, got {self.classes}")

    def load(self) -> Pool:
        """Gaussian blobs drawn from the seed as a study's pool: `records` to train on and `held_out` others.

        >>> Synthetic(records=6, features=2, classes=3).load().y.tolist()
        [0, 1, 2, 0, 1, 2]
        """
        return reading.synthetic_blobs(self.records, self.features, self.classes, self.held_out, self.seed)

    def resolved(self) -> Synthetic:
        """Itself, in any process: blobs have no path to write out."""
        return self

    @property
    def where(self) -> None:
        """None: blobs are drawn, so a run's files name no place that its data lie in."""


@dataclass(frozen=True)
class Linear:
    """Labels that are numbers: one seeded direction of Gaussian features, of variance 1, and noise; for trying."""

    records: Annotated[int, whole, "records to train on"] = 1000
    features: Annotated[int, whole, "numbers a record"] = 20
    deviation: Annotated[float, real, at_least_zero, "of the noise on a label"] = 0.1
    held_out: Annotated[int, whole, "records that nobody trains on: R² is measured on them"] = 200
    seed: Annotated[int, natural, "what they are drawn from"] = 0

    labels: ClassVar = "numbers"

    def __post_init__(self) -> None:
        check_fields(self)

    def load(self) -> Pool:
        """Records along a line, drawn from the seed, as a study's pool: `records` to train on, `held_out` others.

        >>> pool = Linear(records=6, features=2).load()
        >>> pool.y.dtype.name, pool.classes, pool.outputs
        ('float32', 0, 1)
        """
        return reading.linear_numbers(self.records, self.features, self.deviation, self.held_out, self.seed)

    def resolved(self) -> Linear:
        """Itself, in any process: its records have no path to write out."""
        return self

    @property
    def where(self) -> None:
        """None: its records are drawn, so a run's files name no place that they lie in."""


DATA_SETS = Registry(
    "data set",
    Data,
    (Digits, Idx, Arrays, Hub, Leaf, Synthetic, Linear),
    optional=["resolved"],
    beside=BesideData,
)


def _check_classes(data: Arrays | Hub) -> None:
    """Refuse a number of classes for labels that are numbers."""
    if data.labels == "numbers" and data.classes is not None:
        raise FedprivError(f'classes = {data.classes} and labels = "numbers": give one of them')
