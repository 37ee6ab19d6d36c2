"""Any finite mechanism as a table of its probabilities: what it costs, what it draws, and how it refuses."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import PCG64, Generator
from pytest import approx

import fedpriv as fp
from fedpriv._base.tables import inline_toml
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import by_hand, event_as_data, event_of
from fedpriv.auditing.laws import log_ratio
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import MECHANISMS, Table, Ternary, settings_of
from fedpriv.packed.symbols import packing_of
from fedpriv.packed.tally import Tally
from fedpriv.randomness.exact import Chosen
from fedpriv.studies.file import parsed_study, read_study, study_text

ALPHA = np.linspace(0, 1, 401)
TERNARY = Ternary(clip=0.1, spread=0.25, scale=0.5)


def as_table(own: Ternary, *levels: float) -> Table:
    rows = [[float(own.minus(np.array(x))), 1 - own.spread / own.scale, float(own.plus(np.array(x)))] for x in levels]
    return Table(levels=levels, chances=rows)  # type: ignore[arg-type]  # lists become tuples


def drawn_table(seed: int) -> Table:
    """Any table, some of its chances 0."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(rng.integers(2, 7), rng.choice([0.3, 1, 10])), rng.integers(2, 6))
    rows[0, rng.integers(rows.shape[1])] *= seed % 3 > 0
    rows /= rows.sum(axis=1, keepdims=True)
    levels = np.sort(rng.uniform(-1, 1, len(rows)))
    return MECHANISMS.made("Table", {"levels": levels, "chances": rows, "values": [*range(rows.shape[1])]})


@pytest.mark.parametrize("levels", [(-0.1, 0.1), (-0.1, 0.0, 0.1), (-0.1, -0.07, 0.02, 0.1)])
def test_a_table_of_ternary_is_ternary(levels: tuple[float, ...]) -> None:
    table = as_table(TERNARY, *levels)
    assert table.tradeoff()(ALPHA) == approx(TERNARY.tradeoff()(ALPHA), abs=1e-12)
    assert table.entropy == approx(TERNARY.entropy, rel=1e-12)
    assert table.values == approx((-0.5, 0.0, 0.5), abs=1e-12)
    assert table.decode(7 + 20, 20) == approx(TERNARY.decode(7, 20))
    for dimension, geometry in ((1, None), (50, "linf"), (3, "l2")):
        own, other = (Account((by_hand(each, geometry=geometry, dimension=dimension, rounds=20),))  # type: ignore
                      for each in (table, TERNARY))  # fmt: skip
        assert own.epsilon(1e-5).bounds.lower == approx(other.epsilon(1e-5).bounds.lower, rel=1e-6)
        assert own.upper_epsilon(1e-5) >= other.upper_epsilon(1e-5) * (1 - 1e-9)
        if geometry != "l2":
            assert own.upper_epsilon(1e-5) == approx(other.upper_epsilon(1e-5), rel=1e-9)


@given(seed=st.integers(0, 2**32), epsilon=st.floats(-9, 9))
def test_the_curve_is_the_worst_of_all_pairs_of_levels_at_every_epsilon(seed: int, epsilon: float) -> None:
    table = drawn_table(seed)
    laws = [table.symbol_law(level) for level in table.levels]
    worst = max(np.maximum(q - np.exp(epsilon) * p, 0).sum() for p, q in permutations(laws, 2))
    assert table.tradeoff().delta(epsilon) == approx(worst, rel=1e-9, abs=1e-15)


@given(seed=st.integers(0, 2**32), x=st.floats(-1.5, 1.5), y=st.floats(-1.5, 1.5))
def test_no_two_inputs_between_levels_give_away_more_than_levels(seed: int, x: float, y: float) -> None:
    table = drawn_table(seed)
    assert (table.between(x, y)(ALPHA) >= table.tradeoff()(ALPHA) - 1e-9).all()


@given(seed=st.integers(0, 2**32), rounds=st.integers(1, 9))
def test_explicit_levels_never_give_away_more_than_is_certified(seed: int, rounds: int) -> None:
    low, high = Account((by_hand(drawn_table(seed), rounds=rounds),)).epsilon(1e-3).bounds
    assert 0 <= low <= high


def test_one_round_is_known_from_both_sides() -> None:
    for seed in range(1, 40, 3):
        low, high = Account((by_hand(drawn_table(seed)),)).delta(0.0).bounds
        assert high == approx(low, rel=1e-5, abs=1e-9)


def test_messages_have_the_very_fractions_of_the_row() -> None:
    rows = [[0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3]]
    law, total = Chosen.of(rows).laws[0], sum(map(Fraction, rows[0]))
    _, bounds = law(200)
    assert bounds[0] == int(Fraction(0.1) / total * 2**200)
    assert bounds[1] == int((Fraction(0.1) + Fraction(0.2)) / total * 2**200)


def test_a_symbol_without_a_chance_never_comes_whatever_is_drawn() -> None:
    own = Chosen.of([[0.0, 0.5, 0.0, 0.5, 0.0]])
    bounds = own.bounds[0]
    assert bounds.tolist() == [0, 2**63, 2**63, 2**64 - 1, 2**64 - 1]
    draws = own.draw(np.zeros(100_000, int), Generator(PCG64(1)))
    assert set(draws.tolist()) == {1, 3}
    assert draws.mean() == approx(2, abs=0.02)


@pytest.mark.parametrize("x", [-1.0, -0.6, -0.25, 0.0, 0.3, 1.0, 5.0])
def test_messages_between_levels_follow_the_straight_line(x: float) -> None:
    table, n = drawn_table(7), 60_000
    seen = np.bincount(table.encode(np.full(n, x), Generator(PCG64(3))), minlength=len(table.alphabet))
    law = table.symbol_law(x)
    kept = n * law > 5
    assert seen[law == 0].sum() == 0
    assert ((seen - n * law)[kept] ** 2 / (n * law)[kept]).sum() < 30


def test_values_come_by_least_squares_and_are_unbiased_where_the_table_allows_it() -> None:
    table = Table(levels=(-1, 0, 2), chances=((0.6, 0.2, 0.2), (0.3, 0.4, 0.3), (0.1, 0.1, 0.8)))
    for x in (-1.0, -0.3, 0.0, 0.9, 2.0):
        assert float(table.decode(table.symbol_law(x) @ np.arange(len(table.alphabet)), 1)) == approx(x, abs=1e-5)
    two = Table(levels=(-1, 0, 1), chances=((0.9, 0.1), (0.1, 0.9), (0.1, 0.9)))  # no line goes through all three
    found = [float(two.decode(two.symbol_law(x) @ np.arange(2), 1)) for x in (-1, 0, 1)]
    assert found == approx([-1.0, 0.5, 0.5])


def test_symbols_are_sent_as_whole_numbers_in_as_few_bits_as_there_are_symbols() -> None:
    table = Table(levels=(-1, 1), chances=((0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4)), values=(-3, -1, 1.5, 3))
    assert table.numbers == (0, 4, 9, 12)
    assert table.centre == 6
    assert table.bits == 2
    form, sent = packing_of(table), table.encode(np.tile([-1.0, 0.2, 1.0], (5, 7)), Generator(PCG64(1)))
    payload = form.pack(sent)
    assert payload.shape == (5, 6)  # 21 coordinates of two bits
    assert np.array_equal(form.unpack(payload, 21), sent)
    assert form.valid(payload, 21).all()
    tally = Tally(table, 21)
    tally.add(payload)
    assert np.array_equal(tally.total(), sent.sum(axis=0))
    with pytest.raises(FedprivError, match="among 4 of the numbers"):
        form.pack(np.full((1, 21), 5))
    assert table.decode(sent.sum(axis=0), 5) == approx(np.array([-3, -1, 1.5, 3])[np.searchsorted(table.numbers, sent)]
                                                       .mean(axis=0))  # fmt: skip


def test_the_order_of_columns_does_not_matter() -> None:
    table = Table(levels=(-1, 1), chances=((0.5, 0.3, 0.2), (0.1, 0.3, 0.6)), values=(-1, 0, 1))
    turned = Table(levels=(-1, 1), chances=((0.2, 0.5, 0.3), (0.6, 0.1, 0.3)), values=(1, -1, 0))
    x = np.linspace(-1, 1, 99)
    assert np.array_equal(*(own.encode(x, Generator(PCG64(5))) for own in (table, turned)))


def test_an_audit_knows_the_likelihood_of_each_symbol() -> None:
    table = as_table(TERNARY, -0.1, 0.1)
    ratio, other = log_ratio(table, 0.1, -0.1), log_ratio(TERNARY, 0.1, -0.1)
    assert ratio(np.array([0, 1, 2])) == approx(other(np.array([-1, 0, 1])))


def test_a_run_by_a_table_of_ternary_learns_as_much_at_the_same_cost(tmp_path: Path) -> None:
    own = Ternary(clip=0.2, spread=0.4, scale=1.0)
    small = ["clients.count=400", "clients.byzantine=0", "run.rounds=15", "run.evaluate_every=15"]
    digits = study_text(read_study("digits")).replace("epsilon = 4.0\n", "")
    found = []
    for mechanism in (own, as_table(own, -0.2, 0.2)):
        table = inline_toml({"kind": type(mechanism).__name__} | settings_of(mechanism))
        changed = [f"privacy.mechanism={table}", "privacy.norm=coordinates", "privacy.trust=local", *small]
        out = str(tmp_path / type(mechanism).__name__)
        found.append(fp.run(parsed_study(digits, overrides=changed), out, quiet=True))
    ternary, same = found
    assert same.last("accuracy") == approx(ternary.last("accuracy"), abs=0.06)
    assert same.last("accuracy") > 0.6
    assert same.epsilon["upper"] == approx(ternary.epsilon["upper"], rel=1e-9)


def test_a_symbol_that_only_one_level_sends_is_named() -> None:
    table = Table(levels=(-1, 1), chances=((1.0, 0.0), (0.5, 0.5)))
    cost = Account((by_hand(table),)).epsilon(1e-5)
    assert cost.bounds.upper == np.inf
    assert "level 1 sends 3 and level -1 never does: no ε holds but with δ ≥ 0.5" in cost.upper_proof
    assert Account((by_hand(table),)).delta(1.0).bounds.upper == approx(0.5)


CSV = "level, -1, 1\n-1, 0.75, 0.25\n\n1, 0.25, 0.75\n"


def test_a_file_becomes_numbers_before_anybody_looks(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\ufeff" + CSV, encoding="utf-8")
    table = MECHANISMS.made("Table", {"file": str(tmp_path / "t.csv")})
    assert table == Table(levels=(-1, 1), chances=((0.75, 0.25), (0.25, 0.75)), values=(-1, 1))
    event = by_hand(table)
    assert "csv" not in str(event_as_data(event))
    assert event_of(event_as_data(event)) == event
    text = 'data.kind = "Digits"\nprivacy = {{ norm = "coordinates", mechanism = {{ kind = "Table", {} }} }}'
    more = ["clients.count=9", "run.rounds=2"]
    by_file = parsed_study(text.format(f'file = "{tmp_path / "t.csv"}"'), overrides=more)
    given = "levels = [-1, 1], chances = [[0.75, 0.25], [0.25, 0.75]], values = [-1, 1]"
    assert by_file.id == parsed_study(text.format(given), overrides=more).id
    assert "csv" not in study_text(by_file)
    assert by_file.privacy.drawn_by == table


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "its first row must be `level`"),
        ("0,1\n0.5,0.5\n", "its first row must be `level`"),
        ("level,0,1\n-1,0.5,0.5\n1,0.5\n", "line 3: 2 chances after the level, got 1"),
        ("level,0,1\n-1,0.5,half\n1,0.5,0.5\n", "line 2: must hold numbers, got 'half'"),
        ("level,0,up\n-1,0.5,0.5\n1,0.5,0.5\n", "line 1: must hold numbers, got 'up'"),
        ("level,0,1\n-1,0.4,0.5\n1,0.5,0.5\n", "row 1 adds up to 0.9, not to 1"),
        ("level,0,1\n1,0.4,0.6\n", "levels must be 2 to 64 inputs, got 1"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_its_line(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(content, encoding="utf-8")
    with pytest.raises(FedprivError) as error:
        MECHANISMS.made("Table", {"file": str(tmp_path / "t.csv")})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


HALF = [[0.5, 0.5], [0.25, 0.75]]
BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "Table needs levels, chances"),
    ({"file": "nowhere.csv"}, "nowhere.csv: cannot be read"),
    ({"file": 3}, "file must name a CSV file"),
    ({"file": "t.csv", "levels": [0, 1]}, "give a file, or levels, not both"),
    ({"levels": [1, 0], "chances": HALF}, "levels must rise, each once: 0 stands behind 1"),
    ({"levels": [0, 0], "chances": HALF}, "levels must rise, each once: 0 stands behind 0"),
    ({"levels": [0, float("nan")], "chances": HALF}, "levels[1] must be finite"),
    ({"levels": [0, float("inf")], "chances": HALF}, "levels[1] must be finite"),
    ({"levels": [0, "x"], "chances": HALF}, "levels[1] must be a number"),
    ({"levels": "0, 1", "chances": HALF}, "levels must be a list of numbers"),
    ({"levels": [0], "chances": HALF[:1]}, "levels must be 2 to 64 inputs, got 1"),
    ({"levels": list(range(65)), "chances": [[0.5, 0.5]] * 65}, "levels must be 2 to 64 inputs, got 65"),
    ({"levels": [0, 1], "chances": HALF[:1]}, "chances must be 2 rows"),
    ({"levels": [0, 1], "chances": [[1.0], [1.0]]}, "row 1 has 1"),
    ({"levels": [0, 1], "chances": [[1 / 300] * 300] * 2}, "row 1 has 300"),
    ({"levels": [0, 1], "chances": [[0.5, 0.5], [1.0]]}, "row 2 has 1"),
    ({"levels": [0, 1], "chances": [[0.5, 0.5], 1.0]}, "row 2 has 1.0"),
    ({"levels": [0, 1], "chances": [[1.5, -0.5], [0.5, 0.5]]}, "row 1, symbol 1 must be between 0 and 1, got 1.5"),
    ({"levels": [0, 1], "chances": [[0.5, 0.5], [0.5, 0.4]]}, "row 2 adds up to 0.9, not to 1"),
    ({"levels": [0, 1], "chances": [[0.5, 0.5]] * 2}, "no symbol says anything of the input"),
    ({"levels": [0, 1], "chances": HALF, "values": [1, 1]}, "values must differ"),
    ({"levels": [0, 1], "chances": HALF, "values": [1, 2, 3]}, "values must be one for each of 2 symbols, got 3"),
    ({"levels": [0, 1], "chances": HALF, "clip": 0.5}, "peak must be at most clip"),
    ({"levels": [0, 1], "chances": HALF, "clip": -1}, "clip must be positive"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "said"), BAD, ids=[said for _, said in BAD])
def test_a_table_that_cannot_be_is_refused_in_one_line(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(FedprivError) as error:
        MECHANISMS.made("Table", settings)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
