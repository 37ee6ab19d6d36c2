"""Flower's ClientApp: one node, which hosts a cohort of clients; a SuperNode of one client runs the same code."""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

import clients
import fedpriv
from clients.cohort import answer
from clients.gradients import one_thread, reason
from clients.place import at_home
from fedpriv.errors import FAULTS

RAW = "bytes"  # how a reply travels: as it is, where Flower's own arrays are wrapped by numpy.save
RAISED = 2  # Flower's code for an exception in a client's code

app = ClientApp()


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """Which partition this node holds, and the code it runs."""
    place: list[Any] = [context.node_config.get(name) for name in ("partition-id", "num-partitions")]
    if None in place:
        return Message(Error(RAISED, "the node's --node-config lacks partition-id or num-partitions"), reply_to=message)
    about = ConfigRecord({"place": [int(each) for each in place], "code": code(), "where": str(clients.__file__)})
    return Message(RecordDict({"about": about}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """The answer of the clients asked for, or one line that says why there is none."""
    del context
    at_home()
    one_thread()
    try:
        task: Any = message.content.config_records["task"]
        arrays = message.content.array_records["arrays"]
        with ended_when_late(task):
            settings = arrays["settings"].numpy() if "settings" in arrays else None
            weights, asked = arrays["weights"].numpy(), arrays["clients"].numpy()
            reply = answer(task["study"], weights, task["round"], asked, settings)
    except FAULTS as error:
        return Message(Error(RAISED, reason(error)), reply_to=message)
    array = Array("uint8", (len(reply),), RAW, reply)
    return Message(RecordDict({"answer": ArrayRecord({"frames": array})}), reply_to=message)


@contextmanager
def ended_when_late(task: Mapping[str, Any]) -> Iterator[None]:
    """End this process at the time-out, where another takes its place.

    A hung client would block its node, and the worker beneath it, for all later rounds and the next run (Flower has
    nothing against it). A SuperNode has a process for each message; a worker of Ray's is started anew where
    simulations.simulation has arranged it. The timer is the interpreter's: hanging in C is no escape.
    """
    if time.time() > task["until"] > 0:
        raise TimeoutError("asked too late: nobody waits for this answer any more")
    if task["restarted"] or "ray" not in sys.modules:
        faulthandler.dump_traceback_later(task["seconds"], exit=True, file=sys.__stderr__ or sys.stderr)
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
