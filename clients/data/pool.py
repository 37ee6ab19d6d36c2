"""A data set in memory or mapped from disk, and the batches of it that a cohort trains on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError, limited, positive, real, whole_from

Stored = NDArray[Any]  # features as they lie in memory or on disk: any real type
Features = NDArray[np.float32]

LARGEST = float(np.finfo(np.float32).max)
MOST_CLASSES = 1 << 16  # a larger label is no class number but a slip, and would make a model of its size
FEW_CLASSES = 100  # a model of so many costs nothing, whatever part of them has records
_BLOCK = 1 << 17  # bytes gathered at a time: they stay in the cache while they are scaled


@dataclass(frozen=True, eq=False)
class Pool:
    """Training records as they are stored, and held-out ones ready for use. A model is given x / divide − subtract.

    >>> x, y = np.array([[0], [51], [255]], np.uint8), np.array([0, 1, 1])
    >>> pool = Pool(x=x, y=y, x_test=np.zeros((1, 1), np.float32), y_test=y[:1], classes=2, divide=255.0, subtract=0.0)
    >>> pool.batch(np.array([[2, 1], [0, 0]]))[0].tolist()
    [[[1.0], [0.20000000298023224]], [[0.0], [0.0]]]
    """

    x: Stored  # features to train on as they are stored, (records, *shape)
    y: Stored  # their labels: class numbers, int64 from 0 to below `classes`; or numbers, float32
    x_test: Features  # held-out features as a model sees them
    y_test: Stored  # their labels
    classes: int  # 0 where labels are numbers
    divide: float  # public constants, not worked out from the data
    subtract: float
    held: Stored | None = None  # held-out features as they are stored; None where nobody stored them otherwise
    owners: Numbers | None = None  # whose each training record is, from client 0 on; None where the data do not say
    aside: Pool | None = None  # records set aside for the server: no client's, and none of the test's
    features: Mapping[str, Any] | None = (
        None  # what x was made by, and of records of which shape; None: x is the records
    )
    known: dict[str, str] = field(default_factory=dict, init=False, repr=False)  # what has been worked out of the rest

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one training record, for which a study's model is built."""
        return self.x.shape[1:]

    @property
    def outputs(self) -> int:
        """How many outputs a study's model has for these labels: one a class, or one where they are numbers."""
        return self.classes or 1

    def __len__(self) -> int:
        """How many records there are to train on, those held out aside."""
        return len(self.y)

    def batch(self, indices: Numbers, out: Features | None = None) -> tuple[Features, Stored]:
        """A cohort's batch: the records of those numbers as a model sees them, (clients, records, *shape), and labels.

        Into `out` where it is given, unless they stand one after another as the model wants them: then where they are.
        """
        indices = np.asarray(indices)
        if indices.ndim != 2 or indices.dtype.kind not in "iu":
            raise FedprivError(f"indices must be whole numbers (clients, records), got {indices.dtype} {indices.shape}")
        if indices.size and not (indices.min() >= 0 and indices.max() < len(self)):
            raise FedprivError(f"indices must be from 0 to {len(self) - 1}, got {indices.min()} to {indices.max()}")
        shape = (*indices.shape, *self.shape)
        flat, plain = indices.reshape(-1), self.x.dtype == np.float32 and (self.divide, self.subtract) == (1, 0)
        if plain and flat.size and flat[-1] - flat[0] == flat.size - 1 and (np.diff(flat) == 1).all():
            standing: Features = np.asarray(self.x[int(flat[0]) : int(flat[-1]) + 1])
            return standing.reshape(shape), self.y[indices]
        if out is None:
            out = np.empty(shape, np.float32)
        elif out.shape != shape or out.dtype != np.float32 or not out.flags.c_contiguous:
            raise FedprivError(f"out must be float32 of shape {shape} in C order, got {out.dtype} of {out.shape}")
        stored, rows = np.asarray(self.x), out.reshape(indices.size, *self.shape)
        step = max(1, _BLOCK // max(1, stored[:1].nbytes))
        buffer = np.empty((min(step, indices.size), *self.shape), stored.dtype)
        for start in range(0, indices.size, step):
            chosen = flat[start : start + step]
            gathered = np.take(stored, chosen, axis=0, out=buffer[: len(chosen)], mode="clip")  # "raise" would copy
            scaled_features(gathered, self.divide, self.subtract, rows[start : start + step])
        return out, self.y[indices]


def scaled_features(stored: Stored, divide: float, subtract: float, out: Features | None = None) -> Features:
    """Records as a model sees them, x / divide − subtract in float32; by float64 where float32 cannot hold x."""
    kind = np.result_type(stored.dtype, np.float32).type
    if kind is np.float32:
        result: Features = np.divide(stored, kind(divide), out=out)
        result -= kind(subtract)
        return result
    values = stored / kind(divide) - kind(subtract)
    if out is None:
        return np.asarray(values.astype(np.float32))
    out[...] = values
    return out


class Records(NamedTuple):
    """Features and labels that nobody has looked at yet, and what to call each in an error."""

    x: Stored
    y: Stored
    x_name: str
    y_name: str


Divide = Annotated[
    float,
    positive,
    limited("must be between 1e-30 and 1e30", least=1e-30, most=1e30),  # what float32 can hold
    "a model sees x / divide − subtract",
]
Subtract = Annotated[
    float,
    real,
    limited("must be between -1e30 and 1e30", least=-1e30, most=1e30),
    "a model sees x / divide − subtract",
]
Classes = Annotated[
    int | None,
    whole_from(2),
    limited(most=MOST_CLASSES),
    "how many classes there are, where labels do not say; one more than the largest if not given",
]
Labels = Annotated[Literal["classes", "numbers"], "what labels are: class numbers from 0, or numbers of any kind"]


def pool_of(
    training: Records, held_out: Records, divide: float, subtract: float,
    classes: int | None = None, labels: Labels = "classes",
) -> Pool:  # fmt: skip
    """The pool of a data set just read, for a study: every value and label checked, or refused in one line.

    Of class numbers there are as many classes as are said, else one more than the largest label.
    """
    for records in (training, held_out):
        _check_features(records, divide, subtract)
    if training.x.shape[1:] != held_out.x.shape[1:]:
        raise FedprivError(
            f"{held_out.x_name}: records of shape {held_out.x.shape[1:]}, "
            f"where those of {training.x_name} have {training.x.shape[1:]}"
        )
    y, y_test = (checked_labels(records, labels) for records in (training, held_out))
    if labels == "numbers":
        classes = 0
    elif classes is None:
        classes = _counted(training, held_out, y, y_test)
    else:
        _check_below(training, y, classes)
        _check_below(held_out, y_test, classes)
    x_test = scaled_features(held_out.x, divide, subtract)
    return Pool(training.x, y, x_test, y_test, classes, float(divide), float(subtract), held_out.x)


def _counted(training: Records, held_out: Records, y: Numbers, y_test: Numbers) -> int:
    """How many classes a data set's labels tell, one more than the largest; refused where that cannot be meant."""
    classes = int(y.max()) + 1
    if not y.min() < y.max():
        raise FedprivError(f"{training.y_name}: every label is {y[0]}; a classifier needs two classes at least")
    if not y_test.max() < classes:
        raise FedprivError(
            f"{held_out.y_name}: label {y_test.max()} does not occur in training; its labels are 0 to {classes - 1}"
        )
    here = np.flatnonzero(np.bincount(y))
    if classes > FEW_CLASSES and 2 * len(here) < classes:
        before, after = next((low, high) for low, high in pairwise([-1, *here.tolist()]) if high > low + 1)
        raise FedprivError(
            f"{training.y_name}: its labels go up to {classes - 1}, but {classes - len(here):,} of those {classes:,} "
            f"classes have no record, {before + 1} to {after - 1} first: number the {len(here):,} that have from 0, or "
            f"say classes = {classes}"
        )
    return classes


def _check_below(records: Records, y: Numbers, classes: int) -> None:
    """Refuse a data set with a label that is not below the `classes` its study names."""
    if not y.max() < classes:
        place = int(np.argmax(y >= classes))
        raise FedprivError(f"{records.y_name}: label {place} is {y[place]}, where classes = {classes}")


def _check_features(records: Records, divide: float, subtract: float) -> None:
    """Refuse a data set that is no records with a label each, or with values float32 cannot hold as a model sees them.

    Every value must be finite as it is stored and as float32.
    """
    x, y = records.x, records.y
    if x.dtype.kind not in "fiub":
        raise FedprivError(f"{records.x_name}: features must be real numbers, got {x.dtype}")
    if x.ndim < 2 or 0 in x.shape[1:]:
        raise FedprivError(f"{records.x_name}: features must be (records, …), none of them zero, got {x.shape}")
    if y.ndim != 1:
        raise FedprivError(f"{records.y_name}: labels must be one number a record, got an array of shape {y.shape}")
    if len(x) != len(y):
        raise FedprivError(f"{records.x_name} holds {len(x)} records, but {records.y_name} holds {len(y)} labels")
    if not len(x):
        raise FedprivError(f"{records.x_name}: it holds no record")
    if x.dtype.kind != "f" and 2.0 ** (8 * x.dtype.itemsize) / divide + abs(subtract) <= LARGEST:
        return  # no value of that type can be too large
    _check_values(records, divide, subtract)


def _check_values(records: Records, divide: float, subtract: float) -> None:
    """Refuse a data set with a value that float32 cannot hold as a model sees it, naming record and value."""
    x = records.x
    step = max(1, (1 << 22) // x[:1].nbytes)  # a block at a time, so that a mapped file stays on disk
    for start in range(0, len(x), step):
        block = np.asarray(x[start : start + step])
        ends = [float(end) / divide - subtract for end in (block.min(), block.max())]
        if ends[0] >= -LARGEST and ends[1] <= LARGEST:  # nan fails both
            continue
        values = block.reshape(len(block), -1)
        with np.errstate(over="ignore"):
            wrong = ~(np.abs(values.astype(np.float64) / divide - subtract) <= LARGEST)
        row, column = np.argwhere(wrong)[0]
        raise FedprivError(
            f"{records.x_name}: record {start + row} holds {values[row, column]}; "
            f"every value must be finite, and so must it be as float32 after / {divide:g} − {subtract:g}"
        )


def checked_labels(records: Records, labels: Labels) -> Stored:
    """A data set's labels as int64, refused where one is no class number 0, 1, 2, …; numbers as float32, if finite."""
    y = records.y
    if y.dtype.kind not in "fiub":
        kinds = "numbers" if labels == "numbers" else "whole numbers from 0"
        raise FedprivError(f"{records.y_name}: labels must be {kinds}, got {y.dtype}")
    if labels == "numbers":
        with np.errstate(over="ignore"):
            found = y.astype(np.float32)
        if not (finite := np.isfinite(found)).all():
            place = int(np.argmin(finite))
            raise FedprivError(f"{records.y_name}: label {place} is {y[place]}, and float32 must hold it, finite")
        return found
    with np.errstate(invalid="ignore"):
        wrong = ~((y >= 0) & (y < MOST_CLASSES) & (np.floor(y) == y))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise FedprivError(
            f"{records.y_name}: label {place} is {y[place]}; labels are class numbers 0, 1, 2, … below {MOST_CLASSES}, "
            'unless the data set says labels = "numbers"'
        )
    return y.astype(np.int64)


def own_pool(training: Records, divide: float, subtract: float, classes: int) -> Pool:
    """The pool of a node's own training records: each is checked by itself, and nothing is told from all of them.

    How many there are, which classes occur and what is held out says something of each record. So there may be none,
    the labels of a few classes only, and no test set. `classes` is 0 where labels are numbers.
    """
    if len(training.x) or len(training.y) or training.x.ndim < 2:
        _check_features(training, divide, subtract)
    y = checked_labels(training, "classes" if classes else "numbers")
    if classes and (wrong := y >= classes).any():
        place = int(np.argmax(wrong))
        raise FedprivError(
            f"{training.y_name}: record {place} has label {y[place]}, and this node's policy says classes = {classes}: "
            f"labels are 0 to {classes - 1}"
        )
    none = np.zeros((0, *training.x.shape[1:]), np.float32)
    return Pool(training.x, y, none, y[:0], classes, float(divide), float(subtract))
