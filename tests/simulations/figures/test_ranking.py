"""What is ranked: seeds enough, seed by seed, and never a winner that the intervals do not tell from the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simulations.figures.intervals import FEWEST
from simulations.figures.ranking import Ranking, ranking_of

shares = st.floats(0, 1)


def tables(least: int, most: int) -> st.SearchStrategy[dict[str, dict[int, float]]]:
    """Values of two to five names, each with the same seeds."""
    return st.integers(least, most).flatmap(
        lambda seeds: st.lists(st.lists(shares, min_size=seeds, max_size=seeds), min_size=2, max_size=5).map(
            lambda rows: {name: dict(enumerate(row)) for name, row in zip("abcde", rows, strict=False)}
        )
    )


@given(tables(1, FEWEST - 1))
def test_fewer_than_three_seeds_rank_nothing(values: dict[str, dict[int, float]]) -> None:
    found = ranking_of(values)
    assert not found.ranked
    assert found.order == list(values)
    assert found.first == found.last == []


@given(tables(FEWEST, 6), st.permutations(range(6)))
def test_what_seeds_are_called_changes_nothing(values: dict[str, dict[int, float]], names: list[int]) -> None:
    again = {name: {names[seed]: value for seed, value in own.items()} for name, own in values.items()}
    assert (ranking_of(values).order, ranking_of(values).first) == (ranking_of(again).order, ranking_of(again).first)


@given(tables(FEWEST, 6))
def test_a_winner_is_claimed_only_where_every_difference_is_above_0(values: dict[str, dict[int, float]]) -> None:
    found = ranking_of(values)
    assert found.first[0] == found.order[0]
    for name in set(values) - set(found.first):
        apart = found.difference(found.order[0], name)
        assert apart is not None
        assert apart.half is not None
        assert apart.mean - apart.half > 0


@given(st.lists(shares, min_size=FEWEST, max_size=6), st.lists(shares, min_size=FEWEST, max_size=6))
def test_two_that_win_a_seed_each_by_as_much_are_never_told_apart(one: list[float], other: list[float]) -> None:
    seeds = range(min(len(one), len(other)))
    assume(len(seeds) % 2 == 0)
    values = {
        "a": {seed: (one if seed % 2 else other)[seed // 2] for seed in seeds},
        "b": {seed: (other if seed % 2 else one)[seed // 2] for seed in seeds},
    }
    assert set(ranking_of(values).first) == {"a", "b"}


def test_a_ranking_by_hand() -> None:
    luck = [0.00, 0.05, 0.10]  # that all share, and pairs are free of
    plus = {"low": [0.50, 0.50, 0.50], "near": [0.69, 0.71, 0.68], "top": [0.70, 0.70, 0.70]}
    found = ranking_of({name: {s: luck[s] + own[s] for s in range(3)} for name, own in plus.items()})
    assert found.order == ["top", "near", "low"]
    assert found.first == ["top", "near"]
    assert found.last == ["low"]
    apart = found.difference("top", "near")  # 0.01, −0.01, 0.02: s = 0.0152753, and t(2) of 1 − 0.05/4 is 6.2053
    assert apart is not None
    assert apart.mean == pytest.approx(0.02 / 3)
    assert apart.half == pytest.approx(6.20535 * 0.0152753 / 3**0.5, rel=1e-5)


def test_seeds_that_something_lacks_are_left_out() -> None:
    found = ranking_of({"a": dict.fromkeys(range(5), 0.5), "b": {1: 0.4, 2: 0.4, 9: 0.9}})
    assert found.seeds == 2
    assert not found.ranked


def test_the_truly_best_is_named_as_often_as_is_said() -> None:
    rng = np.random.default_rng(2)
    truth, names, trials = np.array([0.800, 0.799, 0.795, 0.79]), "abcd", 1500
    draws = truth[:, None] + rng.normal(0, 0.004, (trials, 4, 3))
    found = [Ranking({name: dict(enumerate(row)) for name, row in zip(names, own.tolist(), strict=True)})
             for own in draws]  # fmt: skip
    named = np.mean(["a" in each.first for each in found])
    claimed_wrongly = np.mean([each.first in (["b"], ["c"], ["d"]) for each in found])
    assert named >= 0.975 - 4 * (0.025 * 0.975 / trials) ** 0.5
    assert claimed_wrongly <= 0.025 + 4 * (0.025 * 0.975 / trials) ** 0.5
