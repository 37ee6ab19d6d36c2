"""What every table of a study does: its values brought to their types and checked; written out again."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fedpriv.registry import Kind, Registry, fitted_settings
from fedpriv.settings import check_fields, settings_of


def settle_table(table: object) -> None:
    """Settle a study's table as it is made: numbers Python's own, floats where wanted, known classes too; checked."""
    families = {own.name: own.family for own in settings_of(type(table))}
    for name, value in fitted_settings(type(table), {each: getattr(table, each) for each in families}).items():
        known = isinstance(value, Kind) and isinstance(families[name], Registry)
        object.__setattr__(table, name, families[name].settled(value) if known else value)
    check_fields(table)


def table_of(value: Any) -> dict[str, Any]:
    """A dataclass of a study as a table of plain values, those within it too; None left out."""
    found: dict[str, Any] = {}
    for each in fields(value):
        own = getattr(value, each.name)
        if isinstance(own, Kind):
            found[each.name] = own.table()
        elif hasattr(own, "__dataclass_fields__"):
            found[each.name] = table_of(own)
        elif own is not None:
            found[each.name] = own
    return found
