"""All attacks, one table, and what holds for each of them with each knowledge it can work with."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spies import Scene
from tried import others

from fedpriv import attacks
from fedpriv.attacks import Backdoor, View, attack_of, places_of
from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    Cldp,
    DiscreteGaussian,
    Gaussian,
    NoisySign,
    Skellam,
    StochasticSign,
    Ternarize,
    Ternary,
)
from fedpriv.packed.symbols import packing_of

NEEDED = {"TargetedFlip": {"source": 1, "target": 2}}
VARIANTS = {
    "RandomNoise": {"added": True}, "BitFlip": {"share": 0.5}, "NonFinite": {"value": "inf"},
    "MinMax": {"away": "mean"}, "MinSum": {"away": "sign"}, "OutputPoisoning": {"direction": "own"},
    "VoteAgainst": {"probability": 0.5}, "OmniscientVote": {"stealthy": True}, "Backdoor": {"skips": True, "parts": 2},
}  # fmt: skip
ATTACKS = [attack_of(kind, NEEDED.get(kind, {})) for kind in attacks.ATTACKS] + [
    attack_of(*each) for each in VARIANTS.items()
]
MECHANISMS: list[Any] = [
    Binomial(clip=1, scale=2, trials=1), Binomial(clip=1, scale=2, trials=4), StochasticSign(clip=1, scale=2),
    Cldp(clip=1, epsilon=1), NoisySign(clip=1, noise=1), Ternary(clip=1, spread=2, scale=4), Ternarize(clip=1, scale=2),
    BinomialNoise(clip=1, levels=4, trials=20), DiscreteGaussian(clip=1, levels=7, noise=1),
    Skellam(clip=1, levels=7, noise=1), Gaussian(clip=1, noise=1),
]  # fmt: skip
MECHANISMS += others(MECHANISMS)
DIFFER = {"RandomNoise", "FangTrim", "BitFlip", "VoteAgainst", "FeatureNoise"}  # by a generator of their own


def table(method: str) -> list[Any]:
    """The attacks with that method, each with every knowledge."""
    return [
        pytest.param(attack, level, id=f"{attack}-{level}")
        for attack in ATTACKS
        if method in places_of(attack)
        for level in type(attack).knowledge  # type: ignore[attr-defined]
    ]


UPDATES, MESSAGES, DATA = (table(method) for method in ("on_updates", "on_messages", "on_data"))
Size = tuple[int, int]
seeds = st.integers(0, 2**32)
sizes = st.tuples(st.integers(1, 7), st.integers(1, 6))


def rows_of(seed: int, size: Size) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(0.1, 0.3, size).astype(np.float32)
    rows.setflags(write=False)
    return rows


def view(
    rows: np.ndarray, level: str, mechanism: Any = MECHANISMS[0], seeds: tuple[int, ...] = (1,), failed: int = 0
) -> View:
    """One of three attackers who know these rows; a chain that takes the median of all."""

    def path(row: np.ndarray) -> np.ndarray:
        return np.asarray(np.median(np.concatenate([rows, np.repeat(row[None], 3, axis=0)]), axis=0))

    messages = np.stack(
        [mechanism.encode(np.clip(row, -0.5, 0.5), np.random.default_rng(i)) for i, row in enumerate(rows)]
    )
    return Scene(
        known=rows, knowledge=level, asked=len(rows) + 3 + failed, mechanism=mechanism, messages=messages, path=path,
        seeds=seeds, progress=np.arange(rows.shape[1], dtype=float),
    ).view()  # fmt: skip


def test_every_kind_is_in_one_table_and_says_what_it_can_know() -> None:
    for attack in ATTACKS:
        assert len(places_of(attack)) == 1 + isinstance(attack, Backdoor)
        assert type(attack).knowledge  # type: ignore[attr-defined]
        assert "knowledge" not in [field.name for field in fields(attack)]  # type: ignore[arg-type]
    assert {type(attack).__name__ for attack in ATTACKS} == set(attacks.ATTACKS)


@pytest.mark.parametrize(("attack", "level"), UPDATES)
@given(seed=seeds, size=sizes)
def test_updates_keep_their_shape_are_finite_and_repeat(attack: Any, level: str, seed: int, size: Size) -> None:
    rows, own = rows_of(seed, size), rows_of(seed + 1, (1, size[1]))
    before = rows.tobytes(), own.tobytes()
    with np.errstate(over="ignore"):
        found = np.asarray(attack.on_updates(own, view(rows, level)))
        again = np.asarray(attack.on_updates(own, view(rows, level)))
    assert found.shape == own.shape
    assert np.isfinite(found).all() == (type(attack).__name__ != "NonFinite")
    assert found.tobytes() == again.tobytes()
    assert (rows.tobytes(), own.tobytes()) == before


@pytest.mark.parametrize(("attack", "level"), UPDATES)
@given(size=sizes)
def test_updates_of_zeros_make_nothing_that_is_not_finite(attack: Any, level: str, size: Size) -> None:
    rows = np.zeros(size, np.float32)
    found = np.asarray(attack.on_updates(rows[:1], view(rows, level)))
    assert np.isfinite(found).all() == (type(attack).__name__ != "NonFinite")


@pytest.mark.parametrize(("attack", "level"), UPDATES)
def test_honest_clients_that_fail_break_no_attack(attack: Any, level: str) -> None:
    for count in (1, 2, 4):
        rows = rows_of(8, (count, 3))
        found = np.asarray(attack.on_updates(rows[:1], view(rows, level, failed=40)))
        assert np.isfinite(found).all() == (type(attack).__name__ != "NonFinite")


@pytest.mark.parametrize(("attack", "level"), [each for each in UPDATES if each.values[1] == "own"])
@given(seed=seeds, size=sizes)
def test_who_knows_itself_alone_does_not_depend_on_others(attack: Any, level: str, seed: int, size: Size) -> None:
    rows = rows_of(seed, size)
    together = np.asarray(attack.on_updates(rows, view(rows, level, seeds=tuple(range(len(rows))))))
    for place in range(len(rows)):
        own = rows[place : place + 1]
        alone = np.asarray(attack.on_updates(own, view(own, level, seeds=(place,), failed=len(rows) - 1)))
        assert alone.astype(np.float32).tobytes() == together[place : place + 1].astype(np.float32).tobytes()


@pytest.mark.parametrize(("attack", "level"), UPDATES)
def test_attackers_differ_where_they_draw_and_nowhere_else(attack: Any, level: str) -> None:
    rows, own = rows_of(3, (5, 40)), np.repeat(rows_of(4, (1, 40)), 2, axis=0)
    first, second = np.asarray(attack.on_updates(own, view(rows, level, seeds=(1, 2))))
    whole = getattr(attack, "share", None) == 1  # all coordinates: nothing is drawn
    differ = type(attack).__name__ in DIFFER and not whole
    assert np.array_equal(first, second, equal_nan=True) == (not differ)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
@pytest.mark.parametrize(("attack", "level"), MESSAGES)
def test_messages_are_of_the_alphabet_whole_rows_and_repeat(attack: Any, level: str, mechanism: Any) -> None:
    for size in ((1, 1), (4, 9)):
        rows = rows_of(5, size)
        found = attack.on_messages(rows[:1], view(rows, level, mechanism))
        assert found.shape == (1, size[1])
        form = packing_of(mechanism)
        payload = form.pack(found)
        assert form.valid(payload, size[1]).all()
        assert (form.unpack(payload, size[1]) == found).all()
        assert (attack.on_messages(rows[:1], view(rows, level, mechanism)) == found).all()


@pytest.mark.parametrize(("attack", "level"), DATA)
@given(seed=seeds, size=sizes)
def test_data_keep_their_shape_and_classes_and_nobody_elses_change(
    attack: Any, level: str, seed: int, size: Size
) -> None:
    attackers, batch = size
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(attackers, batch, 2, 3)).astype(np.float32), rng.integers(0, 3, (attackers, batch))
    before = x.tobytes(), y.tobytes()
    changed, labels = attack.on_data(x, y, 3, [np.random.default_rng(i) for i in range(attackers)])
    assert (changed.shape, changed.dtype, labels.shape) == (x.shape, np.float32, y.shape)
    assert ((labels >= 0) & (labels < 3)).all()
    assert (x.tobytes(), y.tobytes()) == before
    for place in range(attackers):
        own = slice(place, place + 1)
        alone = attack.on_data(x[own], y[own], 3, [np.random.default_rng(place)])
        assert (alone[0] == changed[own]).all()
        assert (alone[1] == labels[own]).all()


def test_attackers_with_the_same_records_and_noise_of_their_own_differ() -> None:
    x, y = np.zeros((2, 1, 4), np.float32), np.zeros((2, 1), np.int64)
    noisy, _ = attack_of("FeatureNoise", {}).on_data(x, y, 2, [np.random.default_rng(i) for i in (1, 2)])  # type: ignore[attr-defined]
    assert (noisy[0] != noisy[1]).all()
