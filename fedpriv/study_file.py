"""Reading a study: TOML to frozen dataclasses, strict about keys, with `table.key=value` overrides."""

from __future__ import annotations

import json
import tomllib
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from math import inf
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from fedpriv.errors import FedprivError, nearest
from fedpriv.study import Kind, Study

Table = dict[str, Any]


def parsed(content: str, *, name: str = "study", overrides: Iterable[str] = ()) -> Study:
    """The study of a TOML text, after its overrides; errors name `name` and the dotted path.

    >>> parsed('data.kind = "Digits"', overrides=["clients.count=10", "run.rounds=2"]).clients.count
    10
    >>> parsed('data.kind = "Digits"', overrides=["clients.cuont=10"])
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: study: clients has no key 'cuont' (did you mean 'count'?)
    """
    try:
        table = tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FedprivError(f"{name}: not TOML: {error}") from None
    try:
        for override in overrides:
            _override(table, override)
        table.setdefault("name", Path(name).stem)
        study: Study = _made(Study, table, "")
        return study
    except FedprivError as error:
        raise FedprivError(f"{name}: {error}") from None


def read(source: str, overrides: Iterable[str] = ()) -> Study:
    """The study of a file, or of that name among those that ship with fedpriv, or of a TOML text."""
    if "\n" in source:
        return parsed(source, overrides=overrides)
    path = found(source)
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise FedprivError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    return parsed(content, name=path.name, overrides=overrides)


def found(source: str) -> Path:
    """Where a study is: a file, else one that ships."""
    path = Path(source)
    if "\0" not in source and (path.is_file() or path.suffix == ".toml" or len(path.parts) != 1):
        return path
    ships = shipped()
    if source not in ships:
        hint = nearest(source, ships)
        raise FedprivError(f"no study {source!r}{hint}: a file, or one of {', '.join(ships)}")
    return ships[source]


def shipped() -> dict[str, Path]:
    """The studies that come with fedpriv, by name."""
    folder = Path(__file__).parent.parent / "simulations" / "studies"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def text(study: Study) -> str:
    """The whole study as TOML, defaults filled in: `parsed(text(study)) == study`."""
    return "\n".join(_lines(study.table(), "")) + "\n"


def _override(table: Table, words: str) -> None:
    path, equals, value = words.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise FedprivError(f"--set takes table.key=value, got {words!r}")
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise FedprivError(f"--set {path.strip()}: {key} is not a table")
    new = _value(value.strip())
    if keys[-1] == "kind" and table.get("kind") not in (None, new):
        table.clear()  # the settings were another class's
    table[keys[-1]] = new


def _value(words: str) -> Any:
    """A TOML value; a bare word is a string."""
    try:
        return tomllib.loads(f"value = {words}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError, KeyError):
        return words


def _made(cls: type[Any], table: Mapping[str, Any], path: str) -> Any:
    """One dataclass of one table."""
    known, hints = [each.name for each in fields(cls)], get_type_hints(cls)
    given: Table = {}
    where = path or "the study"
    for key, value in table.items():
        if key not in known:
            raise FedprivError(f"{where} has no {'key' if path else 'table'} {key!r}{nearest(key, known)}")
        given[key] = _fitting(hints[key], value, f"{path}.{key}" if path else key)
    for each in fields(cls):
        if each.default is MISSING and each.default_factory is MISSING and each.name not in given:
            table_like = not path and each.name != "name"
            raise FedprivError(f"{where} needs {f'a [{each.name}] table' if table_like else each.name}")
    try:
        return cls(**given)
    except FedprivError as error:
        raise FedprivError(f"{path}: {error}" if path else str(error)) from None


def _fitting(hint: Any, value: Any, path: str) -> Any:
    """The value as its field's type, or an error."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for option in options:
        if option is Kind or hasattr(option, "__dataclass_fields__"):
            if not isinstance(value, dict):
                raise FedprivError(f"{path} must be a table, got {value!r}")
            return _kind(value, path) if option is Kind else _made(option, value, path)
        if get_origin(option) is Literal:
            return value  # the dataclass checks which words it knows
        if option is float and type(value) in (int, float):
            return float(value) if int not in options else value
        if type(value) is option:
            return value
    names = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
    raise FedprivError(f"{path} must be {next(names[o] for o in options if o in names)}, got {value!r}")


def _kind(table: Table, path: str) -> Kind:
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise FedprivError(f'{path} needs kind = "…", got {kind!r}')
    return Kind(kind, {key: value for key, value in table.items() if key != "kind"})


def _lines(table: Mapping[str, Any], path: str) -> list[str]:
    """A table's own keys first, then its tables."""
    lines = [f"[{path}]"] if path else []
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    lines += [f"{_key(key)} = {_toml(value)}" for key, value in table.items() if key not in inner]
    for key, value in inner.items():
        lines += ["", *_lines(value, f"{path}.{_key(key)}" if path else _key(key))]
    return lines


def _key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else json.dumps(key)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and (value != value or value in (inf, -inf)):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)
