"""Objects that fp.run is given beside a study: the settings that name them there, and what the names stand for.

What ships with fedpriv is written into the study as if it stood in its file. Anything else is known there by a digest,
so that a run of other objects is a run of another study; what nothing tells from others gets a name for once.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass
from hashlib import blake2b
from inspect import Parameter, signature
from typing import Any

from clients.data import DATA_SETS
from clients.data.identity import data_digest
from clients.data.memory import Columns, pool_in_memory
from clients.models import MODELS
from fedpriv._base.digests import object_digest
from fedpriv.attacks import ATTACKS
from fedpriv.errors import FAULTS, FedprivError, reason
from fedpriv.given import MODULE, ONCE
from fedpriv.registry import Registry
from fedpriv.studies.kinds import RULES

PLACES = {"model": "training.model", "data": "data", "rule": "aggregation", "attack": "attack"}  # tables of a study
SELF = Parameter("self", Parameter.POSITIONAL_ONLY)


@dataclass(frozen=True, eq=False)
class Given:
    """What a run was given in Python beside its study."""

    settings: Mapping[str, Any]  # of the study, by dotted path: they name the objects
    objects: Mapping[str, Any]  # by the names in the settings: classes, and what makes a model

    @property
    def models(self) -> dict[str, Any]:
        """What makes the model, by its name in the study: what a finished run needs to show what it has learnt."""
        path = str(self.settings.get(PLACES["model"], {}).get("path", ""))
        return {name: made for name, made in self.objects.items() if path == f"{MODULE}:{name}"}

    @property
    def unknown(self) -> list[str]:
        """The arguments of fp.run whose objects nothing tells from others, so that no run goes on with them."""
        return [name for name, path in PLACES.items() if ONCE in str(self.settings.get(path))]


def given_objects(
    *,
    model: object = None,
    data: object = None,
    rule: object = None,
    attack: object = None,
    clients: Any = None,
    columns: Columns | None = None,
) -> Given:
    """What a run is given beside its study, those that are None left out: named, checked, and copied from its owner."""
    if data is None and (clients is not None or columns is not None):
        raise FedprivError("clients= and columns= say what data= are: give that too")
    settings, objects = dict[str, Any](), dict[str, Any]()
    if model is not None:
        own = _shipped(MODELS, model)
        if own is None:
            name, objects[name] = given_model(model)
            own = {"kind": "Module", "path": f"{MODULE}:{name}"}
        settings[PLACES["model"]] = own
    for family, made in ((RULES, rule), (ATTACKS, attack)):
        if made is not None:
            settings[PLACES[family.noun]], held = _given_kind(family, made)
            objects |= held
    if data is not None:
        found, held = ({}, {}) if (own := _shipped(DATA_SETS, data)) else _given_data(data, columns, clients)
        settings, objects = settings | {PLACES["data"]: own} | found, objects | held
    return Given(settings, objects)


def given_model(model: object) -> tuple[str, Callable[..., Any]]:
    """The name of a torch module, or of what makes one, and what makes it: a copy each time, as it is now."""
    from torch import nn  # only where there is a model

    if isinstance(model, nn.Module):
        with _told("model"):
            own = deepcopy(model).train()
        return _name(type(model).__name__, object_digest(own)), lambda: deepcopy(own)
    if not callable(model):
        raise FedprivError(f"model is a torch.nn.Module or what makes one, such as its class; got {model!r}"[:200])
    return _name(getattr(model, "__name__", type(model).__name__), object_digest(model)), model


def _given_kind(family: Registry[Any], made: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The study's table for a rule or an attack that fp.run was given, and the class behind it, if it is one's own."""
    if (own := _shipped(family, made)) is not None:
        return own, {}
    if isinstance(made, str | Mapping):
        raise FedprivError(
            f"{family.noun} is an object or a class, got {made!r}: one by its name stands in the study, "
            f"overrides={{'{PLACES[family.noun]}.kind': …}}"
        )
    with _told(family.noun):
        cls = made if isinstance(made, type) else _class_around(deepcopy(made))
    name = _name(getattr(made, "__name__", cls.__name__), object_digest(made))
    return {"kind": f"{MODULE}:{name}"}, {name: cls}


def _given_data(data: object, columns: Columns | None, clients: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The study's settings for data that fp.run was given, of its clients too where ids say them, and their class."""
    with _told("data"):
        pool = pool_in_memory(data, columns, clients)
    scale = f"{data_digest(pool)} {pool.classes} {pool.divide!r} {pool.subtract!r}"
    name = _name(
        "arrays" if isinstance(data, tuple | dict) else type(data).__name__,
        blake2b(scale.encode(), digest_size=8).hexdigest(),
    )
    settings: dict[str, Any] = {PLACES["data"]: {"kind": f"{MODULE}:{name}"}}
    if pool.owners is not None:
        count = int(pool.owners.max()) + 1
        settings |= {"clients.count": count, "clients.split": "natural"}
    return settings, {name: type(type(data).__name__, (), {"load": lambda _: pool, "where": None})}


def _shipped(family: Registry[Any], made: object) -> dict[str, Any] | None:
    """The table of a study for a class that ships with fedpriv, or for an object of one; None for any other."""
    cls = made if isinstance(made, type) else type(made)
    if cls not in family.values():
        return None
    own = fields(made) if is_dataclass(made) and not isinstance(made, type) else ()
    values = {each.name: getattr(made, each.name) for each in own if each.init}
    return {"kind": cls.__name__} | {name: value for name, value in values.items() if value is not None}


def _class_around(made: Any) -> type[Any]:
    """A class whose objects do what an object, or a function, of one's own does: a study names classes alone."""
    own = {name: getattr(made, name) for name in dir(made) if not name.startswith("_")}
    if callable(made):
        own["__call__"] = made
    return type(
        type(made).__name__, (), {name: _method(each) if callable(each) else each for name, each in own.items()}
    )


def _method(call: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a class that leaves itself aside and calls that; its arguments are told as that one's are."""

    def called(_: object, *arguments: Any, **named: Any) -> Any:
        """What the function, or the method of the object that fp.run was given, gives for these arguments."""
        return call(*arguments, **named)

    with suppress(ValueError, TypeError):  # written in C, without a signature
        own = signature(call)
        called.__signature__ = own.replace(parameters=[SELF, *own.parameters.values()])  # type: ignore[attr-defined]
    return called


def _name(word: str, digest: str | None) -> str:
    """The name of an object in fedpriv.given: what it is called, and its digest, or drawn letters where it has none."""
    return f"{re.sub(r'[^0-9A-Za-z]', '', word) or 'object'}_{digest or ONCE + secrets.token_hex(6)}"


@contextmanager
def _told(what: str) -> Iterator[None]:
    """A context in which what is wrong with an object that fp.run was given is one line that begins with its name."""
    try:
        yield
    except FedprivError as error:
        raise FedprivError(f"{what}: {error}") from None
    except FAULTS as error:
        raise FedprivError(f"{what}: cannot be copied: {reason(error)}") from error
