"""The JSON Schema of a study, made of its tables and families: what editors complete by and check by.

It refuses nothing that a study may say, and of a single setting all that its declaration refuses; how settings go
together, a study says itself when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from math import isfinite
from typing import Any, get_args, get_origin

from fedpriv.registry import Kind, Registry
from fedpriv.releases.kept import KEPT
from fedpriv.settings import Setting, settings_of
from fedpriv.studies.kinds import CARRIERS, RELEASES
from fedpriv.studies.study import Study

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}
Schema = dict[str, Any]


def study_schema(families: Iterable[Registry[Any]]) -> Schema:
    """The JSON Schema of a study's file, for `fedpriv schema`, given every family that it may choose from.

    >>> study_schema([])["properties"]["run"]["required"]
    ['rounds']
    """
    study = _table(Study)
    study["required"].remove("name")  # the file's
    word = {"enum": list(KEPT), "description": "the model EncodedCnn, and the release of that name"}
    study["properties"]["training"] = {"anyOf": [study["properties"]["training"], word]}
    study["properties"]["sweep"] = {"type": "object", "description": "what a grid of studies varies: fedpriv sweep"}
    definitions = {family.noun: _family(family) for family in families}
    used = repr([study, definitions])
    definitions = {noun: own for noun, own in definitions.items() if f"'#/$defs/{noun}'" in used}
    return {"$schema": DIALECT, "title": "a study of fedpriv", **study, "$defs": definitions}


def setting_schema(setting: Setting) -> Schema:
    """The JSON Schema of one setting of a study; tables with a kind are references to their family's.

    >>> from fedpriv.mechanisms import Gaussian
    >>> setting_schema(settings_of(Gaussian)[0])
    {'description': 'c, the ℓ2 norm of an input', 'type': 'number', 'exclusiveMinimum': 0}
    """
    noun = "" if setting.family is None else setting.family.noun
    options: list[Schema] = []
    for option in setting.options:
        options.append(_type(option.type, noun))
        for constraint in option.constraints:
            options[-1] |= constraint.schema
    found: Schema = options[0] if len(options) == 1 else {"anyOf": options}
    default = setting.default
    if isinstance(default, bool | int | str) or (isinstance(default, float) and isfinite(default)):
        found["default"] = default
    return {"description": setting.sentence, **found}


def _table(cls: type[Any]) -> Schema:
    """The JSON Schema of a study's table of fixed keys, such as [run], from its dataclass."""
    return {
        "type": "object",
        "properties": {own.name: setting_schema(own) for own in settings_of(cls)},
        "required": [own.name for own in settings_of(cls) if own.needed],
        "additionalProperties": False,
    }


def _family(family: Registry[Any]) -> Schema:
    """The JSON Schema of a study's table with a kind: any of a family, or a class of one's own where allowed."""
    members = [_member(family, kind) for kind in family]
    own = {
        "description": f"a {family.noun} of one's own, at module:Class",
        "properties": {"kind": {"type": "string", "pattern": ":"}},
        "required": ["kind"],
    }
    return {"type": "object", "anyOf": members if family.proof else [*members, own]}


def _member(family: Registry[Any], kind: str) -> Schema:
    """The JSON Schema of a study's table where its kind is this class: its settings, and those it needs."""
    cls = family[kind]
    settings = (*settings_of(cls), *family.beside, *getattr(cls, "read_once", ()))
    told: Schema = {}
    for own in settings:  # what need not be said beside a kind's own of that name: either may be meant
        found = setting_schema(own)
        told[own.name] = {"anyOf": [told[own.name], found]} if own.name in told and not own.needed else found
    filled = {own.name for own in settings} if family in (CARRIERS, RELEASES) else {getattr(cls, "assumes", None)}
    needed = [own.name for own in settings if own.needed and own.name not in filled]  # one may be calibrated
    return {
        "title": kind,
        "description": (cls.__doc__ or "").split("\n")[0],
        "properties": {"kind": {"const": kind}, **told},
        "required": needed if family is RELEASES and kind in KEPT else ["kind", *needed],  # `training` may say it
        "additionalProperties": False,
    }


def _type(kind: Any, noun: str) -> Schema:
    """The JSON Schema of a Python type as a study's settings have them: number, text, list, table, or a kind."""
    if kind is Kind:
        return {"$ref": f"#/$defs/{noun}"}
    if kind in TYPES:
        return {"type": TYPES[kind]}
    if isinstance(kind, type) and is_dataclass(kind):
        return _table(kind)
    if get_origin(kind) in (tuple, Sequence):
        return {"type": "array", "items": _type(get_args(kind)[0], noun)}
    return {"type": "object"} if get_origin(kind) is Mapping else {}
