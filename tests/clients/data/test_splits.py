"""Who has which records, and which of them it uses: the same whoever else is asked, in any order, in any process."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pytest import approx
from scipy.special import chdtrc

from clients.data.counter_hash import hashed_words
from clients.data.splits import Even, Uneven, divided_records
from clients.training._batches import drawn, drawn_unevenly, used, widths
from fedpriv.errors import FedprivError
from fedpriv.randomness.streams import stream

SPLITS = ("iid", "by-label", "pool")
LABELS = np.random.default_rng(0).integers(0, 10, 6000)

labels = st.integers(1, 200).map(lambda n: np.random.default_rng(n).integers(0, 7, n))
seeds = st.integers(0, 2**63)


@st.composite
def dealt(draw: st.DrawFn) -> tuple[NDArray[np.int64], int, int]:
    """Labels, and as many clients of as many records as they suffice for."""
    bearing = draw(labels)
    each = draw(st.integers(1, len(bearing)))
    return bearing, draw(st.integers(1, len(bearing) // each)), each


def everybody(division: Even) -> NDArray[np.int64]:
    return division.of(np.arange(division.clients))


# --- laws of every split ------------------------------------------------------------------------------------------


@given(case=dealt(), split=st.sampled_from(SPLITS), seed=seeds)
def test_every_client_has_as_many_records_as_asked(case: Any, split: str, seed: int) -> None:
    bearing, clients, each = case
    found = divided_records(split, bearing, clients, each, seed)
    records = everybody(found)
    assert (found.clients, found.records_each) == records.shape == (clients, each)
    assert records.dtype == np.int64
    assert records.min() >= 0
    assert records.max() < len(bearing)


@given(case=dealt(), split=st.sampled_from(["iid", "by-label"]), seed=seeds)
def test_no_record_is_dealt_twice(case: Any, split: str, seed: int) -> None:
    bearing, clients, each = case
    found = divided_records(split, bearing, clients, each, seed)
    assert found.disjoint
    assert len(np.unique(everybody(found))) == clients * each


@given(case=dealt(), split=st.sampled_from(SPLITS), seed=seeds, asked=st.lists(st.integers(0, 199), max_size=20))
def test_a_clients_records_do_not_depend_on_who_else_is_asked(
    case: Any, split: str, seed: int, asked: list[int]
) -> None:
    bearing, clients, each = case
    some = np.array([client % clients for client in asked], np.int64)
    found = divided_records(split, bearing, clients, each, seed).of(some)
    assert (found == everybody(divided_records(split, bearing, clients, each, seed))[some]).all()


@pytest.mark.parametrize("split", SPLITS)
def test_another_seed_divides_otherwise(split: str) -> None:
    one, other = (everybody(divided_records(split, LABELS, 100, 60, seed)) for seed in (1, 2))
    assert (one == other).mean() < 0.02


@pytest.mark.parametrize("split", SPLITS)
def test_a_seed_divides_alike_in_every_process(split: str) -> None:
    script = f"""
import numpy as np
from clients.training._batches import drawn
from clients.data.splits import divided_records
labels = np.arange(6000) % 10
print(divided_records({split!r}, labels, 30, 7, 5).of(np.array([29, 3])).tolist())
print(drawn(7, 3, 5, 2, np.array([29, 3]), 1).tolist())
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    here = divided_records(split, np.arange(6000) % 10, 30, 7, 5).of(np.array([29, 3])).tolist()
    assert run.stdout.split("\n")[:2] == [str(here), str(drawn(7, 3, 5, 2, np.array([29, 3]), 1).tolist())]


# --- what each split is -------------------------------------------------------------------------------------------


def test_iid_takes_every_record_where_they_are_just_enough() -> None:
    assert sorted(everybody(divided_records("iid", LABELS, 60, 100, 3)).reshape(-1)) == list(range(6000))


def test_iid_clients_see_every_label_in_its_proportion() -> None:
    mine = LABELS[everybody(divided_records("iid", LABELS, 20, 300, 3))]
    shares = np.bincount(LABELS) / 6000
    counts = np.stack([np.bincount(row, minlength=10) for row in mine])
    spread = np.sqrt(300 * shares * (1 - shares))
    assert (np.abs(counts - 300 * shares) < 4.5 * spread).all()


@pytest.mark.parametrize(("clients", "each"), [(100, 60), (40, 75), (50, 2), (90, 9)])
def test_by_label_clients_see_few_labels_and_not_all_the_same(clients: int, each: int) -> None:
    mine = LABELS[everybody(divided_records("by-label", LABELS, clients, each, 3))]
    kinds = [len(np.unique(row)) for row in mine]
    assert max(kinds) <= 4  # two shards, either of which may lie across a border
    assert np.mean(kinds) < 2.5
    assert len({tuple(np.unique(row)) for row in mine}) > 15  # of 55 pairs; one shard would give about ten kinds


def test_by_label_loses_no_label_where_not_all_records_are_needed() -> None:
    mine = LABELS[everybody(divided_records("by-label", LABELS, 100, 6, 3))]
    expected = 600 * np.bincount(LABELS) / 6000
    assert np.abs(np.bincount(mine.reshape(-1), minlength=10) - expected).max() < 4.5 * np.sqrt(expected.max())


def test_by_label_with_one_record_each_is_a_division_still() -> None:
    assert sorted(everybody(divided_records("by-label", LABELS[:50], 50, 1, 3)).reshape(-1)) == list(range(50))


def test_the_pool_is_drawn_from_evenly_and_with_replacement() -> None:
    records = everybody(divided_records("pool", LABELS[:1000], 2000, 50, 3))
    expected = 100.0
    chi = ((np.bincount(records.reshape(-1), minlength=1000) - expected) ** 2 / expected).sum()
    assert 1e-4 < chdtrc(999, chi) < 1 - 1e-4
    distinct = np.mean([len(np.unique(row)) for row in records])
    assert distinct == approx(1000 * (1 - (1 - 1 / 1000) ** 50), abs=4.5 * np.sqrt(1.2 / 2000))


def test_records_of_neighbouring_clients_in_the_pool_are_unrelated() -> None:
    records = everybody(divided_records("pool", LABELS, 4001, 20, 3)).astype(float)
    for one, other in ((records[:-1], records[1:]), (records[:, :-1], records[:, 1:])):
        correlation = np.corrcoef(one.reshape(-1), other.reshape(-1))[0, 1]
        assert abs(correlation) < 4.5 / np.sqrt(one.size)


def test_a_pool_may_have_more_clients_than_records_and_is_not_disjoint() -> None:
    found = divided_records("pool", LABELS[:3], 10, 5, 0)
    assert not found.disjoint
    assert set(everybody(found).reshape(-1)) == {0, 1, 2}


def test_100_000_clients_of_a_pool_take_half_a_second_and_little_memory() -> None:
    bearing = np.zeros(60_000, np.int64)
    everyone = np.arange(100_000)
    divided_records("pool", bearing, 10, 3, 1).of(np.arange(10))
    start = time.process_time()
    records = divided_records("pool", bearing, 100_000, 10, 1).of(everyone)
    assert time.process_time() - start < 0.5
    tracemalloc.start()
    divided_records("pool", bearing, 100_000, 10, 1).of(everyone)
    drawn(600, 4, 1, 1, everyone[:20_000])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < records.nbytes + 4_000_000  # the answer, and one block of work


def test_a_billion_clients_cost_nothing_until_they_are_asked() -> None:
    tracemalloc.start()
    found = divided_records("pool", LABELS, 10**9, 32, 1)
    found.of(np.array([10**9 - 1]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


# --- which records a step uses ------------------------------------------------------------------------------------


@given(each=st.integers(1, 70), batch=st.integers(0, 80), seed=seeds, round=st.integers(0, 99), step=st.integers(0, 9))
def test_a_step_uses_different_records_of_a_clients_own_in_rising_order(
    each: int, batch: int, seed: int, round: int, step: int
) -> None:
    places = drawn(each, batch, seed, round, np.arange(5), step)
    assert places.shape == (5, batch if 0 < batch < each else each)
    assert places.dtype == np.int64
    assert (np.diff(places, axis=1) > 0).all()
    assert places.min() >= 0
    assert places.max() < each


@pytest.mark.parametrize("batch", [0, 6, 7, 1000])
def test_no_batch_or_a_large_one_is_all_records_in_order(batch: int) -> None:
    assert drawn(6, batch, 1, 1, np.array([3, 9])).tolist() == [list(range(6))] * 2


@given(asked=st.lists(st.integers(0, 2**40), max_size=20), batch=st.integers(1, 29), seed=seeds)
def test_a_batch_does_not_depend_on_who_else_is_asked(asked: list[int], batch: int, seed: int) -> None:
    together = drawn(30, batch, seed, 4, np.array(asked, np.int64), 2)
    alone = [drawn(30, batch, seed, 4, np.array([client]), 2)[0].tolist() for client in asked]
    assert together.tolist() == alone


def test_blocks_do_not_show_in_batches_of_many_clients() -> None:
    everyone = np.arange(5000)
    forwards, backwards = drawn(100, 7, 1, 1, everyone), drawn(100, 7, 1, 1, everyone[::-1])
    assert (forwards == backwards[::-1]).all()


@pytest.mark.parametrize(
    "changed", [{"seed": 2}, {"round": 2}, {"step": 1}, {"clients": np.arange(500, 1000)}], ids=str
)
def test_another_seed_round_step_or_client_uses_other_records(changed: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"seed": 1, "round": 1, "step": 0, "clients": np.arange(500)}
    one, other = (drawn(20, 5, **facts) for facts in (usual, usual | changed))
    same = (one == other).all(1).mean()
    assert same < 0.01  # by chance, once in 15,504


def test_every_record_and_every_pair_is_used_equally_often() -> None:
    places = drawn(10, 3, 1, 1, np.arange(60_000))
    used = np.zeros((60_000, 10))
    np.put_along_axis(used, places, 1, axis=1)
    together = used.T @ used
    assert np.diag(together) == approx(np.full(10, 18_000), abs=4.5 * np.sqrt(60_000 * 0.3 * 0.7))
    pairs = together[np.triu_indices(10, 1)]
    assert pairs == approx(np.full(45, 4_000), abs=4.5 * np.sqrt(60_000 / 15 * 14 / 15))


def test_steps_of_a_client_are_unrelated() -> None:
    used = np.zeros((20_000, 10))
    np.put_along_axis(used, drawn(10, 3, 1, 1, np.arange(20_000), 0), 1, axis=1)
    again = np.take_along_axis(used, drawn(10, 3, 1, 1, np.arange(20_000), 1), axis=1).sum()
    assert again == approx(60_000 * 0.3, abs=4.5 * np.sqrt(60_000 * 0.3 * 0.7))


# --- the same of uneven clients -----------------------------------------------------------------------------------

sizes_of_some = st.lists(st.integers(1, 300), min_size=1, max_size=20)


@given(sizes=sizes_of_some, batch=st.integers(0, 40), seed=seeds, step=st.integers(0, 3))
def test_an_uneven_client_draws_what_it_would_draw_among_its_equals(
    sizes: list[int], batch: int, seed: int, step: int
) -> None:
    clients = np.arange(len(sizes)) * 7
    together = drawn_unevenly(np.array(sizes), batch, seed, 2, clients, step)
    for row, size, client in zip(together, sizes, clients, strict=True):
        alone = drawn(size, batch, seed, 2, np.array([client]), step)[0]
        assert row[: alone.size].tolist() == alone.tolist()
        assert not row[alone.size :].any()


@given(sizes=sizes_of_some, batch=st.integers(0, 40))
def test_a_width_holds_what_is_used_and_at_most_half_as_much_again(sizes: list[int], batch: int) -> None:
    own = np.array(sizes)
    found, needed = widths(own, batch), used(own, batch)
    assert (found >= needed).all()
    assert (found < 1.5 * needed).all()
    assert (found[own >= batch] == batch).all() or batch == 0
    assert drawn_unevenly(own, batch, 1, 1, np.arange(len(own))).shape == (len(own), found.max())


def test_few_widths_are_in_use() -> None:
    assert len(np.unique(widths(np.arange(1, 1000), 0))) == 20


@pytest.mark.parametrize("sizes", [[3], [3, 0], [3, -1], [3, 4, 5]], ids=str)
def test_sizes_that_do_not_fit_are_refused(sizes: list[int]) -> None:
    with pytest.raises(FedprivError, match="sizes must be at least 1, one for each of 2 clients"):
        drawn_unevenly(np.array(sizes), 2, 0, 0, np.arange(2))


def test_a_client_has_no_more_records_than_its_own() -> None:
    found = Uneven(np.array([5, 6, 7, 8]), np.array([0, 1, 4]))
    assert found.sizes(np.array([1, 0])).tolist() == [3, 1]
    assert found.of(np.array([1, 0]), np.array([[2, 0], [0, 0]])).tolist() == [[8, 6], [5, 5]]
    for places in ([[0], [1]], [[3], [0]], [[-1], [0]]):
        with pytest.raises(FedprivError, match="places must be from 0 to one below"):
            found.of(np.array([1, 0]), np.array(places))


# --- the hash -----------------------------------------------------------------------------------------------------


def splitmix64(state: int) -> int:
    """One output, in Python's own whole numbers."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
    return state ^ (state >> 31)


def test_the_reference_is_splitmix64() -> None:
    assert splitmix64(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF  # its authors' first output from zero


@given(key=st.integers(0, 2**64 - 1), client=st.integers(0, 2**63 - 1), count=st.integers(1, 5))
def test_words_are_splitmix64_of_splitmix64(key: int, client: int, count: int) -> None:
    golden = 0x9E3779B97F4A7C15
    start = splitmix64((key + (client + 1) * golden) % 2**64)
    expected = [splitmix64((start + place * golden) % 2**64) for place in range(1, count + 1)]
    assert hashed_words(key, np.array([client]), count)[0].tolist() == expected


@given(seed=seeds, size=st.integers(1, 2**12) | st.integers(2**31, 2**32), client=st.integers(0, 10**9 - 1))
def test_the_pool_is_the_hash_times_its_size(seed: int, size: int, client: int) -> None:
    key = int(stream(seed, "split pool").bit_generator.random_raw())
    words = hashed_words(key, np.array([client]), 4)[0].tolist()
    found = divided_records("pool", np.broadcast_to(np.int64(0), size), 10**9, 4, seed).of(np.array([client]))[0]
    assert found.tolist() == [word * size >> 64 for word in words]


def test_divisions_are_the_ones_they_always_were() -> None:
    bearing, some = np.arange(20) % 4, np.array([0, 3])
    assert {name: divided_records(name, bearing, 4, 5, 1).of(some).tolist() for name in SPLITS} == {
        "iid": [[2, 18, 17, 12, 5], [4, 11, 19, 15, 10]],
        "by-label": [[17, 5, 9, 19, 15], [12, 0, 8, 16, 4]],
        "pool": [[5, 0, 13, 18, 1], [6, 10, 17, 18, 19]],
    }
    assert drawn(8, 4, 1, 2, some, 3).tolist() == [[1, 3, 5, 7], [1, 3, 4, 5]]


# --- what is refused ----------------------------------------------------------------------------------------------

REFUSED = [
    (("iid", LABELS[:1437], 60, 30, 0), "60 clients of 30 .* need 1,800 records, but there are 1,437"),
    (
        ("by-label", LABELS[:1437], 1438, 1, 0),
        'need 1,438 records, but there are 1,437: ask for fewer, or split = "pool"',
    ),
    (("idd", LABELS, 1, 1, 0), "split 'idd' is unknown .did you mean 'iid'"),
    (("pool", LABELS, 0, 1, 0), "clients must be at least 1, got 0"),
    (("pool", LABELS, 1, 0, 0), "records_each must be at least 1, got 0"),
    (("pool", LABELS, 1.5, 1, 0), "clients must be a whole number, got 1.5"),
    (("pool", LABELS, 1, 1, -1), "seed must be at least 0, got -1"),
    (("pool", np.broadcast_to(np.int64(0), 2**32 + 1), 1, 1, 0), "records must be at most 2.32 = 4294967296"),
    (("pool", LABELS[:0], 1, 1, 0), "there are no records to divide"),
]


@pytest.mark.parametrize(("facts", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_a_division_that_cannot_be_is_refused(facts: Any, words: str) -> None:
    with pytest.raises(FedprivError, match=words):
        divided_records(*facts)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("asked", [[-1], [5], [0, 99], [0.5], [[0]], 3], ids=str)
def test_clients_that_there_are_not_have_no_records(split: str, asked: Any) -> None:
    with pytest.raises(FedprivError, match="clients"):
        divided_records(split, LABELS, 5, 2, 0).of(np.array(asked))


@pytest.mark.parametrize("split", SPLITS)
def test_nobody_has_nothing(split: str) -> None:
    assert divided_records(split, LABELS, 5, 2, 0).of(np.array([], np.int64)).shape == (0, 2)
    assert drawn(5, 2, 0, 0, np.array([], np.int64)).shape == (0, 2)


@pytest.mark.parametrize(
    "facts",
    [{"records_each": 0}, {"batch": -1}, {"batch": 1.5}, {"seed": -1}, {"round": -1}, {"step": -1}],
    ids=str,
)
def test_a_batch_that_cannot_be_is_refused(facts: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"records_each": 5, "batch": 2, "seed": 0, "round": 0, "step": 0, "clients": np.arange(2)}
    with pytest.raises(FedprivError, match=next(iter(facts))):
        drawn(**usual | facts)


def test_clients_with_negative_numbers_draw_nothing() -> None:
    with pytest.raises(FedprivError, match="clients are numbered from 0, got -1 to 1"):
        drawn(5, 2, 0, 0, np.array([-1, 1]))


def test_in_order_begins_again_past_the_last_record() -> None:
    labels = np.zeros(10, np.int64)
    dealt = divided_records("in-order", labels, clients=4, records_each=3, seed=1)
    assert dealt.of(np.array([0, 2, 3])).tolist() == [[0, 1, 2], [6, 7, 8], [9, 0, 1]]
    assert not dealt.disjoint
    assert divided_records("in-order", labels, clients=3, records_each=3, seed=1).disjoint
