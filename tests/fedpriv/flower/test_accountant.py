"""What Flower's own strategies give away, by the ledger that they are given: their real rounds, in this process."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import GaussianPrivacyEvent, PrivacyAccountant
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from fedpriv.accounting.event import by_hand
from fedpriv.accounting.ledger import Ledger
from fedpriv.errors import FedprivError
from fedpriv.flower import Accountant
from fedpriv.mechanisms import Gaussian
from fedpriv.trust import MOST

NODES = 4
SIDES = [DifferentialPrivacyServerSideFixedClipping, DifferentialPrivacyClientSideFixedClipping]


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages inside its runtime only."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Grid:
    """Flower's grid with nodes that add their number to the model."""

    def __init__(self, answers: Callable[[int], bool] = lambda _: True) -> None:
        self._answers = answers  # by node: whether it does

    def get_node_ids(self) -> list[int]:
        return list(range(NODES))

    def send_and_receive(self, messages: Any, timeout: float | None = None) -> list[Message]:
        return [self.trained(message) for message in messages if self._answers(message.metadata.dst_node_id)]

    def trained(self, message: Message) -> Message:
        if message.metadata.message_type == "evaluate":
            return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1})}), reply_to=message)
        model = message.content.array_records["arrays"].to_numpy_ndarrays()
        moved = ArrayRecord([each + np.float32(message.metadata.dst_node_id + 1) for each in model])
        return Message(RecordDict({"arrays": moved, "metrics": MetricRecord({"num-examples": 1})}), reply_to=message)


def event(noise: float = 1.5, sample: int = NODES, population: int = MOST) -> GaussianPrivacyEvent:
    return GaussianPrivacyEvent(noise_multiplier=noise, sample_size=sample, population_size=population)


def started(side: type, accountant: Accountant, rounds: int, grid: Grid | None = None) -> Any:
    strategy = side(FedAvg(), 1.5, 1.0, NODES, accountant=accountant)
    return strategy.start(
        grid=grid or Grid(), initial_arrays=ArrayRecord([np.zeros(3, np.float32)]), num_rounds=rounds,
        train_config=ConfigRecord(),
    )  # fmt: skip


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of two normal laws μ apart: Balle and Wang 2018, Theorem 8."""
    found = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    return float(found)


@pytest.mark.parametrize("side", SIDES)
def test_a_strategy_of_flowers_charges_what_it_releases_and_no_more(side: type) -> None:
    accountant = Accountant(epsilon=10, delta=1e-5)
    result = started(side, accountant, 8)
    assert result.arrays is not None
    assert accountant.num_releases == 8
    assert accountant.get_epsilon(1e-5) == 9.299893  # Flower's RdpAccountant: 9.9833
    lower, upper = accountant.ledger.epsilon(1e-5)
    assert 9.29989 < lower <= upper <= 9.299893
    assert gaussian_delta(math.sqrt(8) / 1.5, upper) <= 1e-5 <= gaussian_delta(math.sqrt(8) / 1.5, lower)


@pytest.mark.parametrize("side", SIDES)
def test_a_round_that_would_pass_the_budget_is_not_asked_for(side: type) -> None:
    accountant = Accountant(epsilon=5, delta=1e-5)
    with pytest.raises(PrivacyBudgetExhausted, match="current epsilon"):
        started(side, accountant, 100)
    assert 1 <= accountant.num_releases < 8
    assert accountant.get_epsilon(1e-5) <= 5
    assert accountant.would_exceed(event())


def test_a_round_that_lacks_a_client_releases_nothing_and_is_charged_nothing() -> None:
    accountant = Accountant(delta=1e-5)
    result = started(SIDES[0], accountant, 3, Grid(lambda node: node != 2))
    assert not result.arrays
    assert accountant.num_releases == 0
    assert accountant.get_epsilon(1e-5) == 0


def test_an_update_or_none_moves_the_average_by_the_clip_over_n_and_another_by_twice_that() -> None:
    class OneStands(Grid):
        """Client 0 returns the model, as who is absent does, or an update far off, or one as far the other way."""

        def __init__(self, far: float) -> None:
            super().__init__()
            self.far = far

        def trained(self, message: Message) -> Message:
            reply = super().trained(message)
            if message.metadata.dst_node_id == 0 and "arrays" in reply.content.array_records:
                reply.content["arrays"] = ArrayRecord([np.array([self.far, 0, 0], np.float32)])
            return reply

    found = {}
    for far in (1e-9, 50.0, -50.0):  # no update at all divides by zero: docs/flower-dp.md
        strategy = SIDES[0](FedAvg(), 1e-12, 1.0, NODES)
        grid: Any = OneStands(far)
        result = strategy.start(grid=grid, initial_arrays=ArrayRecord([np.zeros(3, np.float32)]), num_rounds=1)
        found[far] = result.arrays.to_numpy_ndarrays()[0]
    assert np.linalg.norm(found[50.0] - found[1e-9]) == pytest.approx(1 / NODES, abs=1e-6)
    assert np.linalg.norm(found[50.0] - found[-50.0]) == pytest.approx(2 / NODES, abs=1e-6)


@given(noise=st.floats(0.3, 50), rounds=st.integers(1, 10_000), delta=st.floats(1e-9, 0.1))
def test_epsilon_is_that_of_the_exact_curve_from_above(noise: float, rounds: int, delta: float) -> None:
    accountant = Accountant(delta=delta)
    accountant.compose(event(noise), rounds)
    found = accountant.get_epsilon(delta)
    if found < 700:
        assert gaussian_delta(math.sqrt(rounds) / noise, found) <= delta * (1 + 1e-9)
    assert found <= accountant.ledger.epsilon(delta).lower * (1 + 1e-5) + 2e-6
    assert float(f"{found:.6f}") >= accountant.ledger.epsilon(delta).upper  # as Flower's log prints it
    assert accountant.get_delta(1.0) >= gaussian_delta(math.sqrt(rounds) / noise, 1.0) * (1 - 1e-9)


def test_replacing_an_update_costs_what_twice_the_clip_does() -> None:
    accountant, doubled = Accountant(delta=1e-5, adjacency="replace"), Accountant(delta=1e-5)
    accountant.compose(event(3.0), 5)
    doubled.compose(event(1.5), 5)
    assert accountant.get_epsilon(1e-5) == doubled.get_epsilon(1e-5)


def test_it_is_flowers_protocol() -> None:
    accountant: PrivacyAccountant = Accountant(delta=1e-5)  # as the type checker sees it, and by name
    assert not [name for name in vars(PrivacyAccountant) if not name.startswith("_") and not hasattr(accountant, name)]
    spent = accountant.get_privacy_spent()
    assert (spent.epsilon, spent.delta, spent.num_releases) == (0, 1e-5, 0)
    assert "ideal Gaussian noise" in spent.accounting_method


def test_what_is_not_covered_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    accountant = Accountant(delta=1e-5)
    with caplog.at_level(logging.WARNING, "fedpriv"):
        for _ in range(3):
            accountant.compose(event())
    said = [record.getMessage() for record in caplog.records if record.name == "fedpriv"]
    assert len(said) == 1
    assert "ideal Gaussian noise" in said[0]


def test_looking_ahead_charges_nothing() -> None:
    accountant = Accountant(epsilon=10, delta=1e-5)
    assert not accountant.would_exceed(event(), count=7)
    assert accountant.would_exceed(event(), count=100)
    assert accountant.would_exceed(event(), max_epsilon=0.1)
    assert accountant.num_releases == 0


def test_a_state_goes_through_json_and_gives_the_same_numbers() -> None:
    accountant = Accountant(epsilon=10, delta=1e-5)
    accountant.compose(event(1.5), 3)
    accountant.compose(event(2.5), 2)
    other = Accountant(epsilon=10, delta=1e-5)
    other.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert other.num_releases == 5
    assert other.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)


def changed(state: Any, change: Callable[[Any], None]) -> dict[str, object]:
    found: dict[str, object] = json.loads(json.dumps(state))
    change(found)
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["events"][0].update(rounds=1),
        lambda state: state["events"][0]["settings"].update(noise=100.0),
        lambda state: state["events"].clear(),
        lambda state: state["events"].append(None),
        lambda state: state["config"].update(target_delta=0.1),
        lambda state: state.pop("digest"),
        lambda state: state.update(digest="0" * 64),
        lambda state: state.update(more=1),
        lambda state: state.update(schema_version=2),
        lambda state: state.update(backend="rdp"),
        lambda state: state.update(events=None),
        lambda state: state.update(events={object()}),
    ],
)
def test_a_state_that_was_tampered_with_is_refused_and_changes_nothing(change: Callable[[Any], None]) -> None:
    accountant = Accountant(epsilon=10, delta=1e-5)
    accountant.compose(event(), 3)
    other = Accountant(epsilon=10, delta=1e-5)
    with pytest.raises(FedprivError):
        other.load_state_dict(changed(accountant.state_dict(), change))
    assert other.num_releases == 0


def test_a_state_of_other_settings_or_that_forgets_a_release_is_refused() -> None:
    accountant = Accountant(epsilon=10, delta=1e-5)
    before = accountant.state_dict()
    accountant.compose(event())
    with pytest.raises(FedprivError, match="forgets releases"):
        accountant.load_state_dict(before)
    for other in (Accountant(epsilon=9, delta=1e-5), Accountant(epsilon=10, delta=1e-6)):
        with pytest.raises(FedprivError, match="another configuration"):
            other.load_state_dict(accountant.state_dict())
    with pytest.raises(FedprivError, match="other releases"):
        Accountant(epsilon=10, delta=1e-5, adjacency="replace").load_state_dict(accountant.state_dict())


def test_a_file_keeps_the_ledger_over_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    started(SIDES[0], Accountant(epsilon=10, delta=1e-5, file=file), 2)
    again = Accountant(epsilon=10, delta=1e-5, file=file)
    assert again.num_releases == 2
    started(SIDES[0], again, 1)
    assert Ledger.load(file).events[0].rounds == 3


def test_a_file_of_other_releases_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    Ledger((by_hand(Gaussian(clip=1, noise=1), trust="local"),)).save(file)
    with pytest.raises(FedprivError, match="holds other releases"):
        Accountant(delta=1e-5, file=file)
    file.write_text("{")
    with pytest.raises(FedprivError, match="not a ledger"):
        Accountant(delta=1e-5, file=file)


@pytest.mark.parametrize(
    "settings",
    [
        {"delta": 0.0}, {"delta": float("nan")}, {"delta": 1e-5, "epsilon": 0},
        {"delta": 1.0}, {"delta": 1e-5, "epsilon": float("nan")},
        {"delta": 1e-5, "adjacency": "other"}, {"delta": 1e-5, "population_size": 0},
        {"delta": 1e-5, "population_size": 2.5},
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(FedprivError):
        Accountant(**settings)


def test_an_event_that_is_none_of_this_accountants_is_refused() -> None:
    accountant = Accountant(delta=1e-5, population_size=50)
    for wrong in (event(population=60), 1.5, None):
        with pytest.raises(FedprivError):
            accountant.compose(wrong)  # type: ignore[arg-type]
    for count in (0, -1, 1.5, True):
        with pytest.raises(FedprivError):
            accountant.compose(event(population=50), count)  # type: ignore[arg-type]
    with pytest.raises(FedprivError, match="no budget to exceed"):
        accountant.would_exceed(event(population=50))
    assert accountant.num_releases == 0


def test_strategies_that_adapt_the_clip_take_no_accountant() -> None:
    with pytest.raises(TypeError, match="accountant"):
        DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(), 1.0, NODES, accountant=Accountant(delta=1e-5))  # type: ignore[call-arg]


def test_of_two_accountants_on_one_file_the_second_is_refused_and_nothing_is_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    first, second = (Accountant(delta=1e-5, file=file) for _ in range(2))
    first.compose(event(), count=8)
    with pytest.raises(FedprivError, match="was written by another accountant since"):
        second.compose(event())
    assert Accountant(delta=1e-5, file=file).num_releases == 8
    first.compose(event())
    file.unlink()
    with pytest.raises(FedprivError, match="was written by another accountant since"):
        first.compose(event())


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("server.json", "must be a full path"),
        (5, "must be the name of a place"),
        ("/no/such/server.json", "there is no directory '/no/such'"),
        ("~nosuch/server.json", "Could not determine home directory"),
    ],
)
def test_a_file_that_could_not_be_found_again_is_refused_as_it_is_named(file: Any, message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        Accountant(delta=1e-5, file=file)
    assert not Path("~").exists()
