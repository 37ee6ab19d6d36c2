"""One table of every rule and every pre-aggregator, crossed with every law."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from fractions import Fraction
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
    STEPS,
    Aid,
    Arc,
    Bucketing,
    Bulyan,
    Caf,
    CenteredClipping,
    Chain,
    ClientVote,
    ClippedClustering,
    Dnc,
    Flame,
    FlTrust,
    GeometricMedian,
    Krum,
    MajorityVote,
    Mda,
    Meamed,
    Mean,
    Median,
    MoNna,
    MultiKrum,
    Nnm,
    NormClipping,
    NormTrimmedSum,
    SignGuard,
    Smea,
    TrimmedMean,
    WeightedVote,
    finite_rows,
    rule_of,
)
from fedpriv.errors import FedprivError

Matrix = NDArray[Any]

ROWS, F, COLUMNS = 23, 4, 40

VOTES: list[Any] = [ClientVote(), ClientVote(ties="plus"), ClientVote(ties="minus"), WeightedVote()]
OF_SYMBOLS: list[Any] = [MajorityVote(), MajorityVote(ties="plus"), MajorityVote(ties="minus")]  # whole numbers alone
SORTING: list[Any] = [
    Median(),
    TrimmedMean(dropped=0),
    TrimmedMean(dropped=F),
    Meamed(byzantine=0),
    Meamed(byzantine=F),
]
SUMS: list[Any] = [NormTrimmedSum(dropped=0), NormTrimmedSum(dropped=F)]
DISTANCES: list[Any] = [
    Krum(byzantine=F), MultiKrum(byzantine=F), MultiKrum(byzantine=F, kept=3), Bulyan(byzantine=F), GeometricMedian(),
    Dnc(byzantine=F), Dnc(byzantine=F, share=1.5, sampled=30, steps=3), Caf(byzantine=F),
    Mda(byzantine=F), Mda(byzantine=F, search="ball"), Smea(byzantine=F),
]  # fmt: skip
FROM_THE_ORIGIN: list[Any] = [
    CenteredClipping(radius=7.0), CenteredClipping(radius=7.0, steps=3), FlTrust(root=5), SignGuard(share=0.5),
    ClippedClustering(), Flame(), MoNna(byzantine=F, root=5),
]  # fmt: skip
MIXED: list[Any] = [
    Chain((Nnm(byzantine=F),), Krum(byzantine=F)),
    Chain((Nnm(byzantine=F),), Median()),
    Chain((Nnm(byzantine=F),), GeometricMedian()),
    Chain((Nnm(byzantine=F),), Caf(byzantine=F)),
]
BUCKETS: list[Any] = [
    Chain((Bucketing(size=2),), Median()),
    Chain((Bucketing(size=2), Nnm(byzantine=F)), MultiKrum(byzantine=F)),
]
CUT: list[Any] = [
    Chain((Arc(byzantine=F),), Mean()),
    Chain((NormClipping(radius=7.0), Nnm(byzantine=F)), Caf(byzantine=F)),
]
EVERY = [Mean(), *VOTES, *SORTING, *SUMS, *DISTANCES, *FROM_THE_ORIGIN, *MIXED, *BUCKETS, *CUT]
MEANS = [Mean(), *SORTING, *DISTANCES, *MIXED, *BUCKETS]  # move with their rows
PRE: list[Any] = [Nnm(byzantine=F), Bucketing(size=3), Arc(byzantine=F), NormClipping(radius=6.0)]


def each(rules: Iterable[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("rule", rules, ids=str)


def without(rules: list[Any], *kinds: type[Any]) -> list[Any]:
    return [rule for rule in rules if not isinstance(rule, kinds)]


def some(rows: int = ROWS, columns: int = COLUMNS, kind: Any = np.float32, seed: int = 1) -> Matrix:
    """Rows about a common point, as updates are."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=columns) + rng.normal(size=(rows, columns))).astype(kind)


def apply(rule: Any, matrix: Matrix, seed: int = 5) -> Matrix:
    reference = np.random.default_rng(1).normal(size=matrix.shape[1] if matrix.ndim == 2 else 1)
    found: Matrix = rule(matrix, Aid(np.random.default_rng(seed), reference))
    return found


def settings(own: Any) -> dict[str, Any]:
    return {each.name: getattr(own, each.name) for each in fields(own)}


def close(matrix: Matrix) -> float:
    """What rounding may do, in the precision of the matrix."""
    return 1e-10 if matrix.dtype == np.float64 else 2e-5


# Few values, so that ties, zeros of either sign and equal norms abound.
values = st.sampled_from([-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 1e30])
matrices = st.tuples(st.integers(ROWS, ROWS + 3), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=values)
)


# --- every rule ---------------------------------------------------------------------------------------------------


def test_every_kind_is_in_the_table() -> None:
    rules = [*EVERY, *OF_SYMBOLS]
    assert {type(rule).__name__ for rule in rules if not isinstance(rule, Chain)} == set(RULES)
    assert {type(step).__name__ for step in PRE} == set(STEPS)


def test_rules_that_work_on_sums_say_so() -> None:
    assert {kind for kind, rule in RULES.items() if not rule.needs_rows} == {"Mean", "MajorityVote"}


@each(EVERY)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, np.int64, np.float16])
@pytest.mark.parametrize("columns", [1, COLUMNS])
def test_the_result_is_a_finite_vector_in_double_precision(rule: Any, kind: Any, columns: int) -> None:
    matrix = np.abs(3 * some(columns=columns)).astype(kind)  # positive: the reference may point the other way
    found = rule(matrix, Aid(np.random.default_rng(1), np.ones(columns)))
    assert found.shape == (columns,)
    assert found.dtype == np.float64
    assert np.isfinite(found).all()


@each(EVERY)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_nothing_that_was_given_is_changed_and_a_matrix_may_be_read_only(rule: Any, kind: Any) -> None:
    spoilt = some(ROWS + 1, kind=kind)
    spoilt[3, 2] = np.nan
    for matrix in (some(kind=kind), some(ROWS, 5000, kind), np.asfortranarray(some(kind=kind)), spoilt):
        before = matrix.copy()
        matrix.flags.writeable = False
        apply(rule, matrix)
        assert matrix.tobytes() == before.tobytes()


@each(EVERY)
@given(data=st.data(), matrix=matrices)
def test_rows_that_are_not_finite_are_as_if_absent(rule, data, matrix):
    wrong = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    spoilt = np.repeat(matrix[:1], 3, axis=0)
    spoilt[:, data.draw(st.integers(0, matrix.shape[1] - 1))] = wrong
    place = data.draw(st.integers(0, len(matrix)))
    mixed = np.concatenate((matrix[:place], spoilt, matrix[place:]))
    assert np.flatnonzero(~finite_rows(mixed)).tolist() == [place, place + 1, place + 2]
    if isinstance(rule, FlTrust) and not (matrix.sum(axis=1) > 0).any():
        return  # trusts nobody
    aid = lambda: Aid(np.random.default_rng(1), np.ones(matrix.shape[1]))  # noqa: E731
    assert rule(mixed, aid()).tobytes() == rule(matrix, aid()).tobytes()


@each(EVERY)
def test_a_number_too_large_to_square_is_left_out(rule: Any) -> None:
    matrix = some(kind=np.float64)
    loud = np.full((1, COLUMNS), 1e200)
    assert (apply(rule, np.concatenate((loud, matrix, -loud))) == apply(rule, matrix)).all()


@each(without(EVERY, *{type(rule) for rule in BUCKETS}) + MIXED + CUT)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_order_of_the_rows_changes_nothing_beyond_rounding(rule: Any, kind: Any) -> None:
    matrix = some(kind=kind)
    shuffled = matrix[np.random.default_rng(2).permutation(ROWS)]
    assert apply(rule, shuffled) == approx(apply(rule, matrix), rel=close(matrix), abs=close(matrix))


@given(data=st.data(), matrix=matrices)
def test_the_order_of_the_rows_changes_no_bit_of_a_sorting_rule_or_a_majority(data, matrix):
    rule = data.draw(st.sampled_from([*SORTING, *VOTES[:3]]))
    shuffled = matrix[data.draw(st.permutations(range(len(matrix))))]
    assert rule(shuffled).tobytes() == rule(matrix).tobytes()


@each(EVERY)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_same_rows_give_the_same_bits_wherever_they_lie(rule: Any, kind: Any) -> None:
    matrix = some(columns=5000, kind=kind)
    expected = apply(rule, matrix).tobytes()
    for offset in (1, 3, 8):
        memory = np.empty(matrix.size + offset, kind)[offset:].reshape(matrix.shape)
        memory[...] = matrix
        assert apply(rule, memory).tobytes() == expected


@each(EVERY)
def test_single_and_double_precision_agree(rule: Any) -> None:
    matrix = some(columns=300)
    assert apply(rule, matrix) == approx(apply(rule, matrix.astype(np.float64)), rel=2e-5, abs=2e-5)


@each(EVERY)
def test_whole_numbers_are_taken_as_they_are(rule: Any) -> None:
    symbols = np.random.default_rng(1).integers(-1, 2, (ROWS, COLUMNS))
    symbols[:, :9] = 1
    expected = apply(rule, symbols.astype(float))
    for kind in (np.int8, np.int16, np.int64):
        assert apply(rule, symbols.astype(kind)) == approx(expected, rel=1e-12, abs=1e-12)


@each(without(EVERY, NormTrimmedSum))
def test_too_few_rows_are_an_error_that_names_the_need(rule: Any) -> None:
    apply(rule, some(rule.least))
    matrix = some(rule.least + 1)
    matrix[:2, 0] = np.nan
    with pytest.raises(FedprivError, match=r" needs at least \d+ rows?, got \d+ of finite numbers among \d+$"):
        apply(rule, matrix)


@each(EVERY)
def test_what_is_no_matrix_is_refused(rule: Any) -> None:
    with pytest.raises(FedprivError, match="must be a matrix"):
        apply(rule, np.ones(3))


@each(EVERY)
def test_rules_are_made_from_their_settings(rule: Any) -> None:
    if isinstance(rule, Chain):
        before = [{"kind": type(step).__name__, **settings(step)} for step in rule.before]
        assert rule_of(type(rule.rule).__name__, {**settings(rule.rule), "before": before}) == rule
    else:
        assert rule_of(type(rule).__name__, settings(rule)) == rule


@each([rule for rule in EVERY if "Dnc" in str(rule) or "SignGuard" in str(rule) or "Bucketing" in str(rule)])
def test_a_rule_that_draws_asks_for_a_generator(rule: Any) -> None:
    with pytest.raises(FedprivError, match="needs a generator"):
        rule(some())
    assert apply(rule, some()).tobytes() == apply(rule, some()).tobytes()


@each(OF_SYMBOLS)
class TestARuleOfSymbols:
    @pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.float32, np.float64])
    def test_it_gives_a_finite_vector_and_changes_nothing(self, rule: Any, kind: Any) -> None:
        matrix = np.random.default_rng(1).integers(0, 5, (300, COLUMNS)).astype(kind)
        matrix.flags.writeable = False
        found = rule(matrix, Aid(centre=Fraction(2)))
        assert found.shape == (COLUMNS,)
        assert found.dtype == np.float64
        leaning = np.sign(matrix.astype(int).sum(axis=0) - 600)
        assert (found[leaning != 0] == leaning[leaning != 0]).all()

    def test_rows_that_are_not_finite_are_as_if_absent(self, rule: Any) -> None:
        matrix = np.round(some())
        assert apply(rule, np.insert(matrix, 4, np.nan, axis=0)).tobytes() == apply(rule, matrix).tobytes()

    def test_the_order_of_the_rows_changes_no_bit(self, rule: Any) -> None:
        matrix = np.round(9 * some())
        assert apply(rule, matrix[::-1]).tobytes() == apply(rule, matrix).tobytes()

    def test_it_is_made_from_its_settings_and_refuses_what_it_cannot_take(self, rule: Any) -> None:
        assert rule_of("MajorityVote", settings(rule)) == rule
        for wrong, why in ((np.ones(3), "must be a matrix"), (np.ones((0, 3)), "needs at least 1 row, got 0"),
                           (some(), "ClientVote")):  # fmt: skip
            with pytest.raises(FedprivError, match=why):
                apply(rule, wrong)


# --- symmetries ---------------------------------------------------------------------------------------------------


@each(MEANS)
@pytest.mark.parametrize("shift", [-4.0, 0.25, 1024.0])
def test_a_mean_moves_with_its_rows(rule: Any, shift: float) -> None:
    matrix = some(kind=np.float64)
    assert apply(rule, matrix + shift) == approx(apply(rule, matrix) + shift, rel=1e-7, abs=1e-7)


@each([*DISTANCES, *MIXED])
def test_single_precision_survives_a_large_offset(rule: Any) -> None:
    near = some().astype(np.float64)
    far = (near + 4096).astype(np.float32)  # 4,000 times as far off as rows are from each other
    exact = apply(rule, far.astype(np.float64) - 4096)
    assert apply(rule, far) - 4096 == approx(exact, abs=2e-3)


@each([*without(EVERY, ClientVote), ClientVote()])
def test_opposite_rows_give_the_opposite(rule: Any) -> None:
    reference = np.random.default_rng(1).normal(size=COLUMNS)
    for matrix in (some(kind=np.float64), np.round(some(kind=np.float64))):
        one = rule(matrix, Aid(np.random.default_rng(1), reference))
        other = rule(-matrix, Aid(np.random.default_rng(1), -reference))
        assert other == approx(-one, rel=1e-7, abs=1e-7)


@each([*MEANS, *SUMS, SignGuard(), ClippedClustering(), Flame(), Chain((Arc(byzantine=F),), Mean())])
@pytest.mark.parametrize("factor", [2.0**-60, 8.0, 2.0**60])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_scaled_rows_give_the_scaled_result(rule: Any, factor: float, kind: Any) -> None:
    matrix = some(kind=kind)
    found = apply(rule, (factor * matrix).astype(kind))
    assert found / factor == approx(apply(rule, matrix), rel=10 * close(matrix), abs=10 * close(matrix))


@each([*VOTES, FlTrust(root=1)])
def test_a_vote_and_trust_do_not_depend_on_scale(rule: Any) -> None:
    matrix = some()
    assert apply(rule, 8 * matrix) == approx(apply(rule, matrix), rel=1e-5, abs=1e-6)


@each(
    [
        *MEANS,
        SignGuard(),
        ClippedClustering(),
        Flame(),
        CenteredClipping(radius=50),
        Chain((Arc(byzantine=F),), Mean()),
    ]
)
@pytest.mark.parametrize(
    "row", [some(1)[0], np.zeros(COLUMNS, np.float32), np.full(COLUMNS, 1e-30, np.float32)], ids=str
)
def test_rows_that_agree_are_the_result(rule: Any, row: Matrix) -> None:
    found = apply(rule, np.repeat(row[None], ROWS, axis=0))
    assert found == approx(row.astype(float), rel=1e-5, abs=1e-37)


@each(VOTES)
def test_votes_that_agree_are_the_result(rule: Any) -> None:
    row = some(1)
    assert (apply(rule, np.repeat(row, ROWS, axis=0)) == np.sign(row[0])).all()


@each(without(MEANS, *{type(rule) for rule in MIXED}))
@given(matrix=matrices)
def test_a_mean_lies_among_its_rows(rule, matrix):
    found, slack = apply(rule, matrix), 1e-5 * np.abs(matrix).max(axis=0)
    assert (found >= matrix.min(axis=0) - slack).all()
    assert (found <= matrix.max(axis=0) + slack).all()


@each([Mean(), *SORTING, *VOTES[:3], SUMS[0]])
def test_a_column_does_not_depend_on_the_others(rule: Any) -> None:
    matrix = some(9, 100_000)
    assert rule(matrix)[70_000:70_003] == approx(rule(matrix[:, 70_000:70_003]), rel=1e-12)


# --- attackers ----------------------------------------------------------------------------------------------------

ROBUST: list[Any] = [
    *(Median(), TrimmedMean(dropped=F), Meamed(byzantine=F)),
    *(rule for rule in DISTANCES if rule != Dnc(byzantine=F, share=1.5, sampled=30, steps=3)),
    *(SignGuard(share=1.0), ClippedClustering(), Flame(), MoNna(byzantine=F, root=5)),
    *(*MIXED, *BUCKETS, *CUT),
]


def attacked(kind: Any, loud: float, how: str) -> tuple[Matrix, Matrix]:
    """Honest rows, and the same with F loud ones among them."""
    honest = some(ROWS - F, kind=kind)
    rng = np.random.default_rng(3)
    ways: dict[str, Callable[[], Matrix]] = {
        "together": lambda: np.full((F, COLUMNS), loud),
        "opposed": lambda: np.full((F, COLUMNS), loud) * np.array([[1], [-1], [1], [-1]]),
        "apart": lambda: loud * rng.normal(size=(F, COLUMNS)).clip(-1, 1),
        "graded": lambda: np.full((F, COLUMNS), loud) * 10.0 ** -np.arange(F)[:, None],
    }
    matrix = np.concatenate((honest, ways[how]().astype(kind)))
    return honest, matrix[rng.permutation(ROWS)]


@each(ROBUST)
@pytest.mark.parametrize(
    ("kind", "loud"),
    [(np.float32, 1e4), (np.float32, 1e15), (np.float32, 1e38), (np.float64, 1e6), (np.float64, 1e149)],
)
@pytest.mark.parametrize("how", ["together", "opposed", "apart", "graded"])
def test_a_robust_rule_stays_near_the_honest_whatever_f_others_send(
    rule: Any, kind: Any, loud: float, how: str
) -> None:
    if isinstance(rule, Dnc) and how == "graded":
        return  # it looks once along one direction: louder rows hide the others
    honest, matrix = attacked(kind, loud, how)
    middle = honest.astype(float).mean(axis=0)
    reach = np.linalg.norm(honest - middle, axis=1).max()
    assert np.linalg.norm(apply(rule, matrix) - middle) <= reach


def test_a_mean_does_not() -> None:
    honest, matrix = attacked(np.float64, 1e6, "together")
    assert np.linalg.norm(apply(Mean(), matrix) - honest.mean(axis=0)) > 1e5


@each(FROM_THE_ORIGIN[:3])
@pytest.mark.parametrize("loud", [1e4, 1e38])
@pytest.mark.parametrize("how", ["together", "opposed"])
def test_clipping_and_trust_bound_the_result(rule: Any, loud: float, how: str) -> None:
    _, matrix = attacked(np.float32, loud, how)
    reference = some(1)[0].astype(float)
    longest = np.linalg.norm(reference) if isinstance(rule, FlTrust) else rule.radius * rule.steps
    assert np.linalg.norm(rule(matrix, Aid(reference=reference))) <= longest * (1 + 1e-5)


# --- on one thread ------------------------------------------------------------------------------------------------

BITS = """
import hashlib, sys
import numpy as np
sys.path.insert(0, {here!r})
from test_rule_laws import EVERY, PRE, apply, some
digest = hashlib.sha256()
matrices = [some(101, 3000), some(257, 700), some(33, 4096, np.float64)]
for matrix in matrices:
    for rule in EVERY + PRE:
        if len(matrix) <= getattr(rule, "most", np.inf):
            digest.update(apply(rule, matrix).tobytes())
product = matrices[1] @ matrices[1].T  # of as many threads as there are
print(digest.hexdigest(), hashlib.sha256(product.tobytes()).hexdigest())
"""


def test_the_bits_do_not_depend_on_the_number_of_threads() -> None:
    found = []
    for threads in ("1", "2"):
        outcome = subprocess.run(
            [sys.executable, "-c", BITS.format(here=os.path.dirname(__file__))],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        found.append(outcome.stdout.split())
    assert found[0][0] == found[1][0]


# --- before a rule ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", PRE, ids=str)
class TestBeforeARule:
    def test_it_says_how_many_rows_are_left(self, step: Any) -> None:
        for rows in range(step.least, ROWS + 2):
            assert len(apply(step, some(rows))) == step.left(rows)

    @pytest.mark.parametrize("kind", [np.float32, np.float64])
    def test_precision_is_kept_and_nothing_given_is_changed(self, step: Any, kind: Any) -> None:
        matrix = some(kind=kind)
        before = matrix.copy()
        matrix.flags.writeable = False
        assert apply(step, matrix).dtype == kind
        assert (matrix == before).all()

    def test_rows_that_are_not_finite_are_as_if_absent(self, step: Any) -> None:
        matrix = some()
        spoilt = np.insert(matrix, 4, np.nan, axis=0)
        assert apply(step, spoilt).tobytes() == apply(step, matrix).tobytes()

    def test_whole_numbers_are_taken(self, step: Any) -> None:
        symbols = np.random.default_rng(1).integers(-1, 2, (ROWS, COLUMNS))
        assert apply(step, symbols.astype(np.int8)) == approx(apply(step, symbols.astype(float)), abs=1e-12)

    def test_rows_that_agree_stay_or_are_shortened(self, step: Any) -> None:
        row = some(1, kind=np.float64)
        expected = row * min(1, getattr(step, "radius", np.inf) / np.linalg.norm(row))
        found = apply(step, np.repeat(row, ROWS, axis=0))
        assert found == approx(np.repeat(expected, len(found), axis=0), rel=1e-9)

    def test_it_says_whether_the_rows_that_come_out_are_some_of_those_that_went_in(self, step: Any) -> None:
        matrix = np.random.default_rng(1).integers(-4, 5, (ROWS, COLUMNS)).astype(float)
        known = {row.tobytes() for row in matrix}
        assert step.keeps_symbols == all(row.tobytes() in known for row in apply(step, matrix))

    def test_too_few_rows_are_an_error(self, step: Any) -> None:
        with pytest.raises(FedprivError, match=rf"needs at least {step.least} row"):
            apply(step, some(step.least)[: step.least - 1])

    def test_rows_that_change_places_change_places(self, step: Any) -> None:
        matrix, order = some(), np.random.default_rng(2).permutation(ROWS)
        if not isinstance(step, Bucketing):
            assert apply(step, matrix[order]) == approx(apply(step, matrix)[order], rel=1e-5, abs=1e-5)


@each([Krum(byzantine=F), MultiKrum(byzantine=F), GeometricMedian(), Caf(byzantine=F), Mda(byzantine=F)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0, 300])
def test_mixing_the_weights_is_mixing_the_rows(rule: Any, kind: Any, offset: float) -> None:
    matrix = some(kind=kind) + kind(offset)
    matrix[:F] += 9
    apart = rule(Nnm(byzantine=F)(matrix.astype(np.float64)))
    assert Chain((Nnm(byzantine=F),), rule)(matrix) == approx(apart, abs=1e-3 if kind == np.float32 else 1e-6)
