"""Propose-test-release: the margin by brute force, the release, and what it costs by every route (docs/ptr.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import combinations_with_replacement, product
from math import exp, inf, log
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy.special import ndtr

from fedpriv import releases as private_sums
from fedpriv.accounting.account import Account
from fedpriv.accounting.calibration import calibrate
from fedpriv.accounting.event import by_hand
from fedpriv.accounting.ledger import Ledger
from fedpriv.accounting.published.ptr import ptr_published
from fedpriv.curves._densities import gaussian_stick
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, Unreachable
from fedpriv.mechanisms import COSTED, MECHANISMS, Gaussian, Ptr
from fedpriv.mechanisms.ptr_pairs import ptr_attained
from fedpriv.mechanisms.ptr_renyi import (
    ConditionNotMet,
    black_box,
    black_box_lower,
    theorem_4_2,
    theorem_4_3,
    theorem_4_4,
)
from fedpriv.releases.ptr import check_trimmed, kept_rows, next_trimmed, passes_test, safety_margin, step_ratio
from simulations.command_line import main

TABLE = [  # σ₁, τ, b, δ₀; exact ε at δ = 1e−5, Theorem 4.3 at its best real order, Theorem 4.2
    ((10, 0.5, 5, 1e-5), 0.52258, 0.560453, 0.68448),
    ((4, 0.5, 2, 1e-8), 1.38446, 1.471648, 1.71120),
    ((1.1, 0.5, 1, 1e-8), 4.79100, 5.241249, 5.40437),
]


def ptr(noise=10.0, bound=0.5, test_noise=5.0, failure=1e-5, clip=1.0):
    return Ptr(clip=clip, bound=bound, noise=noise, test_noise=test_noise, failure=failure)


def epsilon(mechanism, delta=1e-5, **facts):
    return Account((by_hand(mechanism=mechanism, **facts),)).epsilon(delta).bounds


# --- the margin: what [P] defines, searched for ----------------------------------------------------------------------

LIMIT = 0.5
RECORDS = (0.0, 0.3, LIMIT, -0.5, 0.8, 1.0, -1.0)  # of norm at most 1; a record's place is its fixed order


def trimmed_sum(batch: tuple[int, ...], trimmed: int) -> float:
    ranked = sorted(batch, key=lambda at: (abs(RECORDS[at]), at))
    return sum(RECORDS[at] for at in ranked[: max(len(batch) - trimmed, 0)])


def neighbours(batch: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for at in range(len(RECORDS)):
        yield tuple(sorted((*batch, at)))
    for place in range(len(batch)):
        yield batch[:place] + batch[place + 1 :]


def local_sensitivity(batch: tuple[int, ...], trimmed: int) -> float:
    own = trimmed_sum(batch, trimmed)
    return max(abs(trimmed_sum(other, trimmed) - own) for other in neighbours(batch))


def searched_margin(batch: tuple[int, ...], trimmed: int, limit: float) -> int:
    """The fewest records added or removed that reach a batch of local sensitivity above the limit."""
    reached, steps = {batch}, 0
    while not any(local_sensitivity(other, trimmed) > limit + 1e-12 for other in reached):
        reached, steps = {far for near in reached for far in neighbours(near)}, steps + 1
    return steps


@pytest.mark.parametrize("trimmed", [1, 2])
def test_the_margin_is_what_a_search_over_additions_and_removals_finds(trimmed):
    for size in range(5 - trimmed):
        for batch in combinations_with_replacement(range(len(RECORDS)), size):
            norms = [abs(RECORDS[at]) for at in batch]
            assert safety_margin(ptr(bound=LIMIT), norms, trimmed) == searched_margin(batch, trimmed, LIMIT), batch


@given(st.lists(st.integers(0, len(RECORDS) - 1), max_size=7), st.sampled_from([0.3, 0.5, 0.8]))
@settings(max_examples=12, deadline=None)
def test_the_margin_is_found_for_larger_batches_and_other_bounds(batch, limit):
    norms = [abs(RECORDS[at]) for at in batch]
    assert safety_margin(ptr(bound=limit), norms, 2) == searched_margin(tuple(sorted(batch)), 2, limit)


@given(st.lists(st.integers(0, len(RECORDS) - 1), max_size=9), st.integers(1, 4), st.integers(0, len(RECORDS) - 1))
def test_one_record_moves_the_trimmed_sum_by_one_record_and_the_margin_by_one(batch, trimmed, extra):
    grown = (*batch, extra)
    moved = trimmed_sum(grown, trimmed) - trimmed_sum(tuple(batch), trimmed)
    assert min(abs(moved - record) for record in (0.0, *RECORDS)) < 1e-12
    margins = [safety_margin(ptr(bound=LIMIT), [abs(RECORDS[at]) for at in some], trimmed) for some in (batch, grown)]
    assert abs(margins[0] - margins[1]) <= 1
    assert (
        max(margins) == 0 or abs(moved) <= LIMIT + 1e-12
    )  # so the noise of the trimmed sum suffices wherever it should


def test_a_bound_as_large_as_the_clip_leaves_the_margin_at_f():
    assert safety_margin(ptr(bound=1.0), [1.0, 1.0 + 1e-12, 0.2], 2) == 2
    assert safety_margin(ptr(bound=0.5), [], 7) == 7


@given(st.lists(st.sampled_from([0.1, 0.5, 1.0]), min_size=1, max_size=12), st.integers(1, 13), st.randoms())
def test_ties_are_broken_by_the_record_not_by_its_place(norms, trimmed, random):
    numbers = list(range(100, 100 + len(norms)))
    chosen = {number for number, keep in zip(numbers, kept_rows(norms, trimmed, numbers), strict=True) if keep}
    shuffled = list(zip(norms, numbers, strict=True))
    random.shuffle(shuffled)
    mask = kept_rows([norm for norm, _ in shuffled], trimmed, [number for _, number in shuffled])
    assert {number for (_, number), keep in zip(shuffled, mask, strict=True) if keep} == chosen
    assert len(chosen) == max(len(norms) - trimmed, 0)
    left_out = [norm for norm, number in zip(norms, numbers, strict=True) if number not in chosen]
    assert all(norm <= least for norm, number in shuffled if number in chosen for least in left_out)


def test_a_tie_at_the_cut_needs_an_order():
    with pytest.raises(FedprivError, match="order"):
        kept_rows([1.0, 1.0, 0.5], 1)
    assert kept_rows([1.0, 0.5, 0.5], 1).tolist() == [False, True, True]
    with pytest.raises(FedprivError, match="each differently"):
        kept_rows([1.0, 1.0], 1, [3, 3])


# --- the release: the one that trains ---------------------------------------------------------------------------------

MANY = 10_000.0  # records expected: enough for any F below


def release(mechanism, records, trimmed, rng, numbers=None):
    """(whether it passed, the sum) of `private_sums.Ptr` on a batch: F of the next step shows the branch."""
    rows = np.asarray(records, dtype=np.float32)
    kind = private_sums.Ptr(
        clip=mechanism.clip, bound=mechanism.bound, noise=mechanism.noise, test_noise=mechanism.test_noise,
        failure=mechanism.failure, sampling=0.5, trimmed=trimmed, step=1,
    )  # fmt: skip
    batch = private_sums.Batch.of(kind, rows, np.arange(len(rows)) if numbers is None else numbers, MANY)
    found = kind.released(batch, rng)
    assert found.settings in ((trimmed - 1.0,), (trimmed + 1.0,))
    return found.settings[0] < trimmed, found.total


def test_the_two_branches_release_the_two_sums():
    rng = np.random.default_rng(1)
    tame, wild = np.full((200, 2), 0.2), np.full((200, 2), 3.0)
    mechanism = ptr(noise=1e-6, test_noise=1.0, failure=1e-3)
    passed, total = release(mechanism, tame, 40, rng)
    assert passed
    assert total == approx([160 * 0.2] * 2, abs=1e-4)
    passed, total = release(mechanism, wild, 40, rng)
    assert not passed
    assert total == approx([200 / np.sqrt(2)] * 2, rel=2e-5)  # clipped to norm 1, certainly not above


@pytest.mark.parametrize(("value", "scale"), [(0.0, 2 * 0.5 * 3), (9.0, 2 * 3)])
def test_the_noise_is_a_multiple_of_what_it_hides(value, scale):
    mechanism = ptr(noise=2.0, test_noise=1.0, failure=1e-3, clip=3.0)
    _, total = release(mechanism, np.full((30, 20_000), value), 20, np.random.default_rng(2))
    clipped = 30 * 3 / np.sqrt(20_000) if value else 0.0
    assert np.std(total - clipped) == approx(scale, rel=5 / np.sqrt(2 * 20_000))


def test_an_empty_batch_and_one_smaller_than_f_are_released_as_noise():
    for size in (0, 5):
        mechanism = ptr(noise=2.0, test_noise=1.0)
        passed, total = release(mechanism, np.full((size, 4), 0.2), 40, np.random.default_rng(3))
        assert passed
        assert total.shape == (4,)
        assert np.abs(total).max() < 6
        assert np.ptp(total) > 0


def test_records_that_are_not_finite_are_left_out_as_if_they_were_not_there():
    records = np.full((60, 3), 0.3)
    records[4, 1], records[9, 0] = np.nan, inf
    rngs = [np.random.default_rng(4) for _ in range(2)]
    numbers = np.arange(60)
    dirty = release(ptr(test_noise=1.0), records, 40, rngs[0], numbers)
    kept_numbers = np.delete(numbers, [4, 9])
    clean = release(ptr(test_noise=1.0), np.delete(records, [4, 9], axis=0), 40, rngs[1], kept_numbers)
    assert dirty[0] == clean[0]
    np.testing.assert_array_equal(dirty[1], clean[1])


def test_a_test_that_should_fail_passes_with_at_most_the_failure_chance():
    mechanism = ptr(test_noise=3.0, failure=0.05)
    rng = np.random.default_rng(5)
    passed = sum(passes_test(mechanism, 0, rng) for _ in range(20_000))
    chance = mechanism.passing(0)
    assert chance <= 0.05
    assert passed == approx(20_000 * chance, abs=4 * np.sqrt(20_000 * chance))


@given(st.floats(0.01, 100), st.floats(1e-12, 0.5))
def test_whole_margins_never_pass_more_often_than_failure_allows(test_noise, failure):
    mechanism = ptr(test_noise=test_noise, failure=failure)
    assert mechanism.passing(0) <= failure
    assert mechanism.passing(mechanism.enough) > 0.5 > mechanism.passing(mechanism.enough - 1)


def test_f_follows_the_released_test_as_algorithm_2_has_it():
    assert next_trimmed(60, False, step=5, most=255) == 65
    assert next_trimmed(60, True, step=5, most=255) == 55
    assert next_trimmed(3, True, step=5, most=255) == 1
    assert next_trimmed(254, False, step=5, most=255) == 255


def test_f_goes_the_other_way_where_a_release_follows_appendix_b_1_3():
    settings = {"clip": 1.0, "bound": 0.5, "noise": 1.0, "test_noise": 1.0, "failure": 1e-8, "sampling": 0.5}
    one, other = (private_sums.Ptr(**settings, trimmed=64, **more) for more in ({}, {"after_pass": "more"}))
    assert (one.next_trimmed(64, True, 256), one.next_trimmed(64, False, 256)) == (59, 69)
    assert (other.next_trimmed(64, True, 256), other.next_trimmed(64, False, 256)) == (69, 59)


@pytest.mark.slow
@pytest.mark.parametrize("margin", [6, 7])
def test_an_attack_on_the_release_that_trains_comes_near_the_certified_curve_and_never_past_it(margin):
    """d = 1: records of norm τ and one of norm R that joins them; the best test on (branch, sum), 25,000 times each."""
    mechanism, runs = ptr(noise=1.1, test_noise=2.0, failure=0.02), 25_000
    assert mechanism.enough == 7
    without = np.full((12, 1), 0.49999)  # lengths are rounded up: one of exactly τ may count as longer
    batches = (without, np.vstack([without, [[1.0]]]))
    rng, seen = np.random.default_rng(6), []
    for batch in batches:
        found = [release(mechanism, batch, margin, rng) for _ in range(runs)]
        seen.append(np.array([(passed, total[0]) for passed, total in found]))
    sums = [(float(batch.sum()), trimmed_sum_of(batch, margin)) for batch in batches]
    for level in (0.25, 0.5, 1.0):
        inside = [loss_of(outcome, mechanism, sums, (margin, margin - 1)) > level for outcome in seen]
        rates = [hits.mean() for hits in inside]
        error = np.sqrt(rates[1] * (1 - rates[1]) / runs + exp(2 * level) * rates[0] * (1 - rates[0]) / runs)
        edge, bound = rates[1] - exp(level) * rates[0], mechanism.tradeoff(seen="branch").delta(level)
        assert edge < bound + 4 * error
        assert edge > 0.8 * bound


def trimmed_sum_of(batch, trimmed):
    return float(np.sort(batch[:, 0])[: len(batch) - trimmed].sum())


def loss_of(outcome, mechanism, sums, margins):
    """ln(Q/P) of each (branch, sum)."""
    passed, total = outcome.T.astype(float)
    chances = [np.where(passed, mechanism.passing(m), 1 - mechanism.passing(m)) for m in margins]
    scale = mechanism.noise * np.where(passed, mechanism.limit, mechanism.clip)
    squares = [((total - np.where(passed, short, full)) / scale) ** 2 / 2 for full, short in sums]
    return np.log(chances[1]) - np.log(chances[0]) + squares[0] - squares[1]


# --- what it costs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("settings_", "exact", "renyi", "direct"), TABLE)
def test_the_exact_pairs_give_the_table_of_the_theory(settings_, exact, renyi, direct):
    low, high = epsilon(ptr(*settings_))
    assert low <= exact + 5e-6
    assert high == approx(exact, abs=1e-5)
    assert high - low < 1e-4 * high
    published = ptr_published(ptr(*settings_), rounds=1, rate=1, delta=1e-5)
    assert published["[P] Theorem 4.3, α not whole"]["epsilon"] == approx(renyi, abs=1e-5)
    assert published["[P] Theorem 4.2"]["epsilon"] == approx(direct, abs=1e-5)
    assert published["[P] Theorem 4.2"]["delta"] == settings_[3] + 1e-5
    assert published["[P] Theorem 4.3"]["epsilon"] >= published["[P] Theorem 4.3, α not whole"]["epsilon"]
    assert ("but" in published["[P] Theorem 4.2"]) == (settings_[0] < 5)


def test_clip_only_scales():
    assert epsilon(ptr(clip=3.0)) == epsilon(ptr())
    assert epsilon(ptr(), dimension=1000, geometry="l2") == epsilon(ptr())


@pytest.mark.parametrize("mechanism", [ptr(1.1, 0.5, 1.0, 0.02), ptr(2.0, 0.3, 2.0, 0.2), ptr(3.0, 0.8, 0.7, 1e-3)])
def test_no_neighbouring_data_sets_are_told_apart_better_than_the_curve_says(mechanism):
    """Every pair of batches of few records, both ways round; and the curve is attained by some."""
    curve, closest = mechanism.tradeoff(), 0.0
    values, trimmed, level = (0.0, mechanism.bound, 1.0, -1.0), 2, 0.7
    bound = curve.delta(level)
    for size in range(4):
        for batch, extra in product(combinations_with_replacement(values, size), values):
            grown = (*batch, extra)
            sides = [seen_of(some, trimmed, mechanism) for some in (batch, grown)]
            for first, second in (sides, sides[::-1]):
                edge = told_apart(first, second, mechanism, level)
                assert edge <= bound * (1 + 1e-3)
                closest = max(closest, edge)
    assert closest >= bound * 0.995


def seen_of(batch, trimmed, mechanism):
    """(margin, sum, trimmed sum)."""
    ranked = sorted(batch, key=lambda value: (abs(value), value))
    margin = safety_margin(mechanism, [abs(value) for value in batch], trimmed)
    return margin, sum(batch), sum(ranked[: max(len(batch) - trimmed, 0)])


def told_apart(first, second, mechanism, level):
    """D(ε) of the releases of two batches: Δ̂ on a fine grid, Gaussians in closed form at the ε that Δ̂ leaves."""
    b, grid = mechanism.test_noise, np.union1d(np.linspace(-20, 30, 501), mechanism.threshold)
    below = [
        np.where(grid < m, np.exp((grid - m) / b) / 2, 1 - np.exp((m - grid) / b) / 2) for m in (first[0], second[0])
    ]
    total, centre = 0.0, (grid[1:] + grid[:-1]) / 2
    for p, q, at in zip(np.diff(below[0]), np.diff(below[1]), centre, strict=True):
        if p < 1e-15 or q < 1e-15:
            continue
        passed = at > mechanism.threshold
        scale = mechanism.noise * (mechanism.bound if passed else 1.0)
        mu, left = abs(first[1 + passed] - second[1 + passed]) / scale, level - log(q / p)
        total += q * (gaussian_stick(mu, left) if mu > 1e-9 else max(-np.expm1(left), 0.0))
    return total


BRANCH = [  # σ₁, τ, b, δ₀, q, T; ε at δ = 1e−5 where only the branch is seen (theory of the hull of Theorem D)
    ((1.1, 0.5, 1, 1e-8), 256 / 60000, 2000, 1.37509),
    ((0.7806, 0.5, 1, 1e-8), 256 / 60000, 2000, 2.85158),
    ((3.97, 0.5, 4, 1e-8), 0.25, 60, 2.96316),
    ((1.1, 0.5, 1, 1e-8), 1.0, 1, 4.675400),
    ((4, 0.5, 2, 1e-8), 1.0, 1, 1.366350),
    ((10, 0.5, 5, 1e-5), 1.0, 1, 0.519515),
]


@pytest.mark.parametrize(("settings_", "rate", "rounds", "truth"), BRANCH)
def test_where_only_the_branch_is_seen_it_costs_what_the_hull_of_three_margins_says(settings_, rate, rounds, truth):
    facts = {"sampling": rate, "rounds": rounds, "dimension": 2, "geometry": "l2"}
    low, high = epsilon(ptr(*settings_), seen="branch", **facts)
    assert truth - 1e-5 <= high == approx(truth, abs=2e-5)
    assert high < epsilon(ptr(*settings_), seen="margin", **facts).lower
    assert 0.5 * high < low <= high
    if rate == 1:
        assert low == approx(high, rel=3e-4)  # one release of real data attains it


def test_the_papers_images_cost_less_than_with_the_margin_and_can_do_with_less_noise():
    facts = {"sampling": 256 / 60000, "rounds": 2000, "seen": "branch"}
    assert epsilon(ptr(0.7806, 0.5, 1.0, 1e-8), **facts).upper <= 2.853
    given_ = {"clip": 1.0, "bound": 0.5, "test_noise": 1.0, "failure": 1e-8}
    found, cost = calibrate("Ptr", given_, lambda own: by_hand(own, **facts), epsilon=3, delta=1e-5)
    assert found.noise <= 0.767
    assert cost.bounds.upper <= 3


@pytest.mark.parametrize(("noise", "b", "failure"), [(1.1, 1.0, 1e-8), (0.6, 0.5, 0.25), (4.0, 4.0, 1e-5)])
def test_no_margin_is_told_apart_better_than_the_hull_of_the_three_beside_the_threshold(noise, b, failure):
    """Every m, by the closed form of its pair, in both directions; and of the three one attains the hull somewhere."""
    mechanism, reached = ptr(noise, 0.5, b, failure), 0.0
    curve = mechanism.tradeoff(seen="branch")
    for (sign, hull), level in product(((1, curve), (-1, curve.inverse)), np.linspace(-2, 6, 33)):
        bound = hull.delta(level)
        for m in range(1, mechanism.enough + 20):
            before, after = (mechanism.passing(at) for at in (m, m - 1)[::sign])
            edge = 0.0
            for p, q in ((before, after), (1 - before, 1 - after)):
                edge += q * gaussian_stick(1 / noise, level - log(q / p)) if min(p, q) > 1e-14 else 0.0
            assert edge <= bound * (1 + 1e-9) + 1e-12
            reached = max(reached, edge / bound)
    assert reached > 1 - 1e-6


@pytest.mark.parametrize("rate", [0.1, 0.4, 1.0])
@pytest.mark.parametrize(("b", "failure", "trimmed"), [(0.5, 0.05, 3), (1.0, 0.2, 2), (1.0, 0.02, 5), (2.0, 0.2, 3)])
def test_no_sampled_data_sets_are_told_apart_better_than_the_curve_of_the_branch_says(rate, b, failure, trimmed):
    """Exact laws: every subset that may be drawn, what of it is seen, both directions; the others are sampled too."""
    mechanism = ptr(1.3, 0.5, b, failure)
    curve = mechanism.tradeoff(seen="branch")
    curve = curve if rate == 1 else curve.subsampled(rate, "add-remove")
    rng, closest = np.random.default_rng(7), 0.0
    sets = [tuple(rng.choice([0.0, 0.3, 0.5, 1.0, -1.0], size)) for size in rng.integers(0, 6, 12)]
    sets += [(0.5,) * trimmed, (1.0,) * (trimmed + 1), (0.5,) * (trimmed - 1) + (1.0,), ()]
    for others in sets:
        for extra in (1.0, -1.0, 0.5):
            p = law_of(others, mechanism, trimmed, rate)
            q = (1 - rate) * p + rate * law_of(others, mechanism, trimmed, rate, joined=extra)
            for level in (-0.5, 0.0, 0.4, 1.0, 2.0):
                for first, second, bound in ((p, q, curve.delta(level)), (q, p, curve.inverse.delta(level))):
                    edge = np.maximum(second - exp(level) * first, 0).sum()
                    assert edge <= bound * (1 + 1e-4) + 1e-6
                    closest = max(closest, edge / bound) if bound > 1e-3 and level >= 0 else closest
    assert closest > (0.97 if rate == 1 else 0.5)


GRID = np.linspace(-16, 16, 3201)


def law_of(others, mechanism, trimmed, rate, joined=None):
    """Masses of (branch, sum) on a grid: mixed over all subsets of the others, `joined` always there."""
    masses = np.zeros((2, GRID.size - 1))
    for drawn in product((False, True), repeat=len(others)):
        share = rate ** sum(drawn) * (1 - rate) ** (len(others) - sum(drawn))
        if not share:
            continue
        batch = [record for record, there in zip(others, drawn, strict=True) if there]
        batch += [] if joined is None else [joined]
        margin, total, short = seen_of(tuple(batch), trimmed, mechanism)
        chance = mechanism.passing(margin)
        for row, weight, centre, scale in ((0, 1 - chance, total, 1.0), (1, chance, short, mechanism.bound)):
            masses[row] += share * weight * np.diff(ndtr((GRID - centre) / (scale * mechanism.noise)))
    return masses


def test_a_record_among_longer_ones_at_right_angles_is_never_trimmed_and_leaves_no_margin():
    """The data behind `ptr_attained` where records are sampled: what is seen along the record is its own pair."""
    mechanism, trimmed, rng = ptr(2.0, 0.5, 1.0, 1e-3), 20, np.random.default_rng(8)
    kind = private_sums.Ptr(
        clip=1, bound=0.5, noise=2, test_noise=1, failure=1e-3, sampling=0.3, trimmed=trimmed, step=1
    )
    for _ in range(50):
        drawn = int(rng.integers(trimmed + 1, 200))
        rows = np.tile(np.array([[0.0, 7.0]], np.float32), (drawn, 1))
        for batch_rows in (rows, np.vstack([rows, [[1.0, 0.0]]]).astype(np.float32)):
            batch = private_sums.Batch.of(kind, batch_rows, rng.permutation(len(batch_rows)), 200.0)
            assert safety_margin(mechanism, np.minimum(batch.lengths, 1.0), trimmed) == 0
            for chosen in (batch.usable, batch.shortest(trimmed)):
                assert batch.summed(chosen, kind)[0] * kind.fine.step == approx(len(batch_rows) - drawn, abs=2e-5)
    found = ptr_attained(mechanism, "branch", rate=0.3, rounds=5, dimension=2)
    gaussian, wrong, chance = (1 / 2.0, 1 / 1.0, mechanism.passing(0))
    for level in (0.0, 0.2, 0.5):
        before = log((exp(level) - 1 + 0.3) / 0.3)
        truth = 0.3 * ((1 - chance) * gaussian_stick(gaussian, before) + chance * gaussian_stick(wrong, before))
        assert Tradeoff(found[0].curve.below).delta(level) <= truth * (1 + 1e-9)
        assert Tradeoff(found[0].curve.below).delta(level) == approx(truth, rel=1e-4)


def test_one_record_alone_attains_what_is_said_of_it_where_the_margin_is_seen():
    """F = 1: Δ̂ on a grid, the sum where the test fails, nothing where it passes."""
    mechanism, level = ptr(1.1, 0.5, 1.0, 1e-3), 0.5
    b, edges = 1.0, np.linspace(-12, mechanism.enough - 0.5, 4001)
    below = [np.where(edges < m, np.exp((edges - m) / b) / 2, 1 - np.exp((m - edges) / b) / 2) for m in (1, 0)]
    truth = max(mechanism.passing(0) - exp(level) * mechanism.passing(1), 0.0)
    for p, q in zip(np.diff(below[0]), np.diff(below[1]), strict=True):
        truth += q * gaussian_stick(1 / 1.1, level - log(q / p))
    found = ptr_attained(mechanism, "margin", rate=0.5, rounds=1, dimension=1)
    assert [each.proof for each in found] == ["explicit records: one of norm clip joins none, F = 1, Poisson sampled"]
    before = log((exp(level) - 0.5) / 0.5)
    sampled = Tradeoff(found[0].curve.below)
    assert sampled.delta(level) <= 0.5 * truth_at(mechanism, before, edges, below) * (1 + 1e-5)
    assert sampled.delta(level) == approx(0.5 * truth_at(mechanism, before, edges, below), rel=1e-3)
    assert truth < mechanism.tradeoff().delta(level)


def truth_at(mechanism, level, edges, below):
    found = max(mechanism.passing(0) - exp(level) * mechanism.passing(1), 0.0)
    for p, q in zip(np.diff(below[0]), np.diff(below[1]), strict=True):
        found += q * gaussian_stick(1 / mechanism.noise, level - log(q / p))
    return found


def test_where_nothing_is_known_to_reach_it_the_lower_bound_is_0_and_says_why():
    cost = Account((by_hand(ptr(), sampling=0.1, rounds=3, seen="branch"),)).epsilon(1e-5)
    assert cost.bounds.lower == 0 < cost.bounds.upper
    assert "none known" in cost.lower_proof
    many = Account((by_hand(ptr(1.1, 0.5, 1, 1e-8), rounds=2, seen="branch"),)).epsilon(1e-5)
    assert many.lower_proof == "explicit records: all of norm clip, no margin"  # F moves after a round
    assert 0 < many.bounds.lower < many.bounds.upper


def test_sampled_and_composed_the_bounds_meet_below_what_the_paper_can_prove():
    mechanism, rate, rounds = ptr(1.1, 0.5, 1.0, 1e-8), 256 / 60000, 2000
    low, high = epsilon(mechanism, sampling=rate, rounds=rounds)
    assert low <= high <= low * 1.01
    assert high == approx(1.4553, abs=1e-3)
    published = ptr_published(mechanism, rounds=rounds, rate=rate, delta=1e-5)
    box = published["[P] Theorem 4.3, black-box sampling (Zhu–Wang)"]["epsilon"]
    lower = published["[P] Theorem 4.3, lower bound of black-box sampling"]["epsilon"]
    strong = published["[P] Theorem 4.2, strong composition (Kairouz–Oh–Viswanath)"]
    assert high < lower < box < strong["epsilon"]
    assert "but" in strong
    assert "σ₁ ≥ σ₂ ≥ 4" in published["[P] Theorem 4.4"]["refused"]


def test_the_table_of_the_page_is_what_the_accountant_says():
    page = (Path(__file__).parents[3] / "docs" / "ptr.md").read_text(encoding="utf-8")
    rows = [line.replace(",", "").strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if len(row) == 13 and row[0][0].isdigit()]
    assert len(rows) >= 10
    for noise, bound, test_noise, rate, rounds, *said_, a, b, c, d in rows[1::4]:
        mechanism, published = ptr(float(noise), float(bound), float(test_noise), 1e-8), [a, b, c, d]
        facts = {"sampling": float(rate), "rounds": int(rounds), "dimension": 2, "geometry": "l2"}
        ways = [epsilon(mechanism, seen=seen, **facts) for seen in ("margin", "branch")]
        assert [f"{bound_:.4f}" for found in ways for bound_ in (found.upper, found.lower)] == said_
        theirs = ptr_published(mechanism, rounds=int(rounds), rate=float(rate), delta=1e-5).values()
        said = [f"{each['epsilon']:.4g}" + "*" * ("but" in each) if "epsilon" in each else "σ₂ < 4" for each in theirs]
        assert said == published


def test_test_and_sum_on_one_sample_cost_more_than_each_on_its_own():
    """The same Poisson sample is seen by both noises: the curve of the pair is sampled, not each curve."""
    together = epsilon(ptr(1.0, 0.5, 1.0, 1e-8), sampling=0.01, rounds=100).lower
    alone = epsilon(Gaussian(clip=1, noise=1.0), sampling=0.01, rounds=100).upper
    assert together > alone


def test_where_the_white_box_theorem_holds_the_exact_pairs_are_below_it():
    mechanism, rate = ptr(), 0.01
    published = ptr_published(mechanism, rounds=2000, rate=rate, delta=1e-5)
    exact = epsilon(mechanism, sampling=rate, rounds=2000).upper
    white, box = published["[P] Theorem 4.4"]["epsilon"], published["[P] Theorem 4.3, black-box sampling (Zhu–Wang)"]
    assert exact < white < box["epsilon"]
    assert published["[P] Theorem 4.2, strong composition (Kairouz–Oh–Viswanath)"]["epsilon"] == inf  # 2000·q·δ₀ > δ


def test_a_bound_as_large_as_the_clip_is_the_gaussian_mechanism():
    assert epsilon(ptr(2.0, 1.0, 0.1, 0.3)).upper == approx(epsilon(Gaussian(clip=1, noise=2.0)).upper, rel=1e-9)


BEYOND = [(1e-3, 0.5, 1, 1e-8), (1, 0.5, 1e-6, 1e-8), (1, 1e-3, 1, 0.5), (1e9, 0.5, 1e9, 0.1)]


@pytest.mark.parametrize(
    ("settings_", "rate"), [*((each, 1.0) for each in BEYOND), *((each, 0.1) for each in BEYOND[1:])]
)
def test_noise_beyond_all_reason_still_has_bounds(settings_, rate):
    low, high = epsilon(ptr(*settings_), rounds=3, sampling=rate)
    assert 0 <= low <= high < inf


def test_the_mu_that_is_named_lies_below_the_curve():
    mechanism = ptr(1.1, 0.5, 1.0, 1e-3)
    account = Account((by_hand(mechanism=mechanism),))
    alpha = np.linspace(0.001, 0.999, 200)
    assert account.mu == approx(mechanism.mu)
    assert (Tradeoff.gaussian(mechanism.mu)(alpha) <= mechanism.tradeoff()(alpha) + 1e-9).all()


def test_calibration_finds_the_noise_and_names_what_is_out_of_reach():
    given_ = {"clip": 1.0, "bound": 0.5, "test_noise": 1.0, "failure": 1e-8}
    mechanism, cost = calibrate("Ptr", given_, lambda own: by_hand(own, rounds=3), epsilon=6, delta=1e-5)
    assert 5.97 < cost.bounds.upper <= 6
    assert epsilon(ptr(mechanism.noise * 0.98, 0.5, 1.0, 1e-8), rounds=3).lower > 6
    with pytest.raises(Unreachable, match="out of reach"):  # the test alone costs 1/b
        calibrate("Ptr", given_, by_hand, epsilon=0.3, delta=1e-5)


def test_a_ledger_keeps_it(tmp_path):
    ledger = Ledger().add(by_hand(mechanism=ptr(), sampling=0.01, rounds=5))
    ledger.save(tmp_path / "ledger.json")
    assert Ledger.load(tmp_path / "ledger.json").epsilon(1e-5) == ledger.epsilon(1e-5)


# --- the paper's theorems --------------------------------------------------------------------------------------------


def test_theorem_4_3_has_the_values_checked_elsewhere():
    assert theorem_4_3(ptr(), 32) == approx(0.338148530421, rel=1e-11)
    assert theorem_4_3(ptr(4, 0.5, 2, 1e-3), 2) == approx(0.262803896174, rel=1e-11)
    assert theorem_4_3(ptr(4, 0.5, 2, 1e-3), 32) == approx(3.77716918455, rel=1e-11)


@pytest.mark.parametrize("settings_", [(10, 0.5, 5, 1e-5), (4, 0.5, 2, 1e-3), (1, 0.1, 1, 1e-8)])
@pytest.mark.parametrize("alpha", [1.5, 2, 32, 150])
def test_theorem_4_3_in_forty_digits(settings_, alpha):
    with mp.workdps(40):
        noise, bound, b, failure, a = map(mp.mpf, map(str, (*settings_, alpha)))
        summed, wrong = a / (2 * noise**2), a / (2 * (noise * bound) ** 2)
        mixed = mp.log((1 - failure) * mp.exp((a - 1) * summed) + failure * mp.exp((a - 1) * wrong)) / (a - 1)
        tail = a / (2 * a - 1) * mp.exp((a - 1) / b) + (a - 1) / (2 * a - 1) * mp.exp(-a / b)
        truth = float(max(mixed, summed + mp.log(tail) / (a - 1)))
    assert theorem_4_3(ptr(*settings_), alpha) == approx(truth, rel=1e-11)


def test_theorem_4_4_has_the_values_checked_elsewhere():
    assert theorem_4_4(ptr(), 0.01, 2) == approx(7.92165478531e-06, rel=1e-10)
    assert theorem_4_4(ptr(), 0.01, 16) == approx(6.37575728924e-05, rel=1e-10)


@pytest.mark.parametrize(
    ("mechanism", "rate", "alpha", "named"),
    [
        (ptr(4, 0.5, 2, 1e-3), 0.01, 2, "σ₁ ≥ σ₂ ≥ 4, got σ₂ = noise·bound = 2"),
        (ptr(), 0.18, 2, r"q ≤ e\^\(−1/b\)/\(4 \+ e\^\(−1/b\)\) = 0.169906"),
        (ptr(), 0.01, 199, "α ≤ .* got α = 199"),
    ],
)
def test_theorem_4_4_names_the_condition_that_fails(mechanism, rate, alpha, named):
    with pytest.raises(ConditionNotMet, match=named):
        theorem_4_4(mechanism, rate, alpha)


def test_theorem_4_2_has_the_laplace_term_and_the_gaussian_term_the_right_way_up():
    assert theorem_4_2(ptr(10, 0.5, 5), 1e-5) == approx(1 / 5 + np.sqrt(2 * log(1.25e5)) / 10)


@given(st.floats(0.001, 0.5), st.floats(0.5, 5))
def test_black_box_amplification_at_orders_two_and_three(rate, sigma):
    def curve(alpha):
        return alpha / (2 * sigma**2)

    second, third = (np.expm1(curve(2)), np.expm1(2 * curve(3)))
    assert black_box(curve, rate, 2) == approx(np.log1p(rate**2 * second))
    assert black_box_lower(curve, rate, 2) == approx(np.log1p(rate**2 * second))
    cubic = 3 * rate**2 * (1 - rate) * second + rate**3 * third
    assert black_box_lower(curve, rate, 3) == approx(np.log1p(cubic) / 2)
    assert black_box(curve, rate, 3) == approx(np.log1p(cubic + 2 * rate**3 * (1 + third)) / 2)
    assert black_box_lower(curve, rate, 3) < black_box(curve, rate, 3)


# --- the command, and what is refused --------------------------------------------------------------------------------

WORDS = [
    "account",
    "Ptr",
    "clip=1",
    "bound=0.5",
    "noise=10",
    "test_noise=5",
    "failure=1e-5",
    "--delta",
    "1e-5",
    "--json",
]


def test_the_command_prints_every_value_side_by_side(capsys):
    assert main(WORDS) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["epsilon"]["upper"] == approx(0.52258, abs=1e-5)
    assert found["published"]["[P] Theorem 4.3"] == {"epsilon": approx(0.56161, abs=1e-5), "order": 34}
    assert found["adjacency"] == "add-remove"
    assert main([word.replace("clip=1", "clip=3") for word in WORDS]) == 0
    assert json.loads(capsys.readouterr().out)["epsilon"] == found["epsilon"]


def test_the_command_says_what_of_the_test_is_seen_and_refuses_it_of_what_has_none(capsys):
    found = {}
    for seen in ("margin", "branch"):
        assert main([*WORDS, "--seen", seen]) == 0
        found[seen] = json.loads(capsys.readouterr().out)
        assert found[seen]["seen"] == seen
    assert found["branch"]["epsilon"]["upper"] == approx(0.519515, abs=2e-5)
    assert found["margin"]["epsilon"]["upper"] == approx(0.52258, abs=1e-5)
    assert main(["account", "Gaussian", "clip=1", "noise=1", "--delta", "1e-5", "--seen", "branch"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "Gaussian has no test" in error
    assert main([*WORDS, "--seen", "all"]) == 2


def test_a_study_is_charged_for_the_branch_alone(capsys):
    assert main(["run", "ptr", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seen"] == "branch"
    assert 0 < found["epsilon"]["lower"] <= found["epsilon"]["upper"] <= 4


def test_the_command_says_why_a_theorem_is_silent(capsys):
    words = ["account", "Ptr", "clip=1", "bound=0.5", "noise=1.1", "test_noise=1", "failure=1e-8"]
    assert main([*words, "--sampling", "0.0042667", "--rounds", "2000", "--delta", "1e-5"]) == 0
    text = capsys.readouterr().out
    assert "Theorem 4.4 needs σ₁ ≥ σ₂ ≥ 4" in text
    assert "at most 1.4553" in text


def test_it_is_listed_as_a_release_and_is_no_message(capsys):
    assert main(["list"]) == 0
    assert "Ptr clip bound noise [test_noise] failure" in capsys.readouterr().out
    settings_ = {"clip": 1, "bound": 0.5, "noise": 1, "test_noise": 1, "failure": 1e-5}
    assert COSTED.made("Ptr", settings_) == ptr(1, 0.5, 1)
    with pytest.raises(FedprivError, match="unknown mechanism 'Ptr'"):
        MECHANISMS.made("Ptr", settings_)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"bound": 1.5}, r"bound is the ratio τ/R, in \(0, 1\], .*got 1.5"),
        ({"bound": 0.0}, "bound must be positive"),
        ({"bound": float("nan")}, "bound must be finite"),
        ({"noise": 0.0}, "noise must be positive"),
        ({"test_noise": -1.0}, "test_noise must be positive"),
        ({"failure": 0.6}, "failure must be between 1e-300 and 1/2"),
        ({"failure": 0.0}, "failure must be positive"),
        ({"clip": "wide"}, "clip must be a number"),
    ],
)
def test_settings_out_of_range_are_named(changed, named):
    with pytest.raises(FedprivError, match=named):
        ptr(**changed)


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"sampling": 0.0}, "sampling must be positive"),
        ({"sampling": 1.5}, "sampling must be between 0 and 1"),
        ({"sampling": float("nan")}, "sampling must be between 0 and 1"),
        ({"adjacency": "replace"}, "add-remove"),
        ({"dimension": 3, "geometry": "linf"}, "geometry must be l2"),
        ({"trust": "secure-aggregation", "clients": 5}, "no certificate under secure aggregation"),
    ],
)
def test_releases_it_has_no_guarantee_for_are_refused(facts, named):
    with pytest.raises(FedprivError, match=named):
        by_hand(mechanism=ptr(), **facts)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, float("nan")])
def test_theorems_refuse_rates_that_are_no_rates(rate):
    with pytest.raises(FedprivError, match="rate"):
        theorem_4_4(ptr(), rate, 2)


def test_trimming_as_much_as_the_batch_or_too_little_for_the_test_is_refused():
    check_trimmed(ptr(), 55, 256)
    with pytest.raises(FedprivError, match="less than the expected batch of 256"):
        check_trimmed(ptr(), 256, 256)
    with pytest.raises(FedprivError, match="at least 55 for the test to pass"):
        check_trimmed(ptr(), 54, 256)
    with pytest.raises(FedprivError, match="less than the expected batch"):
        step_ratio(9, 9)
    assert step_ratio(64, 256) == 0.75


@pytest.mark.parametrize(("long", "ratio"), [(200, 0.75), (0, 1.0)], ids=["the test fails", "the test passes"])
def test_a_step_after_sum_is_shorter_by_the_share_that_trimming_leaves_out_where_a_study_asks_for_it(long, ratio):
    rows = np.where(np.arange(200)[:, None] < long, 1.0, 0.1).astype(np.float32) * np.ones((1, 1), np.float32)
    kind = partial(private_sums.Ptr, clip=1, bound=0.5, noise=1, test_noise=1, failure=1e-3, sampling=0.5, trimmed=50)
    equal, shorter = (
        kind(rates=rates).released(
            private_sums.Batch.of(kind(rates=rates), rows, np.arange(200), 200.0), np.random.default_rng(1)
        )
        for rates in ("equal", "by-trimmed")
    )
    assert shorter.total == approx(ratio * equal.total)
    assert shorter.settings == equal.settings
    assert kind(rates="by-trimmed").mechanism == kind().mechanism
    with pytest.raises(FedprivError, match="rates 'by-trimed' is unknown"):
        kind(rates="by-trimed")


@pytest.mark.parametrize("norms", [[0.1, float("nan")], [inf], [-1.0], [[0.1]]], ids=str)
def test_norms_that_are_none_are_refused(norms):
    for asked in (lambda: safety_margin(ptr(), norms, 1), lambda: kept_rows(norms, 1)):
        with pytest.raises(FedprivError, match="norms must be a list of finite numbers at least 0"):
            asked()


@pytest.mark.parametrize("trimmed", [0, -1, 1.5, True])
def test_f_is_a_whole_number(trimmed):
    with pytest.raises(FedprivError, match="trimmed"):
        safety_margin(ptr(), [0.1], trimmed)
