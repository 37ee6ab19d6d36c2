"""A table of a study that names a class: `kind` is the class's name, the rest are its settings."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from fedpriv.errors import FAULTS, FedprivError, nearest
from fedpriv.tables import native

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
    settings = fitted(cls, settings)
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


def fitted(cls: type[Any] | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the class has them, whoever wrote them: Python's own numbers, floats where it wants floats.

    So settings that are equal make equal objects, and are written alike.

    >>> from fedpriv.participation import Poisson
    >>> fitted(Poisson, {"rate": 1})
    {'rate': 1.0}
    """
    wanted = frozenset[str]() if cls is None else _floats(cls)  # type: ignore[arg-type]  # mypy takes no class for hashable
    own = {name: native(value) for name, value in settings.items()}
    return {
        name: float(value) if name in wanted and type(value) is int and abs(value) < 2**1000 else value
        for name, value in own.items()
    }


@cache
def _floats(cls: type[Any]) -> frozenset[str]:
    """The fields of a dataclass that are floats, and not whole numbers as well."""
    if not is_dataclass(cls):
        return frozenset()
    try:
        hints = get_type_hints(cls)
    except FAULTS:  # somebody's own class, whose types are none of ours
        return frozenset()
    kinds = {each.name: get_args(hints[each.name]) or (hints[each.name],) for each in fields(cls)}
    return frozenset(name for name, options in kinds.items() if float in options and int not in options)


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
