"""Records from a file, a row each: `.npy`, `.csv`, and Parquet where pyarrow is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, reason
from simulations.cli._estimate_csv import csv_records

FORMS = ".npy, .csv or .parquet"


def doubles(data: ArrayLike) -> Vector:
    """A file's numbers in double precision, for `fedpriv estimate`; too large ones are infinite, without a warning."""
    with np.errstate(over="ignore"):
        return np.asarray(data, np.float64)


def _npy(file: Path) -> tuple[Vector, None]:
    """The records of `fedpriv estimate` from an .npy file, in double precision; its columns have no names."""
    try:
        data = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OverflowError, SyntaxError, TokenError):  # numpy would advise to unpickle it
        raise FedprivError(f"{file}: is no array of numbers in numpy's format") from None
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "fiu":
        found = f"the type {data.dtype}" if isinstance(data, np.ndarray) else "several arrays"
        raise FedprivError(f"{file}: must hold one array of real numbers, got {found}")
    return doubles(data), None


def _imported_pyarrow(file: Path) -> Any:
    """The package pyarrow, to read a Parquet file of records by; one line says where it is not installed."""
    try:
        import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise FedprivError(
            f"{file}: Parquet needs pyarrow (pip install pyarrow); .npy and .csv are read without it"
        ) from None
    return pyarrow


def _parquet(file: Path) -> tuple[Vector, list[str]]:
    """The records of `fedpriv estimate` from a Parquet file, in double precision, and its columns' names."""
    pyarrow = _imported_pyarrow(file)
    try:
        table = pyarrow.parquet.read_table(file)
    except (pyarrow.ArrowException, ValueError) as error:
        raise FedprivError(f"{file}: cannot be read as Parquet ({reason(error)})") from None
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not (pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)):
            raise FedprivError(f"{file}: column {name!r} must hold numbers, got {column.type}")
        columns.append(doubles(column.to_numpy()))  # a missing one is nan
    return np.stack(columns, axis=1) if columns else np.empty((0, 0)), list(table.column_names)


READERS: dict[str, Callable[[Path], tuple[Vector, list[str] | None]]] = {  # by the ending of the file's name
    ".npy": _npy,
    ".csv": csv_records,
    ".parquet": _parquet,
    ".pq": _parquet,
}


def records_of(path: str) -> tuple[Vector, list[str] | None]:
    """The records that `fedpriv estimate DATA` reads, as a table of doubles, and its columns' names if there are any.

    A single column is one number a record. What is not a finite number is left as it is: what becomes of it is for the
    estimator to say.
    """
    file = Path(path)
    if not path:
        raise FedprivError(f"DATA must name a file ({FORMS}), got nothing")
    if file.is_dir():
        raise FedprivError(f"{path}: is a directory, where a file was expected ({FORMS})")
    if not file.exists():
        raise FedprivError(f"{path}: there is no such file")
    if (reader := READERS.get(file.suffix.lower())) is None:
        raise FedprivError(f"{path}: the name must end in {FORMS}")
    data, names = reader(file)
    data = data[:, None] if data.ndim == 1 else data
    if data.ndim != 2 or not data.size:
        raise FedprivError(f"{path}: must hold a table with one row a record, got the shape {data.shape}")
    return data, names
