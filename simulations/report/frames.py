"""Lines of records as one table of flat columns: a pandas DataFrame where pandas is there, else a dict of lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from fedpriv._base.tables import leaf_table

COUNTS = ("rejected", "failed")  # tallies by reason: a reason that is not named is 0


def flat_columns(lines: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Lines, such as those of a run's rounds, as columns: what stands in a table within one has a name with a dot.

    >>> lines = [{"round": 1, "epsilon": {"upper": 2.0}, "failed": {}}]
    >>> flat_columns([*lines, {"round": 2, "epsilon": None, "failed": {"late": 3}}])
    {'round': [1, 2], 'epsilon.upper': [2.0, None], 'failed.late': [0, 3]}
    """
    rows = [leaf_table(line, ".") for line in lines]
    names = dict.fromkeys(name for row in rows for name in row)
    within = {name.rpartition(".")[0] for name in names}  # a table that some lines lack is no column beside its own
    names = {name: None for name in names if name not in within}
    return {name: [row.get(name, 0 if name.partition(".")[0] in COUNTS else None) for row in rows] for name in names}


def data_frame(lines: Sequence[Mapping[str, Any]]) -> Any:
    """Lines of a run or a sweep as a pandas DataFrame of flat columns; a dict of columns where there is no pandas."""
    columns = flat_columns(lines)
    try:
        return import_module("pandas").DataFrame(columns)
    except ImportError:
        return columns
