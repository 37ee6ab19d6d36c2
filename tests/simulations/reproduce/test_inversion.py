"""Gradient inversion: what is exact is exact, what tells nothing gives the mean, and the page says what numbers do."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pytest import approx

from clients.data import Digits
from clients.models import MODELS as NETS
from fedpriv.channel import Channel
from fedpriv.mechanisms.plain import Plain
from fedpriv.mechanisms.response import Sign
from simulations.command_line import main
from simulations.figures.intervals import Interval
from simulations.reproduce.inversion import page
from simulations.reproduce.inversion._attacks import Attacker, learnt_map
from simulations.reproduce.inversion._measures import (
    mean_over_records,
    share_taken,
    signal_to_noise,
    similarity,
    squared_errors,
)
from simulations.reproduce.inversion._ways import Way, base_study, epsilon_words, sent_ways
from simulations.reproduce.inversion.found import CLASS, NOTHING, Found, Outcome, Shown

Matrix = NDArray[Any]
FLOATS = Way("floats, no noise", "floats", Channel.of("normalise", Plain(clip=1.0)), inf)
SIGNS = Way("one bit, no noise", "one bit", Channel.of("normalise", Sign(clip=1.0)), inf)
DENSE = [("Logistic", {}), ("Mlp", {"hidden": (12, 9)})]
POOL = Digits().load()


def attacker(kind: str, settings: dict[str, Any]) -> Attacker:
    net = NETS.made(kind, settings).build(POOL.shape, POOL.classes, 1)
    return Attacker(net, POOL.x_test, POOL.y_test)


def records(count: int) -> tuple[Matrix, Matrix]:
    x, y = POOL.batch(np.arange(count)[:, None])
    return x[:, 0], y[:, 0]


@pytest.mark.parametrize(("kind", "settings"), DENSE)
def test_a_record_is_found_to_the_last_digit_in_floats_behind_a_dense_first_layer(kind: str, settings: Any) -> None:
    own, (x, y) = attacker(kind, settings), records(60)
    messages = FLOATS.read(own.gradients(x, y), seed=1)
    found, scale = own.through_first_layer(messages)
    assert found / scale[:, None] == approx(x.reshape(60, -1), abs=1e-4)
    assert (own.labels(messages) == y).mean() > 0.95


def test_signs_without_noise_tell_on_which_side_of_zero_a_pixel_is() -> None:
    own, (x, y) = attacker("Logistic", {}), records(60)
    messages = SIGNS.read(own.gradients(x, y), seed=1)
    assert (own.labels(messages) == y).all()
    found, scale = own.through_first_layer(messages)
    told = np.sign(found / scale[:, None])
    flat = x.reshape(60, -1)
    assert (told == np.sign(flat))[flat != 0].all()


@pytest.mark.parametrize(("kind", "settings"), [*DENSE, ("Cnn", {})])
def test_the_gradients_that_are_matched_are_those_that_are_sent(kind: str, settings: Any) -> None:
    own, (x, y) = attacker(kind, settings), records(1)
    (sent,) = own.gradients(x, y)
    target = torch.from_numpy(sent / np.linalg.norm(sent))
    cosine = own.cosine(torch.from_numpy(x), torch.from_numpy(y), target)
    assert cosine.item() == approx(1, abs=1e-5)


def test_matching_gradients_comes_nearer_to_a_record_than_the_mean_record() -> None:
    own, (x, y) = attacker("Cnn", {}), records(1)
    (message,) = FLOATS.read(own.gradients(x, y), seed=1)
    found = own.matched(message, int(y[0]), steps=40)
    assert ((found - x[0]) ** 2).mean() < 0.5 * ((own.x.mean(axis=0) - x[0]) ** 2).mean()
    assert found.min() >= own.x.min()
    assert found.max() <= own.x.max() + 1e-6


def test_what_tells_nothing_is_mapped_to_the_mean_and_what_tells_all_to_the_record() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(3, 1, (400, 6))
    noise, asked = rng.normal(size=(400, 6)), rng.normal(size=(50, 6))
    assert learnt_map(noise, x, asked) == approx(np.tile(x.mean(axis=0), (50, 1)), abs=0.1)
    turned, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    assert learnt_map(5 * x @ turned + 2, x, 5 * asked @ turned + 2) == approx(asked, abs=1e-3)
    assert learnt_map(np.zeros((400, 2)), x, np.zeros((1, 2))) == approx(x.mean(axis=0)[None])


def test_ssim_is_what_its_formula_gives_window_by_window() -> None:
    rng = np.random.default_rng(2)
    one, other = rng.random((9, 8)), rng.random((9, 8))
    values = []
    for row in range(3):
        for column in range(2):
            a, b = (each[row : row + 7, column : column + 7].ravel() for each in (one, other))
            (va, cov), (_, vb) = np.cov(a, b)
            values.append((2 * a.mean() * b.mean() + 1e-4) * (2 * cov + 9e-4)
                          / ((a.mean() ** 2 + b.mean() ** 2 + 1e-4) * (va + vb + 9e-4)))  # fmt: skip
    assert similarity(one, other) == approx(np.mean(values), rel=1e-12)
    assert similarity(one, one) == approx(1)
    assert squared_errors(one, one + 0.1) == approx(0.01)
    assert signal_to_noise(np.array([1.0])) == approx(0)


def test_a_share_of_errors_has_the_interval_of_its_ratio() -> None:
    rng = np.random.default_rng(3)
    wholes = rng.uniform(1, 2, (2000, 60))
    parts = 0.7 * wholes + rng.normal(0, 0.3, wholes.shape)
    found = [share_taken(*pair) for pair in zip(parts, wholes, strict=True)]
    covered = np.mean([own.half is not None and abs(own.mean - 0.3) <= own.half for own in found])
    assert covered == approx(0.95, abs=0.02)  # four standard errors


def test_the_interval_is_students() -> None:
    assert mean_over_records(np.array([1.0, 2.0, 3.0]))[:2] == approx((2, 4.302653 / 3**0.5))
    assert mean_over_records(np.ones(1)).half is None
    assert outcome("one record", Interval(1, None, 1, 1, 1)).verdict == "not told from the mean public record"


def test_a_message_alone_costs_what_was_asked_where_it_is_seen_alone_and_more_where_only_sums_are() -> None:
    ways = {way.title: way for way in sent_ways("digits", "{kind='Logistic'}", 650)}
    assert [title for title in ways if ways[title].epsilon == inf] == ["floats, no noise", "one bit, no noise"]
    alone = [way.epsilon for title, way in ways.items() if title.endswith("of itself")]
    assert len(alone) == 3
    assert all(3.9 < epsilon <= 4 for epsilon in alone)
    assert all(way.epsilon > 10 for title, way in ways.items() if title.endswith("of the sum"))
    assert [way.short for way in ways.values()].count("") == 3
    assert base_study(None, "{kind='Logistic'}").clients.attackers == 0


def within(mean: float, half: float) -> Interval:
    return Interval(mean, half, mean - half, mean + half, 9)


def outcome(way: str, gain: Interval, epsilon: float = inf) -> Outcome:
    label = None if way == NOTHING else 0.5
    return Outcome(
        "logistic", way, epsilon, "learnt", 9, label, within(0.02, 0.001), within(17, 1), within(0.5, 0.1), gain
    )


FOUND = Found(
    "scikit-learn's digits",
    [
        outcome(NOTHING, within(0, 0)), outcome(CLASS, within(0.4, 0.1)), outcome("a", within(1, 0)),
        outcome("b", within(0.5, 0.1)), outcome("c", within(0.01, 0.02), 3.99871), outcome("d", within(-0.5, 0.1)),
    ],
    [Shown("logistic", ("record", "floats"), (np.eye(8), np.eye(8)))],
)  # fmt: skip


def test_the_page_says_no_more_than_its_intervals_do() -> None:
    assert page.finding_words(FOUND) == [
        "logistic, a: the record itself",
        "logistic, b: nearer to the record than the mean public record: 40 to 60% of its squared error are gone",
        "logistic, c: not told from the mean public record",
        "logistic, d: no nearer than the mean public record",
    ]
    words = page.inversion_page(FOUND)
    assert page.WARNING in words
    assert "prove no privacy" in words
    assert "| c | 3.999 |" in words
    assert page.inversion_picture(FOUND)[:4] == b"\x89PNG"


def test_the_numbers_are_json() -> None:
    def refuse(word: str) -> float:
        raise AssertionError(word)

    found = json.loads(page.json_of(FOUND), parse_constant=refuse)
    assert found["outcomes"][2]["epsilon"] == "inf"
    assert found["outcomes"][1]["gain"] == {"mean": 0.4, "half": 0.1}
    assert [epsilon_words(each) for each in (inf, 24.8801)] == ["∞", "24.89"]


def test_data_that_are_not_there_are_refused_and_what_it_does_not_take(tmp_path: Any, capsys: Any) -> None:
    assert main(["reproduce", "inversion", "--data", str(tmp_path / "nothing")]) == 2
    assert "nothing" in capsys.readouterr().err
    assert main(["reproduce", "inversion", "--images", "3"]) == 2
    assert "--images: inversion attacks none" in capsys.readouterr().err
