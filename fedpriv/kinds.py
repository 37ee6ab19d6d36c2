"""A table of a study that names a class: `kind` is the class's name, the rest are its settings."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from fedpriv.errors import FAULTS, FedprivError, nearest

WHERE = "it must be installed or on PYTHONPATH, beside the study's file or in the directory one is in"


def made(noun: str, kinds: Mapping[str, type[Any]], kind: Any, settings: Mapping[str, Any]) -> Any:
    """The object of that kind with those settings, or one line that says which of them is wrong.

    A kind written `module:Class` is imported: anybody's own class that keeps to the same protocol.

    >>> from fractions import Fraction
    >>> made("fraction", {"Fraction": Fraction}, "Fractoin", {})
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: unknown fraction 'Fractoin' (did you mean 'Fraction'?); fractions: Fraction
    """
    if isinstance(kind, str) and ":" in kind:
        cls = imported(noun, kind)
    elif isinstance(kind, str) and kind in kinds:
        cls = kinds[kind]
    else:
        hint = nearest(str(kind), kinds)
        raise FedprivError(f"unknown {noun} {kind!r}{hint}; {noun}s: {', '.join(kinds)}")
    return built(kind, cls, settings)


def built(kind: str, cls: type[Any], settings: Mapping[str, Any]) -> Any:
    """The object of a class, its settings checked by name; errors begin with its kind."""
    if is_dataclass(cls):
        _check(kind, cls, settings)
    try:
        return cls(**settings)
    except FedprivError as error:
        raise FedprivError(f"{kind}: {error}") from None
    except TypeError as error:
        raise FedprivError(f"{kind}: settings {', '.join(settings) or 'none'} do not fit ({error})") from None
    except FAULTS as error:
        if ":" not in kind:  # a class of ours: its fault is for us to see
            raise
        raise FedprivError(f"{kind} cannot be made: {_line(error)}") from error


def imported(noun: str, path: str) -> type[Any]:
    """The class at `module:Class`."""
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except FAULTS as error:
        where = f"; {WHERE}" if isinstance(error, ModuleNotFoundError) else ""
        raise FedprivError(f"{noun} {path!r} cannot be imported: {_line(error)}{where}") from None
    if not isinstance(found, type):
        raise FedprivError(f"{noun} {path!r} is not a class")
    return found


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _check(kind: str, cls: type[Any], settings: Mapping[str, Any]) -> None:
    known = [each.name for each in fields(cls)]
    for name in settings:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise FedprivError(f"{kind} has no setting {name!r}{nearest(str(name), known)}; settings: {listed}")
    needed = [each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING]
    if missing := [name for name in needed if name not in settings]:
        raise FedprivError(f"{kind} needs {', '.join(missing)}; settings: {', '.join(known)}")
