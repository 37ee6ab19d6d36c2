"""What every table of a study does when it is made: its values are brought to their types, then checked."""

from __future__ import annotations

from fedpriv.registry import Kind, Registry, fitted_settings
from fedpriv.settings import check_fields, settings_of


def settle_table(table: object) -> None:
    """Settle a study's table as it is made: numbers Python's own, floats where wanted, known classes too; checked."""
    families = {own.name: own.family for own in settings_of(type(table))}
    for name, value in fitted_settings(type(table), {each: getattr(table, each) for each in families}).items():
        known = isinstance(value, Kind) and isinstance(families[name], Registry)
        object.__setattr__(table, name, families[name].settled(value) if known else value)
    check_fields(table)
