"""Nested tables: by dotted path, and as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from fedpriv.errors import FedprivError

Table = dict[str, Any]


def native_values(value: Any) -> Any:
    """A value of a study with Python's own numbers for numpy's, and lists for arrays and tuples: equals read alike.

    >>> native_values({"clip": np.float64(1.0), "maps": np.array([4, 8]), "sizes": (np.int64(3),)})
    {'clip': 1.0, 'maps': [4, 8], 'sizes': [3]}
    """
    if isinstance(value, Mapping):
        return {native_values(key): native_values(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [native_values(each) for each in value]
    if isinstance(value, np.longdouble):
        return float(value)  # whose own item is itself
    if isinstance(value, np.generic | np.ndarray):
        return native_values(value.tolist()) if isinstance(value, np.ndarray) else value.item()
    return value


def toml_text(table: Mapping[str, Any]) -> str:
    """A study, or other nested tables, as the text of a TOML file."""
    return "\n".join(_lines(table, "")) + "\n"


def flat_table(table: Mapping[str, Any], path: str = "") -> Table:
    """A study's settings by dotted path, such as `run.seed`. A table with a kind is one value: all of what it names.

    >>> flat_table({"run": {"seed": 1}, "privacy.epsilon": 4.0, "attack": {"kind": "SignFlip"}})
    {'run.seed': 1, 'privacy.epsilon': 4.0, 'attack': {'kind': 'SignFlip'}}
    """
    found: Table = {}
    for key, value in table.items():
        place = f"{path}.{key}" if path else key
        inner = isinstance(value, dict) and value and "kind" not in value
        found |= flat_table(value, place) if inner else {place: value}
    return found


def leaf_table(table: Mapping[str, Any], joint: str, path: str = "") -> Table:
    """Nested tables, such as a study's or a line of its records, as one: names joined by `joint`, no tables within.

    >>> leaf_table({"run": {"seed": 1}, "attack": {"kind": "SignFlip"}}, "_")
    {'run_seed': 1, 'attack_kind': 'SignFlip'}
    """
    found: Table = {}
    for key, value in table.items():
        place = f"{path}{joint}{key}" if path else str(key)
        found |= leaf_table(value, joint, place) if isinstance(value, Mapping) else {place: value}
    return found


def put_setting(table: Table, path: str, value: Any) -> None:
    """Set in place what a dotted path names in a study, as `--set` does; a new kind drops the old one's settings."""
    *above, last = path.split(".")
    for key in above:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise FedprivError(f"{path}: {key} is not a table")
    if last == "kind" and table.get("kind") not in (None, value):
        table.clear()  # the settings were another class's
    table[last] = value


def _lines(table: Mapping[str, Any], path: str) -> list[str]:
    """The lines of a table in a TOML file: its own keys first, then its tables, each under a heading by its path."""
    lines = [f"[{path}]"] if path else []
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    lines += [f"{_key(key)} = {inline_toml(value)}" for key, value in table.items() if key not in inner]
    for key, value in inner.items():
        lines += ["", *_lines(value, f"{path}.{_key(key)}" if path else _key(key))]
    return lines


def _key(key: str) -> str:
    """A key as TOML has it: in quotes where it holds more than letters, digits, - and _."""
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else json.dumps(key)


def inline_toml(value: Any) -> str:
    """A setting's value as TOML writes it in one line, tables in braces: for study files and `fedpriv list`.

    >>> inline_toml({"kind": "Nnm", "byzantine": 3})
    '{kind = "Nnm", byzantine = 3}'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and (value != value or value in (inf, -inf)):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {inline_toml(each)}' for key, each in value.items())}}}"
    return repr(value)
