"""Apps, servers and nodes that are not as they should be: what is refused, what is survived, and what none can tell."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAvg

from fedpriv.accounting.ledger import Budget
from fedpriv.aggregation import Mean
from fedpriv.channel import Channel
from fedpriv.errors import FedprivError
from fedpriv.flower import Private, private, read_ledgers
from fedpriv.mechanisms import Binomial, Gaussian, NoisySign, StochasticSign, Ternary
from fedpriv.packed.symbols import packing_of
from tests.flower_apps import Nodes, array_record, copied, flower_identity, softmax_app, softmax_model

__all__ = ["flower_identity"]
SIGN = StochasticSign(clip=1, peak=0.25, scale=1)
MECHANISMS = [
    SIGN, Binomial(clip=1, peak=0.25, scale=1, trials=4), Ternary(clip=1, spread=4, scale=8), Gaussian(clip=1, noise=1),
]  # fmt: skip
Answer = Callable[[Message], RecordDict | Error | None]


def app_that(answers: Answer, **settings: Any) -> ClientApp:
    """An app whose training answers with whatever is given."""
    app = ClientApp(mods=[private(SIGN, **settings)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return Message(answers(message), reply_to=message)  # type: ignore[call-overload, no-any-return]

    return app


def one_round(app: Any, nodes: int = 3, **settings: Any) -> tuple[Nodes, MetricRecord]:
    """One round of an app: its grid, with the replies, and the metrics."""
    grid = Nodes(app, nodes)
    result = Private(FedAvg(), SIGN, **settings).start(grid, softmax_model(), num_rounds=1)
    return grid, result.train_metrics_clientapp[1]


def raising(message: Message) -> RecordDict:
    raise RuntimeError("record 17 is of Ms Smith")


def leaving(message: Message) -> RecordDict:
    raise SystemExit(3)


def cancelled(message: Message) -> RecordDict:
    raise asyncio.CancelledError


class Panic(BaseException):
    """What code in Rust raises."""


def panicking(message: Message) -> RecordDict:
    raise Panic("record 17")


def with_arrays(**arrays: Any) -> RecordDict:
    return RecordDict({"arrays": array_record(**arrays)})


W, B = np.ones((64, 10), np.float32), np.ones(10, np.float32)
UNUSABLE: dict[str, Answer] = {
    "raises": raising,
    "exits": leaving,
    "ends as asyncio does": cancelled,
    "ends as Rust does": panicking,
    "answers with nothing": lambda _: None,
    "an error of its own": lambda _: Error(0, "record 17"),
    "no arrays": lambda _: RecordDict({"metrics": MetricRecord({"num-examples": 3})}),
    "another shape": lambda _: with_arrays(w=W[:, :2], b=B),
    "a missing array": lambda _: with_arrays(w=W),
    "whole numbers": lambda _: with_arrays(w=W.astype(int), b=B),
    "nan": lambda _: with_arrays(w=W * np.nan, b=B),
    "infinity": lambda _: with_arrays(w=W * np.inf, b=B),
    "too large for a float32": lambda _: with_arrays(w=W.astype(float) * 1e300, b=B),
    "infinite in all": lambda _: with_arrays(w=W * np.inf, b=B * np.inf),
    "two models": lambda _: RecordDict({"a": array_record(w=W, b=B), "c": array_record(w=W, b=B)}),
    "no numbers": lambda _: RecordDict({"arrays": ArrayRecord({
        "w": Array("float32", (64, 10), "numpy.ndarray", b"?"), "b": Array(B)})}),
    "what no numpy wrote": lambda _: RecordDict({"arrays": ArrayRecord({
        "w": Array("float32", (64, 10), "torch", b"?"), "b": Array(B)})}),
}  # fmt: skip


@pytest.mark.parametrize("why", UNUSABLE)
def test_whatever_an_app_does_after_the_charge_a_message_of_0_leaves_that_looks_like_any_other(
    tmp_path: Path, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "fedpriv"):
        grid, told = one_round(app_that(UNUSABLE[why], ledger=tmp_path))
    usual, _ = one_round(softmax_app([private(SIGN, ledger=tmp_path / "usual")]))
    assert (told["answered"], told["rejected"]) == (3, 0)
    for reply, other in zip(grid.replies, usual.replies, strict=True):
        assert shape_of(reply) == shape_of(other)
    assert "an update of 0 is sent" in caplog.text  # in the node's own log
    assert len(read_ledgers(tmp_path)) == 3


def shape_of(reply: Message) -> Any:
    """All of a reply that is not the message itself."""
    return [
        (name, type(record), {key: len(own.data) if isinstance(own, Array) else own for key, own in record.items()})
        for name, record in reply.content.items()
    ]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda own: type(own).__name__)
@pytest.mark.parametrize("size", [1e-45, 1e-38, 1e-20, 1.0, 1e19, 3e38])
def test_an_app_that_has_numpy_and_python_raise_cannot_have_a_message_fail_by_its_numbers(
    tmp_path: Path, mechanism: Any, size: float
) -> None:
    def answers(message: Message) -> RecordDict:
        found = np.full((64, 10), size, np.float32)
        warnings.simplefilter("error")
        np.seterr(all="raise")
        return with_arrays(w=found, b=B * 0)

    app = ClientApp(mods=[private(mechanism, ledger=tmp_path)])
    app.train()(lambda message, context: Message(answers(message), reply_to=message))
    grid = Nodes(app, 1)
    with np.errstate(), warnings.catch_warnings():
        [sent] = Private(flower.FedAvg(min_available_nodes=1, min_train_nodes=1), mechanism).configure_train(
            1, softmax_model(), ConfigRecord(), grid)  # type: ignore[arg-type]  # fmt: skip
        reply = grid.answered(copied(sent))
    assert not reply.has_error()


def test_metrics_that_may_leave_do_so_whatever_the_update_is(tmp_path: Path) -> None:
    def answers(message: Message) -> RecordDict:
        return RecordDict({"arrays": array_record(w=W * np.nan, b=B), "metrics": MetricRecord({"steps": 4})})

    grid, _ = one_round(app_that(answers, ledger=tmp_path, metrics=["steps"]))
    assert dict(grid.replies[0].content["fedpriv.told"]) == {"steps": 4, "charged": 1}


def test_a_fault_in_drawing_sends_a_message_of_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Channel.messages

    def failing(self: Channel, updates: Any, noise: Any) -> Any:
        if np.any(updates):
            raise FloatingPointError("of this update")
        return drawn(self, updates, noise)

    monkeypatch.setattr(Channel, "messages", failing)
    _, told = one_round(app_that(lambda _: with_arrays(w=W, b=B), ledger=tmp_path))
    assert told["answered"] == 3


def test_the_largest_update_that_floats_hold_is_sent_like_any_other(tmp_path: Path) -> None:
    most = float(np.finfo(np.float32).max)
    _, told = one_round(app_that(lambda _: with_arrays(w=W * most, b=-B * most), ledger=tmp_path))
    assert (told["answered"], told["rejected"]) == (3, 0)


def test_a_message_of_0_is_drawn_from_no_data_at_all(tmp_path: Path) -> None:
    """Where every node's update is 0, the mean of many votes is about 0 at every coordinate."""
    grid = Nodes(app_that(raising, ledger=tmp_path), 50)
    result = Private(FedAvg(), SIGN).start(grid, softmax_model(), num_rounds=1)
    step = np.concatenate([each.numpy().ravel() for each in result.arrays.values()])
    assert abs(step.mean()) < 4 * 0.5 / np.sqrt(50 * 650) * 2  # a vote stands for ±1


def test_an_apps_errors_pass_as_they_are_where_its_settings_call_them_public(tmp_path: Path) -> None:
    grid, told = one_round(app_that(raising, ledger=tmp_path, errors="public"))
    assert "Ms Smith" in grid.replies[0].error.reason
    assert told["rejected-error"] == 3
    grid, told = one_round(app_that(lambda _: Error(0, "mine"), ledger=tmp_path / "b", errors="public"))
    assert grid.replies[0].error.reason == "mine"


def test_what_an_app_returns_beside_its_model_stays_at_home_unless_it_is_named(tmp_path: Path) -> None:
    def answers(message: Message) -> RecordDict:
        metrics = MetricRecord({"num-examples": 77, "train_loss": 0.25, "secret": 1.0})
        beside = ArrayRecord({"v": Array(B)})
        own = {"arrays": array_record(w=W, b=B), "metrics": metrics, "buffers": beside, "c": ConfigRecord({"x": "y"})}
        return RecordDict(own)  # type: ignore[arg-type]

    grid, told = one_round(app_that(answers, ledger=tmp_path))
    assert sorted(grid.replies[0].content) == ["fedpriv", "fedpriv.told"]
    assert dict(grid.replies[0].content["fedpriv.told"]) == {"charged": 1}
    grid, told = one_round(app_that(answers, ledger=tmp_path / "b", metrics=["train_loss"]), metrics=["train_loss"])
    assert dict(grid.replies[0].content["fedpriv.told"]) == {"train_loss": 0.25, "charged": 1}
    assert told["train_loss"] == 0.25
    assert "secret" not in told


def test_clients_without_the_mod_are_left_out_and_the_first_is_told_of_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bare, whole = softmax_app(), softmax_app([private(SIGN, ledger=tmp_path)])
    _, told = one_round(lambda message, context: (bare if context.node_config["partition-id"] < 2 else whole)(
        message, context), 5)  # fmt: skip
    assert (told["answered"], told["rejected-unprotected"]) == (3, 2)
    assert told["epsilon"] == told["mu"] == float("inf")  # of the worst node, whose update came as it was
    [line] = [each for each in caplog.records if "lacks fedpriv.flower.private among its mods" in each.message]
    assert line.levelname == "ERROR"


def test_a_server_that_wraps_no_strategy_gets_no_answer(tmp_path: Path) -> None:
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 3)
    result = FedAvg().start(grid, softmax_model(), num_rounds=1)
    assert not result.arrays
    assert "wrap the server's strategy" in grid.replies[0].error.reason
    assert read_ledgers(tmp_path) == {}


def test_two_nodes_with_one_ledger_are_refused(tmp_path: Path) -> None:
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 2)
    grid.config = {"partition-id": None}
    result = Private(FedAvg(), SIGN).start(grid, softmax_model(), num_rounds=1)
    told = result.train_metrics_clientapp[1]
    assert (told["answered"], told["rejected-error"]) == (1, 1)
    assert "one ledger is of one node" in next(each.error.reason for each in grid.replies if each.has_error())


def test_a_round_asked_again_is_answered_by_the_same_bytes_without_another_charge(tmp_path: Path) -> None:
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 2)
    Private(FedAvg(), SIGN).start(grid, softmax_model(), num_rounds=1)
    [asked, *_], [first, *_] = grid.asked, grid.replies
    again = grid.answered(copied(asked))
    assert again.content["fedpriv"]["fedpriv"].data == first.content["fedpriv"]["fedpriv"].data
    assert sum(event.rounds for event in read_ledgers(tmp_path)["node-0"].events) == 1
    other = copied(asked)
    other.content["arrays"] = array_record(w=W, b=B)
    assert "round 1 was answered already" in grid.answered(other).error.reason


@pytest.mark.parametrize("owner", [True, False])
def test_a_budget_refuses_before_anything_is_charged_and_the_owners_counts_too(tmp_path: Path, owner: bool) -> None:
    own = {} if owner else {"budget": Budget(25.0, 1e-5)}
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path, **own)]), 2)
    grid.config = {"fedpriv.epsilon": 25.0} if owner else {"fedpriv.epsilon": 1e6}
    result = Private(FedAvg(), SIGN).start(grid, softmax_model(), num_rounds=5)
    rounds = [result.train_metrics_clientapp[each]["answered"] for each in range(1, 6)]
    assert rounds == [2, 2, 2, 0, 0]
    assert "this node's budget" in grid.replies[-1].error.reason
    for ledger in read_ledgers(tmp_path).values():
        assert ledger.epsilon(1e-5).upper <= 25


def test_a_strategys_budget_ends_the_run_with_the_model_and_asks_nobody_more(tmp_path: Path) -> None:
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 2)
    strategy = Private(FedAvg(), SIGN, budget=Budget(25.0, 1e-5))
    seen: list[int] = []
    result = strategy.start(grid, softmax_model(), num_rounds=6, evaluate_fn=lambda round, _: seen.append(round))
    assert len(grid.asked) == 6
    assert list(result.train_metrics_clientapp) == [1, 2, 3]
    assert result.train_metrics_clientapp[3]["epsilon"] <= 25
    assert seen == [0, 1, 2, 3]
    assert result.arrays["w"].numpy().any()
    nothing = Private(FedAvg(), SIGN, budget=Budget(1.0, 1e-5)).start(grid, softmax_model(), num_rounds=2)
    assert nothing.arrays == softmax_model()


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut short": (lambda frame: frame[:-1], "truncated"),
    "empty": (lambda frame: b"", "truncated"),
    "too long": (lambda frame: frame + b"x" * 1000, "oversized"),
    "a bit changed": (lambda frame: frame[:-1] + bytes([frame[-1] ^ 128]), "checksum"),
    "noise": (lambda frame: b"\x80" * len(frame), "version"),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_malformed_reply_is_counted_and_the_others_go_on(tmp_path: Path, how: str) -> None:
    change, why = HOSTILE[how]
    app = softmax_app([private(SIGN, ledger=tmp_path)])

    def lying(message: Message, context: Context) -> Message:
        reply = app(message, context)
        if context.node_config["partition-id"] == 1:
            frame = change(reply.content["fedpriv"]["fedpriv"].data)
            reply.content["fedpriv"]["fedpriv"] = Array("uint8", (len(frame),), "bytes", frame)
        return reply

    _, told = one_round(lying, 4)
    assert (told["answered"], told["rejected"], told[f"rejected-{why}"]) == (3, 1, 1)


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(), RecordDict({"fedpriv": ArrayRecord()}), RecordDict({"fedpriv": MetricRecord({"x": 1})}),
        RecordDict({"fedpriv": array_record(fedpriv=B)}),
    ],
    ids=["nothing", "no frame", "metrics", "numbers"],
)  # fmt: skip
def test_a_reply_of_other_records_is_rejected(tmp_path: Path, content: RecordDict) -> None:
    app = softmax_app([private(SIGN, ledger=tmp_path)])
    _, told = one_round(lambda message, context: Message(content, reply_to=message)
                        if context.node_config["partition-id"] == 1 else app(message, context), 4)  # fmt: skip
    assert (told["answered"], told["rejected"]) == (3, 1)


def test_a_node_counts_once_whatever_it_sends_and_who_was_not_asked_does_not(tmp_path: Path) -> None:
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 3)
    strategy = Private(FedAvg(), SIGN)
    sent = list(strategy.configure_train(1, softmax_model(), ConfigRecord(), grid))  # type: ignore[arg-type]
    replies = list(grid.send_and_receive(sent))
    stranger = copied(replies[0])
    stranger.__dict__["_metadata"] = deepcopy(stranger.metadata)
    stranger.metadata.__dict__["_src_node_id"] = 424242
    _, told = strategy.aggregate_train(1, [*replies, copied(replies[1]), stranger])
    assert told is not None
    assert (told["answered"], told["rejected-duplicate"], told["rejected-sender"]) == (3, 1, 1)


def test_a_message_of_another_round_run_or_channel_is_rejected(tmp_path: Path) -> None:
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 3)
    first, second = Private(FedAvg(), SIGN), Private(FedAvg(), SIGN)
    old = list(grid.send_and_receive(first.configure_train(1, softmax_model(), ConfigRecord(), grid)))  # type: ignore
    second.configure_train(1, softmax_model(), ConfigRecord(), grid)  # type: ignore[arg-type]
    assert second.aggregate_train(1, [copied(each) for each in old])[1]["rejected-study"] == 3  # type: ignore[index]
    first.configure_train(2, softmax_model(), ConfigRecord(), grid)  # type: ignore[arg-type]
    assert first.aggregate_train(2, old)[1]["rejected-round"] == 3  # type: ignore[index]
    grid = Nodes(softmax_app([private(StochasticSign(clip=1, peak=0.25, scale=2), ledger=tmp_path / "b")]), 3)
    result = Private(FedAvg(), SIGN).start(grid, softmax_model(), num_rounds=1)
    assert result.train_metrics_clientapp[1]["rejected-error"] == 3
    assert "the server aggregates Norm StochasticSign" in grid.replies[0].error.reason


def test_evaluation_on_clients_is_off_unless_it_is_called_public(tmp_path: Path) -> None:
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 3)
    FedAvg().start(grid, softmax_model(), num_rounds=1)
    [*_, last] = grid.replies
    assert 'evaluate="public"' in last.error.reason
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path, evaluate="public")]), 3)
    result = Private(FedAvg(), SIGN, evaluate="public").start(grid, softmax_model(), num_rounds=1)
    assert 0 <= result.evaluate_metrics_clientapp[1]["accuracy"] <= 1
    query = Message(RecordDict(), grid.ids[0], "query")
    assert "no ledger" not in grid.answered(query).error.reason


def test_a_query_is_refused_for_nobody_knows_what_its_answer_tells(tmp_path: Path) -> None:
    app = softmax_app([private(SIGN, ledger=tmp_path)])

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return Message(RecordDict({"all": array_record(x=W)}), reply_to=message)

    grid = Nodes(app, 1)
    found = grid.answered(Message(RecordDict(), grid.ids[0], "query"))
    assert found.error.reason == "fedpriv: a message of type 'query' is none that a ledger can account for"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda own: own.pop("arrays"), "no ArrayRecord 'arrays'"),
        (lambda own: own["arrays"].pop("w"), "the server trains other arrays"),
        (lambda own: own["arrays"].update(w=Array(W * np.nan)), "not finite"),
        (lambda own: own["arrays"].update(w=Array("float32", (64, 10), "numpy.ndarray", b"")), "cannot be read"),
        (lambda own: own["arrays"].update(w=Array("float32", (10**9, 10**9), "numpy.ndarray", b"")), "cannot be read"),
        (lambda own: own["arrays"].update(w=Array("no such", (64, 10), "numpy.ndarray", b"")), "must be numpy's"),
        (lambda own: own["fedpriv"].update(round=0), "one fedpriv for both sides"),
        (lambda own: own["fedpriv"].update(round=1.5), "one fedpriv for both sides"),
        (lambda own: own["fedpriv"].pop("run"), "one fedpriv for both sides"),
        (lambda own: own["fedpriv"].update(version=7), "one fedpriv for both sides"),
    ],
)
def test_a_servers_message_that_is_none_is_refused_before_anything_is_charged(
    tmp_path: Path, content: Callable[[RecordDict], Any], message: str
) -> None:
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 2)
    [sent, *_] = Private(FedAvg(), SIGN).configure_train(1, softmax_model(), ConfigRecord(), grid)  # type: ignore
    own = copied(sent)
    content(own.content)
    assert message in grid.answered(own).error.reason
    assert read_ledgers(tmp_path) == {}


CHOOSERS = [
    flower.Krum(), flower.MultiKrum(num_malicious_nodes=1, num_nodes_to_select=2), flower.Bulyan(), flower.FedMedian(),
    flower.FedTrimmedAvg(), flower.QFedAvg(1.0),
]  # fmt: skip


@pytest.mark.parametrize("strategy", CHOOSERS, ids=lambda own: type(own).__name__)
def test_a_strategy_that_chooses_among_results_is_refused_naming_rule(strategy: flower.Strategy) -> None:
    with pytest.raises(FedprivError, match=rf"{type(strategy).__name__} chooses among.*rule="):
        Private(strategy, SIGN)


def test_strategies_of_another_privacy_and_two_in_one_another_are_refused() -> None:
    noisy = flower.DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 1.0, 2)
    for own in (noisy, Private(FedAvg(), SIGN), object()):
        with pytest.raises(FedprivError, match="is no strategy that averages"):
            Private(own, SIGN)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: private("StochasticSign clip=-1 scale=2"), "clip must be positive"),
        (lambda: private("StochasticSin clip=1"), "did you mean 'StochasticSign'"),
        (lambda: private(""), "a kind and its settings must be given"),
        (lambda: private(SIGN, budget=8.0), "budget must be a Budget"),
        (lambda: private(SIGN, evaluate="yes"), "evaluate '.*' is unknown"),
        (lambda: private(SIGN, errors="yes"), "errors 'yes' is unknown"),
        (lambda: private(SIGN, metrics="loss"), "metrics must be a collection of names"),
        (lambda: private(SIGN, frozen=[1]), "frozen must be a collection of names"),
        (lambda: Private(FedAvg(), SIGN, rule="Medan"), "did you mean 'Median'"),
        (lambda: Private(FedAvg(), SIGN, rule="FlTrust root=100"), "needs an update of the server's own"),
        (lambda: Private(FedAvg(), SIGN, budget=8.0), "budget must be a Budget"),
        (lambda: Private(FedAvg(), SIGN, delta=2.0), "delta must be at least 0 and below 1"),
        (lambda: Private(FedAvg(), SIGN, evaluate="all"), "evaluate '.*' is unknown"),
        (lambda: Private(FedAvg(), SIGN, metrics="loss"), "metrics must be a collection of names"),
        (lambda: Private(FedAvg(), NoisySign(clip=1, noise=1)), "rule='MajorityVote'"),
        (lambda: private(5), "a mechanism, its words or a Channel must be given, got 5"),
        (lambda: private(StochasticSign), "a mechanism, its words or a Channel must be given, got <class"),
        (lambda: Private(FedAvg(), None), "a mechanism, its words or a Channel must be given, got None"),
        (lambda: Private(FedAvg(), SIGN, rule=5), "rule must be a rule or its words"),
        (lambda: Private(FedAvg(), SIGN, rule=Mean), "rule must be a rule or its words"),
        (lambda: Private(FedAvg(), SIGN, delta=1), "delta must be at least 0 and below 1"),
        (lambda: private(SIGN, sums=16), r"sums must be SumsOnly, as in SumsOnly\(fewest=16\), got 16"),
        (lambda: Private(FedAvg(), SIGN, sums=16), "sums must be SumsOnly"),
        (lambda: private(SIGN, frozen=5), "frozen must be a collection of names"),
        (lambda: Private(FedAvg(), SIGN, metrics=None), "metrics must be a collection of names"),
        (lambda: private(SIGN, ledger=5), "ledger must be the name of a place"),
        (lambda: private(SIGN, ledger=""), "ledger must be the name of a place"),
        (lambda: private(SIGN, ledger="/a\0b"), "ledger must be the name of a place"),
        (lambda: private(SIGN, ledger="here"), "must be a full path"),
        (lambda: private(SIGN, ledger="~nosuch/x"), "Could not determine home directory"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_where_they_are_written(
    make: Callable[[], Any], message: str
) -> None:
    with pytest.raises(FedprivError, match=message):
        make()


@pytest.mark.parametrize(
    ("settings", "node", "message"),
    [
        ({}, {}, "no ledger"),
        ({}, {"fedpriv.ledger": "here"}, "must be a full path"),
        ({"ledger": "/proc/none"}, {}, "cannot be kept there"),
        ({"ledger": "/tmp/none"}, {"partition-id": "one"}, "partition-id must be a whole number"),
        ({"ledger": "/tmp/none"}, {"fedpriv.epsilon": -1.0}, "epsilon must be positive"),
        ({"ledger": "/tmp/none"}, {"fedpriv.epsilson": 8.0}, "did you mean 'fedpriv.epsilon'"),
        ({"ledger": "/tmp/none"}, {"fedpriv-epsilon": 8.0}, "'fedpriv-epsilon' is unknown here"),
        ({"ledger": "/tmp/none"}, {"fedpriv.delta": 1e-5}, "fedpriv.delta without fedpriv.epsilon is no budget"),
        ({"ledger": "/tmp/none"}, {"fedpriv.ledger": ""}, "ledger must be the name of a place"),
        ({"ledger": "/tmp/none"}, {"fedpriv.ledger": False}, "ledger must be the name of a place"),
        ({"ledger": "/tmp/none"}, {"fedpriv.ledger": "~nosuch/x"}, "Could not determine home directory"),
        ({"ledger": "/tmp/none", "frozen": ["nobody"]}, {}, "frozen names 'nobody'"),
    ],
)
def test_a_node_that_cannot_account_for_itself_says_why_and_answers_nothing(
    settings: dict[str, Any], node: dict[str, Any], message: str
) -> None:
    grid = Nodes(softmax_app([private(SIGN, **settings)]), 2)
    grid.config = node
    Private(FedAvg(), SIGN).start(grid, softmax_model(), num_rounds=1)
    assert message in grid.replies[0].error.reason


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda own: type(own).__name__)
@pytest.mark.parametrize("rule", [None, "Median", "TrimmedMean dropped=1", "GeometricMedian", Mean()], ids=str)
def test_any_mechanism_goes_through_any_rule_and_its_bytes_are_the_packed_ones(
    tmp_path: Path, mechanism: Any, rule: Any
) -> None:
    channel = Channel.of("normalise", mechanism)
    grid = Nodes(softmax_app([private(channel, ledger=tmp_path)]), 5)
    result = Private(FedAvg(), channel, rule=rule).start(grid, softmax_model(), num_rounds=1)
    assert result.train_metrics_clientapp[1]["answered"] == 5
    size, overhead = packing_of(mechanism).size(650), 42
    assert all(len(each.content["fedpriv"]["fedpriv"].data) <= size + overhead for each in grid.replies)


def test_votes_are_steps_of_one_that_a_servers_optimiser_makes_as_small_as_one_likes(tmp_path: Path) -> None:
    noisy = NoisySign(clip=1, noise=1)
    grid = Nodes(softmax_app([private(noisy, ledger=tmp_path)]), 5)
    inner = flower.FedAvgM(server_learning_rate=0.01)
    result = Private(inner, noisy, rule="MajorityVote").start(grid, softmax_model(), num_rounds=1)
    assert np.unique(np.abs(result.arrays["w"].numpy())) == pytest.approx([0.01])


def test_settings_come_from_the_runs_configuration_and_the_ledgers_place_from_its_owner(tmp_path: Path) -> None:
    words = "StochasticSign clip=1 peak=.25 scale=1"
    run = {"fedpriv.mechanism": words, "fedpriv.ledger": str(tmp_path / "servers")}
    grid = Nodes(softmax_app([private()]), 2, **run)
    grid.config = {"fedpriv.ledger": str(tmp_path / "owners")}
    told = Private(FedAvg(), words).start(grid, softmax_model(), num_rounds=1).train_metrics_clientapp[1]
    assert told["answered"] == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["owners"]


def test_a_node_that_was_started_anew_under_another_id_is_still_counted_by_its_ledger(tmp_path: Path) -> None:
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 2)
    strategy = Private(FedAvg(), SIGN)
    model, told = softmax_model(), None
    for round in (1, 2, 3):
        sent = strategy.configure_train(round, model, ConfigRecord(), grid)  # type: ignore[arg-type]
        arrays, told = strategy.aggregate_train(round, grid.send_and_receive(sent))
        model = arrays or model
        grid.ids = [each + 1000 for each in grid.ids]
    assert told is not None
    assert told["epsilon"] == pytest.approx(read_ledgers(tmp_path)["node-0"].epsilon(1e-5).upper, rel=1e-9)


def test_a_round_of_too_few_for_its_rule_changes_nothing(tmp_path: Path) -> None:
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 3)
    result = Private(FedAvg(), SIGN, rule="TrimmedMean dropped=2").start(grid, softmax_model(), num_rounds=1)
    assert result.arrays == softmax_model()
    assert result.train_metrics_clientapp[1]["answered"] == 3


def test_a_model_that_is_not_finite_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(FedprivError, match="the model holds numbers that are not finite"):
        Private(FedAvg(), SIGN).start(Nodes(softmax_app()), array_record(w=W * np.nan, b=B), num_rounds=1)


def test_a_round_whose_model_is_not_finite_changes_nothing_and_the_last_one_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 2)
    inner = flower.FedAvgM(server_learning_rate=1e38, server_momentum=0.9)
    with np.errstate(all="ignore"):
        result = Private(inner, SIGN).start(grid, softmax_model(), num_rounds=6)
    assert all(np.isfinite(each.numpy()).all() for each in result.arrays.values())
    assert "is not finite" in caplog.text
    told = result.train_metrics_clientapp[6]
    assert told["epsilon"] == pytest.approx(read_ledgers(tmp_path)["node-0"].epsilon(1e-5).upper, rel=1e-9)


def test_epsilon_from_below_is_of_messages_that_were_taken_alone(tmp_path: Path) -> None:
    grid = Nodes(lambda message, context: 1 / 0, 3)  # type: ignore[arg-type, return-value]
    told = Private(FedAvg(), SIGN).start(grid, softmax_model(), num_rounds=2).train_metrics_clientapp[2]
    assert told["epsilon-lower"] == 0 < told["epsilon"]
    app = softmax_app([private(SIGN, ledger=tmp_path)])

    def lying(message: Message, context: Context) -> Message:
        reply = app(message, context)
        if context.node_config["partition-id"] == 1:
            reply.content["fedpriv.told"] = MetricRecord({"charged": 10**9})
        return reply

    _, told = one_round(lying)
    assert told["epsilon-lower"] <= read_ledgers(tmp_path)["node-0"].epsilon(1e-5).upper < told["epsilon"]


def test_a_metric_too_large_for_a_mean_is_left_out_of_it(tmp_path: Path) -> None:
    app = softmax_app([private(SIGN, ledger=tmp_path, metrics=["train_loss"])])

    def lying(message: Message, context: Context) -> Message:
        reply = app(message, context)
        if context.node_config["partition-id"] == 1:
            reply.content["fedpriv.told"] = MetricRecord({"charged": 1, "train_loss": 1.7e308})
        return reply

    _, told = one_round(lying, metrics=["train_loss"])
    assert told["train_loss"] == 0.5


def test_replies_can_be_aggregated_twice(tmp_path: Path) -> None:
    grid, strategy = Nodes(softmax_app([private(SIGN, ledger=tmp_path)]), 3), Private(FedAvg(), SIGN)
    replies = list(grid.send_and_receive(strategy.configure_train(1, softmax_model(), ConfigRecord(), grid)))  # type: ignore[arg-type]
    first, again = strategy.aggregate_train(1, replies), strategy.aggregate_train(1, replies)
    assert first == again


def test_numbers_of_numpys_are_words_alike(tmp_path: Path) -> None:
    own = Binomial(clip=1, peak=0.25, scale=1, trials=4)
    other = Binomial(clip=np.float64(1), peak=0.25, scale=1, trials=np.int64(4))
    grid = Nodes(softmax_app([private(own, ledger=tmp_path)]), 2)
    told = Private(FedAvg(), other).start(grid, softmax_model(), num_rounds=1).train_metrics_clientapp[1]
    assert told["answered"] == 2
