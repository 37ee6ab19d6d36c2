"""Streams are named by what they are for, and by nothing else."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import randomgen
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Generator, Philox

from fedpriv.errors import FedprivError
from fedpriv.randomness.cryptographic import cryptographic_generator
from fedpriv.randomness.streams import random_bytes, random_words, stream

GENERATORS = [Philox, PCG64, PCG64DXSM, SFC64, MT19937, randomgen.ChaCha, randomgen.AESCounter, randomgen.HC128]
names = st.tuples(st.integers(0, 2**70), st.text(max_size=3), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))


def first_words(*name: object) -> list[int]:
    return [int(word) for word in random_words(4, stream(*name))]  # type: ignore[arg-type]


@given(name=names)
def test_the_same_name_gives_the_same_bits(name):
    assert first_words(*name) == first_words(*name)


@given(name=names, other=names)
def test_another_name_gives_other_bits(name, other):
    assert (first_words(*name) == first_words(*other)) == (name == other)


def test_a_stream_is_what_it_always_was():
    assert first_words(1, "encode", 2, 3) == [
        1269530620310631280,
        10042862235840712499,
        12406215028877808967,
        10629654899417866385,
    ]


def test_streams_of_one_key_lie_whole_counters_apart():
    counters = [stream(7, "x", r, c).bit_generator.state["state"]["counter"] for r in range(3) for c in range(3)]
    assert all(a[:2].tolist() == [0, 0] and a[2:].tolist() != b[2:].tolist() for a, b in combinations(counters, 2))


def test_neighbouring_streams_are_uncorrelated():
    draws = np.array(
        [stream(1, "x", round, client).standard_normal(10_000) for round in range(4) for client in range(4)]
    )
    correlation = np.corrcoef(draws)[np.triu_indices(16, 1)]
    assert abs(correlation).max() < 4.5 / 100  # standard errors, for the largest of 120


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 1.0}, "seed must be a whole number, got 1.0"),
        ({"round": -1}, "round must be at least 0"),
        ({"client": 2.5}, "client must be a whole number"),
        ({"client": True}, "client must be a whole number"),
        ({"round": 2**64}, "below 2\\*\\*64"),
        ({"purpose": 3}, "purpose must be a word, got 3"),
    ],
)
def test_what_is_no_name_is_refused(wrong, says):
    with pytest.raises(FedprivError, match=says):
        stream(**{"seed": 1, "purpose": "x", **wrong})


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert first_words(np.int64(5), "x", np.uint8(2), np.int32(3)) == first_words(5, "x", 2, 3)


@pytest.mark.parametrize("kind", GENERATORS)
def test_words_of_every_generator_fill_all_64_bits_evenly(kind):
    words = random_words(20_000, Generator(kind(3)))
    ones = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert abs(ones - 0.5).max() < 4.5 * 0.5 / 20_000**0.5  # standard errors, for the largest of 64


@given(count=st.integers(0, 100))
def test_bytes_are_as_many_as_asked(count):
    assert random_bytes(count, stream(1, "x")).shape == (count,)


def test_deployed_noise_cannot_be_replayed():
    assert cryptographic_generator().bytes(32) != cryptographic_generator().bytes(32)


def test_randomgen_computes_the_chacha20_of_the_standard():
    zero = Generator(randomgen.ChaCha(key=0, counter=0, rounds=20))
    expected = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"  # RFC 8439, A.1, first vector
    assert random_bytes(32, zero).tobytes().hex() == expected
