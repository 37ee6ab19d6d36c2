"""Frames and replies come back as they were, and nothing else that arrives does more than be rejected."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Binomial, BinomialNoise, DiscreteGaussian, Gaussian, Skellam, StochasticSign, Ternary
from fedpriv.packed.symbols import packing_of
from fedpriv.packed.tally import Tally
from fedpriv.wire import (
    HEADER,
    REASONS,
    Expected,
    Messages,
    Rejected,
    Sum,
    alone,
    client_bytes,
    frames_of,
    masked_bits,
    messages_frame,
    opened_frame,
    reply_bytes,
    sum_frame,
)

STUDY, ROUND, DIMENSION = b"eightful", 7, 13
CLIENTS = np.array([2, 3, 5, 8, 13])
SIGN = StochasticSign(clip=1, scale=2)
FIVE = Binomial(clip=1, scale=2, trials=4)
TERNARY = Ternary(clip=1, spread=1.5, scale=4)
GAUSSIAN = Gaussian(clip=1, noise=1)
DISCRETE = DiscreteGaussian(clip=1, levels=8, noise=0.6)
MECHANISMS: list[Any] = [SIGN, FIVE, TERNARY, DISCRETE, GAUSSIAN, BinomialNoise(clip=1, levels=8, trials=300)]
COUNTED: list[Any] = [SIGN, FIVE, TERNARY, DISCRETE]

Payload = NDArray[np.uint8]


def expected(mechanism: Any, dimension: int = DIMENSION, clients: NDArray[np.int64] = CLIENTS) -> Expected:
    return Expected(STUDY, ROUND, clients, dimension, mechanism)


def payload_of(mechanism: Any, rows: int, dimension: int = DIMENSION, nonzero: float = 1.0) -> Payload:
    rng = np.random.default_rng(rows)
    alphabet = mechanism.alphabet
    if alphabet is None:
        symbols = rng.integers(-1000, 1000, (rows, dimension))
    else:
        symbols = rng.integers(0, len(alphabet), (rows, dimension)) * alphabet.step + alphabet.start
    return packing_of(mechanism).pack(
        np.where(rng.random(symbols.shape) < nonzero, symbols, 0 if nonzero < 1 else symbols)
    )


def frame_of(mechanism: Any, clients: NDArray[np.int64] = CLIENTS, study: bytes = STUDY, round: int = ROUND) -> bytes:
    return messages_frame(study, round, clients, payload_of(mechanism, len(clients)), DIMENSION, mechanism)


def sum_of(mechanism: Any, clients: NDArray[np.int64] = CLIENTS) -> tuple[bytes, NDArray[np.int64]]:
    tally = Tally(mechanism, DIMENSION)
    payload = payload_of(mechanism, len(clients))
    tally.add(payload)
    return sum_frame(STUDY, ROUND, clients, tally.total(), alone(mechanism, DIMENSION, payload)), tally.total()


def signed(frame: bytes) -> bytes:
    """The frame under a checksum that is right: what a hostile client sends."""
    head, rest = frame[: HEADER - 8], frame[HEADER - 4 :]
    return head + struct.pack("<I", zlib.crc32(head + rest)) + rest


def named(mechanism: Any) -> str:
    return type(mechanism).__name__


def reason(frame: bytes, wanted: Expected) -> str:
    with pytest.raises(Rejected) as error:
        opened_frame(frame, wanted)
    assert error.value.reason in REASONS
    assert str(error.value).startswith(error.value.reason)
    assert "\n" not in str(error.value)
    return error.value.reason


def opened_or_none(frame: bytes, wanted: Expected) -> Messages | Sum | None:
    """What a frame says, None where it is rejected; anything else that happens is a fault."""
    try:
        return opened_frame(frame, wanted)
    except Rejected:
        return None


# --- there and back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=named)
def test_messages_come_back(mechanism: Any) -> None:
    found = opened_frame(frame_of(mechanism), expected(mechanism))
    assert isinstance(found, Messages)
    assert (found.clients == CLIENTS).all()
    assert (found.payload == payload_of(mechanism, len(CLIENTS))).all()
    assert not found.refused.size


@pytest.mark.parametrize("mechanism", COUNTED, ids=named)
def test_sums_come_back(mechanism: Any) -> None:
    frame, total = sum_of(mechanism)
    found = opened_frame(memoryview(bytearray(frame)), expected(mechanism))
    assert isinstance(found, Sum)
    assert (found.clients == CLIENTS).all()
    assert (found.total == total).all()
    assert found.total.dtype == np.int64


@pytest.mark.parametrize("largest", [127, -128, 128, 32767, -32769, 2**31 - 1, 2**31, -(2**31) - 1])
def test_a_sum_takes_the_smallest_width_that_holds_it(largest: int) -> None:
    wanted = expected(Skellam(clip=1, levels=8, noise=0.6), dimension=2)
    frame = sum_frame(STUDY, ROUND, CLIENTS, np.array([0, largest]))
    found = opened_frame(frame, wanted)
    assert found.total.tolist() == [0, largest]  # type: ignore[union-attr]
    width = next(width for width in (1, 2, 4, 8) if -(256**width) // 2 <= largest < 256**width // 2)
    assert len(frame) == HEADER + 4 * (len(CLIENTS) - 1) + 2 * width


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=named)
def test_a_client_alone_pays_its_payload_and_a_header(mechanism: Any) -> None:
    frame = frame_of(mechanism, CLIENTS[:1])
    assert len(frame) == HEADER + packing_of(mechanism).size(DIMENSION)
    assert client_bytes(mechanism, DIMENSION, None) == (len(frame), "expected" if mechanism == TERNARY else "exact")


@given(data=st.data(), rows=st.integers(1, 5), dimension=st.integers(1, 900), nonzero=st.floats(0, 1))
def test_ternary_messages_come_back_in_whichever_form(data, rows, dimension, nonzero):
    payload = payload_of(TERNARY, rows, dimension, nonzero)
    frame = messages_frame(STUDY, ROUND, CLIENTS[:rows], payload, dimension, TERNARY)
    found = opened_frame(frame, expected(TERNARY, dimension))
    assert (found.payload == payload).all()
    assert len(frame) <= HEADER + 4 * (rows - 1) + payload.size


@pytest.mark.parametrize("nonzero", [0.0, 0.001, 0.01, 0.1])
def test_ternary_messages_that_are_mostly_zero_take_nine_bits_a_vote(nonzero: float) -> None:
    payload = payload_of(TERNARY, 5, 2000, nonzero)
    votes = np.count_nonzero(packing_of(TERNARY).unpack(payload, 2000))
    size = len(messages_frame(STUDY, ROUND, CLIENTS, payload, 2000, TERNARY)) - HEADER - 16
    assert size >= 5 * 4 + votes * 9 / 8
    assert size <= 5 * 4 + votes * 9 / 8 + 1 + 5 * 2000 // 255
    assert size < payload.size / 2


def test_ternary_messages_with_many_votes_stay_dense() -> None:
    payload = payload_of(TERNARY, 5, 2000, 0.3)
    assert len(messages_frame(STUDY, ROUND, CLIENTS, payload, 2000, TERNARY)) - HEADER - 16 == payload.size


def test_rows_of_a_sparse_frame_have_lengths_of_their_own() -> None:
    symbols = np.zeros((5, 3000), np.int8)
    symbols[1, [0, 255, 256, 2999]] = 1, -1, 1, -1
    symbols[3, 254:3000:255] = 1
    symbols[4, :40] = -1
    payload = packing_of(TERNARY).pack(symbols)
    frame = messages_frame(STUDY, ROUND, CLIENTS, payload, 3000, TERNARY)
    assert len(frame) < payload.size / 10
    found = opened_frame(frame, expected(TERNARY, 3000))
    assert (packing_of(TERNARY).unpack(found.payload, 3000) == symbols).all()  # type: ignore[union-attr]


def test_golden_frame() -> None:
    frame = messages_frame(STUDY, 258, np.array([3, 772]), np.array([[0xA0], [0x40]], np.uint8), 3, SIGN)
    head = b"fdpv\x01\x00eightful\x02\x01\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"
    rest = b"\x03\x00\x00\x00\x04\x03\x00\x00\xa0\x40"
    assert frame == head + zlib.crc32(head + rest).to_bytes(4, "little") + rest


# --- what is rejected ---------------------------------------------------------------------------------------------

GOOD = frame_of(SIGN)
WRONG: list[tuple[str, Callable[[], bytes]]] = [
    ("truncated", lambda: b""),
    ("truncated", lambda: GOOD[:20]),
    ("truncated", lambda: GOOD[:-1]),
    ("oversized", lambda: GOOD + b"\0"),
    ("oversized", lambda: GOOD * 100),
    ("version", lambda: b"GET " + GOOD[4:]),
    ("version", lambda: signed(GOOD[:4] + b"\x02" + GOOD[5:])),
    ("checksum", lambda: GOOD[:-1] + bytes([GOOD[-1] ^ 1])),
    ("checksum", lambda: GOOD[:6] + b"sixtysix" + GOOD[14:]),
    ("study", lambda: frame_of(SIGN, study=b"sixtysix")),
    ("round", lambda: frame_of(SIGN, round=ROUND - 1)),
    ("sender", lambda: frame_of(SIGN, np.array([2, 4]))),
    ("sender", lambda: frame_of(SIGN, np.array([2, 2**32 - 1]))),
    ("sender", lambda: sum_of(SIGN, np.array([4]))[0]),
    ("duplicate", lambda: frame_of(SIGN, np.array([2, 3, 2]))),
    ("duplicate", lambda: sum_of(SIGN, np.array([2, 2]))[0]),
    ("shape", lambda: frame_of(SIGN, CLIENTS[:0])),
    ("shape", lambda: frame_of(FIVE, CLIENTS[:1])),
    ("shape", lambda: messages_frame(STUDY, ROUND, CLIENTS[:1], payload_of(SIGN, 1, 14), 14, SIGN)),
    ("shape", lambda: messages_frame(STUDY, ROUND, CLIENTS, payload_of(TERNARY, 5, 13, 0.0), 13, TERNARY)),
    ("shape", lambda: signed(GOOD[:5] + b"\x09" + GOOD[6:])),
    ("shape", lambda: sum_frame(STUDY, ROUND, CLIENTS, np.ones(12, np.int64))),
    ("alphabet", lambda: messages_frame(STUDY, ROUND, CLIENTS[:1], np.array([[0, 1]], np.uint8), DIMENSION, SIGN)),
    ("alphabet", lambda: sum_frame(STUDY, ROUND, CLIENTS, np.full(DIMENSION, 7))),
    ("alphabet", lambda: sum_frame(STUDY, ROUND, CLIENTS, np.full(DIMENSION, -7))),
    ("alphabet", lambda: sum_frame(STUDY, ROUND, CLIENTS, np.full(DIMENSION, 4))),
]


@pytest.mark.parametrize(("why", "made"), WRONG, ids=[f"{number}-{why}" for number, (why, _) in enumerate(WRONG)])
def test_a_frame_that_was_not_asked_for_is_rejected_with_its_reason(why: str, made: Callable[[], bytes]) -> None:
    assert reason(made(), expected(SIGN)) == why


def test_every_reason_is_given_somewhere() -> None:
    assert {why for why, _ in WRONG} == set(REASONS)


def test_a_sum_must_be_one_that_so_many_messages_can_have() -> None:
    for total, good in ((0, True), (20, True), (21, False), (-1, False)):
        frame = sum_frame(STUDY, ROUND, CLIENTS, np.array([total]))
        if good:
            assert opened_frame(frame, expected(FIVE, 1)).total == [total]  # type: ignore[union-attr]
        else:
            assert reason(frame, expected(FIVE, 1)) == "alphabet"


def test_a_sum_of_reals_is_rejected() -> None:
    assert reason(sum_frame(STUDY, ROUND, CLIENTS, np.ones(DIMENSION, np.int64)), expected(GAUSSIAN)) == "shape"


@pytest.mark.parametrize(
    ("mechanism", "bad"),
    [(SIGN, [255, 255]), (FIVE, [255] * 5), (TERNARY, [243, 0, 0]), (GAUSSIAN, [0, 0, 192, 127] * 13)],
    ids=lambda value: named(value) if not isinstance(value, list) else "",
)
def test_nonsense_in_company_costs_its_sender_alone(mechanism: Any, bad: list[int]) -> None:
    payload = payload_of(mechanism, 5)
    payload[[1, 3]] = bad
    found = opened_frame(messages_frame(STUDY, ROUND, CLIENTS, payload, DIMENSION, mechanism), expected(mechanism))
    assert isinstance(found, Messages)
    assert found.refused.tolist() == CLIENTS[[1, 3]].tolist()
    assert found.clients.tolist() == CLIENTS[[0, 2, 4]].tolist()
    assert (found.payload == payload[[0, 2, 4]]).all()
    alone = messages_frame(STUDY, ROUND, CLIENTS[1:2], payload[1:2], DIMENSION, mechanism)
    assert reason(alone, expected(mechanism)) == "alphabet"


@given(frame=st.binary(max_size=200))
def test_random_bytes_are_rejected(frame):
    for mechanism in MECHANISMS:
        reason(frame, expected(mechanism))


FRAMES = [*((frame_of(mechanism), mechanism) for mechanism in MECHANISMS),
          *((sum_of(mechanism)[0], mechanism) for mechanism in COUNTED),
          (messages_frame(STUDY, ROUND, CLIENTS, payload_of(TERNARY, 5, 400, 0.02), 400, TERNARY), TERNARY),
          ]  # fmt: skip


def wanted_of(frame: bytes, mechanism: Any) -> Expected:
    return expected(mechanism, dimension=struct.unpack_from("<I", frame, 22)[0])


@given(data=st.data())
def test_a_frame_cut_short_or_changed_in_a_bit_is_rejected(data):
    frame, mechanism = data.draw(st.sampled_from(FRAMES))
    opened_frame(frame, wanted_of(frame, mechanism))
    cut = data.draw(st.integers(0, len(frame) - 1))
    assert reason(frame[:cut], wanted_of(frame, mechanism)) == "truncated"
    place, bit = data.draw(st.integers(0, len(frame) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(frame)
    changed[place] ^= 1 << bit
    reason(bytes(changed), wanted_of(frame, mechanism))


@given(data=st.data())
def test_a_forged_frame_is_rejected_or_within_the_alphabet(data):
    """A hostile client makes the checksum right, so that the checks behind it are reached."""
    frame, mechanism = data.draw(st.sampled_from(FRAMES))
    wanted = wanted_of(frame, mechanism)
    forged = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(4, len(forged) - 1))
        size = data.draw(st.sampled_from([1, 4, 8]))
        forged[place : place + size] = data.draw(st.binary(min_size=size, max_size=size))
    if data.draw(st.booleans()):  # another length, and a header that agrees
        forged = forged[: data.draw(st.integers(HEADER, len(forged)))]
        content = len(forged) - (HEADER - 4) - 4 * struct.unpack_from("<I", forged, 18)[0]
        forged[26:34] = struct.pack("<Q", max(0, content))
    found = opened_or_none(signed(bytes(forged)), wanted)
    if found is None:
        return
    assert np.isin(found.clients, CLIENTS).all()
    if isinstance(found, Messages):
        assert packing_of(mechanism).valid(found.payload, wanted.dimension).all()
        assert len(found.payload) == len(found.clients)
        assert not np.isin(found.refused, found.clients).any()
    else:
        alphabet = mechanism.alphabet or range(-(2**31), 2**31)
        low, high = alphabet[0] * len(found.clients), alphabet[-1] * len(found.clients)
        assert all(total in range(low, high + 1, alphabet.step) for total in found.total.tolist())


SPARSE = FRAMES[-1][0]
FIRST = HEADER + 16  # the number of the first row's gaps


@pytest.mark.parametrize(
    "content",
    [
        b"\xff" * 40,
        struct.pack("<5I", 2**32 - 1, 0, 0, 0, 0),
        struct.pack("<5I", 1, 0, 0, 0, 0),
        struct.pack("<5I", 1, 0, 0, 0, 0) + b"\xff",  # a gap that never ends
        struct.pack("<5I", 2, 0, 0, 0, 0) + b"\xff\xff",
        struct.pack("<5I", 2, 0, 0, 0, 0) + b"\xff\xfe\x80",  # coordinate 509 of 400
        struct.pack("<5I", 1, 0, 0, 0, 0) + b"\x00",  # no sign
        struct.pack("<5I", 1, 0, 0, 0, 0) + b"\x00\x40",  # a sign for nothing
        struct.pack("<5I", 1, 0, 0, 0, 0) + b"\x00\x80\x00",
        struct.pack("<4I", 0, 0, 0, 0),
    ],
    ids=range(10),
)
def test_a_sparse_message_that_does_not_add_up_is_rejected(content: bytes) -> None:
    frame = SPARSE[:26] + struct.pack("<Q", len(content)) + SPARSE[34:FIRST] + content
    assert reason(signed(frame), expected(TERNARY, 400)) == "shape"


def test_a_sparse_message_of_the_same_header_is_read() -> None:
    content = struct.pack("<5I", 3, 0, 0, 0, 1) + b"\xff\x02\x00\x07\x60"
    frame = SPARSE[:26] + struct.pack("<Q", len(content)) + SPARSE[34:FIRST] + content
    found = opened_frame(signed(frame), expected(TERNARY, 400))
    symbols = packing_of(TERNARY).unpack(found.payload, 400)  # type: ignore[union-attr]
    assert np.argwhere(symbols).tolist() == [[0, 257], [0, 258], [4, 7]]
    assert symbols[[0, 0, 4], [257, 258, 7]].tolist() == [-1, 1, 1]


@pytest.mark.parametrize("place", [14, 18, 22, 26, 30], ids=["round", "clients", "dimension", "length", "length"])
def test_a_huge_number_in_a_header_allocates_nothing(place: int) -> None:
    frame = signed(GOOD[:place] + b"\xff\xff\xff\x7f" + GOOD[place + 4 :])
    wanted = expected(SIGN)
    tracemalloc.start()
    reason(frame, wanted)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


# --- replies ------------------------------------------------------------------------------------------------------


@given(
    frames=st.lists(st.binary(max_size=30), max_size=4),
    failed=st.dictionaries(
        st.integers(0, 2**32 - 1), st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200), max_size=3
    ),
)
def test_replies_come_back(frames, failed):
    found, why = frames_of(reply_bytes(frames, failed))
    assert [bytes(frame) for frame in found] == frames
    assert why == failed


@given(content=st.binary(max_size=60))
def test_random_replies_are_rejected_or_hold_nothing_that_was_not_sent(content):
    try:
        frames, failed = frames_of(content)
    except Rejected:
        return
    assert 8 + sum(8 + len(frame) for frame in frames) + 5 * len(failed) <= len(content)


@given(data=st.data())
def test_a_reply_cut_short_is_rejected(data):
    content = reply_bytes([b"one", b"", b"three"], {7: "raised", 8: ""})
    with pytest.raises(Rejected, match="truncated"):
        frames_of(content[: data.draw(st.integers(0, len(content) - 1))])


@pytest.mark.parametrize("counts", [(2**32 - 1, 0), (0, 2**32 - 1), (2**32 - 1, 2**32 - 1)])
def test_a_reply_that_says_it_is_huge_is_rejected_at_once(counts: tuple[int, int]) -> None:
    with pytest.raises(Rejected, match="truncated"):
        frames_of(struct.pack("<II", *counts) + bytes(100))
    with pytest.raises(Rejected, match="truncated"):
        frames_of(struct.pack("<IIQ", 1, 0, 2**64 - 1) + bytes(100))


def test_reasons_of_failures_are_one_short_line_of_print() -> None:
    _, failed = frames_of(reply_bytes([], {1: "a\nb\x1b[31m" + "é" * 500}))
    assert failed[1].startswith("ab[31mé")
    assert failed[1].isprintable()
    assert len(failed[1]) <= 200


# --- widths -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "clients", "bits"),
    [
        (SIGN, 1, 1),
        (SIGN, 3, 2),
        (SIGN, 4, 3),
        (FIVE, 1437, 13),
        (TERNARY, 127, 8),
        (TERNARY, 128, 9),
        (DISCRETE, 1, 32),
        (DISCRETE, 4, 34),
    ],
)
def test_golden_masked_widths(mechanism: Any, clients: int, bits: int) -> None:
    assert masked_bits(mechanism, clients) == bits
    assert client_bytes(mechanism, 650, clients) == (HEADER + -(-650 * bits // 8), "exact")


def test_reals_have_no_masked_width() -> None:
    with pytest.raises(FedprivError, match="Gaussian sends reals"):
        masked_bits(GAUSSIAN, 3)


@pytest.mark.parametrize("mechanism", COUNTED, ids=named)
def test_the_masked_width_holds_every_sum_and_no_smaller_one_does(mechanism: Any) -> None:
    alphabet = mechanism.alphabet or range(-(2**31), 2**31)
    for clients in (1, 2, 7, 100, 1437):
        values = len(range(clients * alphabet[0], clients * alphabet[-1] + 1, alphabet.step))
        assert 2 ** (masked_bits(mechanism, clients) - 1) < values <= 2 ** masked_bits(mechanism, clients)


def test_what_is_expected_cannot_be_changed_on_the_way() -> None:
    wanted = expected(SIGN)
    with pytest.raises(AttributeError):
        wanted.round = 3  # type: ignore[misc]
    assert reason(GOOD, replace(wanted, round=8)) == "round"
