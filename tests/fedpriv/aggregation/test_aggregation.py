"""What each rule is: a golden by hand, a second way to the same result, and what others got wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.random import default_rng
from numpy.typing import NDArray
from pytest import approx

from fedpriv import records
from fedpriv.aggregation import (
    Aid,
    Arc,
    Bucketing,
    Bulyan,
    Caf,
    CenteredClipping,
    Chain,
    ClientVote,
    Dnc,
    FlTrust,
    GeometricMedian,
    Krum,
    MajorityVote,
    Meamed,
    Mean,
    Median,
    MultiKrum,
    Nnm,
    NormClipping,
    NormTrimmedSum,
    SignGuard,
    TrimmedMean,
    WeightedVote,
    rule_of,
)
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from server import rounds
from simulations.runs.direct import Here

Matrix = NDArray[Any]


def some(rows: int = 9, columns: int = 40, kind: Any = np.float32, seed: int = 1) -> Matrix:
    return default_rng(seed).normal(size=(rows, columns)).astype(kind)


def aid(seed: int = 1) -> Aid:
    return Aid(default_rng(seed))


values = st.sampled_from([-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 1e30])
matrices = st.tuples(st.integers(5, 9), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=values)
)

# --- by hand ------------------------------------------------------------------------------------------------------

GOLDEN = np.array([[1.0, -9.0], [2.0, 4.0], [3.0, 0.0], [4.0, 8.0], [100.0, 2.0]])
LINE = np.array([[0.0], [1.0], [2.0], [4.0], [8.0], [16.0], [100.0]])
SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
BY_HAND: list[tuple[Any, Matrix, Sequence[float]]] = [
    (Mean(), GOLDEN, [22, 1]),
    (MajorityVote(), GOLDEN, [1, 1]),
    (ClientVote(), GOLDEN, [1, 1]),
    (WeightedVote(), GOLDEN, [1, 1]),
    (TrimmedMean(dropped=1), GOLDEN, [3, 2]),
    (TrimmedMean(dropped=2), GOLDEN, [3, 2]),
    (Median(), GOLDEN, [3, 2]),
    (NormTrimmedSum(dropped=1), GOLDEN, [10, 3]),  # without (100, 2)
    (NormTrimmedSum(dropped=2), GOLDEN, [9, 12]),  # nor (1, −9), longer than (4, 8)
    (NormTrimmedSum(dropped=5), GOLDEN, [0, 0]),
    (NormTrimmedSum(dropped=9), GOLDEN, [0, 0]),
    (Meamed(byzantine=1), GOLDEN, [2.5, 3.5]),  # without 100, without −9
    (Meamed(byzantine=2), GOLDEN, [3, 2]),
    (Krum(byzantine=1), LINE, [2]),  # with 4 neighbours 2 has 1 + 4 + 4 + 36, and so has 4; 1 has 1 + 1 + 9 + 49
    (Krum(byzantine=2), LINE, [2]),  # with 3 neighbours 2 has 1 + 4 + 4, and 1 has 1 + 1 + 9
    (MultiKrum(byzantine=2, kept=2), LINE, [1.5]),
    (MultiKrum(byzantine=2), LINE, [3]),  # 0, 1, 2, 4, 8
    (Bulyan(byzantine=1), LINE, [5 / 3]),  # of 2, 4, 1, 0, 8: 1, 2 and half of either 0 or 4, as far from the median
    (GeometricMedian(), SQUARE, [1, 1]),
    (GeometricMedian(), np.array([[0.0], [1.0], [1.0], [7.0], [1.0]]), [1]),
    (CenteredClipping(radius=4), np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]]), [0.8, 5.2 / 3]),
    (CenteredClipping(radius=1, steps=2), np.array([[9.0], [9.0]]), [2]),
    (Caf(byzantine=1), np.array([[0.0], [0.0], [0.0], [9.0]]), [0]),
    (NormTrimmedSum(dropped=0), np.empty((0, 2)), [0, 0]),
]


@pytest.mark.parametrize(("rule", "matrix", "found"), BY_HAND, ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_golden(rule: Any, matrix: Matrix, found: Sequence[float], kind: Any) -> None:
    assert rule(matrix.astype(kind)) == approx(found, abs=1e-5)


def test_golden_divide_and_conquer() -> None:
    assert Dnc(byzantine=1)(LINE, aid()) == approx([31 / 6])  # without 100


def test_golden_trust() -> None:
    rows = np.array([[3.0, 4.0], [40.0, 30.0], [-9.0, 0.0]])
    # cosines with (1, 0): .6, .8, −1; rows of length 2 in those directions
    expected = (0.6 * np.array([1.2, 1.6]) + 0.8 * np.array([1.6, 1.2])) / 1.4
    assert FlTrust(root=1)(rows, Aid(reference=np.array([2.0, 0.0]))) == approx(expected)


def test_golden_signs() -> None:
    honest = np.array([[1.0, 1.0, 1.0, -1.0], [2.0, 2.0, -2.0, 2.0], [1.0, -1.0, 1.0, 1.0]])
    flipped, loud, silent = -honest[:1], 99 * honest[:1], honest[:1] / 99
    matrix = np.concatenate((honest, flipped, loud, silent))
    expected = (honest[0] + honest[1] / 2 + honest[2]) / 3  # none longer than the median one, of norm 2
    assert SignGuard(share=1.0)(matrix, aid()) == approx(expected)


BEFORE_BY_HAND: list[tuple[Any, list[list[float]], list[list[float]]]] = [
    (Nnm(byzantine=1), [[0], [1], [3], [99]], [[4 / 3], [4 / 3], [4 / 3], [103 / 3]]),
    (Nnm(byzantine=1), [[-1], [0], [1]], [[-0.5], [0], [0.5]]),  # the two neighbours of 0 share a place
    (Arc(byzantine=1), [[3, 4], [0, 1], [30, 40], [0, 2]], [[3, 4], [0, 1], [3, 4], [0, 2]]),
    (NormClipping(radius=1), [[3, 4], [0.3, 0.4], [0, 0]], [[0.6, 0.8], [0.3, 0.4], [0, 0]]),
    (Bucketing(size=9), [[1, 2], [3, 6]], [[2, 4]]),
]


@pytest.mark.parametrize(("step", "matrix", "found"), BEFORE_BY_HAND, ids=str)
def test_golden_before_a_rule(step: Any, matrix: list[list[float]], found: list[list[float]]) -> None:
    assert step(np.array(matrix, float), aid()) == approx(np.array(found))


# --- two ways -----------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("rows", "f"), [(10, 0), (10, 1), (10, 4), (11, 5), (101, 20)])
def test_meamed_takes_the_values_nearest_to_the_median(rows: int, f: int) -> None:
    matrix = some(rows, 500, np.float64)
    away = np.abs(matrix - np.median(matrix, axis=0))
    nearest = np.take_along_axis(matrix, np.argsort(away, axis=0)[: rows - f], axis=0)
    assert Meamed(byzantine=f)(matrix) == approx(nearest.mean(axis=0), rel=1e-12, abs=1e-12)


@given(matrix=matrices, dropped=st.integers(0, 10))
def test_the_norm_trimmed_sum_leaves_out_the_longest_and_of_equals_the_last(matrix, dropped):
    norms = (matrix.astype(float) ** 2).sum(axis=1)
    order = sorted(range(len(matrix)), key=lambda row: (norms[row], row))
    kept = sorted(order[: max(0, len(matrix) - dropped)])
    assert NormTrimmedSum(dropped=dropped)(matrix) == approx(matrix[kept].astype(float).sum(axis=0), rel=1e-6, abs=1e-9)


def krum_order(matrix: Matrix, f: int) -> list[int]:
    """As the paper says it, point by point."""
    scores = []
    for one in range(len(matrix)):
        others = sorted(float(((matrix[one] - row) ** 2).sum()) for place, row in enumerate(matrix) if place != one)
        scores.append(sum(others[: max(0, len(matrix) - f - 2)]))
    return sorted(range(len(matrix)), key=lambda row: (scores[row], row))


@pytest.mark.parametrize(("rows", "f"), [(9, 0), (9, 3), (30, 6), (31, 7)])
@pytest.mark.parametrize("seed", [1, 2])
def test_krum_ranks_as_the_paper_does(rows: int, f: int, seed: int) -> None:
    matrix = some(rows, 20, np.float64, seed)
    order = krum_order(matrix, f)
    assert Krum(byzantine=f)(matrix) == approx(matrix[order[0]], abs=1e-12)
    assert MultiKrum(byzantine=f, kept=5)(matrix) == approx(matrix[order[:5]].mean(axis=0), abs=1e-12)
    assert MultiKrum(byzantine=f)(matrix) == approx(matrix[order[: rows - f]].mean(axis=0), abs=1e-12)


@pytest.mark.parametrize(("rows", "f"), [(9, 0), (9, 1), (30, 6), (31, 7)])
@pytest.mark.parametrize("loud", [0.0, 5.0, 1e30])
def test_bulyan_is_krum_again_and_again_and_then_a_mean_about_the_median(rows: int, f: int, loud: float) -> None:
    matrix = some(rows, 20, np.float64)
    matrix[:f] += loud
    left, chosen = list(range(rows)), []
    while len(chosen) < rows - 2 * f:
        chosen.append(left.pop(krum_order(matrix[left], f)[0]))
    picked = matrix[chosen]
    away = np.abs(picked - np.median(picked, axis=0))
    nearest = np.take_along_axis(picked, np.argsort(away, axis=0)[: rows - 4 * f], axis=0)
    assert Bulyan(byzantine=f)(matrix) == approx(nearest.mean(axis=0), abs=1e-9)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_point_about_the_geometric_median_is_closer_to_the_rows(seed: int) -> None:
    matrix = some(20, 5, np.float64, seed)
    matrix[:6] *= 30
    found = GeometricMedian()(matrix)

    def total(point: Matrix) -> float:
        return float(np.linalg.norm(matrix - point, axis=1).sum())

    unit = ((found - matrix) / np.linalg.norm(found - matrix, axis=1)[:, None]).sum(axis=0)
    assert np.linalg.norm(unit) < 1e-7
    assert all(total(found + 0.01 * step) > total(found) for step in default_rng(1).normal(size=(50, 5)))


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_centred_clipping_step_by_step(steps: int, kind: Any) -> None:
    matrix, point = some(20, 30, kind) + kind(1), np.zeros(30)
    for _ in range(steps):
        away = matrix.astype(float) - point
        point = point + (away * np.minimum(1, 4 / np.linalg.norm(away, axis=1))[:, None]).mean(axis=0)
    assert CenteredClipping(radius=4, steps=steps)(matrix) == approx(point, abs=1e-6)


def caf(matrix: Matrix, f: int) -> Matrix:
    """The filter with the whole covariance, (d, d)."""
    trust, best, least = np.ones(len(matrix)), matrix.mean(axis=0), np.inf
    while trust.sum() > len(matrix) - 2 * f:
        mean = trust @ matrix / trust.sum()
        covariance = (matrix - mean).T @ (trust[:, None] * (matrix - mean)) / trust.sum()
        values, vectors = np.linalg.eigh(covariance)
        if values[-1] < least:
            least, best = values[-1], mean
        scores = ((matrix - mean) @ vectors[:, -1]) ** 2
        trust = np.maximum(trust * (1 - scores / scores[trust > 0].max()), 0)
    return best


@pytest.mark.parametrize("columns", [3, 40])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_caf_filters_as_with_the_whole_covariance(columns: int, seed: int) -> None:
    matrix = some(25, columns, np.float64, seed) * np.linspace(3, 1, columns)
    matrix[:5] += 4
    assert Caf(byzantine=5)(matrix) == approx(caf(matrix, 5), abs=1e-4)


@pytest.mark.parametrize("share", [1.0, 1.5])
def test_dnc_filters_along_the_first_singular_vector(share: float) -> None:
    matrix = some(25, 30, np.float64)
    matrix[:5] += 2
    centred = matrix - matrix.mean(axis=0)
    scores = (centred @ np.linalg.svd(centred)[2][0]) ** 2
    kept = np.argsort(scores)[: 25 - int(np.ceil(share * 5))]
    assert Dnc(byzantine=5, share=share)(matrix, aid()) == approx(matrix[kept].mean(axis=0), abs=1e-9)


@pytest.mark.parametrize("f", [0, 3, 9])
def test_nearest_neighbour_mixing_point_by_point(f: int) -> None:
    matrix = some(20, 10, np.float64)
    for row, found in zip(matrix, Nnm(byzantine=f)(matrix), strict=True):
        near = np.argsort(((matrix - row) ** 2).sum(axis=1))[: 20 - f]
        assert found == approx(matrix[near].mean(axis=0), abs=1e-12)


@pytest.mark.parametrize("f", [0, 1, 3, 9])
def test_arc_cuts_as_many_as_the_paper_says(f: int) -> None:
    matrix = some(20, 10, np.float64) * np.arange(1, 21)[:, None]
    norms = np.linalg.norm(matrix, axis=1)
    longest = np.sort(norms)[::-1][int(2 * (f / 20) * (20 - f))]
    expected = matrix * np.minimum(1, longest / norms)[:, None]
    assert Arc(byzantine=f)(matrix) == approx(expected, rel=1e-12)


@pytest.mark.parametrize(("rows", "size"), [(9, 1), (9, 2), (10, 5), (9, 20)])
def test_bucketing_puts_every_row_in_one_bucket(rows: int, size: int) -> None:
    means = Bucketing(size=size)(np.eye(rows), aid())
    assert ((means > 0).sum(axis=0) == 1).all()
    assert means.sum(axis=1) == approx(1)
    assert sorted((means > 0).sum(axis=1).tolist(), reverse=True)[: rows // size] == [size] * (rows // size)


def test_the_vote_of_rows_is_the_vote_of_the_sum_of_their_signs() -> None:
    for rows in (1, 127, 128, 1000):
        for matrix in (some(rows, 33), default_rng(1).integers(-3, 4, (rows, 33)).astype(np.int8)):
            total = np.sign(matrix).astype(int).sum(axis=0)
            assert (ClientVote()(matrix) == MajorityVote().of_sum(total)).all()


def test_a_majority_adds_up_trials_and_a_clients_vote_is_one_sign() -> None:
    counts = np.array([[4], [4], [1], [1], [1]])  # of 4 trials: 11 are for plus, 9 against, and three clients of five
    about = Aid(centre=Fraction(2))
    assert MajorityVote()(counts, about).tolist() == [1]
    assert ClientVote()(counts - 2).tolist() == [-1]


def test_a_majority_takes_symbols_and_nothing_else() -> None:
    for rows in (np.array([[0.5], [1.0]]), 0.9 * default_rng(1).integers(0, 5, (4, 3)).astype(np.float32) - 1.8):
        with pytest.raises(FedprivError, match="adds up symbols, whole numbers: of other rows ClientVote takes"):
            MajorityVote()(rows)


def test_the_weighted_vote_is_that_of_log_odds() -> None:
    matrix = np.sign(some(15, 300)) * (default_rng(2).random((15, 300)) > 0.1)
    majority = np.sign(matrix.sum(axis=0))
    agreed, contradicted = ((matrix * majority == sign).sum(axis=1) for sign in (1, -1))
    shares = (agreed + 1) / (agreed + contradicted + 2)
    assert (WeightedVote()(matrix) == np.sign(np.log(shares / (1 - shares)) @ matrix)).all()


def test_weights_outvote_a_majority_of_the_careless() -> None:
    rng, truth = default_rng(1), np.sign(default_rng(2).normal(size=4000))
    right = np.array([0.95] * 3 + [0.55] * 8)
    matrix = np.where(rng.random((11, 4000)) < right[:, None], truth, -truth)
    wrong = [(rule(matrix) != truth).mean() for rule in (ClientVote(), WeightedVote())]
    assert wrong[1] < 0.02 < 0.05 < wrong[0]


# --- what others got wrong ----------------------------------------------------------------------------------------


def test_caf_of_equal_rows_is_the_row_and_of_no_attackers_the_mean() -> None:
    row = some(1, 7, np.float64)[0]
    assert Caf(byzantine=2)(np.tile(row, (9, 1))) == approx(row, rel=1e-12)
    assert Caf(byzantine=2)(np.zeros((9, 7))).tolist() == [0] * 7
    assert Caf(byzantine=0)(some(9, 7)) == approx(some(9, 7).mean(axis=0), abs=1e-6)


def test_dnc_takes_those_kept_most_often_where_no_row_is_always_kept() -> None:
    matrix = np.ones((4, 4)) + 9 * np.eye(4)  # each row stands out in one coordinate, which is looked at alone
    rule = Dnc(byzantine=1, sampled=1, steps=40)
    found = rule(matrix, aid())
    assert found.min() >= 1
    assert found.sum() == approx(4 + 9)


@pytest.mark.parametrize("columns", [10, 1000])
def test_every_coordinate_has_its_turn_in_a_sample(columns: int) -> None:
    """A "random" half must not always be the first."""
    seen = np.zeros(columns, bool)
    for seed in range(60):
        loud = np.zeros((5, columns))
        loud[0] = 1e3 * (1 + np.arange(columns))
        found = Dnc(byzantine=1, sampled=max(1, columns // 10), steps=1)(loud, aid(seed))
        assert not found.any()  # the attacker is seen wherever the rule looks
        quiet = np.zeros((5, columns))
        quiet[0, : columns // 2] = 1  # who is loud in one half alone is sometimes not seen
        seen |= Dnc(byzantine=1, sampled=1, steps=1)(quiet, aid(seed)) > 0
    assert seen[: columns // 2].all()
    orders = {tuple(np.flatnonzero(Bucketing(size=2)(np.eye(8), aid(seed))[0])) for seed in range(40)}
    assert {place for order in orders for place in order} == set(range(8))
    assert len(orders) > 10


def test_sign_guard_looks_at_other_coordinates_in_other_rounds() -> None:
    matrix = np.ones((10, 40))
    matrix[7:, :20] = -1  # three flip the first half
    found = {tuple(SignGuard(share=0.05)(matrix, aid(seed))) for seed in range(40)}
    assert len(found) == 2  # noticed, or not where both coordinates drawn are of the other half


@pytest.mark.parametrize("rule", [Median(), Krum(byzantine=1), GeometricMedian(), CenteredClipping(radius=1)], ids=str)
def test_a_row_of_nan_spreads_nowhere(rule: Any) -> None:
    matrix = some(9)
    matrix[4] = np.nan
    assert np.isfinite(rule(matrix)).all()


def test_centred_clipping_and_clipping_remember_nothing_and_write_to_nothing() -> None:
    matrix = 100 * some(9)
    before, rule = matrix.copy(), CenteredClipping(radius=1)
    first = rule(matrix)
    for step in (NormClipping(radius=1), Arc(byzantine=3)):
        assert np.linalg.norm(step(matrix), axis=1).max() < np.linalg.norm(matrix, axis=1).max()
    assert (rule(matrix) == first).all()
    assert (matrix == before).all()


def test_mixing_a_thousand_rows_takes_less_than_a_gigabyte() -> None:
    script = """
import numpy as np
from fedpriv.aggregation import Nnm
Nnm(byzantine=200)(np.random.default_rng(1).normal(size=(1000, 10_000)).astype(np.float32))
with open("/proc/self/status") as status:  # `getrusage` begins with what the parent held when it forked
    print(next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM")))
"""
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=100)
    assert int(outcome.stdout) < 1e9


# --- ties and draws -----------------------------------------------------------------------------------------------


def test_of_rows_of_one_norm_the_last_are_dropped() -> None:
    matrix = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]])
    assert NormTrimmedSum(dropped=1)(matrix).tolist() == [0, 1]
    assert NormTrimmedSum(dropped=3)(matrix[::-1]).tolist() == [0, -1]


ATTACKED = [(Median(), 5), (TrimmedMean(dropped=4), 4), (Meamed(byzantine=4), 4)]  # of 11


@pytest.mark.parametrize(("rule", "attackers"), ATTACKED, ids=str)
@pytest.mark.parametrize("loud", [1e30, -1e30])
def test_a_sorting_rule_stays_among_the_honest_up_to_its_number_of_attackers(
    rule: Any, attackers: int, loud: float
) -> None:
    matrix = some(11)
    honest = matrix[6:].copy()
    matrix[:attackers] = loud
    matrix[attackers:6] = honest[: 6 - attackers]
    assert ((rule(matrix) >= honest.min(axis=0)) & (rule(matrix) <= honest.max(axis=0))).all()
    matrix[attackers:6] = loud  # the majority
    assert not ((rule(matrix) >= honest.min(axis=0)) & (rule(matrix) <= honest.max(axis=0))).all()


@pytest.mark.parametrize(("ties", "vote"), [("zero", 0), ("plus", 1), ("minus", -1)])
def test_a_tie_goes_as_it_was_chosen(ties: str, vote: int) -> None:
    matrix = np.array([[1.0, 1.0, 0.0], [-3.0, 2.0, 0.0]])
    assert ClientVote(ties=ties)(matrix).tolist() == [vote, 1, vote]
    assert MajorityVote(ties=ties)(matrix).tolist() == [-1, 1, vote]
    assert MajorityVote(ties=ties).of_sum(np.array([0, 5, -5])).tolist() == [vote, 1, -1]


def test_a_tie_at_random_is_fair_and_decided_by_the_generator_alone() -> None:
    rule, total = MajorityVote(ties="random"), np.array([0] * 10_000 + [3, -3])
    found = rule.of_sum(total, default_rng(1))
    assert set(found[:-2].tolist()) == {-1, 1}
    assert found[:-2].mean() == approx(0, abs=4 / 100)  # four standard errors
    assert found[-2:].tolist() == [1, -1]
    assert (rule.of_sum(total, default_rng(1)) == found).all()
    assert (rule(np.array([total, -total]), aid()) == rule.of_sum(np.zeros(len(total)), default_rng(1))).all()
    with pytest.raises(FedprivError, match="needs a generator"):
        rule.of_sum(total)


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
        ("ClientVote", {"ties": "coin"}, "ties 'coin' is unknown"),
        ("Krum", {"byzantine": -1}, "Krum: byzantine must be at least 0"),
        ("MultiKrum", {"byzantine": 1, "kept": 0}, "kept must be at least 1"),
        ("Bulyan", {}, "Bulyan needs byzantine"),
        ("GeometricMedian", {"smoothing": 0}, "smoothing must be positive"),
        ("CenteredClipping", {"radius": float("inf")}, "radius must be finite"),
        ("CenteredClipping", {"radius": 1, "steps": 0}, "steps must be at least 1"),
        ("Dnc", {"byzantine": 1, "share": 0}, "share must be positive"),
        ("FlTrust", {"root": 0}, "root must be at least 1"),
        ("SignGuard", {"longest": 0.5}, "longest must be at least 1, the median's own length, got 0.5"),
        ("SignGuard", {"share": 2}, "share must be between 0 and 1"),
        ("Median", {"before": "Nnm"}, "before must be a list of tables"),
        ("Median", {"before": [{"size": 2}]}, r"before: each must be a table with kind = \"…\""),
        ("Median", {"before": [{"kind": "Nmn"}]}, r"unknown pre-aggregator 'Nmn' \(did you mean 'Nnm'\?\)"),
        ("Median", {"before": [{"kind": "Bucketing", "size": 0}]}, "Bucketing: size must be at least 1"),
        ("Median", {"before": [{"kind": "NormClipping"}]}, "NormClipping needs radius"),
    ],
)
def test_a_slip_in_a_rule_is_named(kind: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        rule_of(kind, settings)


def test_trust_without_anything_to_go_by_says_so() -> None:
    rule, rows = FlTrust(root=3), np.ones((3, 2))
    with pytest.raises(FedprivError, match="needs a reference"):
        rule(rows)
    with pytest.raises(FedprivError, match="trusts nobody: no message points the way"):
        rule(rows, Aid(reference=-np.ones(2)))
    with pytest.raises(FedprivError, match="trusts nobody: the server's own update is zero"):
        rule(rows, Aid(reference=np.zeros(2)))


def test_a_chain_needs_what_each_of_its_steps_needs() -> None:
    assert Chain((Bucketing(size=2),), TrimmedMean(dropped=3)).least == 13  # seven buckets
    assert Chain((Nnm(byzantine=5),), Median()).least == 11
    with pytest.raises(FedprivError, match="needs at least 7 rows, got 6"):
        Chain((Bucketing(size=2),), TrimmedMean(dropped=3))(some(12), aid())


# --- in a study ---------------------------------------------------------------------------------------------------

STUDY = """
data.kind = "Digits"
clients = { count = 100, byzantine = 0.2 }
attack.kind = "SignFlip"
run.rounds = 1
"""


def study(*overrides: str) -> Study:
    return study_file.parsed_study(STUDY, overrides=overrides)


@pytest.mark.parametrize(
    ("table", "filled"),
    [
        ('{kind="TrimmedMean"}', {"dropped": 20}),
        ('{kind="Krum"}', {"byzantine": 20}),
        ('{kind="Krum", byzantine=7}', {"byzantine": 7}),
        ('{kind="Median"}', {}),
        ('{kind="Median", before=[{kind="Nnm"}]}', {"before": [{"kind": "Nnm", "byzantine": 20}]}),
        (
            '{kind="Meamed", before=[{kind="Bucketing", size=2}, {kind="Arc", byzantine=3}]}',
            {
                "before": [{"kind": "Bucketing", "size": 2}, {"kind": "Arc", "byzantine": 3}],
                "byzantine": 20,
            },
        ),
    ],
)
def test_a_study_fills_in_its_number_of_attackers_and_says_so(table: str, filled: dict[str, Any]) -> None:
    own = study(f"aggregation={table}")
    assert own.aggregation.settings == filled
    again = study_file.parsed_study(study_file.study_text(own))
    assert again == own
    assert again.id == own.id


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (['aggregation={kind="TrimmedMean", dropped=50}'], "needs 101 clients, but a round asks 100 at most"),
        (['aggregation={kind="NormTrimmedSum", dropped=100}'], "needs 101 clients, but a round asks 100 at most"),
        (['aggregation={kind="Krum", byzantine=49}'], "needs 101 clients"),
        (['aggregation={kind="Bulyan"}', "clients.byzantine=25"], "needs 103 clients"),
        (['aggregation={kind="Median"}', "clients.participation={kind='Fixed', number=9}"], None),
        (['aggregation={kind="TrimmedMean"}', "clients.participation={kind='Fixed', number=40}"], "asks 40 at most"),
        (['aggregation={kind="TrimmedMean", before=[{kind="Bucketing", size=3}]}'], "needs 121 clients"),
        (['aggregation={kind="Krum"}', "privacy.trust=secure-aggregation"], "Krum needs each client's message"),
        (
            ['aggregation={kind="Mean", before=[{kind="Nnm"}]}', "privacy.trust=secure-aggregation"],
            "Mean with a before needs each client's message",
        ),
        (['aggregation={kind="WeightedVote"}', "server.decoder=mean"], "must be 'vote' for a WeightedVote"),
    ],
)
def test_a_rule_that_could_never_work_is_refused_before_the_first_round(
    overrides: list[str], message: str | None
) -> None:
    if message is None:
        study(*overrides)
    else:
        with pytest.raises(FedprivError, match=message):
            study(*overrides)


# --- in a run -----------------------------------------------------------------------------------------------------

RUN = """
name = "run"
data = { kind = "Digits", held_out = 360, divide = 16.0, subtract = 0.3, aside = 100 }
clients = { count = 40, records = 10, byzantine = 0.2 }
privacy = { mechanism = { kind = "Plain", clip = 1.0 } }
attack.kind = "SignFlip"
run.rounds = 3
"""
CHAINS = [
    '{kind="FlTrust", root=100}',
    '{kind="Krum", before=[{kind="Bucketing", size=1}, {kind="Nnm"}]}',
    '{kind="SignGuard", before=[{kind="NormClipping", radius=0.5}]}',
    '{kind="NormTrimmedSum", before=[{kind="Bucketing", size=2}]}',
    '{kind="WeightedVote"}',
]


@pytest.mark.parametrize("table", CHAINS)
def test_a_run_learns_and_its_records_do_not_depend_on_cohorts(table: str, tmp_path: Path) -> None:
    own = study_file.parsed_study(RUN, overrides=[f"aggregation={table}", "server.step=0.3"])
    written = []
    for cohorts in (1, 3):
        result = rounds.run_rounds(own, tmp_path / str(cohorts), Here(cohorts), quiet=True)
        written.append((tmp_path / str(cohorts) / "records.jsonl").read_bytes())
        assert result["skipped"] == 0
        assert result["accuracy"] > 0.2  # guessing: 0.1
    assert written[0] == written[1]


def test_the_servers_own_records_are_set_aside_or_the_rule_is_refused(tmp_path: Path) -> None:
    own = study_file.parsed_study(RUN, overrides=['aggregation={kind="FlTrust", root=9999}'])
    why = r"FlTrust takes root = 9,999 records of the server.s own, and data.aside sets 100 aside: data.aside = 9999"
    with pytest.raises(FedprivError, match=why):
        rounds.run_rounds(own, tmp_path / "run", Here(1), quiet=True)
    assert not (tmp_path / "run").exists()


def test_rows_that_are_not_finite_are_counted_and_named(tmp_path: Path) -> None:
    own = study_file.parsed_study(RUN, overrides=["attack={kind='NonFinite'}", 'aggregation={kind="Median"}'])
    rounds.run_rounds(own, tmp_path / "run", Here(1), quiet=True)
    for line in records.read_records(tmp_path / "run" / "records.jsonl").rounds:
        assert sum(line["rejected"].values()) + sum(line["failed"].values()) == 8
        assert line["skipped"] is None
        assert line["note"]
