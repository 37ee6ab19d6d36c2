"""One cell chosen at a certified ε: what is let out and nothing else, what is spent by a kill, what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

import fedpriv as fp
from fedpriv.accounting.event import by_hand
from fedpriv.accounting.selection import Selection, TrialLaw
from fedpriv.auditing.statistic import Trials, epsilon_lower
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import RandomisedResponse
from fedpriv.randomness.exact import bernoulli
from server import rounds
from simulations.command_line import main
from simulations.runs.direct import Here
from simulations.sweep import _trials
from simulations.sweep.private import Offer, priced_offer, run_selection

STUDY = """
about = "a small grid to choose from"
data = { kind = "Synthetic", records = 200, features = 5, classes = 3, held_out = 50 }
clients = { count = 20, records = 10 }
server = { step = 0.5 }
run = { rounds = 3 }
[privacy.mechanism]
kind = "Binomial"
clip = 1.0
trials = 4
[sweep]
server.step = [0.1, 1.0, 10.0]
"""


def offer(sweep: str = "server.step = [0.1, 1.0]", *changes: str, **given: Any) -> Offer:
    text = STUDY.partition("[sweep]")[0] + "[sweep]\n" + sweep
    return priced_offer(text, list(changes), **({"epsilon": 4.0} | given))


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(STUDY, encoding="utf-8")
    return file


def chosen(study: Path, *more: str) -> int:
    return main(["sweep", str(study), "--private", "--epsilon", "4", "--trials", "3", *more])


def test_choosing_costs_what_was_asked_for_and_no_more(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = study.parent / "out"
    assert chosen(study, "--out", str(out), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert 0.99 * 4 <= found["epsilon"]["upper"] <= 4
    assert found["epsilon"]["lower"] >= 0.8 * 4
    assert found["own_epsilon"] < found["epsilon"]["upper"] < found["looking_at"][0]["epsilon"]
    assert found["place"]["server.step"] in ("0.1", "1.0", "10.0")
    assert 0 <= found["accuracy"] <= 1
    assert json.loads((out / "selection.json").read_text()) == found


def test_nothing_but_the_chosen_cell_is_left(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    seen = list[str]()
    true_run = rounds.run_rounds

    def spied(own: Any, place: Path, *rest: Any, **more: Any) -> dict[str, Any]:
        assert scratch in place.parents
        assert place.parent.stat().st_mode & 0o077 == 0
        print("a trial says something")
        seen.append(str(own.server.step))
        found: dict[str, Any] = true_run(own, place, *rest, **more)
        return found

    monkeypatch.setattr(rounds, "run_rounds", spied)
    out = tmp_path / "out"
    found = fp.sweep_private(study, directory=out, epsilon=4, trials=3)
    assert seen
    assert not list(scratch.iterdir())
    assert sorted(path.name for path in out.iterdir()) == ["model.npz", "selected.toml", "selection.json"]
    own = fp.read_study(out / "selected.toml")
    assert str(own.server.step) == found["place"]["server.step"]
    assert own.privacy.noise == "cryptographic"
    with np.load(out / "model.npz") as model:
        assert sum(model[name].size for name in model) == 18
    told = (out / "selection.json").read_text()
    assert "seconds" not in told
    assert "data" not in found  # whose digest would tell one record from another
    assert found["trials"] == {"mean": 3.0, "law": "geometric"}  # and not how many there were


def test_a_trial_says_nothing_on_the_terminal(study: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert chosen(study, "--out", str(study.parent / "out")) == 0
    told = capfd.readouterr()
    assert not told.err
    assert "the best of 3 trials on average (how many is secret), each of one of 3 cells by lot" in told.out


def test_the_best_trial_is_let_out_and_cells_are_drawn_by_lot() -> None:
    cells, tried = offer().grid.cells, list[Any]()

    def scored(cell: Any) -> _trials.Trial:
        tried.append(cell)
        return _trials.Trial(cell, (3 * len(tried)) % 7, {"number": len(tried)}, b"")

    drawn = Counter[str]()
    for seed in range(200):
        tried.clear()
        best = _trials.best_of(cells, TrialLaw.geometric(8), np.random.default_rng(seed), scored)
        scores = [(3 * number) % 7 for number in range(1, len(tried) + 1)]
        assert best.said["number"] == 1 + scores.index(max(scores))  # of equals the first
        drawn.update(cell.id for cell in tried)
    assert [drawn[cell.id] / drawn.total() for cell in cells] == approx([0.5, 0.5], abs=0.05)


def test_choices_give_away_more_than_a_trial_and_no_more_than_is_certified() -> None:
    """The code that chooses, on neighbouring data: a trial is one randomised response of two answers, at ε = 1."""
    epsilon, law, rng, choices = 1.0, TrialLaw.geometric(5), np.random.default_rng(3), 12_000
    chance = np.exp(epsilon) / (1 + np.exp(epsilon))
    cells = offer().grid.cells

    def chosen_answer(held: bool) -> float:
        """The answer of the best trial, where the score is the answer: large where the data are said to be."""

        def tried(cell: Any) -> _trials.Trial:
            return _trials.Trial(cell, float(bernoulli([chance if held else 1 - chance], rng)[0]), {}, b"")

        return _trials.best_of(cells, law, rng, tried).score

    held = rng.integers(0, 2, choices).astype(bool)
    trials = Trials(held=held, scores=-np.array([chosen_answer(bool(each)) for each in ~held]))
    shown = epsilon_lower(trials, 0.0, 0.999999)
    event = by_hand(RandomisedResponse(clip=1, levels=1, epsilon=epsilon))
    low, high = Selection(law, ((event,),)).epsilon(0.0).bounds
    odds = [own / (1 - 0.8 * own) for own in (chance, 1 - chance)]  # f's, up to a factor: that all trials say no
    exactly = log(odds[0] / odds[1])
    assert epsilon < shown <= exactly < low <= high < 2.4


def test_noise_is_of_no_seed_so_that_two_trials_of_a_cell_differ(tmp_path: Path) -> None:
    cell = offer().grid.cells[0]
    first, second = (_trials.tried_cell(cell, tmp_path / name) for name in ("a", "b"))
    assert first.weights != second.weights
    assert cell.study.privacy.noise == "cryptographic"
    assert cell.study.server.retries == 0


def test_a_client_without_an_update_answers_in_a_trial_as_any_other_does(tmp_path: Path) -> None:
    """A silent one would tell, past its noise, that a record of its own is one that no update is made of."""
    huge = offer("server.step = [0.1]", "attack={kind='NonFinite'}", "clients.byzantine=2").grid.cells[0]
    found = rounds.run_rounds(huge.study, tmp_path / "run", Here(), quiet=True)
    assert not found["failed"]
    assert found["rounds"] == 3


def test_where_every_trial_fails_that_is_what_is_let_out(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise RuntimeError("client 7 holds a record of class 2")

    monkeypatch.setattr(rounds, "run_rounds", failing)
    out = study.parent / "out"
    assert chosen(study, "--out", str(out)) == 1
    found = json.loads((out / "selection.json").read_text())
    assert "class 2" not in json.dumps(found)
    assert "may be of clients' records" in found["failed"]
    assert not (out / "model.npz").exists()


@pytest.mark.slow
def test_a_killed_choice_is_paid_for_and_not_made_again(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was killed has let nothing out, but who kills it may have seen how long it took."""
    out, scratch = study.parent / "out", study.parent / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "simulations.command_line", "sweep", str(study), "--private", "--epsilon", "4"]
    command += ["--trials", "10000", "--out", str(out)]
    process = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(scratch)}, stdout=subprocess.DEVNULL)
    try:
        while not (out / "selection.json").exists() or not list(scratch.glob("*/trial")):
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    until = time.monotonic() + 30
    while list(scratch.iterdir()) and time.monotonic() < until:
        time.sleep(0.1)
    assert not list(scratch.iterdir())
    assert sorted(path.name for path in out.iterdir()) == ["selection.json"]
    assert chosen(study, "--out", str(out)) == 2
    assert "a choice was begun here and never let anything out, and its ε = " in capsys.readouterr().err


def test_a_second_choice_in_the_same_directory_is_refused(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(study.parent / "out")
    assert chosen(study, "--out", out) == 0
    assert chosen(study, "--out", out) == 2
    assert "holds a choice already, and its ε = " in capsys.readouterr().err
    assert main(["sweep", str(study), "--set", "privacy.epsilon=4", "--out", out]) == 2
    assert "holds no sweep" in capsys.readouterr().err


def test_the_directory_of_an_ordinary_sweep_is_refused(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = study.parent / "swept"
    out.mkdir()
    (out / "sweep.json").write_text("{}")
    assert chosen(study, "--out", str(out)) == 2
    assert "holds a sweep whose cells are all to be seen" in capsys.readouterr().err
    (out / "sweep.json").rename(out / "other.json")
    assert chosen(study, "--out", str(out)) == 2
    assert "is there already and holds no choice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--private"], "--private needs --epsilon"),
        (["--epsilon", "4"], "--epsilon is of a private choice"),
        (["--trials", "4"], "--trials is of a private choice"),
        (["--private", "--epsilon", "4", "--workers", "2"], "--workers is of a sweep"),
        (["--private", "--epsilon", "4", "--ray", "auto"], "--ray is of a sweep"),
        (["--private", "--epsilon", "nan"], "epsilon must be"),
        (["--private", "--epsilon", "inf"], "epsilon must be"),
        (["--private", "--epsilon", "0"], "epsilon must be"),
        (["--private", "--epsilon", "-1"], "epsilon must be"),
        (["--private", "--epsilon", "4", "--delta", "2"], "delta must be"),
        (["--private", "--epsilon", "4", "--delta", "nan"], "delta must be"),
        (["--private", "--epsilon", "4", "--trials", "0.5"], "trials must be at least 1"),
        (["--private", "--epsilon", "4", "--trials", "nan"], "trials must be"),
        (["--private", "--epsilon", "4", "--trials", "inf"], "trials must be"),
    ],
)
def test_bad_options_are_refused_in_a_line(
    study: Path, options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", str(study), *options]) == 2
    told = capsys.readouterr().err
    assert why in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("axis", "named"),
    [
        ('"privacy.delta" = [1e-5, 1e-6]', "privacy.delta"),
        ('"privacy.trust" = ["local", "secure-aggregation"]', "privacy.trust"),
        ('"privacy.unit" = ["client"]', "privacy.unit"),
        ('"privacy.budget" = [1.0, 2.0]', "privacy.budget"),
        ('"clients.count" = [10, 20]', "clients"),
        ('"data.records" = [200, 300]', "data"),
        ('"server.retries" = [0, 1]', "server.retries"),
        ('other = [{ label = "a", "privacy.epsilon" = 3.0, "server.step" = 0.3 }]', "privacy.epsilon"),
        ('other = [{ label = "a", "run.seed" = 3, "server.step" = 0.3 }]', "run.seed"),
    ],
)
def test_an_axis_over_what_the_promise_is_of_is_refused_by_name(axis: str, named: str) -> None:
    with pytest.raises(FedprivError, match=f"varies .*{named}") as refused:
        offer(f"{axis}\nserver.momentum = [0.1, 0.9]")
    assert "one value of" in str(refused.value)


def test_what_is_chosen_at_each_place_is_one_more_axis_of_the_lot_and_checked_as_one(tmp_path: Path) -> None:
    grid = '"server.step" = [0.1, 1.0]\n[sweep.chosen]\n"run.seed" = [5, 6]\n'
    few = "data.aside=20", "clients.records=9"
    with pytest.raises(FedprivError, match=r"varies clients.records, and --private"):
        offer(grid + '"clients.records" = [8, 9]', few[0])
    found = offer(grid + '"server.momentum" = [0.0, 0.9]', *few)
    assert len(found.grid.cells) == 4
    told = run_selection(found, tmp_path / "out")
    assert set(told["place"]) == {"server.step", "server.momentum"}


def test_seeds_and_targets_of_the_grid_are_left_out_and_told() -> None:
    found = offer('"run.seed" = [7, 8]\n"privacy.epsilon" = [1.0, 100.0]\n"server.step" = [0.1, 1.0]')
    assert set(found.left_out) == {"run.seed", "privacy.epsilon"}
    assert [cell.study.run.seed for cell in found.grid.cells] == [7, 7]
    with pytest.raises(FedprivError, match=r"nothing is left to choose from: its \[sweep\] varies run.seed"):
        offer('"run.seed" = [7, 8]')


def test_a_cell_whose_noise_is_given_is_refused_by_its_key() -> None:
    with pytest.raises(FedprivError, match=r"mechanism.scale|these settings give .*: leave one of them out"):
        offer("server.step = [0.1, 1.0]", "privacy.mechanism.scale=1.5")


def test_a_choice_that_cannot_be_so_cheap_names_the_trials_that_it_pays_for() -> None:
    with pytest.raises(
        FedprivError, match=r"does not pay for 50 trials on average, which need 6\.\d+: it pays for"
    ) as no:
        offer("server.step = [0.1, 1.0]", "privacy.mechanism.scale=9", epsilon=4.0, trials=50)
    affordable = float(str(no.value).partition("--trials ")[2].split()[0])
    assert 1 < affordable < 50
    few = offer("server.step = [0.1, 1.0]", "privacy.mechanism.scale=9", epsilon=4.0, trials=affordable)
    assert few.epsilon.upper <= 4


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (["privacy.mechanism={kind='Plain'}"], "Plain promises nothing"),
        (["privacy.budget=3"], "privacy.budget"),
        (["attack={kind='Ipm', knowledge='everything'}", "clients.byzantine=2"], "cannot be foreseen"),
        (["privacy.trust=central", "aggregation={kind='PrivateMean'}"], "noise"),
        (
            ["attack={kind='Backdoor', source=1, features=[0]}", "clients.byzantine=2"],
            "with a source its attackers train on other clients' records",
        ),
    ],
)
def test_what_no_price_speaks_of_is_refused(changes: list[str], why: str) -> None:
    with pytest.raises(FedprivError, match=why):
        offer("server.step = [0.1, 1.0]", *changes)


@settings(max_examples=3, deadline=None)
@given(epsilon=st.floats(0.2, 40), trials=st.floats(1, 200), delta=st.sampled_from([1e-3, 1e-5, 1e-9]))
def test_the_price_is_met_from_below(epsilon: float, trials: float, delta: float) -> None:
    found = offer("server.step = [0.1, 1.0]", epsilon=epsilon, trials=trials, delta=delta)
    assert 0.98 * epsilon <= found.epsilon.upper <= epsilon
    assert found.delta == delta


def test_settings_that_cost_differently_are_priced_by_the_worst() -> None:
    both = offer("run.rounds = [1, 9]")
    assert both.epsilon.upper <= 4
    assert len(set(both.trials)) == 2
