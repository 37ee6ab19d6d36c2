"""Rules of subsets and of clusters: by hand, beside a search through everything, and beside another's code."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.random import default_rng
from numpy.typing import NDArray
from pytest import approx

from fedpriv.aggregation import Aid, Chain, ClippedClustering, Flame, Mda, MoNna, Nnm, Smea
from fedpriv.aggregation._cover import most_branches, vertex_cover
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file

Matrix = NDArray[Any]

BY_HAND: list[tuple[Any, list[list[float]], list[float]]] = [
    (Mda(byzantine=2), [[0], [1], [3], [6], [10]], [4 / 3]),  # 0, 1, 3 are 3 apart; 1, 3, 6 are 5
    (Mda(byzantine=0), [[0], [9]], [4.5]),
    (Mda(byzantine=1, search="ball"), [[0], [2], [3], [9]], [5 / 3]),
    (Smea(byzantine=1), [[0], [1], [2], [-9]], [1]),
    (Smea(byzantine=1), [[5, 0], [-5, 0], [0, 4], [0, -4], [0, 0]], [-1.25, 0]),  # 25 along one axis, 32 the other
    (Smea(byzantine=0), [[1, 2], [3, 6]], [2, 4]),
    (ClippedClustering(), [[2, 0], [4, 0], [0, 2]], [2, 0]),  # the median norm is 2
    (ClippedClustering(), [[1, 0], [0, 1]], [1, 0]),  # as large: that of the first row
    (ClippedClustering(), [[3, 4]], [3, 4]),
    (Flame(), [[1, 0], [3, 0], [0, 2], [9, 0]], [2, 0]),  # the median norm is 2.5: (1 + 2.5 + 2.5) / 3
    (Flame(), [[3, 4]], [3, 4]),
]


@pytest.mark.parametrize(("rule", "matrix", "found"), BY_HAND, ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_golden(rule: Any, matrix: list[list[float]], found: list[float], kind: Any) -> None:
    assert rule(np.array(matrix, kind)) == approx(found, abs=1e-6)


def test_golden_nearest_to_ones_own() -> None:
    matrix = np.array([[0.0, 0.0], [4.0, 0.0], [1.0, 1.0], [-9.0, 0.0]])
    assert MoNna(byzantine=1, root=5)(matrix, Aid(reference=np.array([2.0, 0.0]))) == approx([5 / 3, 1 / 3])
    assert MoNna(byzantine=0, root=5)(matrix, Aid(reference=np.array([2.0, 0.0]))) == approx([-1, 0.25])
    with pytest.raises(FedprivError, match=r"MoNna\(byzantine=1, root=5\) needs a reference: the server's own update"):
        MoNna(byzantine=1, root=5)(matrix)


# --- beside a search through everything ---------------------------------------------------------------------------


def diameter(rows: Matrix) -> float:
    return float(np.linalg.norm(rows[:, None] - rows, axis=2).max())


def largest_eigenvalue(rows: Matrix) -> float:
    return float(np.linalg.eigvalsh(np.cov(rows.T, bias=True).reshape(rows.shape[1], -1))[-1])


def best_subsets(matrix: Matrix, f: int, measure: Any) -> list[Matrix]:
    """All that are as good as any: where few pairs are far apart several subsets have the same diameter."""
    subsets = [matrix[list(kept)] for kept in combinations(range(len(matrix)), len(matrix) - f)]
    measures = np.array([measure(rows) for rows in subsets])
    return [subsets[place] for place in np.flatnonzero(measures <= measures.min() + 1e-9)]


SEARCHES: list[tuple[Any, Any]] = [(Mda, diameter), (Smea, largest_eigenvalue)]


@pytest.mark.parametrize(("kind", "measure"), SEARCHES)
@pytest.mark.parametrize(
    ("rows", "f", "columns"), [(3, 1, 1), (7, 0, 4), (7, 3, 2), (9, 4, 40), (11, 5, 3), (14, 3, 8)]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_subset_has_a_smaller_diameter_or_a_smaller_eigenvalue(
    kind: Any, measure: Any, rows: int, f: int, columns: int, seed: int
) -> None:
    matrix = default_rng(seed).normal(size=(rows, columns))
    matrix[: f // 2] += 2
    means = np.array([best.mean(axis=0) for best in best_subsets(matrix, f, measure)])
    assert np.abs(means - kind(byzantine=f)(matrix)).max(axis=1).min() < 1e-12
    assert kind is Mda or len(means) == 1


few = arrays(np.float64, st.tuples(st.integers(5, 8), st.integers(1, 3)), elements=st.sampled_from([-1.0, 0.0, 1, 3]))


@pytest.mark.parametrize(("kind", "measure"), SEARCHES)
@given(matrix=few, f=st.integers(0, 2))
def test_of_rows_that_are_equal_or_as_far_apart_a_best_subset_is_taken_too(kind, measure, matrix, f):
    means = np.array([best.mean(axis=0) for best in best_subsets(matrix, f, measure)])
    assert np.abs(means - kind(byzantine=f)(matrix)).max(axis=1).min() < 1e-9


@given(matrix=few, f=st.integers(0, 2))
def test_the_ball_is_within_twice_the_least_diameter(matrix, f):
    weights = Mda(byzantine=f, search="ball")(np.concatenate((matrix, np.eye(len(matrix)) * 1e-7), axis=1))
    kept = weights[matrix.shape[1] :] > 1e-9
    assert kept.sum() == len(matrix) - f
    assert diameter(matrix[kept]) <= 2 * diameter(best_subsets(matrix, f, diameter)[0]) + 1e-5


@given(data=st.data(), points=st.integers(1, 8))
def test_a_cover_meets_every_line_and_none_smaller_does(data, points):
    upper = np.triu(data.draw(arrays(bool, (points, points))), 1)
    lines = upper | upper.T
    pairs = np.argwhere(upper)

    def covers(chosen: tuple[int, ...]) -> bool:
        return bool(np.isin(pairs, chosen).any(axis=1).all())

    least = next(k for k in range(points + 1) if any(map(covers, combinations(range(points), k))))
    assert not least or vertex_cover(lines, least - 1) is None
    for most in range(least, points + 1):
        found = vertex_cover(lines, most)
        assert found is not None
        assert len(found) <= most
        assert covers(tuple(found))


def test_the_steps_of_a_search_are_counted_by_what_a_branch_takes_away() -> None:
    assert [most_branches(points) for points in range(6)] == [1, 2, 3, 5, 8, 12]
    assert most_branches(30) < 2**18 < most_branches(31)


# --- beside another's code ----------------------------------------------------------------------------------------


def cosine_distances(matrix: Matrix) -> Matrix:
    units = matrix / np.linalg.norm(matrix, axis=1)[:, None]
    distances: Matrix = np.clip(1 - units @ units.T, 0, 2)
    np.fill_diagonal(distances, 0)
    return distances


def clipped_mean(matrix: Matrix, kept: Matrix) -> Matrix:
    sizes = np.linalg.norm(matrix, axis=1)
    mean: Matrix = (matrix * np.minimum(1, np.median(sizes) / sizes)[:, None])[kept].mean(axis=0)
    return mean


def two_camps(rows: int, seed: int) -> Matrix:
    rng = default_rng(seed)
    matrix = rng.normal(size=20) + 0.7 * rng.normal(size=(rows, 20))
    matrix[: rows // 3] *= -2
    return matrix[rng.permutation(rows)] * rng.uniform(0.5, 3, (rows, 1))


@pytest.mark.parametrize("rows", [3, 10, 31, 100])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_larger_cluster_is_that_of_scikit_learn(rows: int, seed: int) -> None:
    from sklearn.cluster import AgglomerativeClustering

    matrix = two_camps(rows, seed)
    labels = AgglomerativeClustering(n_clusters=2, metric="precomputed", linkage="average").fit_predict(
        cosine_distances(matrix)
    )
    kept = labels == np.bincount(labels).argmax()
    assert ClippedClustering()(matrix) == approx(clipped_mean(matrix, kept), abs=1e-12)


@pytest.mark.parametrize("rows", [5, 10, 31, 100])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_first_majority_is_what_hdbscan_keeps(rows: int, seed: int) -> None:
    from sklearn.cluster import HDBSCAN

    matrix = two_camps(rows, seed)
    found = HDBSCAN(
        min_cluster_size=rows // 2 + 1, min_samples=1, metric="precomputed", allow_single_cluster=True, copy=True
    ).fit_predict(cosine_distances(matrix))
    assert Flame()(matrix) == approx(clipped_mean(matrix, found == 0), abs=1e-12)


# --- what cannot be searched --------------------------------------------------------------------------------------


def test_a_search_that_would_be_too_large_is_refused_with_its_numbers() -> None:
    with pytest.raises(
        FedprivError,
        match=r"^Mda: byzantine = 40 may take an exact search 8\.4e\+06 steps, where "
        r"262,144 are the most: search = 'ball', within twice the least diameter$",
    ):
        Mda(byzantine=40)  # fmt: skip
    assert Mda(byzantine=40, search="ball").least == 81
    with pytest.raises(FedprivError, match=r"^Smea: byzantine = 12 of 25 rows are 5\.2e\+06 subsets, too many"):
        Smea(byzantine=12)
    with pytest.raises(
        FedprivError,
        match=r"^Smea: byzantine = 4 of 37 rows are 6\.6e\+04 subsets, too many to search"
        r": fewer clients a round, fewer attackers, or the rule Caf$",
    ):
        Smea(byzantine=4)(default_rng(1).normal(size=(37, 3)))  # fmt: skip


def test_a_study_whose_rounds_are_too_large_for_a_rule_is_refused_before_it_runs() -> None:
    words = ["aggregation.kind=Smea", "privacy.trust=local", "clients.count=100", "clients.byzantine=4"]
    with pytest.raises(FedprivError, match=r"Smea\(byzantine=4\) works with 36 rows at most, but a round has 100"):
        study_file.read_study("digits", words)
    few = study_file.read_study("digits", [*words, "clients.participation={kind='Fixed', number=36}"])
    assert few.rule == Smea(byzantine=4)
    buckets = "aggregation={kind='Smea', before=[{kind='Bucketing', size=3}]}"
    assert study_file.read_study("digits", [*words, buckets]).rule.least > 9


def test_a_rule_of_subsets_takes_mixed_rows_as_points() -> None:
    matrix = default_rng(1).normal(size=(12, 30))
    for rule in (Mda(byzantine=3), Smea(byzantine=3)):
        apart = rule(Nnm(byzantine=3)(matrix))
        assert Chain((Nnm(byzantine=3),), rule)(matrix) == approx(apart, abs=1e-9)
