"""Flower's ClientApp: one node, which hosts a cohort of clients; a SuperNode of one client runs the same code.

A SuperNode has a process for each message, which hands it to the node's worker (`clients.flower.warm`). So only what
both need is loaded here; the rest is where an answer is made (`clients.flower.answering`).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

import clients
from clients.flower import answering, warm
from clients.flower.answering import RAISED, RAW, is_deployed, is_executor
from clients.flower.code import code_identity
from clients.flower.place import at_home
from fedpriv.errors import FAULTS

app = ClientApp()


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """Flower's first question to a node: its partition, of how many, and the code it runs, for the server's grid."""
    place: list[Any] = [context.node_config.get(name) for name in ("partition-id", "num-partitions")]
    if None in place:
        return Message(Error(RAISED, "the node's --node-config lacks partition-id or num-partitions"), reply_to=message)
    about = ConfigRecord({
        "place": [int(each) for each in place], "code": code_identity(), "where": str(clients.__file__),
        "deployed": is_deployed(context),
    })  # fmt: skip
    _prepare(context)
    return Message(RecordDict({"about": about}), reply_to=message)


def _prepare(context: Context) -> None:
    """Before a node's first round: start its worker or load what answers need, and log what is wrong with its data."""
    if is_executor():
        looked_at = warm.begin_worker(context.node_config)  # a worker looks at the node's data when it starts
        policy = context.node_config.get("policy")
        if not looked_at and isinstance(policy, str):
            from clients.node.own_records import told_at_start, write_log

            write_log(told_at_start(Path(policy)))
    elif not is_deployed(context):
        answering.answer_of(None, {})  # loaded before anybody waits for a round


@app.train()
def train(message: Message, context: Context) -> Message:
    """Flower's train message: the clients' reply to a round, or an Error of one line that says why there is none."""
    return _replied("", message, context)


@app.train("mask")
def mask(message: Message, context: Context) -> Message:
    """Flower's message of one phase of a masked sum: this node's bytes, or an Error of one line why it is not in."""
    return _replied("mask", message, context)


def _replied(action: str, message: Message, context: Context) -> Message:
    """The reply to a `train` or `mask` message: the worker's answer, else one made here; an Error if there is none."""
    at_home()
    content = message.content if message.has_content() else RecordDict()
    outcome = None
    if is_executor():  # the node's worker answers, in time; what is wrong with a message is said where it is answered
        with suppress(*FAULTS), answering.ended_when_late(content.config_records["task"]):
            outcome = warm.answered_by_worker(code_identity(), action, content, context)
    reply, why = outcome or answering.answered_message(action, content, context)
    if why:
        return Message(Error(RAISED, why), reply_to=message)
    array = Array("uint8", (len(reply),), RAW, reply)
    return Message(RecordDict({"answer": ArrayRecord({"frames": array})}), reply_to=message)
