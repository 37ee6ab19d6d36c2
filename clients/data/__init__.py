"""What a study's [data] table may choose. Features are scaled by public constants, never by the data's own mean."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from clients import reading
from clients.idx import FOUR_FILES
from clients.pool import Pool, checked_classes, checked_scale
from fedpriv.errors import FedprivError, whole
from fedpriv.kinds import made

__all__ = ["SETS", "Arrays", "Data", "Digits", "Hub", "Idx", "Pool", "Synthetic", "make_data"]

DEBIAN = Path("/usr/share/datasets/fashion-mnist")


class Data(Protocol):
    """What every set can do. Loading the same choice again in one process returns the same pool."""

    def load(self) -> Pool:
        """The records, checked."""

    def resolved(self) -> Data:
        """The same choice as any process would make it: paths written out in full."""

    @property
    def where(self) -> str | None:
        """Where the records lie, for people; None where they come with the class."""


@dataclass(frozen=True)
class Digits:
    """scikit-learn's 1,797 digits of 8 × 8: every fifth or so of each class is held out, always the same ones."""

    held_out: int = 360
    divide: float = 16.0
    subtract: float = 0.3

    def __post_init__(self) -> None:
        whole(held_out=self.held_out)
        checked_scale(self.divide, self.subtract)

    def load(self) -> Pool:
        """The records, checked.

        >>> pool = Digits().load()
        >>> len(pool), len(pool.y_test), pool.shape, pool.classes
        (1437, 360, (8, 8), 10)
        """
        return reading.digits(self.held_out, self.divide, self.subtract)

    def resolved(self) -> Digits:
        """Itself: there is nothing to find."""
        return self

    @property
    def where(self) -> None:
        """Nowhere but in the class."""


@dataclass(frozen=True)
class Idx:
    """MNIST's idx files, or EMNIST's or Fashion-MNIST's, plain (then mapped) or .gz: in `path`, else $FEDPRIV_DATA."""

    path: str | None = None  # a directory, or DIRECTORY/emnist-balanced where it holds several sets
    divide: float = 255.0
    subtract: float = 0.0
    classes: int | None = None  # where labels do not say: one more than the largest

    def __post_init__(self) -> None:
        if self.path is not None:
            _fill_path(self)
        checked_scale(self.divide, self.subtract)
        checked_classes(self.classes)

    def load(self) -> Pool:
        """The records, checked."""
        return reading.idx(str(self.resolved().path), self.divide, self.subtract, self.classes)

    def resolved(self) -> Idx:
        """With the directory found: `path`, else $FEDPRIV_DATA, else where Debian's package puts Fashion-MNIST."""
        path = self.path or os.environ.get("FEDPRIV_DATA") or (str(DEBIAN) if DEBIAN.is_dir() else None)
        if path is None:
            raise FedprivError(
                f"Idx has no path, $FEDPRIV_DATA is not set and {DEBIAN} is not there: apt-get install "
                f"dataset-fashion-mnist, or name a directory with {FOUR_FILES}, plain or .gz"
            )
        return replace(self, path=_absolute(path))

    @property
    def where(self) -> str:
        """The directory."""
        return str(self.resolved().path)


@dataclass(frozen=True)
class Arrays:
    """Your own x.npy (mapped) and y.npy in a directory, and x_test.npy and y_test.npy or else held_out."""

    path: str
    held_out: int | None = None  # the last so many records, where there are no test files
    divide: float = 1.0
    subtract: float = 0.0
    classes: int | None = None  # where labels do not say: one more than the largest

    def __post_init__(self) -> None:
        _fill_path(self)
        if self.held_out is not None:
            whole(held_out=self.held_out)
        checked_scale(self.divide, self.subtract)
        checked_classes(self.classes)

    def load(self) -> Pool:
        """The records, checked. x stays on disk, unless it is stored column by column: then it is read once."""
        return reading.arrays(self.resolved().path, self.held_out, self.divide, self.subtract, self.classes)

    def resolved(self) -> Arrays:
        """With the directory's full path."""
        return replace(self, path=_absolute(self.path))

    @property
    def where(self) -> str:
        """The directory."""
        return self.resolved().path


@dataclass(frozen=True)
class Hub:
    """A set of the Hugging Face hub, or its formats in a directory, by Flower Datasets, which is installed apart."""

    name: str  # "ylecun/mnist", or a directory
    subset: str | None = None
    revision: str | None = None  # a commit of the hub's, to have the same records tomorrow
    features: str = "image"  # the column of what a model sees
    label: str = "label"
    train: str = "train"  # the split to train on
    test: str = "test"
    divide: float = 255.0
    subtract: float = 0.0
    classes: int | None = None  # where labels do not say: one more than the largest

    def __post_init__(self) -> None:
        for name in ("name", "subset", "revision", "features", "label", "train", "test"):
            value = getattr(self, name)
            if (value is not None or name not in ("subset", "revision")) and not (isinstance(value, str) and value):
                raise FedprivError(f"{name} must be a word, got {value!r}")
        checked_scale(self.divide, self.subtract)
        checked_classes(self.classes)

    def load(self) -> Pool:
        """The records, checked."""
        columns, splits = (self.features, self.label), (self.train, self.test)
        name = self.resolved().name
        return reading.hub(name, self.subset, self.revision, columns, splits, self.divide, self.subtract, self.classes)

    def resolved(self) -> Hub:
        """With a directory's full path."""
        return replace(self, name=_absolute(self.name)) if Path(self.name).expanduser().is_dir() else self

    @property
    def where(self) -> str:
        """The hub's name of it, with the commit where that is given, or a directory."""
        return self.resolved().name + (f"@{self.revision}" if self.revision else "")


@dataclass(frozen=True)
class Synthetic:
    """Gaussian blobs, one a class, of variance 1 around centres of variance 1: for trying and tests."""

    records: int = 1000
    features: int = 20
    classes: int = 4
    held_out: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        whole(records=self.records, features=self.features, held_out=self.held_out)
        whole(at_least=2, classes=self.classes)
        whole(at_least=0, seed=self.seed)
        if not self.classes <= self.records:
            raise FedprivError(f"classes must be at most records = {self.records}, got {self.classes}")

    def load(self) -> Pool:
        """The records, checked.

        >>> Synthetic(records=6, features=2, classes=3).load().y.tolist()
        [0, 1, 2, 0, 1, 2]
        """
        return reading.synthetic(self.records, self.features, self.classes, self.held_out, self.seed)

    def resolved(self) -> Synthetic:
        """Itself: there is nothing to find."""
        return self

    @property
    def where(self) -> None:
        """Nowhere but in the class."""


SETS: dict[str, type[Any]] = {each.__name__: each for each in (Digits, Idx, Arrays, Hub, Synthetic)}


def make_data(kind: str, settings: Mapping[str, Any]) -> Data:
    """The set of that kind with those settings, or one line that says which setting is wrong.

    >>> make_data("Digits", {"heldout": 300})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: Digits has no setting 'heldout' (did you mean 'held_out'?); settings: held_out, ...
    """
    data: Data = made("data set", SETS, kind, settings)
    return data


def _fill_path(data: Any) -> None:
    path = os.fspath(data.path) if isinstance(data.path, os.PathLike) else data.path
    if not isinstance(path, str) or not path or "\0" in path:
        raise FedprivError(f"path must name a directory, got {path!r}")
    object.__setattr__(data, "path", path)


def _absolute(path: str) -> str:
    """In full: workers are started in directories of their own."""
    try:
        return str(Path(path).expanduser().absolute())
    except RuntimeError:  # ~somebody, where there is no such person
        raise FedprivError(f"path {path!r} names a home that is not there") from None
