"""Two lines in somebody's Flower app: what leaves, what is charged, what the server makes of it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedProx, FedYogi, Strategy

from fedpriv.flower import Private, _answering, private, read_ledgers
from fedpriv.mechanisms import StochasticSign
from tests.flower_apps import Nodes, flower_identity, held_out_accuracy, softmax_app, softmax_model

__all__ = ["flower_identity"]
SIGN = StochasticSign(clip=1, peak=0.25, scale=1)


@pytest.mark.parametrize(
    "strategy",
    [
        FedAvg(), FedAvgM(server_momentum=0.5), FedAdam(eta=0.05), FedYogi(eta=0.05), FedProx(proximal_mu=0.1),
    ],
    ids=lambda own: type(own).__name__,
)  # fmt: skip
def test_a_stock_app_learns_in_private_with_two_lines_and_its_servers_optimiser_goes_on(
    tmp_path: Path, strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    random.seed(7)  # by which Flower orders the nodes
    rng = np.random.default_rng(7)
    monkeypatch.setattr(_answering, "cryptographic_generator", lambda: rng)  # the same noise in every run of the test
    nodes = Nodes(softmax_app([private(SIGN, ledger=tmp_path)], rate=1.0))
    result = Private(strategy, SIGN).start(nodes, softmax_model(), num_rounds=5)
    assert held_out_accuracy(result.arrays) > 0.18
    told = result.train_metrics_clientapp[5]
    assert told["answered"] == 20
    assert told["rejected"] == 0


def test_every_nodes_ledger_agrees_with_the_metrics(tmp_path: Path) -> None:
    nodes = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 5)
    result = Private(FedAvg(), SIGN).start(nodes, softmax_model(), num_rounds=3)
    told = result.train_metrics_clientapp[3]
    ledgers = read_ledgers(tmp_path)
    assert sorted(ledgers) == [f"node-{own}" for own in range(5)]
    for ledger in ledgers.values():
        low, high = ledger.epsilon(1e-5)
        assert (low, high) == pytest.approx((told["epsilon-lower"], told["epsilon"]), rel=1e-6)


def test_the_strategy_inside_steps_from_the_same_direction_as_its_server_optimiser_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped = []
    for inner in (FedAvg(), FedAvgM(server_learning_rate=0.5)):
        random.seed(7)  # by which Flower orders the nodes
        rng = np.random.default_rng(7)
        monkeypatch.setattr(_answering, "cryptographic_generator", lambda rng=rng: rng)
        nodes = Nodes(softmax_app([private(SIGN, ledger=tmp_path / type(inner).__name__)]), 3)
        stepped.append(Private(inner, SIGN).start(nodes, softmax_model(), num_rounds=1).arrays["w"].numpy())
    assert stepped[1] == pytest.approx(stepped[0] / 2, abs=1e-6)
    assert np.abs(stepped[0]).max() > 0.1
