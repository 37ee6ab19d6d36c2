"""What a strategy's budget and ε count, over nodes that are started anew, rounds asked again, and several runs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import FedAvg

from fedpriv.accounting.ledger import Budget
from fedpriv.flower import Private, private, read_ledgers
from fedpriv.mechanisms import StochasticSign
from tests.flower_apps import Nodes, flower_identity, softmax_app, softmax_model

__all__ = ["flower_identity"]
SIGN = StochasticSign(clip=1, peak=0.25, scale=1)  # of three rounds at ε = 25, one at 12


def worst_of(folder: Path) -> float:
    return max(own.epsilon(1e-5).upper for own in read_ledgers(folder).values())


def test_a_budget_holds_for_nodes_that_are_started_anew_every_round(tmp_path: Path) -> None:
    nodes = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 2)
    strategy, model = Private(FedAvg(), SIGN, budget=Budget(25.0, 1e-5)), softmax_model()
    asked = []
    for round in range(1, 7):
        sent = list(strategy.configure_train(round, model, ConfigRecord(), nodes))  # type: ignore[arg-type]
        asked.append(len(sent))
        arrays, _ = strategy.aggregate_train(round, nodes.send_and_receive(sent))
        model = arrays or model
        nodes.ids = [each + 1000 for each in nodes.ids]
    assert asked == [2, 2, 2, 0, 0, 0]
    assert strategy.ended
    assert worst_of(tmp_path) <= 25


def test_a_budget_and_epsilon_are_of_all_runs_of_one_strategy_and_an_end_is_said_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 2)
    strategy = Private(FedAvg(), SIGN, budget=Budget(25.0, 1e-5))
    first = strategy.start(nodes, softmax_model(), num_rounds=2).train_metrics_clientapp[2]
    assert first["epsilon"] == pytest.approx(worst_of(tmp_path), rel=1e-9)
    second = strategy.start(nodes, softmax_model(), num_rounds=2).train_metrics_clientapp
    assert list(second) == [1]
    assert second[1]["epsilon"] == pytest.approx(worst_of(tmp_path), rel=1e-9)
    caplog.clear()
    third = strategy.start(nodes, softmax_model(), num_rounds=2)
    assert third.arrays == softmax_model()
    assert "ends the run, with the model as it is" in caplog.text
    assert len(nodes.asked) == 6


def test_who_is_asked_first_in_a_round_that_is_asked_again_is_counted_too(tmp_path: Path) -> None:
    random.seed(1)
    nodes = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 6)
    inner = FedAvg(fraction_train=0.34, min_train_nodes=2, min_available_nodes=6)
    strategy, model = Private(inner, SIGN, budget=Budget(12.0, 1e-5)), softmax_model()
    for round in range(1, 5):
        for _ in range(2):
            sent = list(strategy.configure_train(round, model, ConfigRecord(), nodes))  # type: ignore[arg-type]
            arrays, told = strategy.aggregate_train(round, nodes.send_and_receive(sent))
            if told is not None:
                assert told["epsilon"] >= worst_of(tmp_path) * (1 - 1e-9)
        model = arrays or model
    assert worst_of(tmp_path) <= 12
