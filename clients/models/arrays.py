"""The arrays that go in and out of a model, and the checks they come with: one line, before anything is computed."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedpriv.errors import FedprivError

Floats = NDArray[np.float32]
Labels = NDArray[np.int64 | np.float32]  # class numbers, or numbers
Keys = NDArray[np.int64]
Counts = NDArray[np.int64]


class Sizes(Protocol):
    """What the checks ask of a model."""

    shape: tuple[int, ...]  # of one record
    classes: int
    label_type: np.dtype[Any]  # int64 of classes, float32 of numbers
    dimension: int  # the number of weights


def check_arrays(
    model: Sizes, weights: Floats, x: Floats, y: Labels, out: Floats, keys: Keys | None, counts: Counts | None
) -> None:
    """Refuse arrays of the wrong type or shape for the gradients of clients, before a net computes any."""
    check_array("weights", weights, np.float32, (model.dimension,))
    _check_inputs(x, ("clients", "records"), model.shape)
    check_array("y", y, model.label_type, x.shape[:2])
    check_array("out", out, np.float32, (len(x), model.dimension))
    if not out.flags.writeable or (out.size and out.strides[1] != out.itemsize):
        raise FedprivError("out must be writable, with each row in one piece")
    if keys is not None:
        check_array("keys", keys, np.int64, (len(x),))
    if counts is not None:
        check_array("counts", counts, np.int64, (len(x),))
        if counts.size and not (counts.min() >= 0 and counts.max() <= x.shape[1]):
            raise FedprivError(f"counts must be from 0 to {x.shape[1]}, got {counts.min()} to {counts.max()}")


def check_records(model: Sizes, weights: Floats, x: Floats, y: Labels) -> None:
    """Refuse arrays of the wrong type or shape, or labels beyond the classes, before a net's accuracy is measured."""
    check_array("weights", weights, np.float32, (model.dimension,))
    _check_inputs(x, ("records",), model.shape)
    check_array("y", y, model.label_type, x.shape[:1])
    if y.dtype == np.int64 and not (y.min() >= 0 and y.max() < model.classes):
        raise FedprivError(f"y must be in 0 to {model.classes - 1}, got {y.min()} to {y.max()}")


def check_array(name: str, value: Any, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
    """Refuse what is not an array of that type and shape, by its name: of all that goes into a net.

    >>> check_array("y", np.zeros(3), np.int64, (3,))
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: y must be int64 of shape (3), got float64 of shape (3)
    """
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.shape != shape:
        raise FedprivError(f"{name} must be {np.dtype(dtype)} of shape {_written(shape)}, got {_kind(value)}")


def _check_inputs(x: Any, lead: tuple[str, ...], shape: tuple[int, ...]) -> None:
    """Refuse x that is not float32 records of a net's shape behind the axes `lead`, or holds no record."""
    right = isinstance(x, np.ndarray) and x.dtype == np.float32 and x.ndim == len(lead) + len(shape)
    if not right or x.shape[len(lead) :] != shape:
        raise FedprivError(f"x must be float32 of shape {_written((*lead, *shape))}, got {_kind(x)}")
    if not x.shape[len(lead) - 1] > 0:
        raise FedprivError(f"x must hold at least one record, got {_kind(x)}")


def _kind(value: Any) -> str:
    """What a value is, in words for a refusal: its type, and of an array the shape."""
    if not isinstance(value, np.ndarray):
        return f"a {type(value).__name__}"
    return f"{value.dtype} of shape {_written(value.shape)}"


def _written(shape: tuple[Any, ...]) -> str:
    """A shape in words for a refusal, such as (clients, records, 64)."""
    return f"({', '.join(map(str, shape))})"
