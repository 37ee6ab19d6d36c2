"""One table of every rule, crossed with every law; then a golden for each, and how each refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from pytest import approx

from fedpriv.aggregation import (
    RULES,
    MajorityVote,
    Mean,
    Median,
    NormTrimmedSum,
    TrimmedMean,
    finite_rows,
    make_rule,
)
from fedpriv.errors import FedprivError

Matrix = NDArray[Any]

RULES_OF: list[Any] = [
    Mean(),
    MajorityVote(),
    MajorityVote(ties="plus"),
    MajorityVote(ties="minus"),
    TrimmedMean(dropped=0),
    TrimmedMean(dropped=2),
    Median(),
    NormTrimmedSum(dropped=0),
    NormTrimmedSum(dropped=2),
]
SORTING: list[Any] = [rule for rule in RULES_OF if isinstance(rule, TrimmedMean | Median)]
MEANS: list[Any] = [*SORTING, Mean()]


def least(rule: Any) -> int:
    """The rows that a rule needs."""
    if isinstance(rule, NormTrimmedSum):
        return 0
    return 2 * getattr(rule, "dropped", 0) + 1


def each(rules: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("rule", rules, ids=str)


def some(rows: int = 9, columns: int = 40, kind: Any = np.float32, seed: int = 1) -> Matrix:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(kind)


# Few values, so that ties, zeros of either sign and equal norms abound.
values = st.sampled_from([-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 1e30])
matrices = st.tuples(st.integers(5, 9), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=values)
)


# --- laws ---------------------------------------------------------------------------------------------------------


def test_every_rule_is_in_the_table() -> None:
    assert {type(rule).__name__ for rule in RULES_OF} == set(RULES)


@given(data=st.data(), matrix=matrices)
def test_the_order_of_the_rows_changes_no_bit_of_a_sorting_rule_or_a_vote(data, matrix):
    rule = data.draw(st.sampled_from([*SORTING, *RULES_OF[1:4]]))
    shuffled = matrix[data.draw(st.permutations(range(len(matrix))))]
    assert rule(shuffled).tobytes() == rule(matrix).tobytes()


@each(RULES_OF)
def test_the_order_of_the_rows_changes_no_rule_beyond_rounding(rule: Any) -> None:
    matrix = some()
    assert rule(matrix[::-1]) == approx(rule(matrix), rel=1e-12, abs=1e-12)


@each(RULES_OF)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_result_is_a_vector_in_double_precision(rule: Any, kind: Any) -> None:
    found = rule(some(kind=kind))
    assert found.shape == (40,)
    assert found.dtype == np.float64


@each(MEANS)
@given(shift=st.sampled_from([-4.0, 0.25, 1024.0]))
def test_a_mean_moves_with_its_rows(rule, shift):
    matrix = some(kind=np.float64)
    assert rule(matrix + shift) == approx(rule(matrix) + shift, rel=1e-9)


@each([*MEANS, RULES_OF[1], *RULES_OF[-2:]])
def test_opposite_rows_give_the_opposite(rule: Any) -> None:
    assert rule(-some()) == approx(-rule(some()), rel=1e-12, abs=1e-12)


@each([*MEANS, *RULES_OF[-2:]])
def test_scaled_rows_give_the_scaled_result(rule: Any) -> None:
    assert rule(8 * some()) == approx(8 * rule(some()), rel=1e-12, abs=1e-12)


@each(MEANS)
def test_rows_that_agree_are_the_result(rule: Any) -> None:
    row = some(1)
    assert rule(np.repeat(row, 7, axis=0)) == approx(row[0].astype(float), rel=1e-12)


@each(RULES_OF[1:4])
def test_votes_that_agree_are_the_result(rule: Any) -> None:
    row = some(1)
    assert (rule(np.repeat(row, 7, axis=0)) == np.sign(row[0])).all()


@each(MEANS)
@given(matrix=matrices)
def test_a_mean_lies_among_its_rows(rule, matrix):
    found, slack = rule(matrix), 1e-9 * np.abs(matrix).max(axis=0)
    assert (found >= matrix.min(axis=0) - slack).all()
    assert (found <= matrix.max(axis=0) + slack).all()


@each(RULES_OF)
@given(data=st.data(), matrix=matrices)
def test_rows_that_are_not_finite_are_left_out(rule, data, matrix):
    wrong = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    spoilt = np.repeat(matrix[:1], 3, axis=0)
    spoilt[:, data.draw(st.integers(0, matrix.shape[1] - 1))] = wrong
    place = data.draw(st.integers(0, len(matrix)))
    mixed = np.concatenate((matrix[:place], spoilt, matrix[place:]))
    assert rule(mixed).tobytes() == rule(matrix).tobytes()
    assert np.flatnonzero(~finite_rows(mixed)).tolist() == [place, place + 1, place + 2]


@each(RULES_OF)
def test_a_number_too_large_to_square_is_left_out(rule: Any) -> None:
    matrix = some(kind=np.float64)
    loud = np.full((1, 40), 1e200)
    assert (rule(np.concatenate((loud, matrix, -loud))) == rule(matrix)).all()


@each(RULES_OF)
def test_nothing_that_was_given_is_changed(rule: Any) -> None:
    for matrix in (some(), some(kind=np.float64), np.asfortranarray(some()), some(9, 5000)):
        matrix[3, 2] = np.nan
        given_ = matrix.copy()
        rule(matrix)
        assert matrix.tobytes() == given_.tobytes()


@each(RULES_OF[:-1])  # but a norm is of a whole row
def test_a_column_does_not_depend_on_the_others(rule: Any) -> None:
    matrix = some(9, 100_000)
    assert rule(matrix)[70_000:70_003] == approx(rule(matrix[:, 70_000:70_003]), rel=1e-12)


@each(RULES_OF)
def test_whole_numbers_are_taken(rule: Any) -> None:
    matrix = np.arange(27).reshape(9, 3) % 5 - 2
    assert (rule(matrix) == rule(matrix.astype(float))).all()


@each([rule for rule in RULES_OF if not isinstance(rule, NormTrimmedSum)])
def test_too_few_rows_are_an_error_that_names_the_need(rule: Any) -> None:
    need = least(rule)
    rule(some(need))
    matrix = some(need + 1)
    matrix[:2, 0] = np.nan
    name, plural = type(rule).__name__, "s" if need > 1 else ""
    with pytest.raises(FedprivError, match=rf"^{name}.* needs at least {need} row{plural}, got {need - 1} of finite"):
        rule(matrix)


@each(RULES_OF)
def test_what_is_no_matrix_is_refused(rule: Any) -> None:
    with pytest.raises(FedprivError, match="must be a matrix"):
        rule(np.ones(3))


@each(RULES_OF)
def test_rules_are_made_from_their_settings(rule: Any) -> None:
    settings = {name: getattr(rule, name) for name in ("dropped", "ties") if hasattr(rule, name)}
    assert make_rule(type(rule).__name__, settings) == rule


# --- what each is -------------------------------------------------------------------------------------------------

GOLDEN = np.array([[1.0, -9.0], [2.0, 4.0], [3.0, 0.0], [4.0, 8.0], [100.0, 2.0]])
BY_HAND: list[tuple[Any, list[float]]] = [
    (Mean(), [22, 1]),
    (MajorityVote(), [1, 1]),
    (TrimmedMean(dropped=1), [3, 2]),
    (TrimmedMean(dropped=2), [3, 2]),
    (Median(), [3, 2]),
    (NormTrimmedSum(dropped=1), [10, 3]),  # without (100, 2)
    (NormTrimmedSum(dropped=2), [9, 12]),  # nor (1, −9), longer than (4, 8)
    (NormTrimmedSum(dropped=5), [0, 0]),
    (NormTrimmedSum(dropped=9), [0, 0]),
]


@pytest.mark.parametrize(("rule", "found"), BY_HAND, ids=str)
def test_golden(rule: Any, found: list[float]) -> None:
    assert rule(GOLDEN) == approx(found)


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 101, 1000])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_median_is_numpys(rows: int, kind: Any) -> None:
    matrix = some(rows, 1100, kind)
    assert (Median()(matrix) == np.median(matrix.astype(float), axis=0)).all()


@pytest.mark.parametrize("dropped", [0, 1, 4])
def test_the_trimmed_mean_is_that_of_sorted_columns(dropped: int) -> None:
    matrix = some(10, 5000)
    kept = np.sort(matrix.astype(float), axis=0)[dropped : 10 - dropped]
    assert TrimmedMean(dropped=dropped)(matrix) == approx(kept.mean(axis=0), rel=1e-12, abs=1e-15)


@given(matrix=matrices, dropped=st.integers(0, 10))
def test_the_norm_trimmed_sum_leaves_out_the_longest_and_of_equals_the_last(matrix, dropped):
    norms = (matrix.astype(float) ** 2).sum(axis=1)
    order = sorted(range(len(matrix)), key=lambda row: (norms[row], row))
    kept = sorted(order[: max(0, len(matrix) - dropped)])
    assert NormTrimmedSum(dropped=dropped)(matrix) == approx(matrix[kept].astype(float).sum(axis=0), rel=1e-6, abs=1e-9)


def test_of_rows_of_one_norm_the_last_are_dropped() -> None:
    matrix = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]])
    assert NormTrimmedSum(dropped=1)(matrix).tolist() == [0, 1]
    assert NormTrimmedSum(dropped=3)(matrix[::-1]).tolist() == [0, -1]


def test_no_rows_sum_to_nothing() -> None:
    assert NormTrimmedSum(dropped=0)(np.empty((0, 3))).tolist() == [0, 0, 0]


ATTACKED = [(Median(), 5), (TrimmedMean(dropped=4), 4)]  # of 11


@pytest.mark.parametrize(("rule", "attackers"), ATTACKED, ids=str)
@pytest.mark.parametrize("loud", [1e30, -1e30])
def test_a_sorting_rule_stays_among_the_honest_up_to_its_number_of_attackers(
    rule: Any, attackers: int, loud: float
) -> None:
    matrix = some(11)
    matrix[:attackers] = loud
    honest = matrix[attackers:]
    assert ((rule(matrix) >= honest.min(axis=0)) & (rule(matrix) <= honest.max(axis=0))).all()
    matrix[attackers] = loud
    assert not ((rule(matrix) >= honest[1:].min(axis=0)) & (rule(matrix) <= honest[1:].max(axis=0))).all()


# --- ties ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ties", "vote"), [("zero", 0), ("plus", 1), ("minus", -1)])
def test_a_tie_goes_as_it_was_chosen(ties: str, vote: int) -> None:
    matrix = np.array([[1.0, 1.0, 0.0], [-3.0, 2.0, 0.0]])
    assert MajorityVote(ties=ties)(matrix).tolist() == [vote, 1, vote]
    assert MajorityVote(ties=ties).of_sum(np.array([0, 5, -5])).tolist() == [vote, 1, -1]


def test_a_tie_at_random_is_fair_and_decided_by_the_generator_alone() -> None:
    rule, total = MajorityVote(ties="random"), np.array([0] * 10_000 + [3, -3])
    found = rule.of_sum(total, np.random.default_rng(1))
    assert set(found[:-2].tolist()) == {-1, 1}
    assert found[:-2].mean() == approx(0, abs=4 / 100)  # four standard errors
    assert found[-2:].tolist() == [1, -1]
    assert (rule.of_sum(total, np.random.default_rng(1)) == found).all()
    with pytest.raises(FedprivError, match="needs a generator"):
        rule.of_sum(total)


@given(matrix=matrices)
def test_the_vote_of_rows_is_the_vote_of_the_sum_of_their_signs(matrix):
    total = np.sign(matrix).sum(axis=0)
    assert (MajorityVote()(matrix) == MajorityVote().of_sum(total)).all()


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("Medain", {}, r"unknown rule 'Medain' \(did you mean 'Median'\?\)"),
        ("TrimmedMean", {}, "TrimmedMean needs dropped"),
        ("TrimmedMean", {"droped": 1}, r"no setting 'droped' \(did you mean 'dropped'\?\)"),
        ("TrimmedMean", {"dropped": -1}, "TrimmedMean: dropped must be at least 0"),
        ("TrimmedMean", {"dropped": float("nan")}, "dropped must be a whole number"),
        ("NormTrimmedSum", {"dropped": 0.5}, "dropped must be a whole number"),
        ("MajorityVote", {"ties": "coin"}, "ties 'coin' is unknown"),
    ],
)
def test_a_slip_in_a_rule_is_named(kind: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        make_rule(kind, settings)


def test_rules_that_work_on_sums_say_so() -> None:
    assert {kind for kind, rule in RULES.items() if not rule.needs_rows} == {"Mean", "MajorityVote"}
