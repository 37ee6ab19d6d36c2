"""A node's answer to one message, whichever process makes it: under its policy, in time, or one line why there is none.

Loading this loads little: a process of one message asks here whether a worker answers for it (`clients.flower.warm`).
"""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ArrayRecord, Context, RecordDict

from clients.flower.code import code_identity
from fedpriv.errors import FAULTS, reason

if TYPE_CHECKING:
    from clients.flower.masking import Seal
    from clients.node.guard import Node

RAW = "bytes"  # how a reply travels: as it is, where Flower's own arrays are wrapped by numpy.save
RAISED = 2  # Flower's code for an exception in a client's code
REFUSED = "refused"  # how the reason begins where a client's policy says no
EXECUTOR = "flwr-clientapp"  # Flower's process of one message

Outcome = tuple[bytes, str]  # an answer, or why there is none


def answered_message(action: str, content: RecordDict, context: Context) -> Outcome:
    """A node's answer to one message, in time and under its policy, and ""; else no bytes, and one line why."""
    from clients.node.policy import Refused

    try:
        task, arrays = content.config_records["task"], content.array_records["arrays"]
        node = node_of(context)
        with ended_when_late(task, node.policy.longest_round if node else inf):
            if node and task["code"] != code_identity():
                raise Refused("the server runs other code than this client: one version for both")
            if action:
                return _masked(context, node, task, arrays), ""
            weights, asked = arrays["weights"].numpy(), arrays["clients"].numpy()
            settings = arrays["settings"].numpy() if "settings" in arrays else None
            own = {"asks": task.get("asks")}
            return answer_of(node, task)(task["study"], weights, task["round"], asked, settings, **own), ""
    except Refused as error:
        return b"", f"{REFUSED}: {error}"
    except FAULTS as error:
        return b"", reason(error)


def answer_of(node: Node | None, task: Mapping[str, Any]) -> Callable[..., bytes]:
    """What answers a round for a node's clients: the guard of its policy, or in a simulation the cohort at once."""
    from clients.models.gradients import torch_on_one_thread
    from clients.training.cohort import cohort_reply

    torch_on_one_thread()
    return partial(node.answer, run=str(task.get("run", ""))) if node else cohort_reply


def _masked(context: Context, node: Node | None, task: Any, arrays: ArrayRecord) -> bytes:
    """A node's bytes in answer to one phase of a masked sum, once its policy has let the study pass."""
    from clients.flower import masking as masked
    from fedpriv.masking.identity import Identity
    from fedpriv.masking.once import Marker
    from fedpriv.studies import file as study_file
    from fedpriv.studies.identity import identity_text

    text, round, asked = task["study"], task["round"], arrays["clients"].numpy()
    study = node.policy.read_study(text) if node else study_file.parsed_study(text)
    weights = arrays["weights"].numpy() if "weights" in arrays else np.empty(0, np.float32)
    if node:
        node.policy.check(study)

    def sealed(sum: bytes, seal: Seal) -> bytes:
        """The clients' reply for one masked sum, which `sum` tells from others in the ledger, masked by `seal`."""
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
        marker = Marker.of(node.policy_file.parent / node.policy.ledger, identity_text(study), str(task.get("run", "")))
        part = replace(part, owner=node.policy.masking, marker=marker)
    return masked.answered_phase(ask, study, part, context.state, sealed)


def node_of(context: Context) -> Node | None:
    """The guard of a deployed node's clients, by its --node-config; None in a simulation, with nobody's to guard."""
    if not is_deployed(context):
        return None
    from clients.node.guard import Node

    return Node.of(context.node_config)


def is_deployed(context: Context) -> bool:
    """Whether Flower's context is that of somebody's own node, and of no simulation's."""
    return "policy" in context.node_config or is_executor()


def is_executor() -> bool:
    """Whether this process is one that a SuperNode starts for a single message: a worker of ours may answer it."""
    return Path(sys.argv[0]).name == EXECUTOR


@contextmanager
def ended_when_late(task: Mapping[str, Any], longest: float = inf) -> Iterator[None]:
    """A context that ends this process at a round's time-out, where another takes its place: hung, it blocks its node.

    A hung client would block its node, and the worker beneath it, for all later rounds and the next run (Flower has
    nothing against it). A SuperNode has a process for each message; a worker of Ray's is started anew where
    simulations.flower._simulation has arranged it. The timer is the interpreter's: hanging in C is no escape.
    """
    if time.time() > task["until"] > 0:
        raise TimeoutError("asked too late: nobody waits for this answer any more")
    if task["restarted"] or "ray" not in sys.modules:
        faulthandler.dump_traceback_later(min(task["seconds"], longest), exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
