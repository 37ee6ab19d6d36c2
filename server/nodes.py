"""The round's messages through Flower's grid: who the nodes are, asking them, and what comes back or does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from logging import getLogger
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from clients.flower.answering import RAISED, RAW, REFUSED
from clients.flower.code import code_identity
from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError
from server.rounds.driver import Answer, Task

MASK = f"{MessageType.TRAIN}.mask"  # the clients' handler of a masked sum's phases
WITH_MODEL = "vector"  # the only one of these in which clients train
FRUITLESS = 3  # rounds in which all of a simulation's nodes are lost, before it is ended


@dataclass(frozen=True)
class Sent:
    """A message on its way to a node."""

    node: int  # Flower's id of it
    ask: int  # the exchange; 0: an introduction
    partition: int  # of the node, −1 as long as it has none
    clients: Numbers  # whose messages it was asked for
    weight: int  # bytes of the message


class GridDriver:
    """Asks nodes for their clients' messages. Partition p of P holds the clients p·N/P … (p+1)·N/P, rounded down.

    Node ids are random in every run and replies come in any order, so nodes are known by partition and replies by the
    message they reply to. `restarted` says that a process which ends is started again at once (as
    simulations.flower.launch arranges), `stop` whether somebody wants the run to end: it is raised as
    KeyboardInterrupt where we wait.
    """

    def __init__(
        self, grid: Grid, clients: int, *, restarted: bool = False, stop: Callable[[], bool] = lambda: False
    ) -> None:
        self.late = 0  # replies that came when nobody waited for them
        self.deployed = False  # whether nodes are somebody's, and not simulated
        self._grid = grid
        self._clients = clients  # of the study, in all partitions
        self._restarted = restarted
        self._stop = stop
        self._asks = 0  # exchanges so far
        self._rounds = 0  # so far
        self._fruitless = 0  # rounds running in which all nodes were lost
        self._asked = set[int]()  # partitions, in this round
        self._waiting: dict[str, Sent] = {}  # for replies, by the message's id
        self._met: set[int] = set()  # nodes that were asked for their partition
        self._nodes: dict[int, int] = {}  # partition → node
        self._partitions = 0  # as many as the nodes say there are; 0 before any has
        self._refused: list[str] = []  # why nodes were not taken in
        self._told: set[str] = set()  # reasons that Flower's log has shown
        self._silent: dict[int, tuple[int, int]] = {}  # partition → how often it was late in a row, not asked until
        self._lost: set[int] = set()  # partitions whose node may come back as another: Flower spoke last, in its stead

    def meet(self, patience: float) -> None:
        """Wait until every partition has its node on Flower's grid (the server starts before nodes are there)."""
        for _ in self._arrivals(patience, lambda: bool(self._refused) or 0 < self._partitions <= len(self._nodes)):
            pass
        if self._refused:
            raise FedprivError(self._refused[0])
        if not 0 < self._partitions <= len(self._nodes):
            wanted = f"{len(self._nodes)} of {self._partitions or 'any'}"
            raise FedprivError(f"Flower: {wanted} nodes answered within {patience:g} s; look at the nodes' own output")

    def ask(self, task: Task) -> Iterator[Answer]:
        """Nodes' answers in a round, as they come; at the time-out, one without content for each node that owes one."""
        with self.one_round():
            for _, answer in self.exchange(task, self.cohorts(task.clients)):
                yield answer

    @contextmanager
    def one_round(self) -> Iterator[None]:
        """A context of one round, which leaves late nodes out; at its end it is seen which nodes are still there."""
        self._rounds += 1
        self._asked = set[int]()
        yield
        all_lost = bool(self._asked) and self._asked <= self._lost
        self._fruitless = self._fruitless + 1 if self._restarted and all_lost else 0
        if self._fruitless == FRUITLESS:  # each more round of a simulation would be charged for nothing
            raise FedprivError(
                f"Flower: every node was lost {FRUITLESS} times running, its workers are gone; --resume goes on"
            )

    def exchange(
        self, task: Task, cohorts: Mapping[int, Numbers], phase: str = "", bodies: Mapping[int, bytes] | None = None
    ) -> Iterator[tuple[int, Answer]]:
        """Ask each partition's node, and give its answer as it comes; `phase` and `bodies` are of a masked sum."""
        self._asks += 1
        self._asked |= set(cohorts)
        yield from list(self._send(task, cohorts, phase, bodies or {}))  # all under way before the first is waited for
        mine = self._asks
        for sent, reply in self._arrivals(task.timeout, lambda: not self._owing(mine)):
            if sent.ask == mine:
                yield sent.partition, self._opened(sent, reply)
            else:
                self.late += 1
            if reply.has_content():
                self._silent.pop(sent.partition, None)
            change = self._lost.add if reply.has_error() and reply.error.code != RAISED else self._lost.discard
            change(sent.partition)
        for sent in self._owing(mine):
            # A node that is late is left out for a round, then for three, seven, …: a hung one costs few time-outs.
            times = self._silent.get(sent.partition, (0, 0))[0] + 1
            self._silent[sent.partition] = (times, self._rounds + 2**times - 1)
            yield sent.partition, self._nothing(sent, f"late: no answer within {task.timeout:g} s")

    def close(self) -> None:
        """Nothing to let go of at a run's end: Flower ends its nodes."""

    def _send(
        self, task: Task, cohorts: Mapping[int, Numbers], phase: str, bodies: Mapping[int, bytes]
    ) -> Iterator[tuple[int, Answer]]:
        """Send each node its cohort's part of a round by Flower; what could not be sent is an answer already."""
        weights = Array(np.ascontiguousarray(task.weights))
        until = time.time() + task.timeout if self._restarted else 0.0  # another machine has another clock
        config = ConfigRecord({"study": task.study, "round": task.round, "seconds": task.timeout, "until": until,
                               "restarted": self._restarted, "code": code_identity()})  # fmt: skip
        words = {"phase": phase, "run": task.run, "asks": task.asks or ""}
        config.update({name: word for name, word in words.items() if word})  # Flower cannot weigh an empty one
        for partition, clients in cohorts.items():
            if self._rounds <= self._silent.get(partition, (0, 0))[1]:
                why = "silent: it was late before, and is asked again in a later round"
                yield partition, Answer(clients, None, why, 0)
                continue
            arrays = ArrayRecord({"clients": Array(clients)})
            if phase in ("", WITH_MODEL):
                arrays["weights"] = weights
            if partition in bodies:
                arrays["body"] = Array("uint8", (len(bodies[partition]),), RAW, bodies[partition])
            if (settings := task.settings_of(clients)) is not None:
                arrays["settings"] = Array(np.ascontiguousarray(settings))
            content = RecordDict({"arrays": arrays, "task": config})
            sent = Sent(self._nodes[partition], self._asks, partition, clients, _bytes(content))
            message = Message(content, sent.node, MASK if phase else MessageType.TRAIN, ttl=2 * task.timeout + 60)
            if not self._push(message, sent):
                yield partition, Answer(clients, None, "unsent: Flower did not take the message", 0)

    def cohorts(self, clients: Numbers) -> dict[int, Numbers]:
        """Which of these clients each partition's node hosts; partitions that host none are left out."""
        bounds = [part * self._clients // self._partitions for part in range(1, self._partitions)]
        parts = np.split(clients, np.searchsorted(clients, bounds))
        return {partition: own for partition, own in enumerate(parts) if len(own)}

    def _push(self, message: Message, sent: Sent) -> bool:
        """Send a node one message by Flower's grid, its reply awaited from now on; whether Flower has taken it."""
        found = [each for each in self._grid.push_messages([message]) if each]
        self._waiting.update((each, sent) for each in found)
        return bool(found)

    def _arrivals(self, seconds: float, enough: Callable[[], bool]) -> Iterator[tuple[Sent, Message]]:
        """Nodes' replies as they come, until there are enough or the time is over; new nodes are met meanwhile."""
        begun = time.monotonic()
        while not enough() and (passed := time.monotonic() - begun) < seconds:
            if self._stop():
                raise KeyboardInterrupt
            # Every node that is new is asked for its partition: at the start, and where one came back as another.
            everybody = 0 < self._partitions == len(self._nodes)
            if not everybody or self._silent or self._lost:
                for node in set(self._grid.get_node_ids()) - self._met:
                    self._met.add(node)
                    message = Message(RecordDict(), node, MessageType.QUERY)
                    self._push(message, Sent(node, 0, -1, np.empty(0, np.int64), 0))
            found = list(self._grid.pull_messages(list(self._waiting))) if self._waiting else []
            for reply in found:
                sent = self._waiting.pop(reply.metadata.reply_to_message_id, None)
                if sent is not None and sent.ask:
                    yield sent, reply
                elif sent is not None:
                    self._introduced(sent.node, reply)
            if not found:
                time.sleep(min(max(passed / 50, 0.002), 0.25))  # what looking too late costs, and looking too often

    def _introduced(self, node: int, reply: Message) -> None:
        """Take in a node that has said its partition and its code, or note why it is refused."""
        try:
            if reply.has_error():
                raise FedprivError(f"a client did not start: {_reason(reply)}")
            about: Any = reply.content.config_records["about"]  # whatever a node says: its types are checked by use
            partition, partitions = map(int, about["place"])
            if about["code"] != code_identity():
                raise FedprivError(f"clients run other code than this server, from {about['where']}: start them anew")
            if not 0 <= partition < partitions or self._partitions not in (0, partitions):
                raise FedprivError(f"a node calls itself partition {partition} of {partitions}")
            self._nodes[partition], self._partitions = node, partitions
            self.deployed |= bool(about["deployed"])
        except (FedprivError, KeyError, TypeError, ValueError) as error:
            self._refused.append(f"Flower: {error}")

    def _opened(self, sent: Sent, reply: Message) -> Answer:
        """A node's reply as an answer, or why it sent nothing: one malformed reply must not end the run."""
        if reply.has_error():
            return self._nothing(sent, _reason(reply))
        try:
            frames = reply.content.array_records["answer"]["frames"]
            if frames.stype != RAW:
                raise ValueError(frames.stype)
            return Answer(sent.clients, frames.data, "", sent.weight + _bytes(reply.content))
        except (KeyError, TypeError, ValueError) as error:
            return self._nothing(sent, f"malformed: {error!r}"[:300])

    def _nothing(self, sent: Sent, why: str) -> Answer:
        """An answer without content for a node that gave none; Flower's log shows each reason once."""
        if why not in self._told:
            self._told.add(why)
            getLogger("flwr").warning("partition %d, %d clients: %s", sent.partition, len(sent.clients), why)
        return Answer(sent.clients, None, why, sent.weight)

    def _owing(self, ask: int) -> list[Sent]:
        """The nodes' messages of one exchange that have no reply yet."""
        return [sent for sent in self._waiting.values() if sent.ask == ask]


def _bytes(content: RecordDict) -> int:
    """How many bytes a message's records weigh, for the transport that a round's timings tell."""
    return sum(record.count_bytes() for record in content.values())


def _reason(reply: Message) -> str:
    """Why a node's reply is an error, in one line of a round's records: refused, raised, or lost (Ray's cause)."""
    said = ("".join(filter(str.isprintable, line[:300])).strip() for line in (reply.error.reason or "").splitlines())
    lines = [line for line in said if line] or ["no reason given"]
    if lines[0].startswith(f"{REFUSED}: "):
        return lines[0][:300]
    if reply.error.code == RAISED and len(lines) == 1:
        return f"raised: {lines[0]}"
    return f"lost: {lines[-1 if 'RayTaskError' in lines[0] else 0][:300]}"
