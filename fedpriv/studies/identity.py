"""What makes two studies the same: every setting that differs from its default, and nothing else.

A setting that is added later, with a default, changes no id: studies that leave it out stay who they were. A default
that changes its value, or a setting that changes its meaning, needs a new format. Ids say nothing of data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from hashlib import blake2b
from typing import Any

from fedpriv._base.tables import native_values
from fedpriv.aggregation import STEPS
from fedpriv.aggregation.optimisers import OPTIMISERS
from fedpriv.attacks import ATTACKS
from fedpriv.attacks.corruption import CORRUPTIONS
from fedpriv.errors import FedprivError
from fedpriv.population.dealing import SPLITS
from fedpriv.population.participation import PARTICIPATIONS
from fedpriv.registry import Kind, Registry, fitted_settings
from fedpriv.studies.kinds import ANSWERS, CARRIERS, RELEASES, RULES

FORMAT = 1  # of ids; 0 hashed every setting, its default or not, in the order of the tables
Table = dict[str, Any]

KNOWN: Mapping[str, Registry[Any]] = {  # by path: families whose defaults are known here; those of clients/ are not
    "clients.split": SPLITS,
    "clients.participation": PARTICIPATIONS,
    "privacy.mechanism": CARRIERS,
    "privacy.release": RELEASES,
    "corruption": CORRUPTIONS,
    "attack": ATTACKS,
    "aggregation": RULES,
    "aggregation.before": STEPS,
    "server.optimiser": OPTIMISERS,
    "evaluation.mechanism": ANSWERS,
    "training.optimiser": OPTIMISERS,
}


def id_of(study: Any) -> bytes:
    """A study's id, eight bytes that frames and ledgers bear: a hash of what differs from the defaults, in no order.

    >>> from fedpriv.studies.file import parsed_study
    >>> id_of(parsed_study('data.kind = "Digits"', overrides=["clients.count=10", "run.rounds=2"])).hex()
    '2c958e5a5427c9b3'
    """
    return blake2b(identity_text(study).encode(), digest_size=8).digest()


def whose_study(study_format: int) -> str:
    """What an error calls the study of a ledger or checkpoint with another id: another one, or of another format."""
    return "another study" if study_format == FORMAT else f"a study of format {study_format}, this one's is {FORMAT}"


def identity_text(study: Any) -> str:
    """All that a study's id is a hash of, as text: equal for two studies exactly where they ask for the same."""
    return _text([FORMAT, differing_settings(study)])


def differing_settings(study: Any) -> Table:
    """A study's settings that differ from their defaults, as nested tables: what its id is made of.

    >>> from fedpriv.studies.file import parsed_study
    >>> study = parsed_study('data.kind = "Digits"', overrides=["clients={count=10, byzantine=0}", "run.rounds=2"])
    >>> differing_settings(study)
    {'name': 'study', 'data': {'kind': 'Digits'}, 'clients': {'count': 10}, 'run': {'rounds': 2}}
    """
    return _differing(study, "")


def _differing(table: Any, path: str) -> Table:
    """What differs from the defaults in one table of a study, tables within it too, for its id."""
    found: Table = {}
    for each in fields(table):
        place = f"{path}.{each.name}" if path else each.name
        own = _written(getattr(table, each.name), place)
        if own is not None and not (_has_default(each) and _text(own) == _text(_written(_default(each), place))):
            found[each.name] = own
    return found


def _written(value: Any, path: str) -> Any:
    """One setting as a study's id has it, its tables without what is their default."""
    if isinstance(value, Kind):
        return _kind(value.table(), path)
    return _differing(value, path) if is_dataclass(value) else native_values(value)


def _kind(table: Table, path: str) -> Table:
    """A study's table that names a class, for its id: the kind, and what differs from that class's defaults."""
    kind, cls = table["kind"], None
    with suppress(KeyError, FedprivError):  # not known, or not to be had, which whoever makes it says
        cls = KNOWN[path].named(kind)
    given = fitted_settings(cls, {name: value for name, value in table.items() if name != "kind"})
    if "before" in given and f"{path}.before" in KNOWN:
        given["before"] = [_kind(own, f"{path}.before") for own in given["before"]]
    own = fields(cls) if cls is not None and is_dataclass(cls) else ()
    usual = {each.name: _text(native_values(_default(each))) for each in own if _has_default(each)}
    return {"kind": kind} | {name: value for name, value in given.items() if _text(value) != usual.get(name)}


def _has_default(field: Any) -> bool:
    """Whether a dataclass's field, a setting of a study, has a default."""
    return field.default is not MISSING or field.default_factory is not MISSING


def _default(field: Any) -> Any:
    """The default of a dataclass's field, a setting of a study, that has one."""
    return field.default if field.default is not MISSING else field.default_factory()


def _text(value: Any) -> str:
    """A setting as text that a study's id is hashed from: JSON, where 1 is not 1.0; else as Python writes it."""
    return json.dumps(value, sort_keys=True, default=repr)
