"""Private evaluation in somebody's Flower app: one charged symbol of each node leaves, and what it comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from fedpriv.accounting.ledger import Budget
from fedpriv.errors import FedprivError
from fedpriv.flower import Private, PrivateEvaluation, PrivateLabels, private, read_ledgers
from fedpriv.mechanisms import Gaussian, StochasticSign
from tests.flower_apps import Nodes, digits_of, flower_identity, softmax_app, softmax_model

__all__ = ["flower_identity"]
SIGN = StochasticSign(clip=1, peak=0.25, scale=1)
ASKED = PrivateEvaluation(mechanism=StochasticSign(clip=1, scale=2))


def ran(folder: Path, app: ClientApp, rounds: int = 2, asked: Any = ASKED, **settings: Any) -> tuple[Nodes, Any]:
    nodes = Nodes(app)
    return nodes, Private(FedAvg(), SIGN, evaluate=asked, **settings).start(nodes, softmax_model(), num_rounds=rounds)


def evaluations(nodes: Nodes) -> list[Message]:
    return [each for each in nodes.replies if each.metadata.message_type.startswith("evaluate")]


def test_one_symbol_leaves_and_every_nodes_ledger_agrees_with_the_metrics(tmp_path: Path) -> None:
    nodes, result = ran(tmp_path, softmax_app([private(SIGN, ledger=tmp_path, evaluate=ASKED)]))
    told = result.evaluate_metrics_clientapp[2]
    assert (told["answered"], told["rejected"]) == (20, 0)
    w, b = (result.arrays[name].numpy() for name in ("w", "b"))
    own = [digits_of(each) for each in range(20)]
    truth = float(np.mean([((x @ w + b).argmax(1) == y).mean() for x, y in own]))
    assert told["low"] <= truth <= told["high"]
    for ledger in read_ledgers(tmp_path).values():
        low, high = ledger.epsilon(1e-5)
        assert told["epsilon"] == pytest.approx(high, rel=1e-6)
        assert told["epsilon-lower"] <= low
    for reply in evaluations(nodes):
        assert dict(reply.content.metric_records["fedpriv.told"]) == {"charged": reply_count(reply, nodes)}
        assert list(reply.content) == ["fedpriv", "fedpriv.told"]


def reply_count(reply: Message, nodes: Nodes) -> int:
    """How many evaluations that node had answered when it sent this reply."""
    same = [each for each in evaluations(nodes) if each.metadata.src_node_id == reply.metadata.src_node_id]
    return [id(each) for each in same].index(id(reply)) + 1


def test_an_evaluation_asked_again_is_answered_by_the_same_bytes_and_charged_once(tmp_path: Path) -> None:
    app = softmax_app([private(SIGN, ledger=tmp_path, evaluate=ASKED)])
    nodes, _ = ran(tmp_path, app, rounds=1)
    [asked] = [each for each in nodes.asked if each.metadata.message_type == "evaluate"][:1]
    before = read_ledgers(tmp_path)
    again = nodes.answered(asked)
    first = next(each for each in evaluations(nodes) if each.metadata.src_node_id == again.metadata.src_node_id)
    assert again.content["fedpriv"]["fedpriv"].data == first.content["fedpriv"]["fedpriv"].data
    assert read_ledgers(tmp_path) == before


@pytest.mark.parametrize("fault", ["raises", "nan", "nothing"])
def test_an_app_that_says_no_share_answers_all_the_same(tmp_path: Path, fault: str) -> None:
    app = softmax_app()
    broken = ClientApp(mods=[private(SIGN, ledger=tmp_path, evaluate=ASKED)])

    @broken.train()
    def train(message: Message, context: Context) -> Message:
        return app(message, context)

    @broken.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        if fault == "raises":
            raise ValueError("a secret of the data")
        metrics = {} if fault == "nothing" else {"accuracy": float("nan")}
        return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)

    nodes, result = ran(tmp_path, broken, rounds=1)
    told = result.evaluate_metrics_clientapp[1]
    assert told["answered"] == 20
    assert not any(each.has_error() for each in evaluations(nodes))


def test_a_budget_pays_for_evaluations_or_they_are_not_asked(tmp_path: Path) -> None:
    one = Private(FedAvg(), SIGN)
    nodes = Nodes(softmax_app([private(SIGN, ledger=tmp_path / "first")]))
    alone = one.start(nodes, softmax_model(), num_rounds=1).train_metrics_clientapp[1]["epsilon"]
    app = softmax_app([private(SIGN, ledger=tmp_path / "second", evaluate=ASKED)])
    nodes, result = ran(tmp_path, app, rounds=1, budget=Budget(alone + 0.5, 1e-5))
    assert not evaluations(nodes)
    assert result.train_metrics_clientapp[1]["epsilon"] == alone


def test_both_sides_must_ask_alike(tmp_path: Path) -> None:
    other = PrivateEvaluation(mechanism=StochasticSign(clip=1, scale=3))
    nodes, result = ran(tmp_path, softmax_app([private(SIGN, ledger=tmp_path, evaluate=other)]), rounds=1)
    assert all(each.has_error() for each in evaluations(nodes))
    assert result.evaluate_metrics_clientapp[1]["answered"] == 0


@pytest.mark.parametrize("mechanism", [StochasticSign(clip=2, scale=3), Gaussian(clip=1, noise=1), "StochasticSign"])
def test_a_mechanism_whose_error_is_not_known_is_refused(mechanism: Any) -> None:
    with pytest.raises(FedprivError, match="clip and peak 1"):
        PrivateEvaluation(mechanism=mechanism)


def test_a_count_of_right_ones_is_a_share_of_how_many() -> None:
    own = PrivateEvaluation(mechanism=StochasticSign(clip=1, scale=2), accuracy="right", of="count")
    assert own.told({"right": 3, "count": 4}) == 0.5
    with pytest.raises(FedprivError, match="from 0 to 1"):
        own.told({"right": 5, "count": 4})
    assert own.told({"right": 4 + 1e-7, "count": 4}) == 1  # an app's floats


@pytest.mark.parametrize("named", [{"accuracy": 5}, {"of": 5}])
def test_metrics_of_an_evaluation_are_named_in_words(named: Any) -> None:
    with pytest.raises(FedprivError, match="names of metrics"):
        PrivateEvaluation(mechanism=StochasticSign(clip=1, scale=2), **named)


def test_a_node_started_anew_under_another_id_is_counted_with_all_its_answers(tmp_path: Path) -> None:
    small = StochasticSign(clip=1, peak=0.01, scale=20)
    nodes = Nodes(softmax_app([private(small, ledger=tmp_path, evaluate=ASKED)]), 2)
    strategy, model = Private(FedAvg(), small, evaluate=ASKED), softmax_model()
    told: Any = None
    for round in (1, 2, 3):
        sent = strategy.configure_train(round, model, ConfigRecord(), nodes)  # type: ignore[arg-type]
        arrays, _ = strategy.aggregate_train(round, nodes.send_and_receive(sent))
        model = arrays or model
        sent = strategy.configure_evaluate(round, model, ConfigRecord(), nodes)  # type: ignore[arg-type]
        told = strategy.aggregate_evaluate(round, nodes.send_and_receive(sent))
        nodes.ids = [each + 1000 for each in nodes.ids]
    for ledger in read_ledgers(tmp_path).values():
        assert told["epsilon"] == pytest.approx(ledger.epsilon(1e-5).upper, rel=1e-6)


def test_an_evaluation_before_any_training_is_charged_and_told(tmp_path: Path) -> None:
    nodes = Nodes(softmax_app([private(SIGN, ledger=tmp_path, evaluate=ASKED)]), 2)
    strategy = Private(FedAvg(), SIGN, evaluate=ASKED, budget=Budget(8.0, 1e-5))
    sent = strategy.configure_evaluate(1, softmax_model(), ConfigRecord(), nodes)  # type: ignore[arg-type]
    told: Any = strategy.aggregate_evaluate(1, nodes.send_and_receive(sent))
    assert (told["answered"], told["epsilon-lower"]) == (2, 0)
    assert told["epsilon"] == pytest.approx(read_ledgers(tmp_path)["node-0"].epsilon(1e-5).upper, rel=1e-6)
    low = Private(FedAvg(), SIGN, evaluate=ASKED, budget=Budget(0.1, 1e-5))
    assert not list(low.configure_evaluate(1, softmax_model(), ConfigRecord(), nodes))  # type: ignore[arg-type]


def labelled_app(folder: Path, told: Any, asked: PrivateEvaluation) -> ClientApp:
    """The softmax app, whose evaluation says `told(y)` of its own labels beside its accuracy."""
    inner, app = softmax_app(), ClientApp(mods=[private(SIGN, ledger=folder, evaluate=asked)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return inner(message, context)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        reply = inner(message, context)
        _, y = digits_of(int(context.node_config["partition-id"]))
        reply.content["counted"] = MetricRecord({"labels": told(y)})
        return reply

    return app


WITH_LABELS = PrivateEvaluation(
    mechanism=StochasticSign(clip=1, scale=2), labels=PrivateLabels(classes=10, epsilon=8.0)
)


def test_labels_are_told_once_in_a_run_charged_and_within_their_intervals(tmp_path: Path) -> None:
    app = labelled_app(tmp_path, lambda y: np.bincount(y, minlength=10).tolist(), WITH_LABELS)
    nodes, result = ran(tmp_path, app, asked=WITH_LABELS, rounds=2)
    first, second = (result.evaluate_metrics_clientapp[round] for round in (1, 2))
    assert "labels" not in second
    truth = np.mean([np.bincount(y, minlength=10) / len(y) for _, y in map(digits_of, range(20))], axis=0)
    assert (np.array(first["labels-low"]) <= truth).all()
    assert (truth <= np.array(first["labels-high"])).all()
    assert sum(first["labels"]) == pytest.approx(1)
    for ledger in read_ledgers(tmp_path).values():
        assert second["epsilon"] == pytest.approx(ledger.epsilon(1e-5).upper, rel=1e-6)
        assert sum("RandomisedResponse" in type(event.mechanism).__name__ for event in ledger.events) == 1
    for reply in evaluations(nodes)[:20]:
        assert list(reply.content) == ["fedpriv", "fedpriv.told", "fedpriv.labels", "fedpriv.labels.told"]


def test_a_server_that_asks_for_labels_in_every_round_gets_the_same_bytes_and_charges_once(tmp_path: Path) -> None:
    app = labelled_app(tmp_path, lambda y: np.bincount(y, minlength=10).tolist(), WITH_LABELS)
    nodes, strategy, model = Nodes(app, 2), Private(FedAvg(), SIGN, evaluate=WITH_LABELS), softmax_model()
    told = []
    for round in (1, 2):
        strategy._labels_due = True
        sent = strategy.configure_evaluate(round, model, ConfigRecord(), nodes)  # type: ignore[arg-type]
        replies = nodes.send_and_receive(sent)
        found = {each.metadata.src_node_id: each.content.array_records["fedpriv.labels"]["fedpriv"] for each in replies}
        told.append({node: array.data for node, array in found.items()})
    assert told[0] == told[1]
    for ledger in read_ledgers(tmp_path).values():
        assert [event.rounds for event in ledger.events if "Randomised" in type(event.mechanism).__name__] == [1]


@pytest.mark.parametrize("told", [[1, 2], [0] * 10, [-1] + [1] * 9, [float("nan")] * 10])
def test_an_app_that_counts_no_labels_tells_one_all_the_same(tmp_path: Path, told: list[float]) -> None:
    nodes, result = ran(tmp_path, labelled_app(tmp_path, lambda _: told, WITH_LABELS), asked=WITH_LABELS, rounds=1)
    assert not any(each.has_error() for each in evaluations(nodes))
    assert sum(result.evaluate_metrics_clientapp[1]["labels"]) == pytest.approx(1)


@pytest.mark.parametrize(
    "wrong", [{"classes": 1}, {"classes": 65}, {"classes": 2.5}, {"epsilon": 0}, {"epsilon": 1e3}, {"counts": 5}]
)
def test_labels_that_cannot_be_told_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(FedprivError):
        PrivateLabels(**({"classes": 10, "epsilon": 3.0} | wrong))


def test_labels_are_paid_by_the_budget_or_nothing_is_asked(tmp_path: Path) -> None:
    dear = PrivateEvaluation(mechanism=StochasticSign(clip=1, scale=2), labels=PrivateLabels(classes=10, epsilon=30.0))
    strategy = Private(FedAvg(), SIGN, evaluate=dear, budget=Budget(8.0, 1e-5))
    nodes = Nodes(softmax_app([private(SIGN, ledger=tmp_path, evaluate=dear)]), 2)
    assert not list(strategy.configure_evaluate(1, softmax_model(), ConfigRecord(), nodes))  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [ASKED, WITH_LABELS], ids=["without labels", "with labels"])
def test_answers_lost_to_power_cuts_are_drawn_anew_charged_and_counted(
    tmp_path: Path, asked: PrivateEvaluation
) -> None:
    app = labelled_app(tmp_path, lambda y: np.bincount(y, minlength=10).tolist(), asked)
    nodes, strategy, model = Nodes(app, 2), Private(FedAvg(), SIGN, evaluate=asked), softmax_model()
    told: Any = None
    for round in (1, 2, 3, 4):
        sent = list(strategy.configure_evaluate(round, model, ConfigRecord(), nodes))  # type: ignore[arg-type]
        nodes.send_and_receive(sent)
        for place, file in enumerate(tmp_path.glob("node-*/answers/*")):
            if place % 2:
                file.write_bytes(b"")  # as a file is whose content never reached the disk
            else:
                file.unlink()
        told = strategy.aggregate_evaluate(round, nodes.send_and_receive(sent))
    for ledger in read_ledgers(tmp_path).values():
        assert told["epsilon"] >= ledger.epsilon(1e-5).upper * (1 - 1e-6)
        assert {event.rounds for event in ledger.events} >= {8}
