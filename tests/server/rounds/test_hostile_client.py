"""A malicious client against the real server, a few hundred messages of each kind (`tests/fuzz.py` is for many)."""

from __future__ import annotations

import struct
import time
from collections import Counter
from random import Random

import fuzz
import fuzz_masked
import numpy as np
import pytest
from flwr.app import Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.flower.masking import PHASES
from fedpriv import wire
from server.nodes import _reason
from server.rounds.driver import Answer
from server.rounds.inbox import Inbox


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages inside its runtime only."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.mark.parametrize("name", fuzz.STUDIES)
def test_whatever_a_client_sends_the_server_goes_on_and_the_others_count(name: str) -> None:
    found = fuzz.Found(Counter())
    fuzz.attacked(name, Random(name), 150, found)
    assert sum(found.outcomes.values()) == 150
    assert found.outcomes["valid"]  # some of it may be
    assert len(found.outcomes) > 6  # and there are many ways in which it is not


@pytest.mark.parametrize("phase", PHASES)
def test_whatever_a_node_says_in_a_masked_sum_the_sum_is_exact_or_there_is_none(phase: str) -> None:
    found = Counter[str]()
    fuzz_masked.attacked(Random(phase), 40, phase, found)
    assert sum(found.values()) == 40
    assert found["valid"]
    assert len(found) > 1


@pytest.mark.parametrize("phase", PHASES)
def test_whatever_a_server_says_in_a_masked_sum_the_node_answers_once_or_refuses(phase: str) -> None:
    found = Counter[str]()
    fuzz_masked.misled(Random(phase), 120, phase, found)
    assert sum(found.values()) == 120
    assert found["answered, as nothing was wrong"]
    assert found["refused: FedprivError"]


@settings(max_examples=50)
@given(content=st.binary(max_size=300), name=st.sampled_from(list(fuzz.STUDIES)), cut=st.integers(0, 400))
def test_bytes_at_random_and_bytes_put_into_an_honest_reply_are_never_more_than_rejected(
    content: bytes, name: str, cut: int
) -> None:
    at = fuzz.scene(name)
    for sent in (content, at.mine[0][:cut] + content, at.mine[0][:cut] + content + at.mine[0][cut + len(content) :]):
        inbox = Inbox(at.study, at.dimension, 1, np.arange(12))
        inbox.take(Answer(np.arange(6, 12), at.others[0]))
        inbox.take(Answer(np.arange(6), sent))
        fuzz.outcome(inbox)


def test_a_reply_of_a_million_empty_frames_costs_neither_memory_nor_time() -> None:
    at = fuzz.scene("bits")
    for count, failures in ((1_000_000, 0), (0, 1_000_000)):
        bomb = struct.pack("<II", count, failures) + bytes(8 * count + 5 * failures)
        inbox, begun = Inbox(at.study, at.dimension, 1, np.arange(12)), time.process_time()
        inbox.take(Answer(np.arange(6), bomb))
        assert inbox.rejected == {"oversized": 1}
        assert time.process_time() - begun < 0.05


def test_a_cohorts_own_reply_is_within_what_a_reply_may_hold() -> None:
    for name in fuzz.STUDIES:
        frames, failed = wire.frames_of(fuzz.scene(name).mine[0], 6)
        assert frames
        assert not failed


def test_a_clients_error_reaches_log_and_records_as_one_short_line_of_print() -> None:
    asked = Message(RecordDict(), 1, "train")
    for words in ("x" * 10**6, "\x1b[2J\x07gone", "one\ntwo\x00", ""):
        for code in (0, 2):
            why = _reason(Message(Error(code, words), reply_to=asked))
            assert why.isprintable()
            assert len(why) < 320
