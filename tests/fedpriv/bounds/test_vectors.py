"""Dimension-free bounds against exact products of pairs, outcome by outcome."""

from __future__ import annotations

from itertools import product
from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pytest import approx
from scipy.special import ndtri

from fedpriv.bounds import renyi
from fedpriv.bounds.vectors import Votes, explicit_spans, published_theorem_7, theorem_a
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    NoisySign,
    Skellam,
    StochasticSign,
    Ternarize,
    Ternary,
)

RNG = np.random.default_rng(12)
MECHANISMS: list[Any] = [
    StochasticSign(clip=1, scale=1.2),
    StochasticSign(clip=1, peak=0.5, scale=0.7),
    Binomial(clip=1, scale=1.5, trials=3),
    Binomial(clip=1, peak=0.6, scale=0.9, trials=2),
    Ternary(clip=1, spread=1.4, scale=3),
    Ternary(clip=1, peak=0.5, spread=0.8, scale=1),
    NoisySign(clip=1, noise=0.8),
    NoisySign(clip=1, peak=0.4, noise=0.5),
]


def named(mechanism: Any) -> str:
    return repr(mechanism)


def law(mechanism: Any, x: float) -> NDArray[np.float64]:
    """The masses of one coordinate's messages, in the order of messages, written out by hand."""
    if isinstance(mechanism, Ternary):
        a, b = mechanism.spread, mechanism.scale
        return np.array([(a - x) / (2 * b), 1 - a / b, (a + x) / (2 * b)])
    trials = getattr(mechanism, "trials", 1)
    p = float(mechanism.chance(np.array([float(x)]))[0])
    result = np.ones(1)
    for _ in range(trials):
        result = np.convolve(result, [1 - p, p])
    return result


def product_law(mechanism: Any, x: NDArray[np.float64]) -> NDArray[np.float64]:
    result = np.ones(1)
    for value in x:
        result = np.multiply.outer(result, law(mechanism, float(value))).ravel()
    return result


def product_mu(mechanism: Any, x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    p, q = product_law(mechanism, x), product_law(mechanism, y)
    return Tradeoff.between(p / p.sum(), q / q.sum()).mu


def vectors(mechanism: Any, dimension: int, count: int) -> list[NDArray[np.float64]]:
    """Random and extremal points of the ball cut by the box."""
    c, r = mechanism.clip, mechanism.peak
    found = []
    for _ in range(count):
        x = RNG.normal(size=dimension) * RNG.choice([0.01, 1.0], size=dimension)
        x *= c * RNG.choice([1.0, RNG.uniform()]) / np.linalg.norm(x)
        found.append(np.clip(x, -r, r))
    for k in range(1, dimension + 1):
        x = np.zeros(dimension)
        x[:k] = min(r, c / sqrt(k))
        found += [x, -x]
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=named)
@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_no_exact_product_passes_the_vector_bound(mechanism: Any, dimension: int) -> None:
    points = vectors(mechanism, dimension, 8)
    bound = mechanism.vector(dimension).mu
    largest = 0.0
    for x in points:
        for y in points:
            if not np.array_equal(x, y):
                largest = max(largest, product_mu(mechanism, x, y))
    assert largest <= bound * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1.001, 1.5, 10.0, 1e4])
def test_theorem_a_is_reached_by_one_coordinate_at_its_peak(scale: float) -> None:
    exact = StochasticSign(clip=1, scale=scale).tradeoff().mu
    assert exact / theorem_a(clip=1, peak=1, scale=scale) == approx(1, rel=1e-9)


@pytest.mark.parametrize("scale", [1e6, 1e12, 1e15, 1e16, 1e18])
def test_theorem_a_of_nearly_fair_coins_does_not_vanish(scale: float) -> None:
    """Of one half less 10⁻¹⁷ nothing is left in a float: Φ⁻¹(½ + y) is √(2π)·y there, and never less."""
    assert theorem_a(clip=1, peak=0.1, scale=scale) >= sqrt(2 * np.pi) / scale
    assert theorem_a(clip=1, peak=0.1, scale=scale) < 3.9 / scale


def test_theorem_a_is_never_violated_by_large_random_pairs() -> None:
    """Per coordinate μ is known exactly and squares add: thousands of coordinates cost nothing."""
    for _ in range(2000):
        d = int(RNG.integers(1, 60))
        c = 1.0
        r = float(RNG.uniform(1 / sqrt(d), 1))
        b = r * float(1 + RNG.exponential())
        x, y = (np.clip(v * c / np.linalg.norm(v), -r, r) for v in RNG.normal(size=(2, d)) ** 3)
        h = ndtri((b + np.array([x, y])) / (2 * b))
        exact = sqrt(float(((h[0] - h[1]) ** 2).sum()))
        assert exact <= theorem_a(clip=c, peak=r, scale=b) * (1 + 1e-12)


def test_theorem_a_is_reached_by_vectors_that_fill_the_box() -> None:
    for k in (1, 4, 25):
        r = 1 / sqrt(k)
        h = float(ndtri((0.5 + r) / 1.0)) if r < 0.5 else float(ndtri((2 * r + r) / (4 * r)))
        b = 0.5 if r < 0.5 else 2 * r
        assert 2 * h * sqrt(k) == approx(theorem_a(clip=1, peak=r, scale=b), rel=1e-10)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=named)
@pytest.mark.parametrize("alpha", [1.5, 2.0, 4.0, 30.0])
def test_no_exact_product_passes_the_renyi_bound(mechanism: Any, alpha: float) -> None:
    curve = mechanism.vector(3).renyi(1)
    assert curve is not None
    points = vectors(mechanism, 3, 8)
    largest = 0.0
    for x in points:
        for y in points:
            p, q = product_law(mechanism, x), product_law(mechanism, y)
            largest = max(largest, log(float((p**alpha * q ** (1 - alpha)).sum())) / (alpha - 1))
    assert largest <= curve(alpha) * (1 + 1e-9)


# --- golden values ------------------------------------------------------------------------------------------------


def test_golden_values_of_the_theory() -> None:
    assert theorem_a(clip=0.1, peak=0.1, scale=10) == approx(0.0250669390161, rel=1e-12)
    assert theorem_a(clip=1, peak=0.2, scale=0.911) == approx(2.78718281269, rel=1e-11)
    once = log(10.1 / 9.9)  # c = .1, B = 10, M = 1
    assert published_theorem_7(once, dimension=100_000) == approx(126.33, abs=0.005)
    assert published_theorem_7(once, dimension=100) == approx(2.358, abs=0.0005)
    ternary = Ternary(clip=0.1, spread=0.25, scale=0.5)
    assert ternary.vector(1000).mu == approx(0.857784570975, rel=1e-11)
    assert NoisySign(clip=1, noise=4).vector(1000).mu == approx(0.5, rel=1e-12)


def test_published_theorem_7_is_theorem_a_for_one_vote() -> None:
    one = published_theorem_7(log(1.3 / 0.7), dimension=1)
    assert one == approx(theorem_a(clip=0.3, peak=0.3, scale=1), rel=1e-10)


def test_a_sum_of_votes_says_less_than_its_votes_one_by_one() -> None:
    """Theorem B without coins: .8148 where Theorem A has 1.0053 and one coordinate alone needs .8144."""
    bound = Votes(clip=0.1, peak=0.1, scale=1, trials=16).mu
    assert theorem_a(clip=0.1, peak=0.1, scale=1, trials=16) == approx(1.00529, abs=1e-5)
    assert Binomial(clip=0.1, scale=1, trials=16).tradeoff().mu <= bound < 0.8149


def test_the_renyi_route_of_vectors_is_the_theorys() -> None:
    curve = Votes(clip=0.1, peak=0.1, scale=1).renyi(100)
    assert 10.79 < renyi.renyi_epsilon(curve, 1e-5) <= 10.800


@pytest.mark.parametrize("mechanism", [*MECHANISMS, Gaussian(clip=1, noise=2)], ids=named)
def test_the_dimension_is_not_in_the_bound(mechanism: Any) -> None:
    """But for the rounding of the probabilities drawn, √d of it, and once d coordinates can hold the norm."""
    assert mechanism.vector(100).mu == approx(mechanism.vector(10_000_000).mu, rel=1e-10)
    small, large = mechanism.vector(100).renyi(3), mechanism.vector(10_000_000).renyi(3)
    assert small(4.0) == approx(large(4.0), rel=1e-10)


@pytest.mark.parametrize(
    "mechanism",
    [BinomialNoise(clip=1, levels=2, trials=9), Skellam(clip=1, levels=2, noise=1), Laplace(clip=1, noise=1),
     Ternarize(clip=1, scale=2)],
    ids=named,
)  # fmt: skip
def test_where_nothing_bounds_vectors_it_is_said(mechanism: Any) -> None:
    assert mechanism.vector(100) is None


# --- the grid of the discrete Gaussian ----------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 5, 8, 31])
@pytest.mark.parametrize("dimension", [1, 2, 3, 17])
def test_rounding_moves_vectors_no_further_than_the_bound(levels: int, dimension: int) -> None:
    mechanism = DiscreteGaussian(clip=1, levels=levels, noise=1)
    most = mechanism.vector(dimension).shift * mechanism.sigma
    points = vectors(mechanism, dimension, 60)
    step = mechanism.grid.step
    points += [
        np.where(RNG.random(dimension) < 0.5, s, -s) for s in (step / 2, step * 0.499999) if s * sqrt(dimension) <= 1
    ]
    index = np.array([mechanism.grid.index(x) for x in points])
    distance = np.sqrt(((index[:, None] - index[None]) ** 2).sum(-1))
    assert distance.max() <= most * (1 + 1e-12)


def test_a_grid_with_zero_on_it_moves_by_at_most_twice_the_levels_at_any_dimension() -> None:
    even, odd = (DiscreteGaussian(clip=1, levels=n, noise=1) for n in (10, 11))
    assert even.vector(10**6).shift == approx(20 / even.sigma)
    assert odd.vector(10**6).shift == approx((11 + 1000) / odd.sigma)
    assert even.vector(10**6).mu == inf  # truncated nowhere, but no Gaussian curve lies below a lattice's at 0


def test_the_discrete_gaussian_is_no_worse_than_its_renyi_bound() -> None:
    mechanism = DiscreteGaussian(clip=1, levels=3, noise=2)
    k, log_mass = mechanism.law
    for alpha, shift in product((1.5, 3.0, 20.0), (1, 2, 3)):
        p, q = log_mass[shift:], log_mass[:-shift]
        exact = float(np.logaddexp.reduce(alpha * p + (1 - alpha) * q)) / (alpha - 1)
        assert exact <= alpha * shift**2 / (2 * mechanism.sigma**2) * (1 + 1e-9)
    assert k.size == log_mass.size


# --- explicit pairs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("ratio", [1.0, 0.999999, 0.5, 0.2, 1 / 3, 1e-3])
@pytest.mark.parametrize("dimension", [1, 2, 3, 9, 10, 100, 10**7])
def test_explicit_pairs_lie_in_the_ball_and_in_the_box(clip: float, ratio: float, dimension: int) -> None:
    found = explicit_spans(clip=clip, peak=clip * ratio, dimension=dimension)
    assert found
    for level, count in found:
        assert 1 <= count <= dimension
        assert 0 < level <= clip * ratio
        assert level * sqrt(count) <= clip * (1 + 1e-12)
    assert max(level * sqrt(count) for level, count in found) >= min(clip, clip * ratio * sqrt(dimension)) * (1 - 1e-6)


def test_spans_refuses_what_cannot_be() -> None:
    for bad in ({"clip": 0.0}, {"peak": -1.0}, {"dimension": 0}, {"dimension": 1.5}):
        with pytest.raises(FedprivError):
            explicit_spans(**({"clip": 1.0, "peak": 1.0, "dimension": 4} | bad))
