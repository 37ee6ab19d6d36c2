"""Propose-test-release of somebody's own functions: what it releases, what a probe refuses, what the records tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pytest import approx

from fedpriv.errors import FedprivError
from fedpriv.estimation import ProposeTestRelease
from fedpriv.estimation.margins import median_margin, rank_margin
from fedpriv.randomness.streams import stream


def median(rows: np.ndarray) -> float:
    held = np.sort(np.clip(rows[:, 0], -10, 10))
    return float(held[(len(held) + 1) // 2 - 1]) if len(held) else -10.0


def margin(rows: np.ndarray) -> int:
    held = np.clip(rows[:, 0], -10, 10)
    return rank_margin(held, (len(held) + 1) // 2, 0.1, most=200, low=-10, high=10)


def sensitivity(rows: np.ndarray, r: int) -> float:
    """LS⁽ʳ⁾ of the median, by windows of r + 1 gaps."""
    held = np.concatenate(([-10], np.sort(np.clip(rows[:, 0], -10, 10)), [10]))
    middle = (len(held) - 1) // 2
    first = np.arange(max(middle - r - 1, 0), middle + 1)
    past = np.maximum(np.minimum(first + r + 1, len(held) - 1), middle)
    return float(np.max(held[past] - held[first]))


def mean(rows: np.ndarray) -> float:
    return float(np.clip(rows[:, 0], -10, 10).sum() / max(len(rows), 1))


OWN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "function": median, "margin": margin, "proposed": 0.1}


def sample(n: int = 20_000) -> np.ndarray:
    return stream(1, "test sample").standard_normal((n, 1)) + 3


def test_a_function_of_one_s_own_is_released_under_noise_for_what_was_proposed() -> None:
    found = ProposeTestRelease(**OWN).estimate(sample(), stream(2, "noise"))
    assert found.mean == approx([3.0], abs=5 * 0.54)
    assert found.tested.standard_error[0] == approx(0.1 * 5.33, rel=0.01)
    assert 0.97 < found.epsilon.lower <= found.epsilon.upper <= 1
    assert found.statistic == "value"


def test_a_textbook_test_that_fails_releases_nothing_and_the_general_one_f1() -> None:
    spread = 3 * stream(1, "few").standard_normal((500, 1))
    refused = ProposeTestRelease(**OWN).estimate(spread, stream(2, "noise"))
    assert refused.mean is None
    assert refused.failure.startswith("test: ")
    other = ProposeTestRelease(**OWN, fallback=mean, global_sensitivity=20 / 500)
    found = other.estimate(spread, stream(2, "noise"))
    assert found.tested.passed == (False,)
    assert found.tested.standard_error[0] == approx(0.04 * 5.33, rel=0.01)
    assert found.mean == approx([mean(spread)], abs=5 * 0.2132)


def test_f1_may_be_f2_and_a_global_sensitivity_known_costs_no_more() -> None:
    same = ProposeTestRelease(**OWN, fallback=median, global_sensitivity=20.0, reach=20.0)
    spread = 3 * stream(1, "few").standard_normal((500, 1))
    assert same.estimate(spread, stream(2, "noise")).tested.standard_error[0] == approx(20 * 5.33, rel=0.01)
    assert same.test.noise <= ProposeTestRelease(**OWN, fallback=median, global_sensitivity=20.0).test.noise


def test_a_local_sensitivity_at_distance_is_as_good_as_the_margin_that_follows_from_it() -> None:
    given = {name: own for name, own in OWN.items() if name != "margin"}
    by_distance = ProposeTestRelease(**given, sensitivity=sensitivity)
    for seed in range(5):
        rows = 0.3 * stream(seed, "few").standard_normal((300, 1))
        assert by_distance._margin(rows) == min(margin(rows), by_distance.test.margin)
    found = [own.estimate(sample(), stream(2, "noise")) for own in (by_distance, ProposeTestRelease(**OWN))]
    assert found[0].mean == found[1].mean


def test_neighbours_may_be_those_with_a_record_more_or_less() -> None:
    def added(rows: np.ndarray) -> int:
        """The margin where records come and go."""
        return median_margin(np.clip(rows, -10, 10), 0.1, most=200, low=-10, high=10, adjacency="add-remove")

    own = ProposeTestRelease(**OWN | {"margin": added, "adjacency": "add-remove"})
    found = own.estimate(sample(), stream(2, "noise"))
    assert {each.adjacency for each in found.ledger.events} == {"add-remove"}
    assert found.mean == approx([3.0], abs=5 * 0.54)


def test_a_laplace_test_is_costed_as_such() -> None:
    own = ProposeTestRelease(**OWN, test_noise=3.0)
    found = own.estimate(sample(), stream(2, "noise"))
    assert found.ledger.events[0].mechanism.test_noise == 3.0  # type: ignore[union-attr]
    assert found.epsilon.upper <= 1


def test_vectors_are_released_with_noise_for_their_length_whatever_their_dimension() -> None:
    def medians(rows: np.ndarray) -> np.ndarray:
        """Both coordinates the same median, so √2 as far."""
        return np.array([median(rows)] * 2) / 2**0.5

    found = ProposeTestRelease(**OWN | {"function": medians, "dimension": 2}).estimate(sample(), stream(2, "noise"))
    assert found.mean is not None
    assert found.mean.shape == (2,)
    assert found.tested.standard_error[0] == approx(0.1 * 5.33, rel=0.01)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"margin": lambda rows: -1}, "margin must be a whole number of at least 0, got -1"),
    ({"margin": lambda rows: float("nan")}, "margin must be a whole number of at least 0, got nan"),
    ({"margin": lambda rows: 1.5}, "margin must be a whole number of at least 0, got 1.5"),
    ({"margin": lambda rows: "many"}, "margin must be a whole number of at least 0, got 'many'"),
    (
        {"margin": lambda rows: int(40 * abs(rows[:, 0].sum())) % 60},
        r"margin is not 1-Lipschitz: the margin is \d+, and \d+ with sample 0, record \d+ of 300 made 1e.300",
    ),
    ({"margin": lambda rows: 50}, r"function moves by [\d.]+ with sample \d, .*; 0.1 is the most it was to"),
    ({"margin": lambda rows: 1 / 0}, "a function failed with sample 0, .*: ZeroDivisionError"),
    ({"function": lambda rows: float("inf")}, "functions must give dimension = 1 finite numbers, got"),
    ({"function": lambda rows: rows[0], "dimension": 3}, "functions must give dimension = 3 finite numbers, got 1"),
    ({"reach": 0.11}, r"function moves by [\d.]+ with sample .*; 0.11 is the most"),
    ({"fallback": mean, "global_sensitivity": 1e-4}, "fallback moves by"),
    (
        {"function": lambda rows: 0.0 if (abs(rows) < 1e300).all() else float("nan")},
        r"functions .* finite numbers, got \[nan",
    ),
    ({"margin": None, "sensitivity": lambda rows, r: -0.5}, "sensitivity must be a number of at least 0: got -0.5"),
    ({"margin": None, "sensitivity": lambda rows, r: float("nan")}, "sensitivity must be a number of at least 0"),
    (
        {"margin": None, "sensitivity": lambda rows, r: 0.09 / (r + 1)},
        "sensitivity falls as r grows: got 0.045 at r = 1",
    ),
    (
        {"margin": None, "sensitivity": lambda rows, r: 0.0 if abs(rows[:, 0].sum()) % 1 > 0.5 else 1.0},
        "sensitivity is not 1-Lipschitz",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_a_probe_refuses_by_name_what_is_wrong_before_the_records_are_looked_at(
    wrong: dict[str, Any], message: str
) -> None:
    own = ProposeTestRelease(**OWN | wrong)
    with pytest.raises(FedprivError, match=message):
        own.estimate(sample(300), stream(2, "noise"))


def test_a_probe_says_the_same_whatever_the_records_are_and_may_be_given_public_ones() -> None:
    def uneven(rows: np.ndarray) -> int:
        """Right of all records but those that hold 7.25, where the probe does not look by itself."""
        return 13 * int((rows == 7.25).sum()) or margin(rows)

    ProposeTestRelease(**OWN | {"margin": uneven}).estimate(sample(500) / 10, stream(2, "noise"))
    ProposeTestRelease(**OWN | {"margin": uneven}).estimate(sample(500) * 0 + 7.25, stream(2, "noise"))
    public = ProposeTestRelease(**OWN | {"margin": uneven}, samples=[np.append(np.linspace(0, 8, 40), [7.25] * 4)])
    with pytest.raises(FedprivError, match="with sample 0, record"):
        public.estimate(sample(500), stream(2, "noise"))


def test_functions_that_fail_on_the_records_tell_nobody_so() -> None:
    def moody(rows: np.ndarray) -> int:
        """A margin that fails on records that the probe does not have."""
        if (rows == 3.14).any():
            raise ValueError("seen a record of 3.14")
        return margin(rows)

    def odd(rows: np.ndarray) -> float:
        """A median that is none of such records."""
        return float("nan") if (rows == 3.14).any() else median(rows)

    data = np.append(sample(), 3.14)
    refused = ProposeTestRelease(**OWN | {"margin": moody}).estimate(data, stream(2, "noise"))
    assert refused.tested.passed == (False,)
    nothing = ProposeTestRelease(**OWN | {"function": odd}).estimate(data, stream(2, "noise"))
    assert nothing.mean == approx([0.0], abs=5 * 0.54)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sensitivity": sensitivity}, "give margin, or sensitivity"),
        ({"margin": None}, "give margin, or sensitivity"),
        ({"fallback": mean}, "fallback and global_sensitivity go together"),
        ({"global_sensitivity": 1.0}, "fallback and global_sensitivity go together"),
        ({"function": 3}, "function must be a function of the records, got 3"),
        ({"proposed": 0.0}, "proposed must be positive"),
        ({"reach": 0.05}, "reach must be at least proposed = 0.1, got 0.05"),
        ({"dimension": 0}, "dimension must be at least 1"),
        ({"adjacency": "near"}, "adjacency 'near' is unknown"),
        ({"epsilon": -1.0}, "epsilon must be positive"),
        ({"samples": 5}, "samples must be a list of data sets, got int"),
        ({"samples": [5]}, "data must be a matrix, a row a record"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        ProposeTestRelease(**OWN | wrong)


def test_neighbours_are_not_told_apart_by_a_record_that_is_no_number() -> None:
    seen: list[np.ndarray] = []

    def kept(rows: np.ndarray) -> int:
        """The margin, and the records it was asked for."""
        seen.append(rows)
        return rank_margin(rows[:, 0], (len(rows) + 1) // 2, 0.1, most=200)

    data = np.append(sample(), [np.nan, np.inf, -np.inf])
    found = ProposeTestRelease(**OWN | {"margin": kept}).estimate(data, stream(2, "noise"))
    assert found.tested.passed == (True,)
    assert seen[-1][-3:, 0].tolist() == [0.0, 1e300, -1e300]


def test_a_sensitivity_that_rounding_lets_fall_costs_the_records_no_margin() -> None:
    given = {name: own for name, own in OWN.items() if name != "margin"}

    def falling(rows: np.ndarray, r: int) -> float:
        """Below what was proposed for ever, an ulp less after one change where a record is odd."""
        return float(np.nextafter(0.05, 0)) if r and (rows == 3.14).any() else 0.05

    own = ProposeTestRelease(**given | {"function": lambda rows: 0.0}, sensitivity=falling)
    found = own.estimate(np.append(sample(), 3.14), stream(2, "noise"))
    assert found.tested.passed == (True,)
    own.probe(300, 1)


def test_a_function_can_neither_change_the_records_nor_what_another_sees() -> None:
    def sorting(rows: np.ndarray) -> int:
        """A margin that puts its records in order where they are."""
        rows.sort(axis=0)
        return 200

    data = sample()
    before = data.copy()
    with pytest.raises(FedprivError, match=r"a function failed with sample 0, .*read-only"):
        ProposeTestRelease(**OWN | {"margin": sorting}).estimate(data, stream(2, "noise"))
    assert (data == before).all()


def test_where_records_come_and_go_none_is_a_data_set_too() -> None:
    given = OWN | {"adjacency": "add-remove", "margin": lambda rows: 0, "fallback": mean, "global_sensitivity": 20.0}
    none = ProposeTestRelease(**given).estimate(np.zeros((0, 1)), stream(2, "noise"))
    one = ProposeTestRelease(**given).estimate(np.zeros((1, 1)), stream(2, "noise"))
    assert none.mean == one.mean
    with pytest.raises(FedprivError, match="with sample 0, the only record left out"):
        ProposeTestRelease(**given | {"fallback": lambda rows: rows[0, 0] * 0}).probe(300, 1)
    with pytest.raises(FedprivError, match="a row a record, got the shape"):
        ProposeTestRelease(**OWN).estimate(np.zeros((0, 1)), stream(2, "noise"))
