"""Nodes that leak or charge wrongly, one fault each: what an audit of them says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from clients import app
from clients.flower import answering
from clients.node.guard import Node
from clients.node.policy import Policy
from clients.training.cohort import Cohort
from clients.training.releasing import Releasing
from fedpriv.auditing.pairs import repeated_messages
from fedpriv.node.own_ledger import OwnLedger
from fedpriv.randomness.grid import FineGrid
from fedpriv.studies import file as study_file
from simulations.audit.node import Examined
from simulations.command_line import main
from tests.clients.node.test_neighbours import BARE, CLIENTS, TERMS
from tests.simulations.audit.test_audit_node import SHORT, faults, here, looked_at, node, study

__all__ = ["here"]
pytestmark = pytest.mark.slow  # each a node audited whole
MESSAGES = CLIENTS.replace("run.rounds = 10", "run.rounds = 1")
ADAPTS = BARE.replace("run.rounds = 10", "run.rounds = 2") + (
    "privacy.release = { kind='AdaptiveDpSgd', clip=0.5, noise=4.0, sampling=1.0, count_noise=4.0 }\n"
)

# --- what answers cannot be read ----------------------------------------------------------------------------------


def garbage(cohort: Cohort) -> bytes:
    return b"\xff" * 64 + np.asarray(cohort.pool.x)[-100:].tobytes()


def records(cohort: Cohort) -> bytes:
    return np.asarray(cohort.pool.x).tobytes()[:2000]


@pytest.mark.parametrize("sent", [garbage, records])
def test_an_answer_that_no_server_reads_is_a_fault_of_its_own(
    sent: Callable[[Cohort], bytes], here: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(Cohort, "reply", lambda self, *_: sent(self))
    assert "the node answers what no server reads" in faults(looked_at(node(here / "own"), MESSAGES))["round 1"]


def test_two_fresh_messages_under_one_charge_are_a_fault(here: Path, monkeypatch: Any) -> None:
    real = Cohort.reply
    monkeypatch.setattr(Cohort, "reply", lambda self, *about: real(self, *about) + real(self, *about))
    assert "bytes after the end" in faults(looked_at(node(here / "own"), MESSAGES))["round 1"]


def test_bytes_behind_a_failures_words_that_are_not_printed_are_a_fault(here: Path, monkeypatch: Any) -> None:
    real = Cohort.reply

    def hiding(self: Cohort, *about: Any) -> bytes:
        reply = bytearray(real(self, *about))
        reply[4] = 1  # one failure
        return bytes(reply) + (7).to_bytes(4, "little") + bytes([2, 1, 1 + len(self.pool) % 2])

    monkeypatch.setattr(Cohort, "reply", hiding)
    assert "no symbol accounts for" in faults(looked_at(node(here / "own"), MESSAGES))["round 1"]


# --- what stands beside the frames --------------------------------------------------------------------------------

Beside = Callable[[bytes, int, RecordDict, Message], None]


def metrics(reply: bytes, records: int, content: RecordDict, message: Message) -> None:
    content["m"] = MetricRecord({"num-examples": records})


def words(reply: bytes, records: int, content: RecordDict, message: Message) -> None:
    content["c"] = ConfigRecord({"note": str(records)})


def another_array(reply: bytes, records: int, content: RecordDict, message: Message) -> None:
    content.array_records["answer"]["loss"] = Array(np.float32([records]))


def a_shape(reply: bytes, records: int, content: RecordDict, message: Message) -> None:
    content["answer"] = ArrayRecord({"frames": Array("uint8", (len(reply), records), answering.RAW, reply)})


def a_group(reply: bytes, records: int, content: RecordDict, message: Message) -> None:
    vars(message.metadata)["_group_id"] = str(records)


def a_time_to_live(reply: bytes, records: int, content: RecordDict, message: Message) -> None:
    message.metadata.ttl -= records


@pytest.mark.parametrize("beside", [metrics, words, another_array, a_shape, a_group, a_time_to_live])
def test_what_stands_beside_frames_is_compared_by_value(beside: Beside, here: Path, monkeypatch: Any) -> None:
    held: dict[str, int] = {}
    real = Node._drawn

    def counting(self: Node, asked: Any, *about: Any) -> bytes:
        data = self._data(asked)
        assert data is not None
        held["records"] = len(data[0])
        return real(self, asked, *about)

    def replied(action: str, message: Message, context: Any) -> Message:
        reply, why = answering.answered_message(action, message.content, context)
        if why:
            return Message(Error(answering.RAISED, why), reply_to=message)
        array = Array("uint8", (len(reply),), answering.RAW, reply)
        content = RecordDict({"answer": ArrayRecord({"frames": array})})
        answer = Message(content, reply_to=message)
        beside(reply, held["records"], content, answer)
        return answer

    monkeypatch.setattr(Node, "_drawn", counting)
    monkeypatch.setattr(app, "_replied", replied)
    assert "round 1" in faults(looked_at(node(here / "own"), MESSAGES))


def test_the_order_in_which_clients_stand_in_a_frame_is_compared(here: Path, monkeypatch: Any) -> None:
    real = Cohort.reply

    def turned(self: Cohort, weights: Any, round: int, clients: Any, *about: Any) -> bytes:
        return real(self, weights, round, clients[::-1] if len(self.pool) % 2 else clients, *about)

    monkeypatch.setattr(Cohort, "reply", turned)
    assert "all its clients" in faults(looked_at(node(here / "own"), MESSAGES))


# --- what is charged ----------------------------------------------------------------------------------------------


def test_a_node_that_charges_nothing_is_a_fault_of_its_ledger_and_the_command_ends_with_one(
    here: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(OwnLedger, "charge", lambda self, new: None)
    own = node(here / "own")
    assert main(["audit", "--node", str(own), "--study", study(here), "--canaries", "8", "--json", "--quiet"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert "and 0 are charged" in next(each["words"] for each in found["faults"] if each["about"] == "the ledger")


def test_a_ledger_that_is_charged_for_more_noise_than_is_drawn_is_a_fault(here: Path, monkeypatch: Any) -> None:
    real = OwnLedger.charge

    def cheap(self: OwnLedger, new: Any) -> None:
        def less(event: Any) -> Any:
            return replace(event, mechanism=replace(event.mechanism, noise=event.mechanism.noise * 100))

        real(self, replace(new, events=tuple(map(less, new.events))))

    monkeypatch.setattr(OwnLedger, "charge", cheap)
    found = faults(looked_at(node(here / "own"), MESSAGES))["the ledger"]
    assert "noise=800.0" in found
    assert "noise=8.0" in found


def test_a_later_study_that_is_charged_like_the_first_is_a_fault(here: Path, monkeypatch: Any) -> None:
    real, first = Policy.events, list[Any]()

    def events(self: Policy, *about: Any, **more: Any) -> Any:
        first.append(real(self, *about, **more))
        return first[0]

    monkeypatch.setattr(Policy, "events", events)
    own = node(here / "own", terms=TERMS.replace("1e6", "1e9"))
    assert "is charged as" in faults(looked_at(own, SHORT))["the ledger"]


def test_a_node_that_answers_past_its_budget_is_a_fault(here: Path, monkeypatch: Any) -> None:
    own = node(here / "own")
    assert not looked_at(own, SHORT).seen.faults
    monkeypatch.setattr(Policy, "afford", lambda *_, **__: None)
    assert "all 2 messages of a client leave" in faults(looked_at(own, SHORT))["the budget"]


# --- settings that adapt ------------------------------------------------------------------------------------------


def test_settings_that_no_noise_leads_to_are_a_fault(here: Path, monkeypatch: Any) -> None:
    real, own = Releasing.moved, node(here / "own")
    assert not looked_at(own, ADAPTS).seen.faults
    monkeypatch.setattr(Releasing, "moved", lambda self: (real(self)[0], real(self)[1] + 1e-3))
    assert "clip that no noise of its release leads to" in faults(looked_at(own, ADAPTS))["round 1"]


def without_noise_on_counts(real: Any) -> Any:
    def noisy(self: FineGrid, total: Any, *about: Any) -> Any:
        return real(self, total, *about) if np.ndim(total) else total * self.step

    return noisy


def test_a_count_without_noise_behind_a_clip_norm_is_a_fault(here: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(FineGrid, "noisy", without_noise_on_counts(FineGrid.noisy))
    found = faults(looked_at(node(here / "own"), ADAPTS))["the settings"]
    assert "and 4 is charged" in found


# --- one noise for all --------------------------------------------------------------------------------------------

SUMS = {
    "masks off": "privacy={trust='secure-aggregation', mechanism={kind='Skellam', clip=1.0, levels=64, noise=4.0}}",
    "simulated": "privacy={trust='secure-aggregation', mechanism={kind='Skellam', clip=1.0, levels=64, noise=4.0}}",
    "a release": "privacy.release={kind='DpSgd', clip=1.0, noise=4.0, sampling=1.0}",
}
BELIEVED = {
    "masks off": "trust = 'secure-aggregation'\ncontributors = 1000\n",
    "simulated": "trust = 'simulated'\ncontributors = 1000\n",
    "a release": "",
}


@pytest.mark.parametrize("name", SUMS)
def test_one_key_for_all_noise_is_told_under_sums_too(name: str, here: Path, monkeypatch: Any) -> None:
    def one() -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=1))

    text = study_file.study_text(study_file.parsed_study(BARE, overrides=["run.rounds=2", SUMS[name]]))
    own = node(here / "own", terms=TERMS.replace("1e6", "1e9") + BELIEVED[name])

    def repeats(found: Examined) -> int:
        source = found.audit.source
        assert source.checks_repeats(8)
        return repeated_messages(source.scored(np.arange(8) < 4, np.arange(8)).keys)

    assert looked_at(own, text, then=repeats) == 0
    for module in ("clients.training.cohort", "clients.training.releasing"):
        monkeypatch.setattr(f"{module}.cryptographic_generator", one)
    assert looked_at(own, text, then=repeats) > 0
