"""Tables of numbers as files for programs: CSV, and Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedpriv.errors import FedprivError

Table = tuple[Sequence[str], Sequence[Sequence[Any]]]  # what the columns are called, and the rows


def csv_bytes(table: Table) -> bytes:
    """A report's table as a CSV file: floats in full; nothing where nothing is known.

    >>> csv_bytes((["round", "accuracy"], [[1, 0.5], [2, None]]))
    b'round,accuracy\\n1,0.5\\n2,\\n'
    """
    head, rows = table
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue().encode()


def parquet_bytes(table: Table) -> bytes:
    """A report's table as a Parquet file, a type a column: text where any of its values is."""
    try:
        import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from pyarrow import parquet  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise FedprivError("--parquet needs pyarrow: pip install 'fedpriv[parquet]'; --csv works without it") from None
    head, rows = table
    columns = {}
    for place, name in enumerate(head):
        values = [row[place] for row in rows]
        words = any(isinstance(each, str) for each in values)
        columns[name] = [None if each is None else str(each) for each in values] if words else values
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


FORMATS: Mapping[str, Callable[[Table], bytes]] = {"csv": csv_bytes, "parquet": parquet_bytes}
