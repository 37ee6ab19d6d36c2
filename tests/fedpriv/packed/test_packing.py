"""What is packed comes back, in the bytes that are counted; what nobody can send is found; sums need no unpacking."""

from __future__ import annotations

import tracemalloc
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    NoisySign,
    Skellam,
    StochasticSign,
    Ternarize,
    Ternary,
)
from fedpriv.packed._bit_counter import BitCounter
from fedpriv.packed.forms import Planes
from fedpriv.packed.symbols import packing_of
from fedpriv.packed.tally import Tally

SIGN = StochasticSign(clip=1, scale=2)
TERNARY = Ternary(clip=1, spread=1.5, scale=4)
FINITE: list[Any] = [
    SIGN,
    Cldp(clip=1, epsilon=1),
    NoisySign(clip=1, noise=0.7),
    *(Binomial(clip=1, scale=2, trials=trials) for trials in (1, 2, 3, 4, 7, 16, 255, 256, 5000, 1 << 20)),
    BinomialNoise(clip=1, levels=8, trials=300),
    TERNARY,
    Ternarize(clip=1, scale=1.5),
]
FIVE = Binomial(clip=1, scale=2, trials=4)
WHOLE: list[Any] = [DiscreteGaussian(clip=1, levels=8, noise=0.6), Skellam(clip=1, levels=8, noise=0.6)]
REAL: list[Any] = [Gaussian(clip=1, noise=0.7), Laplace(clip=1, noise=0.7)]


class Unheard:
    """A mechanism nobody knows, of real messages."""

    alphabet = None
    bits = 32.0


def named(mechanism: Any) -> str:
    return f"{type(mechanism).__name__}-{len(mechanism.alphabet or ())}"


def each(mechanisms: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mechanism", mechanisms, ids=named)


def drawn(mechanism: Any, rows: int, dimension: int, seed: int = 1) -> NDArray[Any]:
    """Symbols of the alphabet in the mechanism's own type."""
    kind = mechanism.encode(np.zeros(1), np.random.default_rng(1)).dtype
    alphabet = mechanism.alphabet or range(-(2**31), 2**31)
    places = np.random.default_rng(seed).integers(0, len(alphabet), (rows, dimension))
    return (places * alphabet.step + alphabet.start).astype(kind)


# --- there and back -----------------------------------------------------------------------------------------------


@given(data=st.data(), rows=st.integers(1, 4), dimension=st.integers(1, 40))
def test_symbols_come_back(data, rows, dimension):
    mechanism = data.draw(st.sampled_from(FINITE))
    alphabet = mechanism.alphabet
    places = data.draw(arrays(np.int64, (rows, dimension), elements=st.integers(0, len(alphabet) - 1)))
    symbols = places * alphabet.step + alphabet.start
    form = packing_of(mechanism)
    payload = form.pack(symbols)
    assert (form.unpack(payload, dimension) == symbols).all()
    assert form.valid(payload, dimension).all()


@each(FINITE + WHOLE)
def test_symbols_come_back_in_their_own_type(mechanism: Any) -> None:
    symbols = drawn(mechanism, 3, 11)
    found = packing_of(mechanism).unpack(packing_of(mechanism).pack(symbols), 11)
    assert (found == symbols).all()
    assert found.dtype == (symbols.dtype if mechanism.alphabet is not None else np.int32)


@given(symbols=arrays(np.int8, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=st.integers(-1, 1)))
def test_a_row_is_packed_without_regard_to_the_others(symbols):
    form = packing_of(TERNARY)
    apart = [form.pack(symbols[row : row + 1]) for row in range(len(symbols))]
    assert (form.pack(symbols) == np.concatenate(apart)).all()


@pytest.mark.parametrize("mechanism", [*REAL, Unheard()], ids=lambda mechanism: type(mechanism).__name__)
def test_reals_come_back_as_float32(mechanism: Any) -> None:
    x = np.random.default_rng(1).normal(size=(3, 5))
    found = packing_of(mechanism).unpack(packing_of(mechanism).pack(x), 5)
    assert found.dtype == np.float32
    assert (found == x.astype(np.float32)).all()


@each(FINITE)
@pytest.mark.parametrize("dimension", [1, 7, 8, 650, 1003])
def test_a_row_takes_no_more_bytes_than_its_bits(mechanism: Any, dimension: int) -> None:
    assert packing_of(mechanism).size(dimension) == ceil(round(mechanism.bits * dimension / 8, 9))


@each(WHOLE + REAL)
def test_alphabets_without_end_take_four_bytes(mechanism: Any) -> None:
    assert packing_of(mechanism).size(7) == 28


def test_two_symbols_are_packed_by_one_call_of_numpy() -> None:
    symbols = drawn(SIGN, 5, 21)
    assert (packing_of(SIGN).pack(symbols) == np.packbits(symbols > 0, axis=1)).all()


def test_golden_planes_of_five_symbols() -> None:
    form = packing_of(Binomial(clip=1, scale=2, trials=4))  # lowest bits 0 1 0, then 0 0 1, then 1 0 0
    assert form.pack(np.array([[4, 1, 2]])).tolist() == [[0b01000110, 0b00000000]]


def test_golden_trits() -> None:
    symbols = [[1, -1, 0, 1, 1, 0]]  # digits 2 0 1 2 2 1 in two bytes: 2 + 1·3 + 2·9 and 0 + 2·3 + 1·9
    assert packing_of(TERNARY).pack(np.array(symbols)).tolist() == [[23, 15]]


def test_golden_words() -> None:
    assert packing_of(WHOLE[0]).pack(np.array([[-2, 258]])).tolist() == [[254, 255, 255, 255, 2, 1, 0, 0]]
    assert packing_of(REAL[0]).pack(np.array([[1.0]])).tolist() == [[0, 0, 128, 63]]


# --- what is refused ----------------------------------------------------------------------------------------------


@given(data=st.data(), dimension=st.integers(1, 12))
def test_bytes_are_valid_exactly_where_they_are_the_packing_of_something(data, dimension):
    mechanism = data.draw(st.sampled_from([SIGN, TERNARY, Binomial(clip=1, scale=2, trials=2), FIVE]))
    form = packing_of(mechanism)
    payload = data.draw(arrays(np.uint8, (3, form.size(dimension)), elements=st.integers(0, 255)))
    symbols = form.unpack(payload, dimension)
    inside = np.isin(symbols, list(mechanism.alphabet)).all(axis=1)
    again = form.pack(np.where(inside[:, np.newaxis], symbols, mechanism.alphabet[0]))
    assert (form.valid(payload, dimension) == (inside & (again == payload).all(axis=1))).all()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e39])
def test_a_real_message_that_is_not_finite_is_not_valid(wrong: float) -> None:
    form = packing_of(REAL[0])
    payload = form.pack(np.array([[1.0, 2.0], [0.0, wrong], [3.0, 4.0]]))
    assert form.valid(payload, 2).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("mechanism", "symbols"),
    [
        (SIGN, [[0]]),
        (SIGN, [[1, 3]]),
        (FIVE, [[5]]),
        (FIVE, [[-1]]),
        (TERNARY, [[2]]),
        (TERNARY, [[0.5]]),
        (WHOLE[0], [[2**31]]),
        (WHOLE[0], [[0.5]]),
        (TERNARY, [0, 1]),
        (SIGN, [[[1]]]),
    ],
)
def test_symbols_outside_the_alphabet_are_not_packed(mechanism: Any, symbols: Any) -> None:
    with pytest.raises(FedprivError, match="symbols must"):
        packing_of(mechanism).pack(np.array(symbols))


@each([SIGN, TERNARY, *WHOLE, *REAL])
def test_rows_of_another_length_are_refused(mechanism: Any) -> None:
    with pytest.raises(FedprivError, match="a payload must be rows of"):
        packing_of(mechanism).unpack(np.zeros((2, 1 + packing_of(mechanism).size(9)), np.uint8), 9)


def test_an_alphabet_of_steps_is_packed_by_its_places() -> None:
    form = Planes(range(-6, 7, 3))
    symbols = np.array([[-6, 0, 3, 6, -3]])
    assert (form.unpack(form.pack(symbols), 5) == symbols).all()
    with pytest.raises(FedprivError, match="symbols must be in"):
        form.pack(np.array([[-5]]))


# --- sums ---------------------------------------------------------------------------------------------------------


@each(FINITE + WHOLE)
@pytest.mark.parametrize(("rows", "dimension"), [(1, 1), (3, 9), (40, 650), (600, 3)])
def test_a_tally_is_the_sum_of_the_symbols(mechanism: Any, rows: int, dimension: int) -> None:
    symbols = drawn(mechanism, rows, dimension)
    tally = Tally(mechanism, dimension)
    tally.add(packing_of(mechanism).pack(symbols))
    assert tally.total().dtype == np.int64
    assert (tally.total() == symbols.sum(axis=0, dtype=np.int64)).all()
    assert (tally.signs() == np.sign(symbols.sum(axis=0, dtype=np.int64))).all()
    assert tally.count == rows


@given(data=st.data(), dimension=st.integers(1, 20), portions=st.lists(st.integers(0, 700), max_size=4))
def test_a_tally_depends_neither_on_order_nor_on_portions(data, dimension, portions):
    mechanism = data.draw(st.sampled_from([SIGN, TERNARY, FIVE, WHOLE[0]]))
    symbols = drawn(mechanism, sum(portions), dimension)
    order = np.random.default_rng(len(portions)).permutation(len(symbols))
    tally, start = Tally(mechanism, dimension), 0
    for rows in portions:
        tally.add(packing_of(mechanism).pack(symbols[order[start : start + rows]]))
        start += rows
        assert tally.count == start
    assert (tally.total() == symbols.sum(axis=0, dtype=np.int64)).all()


@pytest.mark.parametrize("rows", [1, 2, 7, 8])
def test_rows_past_one_block_of_columns_are_counted_and_voted_on(rows: int) -> None:
    dimension = 1_100_003
    payload = np.random.default_rng(2).integers(0, 256, (rows, packing_of(SIGN).size(dimension)), np.uint8)
    expected = np.zeros(dimension, np.int64)
    tally = Tally(SIGN, dimension)
    for row in payload:
        tally.add(row[np.newaxis])
        expected += 2 * np.unpackbits(row, count=dimension).astype(np.int64) - 1
    assert (tally.total() == expected).all()
    assert (tally.signs() == np.sign(expected)).all()


def test_a_tally_can_be_asked_and_added_to_in_turn() -> None:
    tally, expected = Tally(SIGN, 33), np.zeros(33, np.int64)
    for seed in range(9):
        symbols = drawn(SIGN, 30 * seed, 33, seed)
        tally.add(packing_of(SIGN).pack(symbols))
        expected += symbols.sum(axis=0)
        assert (tally.total() == expected).all()
        assert (tally.signs() == np.sign(expected)).all()


def test_counts_go_past_sixteen_bits() -> None:
    rows = np.full((5000, 1), 0b101_00000, np.uint8)
    counter = BitCounter(3)
    for _ in range(200):
        counter.add(rows)
    assert counter.counts().tolist() == [1_000_000, 0, 1_000_000]
    wide = BitCounter(8 << 17)  # no lanes: one count each
    for _ in range(300):
        wide.add(np.full((1, 1 << 17), 0b10000001, np.uint8))
    assert (wide.counts().reshape(-1, 8) == [300, 0, 0, 0, 0, 0, 0, 300]).all()


@pytest.mark.parametrize(("plus", "vote"), [(0, -1), (499, -1), (500, 0), (501, 1), (1000, 1)])
@pytest.mark.parametrize("dimension", [8, 1 << 20])  # in lanes, and on planes
def test_golden_votes_of_a_thousand(plus: int, vote: int, dimension: int) -> None:
    tally = Tally(SIGN, dimension)
    size = packing_of(SIGN).size(dimension)
    rows = np.zeros((1, size), np.uint8)
    for voter in range(1000):
        tally.add(rows if voter >= plus else ~rows)
    assert set(tally.signs().tolist()) == {vote}
    assert set(tally.total()[:8].tolist()) == {2 * plus - 1000}


@pytest.mark.parametrize("mechanism", [SIGN, FIVE, TERNARY, WHOLE[0]], ids=named)
def test_memory_does_not_grow_with_the_messages(mechanism: Any) -> None:
    payload = packing_of(mechanism).pack(drawn(mechanism, 32, 50_000))
    tally, peaks = Tally(mechanism, 50_000), []
    for portions in (3, 60):
        tracemalloc.start()
        for _ in range(portions):
            tally.add(payload)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] + 8 * 50_000


def test_adding_changes_nothing_that_was_given() -> None:
    payload = packing_of(SIGN).pack(drawn(SIGN, 600, 650))
    given, tally = payload.copy(), Tally(SIGN, 650)
    tally.add(payload)
    first = tally.total()
    first += 1
    assert (payload == given).all()
    assert (tally.total() == first - 1).all()


def test_an_empty_tally_is_zero() -> None:
    for mechanism in (SIGN, TERNARY, FIVE, WHOLE[0]):
        assert not Tally(mechanism, 9).total().any()
        assert not Tally(mechanism, 9).signs().any()


def test_reals_are_not_tallied() -> None:
    tally = Tally(REAL[0], 2)
    with pytest.raises(FedprivError, match="sums of reals depend on their order"):
        tally.add(packing_of(REAL[0]).pack(np.ones((1, 2))))
