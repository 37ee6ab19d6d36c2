"""What fp.run was given in Python, within reach of whoever runs the study, and compared when a run goes on."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from clients.training.given import PLACES, Given
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.given import FILE, MODULE, ONCE, bare_name, held_objects
from server.directory import STUDY


@contextmanager
def within_reach(given: Given, *, alone: bool) -> Iterator[None]:
    """While it lasts, a run's study finds what it was given: in this process, and in those that are started from it.

    What nothing tells from others is named on standard error, for no run can go on with it.
    """
    if given.unknown:
        named = ", ".join(f"{name}=" for name in given.unknown)
        print(f"fedpriv: nothing tells {named} from another object, so this run cannot be resumed", file=sys.stderr)
    with held_objects(given.objects):
        if alone or not given.objects:
            yield
            return
        with TemporaryDirectory(prefix="fedpriv-") as folder:
            file, before = Path(folder) / "given", os.environ.get(FILE)
            file.write_bytes(_packed(given.objects))
            os.environ[FILE] = str(file)
            try:
                yield
            finally:
                os.environ.pop(FILE)
                os.environ.update({} if before is None else {FILE: before})


def _packed(objects: Any) -> bytes:
    """What a run was given as bytes for its workers; refused where an object cannot be sent to another process."""
    dumps: Callable[[Any], bytes] = import_module("cloudpickle").dumps  # not Ray's, which reads its settings on import
    try:
        return dumps(dict(objects))
    except FAULTS as error:
        raise FedprivError(
            f"what fp.run was given cannot be sent to other processes ({reason(error)}): put it in a file as a class, "
            "which the study names as module:Class, or run in this process: driver = 'direct', without workers"
        ) from None


def check_given_again(directory: Path, given: Given) -> None:
    """Refuse to go on with a run unless it is given in Python what it was given at its beginning, naming what differs.

    A directory that holds no run is left to whoever reads it.
    """
    try:
        study = tomllib.loads((directory / STUDY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    for word, path in PLACES.items():
        table: Any = study
        for key in path.split("."):
            table = table.get(key, {}) if isinstance(table, dict) else {}
        own = given.settings.get(path, {})
        was, now = (str(each.get("path", each.get("kind", ""))) for each in (table, own))
        if was.startswith(f"{MODULE}:") and not now:
            if ONCE in was:
                raise FedprivError(f"{directory}: was begun with {word}= that nothing tells from others: begin it anew")
            raise FedprivError(
                f"{directory}: was begun with {word}=, {bare_name(was)}: give it again, fp.resume(…, {word}=…)"
            )
        if now and now != was:
            there = f"{word}= {bare_name(was)}" if was.startswith(MODULE) else f"{word} {was or 'none'}"
            raise FedprivError(f"{directory}: was begun with {there}, and this is {bare_name(now)}: another run's")
