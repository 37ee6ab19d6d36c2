"""Flower apps without Flower's runtime: a grid whose nodes are functions, and the digits over them, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

NODES = 20
Records = tuple[NDArray[Any], NDArray[Any]]


@pytest.fixture(autouse=True)
def flower_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages inside its runtime only."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@cache
def digits() -> Records:
    """The 1,797 digits as rows of 64 numbers between 0 and 1, shuffled once, and their labels."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return (x[order] / 16).astype(np.float32), y[order]


def digits_of(partition: int, partitions: int = NODES) -> Records:
    """The digits of one node; the last 360 are held out."""
    x, y = (each[:1437] for each in digits())
    return np.array_split(x, partitions)[partition], np.array_split(y, partitions)[partition]


class Nodes:
    """Flower's grid: messages go to a ClientApp, one node after the other, as bytes would."""

    def __init__(self, app: ClientApp | Callable[[Message, Context], Message], count: int = NODES, **run: Any) -> None:
        self.app, self.run = app, run
        self.ids = [(place * 7919 + 13) % 100_003 for place in range(count)]
        self.asked: list[Message] = []
        self.replies: list[Message] = []
        self.config: dict[str, Any] = {}  # of every node, beside its partition

    def context(self, node: int) -> Context:
        place = {"partition-id": self.ids.index(node), "num-partitions": len(self.ids)}
        config: Any = {**place, **self.config}
        config = {name: value for name, value in config.items() if value is not None}
        return Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config=self.run)

    def get_node_ids(self) -> Iterable[int]:
        return self.ids

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        del timeout
        sent = list(messages)
        self.asked += sent
        replies = [self.answered(copied(each)) for each in sent]
        self.replies += [copied(each) for each in replies]
        return replies[::-1]

    def answered(self, message: Message) -> Message:
        try:
            return copied(self.app(message, self.context(message.metadata.dst_node_id)))
        except Exception as error:  # as Flower does
            return Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=message)


def copied(message: Message) -> Message:
    """A message as it arrives: what a receiver does to it is nothing to the sender."""
    if message.has_error():
        return message
    parts: dict[str, Any] = {name: type(record)(dict(record.items())) for name, record in message.content.items()}
    found = Message(RecordDict(parts), 1, message.metadata.message_type)
    found.__dict__["_metadata"] = message.metadata
    return found


def array_record(**arrays: Any) -> ArrayRecord:
    """A model of numpy arrays."""
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def softmax_app(mods: list[Any] | None = None, steps: int = 4, rate: float = 0.5) -> ClientApp:
    """An app as Flower's numpy quickstart is: softmax regression, some local steps, weights and metrics returned."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = message.content.array_records["arrays"]
        w, b = arrays["w"].numpy(), arrays["b"].numpy()
        x, y = digits_of(int(context.node_config["partition-id"]))
        w, b = softmax_steps(w, b, x, y, steps, rate)
        metrics = MetricRecord({"num-examples": len(x), "train_loss": 0.5})
        return Message(RecordDict({"arrays": array_record(w=w, b=b), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        arrays = message.content.array_records["arrays"]
        x, y = digits_of(int(context.node_config["partition-id"]))
        right = (x @ arrays["w"].numpy() + arrays["b"].numpy()).argmax(1) == y
        metrics = MetricRecord({"num-examples": len(x), "accuracy": float(right.mean())})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def softmax_steps(w: Any, b: Any, x: Any, y: Any, steps: int, rate: float) -> tuple[Any, Any]:
    """Gradient steps of softmax regression on all of a node's records."""
    for _ in range(steps):
        scores = x @ w + b
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        shares[np.arange(len(y)), y] -= 1
        w, b = w - rate * (x.T @ shares / len(x)).astype(w.dtype), b - rate * shares.mean(0).astype(b.dtype)
    return w, b


def softmax_model() -> ArrayRecord:
    """The model's first weights."""
    return array_record(w=np.zeros((64, 10), np.float32), b=np.zeros(10, np.float32))


def held_out_accuracy(arrays: ArrayRecord) -> float:
    """The share of the held-out digits that a softmax model takes for what they are."""
    x, y = (each[1437:] for each in digits())
    return float(((x @ arrays["w"].numpy() + arrays["b"].numpy()).argmax(1) == y).mean())
