"""Records from a file, a row each: `.npy`, `.csv` with a header or without, Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, reason

FORMS = ".npy, .csv or .parquet"
OPEN = "a field is longer than any number: is a quotation mark left open?"
MISSING = ("", "na", "n/a", "null", "none", "-")  # which no column is called


def records_of(path: str) -> tuple[Vector, list[str] | None]:
    """The records in double precision, and the columns' names where the file has them. A single column is one number
    a record. What is not a finite number is left as it is: what becomes of it is for the estimator to say."""
    file = Path(path)
    if not path:
        raise FedprivError(f"DATA must name a file ({FORMS}), got nothing")
    if file.is_dir():
        raise FedprivError(f"{path}: is a directory, where a file was expected ({FORMS})")
    if not file.exists():
        raise FedprivError(f"{path}: there is no such file")
    readers = {".npy": _npy, ".csv": _csv, ".parquet": _parquet, ".pq": _parquet}
    if file.suffix.lower() not in readers:
        raise FedprivError(f"{path}: the name must end in {FORMS}")
    data, names = readers[file.suffix.lower()](file)
    if data.ndim == 1:
        data = data[:, None]
    if data.ndim != 2 or not data.size:
        raise FedprivError(f"{path}: must hold a table with one row a record, got the shape {data.shape}")
    return data, names


def _npy(file: Path) -> tuple[Vector, None]:
    try:
        data = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OverflowError, SyntaxError, TokenError):  # numpy would advise to unpickle it
        raise FedprivError(f"{file}: is no array of numbers in numpy's format") from None
    if not isinstance(data, np.ndarray) or data.dtype.kind not in "fiu":
        found = f"the type {data.dtype}" if isinstance(data, np.ndarray) else "several arrays"
        raise FedprivError(f"{file}: must hold one array of real numbers, got {found}")
    return doubles(data), None


def doubles(data: Any) -> Vector:
    """In double precision; a number too large is infinite, and warned of nobody: a warning would tell."""
    with np.errstate(over="ignore"):
        return np.asarray(data, np.float64)


def _csv(file: Path) -> tuple[Vector, list[str] | None]:
    """numpy's reader, which is quick; where it stumbles the place is looked for, field by field."""
    names, skipped = _header(file)
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a file without rows, which is refused below
            data = np.loadtxt(lines, delimiter=",", comments=None, skiprows=skipped, ndmin=2, quotechar='"')
    except ValueError:
        try:
            why = _fault(file, names, skipped) or "is no table of numbers"
        except csv.Error:
            why = OPEN
        raise FedprivError(f"{file}: {why}") from None
    if names is not None and data.size and data.shape[1] != len(names):
        raise FedprivError(f"{file}: the header names {len(names)} columns, but the rows have {data.shape[1]}")
    if data.shape[1] == 1 and (line := _blank(file, skipped)):  # numpy's reader would leave a record out
        raise FedprivError(f"{file}: line {line} is empty, where a missing number is written nan")
    return data, names


def _blank(file: Path, skipped: int) -> int | None:
    """The first empty line that has another below it."""
    empty = None
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if number > skipped and not line.strip():
                empty = empty or number
            elif empty:
                return empty
    return None


def _header(file: Path) -> tuple[list[str] | None, int]:
    """The names in the first line that is not empty, if those are no numbers; and how many lines go before the data."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = csv.reader(lines)
            for row in rows:
                if row:
                    return _named(file, [field.strip() for field in row], rows.line_num)
    except UnicodeDecodeError:
        raise FedprivError(f"{file}: is no text in UTF-8") from None
    except csv.Error:
        raise FedprivError(f"{file}: {OPEN}") from None
    raise FedprivError(f"{file}: is empty")


def _named(file: Path, row: list[str], line: int) -> tuple[list[str] | None, int]:
    if len(row) == 1 and any(mark in row[0] for mark in ";\t"):
        raise FedprivError(f"{file}: fields must be separated by commas")
    if any(_is_number(field) for field in row):
        return None, 0
    if any(field.lower() in MISSING for field in row):
        raise FedprivError(f"{file}: line {line} holds no numbers and no names: a missing number is written nan")
    return row, line


def _fault(file: Path, names: list[str] | None, skipped: int) -> str | None:
    """The first field that is no number, or the first row that is shorter or longer than those before it."""
    width = None if names is None else len(names)
    with file.open(encoding="utf-8-sig", newline="", errors="replace") as lines:
        rows = csv.reader(lines)
        for row in rows:
            if not row or rows.line_num <= skipped:
                continue
            width = width or len(row)
            for place, field in enumerate(row[:width], 1):
                if not _is_number(field):
                    own = names[place - 1] if names else ""
                    name = f" ({own})" if own and own.isascii() and not any(map(str.isdigit, own)) else ""
                    # what stands there is private
                    what = "text" if field.strip() else "nothing, where a missing number is written nan"
                    return f"line {rows.line_num}, column {place}{name} must be a number, got {what}"
            if len(row) != width:
                fields = f"{len(row)} field{'s' * (len(row) != 1)}"
                return f"line {rows.line_num} has {fields}, where {width} were expected"
    return None


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field and field.isascii()


def _parquet(file: Path) -> tuple[Vector, list[str]]:
    try:
        import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
        import pyarrow.parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise FedprivError(
            f"{file}: Parquet needs pyarrow (pip install pyarrow); .npy and .csv are read without it"
        ) from None
    try:
        table: Any = pyarrow.parquet.read_table(file)
    except (pyarrow.ArrowException, ValueError) as error:
        raise FedprivError(f"{file}: cannot be read as Parquet ({reason(error)})") from None
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not (pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)):
            raise FedprivError(f"{file}: column {name!r} must hold numbers, got {column.type}")
        columns.append(doubles(column.to_numpy()))  # a missing one is nan
    return np.stack(columns, axis=1) if columns else np.empty((0, 0)), list(table.column_names)
