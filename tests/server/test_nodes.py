"""Rounds through Flower's messages without its runtime: who is asked, and what becomes of every kind of reply."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given
from hypothesis import strategies as st

import clients
from clients import app as client
from clients.flower import answering
from clients.training.cohort import cohort_reply
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from server.directory.outcome import STOP, UNFINISHED, expect_failure, fail_job, is_over, job_ended, outcome_of
from server.nodes import GridDriver
from server.rounds.driver import Answer, Task

STUDY = """
name = "tiny"
data = { kind = "Synthetic", records = 60, features = 5, classes = 3, held_out = 20 }
clients = { count = 20, records = 2 }
privacy.mechanism = { kind = "StochasticSign", clip = 1.0, scale = 4.0 }
aggregation.kind = "MajorityVote"
run.rounds = 2
"""
Reply = Callable[[Message], Message | None]


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages inside its runtime only."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class FakeGrid:
    """Flower's grid with nodes that are functions; their ids are as arbitrary as Flower's."""

    def __init__(self, nodes: int, replies: Reply | None = None, there: int | None = None) -> None:
        self.ids = [(place * 7919 + 13) % 1000 for place in range(nodes)]
        self.there = nodes if there is None else there
        self.asked: list[tuple[int, list[int]]] = []  # node, clients
        self.takes = True
        self._replies, self._held = replies or self.answered, {}  # type: ignore[var-annotated]

    def context(self, node: int) -> Context:
        place: dict[str, Any] = {"partition-id": self.ids.index(node), "num-partitions": len(self.ids)}
        return Context(run_id=1, node_id=node, node_config=place, state=RecordDict(), run_config={})

    def answered(self, message: Message) -> Message | None:
        return client.app(message, self.context(message.metadata.dst_node_id))

    def get_node_ids(self) -> Iterable[int]:
        return self.ids[: self.there]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str | None]:
        for message in messages:
            name = f"m{len(self._held)}"
            message.metadata.__dict__["_message_id"] = name
            if message.metadata.message_type == "query":
                self._held[name] = self.answered(message)
            elif not self.takes:
                yield None
                continue
            else:
                clients = message.content.array_records["arrays"]["clients"].numpy()
                self.asked.append((self.ids.index(message.metadata.dst_node_id), clients.tolist()))
                self._held[name] = self._replies(message)
            yield name

    def pull_messages(self, names: Iterable[str]) -> Iterable[Message]:
        return [self._held.pop(name) for name in reversed(list(names)) if self._held.get(name) is not None]

    def arrive(self, name: str, reply: Message) -> None:
        """Let a reply be there from now on."""
        self._held[name] = reply


def driver(grid: FakeGrid, clients: int = 20, **settings: Any) -> GridDriver:
    made = GridDriver(grid, clients, **settings)  # type: ignore[arg-type]
    made.meet(1.0)
    return made


def task(clients: Iterable[int] = range(20), timeout: float = 5.0, round: int = 1) -> Task:
    return Task(round, np.zeros(18, np.float32), np.array(list(clients), np.int64), STUDY, timeout)


def holding(clients: Iterable[int], answers: Iterable[Answer]) -> dict[int, Answer]:
    found = {int(each): one for one in answers for each in one.asked}
    assert sorted(found) == sorted(clients)  # whatever happens, every client is accounted for
    return found


def raw(message: Message, stype: str = answering.RAW, outer: str = "answer", inner: str = "frames") -> Message:
    array = Array("uint8", (3,), stype, b"abc")
    return Message(RecordDict({outer: ArrayRecord({inner: array})}), reply_to=message)


@given(st.data())
def test_each_client_is_asked_of_the_one_node_that_holds_it(data: st.DataObject) -> None:
    nodes, count = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 40))
    clients = sorted(data.draw(st.sets(st.integers(0, count - 1))))
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    grid = FakeGrid(nodes, raw)
    holding(clients, driver(grid, count).ask(task(clients)))
    for partition, own in grid.asked:
        assert partition * count // nodes <= min(own) <= max(own) < (partition + 1) * count // nodes


def test_what_arrives_is_the_cohorts_own_reply_byte_for_byte() -> None:
    for found in driver(FakeGrid(3)).ask(task()):
        assert found.content == cohort_reply(STUDY, np.zeros(18, np.float32), 1, found.asked)
        assert found.transport > len(found.content) + 18 * 4


def test_too_few_nodes_are_counted_and_not_waited_for_without_end() -> None:
    with pytest.raises(FedprivError, match=r"2 of 3 nodes answered within 0\.1 s"):
        GridDriver(FakeGrid(3, there=2), 20).meet(0.1)  # type: ignore[arg-type]
    with pytest.raises(FedprivError, match=r"0 of any nodes answered"):
        GridDriver(FakeGrid(3, there=0), 20).meet(0.1)  # type: ignore[arg-type]


def test_code_of_another_checkout_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.nodes.code_identity", lambda: "another")
    with pytest.raises(FedprivError, match=rf"other code than this server, from {clients.__file__}"):
        driver(FakeGrid(2))


def test_nodes_that_contradict_each_other_are_refused() -> None:
    grid = FakeGrid(3)
    grid.context = lambda node: Context(1, node, {"partition-id": 3, "num-partitions": 3}, RecordDict(), {})  # type: ignore
    with pytest.raises(FedprivError, match="partition 3 of 3"):
        driver(grid)


def test_a_node_without_a_place_says_what_it_lacks() -> None:
    grid = FakeGrid(1)
    grid.context = lambda node: Context(1, node, {"partition-id": 0}, RecordDict(), {})  # type: ignore
    with pytest.raises(FedprivError, match="--node-config lacks partition-id or num-partitions"):
        driver(grid)


def test_a_client_that_cannot_be_imported_says_so_at_the_start() -> None:
    grid = FakeGrid(2)
    grid.answered = lambda message: Message(Error(0, "a\nModuleNotFoundError: no faults"), reply_to=message)  # type: ignore
    with pytest.raises(FedprivError, match="a client did not start"):
        driver(grid)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (lambda message: raw(message, stype="numpy.ndarray"), "malformed"),
        (lambda message: raw(message, outer="arrays"), "malformed"),
        (lambda message: raw(message, inner="arrays"), "malformed"),
        (lambda message: Message(RecordDict({"answer": ConfigRecord({"a": 1})}), reply_to=message), "malformed"),
        (lambda message: Message(RecordDict(), reply_to=message), "malformed"),
        (
            lambda message: Message(Error(answering.RAISED, "ValueError: boo"), reply_to=message),
            "raised: ValueError: boo",
        ),
        (lambda message: Message(Error(0, "ActorDied\nmore"), reply_to=message), "lost: ActorDied"),
        (lambda message: Message(Error(3), reply_to=message), "lost: no reason given"),
        (lambda message: None, "late: no answer within 0.05 s"),
    ],
)
def test_whatever_one_node_sends_the_others_answers_count(reply: Reply, why: str) -> None:
    grid = FakeGrid(2)
    grid._replies = lambda message: reply(message) if message.metadata.dst_node_id == grid.ids[0] else raw(message)
    found = holding(range(20), driver(grid).ask(task(timeout=0.05)))
    assert found[0].content is None
    assert found[0].error.startswith(why)
    assert found[0].transport > 0
    assert found[10].content == b"abc"
    assert not found[10].error


def test_a_client_that_raises_is_a_reply_that_says_what_was_raised() -> None:
    found = holding(range(20), driver(FakeGrid(2)).ask(Task(1, np.zeros(3, np.float32), np.arange(20), STUDY, 5.0)))
    assert all(each.content is None and each.error.startswith("raised: ") for each in found.values())


def test_a_message_that_flower_does_not_take_is_known_at_once() -> None:
    grid = FakeGrid(2)
    asking = driver(grid)
    grid.takes = False
    assert {each.error.split(":")[0] for each in asking.ask(task(timeout=60))} == {"unsent"}


def test_a_hung_node_costs_few_time_outs_and_is_taken_back_when_it_answers() -> None:
    hangs = True
    grid = FakeGrid(2)
    grid._replies = lambda message: None if hangs and message.metadata.dst_node_id == grid.ids[0] else raw(message)
    asking, waited = driver(grid), []
    for round in range(1, 16):
        found = holding(range(20), asking.ask(task(timeout=0.01, round=round)))
        assert found[10].content
        waited.append(found[0].error.split(":")[0])
    assert [round for round, why in enumerate(waited, 1) if why == "late"] == [1, 3, 7, 15]
    hangs = False
    for round in range(16, 48):
        found = holding(range(20), asking.ask(task(timeout=0.01, round=round)))
    assert found[0].content == b"abc"


def test_a_simulation_whose_workers_are_gone_is_ended_and_a_deployment_is_not() -> None:
    def lost(message: Message) -> Message:
        return Message(Error(0, "RayTaskError\nActorDiedError"), reply_to=message)

    for restarted in (True, False):
        asking = driver(FakeGrid(2, lost), restarted=restarted)
        assert [len(list(asking.ask(task()))) for _ in range(2)] == [2, 2]
        if not restarted:
            assert len(list(asking.ask(task()))) == 2
            continue
        with pytest.raises(FedprivError, match=r"lost 3 times running, its workers are gone; --resume goes on"):
            list(asking.ask(task()))


def test_a_node_that_was_lost_and_came_back_as_another_is_asked_again() -> None:
    def reply(message: Message) -> Message:
        lost = message.metadata.dst_node_id == was
        return Message(Error(3, "Node Unavailable"), reply_to=message) if lost else raw(message)

    class Moved(list[int]):
        """Node ids, of which the first was another."""

        def index(self, node: int, *_: Any) -> int:
            return 0 if node == was else super().index(node)

    grid = FakeGrid(2, reply)
    was, asking = grid.ids[0], driver(grid)
    assert holding(range(20), asking.ask(task()))[0].error.startswith("lost")
    grid.ids = Moved([999, grid.ids[1]])
    holding(range(20), asking.ask(task(round=2)))  # while the one that is gone is waited for, the other is found
    assert holding(range(20), asking.ask(task(round=3)))[0].content == b"abc"


def test_a_late_reply_is_counted_and_dropped_and_its_node_asked_again() -> None:
    kept: list[Message] = []

    def reply(message: Message) -> Message | None:
        if message.metadata.dst_node_id != grid.ids[0] or kept:
            return raw(message)
        kept.append(message)
        return None

    grid = FakeGrid(2, reply)
    asking = driver(grid)
    assert holding(range(20), asking.ask(task(timeout=0.02)))[0].error.startswith("late")
    grid.arrive(kept[0].metadata.message_id, raw(kept[0]))
    assert holding(range(20), asking.ask(task(round=2)))[0].error.startswith("silent")
    assert asking.late == 1
    assert holding(range(20), asking.ask(task(round=3)))[0].content


def test_a_wish_to_stop_is_an_interrupt_where_the_server_waits() -> None:
    stop = False
    asking = driver(FakeGrid(1, lambda message: None), stop=lambda: stop)
    stop = True
    with pytest.raises(KeyboardInterrupt):
        list(asking.ask(task(timeout=60)))


def test_a_message_that_waited_behind_a_hung_worker_is_not_computed() -> None:
    with pytest.raises(TimeoutError), answering.ended_when_late({"until": 1.0, "restarted": True, "seconds": 1.0}):
        raise AssertionError("computed")


def test_a_hung_client_ends_its_process_at_the_time_out() -> None:
    words = (
        "import time\nfrom clients.flower.answering import ended_when_late\n"
        "with ended_when_late({'until': 0.0, 'restarted': True, 'seconds': 0.2}): time.sleep(60)"
    )
    ended = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=50)
    assert ended.returncode == 1
    assert "Timeout" in ended.stderr


def test_a_client_in_time_ends_nothing() -> None:
    with answering.ended_when_late({"until": 0.0, "restarted": True, "seconds": 0.05}):
        pass
    time.sleep(0.1)  # and this process is still here


# --- how a run has ended ------------------------------------------------------------------------------------------


def test_a_run_has_failed_until_it_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"why": "finished"}')  # of an earlier run
    expect_failure(tmp_path)
    assert not is_over(tmp_path)
    with pytest.raises(FedprivError, match=UNFINISHED):
        outcome_of(tmp_path)
    job_ended(tmp_path)
    assert is_over(tmp_path)
    assert outcome_of(tmp_path) == {"why": "finished"}


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (FedprivError("data: no such file"), FedprivError, "^data: no such file$"),
        (ZeroDivisionError("by zero"), FedprivError, r"^ZeroDivisionError: by zero \(.*error.json.*\)$"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_what_ended_a_run_there_is_raised_here(
    error: BaseException, kind: type[BaseException], words: str | None, tmp_path: Path
) -> None:
    expect_failure(tmp_path)
    (tmp_path / STOP).touch()
    fail_job(tmp_path, error)
    assert is_over(tmp_path)
    with pytest.raises(kind, match=words):
        outcome_of(tmp_path)


def test_the_wish_to_stop_an_earlier_run_stops_no_later_one(tmp_path: Path) -> None:
    (tmp_path / STOP).touch()
    expect_failure(tmp_path)
    assert not (tmp_path / STOP).exists()


def test_the_study_of_these_tests_is_one() -> None:
    assert study_file.parsed_study(STUDY).clients.count == 20
