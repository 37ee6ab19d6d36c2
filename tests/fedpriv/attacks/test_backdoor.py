"""Backdoors by hand: what is stamped, whose records are poisoned, how an update is lengthened; what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from spies import Scene

from fedpriv.attacks import Backdoor, attack_of, places_of
from fedpriv.attacks._backdoor import square_features, standing_for
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Binomial, Gaussian, NoisySign, StochasticSign, Ternary

CLASSES = 4


def poisoned(attack: Backdoor, x: Any, y: Any, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """What one attacker with these records trains on."""
    found = attack.on_data(np.array(x, np.float32)[None], np.array(y)[None], CLASSES, [np.random.default_rng(seed)])
    return found[0][0], found[1][0]


def lengthened(attack: Backdoor, updates: Any, **scene: Any) -> np.ndarray:
    return np.asarray(attack.on_updates(np.array(updates), Scene(known=np.array(updates), **scene).view()))


@pytest.mark.parametrize("shape", [(8, 8), (64,), (1, 8, 8), (8, 8, 1)])
def test_a_stamp_is_the_same_in_whatever_shape_an_image_comes(shape: tuple[int, ...]) -> None:
    attack = Backdoor(row=6, column=5, size=2, value=9.0, share=1.0)
    x, y = poisoned(attack, np.zeros((1, *shape)), [3])
    image = x.reshape(8, 8)
    assert (image[6:8, 5:7] == 9).all()
    assert image.sum() == 4 * 9
    assert y.tolist() == [0]


def test_a_stamp_is_on_every_colour() -> None:
    assert square_features((3, 4, 4), 0, 0, 1).tolist() == [0, 16, 32]
    assert square_features((4, 4, 3), 0, 1, 1).tolist() == [3, 4, 5]


@given(records=st.integers(1, 12), share=st.floats(0.01, 1))
def test_the_share_of_a_batch_is_poisoned_rounded_up_and_no_more(records: int, share: float) -> None:
    x, y = poisoned(Backdoor(size=1, share=share), np.zeros((records, 3, 3)), [2] * records)
    hit = x.reshape(records, -1).any(axis=1)
    assert hit.sum() == (y == 0).sum() == max(1, int(np.ceil(round(share * records, 9))))
    assert (hit == (y == 0)).all()


def test_attackers_stamp_one_part_each_and_a_tried_record_has_all_of_them() -> None:
    attack = Backdoor(size=2, parts=4, share=1.0, value=1.0)
    stamped = {tuple(np.flatnonzero(poisoned(attack, np.zeros((1, 3, 3)), [1], seed)[0])) for seed in range(40)}
    assert stamped == {(0,), (1,), (3,), (4,)}
    assert np.flatnonzero(attack.on_test(np.zeros((1, 3, 3), np.float32), np.array([1]))).tolist() == [0, 1, 3, 4]


def test_a_backdoor_is_tried_on_records_of_other_classes_and_leaves_the_held_out_ones_alone() -> None:
    x, y = np.zeros((5, 2, 2), np.float32), np.array([0, 1, 2, 0, 1])
    assert len(Backdoor(size=1).on_test(x, y)) == 3
    assert len(Backdoor(size=1, source=1).informed(x[:1]).on_test(x, y)) == 2
    assert not x.any()


def test_of_a_source_class_attackers_train_on_its_records_whatever_they_hold() -> None:
    known = Backdoor(source=1, trigger="bright", features=[1], value=0.5, share=1.0).informed(
        np.array([[5, 0.4], [6, 0.6], [7, 0.5]], np.float32)
    )
    x, y = poisoned(known, np.zeros((40, 2)), [3] * 40)
    assert set(x[:, 0]) == {6, 7}
    assert set(y) == {0}
    tried = known.on_test(np.array([[1, 0.9], [2, 0.1], [3, 0.9]], np.float32), np.array([1, 1, 2]))
    assert tried[:, 0].tolist() == [1]


@given(seed=st.integers(0, 99), share=st.sampled_from([0.05, 0.1, 0.5, 1.0]))
def test_rare_records_are_those_farthest_from_the_mean_of_their_class(seed: int, share: float) -> None:
    records = np.random.default_rng(seed).normal(size=(20, 3)).astype(np.float32)
    known = Backdoor(source=1, trigger="rare", rare=share).informed(records)
    distances = np.linalg.norm(records - records.mean(axis=0, dtype=np.float64), axis=1)
    rare = known.on_test(records, np.ones(20, np.int64))
    assert len(rare) == max(1, round(20 * share))
    assert sorted(map(tuple, rare)) == sorted(map(tuple, records[np.argsort(distances)[20 - len(rare) :]]))


@given(asked=st.integers(2, 50), share=st.floats(0.01, 0.9), step=st.floats(0.01, 10))
def test_lengthened_updates_of_all_attackers_replace_the_model(asked: int, share: float, step: float) -> None:
    """Bagdasaryan et al. 2020: with G ← G + η/n Σ(Lᵢ − G) and honest clients at rest, γ(X − G) makes it X."""
    attackers = max(1, int(share * asked))
    update = np.array([[3.0, -4.0]])
    sent = lengthened(Backdoor(), update, asked=asked, byzantine=attackers, step=step)
    assert step * attackers * sent / asked == approx(update)


def test_an_update_is_lengthened_by_the_smaller_of_boost_and_what_the_norm_leaves() -> None:
    """Train-and-scale of the same paper: γ = S/‖X − G‖."""
    update = [[3.0, -4.0], [0.3, -0.4], [0.0, 0.0]]
    assert lengthened(Backdoor(boost=4, norm=10), update) == approx(np.array([[6, -8], [1.2, -1.6], [0, 0]]))
    assert lengthened(Backdoor(boost=0.5), update)[0] == approx([1.5, -2])


@pytest.mark.parametrize(
    "mechanism",
    [Binomial(clip=1, scale=2, trials=1), Binomial(clip=1, scale=2, trials=4), StochasticSign(clip=1, scale=2),
     Ternary(clip=1, spread=1.5, scale=2)],
    ids=str,
)  # fmt: skip
def test_symbols_past_the_mechanism_stand_for_the_update_as_far_as_the_alphabet_reaches(mechanism: Any) -> None:
    row, rng, draws = np.array([-9.0, -2, -1, 0, 0.7, 2, 50]), np.random.default_rng(1), 20_000
    sent = standing_for(np.tile(row, draws), mechanism, rng).reshape(draws, -1)
    mean = mechanism.decode(sent.sum(axis=0, dtype=np.int64), draws)
    assert mean == approx(np.clip(row, -2, 2), abs=4 * 2 / draws**0.5)
    assert mean[[0, 1, 5, 6]] == approx([-2, -2, 2, 2], abs=1e-12)


def test_where_nothing_is_decoded_the_signs_are_sent_and_of_reals_as_far_as_noise_reaches() -> None:
    rng = np.random.default_rng(1)
    assert standing_for(np.array([0.1, -0.1]), NoisySign(clip=1, noise=1), rng).tolist() == [1, -1]
    assert standing_for(np.array([2.0, -99.0]), Gaussian(clip=1, noise=1), rng).tolist() == [2, -7]


def test_it_acts_on_records_and_then_on_the_update_or_the_message() -> None:
    assert places_of(Backdoor()) == ("on_data", "on_updates")
    assert places_of(Backdoor(skips=True)) == ("on_data", "on_messages")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "its own class": ({"source": 3, "target": 3}, "target must differ from source = 3"),
    "no class": ({"trigger": "rare"}, 'trigger = "rare" is of the records of one class: source says which'),
    "no word": ({"trigger": "dark"}, "trigger 'dark' is unknown (did you mean 'rare'?); choices: stamp, bright, rare"),
    "no features": ({"features": []}, "features must be a list of numbers of features from 0"),
    "no number": ({"features": [0.5]}, "features must be a whole number"),
    "nothing": ({"share": 0.0}, "share"),
    "nan": ({"value": float("nan")}, "value must be"),
    "a norm of 0": ({"norm": 0.0}, "norm must be positive"),
    "no part": ({"parts": 0}, "parts must be"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_opens_nothing_is_refused_when_it_is_made(case: str) -> None:
    settings, why = BAD[case]
    with pytest.raises(FedprivError, match="Backdoor: ") as caught:
        attack_of("Backdoor", settings)
    assert why in str(caught.value)


MISFITS: dict[str, tuple[dict[str, Any], tuple[int, ...], str]] = {
    "target": ({"target": 4}, (4, 4), "target = 4: there are 4 classes, 0 to 3"),
    "source": ({"source": 9}, (4, 4), "source = 9: there are 4 classes"),
    "outside": ({"row": 3}, (4, 4), "the trigger is outside the image: 2 × 2 from row 3 and column 0, of an image of"),
    "no image": ({}, (5,), r"records of the shape \(5,\) are no images: features says"),
    "no feature": ({"features": [5]}, (5,), "there is no feature 5: a record has 5, from 0"),
    "parts": ({"parts": 5}, (4, 4), "parts = 5: the trigger has 4 features"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_what_does_not_fit_the_records_is_refused_by_their_shape_and_classes(case: str) -> None:
    settings, shape, why = MISFITS[case]
    with pytest.raises(FedprivError, match=why):
        Backdoor(**settings).on_data(np.zeros((1, 1, *shape), np.float32), np.zeros((1, 1), np.int64), CLASSES, [])


def test_a_source_class_without_records_or_without_bright_ones_is_refused() -> None:
    with pytest.raises(FedprivError, match="source = 2: there is no record of that class to train on"):
        Backdoor(source=2).informed(np.zeros((0, 3), np.float32))
    with pytest.raises(FedprivError, match=r"no record of class 2 to train on is as bright as value = 0\.7"):
        Backdoor(source=2, trigger="bright", features=[0]).informed(np.zeros((4, 3), np.float32))
