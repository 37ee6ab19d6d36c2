"""A table of probabilities from a CSV file: first `level` and the symbols' values, then a row a level."""

from __future__ import annotations

import csv
from typing import Any

from fedpriv._base.own_modules import beside_study
from fedpriv.errors import FedprivError

LARGEST = 1 << 22  # bytes


def read_table(name: object) -> dict[str, Any]:
    """The levels, chances and values that a file holds; no values where its first row gives names in their place."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise FedprivError(f"file must name a CSV file, got {name!r}")
    path = beside_study(name)
    try:
        if path.stat().st_size > LARGEST:
            raise FedprivError(f"{name}: {path.stat().st_size:,} bytes are too many for a table: at most {LARGEST:,}")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise FedprivError(f"{name}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    rows = [(at, row) for at, row in enumerate(csv.reader(text.splitlines()), 1) if any(map(str.strip, row))]
    if not rows or rows[0][1][0].strip().lower() != "level":
        raise FedprivError(f"{name}: its first row must be `level` and the value of each symbol, then a row a level")
    (_, head), *body = rows
    for at, row in body:
        if len(row) != len(head):
            raise FedprivError(f"{name}, line {at}: {len(head) - 1} chances after the level, got {len(row) - 1}")
    numbers = [[_number(cell, f"{name}, line {at}") for cell in row] for at, row in body]
    found: dict[str, Any] = {"levels": [row[0] for row in numbers], "chances": [row[1:] for row in numbers]}
    if any(map(_is_number, head[1:])):
        found["values"] = [_number(cell, f"{name}, line 1") for cell in head[1:]]
    return found


def _is_number(cell: str) -> bool:
    """Whether a cell of a Table's CSV file is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(cell: str, where: str) -> float:
    """A cell of a Table's CSV file as a number, refused by its line and column."""
    if not _is_number(cell):
        raise FedprivError(f"{where}: must hold numbers, got {cell.strip()[:40]!r}")
    return float(cell)
