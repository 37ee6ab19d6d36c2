"""Masked sums in a Flower app: exact over dropouts and liars, opened once, refused where they would not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from numpy.typing import NDArray

from fedpriv.errors import FedprivError
from fedpriv.flower import Private, SumsOnly, private, read_ledgers
from fedpriv.masking import vector
from fedpriv.mechanisms import Binomial, Gaussian, Laplace, Mechanism, StochasticSign
from fedpriv.trust import Sums
from tests.flower_apps import (
    Nodes,
    array_record,
    copied,
    flower_identity,
    held_out_accuracy,
    softmax_app,
    softmax_model,
)

__all__ = ["flower_identity"]
MECHANISM = Binomial(clip=1.0, peak=0.25, scale=0.9, trials=4)
FEWEST: Any = np.int64(4)  # numpy's numbers are as good as Python's
SUMS = SumsOnly(fewest=FEWEST)
COUNT = 6
PHASES = ("keys", "shares", "vector", "opening")
Change = Callable[[Message], Message | None]


def silent(_: Message) -> None:
    """No reply."""


def failed(reply: Message) -> Message:
    """A reply of Flower's that the node raised."""
    return Message(Error(2, "raised"), reply_to=asked_by(reply))


def garbled(reply: Message) -> Message:
    """A reply whose bytes are cut short."""
    for record in reply.content.config_records.values():
        record["body"] = bytes(record["body"])[:-1]  # type: ignore[arg-type]
    for name, arrays in list(reply.content.array_records.items()):
        for array in arrays.values():
            array.data = array.data[:-1]
        reply.content[name] = arrays
    return reply


def emptied(reply: Message) -> Message:
    """A reply that holds nothing."""
    reply.content = RecordDict()
    return reply


def asked_by(reply: Message) -> Message:
    """A message that a reply can be to: what it is to is read off its metadata."""
    found = Message(RecordDict(), reply.metadata.src_node_id, "train")
    found.metadata.__dict__["_src_node_id"] = reply.metadata.dst_node_id
    return found


class Members(Nodes):
    """Nodes that keep their state between messages, as Flower does; `changes` of replies are by phase and partition."""

    def __init__(self, folder: Path, sums: SumsOnly | None = SUMS, **settings: Any) -> None:
        super().__init__(moving_app([private(MECHANISM, ledger=folder, sums=sums, **settings)]), COUNT)
        self.states: dict[int, RecordDict] = {}
        self.changes: dict[tuple[str, int], Change] = {}
        self.said: list[str] = []  # errors of nodes

    def context(self, node: int) -> Context:
        found = super().context(node)
        found.state = self.states.setdefault(node, found.state)
        return found

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        found = []
        for message in messages:
            self.asked.append(message)
            reply, place = self.answered(copied(message)), self.ids.index(message.metadata.dst_node_id)
            if reply.has_error():
                self.said.append(reply.error.reason or "")
            change = self.changes.get((phase_of(message), place))
            after = reply if change is None else change(reply)
            found += [] if after is None else [after]
        return found[::-1]


def phase_of(message: Message) -> str:
    """The phase of a masked sum that a message is of."""
    found = message.content.config_records.get("fedpriv.sum")
    return "" if found is None else str(found["phase"])


def moving_app(mods: list[Any]) -> ClientApp:
    """An app whose clients move the model by their own number."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        assert list(message.content) == ["arrays", "config"]  # what the sum needs is nothing to the app
        moved = message.content.array_records["arrays"]["w"].numpy() + 0.1 * int(context.node_config["partition-id"])
        return Message(RecordDict({"arrays": array_record(w=moved.astype(np.float32))}), reply_to=message)

    return app


def model() -> ArrayRecord:
    return array_record(w=np.zeros(50, np.float32))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[NDArray[np.int64]]:
    """What each node has drawn, before its mask, in the order in which they did."""
    found: list[NDArray[np.int64]] = []
    steps = vector.sum_steps

    def noted(own: NDArray[np.int64], count: int, mechanism: Mechanism) -> NDArray[np.int64]:
        """The steps of a node's message, which the test keeps."""
        found.append(own)
        return steps(own, count, mechanism)

    monkeypatch.setattr(vector, "sum_steps", noted)
    return found


def run(nodes: Nodes, rounds: int = 1, sums: SumsOnly = SUMS, **settings: Any) -> Any:
    return Private(FedAvg(), MECHANISM, sums=sums, **settings).start(nodes, model(), num_rounds=rounds)  # type: ignore[arg-type]


def test_a_stock_app_learns_from_sums_alone_and_the_ledgers_agree_with_the_metrics(tmp_path: Path) -> None:
    sums = SumsOnly(fewest=16, byzantine=1)

    class Digits(Members):
        def __init__(self) -> None:
            Nodes.__init__(self, softmax_app([private(MECHANISM, ledger=tmp_path, sums=sums)]))
            self.states, self.changes, self.said = {}, {}, []

    result = Private(FedAvg(), MECHANISM, sums=sums).start(Digits(), softmax_model(), num_rounds=4)  # type: ignore[arg-type]
    assert held_out_accuracy(result.arrays) > 0.5
    told = result.train_metrics_clientapp[4]
    assert told["answered"] == 20
    for ledger in read_ledgers(tmp_path).values():
        assert [event.trust for event in ledger.events] == [Sums(15)]
        assert ledger.epsilon(1e-5) == pytest.approx((told["epsilon-lower"], told["epsilon"]), rel=1e-3)


@pytest.mark.parametrize("change", [silent, failed, garbled, emptied])
@pytest.mark.parametrize("phase", PHASES)
def test_the_sum_is_exactly_that_of_whose_vectors_came(
    tmp_path: Path, drawn: list[NDArray[np.int64]], phase: str, change: Change
) -> None:
    nodes = Members(tmp_path)
    nodes.changes = {(phase, 2): change, (phase, 4): change}
    result = run(nodes)
    order = [nodes.ids.index(message.metadata.dst_node_id) for message in messages_of(nodes, "vector")]
    gone = (2, 4) if phase == "vector" else ()
    left = [own for place, own in zip(order, drawn, strict=True) if place not in gone]
    assert len(left) == (COUNT if phase == "opening" else COUNT - 2)
    expected = MECHANISM.decode(sum(left), len(left))
    np.testing.assert_allclose(result.arrays["w"].numpy(), expected, atol=1e-6)
    told = result.train_metrics_clientapp[1]
    assert told["answered"] == len(left)
    charged = {name: sum(each.rounds for each in own.events) for name, own in read_ledgers(tmp_path).items()}
    assert sum(charged.values()) == len(drawn)  # who had drawn was charged, and nobody else


@pytest.mark.parametrize("phase", PHASES)
def test_of_too_few_there_is_no_sum_and_the_run_goes_on(tmp_path: Path, phase: str) -> None:
    nodes = Members(tmp_path)
    nodes.changes = {(phase, place): silent for place in (0, 2, 4)}
    strategy = Private(FedAvg(), MECHANISM, sums=SUMS)
    result = strategy.start(nodes, model(), num_rounds=2)  # type: ignore[arg-type]
    assert not result.arrays["w"].numpy().any()
    told: dict[str, Any] = dict(result.train_metrics_clientapp[2])
    assert told["epsilon"] > 0  # who was asked may have been charged
    nodes.changes = {}
    assert strategy.start(nodes, model(), num_rounds=1).arrays["w"].numpy().any()  # type: ignore[arg-type]


def test_what_leaves_a_node_is_no_message_of_its_mechanism(tmp_path: Path, drawn: list[NDArray[np.int64]]) -> None:
    nodes, found = Members(tmp_path), []

    def seen(reply: Message) -> Message:
        found.append(reply.content.array_records["fedpriv"]["fedpriv"].data)
        return reply

    nodes.changes = {("vector", place): seen for place in range(COUNT)}
    run(nodes)
    # 6 messages of 0 … 4 steps need 5 bits a coordinate; masked, each residue is about as frequent as any other
    residues = [np.unpackbits(np.frombuffer(each, np.uint8)[-32:]) for each in found]
    assert 0.4 < np.mean(residues) < 0.6
    assert len(drawn) == COUNT


def test_a_nodes_secrets_are_not_on_its_disk(tmp_path: Path) -> None:
    nodes, secrets = Members(tmp_path), list[bytes]()

    def noted(reply: Message) -> Message:
        for state in nodes.states.values():
            for kept in state.config_records.values():
                told: dict[str, Any] = dict(kept)
                secrets.extend(told[name] for name in ("channel", "pairing", "seed") if told[name])
        return reply

    nodes.changes = {("shares", place): noted for place in range(COUNT)}
    run(nodes)
    assert len(set(secrets)) >= 3 * COUNT
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert not [each for each in secrets if each in written or each.hex().encode() in written]


def messages_of(nodes: Members, phase: str) -> list[Message]:
    return [message for message in nodes.asked if phase_of(message) == phase]


@pytest.mark.parametrize("phase", ["shares", "vector", "opening"])
def test_a_phase_asked_again_is_refused_and_draws_nothing(
    tmp_path: Path, drawn: list[NDArray[np.int64]], phase: str
) -> None:
    nodes = Members(tmp_path)
    run(nodes)
    for message in messages_of(nodes, phase):
        reply = nodes.answered(copied(message))
        assert reply.has_error()
        assert "masking" in str(reply.error.reason)
    assert len(drawn) == COUNT


@pytest.mark.parametrize("phase", ["shares", "vector", "opening"])
def test_a_state_that_flower_hands_out_again_is_refused(
    tmp_path: Path, drawn: list[NDArray[np.int64]], phase: str
) -> None:
    nodes, kept = Members(tmp_path), dict[int, RecordDict]()
    answer = nodes.answered

    def answered(message: Message) -> Message:
        node = message.metadata.dst_node_id
        if phase_of(message) == phase:
            kept[node] = RecordDict(
                {name: ConfigRecord(dict(own)) for name, own in nodes.states[node].config_records.items()}
            )
        return answer(message)

    nodes.answered = answered  # type: ignore[method-assign]
    run(nodes)
    nodes.states = dict(kept)
    for message in messages_of(nodes, phase):
        reply = answer(copied(message))
        assert reply.has_error()
        assert "been through that phase" in str(reply.error.reason)
    assert len(drawn) == COUNT


def test_a_second_sum_of_a_round_gets_no_second_vector(tmp_path: Path, drawn: list[NDArray[np.int64]]) -> None:
    nodes, strategy = Members(tmp_path), Private(FedAvg(), MECHANISM, sums=SUMS)
    for asked in range(2):
        messages = strategy.configure_train(1, model(), ConfigRecord(), nodes)  # type: ignore[arg-type]
        replies = nodes.send_and_receive(messages)
        arrays, _ = strategy.aggregate_train(1, replies)
        assert (arrays is None) == bool(asked)
    assert len(drawn) == COUNT
    assert all("answered already" in why for why in nodes.said)
    assert len(nodes.said) == COUNT


def lied(nodes: Members, phase: str, words: dict[str, Any]) -> list[str]:
    """What nodes say where the server tells them something else in a phase than it should."""
    ask = nodes.answered

    def answered(message: Message) -> Message:
        if phase_of(message) == phase:
            message.content.config_records["fedpriv.sum"].update(words)
        return ask(message)

    nodes.answered = answered  # type: ignore[method-assign]
    result = run(nodes)
    assert not result.arrays["w"].numpy().any()
    return nodes.said


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("keys", {"place": -1}), ("keys", {"place": 7}), ("keys", {"members": 10**9}), ("keys", {"place": 1.5}),
        ("keys", {"sums": "SumsOnly(fewest=1)"}), ("keys", {"phase": "none"}), ("keys", {"body": "words"}),
        ("shares", {"body": b""}), ("shares", {"body": b"x" * 700}), ("shares", {"phase": "vector"}),
        ("vector", {"body": b""}), ("vector", {"body": b"\x06\0\0\0" + bytes(10)}), ("vector", {"phase": "opening"}),
        ("opening", {"body": b""}), ("opening", {"body": b"\x01\0\0\0" + bytes(8)}), ("opening", {"phase": "shares"}),
    ],
)  # fmt: skip
def test_a_server_that_says_what_does_not_fit_is_refused_in_a_line(
    tmp_path: Path, phase: str, words: dict[str, Any]
) -> None:
    said = lied(Members(tmp_path), phase, words)
    assert len(said) >= 1
    assert all("\n" not in why and ("masking" in why or "fedpriv" in why) for why in said)


def test_members_told_of_other_members_give_no_sum(tmp_path: Path) -> None:
    nodes = Members(tmp_path)
    said = lied(nodes, "keys", {"place": 0})  # everybody is the first
    assert said
    assert all("masking" in why for why in said)


def test_a_member_that_is_sent_another_model_is_in_no_sum(tmp_path: Path, drawn: list[NDArray[np.int64]]) -> None:
    nodes = Members(tmp_path)
    ask = nodes.answered

    def answered(message: Message) -> Message:
        if phase_of(message) == "vector" and message.metadata.dst_node_id == nodes.ids[0]:
            message.content["arrays"] = array_record(w=np.full(50, 7, np.float32))
        return ask(message)

    nodes.answered = answered  # type: ignore[method-assign]
    found = run(nodes).arrays["w"].numpy()
    assert len(drawn) == COUNT
    honest = MECHANISM.decode(sum(drawn), COUNT)
    assert np.mean(np.isclose(found, honest, atol=1e-6)) < 0.3  # its mask does not come off: what is left is noise


def test_both_sides_must_say_sums_and_the_same(tmp_path: Path) -> None:
    for name, own, server, why in (
        ("a", None, SUMS, "private(…, sums=SumsOnly(…))"),
        ("b", SUMS, None, "answer in masked sums alone"),
        ("c", SUMS, SumsOnly(fewest=5), "the server has fewest=5"),
    ):
        nodes = Members(tmp_path / name, own)
        result = run(nodes, sums=server)  # type: ignore[arg-type]
        assert not result.arrays["w"].numpy().any()
        assert len(nodes.said) == COUNT
        assert all(why in each for each in nodes.said)
        assert not any(tmp_path.rglob("answers/*"))


def test_keys_of_nodes_are_refused_rather_than_passed_over(tmp_path: Path) -> None:
    nodes = Members(tmp_path)
    nodes.config = {"identity": "/key", "peers": "/peers"}
    run(nodes)
    assert all("checks no keys of nodes" in why for why in nodes.said)


def test_what_no_sum_can_do_is_refused_when_it_is_made(tmp_path: Path) -> None:
    for rule in ("Krum byzantine=1", "Median", "TrimmedMean dropped=1"):
        with pytest.raises(FedprivError, match="looks at each message"):
            Private(FedAvg(), MECHANISM, rule=rule, sums=SUMS)
    for mechanism in (Laplace(clip=1, noise=1), Gaussian(clip=1, noise=1)):
        with pytest.raises(FedprivError):
            Private(FedAvg(), mechanism, sums=SUMS)
    with pytest.raises(FedprivError, match="no certificate"):
        private(Laplace(clip=1, noise=1), ledger=tmp_path, sums=SUMS)


def test_signs_in_sums_are_read_as_votes(tmp_path: Path, drawn: list[NDArray[np.int64]]) -> None:
    sign = StochasticSign(clip=1, peak=0.25, scale=1)
    nodes = Members(tmp_path)
    nodes.app = moving_app([private(sign, ledger=tmp_path, sums=SUMS)])
    strategy = Private(FedAvg(), sign, rule="MajorityVote", sums=SUMS)
    found = strategy.start(nodes, model(), num_rounds=1).arrays["w"].numpy()  # type: ignore[arg-type]
    votes = sum(drawn)
    assert (np.sign(votes)[votes != 0] == found[votes != 0]).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"fewest": 0}, {"fewest": 2.5}, {"fewest": 3, "byzantine": 3}, {"fewest": 4, "byzantine": 2, "colluding": 2},
        {"fewest": 4, "byzantine": -1}, {"fewest": 4, "neighbours": -1}, {"fewest": float("nan")},
    ],
)  # fmt: skip
def test_a_sum_in_which_nobody_is_certain_to_have_drawn_noise_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(FedprivError):
        SumsOnly(**settings)


def test_a_budget_counts_messages_in_sums(tmp_path: Path) -> None:
    from fedpriv.accounting.ledger import Budget

    nodes = Members(tmp_path, budget=Budget(60.0, 1e-5))
    result = run(nodes, rounds=8, budget=Budget(60.0, 1e-5))
    rounds = len(result.train_metrics_clientapp)
    assert 1 <= rounds < 8
    assert result.train_metrics_clientapp[rounds]["epsilon"] <= 60


@pytest.mark.parametrize("phase", ["keys", "shares", "opening"])
def test_a_strangers_part_in_a_sum_of_few_neighbours_is_rejected_and_counted(tmp_path: Path, phase: str) -> None:
    sums = SumsOnly(fewest=16, neighbours=4)

    class WithStranger(Members):
        def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
            sent = list(messages)
            found = list(super().send_and_receive(sent, timeout=timeout))
            if sent and phase_of(sent[0]) == phase:
                found.append(copied(found[0]))
                found[-1].__dict__["_metadata"] = deepcopy(found[0].metadata)
                found[-1].metadata.__dict__["_src_node_id"] = 424242
            return found

    nodes = WithStranger(tmp_path, sums)
    nodes.ids = list(range(1, 17))
    told = run(nodes, sums=sums).train_metrics_clientapp[1]
    assert (told["answered"], told["rejected"], told["rejected-sender"]) == (16, 1, 1)
