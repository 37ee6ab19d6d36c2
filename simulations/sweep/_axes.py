"""The axes of a grid, from a study's [sweep] table.

A key is the dotted path of a setting, its value the list of values that the setting takes. A table among them says what
it names: one with a `kind` replaces the whole table at the path, one without changes the settings it has. A key that is
no setting is a name of its own, for several settings that change together; their values are tables by dotted path. Any
table may have a `label`, which is what people read. `impossible = "skip"` leaves out combinations that cannot be. Below
`chosen` stand settings of which every place of the grid is given one value of several, and the seeds to choose it by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations, product
from math import prod
from typing import Any

from fedpriv._base.tables import Table, flat_table
from fedpriv.errors import FedprivError, nearest_hint
from fedpriv.studies.study import Study

KNOWN = [each.name for each in fields(Study)]
MOST = 1_000_000  # cells; a larger grid is a slip
IMPOSSIBLE = "impossible"  # the key that says what becomes of combinations that cannot be
SKIP = "skip"  # its one value: they are left out
CHOSEN = "chosen."  # what paths of settings begin with that are chosen, not varied
SEED = "run.seed"


@dataclass(frozen=True)
class Choice:
    """One value of an axis: what it is called, and the settings it stands for."""

    label: str  # what people read
    settings: Mapping[str, Any]  # by dotted path

    @staticmethod
    def of(path: str, value: Any) -> Choice:
        """One value of a [sweep] axis, as the study writes it, made into settings by dotted path and a label."""
        top = path.partition(".")[0]
        named = {key: each for key, each in value.items() if key != "label"} if isinstance(value, dict) else value
        if named == {}:
            raise FedprivError(f"sweep: {path} has a value that says nothing: {value!r}")
        several = isinstance(named, dict) and "kind" not in named
        if top not in KNOWN and not several:
            raise FedprivError(
                f"sweep: {path} is no setting{nearest_hint(top, KNOWN)}; under a name of its own stand tables of "
                f"dotted settings, got {value!r}"
            )
        label = value.get("label", called(named)) if isinstance(value, dict) else called(value)
        if not isinstance(label, str) or not label.isprintable() or not label:
            raise FedprivError(f"sweep: {path}: label must be a word, got {label!r}")
        return Choice(label, flat_table(named, path if top in KNOWN else "") if several else {path: named})


@dataclass(frozen=True)
class Axis:
    """What is varied, and the values it takes."""

    path: str  # of the setting, or a name for several that change together
    choices: tuple[Choice, ...]  # at least one, no two of one label, and no two of the same settings

    def __post_init__(self) -> None:
        """Refuse an axis of a sweep that has no value, or the same one twice."""
        if not self.choices:
            raise FedprivError(f"sweep: {self.path} has no value: an empty list spans nothing")
        for first, second in combinations(self.choices, 2):
            if first.label == second.label or first.settings == second.settings:
                raise FedprivError(f"sweep: {self.path} has the value {second.label} twice")

    @property
    def paths(self) -> set[str]:
        """The dotted paths of all settings that some value of the axis sets: no two axes may share one."""
        return {path for choice in self.choices for path in choice.settings}


def axes_of(sweep: object) -> list[Axis]:
    """The axes of a study's [sweep] table, in the order they are written in; refused where they span no grid."""
    varied = [path for path in sweep if path != IMPOSSIBLE and not _is_chosen(path)] if isinstance(sweep, dict) else []
    if not isinstance(sweep, dict) or not varied:
        raise FedprivError('has no [sweep] table ("run.seed" = [1, 2] and the like): fedpriv run runs a single study')
    axes = [_axis(path, path, sweep[path]) for path in varied]
    for first, second in combinations(axes, 2):
        if both := first.paths & second.paths:
            raise FedprivError(f"sweep: {first.path} and {second.path} both set {min(both)}")
    if (cells := prod(len(axis.choices) for axis in axes)) > MOST:
        raise FedprivError(f"sweep: {cells:,} cells are more than {MOST:,}")
    return axes


def chosen_axes(sweep: Table, axes: Sequence[Axis]) -> tuple[list[Axis], list[int]]:
    """What a [sweep] table has chosen at every place, beside the axes that it varies, and the seeds of the choosing."""
    found = {path: _axis(path.removeprefix(CHOSEN), path, sweep[path]) for path in sweep if _is_chosen(path)}
    seeds = found.pop(CHOSEN + SEED, None)
    if not found and seeds is None:
        return [], []
    if not found:
        raise FedprivError("sweep: chosen names no setting to choose, only seeds")
    if seeds is None:
        raise FedprivError(f"sweep: chosen.{SEED} must list the seeds to choose by, none of which is the sweep's own")
    for (path, axis), other in product(found.items(), axes):
        if both := axis.paths & other.paths:
            raise FedprivError(f"sweep: {other.path} and {path} both set {min(both)}: it is varied, or chosen")
    for path, axis in found.items():
        if len(axis.choices) == 1:
            raise FedprivError(f"sweep: {path} has one value, {axis.choices[0].label}: there is nothing to choose")
    return list(found.values()), [choice.settings[SEED] for choice in seeds.choices]


def _is_chosen(path: str) -> bool:
    """Whether a key of a [sweep] table is of what is chosen."""
    return path.startswith(CHOSEN) or path == CHOSEN.rstrip(".")


def _axis(path: str, said: str, values: object) -> Axis:
    """The axis of a [sweep] table at a path, which is `said` there, over its list of values."""
    if not isinstance(values, list):
        raise FedprivError(f"sweep: {said} must be a list of values, got {values!r}")
    return Axis(path, tuple(Choice.of(path, value) for value in values))


def skips(sweep: Table) -> bool:
    """Whether a [sweep] table says impossible = "skip": cells that cannot be run are left out, not refused."""
    if sweep.get(IMPOSSIBLE, SKIP) != SKIP:
        raise FedprivError(f"sweep: {IMPOSSIBLE} can be {SKIP!r} or be left out, got {sweep[IMPOSSIBLE]!r}")
    return IMPOSSIBLE in sweep


def called(value: Any) -> str:
    """A value of a sweep's axis as its label, which people read: "Ipm factor=2.0".

    >>> called({"kind": "Ipm", "factor": 2.0}), called(0.1), called([{"kind": "Bucketing", "size": 2}, {"kind": "Nnm"}])
    ('Ipm factor=2.0', '0.1', 'Bucketing size=2, Nnm')
    >>> called({"privacy.trust": "local", "clients": {"byzantine": 3}}), called([])
    ('trust=local byzantine=3', 'none')
    """
    if isinstance(value, dict):
        kind = [str(value["kind"])] if "kind" in value else []
        rest = flat_table({key: each for key, each in value.items() if key != "kind"})
        return " ".join([*kind, *(f"{path.rpartition('.')[2]}={called(each)}" for path, each in rest.items())])
    if isinstance(value, list):
        return ", ".join(map(called, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
