"""Data that somebody has in Python as a study's pool: arrays, a torch or a Hugging Face data set; whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from clients.data.pool import MOST_CLASSES, Pool, Records, Stored, own_pool, pool_of
from clients.data.users import numbered_users
from fedpriv._base.arrays import Numbers
from fedpriv.errors import FAULTS, FedprivError, nearest_hint, positive, real, reason, whole, whole_from
from fedpriv.population.dealing import shuffled_numbers
from fedpriv.randomness.streams import stream

KEYS = ("x", "y", "x_test", "y_test", "clients", "held_out", "divide", "subtract", "classes")
FORMS = (
    "(x, y) or (x, y, x_test, y_test) of arrays, a dict of them by name, a torch.utils.data.Dataset or a "
    "datasets.Dataset, or (train, test) of two"
)
LABELS = ("label", "labels")  # what a column of labels is called, where no type says so
HELD_OUT = 5  # every fifth record, by lot, where nobody says which are held out

Columns = tuple[str, str]


def pool_in_memory(data: Any, columns: Columns | None = None, clients: Any = None) -> Pool:
    """The pool of data that fp.run was given, checked; `columns` name features and labels, `clients` whose each is.

    >>> pool = pool_in_memory((np.eye(10), np.arange(10) % 2), clients=["a", "b"] * 5)
    >>> len(pool), len(pool.y_test), pool.owners.tolist()
    (8, 2, [0, 1, 0, 0, 0, 1, 0, 1])
    """
    found = _named(data, columns, clients)
    scale = {"divide": found.get("divide", 1.0), "subtract": found.get("subtract", 0.0)}
    positive(divide=scale["divide"])
    real(subtract=scale["subtract"])
    if (classes := found.get("classes")) is not None:
        whole_from(2)(classes=classes)
    own = Records(_array(found["x"], "x"), _array(found["y"], "y"), "x", "y")
    if not (own.x.ndim and own.y.ndim):
        raise FedprivError(f"must be {FORMS}; got a single number")
    own_pool(own, **scale, classes=MOST_CLASSES)  # before they are parted, so that an error counts as they stand
    ids = found.get("clients") if clients is None or isinstance(clients, str) else clients
    count, rows = len(own.x), np.arange(len(own.x))
    if "x_test" in found:
        held = Records(_array(found["x_test"], "x_test"), _array(found["y_test"], "y_test"), "x_test", "y_test")
    else:
        rows, apart = _parted(count, found.get("held_out"))
        own, held = (Records(own.x[some], own.y[some], "x", "y") for some in (rows, apart))
    owners = None if ids is None else numbered_users(_array(ids, "clients"), count, "clients", rows)
    return replace(pool_of(own, held, **scale, classes=classes), owners=owners)


def _named(data: Any, columns: Columns | None, clients: Any) -> dict[str, Any]:
    """The parts of data that fp.run was given, by the names of KEYS, whichever form they came in; x and y at least."""
    if isinstance(data, Mapping) and set(data) >= {"train", "test"}:  # a DatasetDict
        data = (data["train"], data["test"])
    elif isinstance(data, Mapping):
        for key in data:
            if key not in KEYS:
                hint = nearest_hint(str(key), KEYS)
                raise FedprivError(f"{key!r} is no part of data{hint}; they are {', '.join(KEYS)}")
        if not {"x", "y"} <= set(data) or ("x_test" in data) != ("y_test" in data):
            raise FedprivError(f"x and y are needed, and y_test with x_test; got {', '.join(data) or 'none'}")
        _no_columns(columns, clients)
        return dict(data)
    if isinstance(data, tuple) and len(data) in (2, 4) and not any(map(_is_set, data)):
        _no_columns(columns, clients)
        return dict(zip(KEYS, data, strict=False))
    several = data if isinstance(data, tuple) else (data,)
    if not (1 <= len(several) <= 2 and all(map(_is_set, several))):
        raise FedprivError(f"must be {FORMS}; got {type(data).__name__}")
    found = _read(several[0], columns, clients)
    if len(several) == 2:
        named = isinstance(clients, str) and clients in getattr(several[1], "column_names", ())
        held = _read(several[1], columns, clients if named else None)
        found |= {"x_test": held["x"], "y_test": held["y"]}
    return found


def _no_columns(columns: Columns | None, clients: Any) -> None:
    """Refuse names of columns beside data that have none."""
    if columns is not None or isinstance(clients, str):
        raise FedprivError("columns are a Hugging Face data set's: of other data, clients= is an array of ids")


def _is_set(data: Any) -> bool:
    """Whether somebody's data are a data set with records by number, torch's or Hugging Face's, and no array."""
    array = isinstance(data, list | tuple | Mapping | str | bytes) or hasattr(data, "dtype") or hasattr(data, "columns")
    return not array and hasattr(data, "__getitem__") and hasattr(data, "__len__")


def _read(data: Any, columns: Columns | None, clients: Any) -> dict[str, Any]:
    """Features, labels, and ids where `clients` names their column, of a torch or a Hugging Face data set."""
    try:
        if hasattr(data, "column_names"):
            if columns is not None and not (isinstance(columns, tuple | list) and len(columns) == 2):
                raise FedprivError(f"columns are the names of features and labels, got {columns!r}")
            chosen = dict(zip(("x", "y"), columns or _columns(data, clients), strict=True))
            chosen |= {"clients": clients} if isinstance(clients, str) else {}
            for name in chosen.values():
                if name not in data.column_names:
                    raise FedprivError(f"there is no column {name!r}{nearest_hint(name, data.column_names)}")
            rows = data.with_format("numpy")[:]
            return {part: rows[name] for part, name in chosen.items()}
        _no_columns(columns, clients)
        return _stacked(data)
    except FedprivError:
        raise
    except FAULTS as error:
        raise FedprivError(f"{type(data).__name__} cannot be read: {reason(error)}") from error


def _columns(data: Any, clients: Any) -> Columns:
    """Which columns of a Hugging Face data set are features and labels, where nobody says and only one way fits."""
    typed = [name for name, kind in data.features.items() if type(kind).__name__ == "ClassLabel"]
    labels = typed or [name for name in data.column_names if name in LABELS]
    features = [
        name for name in data.column_names if name not in labels and not (isinstance(clients, str) and name == clients)
    ]
    if len(labels) != 1 or len(features) != 1:
        raise FedprivError(
            f"which of the columns {', '.join(data.column_names)} are features and labels is not clear: "
            "columns = (features, labels)"
        )
    return features[0], labels[0]


def _stacked(data: Any) -> dict[str, Any]:
    """The records of a torch Dataset, one after another, as two arrays; one that is no (x, y) is named."""
    pairs = list[tuple[Any, Any]]()
    for place in range(len(data)):
        try:
            x, y = data[place]
            pairs.append((_array(x, "x"), _array(y, "y")))
        except FAULTS as error:
            raise FedprivError(
                f"record {place} of the {len(data)} that {type(data).__name__} says it has is no (x, y): "
                f"{reason(error)}"
            ) from None
        if (shape := pairs[-1][0].shape) != pairs[0][0].shape:
            raise FedprivError(f"record {place} has the shape {shape}, the first one {pairs[0][0].shape}")
    return {"x": [x for x, _ in pairs], "y": [y for _, y in pairs]}


def _array(values: Any, name: str) -> Stored:
    """Somebody's values as an array that nothing here can change: numpy's, a tensor's, a list's, an image's."""
    if np.ma.isMaskedArray(values):
        raise FedprivError(f"{name}: is a masked array, whose mask nothing here knows: fill it or leave records out")
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        found = (np.ascontiguousarray(values) if np.ndim(values) else np.asarray(values)).view()
    except FAULTS as error:
        raise FedprivError(f"{name}: is no array: {reason(error)}") from None
    found.flags.writeable = False
    return found


def _parted(count: int, held_out: Any) -> tuple[Numbers, Numbers]:
    """The numbers of records to train on and of those held out, by lot, which no record's content has a part in."""
    held = max(1, count // HELD_OUT) if held_out is None else held_out
    whole(held_out=held)
    if not held < count:
        raise FedprivError(f"held_out must be below the {count:,} records there are, got {held}")
    order = shuffled_numbers(count, stream(0, "held out"))
    return np.sort(order[int(held) :]), np.sort(order[: int(held)])
