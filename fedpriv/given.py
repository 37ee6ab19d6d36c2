"""Objects that a Python session gives `fp.run` beside a study, which names each of them `fedpriv.given:NAME`.

A study is text, and these are what its words stand for in this process: a class, or what makes a model. To every part
of the project they are a `module:Class` like any other, and the end of a name is a digest of the object, so that
another object is another study. Workers that are started for a run read them from a file, as `FEDPRIV_GIVEN` says.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedpriv.errors import FAULTS, FedprivError, reason

MODULE = "fedpriv.given"
FILE = "FEDPRIV_GIVEN"  # of the environment: the file in which workers find what was given
ONCE = "once"  # begins the end of a name where nothing tells the object from others: it is drawn
NAMED = re.compile(rf"\w+_(?:[0-9a-f]{{16}}|{ONCE}[0-9a-f]{{12}})")
_HELD: dict[str, Any] = {}


@contextmanager
def held_objects(objects: Mapping[str, Any]) -> Iterator[None]:
    """While it lasts, a run's study finds these objects by their names; afterwards this process keeps none of them.

    >>> with held_objects({"Half_0123456789abcdef": dict}):
    ...     from fedpriv.given import Half_0123456789abcdef
    >>> Half_0123456789abcdef
    <class 'dict'>
    """
    new = objects.keys() - _HELD.keys()
    _HELD.update(objects)
    try:
        yield
    finally:
        for name in new:
            _HELD.pop(name, None)


def bare_name(kind: str) -> str:
    """The name of an object that a run was given, without the module that stands for all of them; any other as it is.

    >>> bare_name("fedpriv.given:Half_0123456789abcdef")
    'Half_0123456789abcdef'
    """
    return kind.removeprefix(f"{MODULE}:")


def load_given() -> None:
    """Have a run's worker, this process, find what fp.run was given in another; refused where it cannot be made."""
    if (file := os.environ.get(FILE)) is None:
        return
    try:
        _HELD.update(pickle.loads(Path(file).read_bytes()))
    except FAULTS as error:
        raise FedprivError(
            f"what fp.run was given cannot be made in another process ({reason(error)}): put its class in a file "
            "beside the study and name it there as module:Class, or run in one process: driver = 'direct', no workers"
        ) from None


def __getattr__(name: str) -> Any:
    """The object that a study names `fedpriv.given:NAME`; one that nobody gave this process is an error of a line."""
    if name in _HELD:
        return _HELD[name]
    if not NAMED.fullmatch(name):
        raise AttributeError(f"module {MODULE!r} has no attribute {name!r}")
    load_given()
    if name not in _HELD:
        raise FedprivError(
            f"{name} is an object that a Python session gave fp.run, and this process was not given it: "
            "fp.resume, fp.run and Run.model take it again (model=, data=, rule=, attack=)"
        )
    return _HELD[name]
