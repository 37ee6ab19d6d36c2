"""Flower's ClientApp: one node, which hosts a cohort of clients; a SuperNode of one client runs the same code.

A SuperNode has a process for each message, which hands it to the node's worker (`clients.warm`). So only what both need
is loaded here; the rest is where an answer is made.
"""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from hashlib import blake2b
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

import clients
import fedpriv
from clients import warm
from clients.place import at_home
from fedpriv.errors import FAULTS, reason

if TYPE_CHECKING:
    from clients.guard import Node
    from clients.masking.node import Seal

RAW = "bytes"  # how a reply travels: as it is, where Flower's own arrays are wrapped by numpy.save
RAISED = 2  # Flower's code for an exception in a client's code
REFUSED = "refused"  # how the reason begins where a client's policy says no
EXECUTOR = "flwr-clientapp"  # Flower's process of one message

app = ClientApp()


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """Which partition this node holds, and the code it runs."""
    place: list[Any] = [context.node_config.get(name) for name in ("partition-id", "num-partitions")]
    if None in place:
        return Message(Error(RAISED, "the node's --node-config lacks partition-id or num-partitions"), reply_to=message)
    about = ConfigRecord({
        "place": [int(each) for each in place], "code": code(), "where": str(clients.__file__),
        "deployed": deployed(context),
    })  # fmt: skip
    if executor():
        if not warm.begin(context.node_config):  # which looks at the node's data when it starts
            _look(context.node_config)
    elif not deployed(context):
        answer_of(None, {})  # loaded before anybody waits for a round
    return Message(RecordDict({"about": about}), reply_to=message)


def _look(config: Mapping[str, Any]) -> None:
    """Say in the node's log how its data are, where no worker does."""
    from clients.own_records import say, told_at_start

    if isinstance(file := config.get("policy"), str):
        say(told_at_start(Path(file)))


@app.train()
def train(message: Message, context: Context) -> Message:
    """The answer of the clients asked for, or one line that says why there is none."""
    return _replied("", message, context)


@app.train("mask")
def mask(message: Message, context: Context) -> Message:
    """One phase of a masked sum (`clients.masking`), or one line that says why this node takes no part."""
    return _replied("mask", message, context)


def _replied(action: str, message: Message, context: Context) -> Message:
    at_home()
    content = message.content if message.has_content() else RecordDict()
    outcome = _from_worker(action, content, context) if executor() else None
    reply, why = outcome or answered(action, content, context)
    if why:
        return Message(Error(RAISED, why), reply_to=message)
    array = Array("uint8", (len(reply),), RAW, reply)
    return Message(RecordDict({"answer": ArrayRecord({"frames": array})}), reply_to=message)


def _from_worker(action: str, content: RecordDict, context: Context) -> warm.Outcome | None:
    """What the node's worker answers, in time; None where the answer is to be made here."""
    try:
        with ended_when_late(content.config_records["task"]):
            return warm.answered(code(), action, content, context)
    except FAULTS:  # what is wrong with the message is said where it is answered
        return None


def answered(action: str, content: RecordDict, context: Context) -> warm.Outcome:
    """The answer, made in time and under the node's policy, or one line that says why there is none."""
    from clients.policy import Refused

    try:
        task, arrays = content.config_records["task"], content.array_records["arrays"]
        node = node_of(context)
        with ended_when_late(task, node.policy.longest_round if node else inf):
            if node and task["code"] != code():
                raise Refused("the server runs another version of fedpriv than this client")
            return (_masked if action else _answered)(context, node, task, arrays), ""
    except Refused as error:
        return b"", f"{REFUSED}: {error}"
    except FAULTS as error:
        return b"", reason(error)


def _answered(_: Context, node: Node | None, task: Any, arrays: ArrayRecord) -> bytes:
    settings = arrays["settings"].numpy() if "settings" in arrays else None
    weights, asked = arrays["weights"].numpy(), arrays["clients"].numpy()
    return answer_of(node, task)(task["study"], weights, task["round"], asked, settings)


def answer_of(node: Node | None, task: Mapping[str, Any]) -> Callable[..., bytes]:
    """What answers for a node's clients: under its policy, or in a simulation just so."""
    from clients.cohort import answer
    from clients.gradients import one_thread

    one_thread()
    return partial(node.answer, run=str(task.get("run", ""))) if node else answer


def _masked(context: Context, node: Node | None, task: Any, arrays: ArrayRecord) -> bytes:
    from clients.masking import node as masked
    from clients.masking.identity import Identity
    from clients.masking.once import Marker
    from fedpriv import study_file

    text, round, asked = task["study"], task["round"], arrays["clients"].numpy()
    study = node.policy.read_study(text) if node else study_file.parsed(text)
    weights = arrays["weights"].numpy() if "weights" in arrays else np.empty(0, np.float32)
    if node:
        node.policy.check(study)

    def sealed(sum: bytes, seal: Seal) -> bytes:
        drawn = answer_of(node, task)
        if node:
            return drawn(text, weights, round, asked, masked=True, context=sum, sealed=seal)
        return seal(drawn(text, weights, round, asked))

    ask = masked.Ask(phase=task["phase"], text=text, round=round, clients=asked, body=arrays["body"].data,
                     weights=weights)  # fmt: skip
    config = context.node_config
    place = int(config["partition-id"]), int(config["num-partitions"])
    part = masked.Part(place=place, identity=Identity.of(config))
    if node:
        marker = Marker.of(node.policy_file.parent / node.policy.ledger, text, str(task.get("run", "")))
        part = replace(part, owner=node.policy.masking, marker=marker)
    return masked.answered(ask, study, part, context.state, sealed)


def node_of(context: Context) -> Node | None:
    """The node that guards its clients; None in a simulation, which has no clients of anybody's to guard."""
    if not deployed(context):
        return None
    from clients.guard import Node

    return Node.of(context.node_config)


def deployed(context: Context) -> bool:
    """Whether this is somebody's node, and no simulation of one."""
    return "policy" in context.node_config or executor()


def executor() -> bool:
    """Whether this process is one that Flower starts for a single message."""
    return Path(sys.argv[0]).name == EXECUTOR


@contextmanager
def ended_when_late(task: Mapping[str, Any], longest: float = inf) -> Iterator[None]:
    """End this process at the time-out, where another takes its place.

    A hung client would block its node, and the worker beneath it, for all later rounds and the next run (Flower has
    nothing against it). A SuperNode has a process for each message; a worker of Ray's is started anew where
    simulations.simulation has arranged it. The timer is the interpreter's: hanging in C is no escape.
    """
    if time.time() > task["until"] > 0:
        raise TimeoutError("asked too late: nobody waits for this answer any more")
    if task["restarted"] or "ray" not in sys.modules:
        faulthandler.dump_traceback_later(min(task["seconds"], longest), exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@cache
def code() -> str:
    """A hash of the sources that an answer depends on.

    Flower may import the client's code from another checkout than the server's; the two compare.
    """
    found = blake2b(digest_size=8)
    for package in (fedpriv, clients):
        root = Path(str(package.__file__)).parent
        for file in sorted(root.rglob("*.py")):
            found.update(f"{root.name}/{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return found.hexdigest()
