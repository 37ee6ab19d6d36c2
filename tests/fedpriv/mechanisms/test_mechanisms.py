"""One table of every mechanism, crossed with every law; then what each is by itself, and how each refuses."""

from __future__ import annotations

from math import log, log2
from typing import Any

import numpy as np
import pytest
from numpy.random import PCG64, Generator
from pytest import approx
from tried import decodes, others

from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    MECHANISMS,
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    NoisySign,
    Sign,
    Skellam,
    StochasticSign,
    Ternarize,
    Ternary,
    settings_of,
)
from fedpriv.mechanisms.abilities import FiniteLaw

SIGNS: list[Any] = [
    StochasticSign(clip=1, scale=1.5),
    StochasticSign(clip=2, peak=1, scale=4),
    Cldp(clip=1, epsilon=1),
    NoisySign(clip=1, noise=0.7),
]
COUNTS: list[Any] = [
    Binomial(clip=1, scale=2, trials=1),
    Binomial(clip=2, peak=1, scale=1.25, trials=16),
    Binomial(clip=1, scale=3, trials=300),
]
THREE: list[Any] = [
    Ternary(clip=1, spread=1.5, scale=4),
    Ternary(clip=2, peak=1, spread=2, scale=2.5),
    Ternarize(clip=1, scale=1.5),
    Ternarize(clip=3, peak=1, scale=4),
]
GRIDS: list[Any] = [
    BinomialNoise(clip=1, levels=8, trials=60),
    BinomialNoise(clip=1, levels=8, trials=300, bias=0.3),
    DiscreteGaussian(clip=1, levels=8, noise=0.6),
    Skellam(clip=1, levels=8, noise=0.6),
]
REALS: list[Any] = [Gaussian(clip=1, noise=0.7), Laplace(clip=1, noise=0.7)]
ADDED = others(SIGNS + COUNTS + THREE + GRIDS + REALS)
FINITE = SIGNS + COUNTS + THREE + [own for own in ADDED if own.alphabet is not None]
DISCRETE = FINITE + GRIDS
ALL = DISCRETE + REALS + [own for own in ADDED if own.alphabet is None]
LEVELS = (-1.0, -0.75, 0.0, 0.25, 1.0)  # inside every box above, and on every grid
ALPHA = np.linspace(0, 1, 401)


def named(mechanism: Any) -> str:
    return (
        type(mechanism).__name__
        + "-"
        + "-".join(
            f"{value:g}" if isinstance(value, float | int) else str(value) for value in settings_of(mechanism).values()
        )
    )


def rng(seed: int = 7) -> Generator:
    return Generator(PCG64(seed))


def each(mechanisms: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mechanism", mechanisms, ids=named)


# --- laws ---------------------------------------------------------------------------------------------------------


def test_every_kind_is_in_the_table() -> None:
    assert {type(mechanism).__name__ for mechanism in ALL} == set(MECHANISMS)


@each([m for m in DISCRETE if m.alphabet is not None])
def test_every_message_is_in_the_alphabet_and_every_symbol_is_sent(mechanism: Any) -> None:
    x = np.tile(np.linspace(-mechanism.peak, mechanism.peak, 9), 4000)
    message = mechanism.encode(x, rng())
    assert set(np.unique(message).tolist()) <= set(mechanism.alphabet)
    sent = getattr(mechanism, "numbers", mechanism.alphabet)
    if len(sent) <= 4:
        assert set(np.unique(message).tolist()) == set(sent)


@each(FINITE + GRIDS[:2])
def test_messages_have_the_smallest_integer_type(mechanism: Any) -> None:
    ends = mechanism.alphabet
    smallest = np.int8 if ends[0] < 0 else np.min_scalar_type(ends[-1])
    assert mechanism.encode(np.zeros(5), rng()).dtype == smallest
    assert mechanism.encode(np.zeros(0), rng()).dtype == smallest


@each(GRIDS[2:])
def test_noise_without_end_is_sent_as_integers(mechanism: Any) -> None:
    assert np.issubdtype(mechanism.encode(np.zeros(5), rng()).dtype, np.signedinteger)


@each(ALL)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 4), (2, 0, 3), (70_000,)], ids=str)
def test_the_message_has_the_shape_of_the_input(mechanism: Any, shape: tuple[int, ...]) -> None:
    assert np.shape(mechanism.encode(np.full(shape, 0.25), rng())) == shape


@each(ALL)
def test_neither_shape_nor_dtype_nor_memory_order_change_a_bit(mechanism: Any) -> None:
    x = np.round(rng(1).uniform(-1, 1, 24_000), 2).astype(np.float32)
    expected = mechanism.encode(x.astype(np.float64), rng())
    for same in (x, x.reshape(200, 120), np.asfortranarray(x.reshape(200, 120)), x.reshape(24, 10, 100)):
        assert np.array_equal(np.ravel(mechanism.encode(same, rng())), expected)
    assert np.array_equal(mechanism.encode(x.astype(np.float64).tolist(), rng()), expected)
    assert np.array_equal(mechanism.encode(np.ones(50, dtype=int), rng()), mechanism.encode(np.ones(50), rng()))


@each(ALL)
def test_the_same_state_gives_the_same_bits_and_another_state_others(mechanism: Any) -> None:
    x = np.linspace(-1, 1, 4096)
    assert np.array_equal(mechanism.encode(x, rng(3)), mechanism.encode(x, rng(3)))
    other = mechanism.encode(x, rng(4))
    assert np.array_equal(mechanism.encode(x, rng(3)), other) == isinstance(mechanism, Sign)  # which draws nothing


@each(ALL)
def test_the_input_is_left_as_it_was(mechanism: Any) -> None:
    x = np.linspace(-3, 3, 1000)
    before = x.copy()
    mechanism.encode(x, rng())
    assert np.array_equal(x, before)


@each(DISCRETE)
def test_what_lies_beyond_the_peak_counts_as_the_peak(mechanism: Any) -> None:
    x = np.linspace(-5, 5, 2001) * mechanism.peak
    clipped = np.clip(x, -mechanism.peak, mechanism.peak)
    assert np.array_equal(mechanism.encode(x, rng()), mechanism.encode(clipped, rng()))
    assert np.array_equal(
        mechanism.encode(np.full(9, 1e308), rng()), mechanism.encode(np.full(9, mechanism.peak), rng())
    )


@each(ALL)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(mechanism: Any, bad: float) -> None:
    x = np.zeros(100_000)
    x[77_777] = bad
    with pytest.raises(FedprivError, match="finite"):
        mechanism.encode(x, rng())


@each([m for m in ALL if decodes(m)])
@pytest.mark.parametrize("x", LEVELS)
def test_the_mean_decoder_is_unbiased(mechanism: Any, x: float) -> None:
    n = 40_000
    message = mechanism.encode(np.full(n, x), rng(11)).astype(float)
    scale = abs(float(mechanism.decode(1.0, 1)) - float(mechanism.decode(0.0, 1)))
    error = scale * message.std() / np.sqrt(n)
    assert abs(float(mechanism.decode(message.sum(), n)) - x) <= 5 * error + 1e-12


@each([m for m in ALL if decodes(m)])
def test_the_mean_of_a_sum_is_the_mean_of_the_means(mechanism: Any) -> None:
    messages = mechanism.encode(rng(5).uniform(-1, 1, (50, 7)), rng()).astype(float)
    alone = np.mean([mechanism.decode(row, 1) for row in messages], axis=0)
    assert mechanism.decode(messages.sum(axis=0), 50) == approx(alone, rel=1e-12, abs=1e-12)


def _first(mechanism: Any) -> tuple[int, int]:
    """The smallest message and the distance of two: atoms of the pair (peak, −peak) are in order of messages."""
    if mechanism.alphabet is not None:
        return mechanism.alphabet[0], mechanism.alphabet.step
    return int(mechanism.law[0][0]), 1


def _laws_at_the_ends(mechanism: Any) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of the messages of peak and −peak, by rising message."""
    if isinstance(mechanism, FiniteLaw):
        return mechanism.symbol_law(mechanism.peak), mechanism.symbol_law(-mechanism.peak)
    atoms = mechanism.between(mechanism.peak, -mechanism.peak).pair
    return atoms.p, atoms.q


@each([m for m in DISCRETE if isinstance(m, FiniteLaw)])
def test_the_curve_is_that_of_the_law_that_is_told(mechanism: Any) -> None:
    for x, y in ((mechanism.peak, -mechanism.peak), (0.25, -1.0), (0.1, 0.7)):
        told = Tradeoff.between(mechanism.symbol_law(x), mechanism.symbol_law(y))
        assert mechanism.between(x, y)(ALPHA) == approx(told(ALPHA), abs=1e-12)


@each(DISCRETE)
def test_messages_follow_the_law_that_the_curve_was_made_of(mechanism: Any) -> None:
    n = 60_000
    first, step = _first(mechanism)
    for level, law in zip((mechanism.peak, -mechanism.peak), _laws_at_the_ends(mechanism), strict=True):
        message = mechanism.encode(np.full(n, level), rng(17)).astype(int)
        seen = np.bincount((message - first) // step, minlength=law.size).astype(float)
        often = n * law >= 10
        assert seen[law == 0].sum() == 0
        expected = np.append((n * law)[often], max((n * law)[~often].sum(), 1e-300))
        found = np.append(seen[often], seen[~often].sum())
        expected, found = expected[expected >= 10], found[expected >= 10]
        degrees = max(expected.size - 1, 1)
        assert ((found - expected) ** 2 / expected).sum() <= degrees + 5 * np.sqrt(2 * degrees) + 5


@each(DISCRETE)
def test_the_masses_of_a_pair_sum_to_one(mechanism: Any) -> None:
    for x, y in ((mechanism.peak, -mechanism.peak), (0.25, -1.0)):
        atoms = mechanism.between(x, y).pair
        assert atoms.p.sum() == approx(1, abs=1e-12)
        assert atoms.q.sum() == approx(1, abs=1e-12)


@each(ALL)
def test_no_pair_inside_the_box_gives_away_more_than_the_worst(mechanism: Any) -> None:
    worst = mechanism.tradeoff("replace")(ALPHA)
    inputs = [*LEVELS, *rng(2).uniform(-mechanism.peak, mechanism.peak, 4)]
    for x in inputs:
        for y in inputs:
            assert (mechanism.between(x, y)(ALPHA) >= worst - 1e-12).all()


@each(ALL)
def test_the_worst_pair_is_reached_inside_the_box(mechanism: Any) -> None:
    reached = mechanism.between(mechanism.peak, -mechanism.peak)
    assert mechanism.tradeoff("replace").advantage == approx(reached.advantage, rel=1e-12)


@each(ALL)
def test_an_input_against_itself_gives_nothing_away(mechanism: Any) -> None:
    assert mechanism.between(0.25, 0.25).advantage == 0


@each(ALL)
def test_the_worst_pair_is_its_own_mirror_image(mechanism: Any) -> None:
    curve = mechanism.tradeoff("replace")
    assert curve(ALPHA) == approx(curve.inverse(ALPHA), abs=1e-12)


@each([m for m in DISCRETE if getattr(m, "bias", 0.5) == 0.5])
@pytest.mark.parametrize("x", [0.25, 0.75])
def test_the_law_at_minus_x_is_the_mirror_image_of_that_at_x(mechanism: Any, x: float) -> None:
    atoms = mechanism.between(x, -x).pair
    assert atoms.p == approx(atoms.q[::-1], rel=1e-12, abs=1e-300)
    up, down = mechanism.between(x, 0.0), mechanism.between(-x, 0.0)
    assert up(ALPHA) == approx(down(ALPHA), abs=1e-12)


@each([m for m in ALL if m.alphabet is not None])
def test_a_coordinate_fits_its_bits(mechanism: Any) -> None:
    sent = len(getattr(mechanism, "numbers", mechanism.alphabet))
    assert log2(sent) <= mechanism.bits < log2(sent) + 1
    assert mechanism.entropy <= mechanism.bits


@each(GRIDS[2:])
def test_noise_without_end_fits_its_bits_all_but_never(mechanism: Any) -> None:
    k, log_mass = mechanism.law
    room = 2**mechanism.bits - mechanism.levels - 1
    assert np.exp(log_mass)[np.abs(k) > room / 2].sum() < 2.0**-40
    assert mechanism.entropy <= mechanism.bits


def _entropy(mass: np.ndarray) -> float:
    mass = mass[mass > 0]
    return float(-(mass * np.log2(mass)).sum())


@each(FINITE)
def test_the_entropy_is_the_most_that_any_input_has(mechanism: Any) -> None:
    most = 0.0
    for x in np.linspace(0, mechanism.peak, 101):
        atoms = mechanism.between(x, -mechanism.peak).pair
        most = max(most, _entropy(atoms.p)) if x > -mechanism.peak else most
    if isinstance(mechanism, Ternarize):  # its formula is that of |x| = r, the most where r/B is small
        assert mechanism.entropy == approx(
            _entropy(np.array([mechanism.peak / mechanism.scale, 1 - mechanism.peak / mechanism.scale]))
        )
    else:
        assert mechanism.entropy == approx(most, rel=1e-9)


@each(GRIDS)
def test_the_entropy_of_added_noise_is_that_of_the_noise(mechanism: Any) -> None:
    assert mechanism.entropy == approx(_entropy(np.exp(mechanism.law[1])), rel=1e-9)


@each(ALL)
def test_a_mechanism_is_what_its_settings_say(mechanism: Any) -> None:
    assert MECHANISMS.made(type(mechanism).__name__, settings_of(mechanism)) == mechanism
    assert hash(MECHANISMS.made(type(mechanism).__name__, settings_of(mechanism))) == hash(mechanism)


@each(ALL)
def test_every_setting_moves_epsilon_the_way_it_says(mechanism: Any) -> None:
    settings = settings_of(mechanism)
    one = mechanism.tradeoff("replace").delta(0.3)
    for name, effect in mechanism.effects.items():
        if name == "clip" and "peak" in settings:
            continue  # of vectors only: one coordinate knows the peak
        larger = settings[name] * 2 if isinstance(settings[name], int) else settings[name] * 1.05
        try:
            other = MECHANISMS.made(type(mechanism).__name__, settings | {name: larger}).tradeoff("replace").delta(0.3)
        except FedprivError:
            continue
        assert effect * (other - one) >= -1e-12, name


# --- hand-made values ---------------------------------------------------------------------------------------------


def test_binomial_noise_has_its_published_curve() -> None:
    f = BinomialNoise(clip=1, levels=8, trials=500).tradeoff()
    assert f.delta(1.0) == approx(0.0416992747670, rel=1e-11)
    assert f.delta(1.5) == approx(0.00953433377160, rel=1e-11)
    assert f.delta(1.67) == approx(0.00525787631698, rel=1e-11)  # the paper's .039 is not that of l = 8
    largest = max(f.pair.finite.loss)
    assert f.delta(largest) == approx(4.60497e-136, rel=1e-5)
    assert f.mu == np.inf
    assert f.epsilon(0.0) == np.inf


def test_ternary_sends_less_and_says_less_than_a_sign() -> None:
    assert Ternary(clip=0.1, spread=0.25, scale=0.5).tradeoff().delta(log(2)) == approx(0.05, abs=1e-15)
    assert StochasticSign(clip=0.1, scale=0.25).tradeoff().delta(log(2)) == approx(0.1, abs=1e-15)
    assert Ternary(clip=0.1, spread=0.25, scale=0.5).tradeoff().mu == approx(0.651112923086, rel=1e-11)


def test_the_binomial_mechanism_has_its_published_curve() -> None:
    f = Binomial(clip=0.1, scale=1, trials=16).tradeoff()
    assert f.delta(0.5) == approx(0.161418858655, rel=1e-11)
    assert f(0.05) == approx(0.799332182261, rel=1e-11)
    assert f(0.25) == approx(0.445901527214, rel=1e-11)
    assert f.mu == approx(0.814388173762, rel=1e-11)


def test_one_vote_of_the_binomial_mechanism_is_a_stochastic_sign() -> None:
    one, sign = Binomial(clip=1, scale=3, trials=1), StochasticSign(clip=1, scale=3)
    assert one.tradeoff()(ALPHA) == approx(sign.tradeoff()(ALPHA), abs=1e-15)
    x = np.linspace(-1, 1, 5000)
    assert np.array_equal(2 * one.encode(x, rng()).astype(int) - 1, sign.encode(x, rng()))


def test_cldp_is_a_stochastic_sign_with_its_epsilon() -> None:
    for epsilon in (1e-3, 1.0, 5.0):
        assert Cldp(clip=0.1, epsilon=epsilon).tradeoff().epsilon(0.0) == approx(epsilon, rel=1e-12)
        assert Cldp(clip=0.1, epsilon=epsilon).tradeoff().epsilon(0.0) <= epsilon * (1 + 1e-15)
    assert Cldp(clip=0.1, epsilon=1).sign.scale == approx(0.1 * (np.e + 1) / (np.e - 1), rel=1e-13)


def test_ternarize_tells_the_truth_with_probability_r_over_b() -> None:
    f = Ternarize(clip=0.1, scale=1).tradeoff()
    for epsilon in (0.0, 1.0, 50.0):
        assert f.delta(epsilon) == approx(0.1, abs=1e-15)
    assert f.mu == np.inf


def test_a_noisy_sign_is_no_worse_than_the_gaussian_it_comes_from() -> None:
    assert NoisySign(clip=1, noise=2).tradeoff().mu == approx(1.0, rel=1e-9)
    assert (NoisySign(clip=1, noise=2).tradeoff()(ALPHA) >= Tradeoff.gaussian(1.0)(ALPHA) - 1e-12).all()


def test_noisy_signs_have_no_unbiased_decoder() -> None:
    with pytest.raises(FedprivError, match="majority"):
        NoisySign(clip=1, noise=2).decode(3.0, 5)


def test_the_ternary_entropy_is_h_of_a_over_b_plus_a_over_b() -> None:
    share = 0.25
    expected = -share * log2(share) - (1 - share) * log2(1 - share) + share
    assert Ternary(clip=0.1, spread=0.25, scale=1).entropy == approx(expected, rel=1e-12)


def test_gaussian_and_laplace_know_both_adjacencies() -> None:
    assert Gaussian(clip=1, noise=1).tradeoff().epsilon(1e-5) == approx(4.377178, abs=1e-6)
    assert Gaussian(clip=1, noise=1).tradeoff("replace").epsilon(1e-5) == approx(9.997256, abs=1e-6)
    assert Laplace(clip=1, noise=2).tradeoff().epsilon(0.0) == approx(0.5)
    assert Laplace(clip=1, noise=2).tradeoff("replace").epsilon(0.0) == approx(1.0)


@pytest.mark.parametrize("mechanism", REALS, ids=named)
def test_real_noise_has_its_mean_and_deviation(mechanism: Any) -> None:
    n = 100_000
    draws = mechanism.encode(np.full(n, 0.25), rng(23))
    deviation = mechanism.noise * (1 if isinstance(mechanism, Gaussian) else np.sqrt(2))
    assert abs(draws.mean() - 0.25) < 5 * deviation / np.sqrt(n)
    assert draws.std() == approx(deviation, rel=0.02)


@pytest.mark.parametrize("mechanism", [GRIDS[2], GRIDS[3]], ids=named)
def test_whole_noise_has_the_deviation_it_was_given_in_the_datas_units(mechanism: Any) -> None:
    message = mechanism.encode(np.zeros(100_000), rng(29))
    assert mechanism.grid.step * message.std() == approx(mechanism.noise, rel=0.02)


def test_values_between_grid_points_are_off_by_half_a_step_at_most() -> None:
    grid = GRIDS[2].grid
    x = np.linspace(-1, 1, 2001)
    assert np.abs(grid.index(x) * grid.step - 1 - x).max() <= grid.step / 2 + 1e-12
    assert grid.index([-9.0, -1.0, 1.0, 9.0]).tolist() == [0, 0, 8, 8]


# --- refusals -----------------------------------------------------------------------------------------------------

BAD = [
    ("StochasticSign", {"clip": 0, "scale": 1}, "clip must be positive"),
    ("StochasticSign", {"clip": -1, "scale": 1}, "clip must be positive"),
    ("StochasticSign", {"clip": float("nan"), "scale": 1}, "clip must be finite"),
    ("StochasticSign", {"clip": "wide", "scale": 1}, "clip must be a number"),
    ("StochasticSign", {"clip": True, "scale": 2}, "clip must be a number"),
    ("StochasticSign", {"clip": 1, "scale": 1}, "scale must be larger than peak = 1"),
    ("StochasticSign", {"clip": 1, "scale": float("inf")}, "scale must be finite"),
    ("StochasticSign", {"clip": 1, "scale": None}, "scale must be a number"),
    ("StochasticSign", {"clip": 1, "peak": 2, "scale": 5}, "peak must be at most clip = 1"),
    ("StochasticSign", {"clip": 1, "peak": 0, "scale": 5}, "peak must be positive"),
    ("Binomial", {"clip": 1, "scale": 0.5, "trials": 2}, "scale must be larger than peak"),
    ("Binomial", {"clip": 1, "scale": 2, "trials": 2.5}, "trials must be a whole number"),
    ("Binomial", {"clip": 1, "scale": 2, "trials": 0}, "trials must be at least 1"),
    ("Ternary", {"clip": 1, "spread": 1, "scale": 5}, "spread must be larger than peak = 1"),
    ("Ternary", {"clip": 1, "spread": 4, "scale": 2}, "scale must be larger than spread = 4"),
    ("Ternary", {"clip": 1, "spread": 4, "scale": 4}, "scale must be larger than spread = 4"),
    ("Ternarize", {"clip": 1, "scale": 1}, "scale must be larger than peak"),
    ("Cldp", {"clip": 1, "epsilon": 0}, "epsilon must be positive"),
    ("NoisySign", {"clip": 1, "noise": 0}, "noise must be positive"),
    ("BinomialNoise", {"clip": 1, "levels": 0, "trials": 5}, "levels must be at least 1"),
    ("BinomialNoise", {"clip": 1, "levels": 4, "trials": 5, "bias": 1}, "bias must be below 1"),
    ("BinomialNoise", {"clip": 1, "levels": 4, "trials": 5, "bias": 0}, "bias must be positive"),
    ("DiscreteGaussian", {"clip": 1, "levels": 1.5, "noise": 1}, "levels must be a whole number"),
    ("Skellam", {"clip": 1, "levels": 4, "noise": -1}, "noise must be positive"),
    ("Gaussian", {"clip": 1, "noise": 0}, "noise must be positive"),
    ("Laplace", {"clip": 0, "noise": 1}, "clip must be positive"),
    ("Ternary", {"clip": 1, "spred": 2, "scale": 4}, "did you mean 'spread'"),
    ("Ternary", {"clip": 1}, "Ternary needs spread, scale"),
    ("Ternarry", {"clip": 1}, "did you mean 'Ternary'"),
    ("ternary", {"clip": 1}, "did you mean 'Ternary'"),
    ("gaussian", {"clip": 1}, "did you mean 'Gaussian'"),
    ("zzz", {}, "unknown mechanism 'zzz'; mechanisms: "),
]


@pytest.mark.parametrize(("kind", "settings", "said"), BAD, ids=lambda value: str(value)[:40])
def test_settings_that_cannot_be_are_refused_in_one_line(kind: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(FedprivError) as error:
        MECHANISMS.made(kind, settings)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_mechanism_cannot_be_changed_after_the_fact() -> None:
    with pytest.raises(AttributeError):
        StochasticSign(clip=1, scale=2).scale = 3  # type: ignore[misc]


def test_numpy_numbers_are_numbers() -> None:
    assert Binomial(clip=np.float64(1), scale=np.float32(2), trials=np.int64(3)).tradeoff().mu == approx(
        Binomial(clip=1, scale=2, trials=3).tradeoff().mu
    )
