"""A model of Flower's, which is arrays by name, as one vector: of those that are trained, in the order they came in."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from warnings import catch_warnings, simplefilter

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError

KEPT_HOME = ("running_mean", "running_var")  # ends of the names of what a client measures of its own records


@dataclass(frozen=True)
class Layout:
    """Which arrays of a model are trained, and where each of them stands in the vector of all.

    >>> model = ArrayRecord({"w": Array(np.ones((2, 2), np.float32)), "seen": Array(np.array(3))})
    >>> layout = Layout.of(model)
    >>> layout.names, layout.dimension, layout.vector(model)
    (('w',), 4, array([1., 1., 1., 1.]))
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(model: ArrayRecord, frozen: Collection[str] = ()) -> Layout:
        """The layout of a model: its float arrays but for those in `frozen` and what is measured of a client's data."""
        own = {
            name: tuple(array.shape)
            for name, array in model.items()
            if name not in frozen and not name.endswith(KEPT_HOME) and _is_real(name, array)
        }
        if missing := set(frozen) - set(model):
            raise FedprivError(f"frozen names {sorted(missing)[0]!r}, which is no array of the model: {_some(model)}")
        if not sum(map(prod, own.values())):
            raise FedprivError(f"the model has no float array to train: {_some(model)}")
        return Layout(tuple(own), tuple(own.values()))

    @cached_property
    def dimension(self) -> int:
        """How many numbers the vector of all trained arrays has, which a ledger is charged for."""
        return sum(map(prod, self.shapes))

    def left_out(self, model: ArrayRecord) -> list[str]:
        """The names of a model's arrays that stay as the server sent them."""
        return [name for name in model if name not in self.names]

    def vector(self, model: ArrayRecord) -> Vector:
        """A model's trained arrays as one vector; refused where one is missing, of another shape, or not of floats."""
        parts: list[Vector] = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            if name not in model:
                raise FedprivError(f"the arrays lack {name!r}, got {_some(model)}")
            try:
                found = np.asarray(model[name].numpy())
            except (ValueError, TypeError, EOFError, OSError) as error:  # its bytes are not numpy's
                raise FedprivError(f"array {name!r} of the model cannot be read ({str(error)[:80]})") from None
            if found.shape != shape or found.dtype.kind != "f":
                raise FedprivError(f"array {name!r} must be floats of shape {shape}, got {found.dtype} {found.shape}")
            parts.append(found.astype(np.float64).reshape(-1))
        return np.concatenate(parts)

    def moved(self, model: ArrayRecord, direction: Vector) -> ArrayRecord:
        """The model with a direction added to its trained arrays, as the strategy inside is handed it."""
        return self._with(model, self.vector(model) + direction)

    def restored(self, sent: ArrayRecord, found: ArrayRecord) -> ArrayRecord:
        """What the strategy inside made of a model, in the types that were sent; all that is not trained as sent."""
        return self._with(sent, self.vector(found))

    def _with(self, model: ArrayRecord, vector: Vector) -> ArrayRecord:
        """A model whose trained arrays are those of a vector, each in the type that it has there."""
        parts = np.split(vector, np.cumsum([prod(shape) for shape in self.shapes])[:-1])
        with np.errstate(over="ignore"):
            own = {
                name: Array(part.reshape(shape).astype(model[name].dtype))
                for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
            }
        return ArrayRecord({name: own.get(name, array) for name, array in model.items()})


def update_between(sent: Vector, returned: Vector) -> NDArray[np.float32]:
    """A client's update as a row: what it returned less what it was sent; what is too large for a float32 is ∞."""
    with np.errstate(all="ignore"):
        return np.asarray((returned - sent).astype(np.float32))[None]


@contextmanager
def unmoved_by_app() -> Iterator[None]:
    """A context in which a message is drawn as if the app had told numpy and Python to raise nothing."""
    with np.errstate(all="ignore"), catch_warnings():
        simplefilter("ignore")
        yield


def _is_real(name: str, array: Array) -> bool:
    """Whether an array of a model holds real numbers, by its header; one that numpy has not written is refused."""
    try:
        if array.stype != "numpy.ndarray":
            raise TypeError(f"written as {array.stype!r}")
        return np.dtype(array.dtype).kind == "f"
    except TypeError as error:
        raise FedprivError(f"array {name!r} of the model must be numpy's, got {str(error)[:80]}") from None


def _some(model: ArrayRecord) -> str:
    """The first names of a model's arrays, for an error."""
    return ", ".join(map(repr, list(model)[:6])) + (", …" if len(model) > 6 else "") or "none"
