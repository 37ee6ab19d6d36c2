"""Records dealt out unevenly: each once, to everybody at least one, by the law that the study names."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pytest import approx

from clients.data.splits import Division, Uneven, divided_records
from fedpriv.errors import FedprivError
from fedpriv.population._apportioning import rounded, with_least
from fedpriv.population.dealing import Dealing, Dirichlet, Hands, LogNormalSizes, PowerSizes, Shards
from fedpriv.studies import file as study_file

LABELS = np.arange(20_000) % 10
KINDS = [Dirichlet(alpha=0.1), Dirichlet(alpha=5.0, least=2), Shards(each=3), PowerSizes(exponent=1.5),
         LogNormalSizes(deviation=1.0)]  # fmt: skip

seeds = st.integers(0, 2**63)
alphas = st.sampled_from([1e-320, 1e-100, 0.01, 0.3, 1.0, 30.0, 1e20, 1e308, np.inf])
leasts = st.integers(1, 3)
dealings = st.one_of(
    st.builds(Dirichlet, alpha=alphas, least=leasts),
    st.builds(Shards, each=st.integers(1, 4)),
    st.builds(PowerSizes, exponent=st.sampled_from([0.0, 1.0, 2.0, 500.0]), least=leasts),
    st.builds(LogNormalSizes, deviation=st.sampled_from([0.0, 0.5, 3.0, 1e100]), least=leasts),
)


def hands(found: Division) -> list[NDArray[np.int64]]:
    """Each client's records."""
    if not isinstance(found, Uneven):
        return list(found.of(np.arange(found.clients)))
    sizes = found.sizes(np.arange(found.clients)).tolist()
    return [found.of(np.array([client]), np.arange(size)[None])[0] for client, size in enumerate(sizes)]


def sizes_of(found: Division) -> NDArray[np.int64]:
    return np.array([len(hand) for hand in hands(found)])


def counts_of(dealing: Dealing, clients: int, each: int, seed: int) -> NDArray[np.int64]:
    """How many records of each label each client has (clients, labels)."""
    found = hands(divided_records(dealing, LABELS, clients, each, seed))
    return np.stack([np.bincount(LABELS[hand], minlength=10) for hand in found])


# --- laws of every dealing ----------------------------------------------------------------------------------------


@given(dealing=dealings, clients=st.integers(1, 12), each=st.integers(4, 30), spare=st.integers(0, 9), seed=seeds)
def test_every_record_of_the_deck_is_dealt_once_and_nobody_has_too_few(
    dealing: Any, clients: int, each: int, spare: int, seed: int
) -> None:
    labels = np.random.default_rng(each).integers(0, 6, clients * each + spare)
    found = divided_records(dealing, labels, clients, each, seed)
    dealt = np.concatenate(hands(found))
    assert found.disjoint
    assert len(np.unique(dealt)) == len(dealt) == clients * each
    assert 0 <= dealt.min() <= dealt.max() < len(labels)
    assert sizes_of(found).min() >= getattr(dealing, "least", each)


@pytest.mark.parametrize("dealing", KINDS, ids=str)
def test_what_a_client_has_does_not_depend_on_who_is_asked(dealing: Dealing) -> None:
    first, again = (divided_records(dealing, LABELS, 40, 30, 3) for _ in range(2))
    assert isinstance(first, Uneven) != isinstance(dealing, Shards)
    for hand, other in zip(hands(first)[::-1], hands(again)[::-1], strict=True):
        assert hand.tolist() == other.tolist()


@pytest.mark.parametrize("dealing", KINDS, ids=str)
def test_another_seed_deals_otherwise(dealing: Dealing) -> None:
    one, other = (hands(divided_records(dealing, LABELS, 40, 30, seed)) for seed in (1, 2))
    assert np.mean([len(np.intersect1d(*pair)) / len(pair[0]) for pair in zip(one, other, strict=True)]) < 0.1


def test_a_seed_deals_alike_in_every_process() -> None:
    script = f"""
import numpy as np
from fedpriv.population.dealing import *
labels = np.arange(60) % 4
for kind in {KINDS!r}:
    print([each.tolist() for each in kind.dealt(labels, 6, 5)])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    here = [[each.tolist() for each in kind.dealt(np.arange(60) % 4, 6, 5)] for kind in KINDS]
    assert run.stdout.splitlines() == [str(each) for each in here]


def test_dealings_are_the_ones_they_always_were() -> None:
    labels = np.arange(12) % 3
    found = [divided_records(kind, labels, 3, 4, 1) for kind in KINDS]
    assert [[hand.tolist() for hand in hands(each)] for each in found] == GOLDEN


# --- what each is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.05, 0.5, 5.0, 100.0])
def test_shares_of_a_label_have_the_moments_of_a_dirichlet_distribution(alpha: float) -> None:
    clients = 8
    counts = np.concatenate([counts_of(Dirichlet(alpha=alpha), clients, 2500, seed) for seed in range(20)], axis=1)
    shares = counts / 2000  # 200 labels of 2,000 records
    squares = (shares**2).sum(axis=0)  # E Σ share² = (α + 1) / (nα + 1)
    error = squares.std() / np.sqrt(len(squares))
    assert squares.mean() == approx((alpha + 1) / (clients * alpha + 1), abs=4.5 * error)
    spread = shares.std(axis=1) / np.sqrt(shares.shape[1])
    assert (np.abs(shares.mean(axis=1) - 1 / clients) < 4.5 * spread).all()


def test_shares_of_different_labels_and_of_different_clients_are_unrelated() -> None:
    shares = np.stack([counts_of(Dirichlet(alpha=0.5), 50, 400, seed) for seed in range(8)]).astype(float)
    for one, other in ((shares[:, :, :-1], shares[:, :, 1:]), (shares[:, :-1], shares[:, 1:])):
        correlation = np.corrcoef(one.reshape(-1), other.reshape(-1))[0, 1]
        assert abs(correlation + (one.shape[1] < 50) / 49) < 4.5 / np.sqrt(one.size)  # shares of a label add up to 1


def test_without_end_alpha_gives_each_client_the_same_of_every_label() -> None:
    for seed in range(5):
        counts = counts_of(Dirichlet(alpha=np.inf), 30, 666, seed)
        assert (np.abs(counts - counts.sum(axis=0) / 30) <= 1).all()


def test_a_small_alpha_leaves_a_client_few_labels_and_a_large_one_all() -> None:
    kinds = [(counts_of(Dirichlet(alpha=alpha), 40, 500, 1) > 0).sum(axis=1).mean() for alpha in (0.01, 0.3, 30.0)]
    assert kinds[0] < 1.5
    assert 3 < kinds[1] < 9
    assert kinds[2] == 10


def test_many_clients_and_a_small_alpha_go_together() -> None:
    found = sizes_of(divided_records(Dirichlet(alpha=0.01, least=5), LABELS, 2000, 10, 1))
    assert found.min() == 5
    assert found.max() > 50
    assert found.sum() == 20_000


@pytest.mark.parametrize("each", [1, 2, 5])
def test_a_clients_shards_bear_about_as_many_labels(each: int) -> None:
    kinds = (counts_of(Shards(each=each), 100, 200, 3) > 0).sum(axis=1)
    assert kinds.max() <= each  # 2,000 records a label: no shard lies across a border
    assert kinds.mean() > 0.6 * each


def test_two_shards_are_the_split_by_label() -> None:
    one, other = (divided_records(split, LABELS, 50, 9, 4) for split in (Shards(each=2), "by-label"))
    assert np.concatenate(hands(one)).tolist() == np.concatenate(hands(other)).tolist()


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_sizes_follow_a_power_of_the_clients_number(exponent: float) -> None:
    found = sizes_of(divided_records(PowerSizes(exponent=exponent), LABELS, 20, 1000, 1))
    weights = np.arange(1, 21) ** exponent
    assert (np.abs(found - 20_000 * weights / weights.sum()) <= 1).all()


def test_sizes_follow_a_lognormal_law() -> None:
    labels = np.zeros(600_000, np.int64)
    logarithms = np.log(sizes_of(divided_records(LogNormalSizes(deviation=0.7), labels, 2000, 300, 1)))
    assert logarithms.std() == approx(0.7, abs=4.5 * 0.7 / np.sqrt(2 * 2000))
    assert logarithms.mean() == approx(np.log(300) - 0.7**2 / 2, abs=4.5 * 0.7 / np.sqrt(2000))
    assert ((logarithms - logarithms.mean()) ** 3).mean() / 0.7**3 == approx(0, abs=4.5 * np.sqrt(6 / 2000))


@pytest.mark.parametrize("dealing", [PowerSizes(exponent=1.0), LogNormalSizes(deviation=1.0)], ids=str)
def test_records_of_uneven_sizes_are_drawn_whatever_their_label(dealing: Dealing) -> None:
    counts = counts_of(dealing, 20, 1000, 3)
    sizes = counts.sum(axis=1, keepdims=True)
    assert (np.abs(counts - sizes / 10) < 4.5 * np.sqrt(0.09 * sizes) + 1).all()


# --- rounding and the least ---------------------------------------------------------------------------------------


@given(
    weights=st.lists(st.floats(0, 1), min_size=1, max_size=30).filter(lambda found: sum(found) > 0),
    total=st.integers(0, 10**9),
    offset=st.floats(0, 1, exclude_max=True),
)
def test_rounded_parts_add_up_and_are_near_their_shares(weights: list[float], total: int, offset: float) -> None:
    shares = np.array(weights) / np.sum(weights)
    parts = rounded(shares, total, offset)
    assert parts.sum() == total
    assert (np.abs(parts - shares * total) <= 1 + 1e-6).all()
    assert (parts >= 0).all()


def test_parts_are_on_average_their_shares() -> None:
    shares = np.array([0.13, 0.02, 0.5, 0.35])
    parts = [rounded(shares, 7, offset) for offset in (np.arange(1000) + 0.5) / 1000]
    assert np.mean(parts, axis=0) == approx(7 * shares, abs=2e-3)


@given(
    counts=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=8),
    least=st.integers(0, 9),
)
def test_who_has_too_few_is_given_records_of_the_same_labels_by_who_has_more(
    counts: list[list[int]], least: int
) -> None:
    before = np.array(counts)
    least = min(least, before.sum() // len(before))
    after = with_least(before, least)
    assert (after.sum(axis=0) == before.sum(axis=0)).all()
    assert (after >= 0).all()
    assert (after.sum(axis=1) >= least).all()
    enough = before.sum(axis=1) >= least
    assert (after[enough] <= before[enough]).all()
    assert (after[~enough].sum(axis=1) == least).all()
    assert before.tolist() == counts


# --- in a study ---------------------------------------------------------------------------------------------------

STUDY = 'data.kind = "Digits"\nclients = { count = 20, records = 10 }\nrun.rounds = 1'


def study(*overrides: str) -> Any:
    return study_file.parsed_study(STUDY, overrides=overrides)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('{kind="Dirichlet", alpha=0.1}', Dirichlet(alpha=0.1)),
        ('{kind="Dirichlet", alpha=inf, least=3}', Dirichlet(alpha=np.inf, least=3)),
        ('{kind="Shards", each=4}', Shards(each=4)),
        ('{kind="PowerSizes", exponent=2}', PowerSizes(exponent=2)),
        ('{kind="LogNormalSizes", deviation=0.5}', LogNormalSizes(deviation=0.5)),
        ('"by-label"', "by-label"),
    ],
)
def test_a_split_is_a_word_or_a_table_and_survives_writing(table: str, expected: object) -> None:
    found = study(f"clients.split={table}")
    assert found.clients.division == expected
    again = study_file.parsed_study(study_file.study_text(found))
    assert again == found
    assert again.id == found.id != study().id


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ('clients.split={kind="Dirichlet", alpha=0}', "clients: Dirichlet: alpha must be positive, or inf for even"),
        ('clients.split={kind="Dirichlet", alpha=-1}', "alpha must be at least 0, got -1"),
        ('clients.split={kind="Dirichlet", alpha=nan}', "alpha must be at least 0, got nan"),
        ('clients.split={kind="Dirichlet", alpha="small"}', "alpha must be a number, got 'small'"),
        ('clients.split={kind="Dirichlet"}', "Dirichlet needs alpha; settings: alpha, least"),
        ('clients.split={kind="Dirichlet", alfa=1}', "has no setting 'alfa' .did you mean 'alpha'"),
        ('clients.split={kind="Dirichlet", alpha=1, least=0}', "least must be at least 1, got 0"),
        (
            'clients.split={kind="Dirichlet", alpha=1, least=10}',
            r"records must be larger than split.least = 10, got 10",
        ),
        ('clients.split={kind="Dirichelt", alpha=1}', "unknown split 'Dirichelt' .did you mean 'Dirichlet'"),
        ('clients.split={kind="Shards", each=0}', "each must be at least 1, got 0"),
        ('clients.split={kind="Shards", each=11}', "split.each must be at most clients.records = 10, got 11"),
        ('clients.split={kind="PowerSizes", exponent=-1}', "exponent must be at least 0"),
        ('clients.split={kind="PowerSizes", exponent=inf}', "exponent must be finite"),
        ('clients.split={kind="LogNormalSizes", deviation=nan}', "deviation must be finite"),
        ("clients.split={}", "clients.split needs kind"),
        ("clients.split=3", "split 3 is unknown; choices: iid"),
        ("privacy.trust={}", "trust {} is unknown"),
    ],
)
def test_a_split_that_cannot_be_is_refused_in_one_line(override: str, words: str) -> None:
    with pytest.raises(FedprivError, match=words) as error:
        study(override)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("places", "sizes"),
    [([0, 1, 1, 2], [2, 2]), ([0, 1, 2], [2, 2]), ([0, 1, 2, 3], [4, 0]), ([0, 1, 2, 3], [4])],
    ids=["twice", "too few", "nobody's", "of one client"],
)
def test_a_dealing_of_somebodys_own_is_checked(places: list[int], sizes: list[int]) -> None:
    class Own:
        def check(self, records: int) -> None:
            pass

        def dealt(self, labels: NDArray[np.int64], clients: int, seed: int) -> Hands:
            return Hands(np.array(places), np.array(sizes))

    with pytest.raises(FedprivError, match="Own must deal each record once at most, some to all 2 clients"):
        divided_records(Own(), LABELS[:4], 2, 2, 1)


def test_more_clients_than_records_are_refused() -> None:
    with pytest.raises(FedprivError, match=r"30 clients of 4 .* need 120 records, but there are 100"):
        divided_records(Dirichlet(alpha=1), LABELS[:100], 30, 4, 1)


GOLDEN = [
    [[9, 6, 0, 1, 7, 4, 10], [3], [2, 5, 8, 11]],
    [[9, 6, 1, 2], [0, 7, 4, 5], [3, 10, 8, 11]],
    [[1, 7, 8, 11], [2, 5, 4, 3], [9, 6, 0, 10]],
    [[2], [5, 9, 6, 0], [1, 7, 8, 3, 4, 11, 10]],
    [[2, 5, 9, 6, 0, 1], [7, 8], [3, 4, 11, 10]],
]
