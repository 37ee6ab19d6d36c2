"""Records set aside to choose settings by: out of training, out of the test, always the same ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.data import Digits
from clients.data.aside import pool_kept
from clients.data.pool import Pool
from clients.node.policy import Policy
from clients.training.prepared import pool_of
from fedpriv.accounting.ledger import Budget
from fedpriv.errors import FedprivError
from fedpriv.registry import Kind
from fedpriv.studies import file as study_file


def parted(pool: Pool, aside: int, measure: str = "held-out") -> Pool:
    return pool_kept(pool, Kind("Digits", {"aside": aside, "measure": measure}))


def rows(x: np.ndarray) -> list[bytes]:
    return [np.asarray(row, np.float32).tobytes() for row in x]


@given(st.integers(1, 1400))
def test_training_and_what_is_set_aside_are_all_there_was_and_the_test_stays(aside: int) -> None:
    whole = Digits().load()
    left, measured = parted(whole, aside), parted(whole, aside, "aside")
    assert (len(left), len(measured), len(measured.y_test)) == (len(whole) - aside, len(whole) - aside, aside)
    assert sorted([*left.y, *measured.y_test]) == sorted(whole.y)
    assert left.x is not whole.x
    assert np.array_equal(left.x, measured.x)
    assert left.x_test is whole.x_test
    assert measured.held is not None
    assert sorted([*rows(left.x), *rows(measured.held)]) == sorted(rows(np.asarray(whole.x)))
    shares = np.bincount(measured.y_test, minlength=10) - aside * np.bincount(whole.y) / len(whole)
    assert abs(shares).max() <= 1  # of every class its share


def test_a_model_sees_what_is_set_aside_as_it_sees_all_else() -> None:
    measured = parted(Digits().load(), 100, "aside")
    assert measured.held is not None
    assert np.array_equal(measured.x_test, np.float32(measured.held) / np.float32(16) - np.float32(0.3))


def test_whose_a_record_is_goes_with_it() -> None:
    whole = Digits().load()
    owned = replace(whole, owners=np.arange(len(whole)))
    left = parted(owned, 50)
    assert left.owners is not None
    assert np.array_equal(np.asarray(whole.y)[left.owners], left.y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("data.aside=1437", "data: aside must be below the 1,437 records there are to train on, got 1,437"),
        ("data.aside=-1", "data: aside must be at least 0, got -1"),
        ("data.aside=0.5", "data: aside must be a whole number, got 0.5"),
        ("data.measure='aside'", r'data: measure = "aside" needs records set aside: aside = 200 or so'),
        ("data.measure='test'", "data: measure 'test' is unknown; choices: held-out, aside"),
    ],
)
def test_what_cannot_be_set_aside_is_refused(settings: str, message: str) -> None:
    with pytest.raises(FedprivError) as refused:
        pool_of(study_file.read_study("digits", [settings]))
    assert str(refused.value) == message


def test_a_study_that_sets_none_aside_trains_on_all_and_a_nodes_policy_sets_none() -> None:
    assert pool_of(study_file.read_study("digits")) is Digits().load()
    with pytest.raises(FedprivError, match=r"data.aside is of studies: a node's own records"):
        Policy(budget=Budget(1.0, 1e-5), studies=None, data=Kind("Digits", {"aside": 10}), classes=10)
