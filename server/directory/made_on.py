"""Which data a run was made on, and whether they are those that are here: it goes on with no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from clients.data.featured import data_set_of
from clients.data.identity import Line, data_identity, in_words, same_data
from clients.training.prepared import pool_of
from fedpriv.errors import FedprivError
from fedpriv.studies.study import Study
from server.directory import data_place

RECORDS = "records.jsonl"


class Made(NamedTuple):
    """The data something was made on."""

    data: Line | None  # what was read; None where a run of an earlier version does not say
    where: str | None  # the place they lay in

    @property
    def words(self) -> str:
        """Which data a run was made on, and where they lay, in words for a refusal."""
        return "data that it does not name" if self.data is None else in_words(self.data, self.where)


def data_here(study: Study) -> Made:
    """A study's data as this machine has them, loaded: their identity and place, to be compared with a run's."""
    return Made(data_identity(study.data.kind, pool_of(study)), where_data_lie(study))


def where_data_lie(study: Study) -> str | None:
    """The place a study's data lie in, for a run's files and forecasts; None where its data set does not say."""
    return getattr(data_set_of(study.data), "where", None)


def data_told(directory: Path) -> Made | None:
    """The data that a run's own files say it was made on; None where it has no records yet, and so is of no data."""
    try:
        with open(directory / RECORDS, encoding="utf-8") as file:
            header = json.loads(file.readline())
        return Made(header.get("data"), data_place(directory))
    except (OSError, ValueError, AttributeError):  # cut in half by a kill, or damaged, which who reads all of it says
        return None


def check_made_on(directory: Path, study: Study) -> None:
    """Refuse to resume a run on other data than it was made on, naming both."""
    if (was := data_told(directory)) is not None:
        check_same(str(directory), was, study)


def check_same(name: str, was: Made, study: Study) -> None:
    """Refuse a study whose data here are others than a run or a sweep was made on, to resume or certify it."""
    if was.data is None:
        raise FedprivError(f"{name}: does not say on which data it was made, so that these may be others")
    try:
        now = data_here(study)
    except FedprivError as error:
        raise FedprivError(f"{name}: was made on {was.words}; here they cannot be read: {error}") from None
    assert now.data is not None
    if not same_data(was.data, now.data):
        raise FedprivError(f"{name}: was made on {was.words}; here are {now.words}: other data are another run's")
