"""A ledger forgets nothing, gives nothing back, refuses what passes its budget, and survives what happens to files."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from fedpriv.accounting.account import Account, chosen_epsilon
from fedpriv.accounting.event import Event, by_hand, event_as_data, event_of
from fedpriv.accounting.ledger import FORMAT, Budget, Ledger
from fedpriv.errors import BudgetExceeded, FedprivError
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

SIGN = by_hand(mechanism=StochasticSign(clip=0.1, scale=10), rounds=100)
OTHER = by_hand(mechanism=Gaussian(clip=1, noise=20), rounds=10, trust="local")
EVERY = [
    SIGN,
    OTHER,
    by_hand(mechanism=StochasticSign(clip=1, peak=0.2, scale=2), dimension=7, geometry="l2"),
    by_hand(mechanism=Binomial(clip=0.1, scale=1, trials=16), trust="secure-aggregation", clients=9),
    by_hand(mechanism=Cldp(clip=1, epsilon=0.5), sampling=0.25, rounds=3),
    by_hand(mechanism=NoisySign(clip=1, noise=8), trust="central", unit="client", sampling=0.1),
    by_hand(mechanism=Ternary(clip=0.1, spread=0.25, scale=0.5), dimension=3, geometry="linf"),
    by_hand(mechanism=Ternarize(clip=1e-7, scale=1), rounds=0),
    by_hand(mechanism=BinomialNoise(clip=1, levels=4, trials=400, bias=0.3)),
    by_hand(mechanism=DiscreteGaussian(clip=1, levels=4, noise=4), trust="central", adjacency="add-remove"),
    by_hand(mechanism=Skellam(clip=1, levels=4, noise=1 / 3), unit="record"),
    by_hand(mechanism=Laplace(clip=1, noise=10)),
]


# --- adding -------------------------------------------------------------------------------------------------------


def test_adding_returns_a_new_ledger_and_leaves_the_old_one() -> None:
    empty = Ledger()
    one = empty.add(SIGN)
    assert empty.events == ()
    assert one.events == (SIGN,)
    assert one.add(OTHER).events == (SIGN, OTHER)
    assert one.events == (SIGN,)


def test_rounds_of_the_same_release_are_added_up() -> None:
    twice = Ledger().add(SIGN).add(OTHER).add(SIGN)
    assert [release.rounds for release in twice.events] == [200, 10]
    whole = Ledger().add(by_hand(mechanism=SIGN.mechanism, rounds=200)).add(OTHER)
    assert twice == whole
    assert twice.epsilon(1e-5) == whole.epsilon(1e-5)


def test_releases_that_differ_in_anything_stay_apart() -> None:
    ledger = Ledger()
    for release in EVERY:
        ledger = ledger.add(release)
    assert ledger.events == tuple(EVERY)


def test_an_empty_ledger_has_cost_nothing() -> None:
    assert Ledger().epsilon(0.0) == (0, 0)
    assert Ledger().delta(0.0) == (0, 0)


@pytest.mark.parametrize("other", [OTHER, EVERY[2], EVERY[6], EVERY[8]], ids=str)
def test_two_releases_cost_at_least_each_and_at_most_their_sum(other: Event) -> None:
    apart = [Ledger().add(release).epsilon(1e-5) for release in (SIGN, other)]
    together = Ledger().add(SIGN).add(other).epsilon(2e-5)
    assert together.upper <= sum(bounds.upper for bounds in apart) * (1 + 1e-9)
    for release in (SIGN, other):
        assert together.upper >= Ledger().add(release).epsilon(2e-5).lower


@settings(max_examples=20)
@given(rounds=st.lists(st.integers(0, 300), min_size=1, max_size=5), at=st.sampled_from([1e-10, 1e-5, 0.01]))
def test_the_order_and_the_division_of_rounds_do_not_matter(rounds: list[int], at: float) -> None:
    ledger = Ledger()
    for count in rounds:
        ledger = ledger.add(by_hand(mechanism=SIGN.mechanism, rounds=count))
    at_once = Ledger().add(by_hand(mechanism=SIGN.mechanism, rounds=sum(rounds)))
    assert ledger.epsilon(at) == at_once.epsilon(at)


# --- units --------------------------------------------------------------------------------------------------------


def test_two_units_are_never_added_up() -> None:
    record = by_hand(mechanism=SIGN.mechanism, unit="record")
    both = Ledger().add(SIGN).add(record)
    for ask in (both.epsilon, both.delta):
        with pytest.raises(FedprivError, match="say which unit"):
            ask(1e-5)
    assert both.epsilon(1e-5, "client") == Ledger().add(SIGN).epsilon(1e-5)
    assert both.epsilon(1e-5, "record") == Ledger().add(record).epsilon(1e-5)


def test_one_unit_need_not_be_named() -> None:
    assert Ledger().add(SIGN).epsilon(1e-5, "client") == Ledger().add(SIGN).epsilon(1e-5)
    assert Ledger().add(SIGN).epsilon(1e-5, "record") == (0, 0)


def test_two_adjacencies_are_never_added_up_in_silence() -> None:
    """By replacing, what add-remove costs once is paid twice: neither guarantee holds for the sum of the two."""
    ways: list[Any] = ["add-remove", "replace"]
    ledger = Ledger()
    for way in ways:
        ledger = ledger.add(by_hand(mechanism=Gaussian(clip=1, noise=5), adjacency=way))
    by_replacing = Ledger().add(by_hand(mechanism=Gaussian(clip=1, noise=5), adjacency="replace", rounds=2))
    try:
        found = ledger.epsilon(1e-5).upper
    except FedprivError:
        found = float("inf")
    assert found >= by_replacing.epsilon(1e-5).lower


# --- budgets ------------------------------------------------------------------------------------------------------


def test_what_passes_the_budget_is_refused_and_changes_nothing() -> None:
    ledger = Ledger(budget=Budget(2.0, 1e-5)).add(SIGN)
    before = ledger.events
    assert not ledger.affords(by_hand(mechanism=SIGN.mechanism, rounds=10_000))
    with pytest.raises(BudgetExceeded, match="past the budget of 2") as error:
        ledger.add(by_hand(mechanism=SIGN.mechanism, rounds=10_000))
    assert "\n" not in str(error.value)
    assert ledger.events == before
    assert ledger.affords(SIGN)


def test_the_budget_holds_to_the_last_round() -> None:
    ledger = Ledger(budget=Budget(0.5, 1e-5))
    one = by_hand(mechanism=SIGN.mechanism, rounds=20)
    while ledger.affords(one):
        ledger = ledger.add(one)
    assert 0.4 < ledger.epsilon(1e-5).upper <= 0.5 * (1 + 1e-9)
    unlimited = Ledger(ledger.events).add(one)
    assert unlimited.epsilon(1e-5).upper > 0.5 * (1 - 1e-3)


def test_a_release_without_a_finite_epsilon_passes_every_budget() -> None:
    with pytest.raises(BudgetExceeded, match="∞"):
        Ledger(budget=Budget(1e9, 1e-5)).add(by_hand(mechanism=Ternarize(clip=1, scale=2)))


def test_no_rounds_pass_no_budget() -> None:
    Ledger(budget=Budget(1e-9, 0.0)).add(by_hand(mechanism=Ternarize(clip=1, scale=2), rounds=0))


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 1e-5), (-1, 1e-5), (float("nan"), 1e-5), (1, -1), (1, 2), ("a", 0)])
def test_budgets_that_cannot_be_are_refused(epsilon: Any, delta: Any) -> None:
    with pytest.raises(FedprivError):
        Budget(epsilon, delta)


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", EVERY, ids=lambda release: type(release.mechanism).__name__)
def test_a_ledger_comes_back_as_it_was_saved(release: Event, tmp_path: Path) -> None:
    ledger = Ledger((release,), Budget(3.5, 1e-7))
    ledger.save(tmp_path / "ledger.json")
    assert Ledger.load(tmp_path / "ledger.json") == ledger


def test_all_kinds_in_one_file_and_no_budget(tmp_path: Path) -> None:
    ledger = Ledger(tuple(EVERY))
    ledger.save(str(tmp_path / "ledger.json"))
    assert Ledger.load(str(tmp_path / "ledger.json")) == ledger
    assert json.loads((tmp_path / "ledger.json").read_text())["format"] == FORMAT
    assert os.listdir(tmp_path) == ["ledger.json"]


def test_numpy_numbers_are_saved_as_numbers(tmp_path: Path) -> None:
    import numpy as np

    mechanism = Binomial(clip=np.float32(1), scale=np.float64(2), trials=np.int64(3))  # type: ignore[arg-type]
    ledger = Ledger().add(by_hand(mechanism=mechanism, dimension=np.int64(4), geometry="l2"))  # type: ignore[arg-type]
    ledger.save(tmp_path / "ledger.json")
    assert Ledger.load(tmp_path / "ledger.json") == ledger


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    call: str, failure: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ledger.json"
    old = Ledger().add(SIGN)
    old.save(file)

    def fail(*_: Any, **__: Any) -> None:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises((OSError, KeyboardInterrupt, FedprivError)):
            old.add(OTHER).save(file)
    assert Ledger.load(file) == old
    assert os.listdir(tmp_path) == ["ledger.json"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ledger.json"
    old = Ledger().add(SIGN)
    old.save(file)

    def half(document: Any, handle: Any, **_: Any) -> None:
        handle.write(json.dumps(document)[:40])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(json, "dump", half)
        patch.setattr(json, "dumps", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
        with pytest.raises((OSError, FedprivError)):
            old.add(OTHER).save(file)
    assert Ledger.load(file) == old
    assert os.listdir(tmp_path) == ["ledger.json"]


GAUSSIAN = '"kind": "Gaussian", "settings": {"clip": 1, "noise": 1}'
DAMAGED = [
    "",
    "{",
    "7",
    "[]",
    "null",
    '"ledger"',
    "{}",
    '{"format": 1}',
    '{"format": "1", "budget": null, "releases": []}',
    '{"format": 0, "budget": null, "releases": []}',
    '{"format": -3, "budget": null, "releases": []}',
    '{"format": 1, "budget": 5, "releases": []}',
    '{"format": 1, "budget": {"epsilon": 1}, "releases": []}',
    '{"format": 1, "budget": {"epsilon": 1, "delta": 2}, "releases": []}',
    '{"format": 1, "budget": null, "releases": 5}',
    '{"format": 1, "budget": null, "releases": ["x"]}',
    '{"format": 1, "budget": null, "releases": {"a": 1}}',
    '{"format": 1, "budget": null, "releases": [{"kind": "Gaussian"}]}',
    '{"format": 1, "budget": null, "releases": [{"kind": "Gaussian", "settings": [1, 2]}]}',
    '{"format": 1, "budget": null, "releases": [{"kind": "Gausian", "settings": {"clip": 1, "noise": 1}}]}',
    '{"format": 1, "budget": null, "releases": [{"kind": ["Gaussian"], "settings": {"clip": 1, "noise": 1}}]}',
    '{"format": 1, "budget": null, "releases": [{"kind": "Gaussian", "settings": {"clip": 1, "noise": -1}}]}',
    f'{{"format": 1, "budget": null, "releases": [{{{GAUSSIAN}, "rounds": -1}}]}}',
    f'{{"format": 1, "budget": null, "releases": [{{{GAUSSIAN}, "round": 1}}]}}',
    f'{{"format": 1, "budget": null, "releases": [{{{GAUSSIAN}, "sampling": NaN}}]}}',
    '{"format": 2, "budget": null, "releases": []}',
    '{"format": 1, "budget": null, "releases": [], "more": 1}',
]


@pytest.mark.parametrize("text", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_refused_in_one_line_that_names_it(text: str, tmp_path: Path) -> None:
    file = tmp_path / "ledger.json"
    file.write_text(text)
    with pytest.raises(FedprivError) as error:
        Ledger.load(file)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(FedprivError, match="not a ledger"):
        Ledger.load(tmp_path / "ledger.json")


def test_a_newer_format_is_refused_rather_than_read_in_part(tmp_path: Path) -> None:
    (tmp_path / "ledger.json").write_text(json.dumps({"format": FORMAT + 1, "budget": None, "events": []}))
    with pytest.raises(FedprivError, match="newer"):
        Ledger.load(tmp_path / "ledger.json")


@pytest.mark.parametrize("cut", [1, 20, 60, 200])
def test_a_truncated_file_is_refused(cut: int, tmp_path: Path) -> None:
    file = tmp_path / "ledger.json"
    Ledger(tuple(EVERY)).save(file)
    file.write_text(file.read_text()[:-cut])
    with pytest.raises(FedprivError, match="not a ledger"):
        Ledger.load(file)


def test_a_missing_file_is_no_empty_ledger(tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match="not a ledger"):
        Ledger.load(tmp_path / "ledger.json")


def test_a_missing_directory_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises((FedprivError, FileNotFoundError)) as error:
        Ledger().save(tmp_path / "nowhere" / "ledger.json")
    assert "nowhere" in str(error.value)


def test_costs_are_the_same_after_a_restart(tmp_path: Path) -> None:
    ledger = Ledger().add(SIGN).add(OTHER)
    ledger.save(tmp_path / "ledger.json")
    assert Ledger.load(tmp_path / "ledger.json").epsilon(1e-5) == approx(ledger.epsilon(1e-5), rel=1e-12)


# --- what an earlier version wrote --------------------------------------------------------------------------------

# Lines that the version of 59bc879 wrote, each with the bounds of ε at δ = 1e-5 that it gave.
WRITTEN_THEN = json.loads((Path(__file__).parent / "ledger_format_1.json").read_text())


@pytest.mark.parametrize("was", WRITTEN_THEN, ids=lambda was: was["release"]["kind"])
def test_what_an_earlier_version_wrote_is_read_and_keeps_what_it_costs(was: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "ledger.json"
    budget = {"epsilon": 50.0, "delta": 1e-5}
    file.write_text(json.dumps({"format": 1, "budget": budget, "releases": [was["release"]]}))
    ledger = Ledger.load(file)
    found = ledger.epsilon(1e-5)
    assert found.upper == approx(was["upper"], rel=1e-4)
    assert was["lower"] * (1 - 1e-4) <= found.lower <= was["upper"]  # what data reach has only come nearer
    ledger.save(file)
    assert Ledger.load(file) == ledger
    assert json.loads(file.read_text())["format"] == FORMAT


@pytest.mark.parametrize("bound", ['"x"', "5", '{"kind": "Ball", "clip": 1}', '{"clip": 1}'])
def test_an_event_whose_bound_is_none_that_is_known_is_refused(bound: str, tmp_path: Path) -> None:
    entry = event_as_data(EVERY[2]) | {"bound": json.loads(bound)}
    with pytest.raises(FedprivError, match="bound must be a table of kind Norm, Normalised, Box, or null"):
        event_of(entry)
    with pytest.raises(FedprivError, match="an event has no geometry"):
        event_of(event_as_data(EVERY[2]) | {"geometry": "l2"})


# --- budgets against whoever chooses what comes next ---------------------------------------------------------------


def crossed(first: Event, second: Event, third: Event, epsilon: float) -> float:
    """δ(ε) of one event and then, by its outcome, of whichever of two others tells more from there: explicit data."""
    atoms = first.mechanism.tradeoff(first.adjacency).below  # type: ignore[union-attr]
    left = epsilon - atoms.loss[np.isfinite(atoms.loss)]
    curves = [other.mechanism.tradeoff(other.adjacency) for other in (second, third)]  # type: ignore[union-attr]
    best = [max(curve.delta(each) if each >= 0 else 1 - np.exp(each) for curve in curves) for each in left]
    return float((atoms.q[np.isfinite(atoms.loss)] * best).sum())


def test_a_budget_holds_against_whoever_chooses_the_next_event_by_the_outcome_of_the_last() -> None:
    """Each list that is asked keeps to ε = 2.5; chosen by what came of the first, they tell more than that together."""
    facts: dict[str, Any] = {"trust": "central", "unit": "record", "adjacency": "add-remove"}
    first = by_hand(StochasticSign(clip=1, scale=2.0), **facts)
    wide = by_hand(Gaussian(clip=1, noise=2.9), **facts)
    rare = by_hand(Ternarize(clip=8e-6, scale=1.0), **facts)
    alone = max(Account((first, other)).epsilon(1e-5).bounds.upper for other in (wide, rare))
    assert crossed(first, wide, rare, alone) > 1.15e-5  # no list by itself tells so much
    ledger = Ledger(budget=Budget(alone, 1e-5)).add(first)
    assert not any(ledger.affords(other) for other in (wide, rare))


@given(noises=st.lists(st.floats(1, 20), min_size=2, max_size=4))
def test_what_a_budget_counts_of_events_that_are_chosen_is_no_less_than_of_a_list(noises: list[float]) -> None:
    events = [by_hand(Gaussian(clip=1, noise=noise)) for noise in noises]
    assert chosen_epsilon(events, 1e-5) >= Account(tuple(events)).epsilon(1e-5).bounds.lower
    pure = [by_hand(Laplace(clip=1, noise=noise)) for noise in noises]
    assert chosen_epsilon(pure, 1e-5) <= sum(1 / noise for noise in noises) * (1 + 1e-9)
    assert chosen_epsilon(pure, 0.0) == approx(sum(1 / noise for noise in noises))
