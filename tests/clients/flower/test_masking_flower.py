"""Masked sums through Flower's messages: the bits of the direct sum, and whatever nodes and servers do wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from clients.flower import answering
from clients.flower import masking as masked
from fedpriv.errors import FedprivError
from fedpriv.masking.identity import Identity
from fedpriv.studies import file as study_file
from fedpriv.studies import observers
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.study import Study
from fedpriv.trust import Sums
from server import rounds
from server.nodes import GridDriver
from server.rounds.driver import Answer, Task
from server.rounds.masked_sums import MaskedSums, masks_sums
from simulations.flower import launch
from simulations.runs import direct
from tests.server.test_nodes import FakeGrid

STUDY = """
name = "tiny"
data = { kind = "Synthetic", records = 260, features = 5, classes = 3, held_out = 60 }
clients = { count = 40, records = 5 }
privacy = { trust = "secure-aggregation", mechanism = { kind = "Binomial", clip = 1.0, trials = 4, scale = 1.2 } }
masking = { threshold = 0.7, rehearse = true }
server = { step = 0.01, timeout = 60.0, retries = 0 }
run = { rounds = 3, seed = 3 }
"""
Meddle = Callable[[str, int, Message, Message], Message | None]  # phase, partition, message, reply: what arrives


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages inside its runtime only."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Nodes(FakeGrid):
    """Nodes that remember, as Flower's do, and whose answers a test meddles with."""

    def __init__(self, nodes: int = 5, meddle: Meddle = lambda phase, partition, message, reply: reply) -> None:
        super().__init__(nodes)
        self.contexts: dict[int, Context] = {}
        self.meddle = meddle
        self._replies = self.meddled

    def context(self, node: int) -> Context:
        return self.contexts.setdefault(node, super().context(node))

    def meddled(self, message: Message) -> Message | None:
        phase: Any = message.content.config_records["task"].get("phase", "")
        partition, reply = self.ids.index(message.metadata.dst_node_id), self.answered(message)
        return self.meddle(str(phase), partition, message, reply)  # type: ignore[arg-type]


def study(*overrides: str) -> Study:
    return study_file.parsed_study(STUDY, overrides=overrides)


def run(directory: Path, grid: Nodes, *overrides: str) -> dict[str, Any]:
    driver = GridDriver(grid, 40)  # type: ignore[arg-type]
    driver.meet(1.0)
    return rounds.run_rounds(study(*overrides), directory, MaskedSums(driver), quiet=True, masked=True)


def lines(directory: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (directory / "records.jsonl").read_text().splitlines()]
    return [line for line in found if line["kind"] == "round"]


def weights(directory: Path) -> bytes:
    found: bytes = np.load(directory / "checkpoint.npz")["weights"].tobytes()
    return found


def directly(directory: Path, *overrides: str) -> bytes:
    rounds.run_rounds(study(*overrides), directory, direct.Here(), quiet=True)
    return weights(directory)


def bytes_reply(message: Message, content: bytes) -> Message:
    array = Array("uint8", (len(content),), answering.RAW, content)
    return Message(RecordDict({"answer": ArrayRecord({"frames": array})}), reply_to=message)


def lost(message: Message) -> Message:
    return Message(Error(answering.RAISED, "ValueError: boo"), reply_to=message)


# --- the same bits ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.flower
def test_flowers_simulation_rehearses_masks_to_the_bits_of_the_direct_sum(tmp_path: Path) -> None:
    settings = ("run.rounds=1", "attack.kind=Residue", "clients.byzantine=2")
    wanted = directly(tmp_path / "direct", *settings)
    result = launch.simulate_study(study(*settings), tmp_path / "flower", workers=2, cohorts=5, quiet=True)
    assert (result["why"], result["masked"], result["failed"]) == ("finished", True, {})
    assert weights(tmp_path / "flower") == wanted
    assert lines(tmp_path / "flower") == lines(tmp_path / "direct")


@pytest.mark.parametrize("nodes", [1, 3, 40])
def test_the_bits_do_not_depend_on_how_many_nodes_mask(nodes: int, tmp_path: Path) -> None:
    run(tmp_path / "masked", Nodes(nodes), "run.rounds=1")
    assert weights(tmp_path / "masked") == directly(tmp_path / "direct", "run.rounds=1")


class WithoutSome(direct.Here):
    """The direct sum of the clients of some nodes of five."""

    def __init__(self, gone: tuple[int, ...]) -> None:
        super().__init__(5)
        self._gone = gone

    def ask(self, task: Task) -> Any:
        for answer in super().ask(task):
            lost = answer.asked[0] // 8 in self._gone
            yield Answer(answer.asked, None, "raised: gone") if lost else answer


@pytest.mark.parametrize("phase", ["keys", "shares", "vector"])
def test_a_node_that_drops_out_costs_its_own_clients_and_the_sum_is_the_others(phase: str, tmp_path: Path) -> None:
    def gone(at: str, partition: int, message: Message, reply: Message) -> Message:
        return lost(message) if (at, partition) == (phase, 2) else reply

    run(tmp_path / "masked", Nodes(meddle=gone))
    rounds.run_rounds(study(), tmp_path / "direct", WithoutSome((2,)), quiet=True)
    assert weights(tmp_path / "masked") == weights(tmp_path / "direct")
    assert [(line["answered"], line["failed"], line["skipped"]) for line in lines(tmp_path / "masked")] == [
        (32, {"raised": 8}, None)
    ] * 3


def test_a_node_that_only_fails_to_open_is_in_the_sum(tmp_path: Path) -> None:
    def gone(at: str, who: int, message: Message, reply: Message) -> Message:
        return lost(message) if (at, who) == ("opening", 4) else reply

    run(tmp_path / "masked", Nodes(meddle=gone), "run.rounds=1")
    assert weights(tmp_path / "masked") == directly(tmp_path / "direct", "run.rounds=1")
    assert lines(tmp_path / "masked")[0]["answered"] == 40


def test_below_the_threshold_the_round_is_skipped_and_the_run_goes_on(tmp_path: Path) -> None:
    calls: list[int] = []

    def gone(at: str, who: int, message: Message, reply: Message) -> Message:
        calls.extend([1] * (at == "keys"))
        return lost(message) if at == "vector" and who in (1, 3) and len(calls) <= 5 else reply

    run(tmp_path / "run", Nodes(meddle=gone))
    first, second, third = lines(tmp_path / "run")
    assert first["skipped"] == "0 answers, 28 needed"
    assert first["failed"] == {"masking": 24, "raised": 16}
    assert [(line["skipped"], line["answered"]) for line in (second, third)] == [(None, 40)] * 2
    assert (
        "3 of 5 nodes, of 24 clients, have sent a masked vector, where 28 clients are needed"
        in (tmp_path / "run" / "records.jsonl").read_text()
    )


def test_a_round_with_too_few_is_asked_again_with_new_keys(tmp_path: Path) -> None:
    calls: list[int] = []

    def gone(at: str, who: int, message: Message, reply: Message) -> Message:
        calls.extend([1] * (at == "keys"))
        fails = at == "shares" and who in (1, 3) and len(calls) <= 5
        return lost(message) if fails else reply

    run(tmp_path / "run", Nodes(meddle=gone), "run.rounds=1", "server.retries=1")
    assert len(calls) == 10
    assert weights(tmp_path / "run") == directly(tmp_path / "direct", "run.rounds=1")


@pytest.mark.parametrize("phase", ["keys", "shares", "vector", "opening"])
@pytest.mark.parametrize("content", [b"", b"?" * 64, b"?" * 5000])
def test_garbage_is_rejected_counted_and_survived(phase: str, content: bytes, tmp_path: Path) -> None:
    def forged(at: str, who: int, message: Message, reply: Message) -> Message:
        return bytes_reply(message, content) if (at, who) == (phase, 1) else reply

    run(tmp_path / "run", Nodes(meddle=forged), "run.rounds=1")
    (line,) = lines(tmp_path / "run")
    assert line["skipped"] is None
    assert line["answered"] == (40 if phase == "opening" else 32)
    assert sum(line["rejected"].values()) == 1


@pytest.mark.parametrize("reply", [
    lambda message: Message(RecordDict(), reply_to=message),
    lambda message: Message(RecordDict({"answer": ConfigRecord({"a": 1})}), reply_to=message), lambda message: None,
])  # fmt: skip
def test_a_reply_that_is_none_costs_its_node(reply: Any, tmp_path: Path) -> None:
    run(
        tmp_path / "run",
        Nodes(meddle=lambda at, who, message, own: reply(message) if who == 0 else own),
        "run.rounds=1",
        "server.timeout=4",
    )
    assert lines(tmp_path / "run")[0]["answered"] == 32


# --- the client's side --------------------------------------------------------------------------------------------


def ask(phase: str, body: bytes = b"", text: str = STUDY, round: int = 1) -> masked.Ask:
    return masked.Ask(phase=phase, text=text, round=round, clients=np.arange(8), body=body, weights=np.zeros(18, "f4"))


def told(memory: RecordDict, one: masked.Ask) -> bytes:
    part = masked.Part(place=(0, 5), identity=Identity())
    return masked.answered_phase(one, study_file.parsed_study(one.text), part, memory, lambda about, seal: seal(b""))


def test_a_phase_that_is_asked_twice_or_out_of_turn_finds_no_state() -> None:
    memory = RecordDict()
    with pytest.raises(FedprivError, match="taken no part in the phases before"):
        told(memory, ask("opening"))
    told(memory, ask("keys"))
    with pytest.raises(FedprivError, match="a roster of 1 bytes"):
        told(memory, ask("shares", b"?"))
    with pytest.raises(FedprivError, match="taken no part in the phases before"):  # whatever was wrong, it is gone
        told(memory, ask("shares", b"?"))


def test_a_study_with_another_threshold_is_another_study() -> None:
    memory = RecordDict()
    told(memory, ask("keys"))
    with pytest.raises(FedprivError, match="in another round or study"):
        told(memory, ask("shares", b"?" * 136, STUDY.replace("0.7", "0.6")))


def test_no_phase_but_the_four_and_no_trust_but_sums() -> None:
    with pytest.raises(FedprivError, match="no phase 'open' of a study of secure-aggregation trust"):
        told(RecordDict(), ask("open"))
    local = STUDY.replace("secure-aggregation", "local").replace("masking =", "#")
    with pytest.raises(FedprivError, match="of a study of local trust"):
        told(RecordDict(), ask("keys", text=local))


def test_a_replayed_message_gets_a_reason_and_no_vector() -> None:
    grid = Nodes(3)
    kept: list[Message] = []
    answered = grid.answered

    def keep(message: Message) -> Message | None:
        kept.append(message)
        return answered(message)

    grid.answered = keep  # type: ignore[method-assign]
    driver = GridDriver(grid, 40)  # type: ignore[arg-type]
    driver.meet(1.0)
    task = Task(1, np.zeros(18, np.float32), np.arange(40), study_file.study_text(study()), 5.0)
    assert [answer.content is not None for answer in MaskedSums(driver).ask(task)] == [True]
    for message in kept:
        phase: Any = message.content.config_records.get("task", {}).get("phase", "")
        if phase and phase != "keys":
            again = answered(message)
            assert again is not None
            assert again.has_error()
            assert "masking: " in again.error.reason


# --- what a study says --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("overrides", "words"), [
    (["masking.threshold=0"], "threshold must be"), (["masking.threshold=1.5"], "threshold must be between 0 and 1"),
    (["masking.threshold=0.0"], "threshold must be positive"), (["masking.threshold=nan"], "between 0 and 1"),
    (["masking.neighbours=-1"], "neighbours must be at least 0"), (["masking.rehearse=1"], "must be true or false"),
    (["server.fewest=30"], "give one of them"), (["privacy.dropouts=3"], "give one of them"),
    (["privacy.trust=local"], "masking is of sums"), (["masking.treshold=3"], "did you mean 'threshold'"),
])  # fmt: skip
def test_masking_settings_that_cannot_be_are_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(FedprivError, match=words):
        study(*overrides)


@pytest.mark.parametrize(("overrides", "words"), [
    (["masking.threshold=41"], r"masking\.threshold = 41, but a round asks 40 clients at most"),
    (["masking.threshold=20"], "a sum of 20 clients must be more than half of the 40 asked and the 0 colluding"),
    (["privacy.colluding=16"], "a sum of 28 clients must be more than half of the 40 asked and the 16 colluding"),
    (["clients.participation={kind='Poisson', rate=0.5}"], "any number"),
])  # fmt: skip
def test_thresholds_that_no_round_can_rest_on_are_refused_before_anybody_is_asked(
    overrides: list[str], words: str
) -> None:
    with pytest.raises(FedprivError, match=words):
        calibrated_study(study(*overrides), 18)


@pytest.mark.parametrize(("threshold", "clients"), [("0.7", 28), ("30", 30), ("1.0", 40), ("0.69", 28)])
def test_the_ledger_counts_the_noise_of_the_threshold_and_of_nobody_more(threshold: str, clients: int) -> None:
    own = study(f"masking.threshold={threshold}")
    assert observers.fewest_answers(own) == clients
    assert observers.trust_in(own) == Sums(clients)
    assert observers.trust_in(study(f"masking.threshold={threshold}", "privacy.colluding=2")) == Sums(clients - 2)


def test_deployments_mask_what_is_promised_of_sums_and_simulations_where_they_rehearse() -> None:
    plain = study("masking.rehearse=false")
    assert [masks_sums(each, deployed) for each in (study(), plain) for deployed in (False, True)] == [
        True,
        True,
        False,
        True,
    ]
    local = study_file.parsed_study(STUDY.replace("secure-aggregation", "local").replace("masking =", "#"))
    assert not masks_sums(local, True)


def test_a_study_with_masking_reads_back_as_written() -> None:
    own = study("masking.neighbours=0")
    assert study_file.parsed_study(study_file.study_text(own)) == own
