"""Numbers from a CSV file, with a header or without; of what cannot be read errors say where it is, and not what."""

from __future__ import annotations

import csv
import warnings
from itertools import chain, pairwise
from pathlib import Path
from typing import TextIO

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError

OPEN = "a field is longer than any number: is a quotation mark left open?"
MISSING = ("", "na", "n/a", "null", "none", "-")  # what stands for a number that is not there: no column's name


def csv_records(file: Path) -> tuple[Vector, list[str] | None]:
    """The records of `fedpriv estimate` from a CSV file, a row each, and its columns' names if it has a header.

    numpy's reader is quick; where it stumbles the place is looked for, field by field.
    """
    names, skipped = _header(file)
    try:
        with _opened(file) as lines, warnings.catch_warnings():
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
    if data.shape[1] == 1:  # numpy's reader would leave out an empty line that stands for a record
        with file.open(encoding="utf-8-sig") as lines:
            filled = (number for number, line in enumerate(lines, 1) if number > skipped and line.strip())
            for before, number in pairwise(chain([skipped], filled)):
                if number > before + 1:
                    raise FedprivError(f"{file}: line {before + 1} is empty, where a missing number is written nan")
    return data, names


def _opened(file: Path, errors: str = "strict") -> TextIO:
    """A CSV file of records opened as text, without the mark by which spreadsheets begin; csv ends its lines."""
    return file.open(encoding="utf-8-sig", newline="", errors=errors)


def _first_row(file: Path) -> tuple[list[str], int]:
    """The fields of a CSV file's first line that is not empty, and that line's number: perhaps its header."""
    try:
        with _opened(file) as lines:
            rows = csv.reader(lines)
            return [field.strip() for field in next(filter(None, rows), [])], rows.line_num
    except UnicodeDecodeError:
        raise FedprivError(f"{file}: is no text in UTF-8") from None
    except csv.Error:
        raise FedprivError(f"{file}: {OPEN}") from None


def _header(file: Path) -> tuple[list[str] | None, int]:
    """A CSV file's column names, where its first line holds no number; and how many lines go before the records."""
    row, line = _first_row(file)
    if not row:
        raise FedprivError(f"{file}: is empty")
    if len(row) == 1 and any(mark in row[0] for mark in ";\t"):
        raise FedprivError(f"{file}: fields must be separated by commas")
    if any(_is_number(field) for field in row):
        return None, 0
    if any(field.lower() in MISSING for field in row):
        raise FedprivError(f"{file}: line {line} holds no numbers and no names: a missing number is written nan")
    return row, line


def _no_number(place: int, names: list[str] | None, field: str) -> str:
    """The words of an error about a CSV field that is no number: its column; its text is private, so not told."""
    own = names[place - 1] if names else ""
    name = f" ({own})" if own and own.isascii() and not any(map(str.isdigit, own)) else ""
    what = "text" if field.strip() else "nothing, where a missing number is written nan"
    return f"column {place}{name} must be a number, got {what}"


def _fault(file: Path, names: list[str] | None, skipped: int) -> str | None:
    """Why numpy could not read a CSV file of records: the line of the first bad field or of a row of other length."""
    width = None if names is None else len(names)
    with _opened(file, errors="replace") as lines:
        rows = csv.reader(lines)
        for row in rows:
            if not row or rows.line_num <= skipped:
                continue
            width = width or len(row)
            for place, field in enumerate(row[:width], 1):
                if not _is_number(field):
                    return f"line {rows.line_num}, {_no_number(place, names, field)}"
            if len(row) != width:
                fields = f"{len(row)} field{'s' * (len(row) != 1)}"
                return f"line {rows.line_num} has {fields}, where {width} were expected"
    return None


def _is_number(field: str) -> bool:
    """Whether a field of a CSV file of records is a number as numpy reads them, nan and inf included."""
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field and field.isascii()
