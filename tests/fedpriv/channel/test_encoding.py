"""Whole matrices are encoded to the very symbols that rows alone would be; and clipped rows are within their norm."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from math import fsum, inf, sqrt

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.random import PCG64, Generator
from pytest import approx
from scipy.special import ndtr
from tried import others

from fedpriv.bounds import Box, Norm, Normalised
from fedpriv.channel import _bulk as encoding_bulk
from fedpriv.channel import _coins as encoding_coins
from fedpriv.channel import _counts as encoding_counts
from fedpriv.channel import _ternary as encoding_ternary
from fedpriv.channel import _votes as encoding_votes
from fedpriv.channel.encoding import Fresh, Seeded, clip_factors, encoded_packed, encoded_rows
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    MECHANISMS,
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Mechanism,
    NoisySign,
    Skellam,
    StochasticSign,
    Ternarize,
    Ternary,
)
from fedpriv.packed.symbols import packing_of
from fedpriv.randomness import binomial as sampling_binomial
from fedpriv.randomness.binomial import Splits
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.randomness.streams import Replayed, random_words, words_of_clients

S = 105.0  # 1/S is rounded so that S times it is 1, and the number below S too
COINS = [
    StochasticSign(clip=1, scale=4),
    StochasticSign(clip=1, peak=0.02, scale=0.021),
    StochasticSign(clip=1, peak=np.nextafter(1, 0), scale=1),  # rounded, p is 1 at the peak
    Cldp(clip=0.5, epsilon=2),
    NoisySign(clip=1, noise=0.9),
    NoisySign(clip=1, peak=0.25, noise=0.031),  # Φ(8)
    Binomial(clip=1, scale=2, trials=1),
]
SIGNS = [
    Ternary(clip=1, spread=2, scale=4),
    Ternary(clip=1, peak=0.02, spread=0.021, scale=0.0215),
    Ternary(clip=1, peak=np.nextafter(1, 0), spread=1, scale=np.nextafter(1, 2)),  # always a sign
    Ternarize(clip=1, scale=1.5),
    Ternarize(clip=S, peak=np.nextafter(S, 0), scale=S),  # rounded, p is 1 at the peak
]
COUNTS = [
    Binomial(clip=1, scale=2, trials=2),
    Binomial(clip=1, peak=0.05, scale=0.051, trials=4),
    Binomial(clip=1, peak=np.nextafter(1, 0), scale=1, trials=16),
    Binomial(clip=1, scale=2, trials=64),
    Binomial(clip=1, scale=2, trials=65),
]
OTHERS = [
    BinomialNoise(clip=1, levels=4, trials=40),
    DiscreteGaussian(clip=1, levels=4, noise=4),
    Skellam(clip=1, levels=4, noise=2),
    Gaussian(clip=1, noise=2),
    Laplace(clip=1, noise=2),
]
FAMILIES = (encoding_votes.Votes, encoding_coins.Coins, encoding_ternary.Signs, encoding_counts.Counts)
BULK = [*COINS, *SIGNS, *COUNTS]
EVERY = [*BULK, *OTHERS, *others([*BULK, *OTHERS])]
kinds = pytest.mark.parametrize("mechanism", EVERY, ids=str)
in_bulk = pytest.mark.parametrize("mechanism", BULK, ids=str)


def rows_of(mechanism: Mechanism, x: np.ndarray, factors: np.ndarray, noise: Seeded) -> np.ndarray:
    """What encoding means."""
    return np.array([mechanism.encode(x[i].astype(np.float64) * factors[i], noise.one(i)) for i in range(len(x))])


def updates(rows: int, dimension: int, kind: type = np.float32, seed: int = 1) -> tuple[np.ndarray, np.ndarray, Seeded]:
    """Rows clipped to norm 1 where they are long; clients of no order."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((rows, dimension)) * rng.choice([0.01, 0.1, 10.0], (rows, 1))).astype(kind)
    return x, clip_factors(x, 1, "clip"), Seeded(seed, 5, rng.permutation(10 * rows)[:rows])


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    return found.dtype == expected.dtype and found.shape == expected.shape and bool((found == expected).all())


def pcg(seed: int) -> Generator:
    return Generator(PCG64(seed))


def test_every_kind_is_tried() -> None:
    assert {type(mechanism) for mechanism in EVERY} >= set(MECHANISMS.values())


# --- the same symbols ---------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "dimension"), [(50, 1), (9, 7), (9, 8), (40, 650), (5, 7850)])
def test_a_matrix_is_encoded_as_its_rows_would_be(mechanism, kind, rows, dimension):
    x, factors, noise = updates(rows, dimension, kind)
    expected = rows_of(mechanism, x, factors, noise)
    assert same(encoded_rows(mechanism, x, factors, noise), expected)
    assert same(encoded_packed(mechanism, x, factors, noise), packing_of(mechanism).pack(expected))


@pytest.mark.parametrize("mechanism", [COINS[0], COINS[4], SIGNS[0], SIGNS[3], COUNTS[0]], ids=str)
@pytest.mark.parametrize("dimension", [(1 << 17) + 3, (1 << 18) + 1])
def test_long_rows_are_encoded_as_they_would_be_alone(mechanism, dimension):
    x, factors, noise = updates(2, dimension)
    assert same(encoded_rows(mechanism, x, factors, noise), rows_of(mechanism, x, factors, noise))


def corners(mechanism: Mechanism) -> np.ndarray:
    """Values that put 256 p on a whole number, or p at its ends, and those beside them, in float32."""
    unit = getattr(getattr(mechanism, "sign", mechanism), "scale", 1.0)
    grid = np.clip(np.arange(-256, 257) / 256 * unit, -mechanism.peak, mechanism.peak)
    ends = np.array([0, -0.0, 1, 1 + 2**-11, 1 + 2**-10, 1.01, 2, 1e30]) * mechanism.peak
    tiny = np.array([1e-45, 1e-38, 3e38])
    values = np.concatenate((grid, ends, -ends, tiny, -tiny)).astype(np.float32)
    return np.concatenate((values, np.nextafter(values, np.float32(-1)), np.nextafter(values, np.float32(1))))


@in_bulk
@pytest.mark.parametrize("factor", [1.0, -1.0, 0.5, 1 / 3, 0.0, 1e-30])
def test_values_on_the_edge_of_a_digit_are_decided_alike(mechanism, factor):
    x = corners(mechanism)
    x = np.tile(x[np.isfinite(x)], (40, 1))
    factors, noise = np.full(40, factor), Seeded(3, 1, np.arange(40))
    assert same(encoded_rows(mechanism, x, factors, noise), rows_of(mechanism, x, factors, noise))


@in_bulk
@given(data=st.data())
def test_any_finite_values_and_factors_are_decided_alike(mechanism, data):
    kind = data.draw(st.sampled_from([np.float32, np.float64]))
    width = 32 if kind is np.float32 else 64
    most = float(np.finfo(np.float32).max) if width == 32 else 1e200
    values = st.floats(-most, most, width=width) | st.floats(-2, 2, width=width)
    x = data.draw(arrays.arrays(kind, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=values))
    factors = data.draw(arrays.arrays(np.float64, len(x), elements=st.floats(-1e100, 1e100) | st.floats(0, 1)))
    noise = Seeded(data.draw(st.integers(0, 9)), 0, np.arange(len(x)))
    assert same(encoded_rows(mechanism, x, factors, noise), rows_of(mechanism, x, factors, noise))


@pytest.mark.parametrize("mechanism", [COINS[1], SIGNS[1], SIGNS[4]], ids=str)
@pytest.mark.parametrize("over", [1 - 1e-6, 1 + 2**-12, 1 + 2**-11, 1 + 2**-10, 1.05])
def test_one_coordinate_that_holds_the_whole_norm_is_held_at_the_peak(mechanism, over):
    x = np.zeros((4000, 3), np.float32)
    x[:, 1] = mechanism.peak * over
    noise = Seeded(1, 1, np.arange(4000))
    assert same(encoded_rows(mechanism, x, np.ones(4000), noise), rows_of(mechanism, x, np.ones(4000), noise))


@kinds
def test_order_and_division_of_clients_do_not_show(mechanism):
    x, factors, noise = updates(23, 130)
    whole = encoded_rows(mechanism, x, factors, noise)
    order = np.random.default_rng(2).permutation(23)
    for some in (order, order[:1], order[5:12], slice(4, None, 3)):
        part = Seeded(noise.seed, noise.round, noise.clients[some])
        assert same(encoded_rows(mechanism, x[some], factors[some], part), whole[some])


@in_bulk
def test_blocks_do_not_show(mechanism, monkeypatch):
    x, factors, noise = updates(7, 700)
    whole, packed = encoded_rows(mechanism, x, factors, noise), encoded_packed(mechanism, x, factors, noise)
    monkeypatch.setattr(encoding_bulk, "TILE", 64)
    for family in FAMILIES:
        monkeypatch.setattr(family, "coordinates", 1500)
    assert same(encoded_rows(mechanism, x, factors, noise), whole)
    assert same(encoded_packed(mechanism, x, factors, noise), packed)


@in_bulk
def test_what_was_encoded_stays_when_more_is(mechanism):
    x, factors, noise = updates(9, 300)
    first = encoded_rows(mechanism, x, factors, noise), encoded_packed(mechanism, x, factors, noise)
    copies = [part.copy() for part in first]
    for encode in (encoded_rows, encoded_packed):
        encode(mechanism, -x, factors, Seeded(8, 8, noise.clients))
    assert all(same(part, copy) for part, copy in zip(first, copies, strict=True))


def test_threads_do_not_write_into_each_others_arrays():
    x, factors, noise = updates(40, 7850)
    cases = [Seeded(seed, 5, noise.clients) for seed in range(12)]
    alone = [encoded_packed(COINS[0], x, factors, case) for case in cases]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda case: encoded_packed(COINS[0], x, factors, case), cases))
    assert all(same(found, expected) for found, expected in zip(together, alone, strict=True))


@given(share=st.floats(0, 1, exclude_max=True))
def test_the_binary_digits_of_a_share_are_exact(share):
    assert encoding_bulk.binary(np.array([share]))[0] == int(Fraction(share) * 2**64)


@given(places=st.sets(st.integers(0, 299)), size=st.integers(0, 300))
def test_rare_places_are_all_found_in_order(places, size):
    mask = np.isin(np.arange(size), list(places))
    assert same(encoding_bulk.rare(mask), np.flatnonzero(mask))


@kinds
def test_memory_that_is_not_in_order_and_other_types_are_read_rightly(mechanism):
    x, factors, noise = updates(6, 41)
    expected = rows_of(mechanism, x, factors, noise)
    wide = np.zeros((6, 90), np.float32)
    wide[:, 3:85:2] = x
    for other in (np.asfortranarray(x), wide[:, 3:85:2]):
        assert same(encoded_rows(mechanism, other, factors, noise), expected)
    whole = np.rint(x).astype(np.int16)
    assert same(encoded_rows(mechanism, whole, factors, noise), rows_of(mechanism, whole, factors, noise))


@kinds
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_nothing_is_encoded_to_nothing_of_the_right_type(mechanism, shape):
    noise = Seeded(1, 1, np.arange(shape[0]))
    found = encoded_rows(mechanism, np.zeros(shape, np.float32), np.ones(shape[0]), noise)
    assert same(found, np.empty(shape, mechanism.encode(np.zeros(3), pcg(1)).dtype))


# --- words --------------------------------------------------------------------------------------------------------


class Counted:
    """A generator that remembers how many words it was asked for."""

    bit_generator = None

    def __init__(self) -> None:
        self.asked: list[int] = []
        self._rng = pcg(1)

    def integers(self, low, high, count, **_):
        self.asked.append(count)
        return random_words(count, self._rng)


def by_their_words(mechanism: Mechanism, x: np.ndarray, factors: np.ndarray, each: int) -> np.ndarray:
    """Rows encoded in turn, each by its share of the first words of a generator, then by the next ones if it must."""
    rng = pcg(1)
    given = random_words(each * len(x), rng).reshape(len(x), each)
    return np.array([mechanism.encode(x[i] * factors[i], Replayed(given[i], rng)) for i in range(len(x))])


TOGETHER = [mechanism for mechanism in BULK if mechanism is not COUNTS[4]]  # that one goes row by row
together = pytest.mark.parametrize("mechanism", TOGETHER, ids=str)


@together
def test_fresh_rows_take_their_words_at_once_and_no_others(mechanism):
    x, factors, _ = updates(12, 700, np.float64)
    rng = Counted()
    found = encoded_rows(mechanism, x, factors, Fresh(rng, 12))
    assert len(rng.asked) == 1
    assert same(found, by_their_words(mechanism, x, factors, rng.asked[0] // 12))


@pytest.fixture
def hardly_any_words(monkeypatch):
    """One word is kept for ties: rows that have two must be encoded over."""
    for module in (encoding_votes, encoding_coins, encoding_ternary, encoding_counts):
        monkeypatch.setattr(module, "reserve", lambda dimension, share: 1)
    monkeypatch.setattr(encoding_counts, "_RARE", inf)  # nor any for rounds of ties


@together
def test_rows_that_run_out_of_words_are_encoded_all_the_same(mechanism, hardly_any_words, monkeypatch):
    for family in FAMILIES:
        monkeypatch.setattr(family, "coordinates", 1500)
    x, factors, noise = updates(12, 700)
    assert same(encoded_rows(mechanism, x, factors, noise), rows_of(mechanism, x, factors, noise))


@together
def test_rows_that_run_out_of_fresh_words_go_on_with_new_ones(mechanism, hardly_any_words):
    x, factors, _ = updates(12, 700, np.float64)
    rng = Counted()
    found = encoded_rows(mechanism, x, factors, Fresh(rng, 12))
    assert len(rng.asked) > 1
    assert same(found, by_their_words(mechanism, x, factors, rng.asked[0] // 12))


@pytest.mark.parametrize(
    ("mechanism", "x", "hit", "miss"),
    [
        (StochasticSign(clip=1, scale=1 + 1e-9), -1.0, 1, -1),
        (Ternarize(clip=1, scale=1e9), 1.0, 1, 0),
        (Ternarize(clip=1, scale=1e9), -1.0, -1, 0),
    ],
    ids=str,
)
def test_a_tie_of_72_bits_is_decided_by_the_words_that_follow(mechanism, x, hit, miss):
    p = float(mechanism.chance(np.array(x)) if miss else mechanism.plus(np.array(abs(x))))
    second, rest = divmod(p * 2.0**72, 1)
    assert 0 < rest < 1
    for step, third, symbol in ((-1, 2**64 - 1, hit), (0, 0, hit), (0, 2**64 - 1, miss), (1, 0, miss)):
        words = np.array([0, int(second) + step, third, *[0] * 6], np.uint64)
        tape = Replayed(~words if hit < miss else words, pcg(1))  # −1 is sent where 1 − U is small
        assert encoded_rows(mechanism, np.array([[x]]), np.ones(1), Fresh(tape, 1)) == symbol


def test_a_count_on_the_edge_is_decided_by_whole_numbers():
    """U lies between a bound as the table has it and the bound as it is."""
    mechanism, digit = Binomial(clip=1, scale=2, trials=16), 131
    splits, exact = Splits.of(16), sampling_binomial._WholeNumbers(16, digit, 56)
    table = splits.bounds.reshape(256, -1)[digit] - np.uint64(digit << 56)
    i = next(i for i in range(3, 15) if int(table[i]) > exact[i])
    u = int(table[i])
    words = np.array([u >> 44 << 4, (u & (2**44 - 1)) << 20, *[0] * 40], np.uint64)
    x = np.array([[(2 * digit + 1) / 512 * 4 - 2]])
    tape = Replayed(words, pcg(1))
    assert encoded_rows(mechanism, x, np.ones(1), Fresh(tape, 1)) == splits.outcomes[i + 1] & 1023


def test_words_of_clients_are_those_of_their_streams():
    clients = np.array([3, 0, 2**62, 3])
    words = words_of_clients(1, "encode", 7, clients, 9)
    noise = Seeded(1, 7, clients)
    assert same(words, np.array([random_words(9, noise.one(row)) for row in range(4)]))
    assert same(noise.words(9), words)
    assert words_of_clients(1, "encode", 7, clients[:0], 9).shape == (0, 9)
    out = np.zeros_like(words)
    assert noise.words(9, out=out) is out
    assert same(out, words)


def test_noise_of_a_deployed_client_has_the_right_mean():
    x = np.full((1, 60_000), 0.4, np.float32)
    votes = encoded_rows(COINS[0], x, np.ones(1), Fresh(cryptographic_generator(), 1))
    assert abs(COINS[0].decode(votes, 1).mean() - 0.4) < 6 * COINS[0].scale / 60_000**0.5  # fails once in 10⁹ runs


@together
def test_what_is_decoded_has_the_mean_of_what_was_encoded(mechanism):
    rows = 20_000
    x = np.random.default_rng(3).uniform(-1, 1, 12) * mechanism.peak
    symbols = encoded_rows(
        mechanism, np.tile(x.astype(np.float32), (rows, 1)), np.ones(rows), Seeded(2, 1, np.arange(rows))
    )
    if isinstance(mechanism, NoisySign):
        expected, found = 2 * ndtr(x / mechanism.noise) - 1, symbols.mean(axis=0)
    else:
        expected, found = x, mechanism.decode(symbols.sum(axis=0, dtype=np.int64), rows)
    unit = (mechanism.decode([1, 0], 1) @ [1, -1]) if not isinstance(mechanism, NoisySign) else 1
    error = unit * (symbols.std(axis=0) / sqrt(rows) + 1 / rows)  # a symbol may be as rare as once in all rows
    assert (abs(found - expected) < 4 * error).all()


@given(t=st.floats(-8.3, 8.3))
def test_the_guess_at_a_normal_curve_is_near_enough(t):
    guess = np.array([t * sqrt(2 / np.pi)], np.float32)
    encoding_coins._normal(guess)
    assert abs(guess - (256 * ndtr(t) - 0.5)) < 0.1


# --- what is refused ----------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (1, 8500), (2, 8999)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_what_is_not_finite_is_refused(mechanism, wrong, place, kind):
    x = np.zeros((3, 9000), kind)
    x[place] = wrong
    with pytest.raises(FedprivError, match="must be finite"):
        encoded_rows(mechanism, x, np.ones(3), Seeded(1, 1, np.arange(3)))


@kinds
def test_factors_that_are_not_finite_are_refused(mechanism):
    for wrong in (np.nan, np.inf):
        with pytest.raises(FedprivError, match="must be finite"):
            encoded_rows(mechanism, np.ones((2, 9), np.float32), np.array([1, wrong]), Seeded(1, 1, np.arange(2)))


@pytest.mark.parametrize(
    ("x", "factors", "clients"), [((3, 4), 2, 3), ((3, 4), 3, 2), ((2, 4), 3, 3), ((3,), 3, 3), ((3, 4, 5), 3, 3)]
)
def test_shapes_that_do_not_fit_are_refused(x, factors, clients):
    for encode in (encoded_rows, encoded_packed):
        with pytest.raises(FedprivError, match="of as many rows"):
            encode(COINS[0], np.zeros(x), np.ones(factors), Seeded(1, 1, np.arange(clients)))


@pytest.mark.parametrize(
    ("seed", "round", "clients"), [(-1, 0, [1]), (1, 0.5, [1]), (1, 0, [-1]), (1, 0, [[1]]), (1, 0, [2, 1, -(2**63)])]
)
def test_names_of_streams_that_cannot_be_are_refused(seed, round, clients):
    with pytest.raises(FedprivError):
        Seeded(seed, round, np.array(clients))


# --- clipping -----------------------------------------------------------------------------------------------------


def squared_norm(row: np.ndarray, factor: float) -> Fraction:
    """Of the vector that is encoded, exactly."""
    return sum((Fraction(float(value)) ** 2 for value in row.astype(np.float64) * factor), Fraction(0))


matrices = st.sampled_from([np.float32, np.float64]).flatmap(
    lambda kind: arrays.arrays(
        kind,
        st.tuples(st.integers(1, 3), st.integers(1, 20)),
        elements=st.floats(width=np.finfo(kind).bits, allow_nan=False, allow_infinity=False),
    )
)


@given(x=matrices, clip=st.floats(1e-3, 1e3), how=st.sampled_from(["clip", "normalise"]))
@example(x=np.full((1, 3), 3e38, np.float32), clip=1.0, how="clip")
@example(x=np.full((1, 3), 1e-45, np.float32), clip=1.0, how="normalise")
@example(x=np.full((1, 20), 4.5e-23, np.float32), clip=1.0, how="normalise")  # each square is cut by a third
@example(x=np.linspace(1e308, 1.7e308, 20)[:, None], clip=1e-12, how="clip")  # the factors have a few digits only
@example(x=np.array([[1e19, 1e-30], [1e-23, 1e-23]], np.float32), clip=1.0, how="normalise")
def test_the_norm_is_at_most_the_clip_in_exact_arithmetic(x, clip, how):
    for row, factor in zip(x, clip_factors(x, clip, how), strict=True):
        assert squared_norm(row, factor) <= Fraction(clip) ** 2


@given(x=matrices, clip=st.floats(1e-3, 1e3))
def test_no_more_than_8_in_a_million_of_the_norm_is_given_away(x, clip):
    least, most = Fraction(clip * (1 - 8e-6)), 10**280
    for row, clipped, normalised in zip(
        x, clip_factors(x, clip, "clip"), clip_factors(x, clip, "normalise"), strict=True
    ):
        square = squared_norm(row, 1.0)
        assert clipped <= 1
        if square <= least**2:
            assert clipped == 1
        if least**2 < square * most and square < most**2:  # factors beyond 1e±280 may be cut
            assert squared_norm(row, normalised) >= least**2 * Fraction(1 - 1e-9)
        if clipped < 1:
            assert normalised == clipped


@pytest.mark.parametrize("dimension", [1, 255, 256, 257, 7850, 101_770, 1_000_000])
@pytest.mark.parametrize("size", [1e-18, 1.0, 1e15, 1e30])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_long_rows_are_within_the_clip_and_near_it(dimension, size, kind):
    x = (np.random.default_rng(dimension).uniform(0.5, 1, (1, dimension)) * size).astype(kind)
    scaled = x[0].astype(np.float64) * clip_factors(x, 1, "normalise")[0]
    assert 1 - 1.6e-5 < fsum(scaled * scaled) <= 1 - 1e-12  # squares and their exact sum, to 2⁻⁵³ each


def test_zeros_are_left_and_what_is_not_finite_is_told():
    x = np.zeros((5, 300), np.float32)
    x[1, 299], x[2, 0], x[3, 256], x[4, 7] = np.nan, np.inf, -np.inf, 0.5
    for bound, expected in ((Norm(1), [1, 1]), (Normalised(1), [0, approx(2, rel=1e-5)]), (Box(1), [1, 1])):
        for kind in (np.float32, np.float64):
            factors = bound.factors(x.astype(kind))
            assert np.isnan(factors).tolist() == [False, True, True, True, False]
            assert factors[[0, 4]].tolist() == expected


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("dimension", [1, 650, 7850, 101_770])
def test_the_factor_of_a_row_does_not_depend_on_the_rows_beside_it(kind, dimension):
    x = np.random.default_rng(1).standard_normal((37, dimension)).astype(kind)
    factors = clip_factors(x, 1e-3, "clip")
    moved = np.empty(37 * dimension + 3, kind)
    for start in range(3):  # where it lies in memory does not matter either
        moved[start : start + x.size] = x.reshape(-1)
        assert (clip_factors(moved[start : start + x.size].reshape(x.shape), 1e-3, "clip") == factors).all()
    for some in (slice(0, 1), slice(5, 19), slice(36, 37)):
        assert (clip_factors(x[some], 1e-3, "clip") == factors[some]).all()
    assert (clip_factors(np.asfortranarray(x), 1e-3, "clip") == factors).all()


def test_no_clip_at_all_clips_nothing():
    assert clip_factors(np.array([[3.0, 4.0], [0, 0]]), inf, "clip").tolist() == [1, 1]


@pytest.mark.parametrize(
    ("clip", "how", "says"),
    [
        (0, "clip", "clip must be positive"),
        (np.nan, "clip", "clip must be finite"),
        (inf, "normalise", "clip must be finite"),
        (1, "normalize", "did you mean 'normalise'"),
    ],
)
def test_clips_that_cannot_be_are_refused(clip, how, says):
    with pytest.raises(FedprivError, match=says):
        clip_factors(np.ones((1, 2)), clip, how)


def test_rows_must_be_rows():
    with pytest.raises(FedprivError, match="updates must be a matrix"):
        clip_factors(np.ones(3), 1, "clip")
