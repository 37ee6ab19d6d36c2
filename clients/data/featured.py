"""The data set that a study's [data] table names, with what its `features` make of each record, if it says any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from clients.data import DATA_SETS, Data
from clients.data.aside import NAMES
from clients.data.features import Features, features_of
from clients.data.features.making import PLACES, featured_pool
from clients.data.pool import Pool
from fedpriv._base.tables import inline_toml
from fedpriv.given import MODULE
from fedpriv.registry import Kind


@dataclass(frozen=True)
class Featured:
    """A data set with a study's data.features: the same records, and what is made of each for a model to see."""

    data: Data
    features: Features

    def load(self) -> Pool:
        """The set's records as a study's pool of features: found on this machine's disk, or made, and kept there."""
        return featured_pool(self.data.load(), self.features)

    def resolved(self) -> Featured:
        """The choice as any process would make it: the set's paths in full, the features as they are."""
        return replace(self, data=self.data.resolved())

    @property
    def labels(self) -> str:
        """What the labels of the set's records are, classes or numbers: features change none."""
        return str(getattr(self.data, "labels", "classes"))

    @property
    def where(self) -> str | None:
        """Where the set's own records lie, for a run's files and people; None where they come with the class."""
        return getattr(self.data, "where", None)


def told_features(table: Kind) -> str:
    """The features that a [data] table says, as a line of TOML without places; "none" where it says none.

    By it a node compares the study's with its own policy's.

    >>> told_features(Kind("Digits", {"features": {"kind": "Cached", "path": "mine"}})), told_features(Kind("Digits"))
    ('{kind = "Cached"}', 'none')
    """
    given = table.settings.get("features")
    if not isinstance(given, Mapping):
        return "none"
    left_out = PLACES.get(str(given.get("kind"))), "column"
    return inline_toml({name: given[name] for name in sorted(given) if name not in left_out})


def data_set_of(table: Kind) -> Data:
    """The data set that a study's or a policy's [data] table names, the same whoever asks; with its features, if any.

    >>> data_set_of(Kind("Digits", {"features": {"kind": "Histograms", "cells": [4]}})).load().shape
    (108,)
    """

    def made(own: Kind) -> Data:
        """The object of the table: of a set with features, the set beside them."""
        given = own.settings.get("features")
        settings = {name: value for name, value in own.settings.items() if name not in NAMES}  # which pool_of takes up
        if not isinstance(given, Mapping):  # a column's name, or how many there are: the set's own setting
            if given is not None and own.kind.startswith(f"{MODULE}:"):
                features_of(given)  # which refuses it: arrays have no setting of that name
            return DATA_SETS.made(own.kind, settings)
        del settings["features"]
        table = dict(given)
        if own.kind == "Hub" and "column" in table:
            settings["features"] = table.pop("column")
        return Featured(DATA_SETS.made(own.kind, settings), features_of(table))

    return table.once(DATA_SETS, made)
