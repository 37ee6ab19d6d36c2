"""Features of records, made before anybody trains on them: what a study's data.features may choose, and what it makes.

What a record's features are depends on that record and on public constants alone, never on other records: so a record
more or less in the data is one row more or less of features, and every ε that is charged for rows holds for records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from clients.data.features._convolutions import RandomConvolutions
from clients.data.features._histograms import Histograms
from clients.data.features._network import Pretrained
from clients.data.features._scattering import Scattering
from clients.data.features._stored import Cached
from fedpriv._base.arrays import Rows
from fedpriv.errors import FAULTS, FedprivError, limited, natural, reason, whole
from fedpriv.registry import Kind, Registry
from fedpriv.settings import check_fields

__all__ = [
    "FEATURES",
    "BesideData",
    "BesideFeatures",
    "Cached",
    "FeatureMap",
    "Features",
    "Histograms",
    "Pretrained",
    "RandomConvolutions",
    "Scattering",
    "features_of",
]

Normalise = Literal["record", "group", "none"]


class FeatureMap(Protocol):
    """What every kind of features can do; one of one's own is called in one thread, with some of the records."""

    def __call__(self, records: Rows) -> Rows:
        """Features of records (records, *shape), as x / divide − subtract, a row each that depends on no other one."""


@dataclass(frozen=True, kw_only=True)
class BesideFeatures:
    """What the table of a study's features says besides the settings of its kind."""

    normalise: Annotated[
        Normalise, "whether a record's features are brought to norm 1, groups of them to mean 0 before, or left"
    ] = "record"
    groups: Annotated[int, whole, 'of normalise = "group": how many runs of equally many features'] = 1
    norm: Annotated[float, limited(least=1e-6, most=1e6), "what norm a record is brought to; a layer's bias sees 1"] = (
        1.0
    )
    centre: Annotated[
        bool, "whether the mean of the features of drawn shapes is taken off first: it is public, and most of the norm"
    ] = False
    public: Annotated[
        bool,
        "of module:Class: whether it may look at all records at once, as these, or what it takes of them, are public",
    ] = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.norm != 1 and self.normalise == "none":
            raise FedprivError(f'norm = {self.norm}, and normalise = "none" brings records to none')
        if self.groups != 1 and self.normalise != "group":
            raise FedprivError(f'groups = {self.groups}, and normalise = "{self.normalise}": "group" has groups')


FEATURES: Registry[FeatureMap] = Registry(
    "feature map", FeatureMap, (Histograms, RandomConvolutions, Scattering, Pretrained, Cached), beside=BesideFeatures
)


@dataclass(frozen=True, kw_only=True)
class BesideData:
    """What a study's [data] table says besides the settings of its kind."""

    features: Annotated[Kind | None, FEATURES, "what is made of each record, for a model to see in its place"] = None
    aside: Annotated[int, natural, "training records set aside for the server, to choose settings and to trust by"] = 0
    measure: Annotated[Literal["held-out", "aside"], "the records that accuracy is measured on"] = "held-out"

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Features:
    """A study's data.features: the table, the kind's object, and what is said beside its settings."""

    table: Kind
    made: FeatureMap = field(compare=False)
    beside: BesideFeatures = field(compare=False)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the features come from besides the records, none of most kinds."""
        try:
            found = getattr(self.made, "files", ())
            paths = () if isinstance(found, str) else tuple(map(Path, found))
        except FAULTS as error:
            raise FedprivError(f"features: {self.table.kind}: its files: {reason(error)}") from None
        if isinstance(found, str):
            raise FedprivError(f"features: {self.table.kind}: files must be a list of paths, got {found!r}")
        return paths

    @property
    def own_class(self) -> type[Any] | None:
        """The class of somebody's own that has a part in them, the kind itself or a network; None where none has."""
        return type(self.made) if ":" in self.table.kind else getattr(self.made, "made_by", None)


def features_of(table: Any) -> Features:
    """The features that a study's data.features says, everything checked that needs no records.

    >>> features_of({"kind": "Histograms", "cells": [4], "normalise": "none"}).beside.normalise
    'none'
    """
    if not (isinstance(table, Mapping) and isinstance(table.get("kind"), str)):
        raise FedprivError(f'features must be a table such as {{ kind = "Histograms" }}, got {table!r}')
    names = [own.name for own in fields(BesideFeatures)]
    settings = {name: value for name, value in table.items() if name not in ("kind", *names)}
    try:
        beside = BesideFeatures(**{name: table[name] for name in names if name in table})
        made = FEATURES.made(table["kind"], settings)
    except FedprivError as error:
        raise FedprivError(f"features: {error}") from None
    if beside.public and ":" not in table["kind"]:
        raise FedprivError(f"features: public = true is of module:Class: {table['kind']} looks at one record at a time")
    if beside.centre and table["kind"] == "Cached":
        raise FedprivError("features: centre = true makes features of drawn shapes, and Cached makes none")
    return Features(Kind(table["kind"], {name: table[name] for name in table if name != "kind"}), made, beside)
