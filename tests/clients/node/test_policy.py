"""A client's own terms: what is outside them is refused, what is inside is charged first and drawn once."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from clients import app as client
from clients.data.splits import Uneven
from clients.node.guard import Node
from clients.node.policy import Refused, read_policy, total_epsilon
from clients.training.cohort import cohort_reply
from fedpriv import wire
from fedpriv._base import files
from fedpriv._base.tables import toml_text
from fedpriv.accounting.ledger import Ledger
from fedpriv.node import own_ledger
from fedpriv.studies import file as study_file
from fedpriv.studies import promise as guarantee
from fedpriv.studies.calibrating import calibrated_study
from server import rounds
from server.nodes import GridDriver
from server.rounds.driver import Answer, Task
from server.rounds.inbox import Inbox
from simulations.runs import direct

TERMS = """
studies = "any"
mechanisms = "any"
budget = { epsilon = 8.0, delta = 1e-5 }
"""
STUDY = """
name = "tiny"
data = { kind = "Synthetic", records = 60, features = 5, classes = 3, held_out = 20 }
clients = { count = 20, records = 2 }
privacy.mechanism = { kind = "StochasticSign", clip = 1.0, scale = 4.0 }
aggregation.kind = "MajorityVote"
run.rounds = 2
"""
RECORDS = STUDY.replace(
    "run.rounds", 'privacy.release = { kind = "DpSgd", clip = 1.0, noise = 2.0, sampling = 0.5 }\nrun.rounds'
)
RECORDS = RECORDS.replace(
    'privacy.mechanism = { kind = "StochasticSign", clip = 1.0, scale = 4.0 }\naggregation.kind = "MajorityVote"\n', ""
)
MODEL, OTHER = np.zeros(18, np.float32), np.ones(18, np.float32)
HELD = np.arange(10)


def node(folder: Path, terms: str = TERMS, place: tuple[int, int] = (0, 2)) -> Node:
    (folder / "policy.toml").write_text(terms)
    config = {"policy": str(folder / "policy.toml"), "partition-id": place[0], "num-partitions": place[1]}
    return Node.of(config)


def study(*overrides: str, text: str = STUDY) -> str:
    return study_file.study_text(calibrated_study(study_file.parsed_study(text, overrides=overrides), 18))


def charged(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "ledger" / "ledger.jsonl").read_text().splitlines()][1:]


def test_with_seeded_noise_the_answer_is_the_simulations_and_with_any_other_nobodys(tmp_path: Path) -> None:
    simulated = cohort_reply(study(), MODEL, 1, HELD)
    assert node(tmp_path, TERMS + 'noise = "seeded"').answer(study(), MODEL, 1, HELD) == simulated
    (tmp_path / "own").mkdir()
    drawn = node(tmp_path / "own").answer(study(), MODEL, 1, HELD)
    assert len(drawn) == len(simulated)
    assert drawn != simulated


def test_a_round_asked_again_gets_the_stored_answer_and_another_request_for_it_none(tmp_path: Path) -> None:
    first = node(tmp_path).answer(study(), MODEL, 1, HELD)
    assert node(tmp_path).answer(study(), MODEL, 1, HELD) == first  # another process, server or time
    assert len(charged(tmp_path)) == 1
    for model, clients in ((OTHER, HELD), (MODEL, HELD[:5]), (MODEL, HELD[9:])):
        with pytest.raises(Refused, match="round 1 was answered already, to another model or with other clients"):
            node(tmp_path).answer(study(), model, 1, clients)
    assert node(tmp_path).answer(study(), OTHER, 2, HELD) != first
    assert [line["round"] for line in charged(tmp_path)] == [1, 2]


def test_another_run_of_a_study_is_answered_anew_where_the_policy_says_so_and_charged_anew(tmp_path: Path) -> None:
    def answer(terms: str, run: str, model: np.ndarray = MODEL) -> bytes:
        return node(tmp_path, terms).answer(study(), model, 1, HELD, run=run)

    once = answer(TERMS, "first")
    assert answer(TERMS, "second") == once
    with pytest.raises(Refused, match=r"another run needs another name or seed, or reruns = true"):
        answer(TERMS, "second", OTHER)
    terms = TERMS + "reruns = true"
    anew = [answer(terms, "first", OTHER), answer(terms, "second", OTHER)]
    assert len({once, *anew}) == 3
    assert [answer(terms, run, OTHER) for run in ("first", "second")] == anew
    with pytest.raises(Refused, match="answered already"):
        answer(terms, "first")
    assert len(charged(tmp_path)) == 3
    assert [release.rounds for release in own_releases(tmp_path)] == [3]


def test_the_budget_is_of_all_studies_together_whatever_each_is_called(tmp_path: Path) -> None:
    one = Ledger((guarantee.promised_event(study_file.parsed_study(study()), 18),)).epsilon(1e-5).upper
    terms = TERMS.replace("8.0", str(2.2 * one))
    told = [outcome(node(tmp_path, terms), study(f"name=s{number}")) for number in range(1, 9)]
    assert told == sorted(told)  # once it is spent it stays so
    assert 2 <= told.count("answered") == len(charged(tmp_path)) < 8
    assert total_epsilon(own_releases(tmp_path), 1e-5) <= 2.2 * one
    assert node(tmp_path, terms).answer(study("name=s1"), MODEL, 1, HELD)  # what was answered still is


def outcome(asked: Node, text: str) -> str:
    try:
        asked.answer(text, MODEL, 1, HELD)
    except Refused as error:
        return "past the budget" if "past the budget" in str(error) else str(error)
    return "answered"


def own_releases(folder: Path) -> tuple[Any, ...]:
    with own_ledger.opened_ledger(folder / "ledger", (0, 2)) as ledger:
        return ledger.events()


def test_a_round_of_a_schedule_is_charged_for_its_own_noise_and_one_beyond_it_is_refused(tmp_path: Path) -> None:
    changes = ["privacy.release.schedule=linear", "privacy.release.to=0.5", "run.rounds=3"]
    text, terms = study(*changes, text=RECORDS), "unit = 'record'\n" + TERMS.replace("epsilon = 8.0", "epsilon = 100.0")
    for round in (1, 3):
        node(tmp_path, terms).answer(text, MODEL, round, HELD)
    assert sorted(release.mechanism.noise for release in own_releases(tmp_path)) == [1.0, 2.0]
    with pytest.raises(Refused, match="round 4 is none of them"):
        node(tmp_path, terms).answer(text, MODEL, 4, HELD)
    assert len(charged(tmp_path)) == 2


def test_clients_asked_one_by_one_cost_no_more_than_asked_together(tmp_path: Path) -> None:
    for one in range(4):
        node(tmp_path).answer(study(), MODEL, 1, np.array([one]))
    assert [release.rounds for release in own_releases(tmp_path)] == [1]
    node(tmp_path).answer(study(), MODEL, 2, np.array([3, 5]))
    assert [release.rounds for release in own_releases(tmp_path)] == [2]


@pytest.mark.parametrize(
    ("terms", "overrides", "why"),
    [
        ("", ["privacy.mechanism.scale=1.01"], r"it would take ε to .* past the budget of 8"),
        ("round = { epsilon = 0.2, delta = 1e-5 }", [], r"one message would cost ε = .* at most 0\.2 a round"),
        ("", ['privacy.mechanism={kind="Plain"}', "aggregation.kind=Mean"], "Plain messages promise nothing"),
        ("clip = 0.5", [], r"clip = 1, at most 0\.5"),
        ("", ['attack={kind="OutputPoisoning"}', "clients.byzantine=19"], "asks clients to play attackers"),
        ("", ["name=mine", 'attack={kind="subprocess:Popen", args=["true"]}', "clients.byzantine=1"],
         "imports 'subprocess:Popen', which this client's policy does not list"),
        ("", ['training.model={kind="Module", path="os:system"}'], "imports 'os:system'"),
        ("", ["privacy.mechanism={kind='subprocess:Popen', clip=1}"], "imports 'subprocess:Popen'"),
        ("", ["privacy.mechanism={kind='Table', file='/etc/passwd'}"], "names a file for its mechanism"),
        ("largest_model = 17", [], "at most 17 float32"),
        ("largest_model = 1000", ['training.model={kind="Mlp", hidden=[5000]}'], "more than 1,000 coordinates"),
        ("", ["clients.count=30"], "holds clients 0 to 14|round"),
    ],
)  # fmt: skip
def test_what_is_outside_the_policy_is_refused_and_costs_nothing(
    tmp_path: Path, terms: str, overrides: list[str], why: str
) -> None:
    guarded = node(tmp_path, terms + "\n" + TERMS)
    text = study_file.study_tables(STUDY, overrides=overrides)
    asked = np.arange(20) if "clients.count=30" in overrides else HELD
    with pytest.raises(Refused, match=why):
        guarded.answer(toml_text(text), MODEL, 1, asked)
    assert not (tmp_path / "ledger").exists() or not charged(tmp_path)


@pytest.mark.parametrize(
    ("studies", "accepted"), [('["tiny"]', True), ('["other"]', False), ('["0123456789abcdef"]', False), ("ID", True)]
)
def test_studies_are_accepted_by_name_or_by_the_hash_of_all_they_say(
    tmp_path: Path, studies: str, accepted: bool
) -> None:
    listed = f'["{study_file.parsed_study(study()).id.hex()}"]' if studies == "ID" else studies
    guarded = node(tmp_path, TERMS.replace('studies = "any"', f"studies = {listed}"))
    if accepted:
        assert guarded.answer(study(), MODEL, 1, HELD)
    else:
        with pytest.raises(Refused, match="not among the studies that this client accepts"):
            guarded.answer(study(), MODEL, 1, HELD)


def test_no_name_stands_for_an_id(tmp_path: Path) -> None:
    listed = study_file.parsed_study(study()).id.hex()
    guarded = node(tmp_path, TERMS.replace('studies = "any"', f"studies = ['{listed}']"))
    with pytest.raises(Refused, match="not among the studies that this client accepts"):
        guarded.answer(study(f"name='{listed}'", "privacy.mechanism.scale=3.0"), MODEL, 1, HELD)


def test_a_client_whose_gradient_a_servers_model_makes_infinite_answers_all_the_same(tmp_path: Path) -> None:
    """Whether it does depends on its records: who was told would know a bit of them for nothing."""
    steep = MODEL.copy()
    steep[0] = 3.4e38
    simulated = wire.frames_of(cohort_reply(study(), steep, 1, HELD))[1]
    assert 0 < len(simulated) < len(HELD)
    frames, failed = wire.frames_of(node(tmp_path).answer(study(), steep, 1, HELD))
    assert not failed
    parsed = study_file.parsed_study(study())
    expected = wire.Expected(parsed.id, 1, HELD, 18, parsed.privacy.drawn_by, parsed.masked)
    assert sorted(np.concatenate([wire.opened_frame(frame, expected).clients for frame in frames])) == HELD.tolist()


@pytest.mark.parametrize(
    ("model", "clients", "round", "why"),
    [
        (np.full(18, np.nan, np.float32), HELD, 1, "not finite"),
        (np.zeros(18), HELD, 1, "float64"),
        (np.zeros((3, 6), np.float32), HELD, 1, r"\(3, 6\)"),
        (MODEL, HELD[::-1].copy(), 1, "holds clients 0 to 9"),
        (MODEL, np.array([3, 3]), 1, "holds clients 0 to 9"),
        (MODEL, np.array([10]), 1, "holds clients 0 to 9"),
        (MODEL, np.array([-1]), 1, "holds clients 0 to 9"),
        (MODEL, HELD[:0], 1, "holds clients 0 to 9"),
        (MODEL, HELD, 0, "round must be at least 1"),
        (MODEL, HELD, "1", "round must be a whole number"),
    ],
)
def test_what_no_honest_server_sends_is_refused(tmp_path: Path, model: Any, clients: Any, round: Any, why: str) -> None:
    with pytest.raises(Refused, match=why):
        node(tmp_path).answer(study(), model, round, clients)
    assert not (tmp_path / "ledger").exists()


def test_noise_of_others_counts_only_as_far_as_the_client_believes_in_it(tmp_path: Path) -> None:
    summed = study_file.parsed_study(
        study(
            'privacy.trust="secure-aggregation"', "aggregation.kind=Mean",
            'privacy.mechanism={kind="Binomial", clip=1.0, scale=4.0, trials=4}',
        )
    )  # fmt: skip

    def cost(terms: str, masked: bool) -> float:
        return total_epsilon(node(tmp_path, TERMS + terms).policy.events(summed, 18, 1, masked=masked), 1e-5)

    alone = cost("", True)
    for trust, masked, contributors, less in [
        ("secure-aggregation", True, 20, True), ("secure-aggregation", False, 20, False),
        ("simulated", False, 20, True), ("simulated", False, 10**6, True),
    ]:  # fmt: skip
        found = cost(f'trust = "{trust}"\ncontributors = {contributors}', masked)
        assert (found < alone / 2) == less
    assert cost('trust = "simulated"\ncontributors = 10', False) > cost('trust = "simulated"\ncontributors = 20', False)


def test_a_record_level_study_is_charged_by_its_steps_and_never_to_a_clients_budget(tmp_path: Path) -> None:
    text = study("training.local_steps=3", text=RECORDS)
    with pytest.raises(Refused, match="protects records, and this client's budget is of clients"):
        node(tmp_path).answer(text, MODEL, 1, HELD)
    terms = TERMS.replace("8.0", "20.0") + 'unit = "record"'
    node(tmp_path, terms).answer(text, MODEL, 1, HELD)
    node(tmp_path, terms).answer(study(), MODEL, 1, HELD)
    of_records, of_clients = sorted(own_releases(tmp_path), key=lambda release: release.unit, reverse=True)
    assert (of_records.unit, of_records.rounds) == ("record", 3)
    together = total_epsilon((of_records, of_clients), 1e-5)
    assert together == total_epsilon((of_records,), 5e-6) + total_epsilon((of_clients,), 5e-6)


def test_a_crash_between_charge_and_answer_wastes_budget_and_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("clients.training.cohort.Cohort.reply", lambda *_: os._exit(9))
        _in_another_process(lambda: node(tmp_path).answer(study(), MODEL, 1, HELD))
    assert len(charged(tmp_path)) == 1
    first = node(tmp_path).answer(study(), MODEL, 1, HELD)
    assert len(charged(tmp_path)) == 2
    assert [release.rounds for release in own_releases(tmp_path)] == [2]
    assert node(tmp_path).answer(study(), MODEL, 1, HELD) == first


def test_half_a_line_of_a_crash_was_no_charge_and_the_ledger_goes_on(tmp_path: Path) -> None:
    node(tmp_path).answer(study(), MODEL, 1, HELD)
    with (tmp_path / "ledger" / "ledger.jsonl").open("a") as file:
        file.write('{"study": "cut')
    node(tmp_path).answer(study(), MODEL, 2, HELD)
    assert [line["round"] for line in charged(tmp_path)] == [1, 2]


def test_a_damaged_ledger_releases_nothing(tmp_path: Path) -> None:
    node(tmp_path).answer(study(), MODEL, 1, HELD)
    file = tmp_path / "ledger" / "ledger.jsonl"
    file.write_text(file.read_text().replace('"round":1', '"round"'))
    with pytest.raises(Refused, match="damaged ledger"):
        node(tmp_path).answer(study(), MODEL, 2, HELD)


@pytest.mark.parametrize(
    "what", [lambda text: None, lambda text: "", lambda text: "\0" * len(text), lambda text: text.replace("\n", "\r")]
)
def test_a_ledger_whose_beginning_is_gone_while_answers_are_there_releases_nothing(
    what: Callable[[str], str | None], tmp_path: Path
) -> None:
    node(tmp_path).answer(study(), MODEL, 1, HELD)
    file = tmp_path / "ledger" / "ledger.jsonl"
    content = what(file.read_text())
    file.unlink()
    if content is not None:
        file.write_text(content, newline="")
    with pytest.raises(Refused, match=r"damaged ledger \(its beginning is gone\)"):
        node(tmp_path).answer(study(), MODEL, 2, HELD)
    assert not file.exists() or file.read_bytes().decode() == content  # it stays for its owner to look at


def test_a_charge_that_lacks_the_end_of_its_line_alone_is_a_charge(tmp_path: Path) -> None:
    node(tmp_path).answer(study(), MODEL, 1, HELD)
    file = tmp_path / "ledger" / "ledger.jsonl"
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    node(tmp_path).answer(study(), MODEL, 2, HELD)
    assert [line["round"] for line in charged(tmp_path)] == [1, 2]


@pytest.mark.parametrize("full", ["ledger", "answers"])
def test_a_full_disk_refuses_to_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str) -> None:
    def no_space(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    drawn: list[int] = []
    whole_reply = node(tmp_path)
    monkeypatch.setattr("clients.training.cohort.Cohort.reply", lambda *_: drawn.append(1) or b"reply")
    with monkeypatch.context() as patch:
        if full == "ledger":
            patch.setattr("fedpriv.records.os.fsync", no_space)
        else:
            patch.setattr(files.tempfile, "NamedTemporaryFile", no_space)
        with pytest.raises(Refused, match="No space left"):
            whole_reply.answer(study(), MODEL, 1, HELD)
    assert not drawn or full == "answers"
    assert not list((tmp_path / "ledger").glob("answers/*"))
    assert whole_reply.answer(study(), MODEL, 1, HELD) == b"reply"


def test_two_clients_cannot_share_a_ledger(tmp_path: Path) -> None:
    node(tmp_path).answer(study(), MODEL, 1, HELD)
    with pytest.raises(Refused, match=r"is the ledger of partition 0 of 2, and this node is partition 1"):
        node(tmp_path, place=(1, 2)).answer(study(), MODEL, 1, np.arange(10, 20))
    with (
        own_ledger.opened_ledger(tmp_path / "ledger", (0, 2)),
        pytest.raises(ValueError, match="in use by another process"),
        own_ledger.opened_ledger(tmp_path / "ledger", (0, 2), waits=0.05),
    ):
        pass


def test_a_node_that_is_numbered_anew_keeps_its_ledger(tmp_path: Path) -> None:
    node(tmp_path).answer(study(), MODEL, 1, HELD)
    with pytest.raises(Refused, match="answered already"):
        node(tmp_path, place=(1, 5)).answer(study(), MODEL, 1, np.arange(4, 8))
    node(tmp_path, place=(1, 5)).answer(study(), MODEL, 2, np.arange(4, 8))
    assert [release.rounds for release in own_releases(tmp_path)] == [2]


def test_old_answers_make_room_and_are_never_drawn_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_ledger, "KEPT", 2)
    terms = TERMS.replace("8.0", "30.0")
    for round in range(1, 5):
        node(tmp_path, terms).answer(study(), MODEL, round, HELD)
    assert len(list((tmp_path / "ledger" / "answers").iterdir())) == 2
    for asked in (MODEL, OTHER):
        with pytest.raises(Refused, match="round 1 was answered already"):
            node(tmp_path, terms).answer(study(), asked, 1, HELD)
    assert len(charged(tmp_path)) == 4


def test_a_nodes_own_data_are_dealt_to_its_own_clients_whatever_the_study_names(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((7, 5), np.float32))
    np.save(tmp_path / "y.npy", np.array([0, 1, 0, 1, 0, 1, 0]))
    own = f'data = {{ kind = "Arrays", path = "{tmp_path}" }}\nclasses = 3\nnoise = "seeded"\n' + TERMS
    with pytest.raises(Refused, match="divides this node's data among 2 clients, whose budget is of 1 at most"):
        node(tmp_path, own, (1, 10)).answer(study(), MODEL, 1, np.array([2, 3]))
    own = "clients = 2\n" + own
    assert node(tmp_path, own, (1, 10)).answer(study(), MODEL, 1, np.array([2, 3]))
    pool, division = node(tmp_path, own, (1, 10))._data(study_file.parsed_study(study())) or (None, None)
    assert pool is not None
    assert np.array_equal(pool.x, np.load(tmp_path / "x.npy"))
    assert isinstance(division, Uneven)
    sizes = division.sizes(np.arange(20))
    assert sizes[2] + sizes[3] == sizes.sum() == 7


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ("studies = [", "policy.toml"),
        (TERMS + "cilp = 1", r"policy has no setting 'cilp' \(did you mean 'clip'\?\)"),
        ('studies = "any"', "policy needs budget"),
        ('studies = "some"\nbudget = { epsilon = 1, delta = 1e-5 }', "studies must be a list of words"),
        (TERMS.replace("8.0", "nan"), "epsilon"),
        (TERMS.replace(", delta = 1e-5", ""), "budget needs delta"),
        (TERMS + 'noise = "none"', "noise 'none' is unknown"),
        (TERMS + "contributors = 5", "contributors counts only where"),
        (TERMS.replace('mechanisms = "any"', 'mechanisms = ["Binomal"]'), "did you mean 'Binomial'"),
        (TERMS + 'data = { kind = "Arays", path = "x" }', "unknown data set 'Arays'"),
        (TERMS + 'data = { kind = "Digits" }', "data needs classes, .* add a line such as classes = 10"),
        (TERMS + 'data = { kind = "Leaf", path = "x" }\nclasses = 3', "data: Leaf is of studies of many users"),
        (TERMS + "classes = 1", "classes must be at least 2"),
        (TERMS + "classes = 1000000", "classes must be at most 2.16 = 65536"),
        (TERMS + "attacks = 1", "attacks must be true or false"),
        (TERMS + "largest_model = 0", "largest_model must be at least 1"),
    ],
)
def test_a_policy_that_does_not_parse_says_where_and_what_would_be_right(tmp_path: Path, terms: str, why: str) -> None:
    (tmp_path / "policy.toml").write_text(terms)
    with pytest.raises(Refused, match=why) as caught:
        read_policy(tmp_path / "policy.toml")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "policy.toml") in str(caught.value)


def test_a_node_without_a_policy_or_with_one_that_is_gone_refuses(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="this node has no policy"):
        Node.of({"partition-id": 0, "num-partitions": 2})
    with pytest.raises(Refused, match="cannot be read"):
        Node.of({"policy": str(tmp_path / "policy.toml"), "partition-id": 0, "num-partitions": 2})


def test_a_studys_noise_is_not_what_decides(tmp_path: Path) -> None:
    """A server that asks for seeded noise, which it could subtract, gets noise that nobody can."""
    assert study_file.parsed_study(study()).privacy.noise == "seeded"
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    assert len({node(folder).answer(study(), MODEL, 1, HELD) for folder in folders}) == 2


def _in_another_process(work: Callable[[], Any]) -> None:
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(30)
    assert process.exitcode == 9


class OneNode:
    """Flower's grid with one node, which has a policy."""

    def __init__(self, folder: Path) -> None:
        self.held: dict[str, Message] = {}
        config: dict[str, Any] = {"policy": str(folder / "policy.toml"), "partition-id": 0, "num-partitions": 1}
        self.context = Context(run_id=1, node_id=7, node_config=config, state=RecordDict(), run_config={})

    def get_node_ids(self) -> list[int]:
        return [7]

    def push_messages(self, messages: Iterable[Message]) -> Iterator[str]:
        for message in messages:
            name = message.metadata.__dict__["_message_id"] = f"m{len(self.held)}"
            self.held[name] = client.app(message, self.context)
            yield name

    def pull_messages(self, names: Iterable[str]) -> list[Message]:
        return [self.held[name] for name in names]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Answer]]:
    """What a server gets from a node with these terms for a round of its study."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)

    def ask(terms: str, round: int = 1, model: Any = MODEL, text: str = "", run: str = "") -> list[Answer]:
        (tmp_path / "policy.toml").write_text(terms)
        driver = GridDriver(OneNode(tmp_path), 20)  # type: ignore[arg-type]
        driver.meet(1.0)
        return list(driver.ask(Task(round, model, np.arange(20), text or study(), 5.0, run=run)))

    return ask


def test_the_server_learns_the_reason_and_counts_it_and_the_client_lives_on(asked: Callable[..., list[Answer]]) -> None:
    (refused,) = asked(TERMS + "round = { epsilon = 0.1, delta = 1e-5 }")
    assert refused.content is None
    assert refused.error.startswith("refused: one message would cost ε = ")
    inbox = Inbox(study_file.parsed_study(study()), 18, 1, np.arange(20))
    inbox.take(refused)
    assert inbox.failed == {"refused": 20}
    assert inbox.note == f"client 0: {refused.error}"
    (answered,) = asked(TERMS)
    inbox = Inbox(study_file.parsed_study(study()), 18, 1, np.arange(20))
    inbox.take(answered)
    assert inbox.answered == 20
    assert [each.content for each in asked(TERMS)] == [answered.content]  # a server that was started anew


@pytest.mark.parametrize("content", ["not TOML [", "name = 3", 'data.kind="Digits"\n' * 3, "x = " + "[" * 5000, "\0"])
def test_a_study_that_is_none_is_refused(asked: Callable[..., list[Answer]], content: str) -> None:
    (refused,) = asked(TERMS, text=content + "\n")
    assert refused.error.startswith("refused: ")


def test_a_server_of_another_version_is_refused_by_the_client(
    asked: Callable[..., list[Answer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GridDriver, "_introduced", partialmethod(_taken_in))  # one that does not look
    monkeypatch.setattr("server.nodes.code_identity", lambda: "another")
    (refused,) = asked(TERMS)
    assert refused.error == "refused: the server runs other code than this client: one version for both"


def _taken_in(driver: Any, node: int, _: Message) -> None:
    driver._nodes, driver._partitions = {0: node}, 1


def test_a_server_that_runs_a_study_again_says_so(asked: Callable[..., list[Answer]]) -> None:
    found = [
        answer.content for run in ("first", "second", "first") for answer in asked(TERMS + "reruns = true", run=run)
    ]
    assert found[0] == found[2] != found[1]


def test_a_run_keeps_its_name_when_it_is_gone_on_with(tmp_path: Path) -> None:
    told: list[str] = []

    class Listening(direct.Here):
        def ask(self, task: Task) -> Iterator[Answer]:
            told.append(task.run)
            return super().ask(task)

    one = study_file.parsed_study(STUDY, overrides=["run.rounds=1"])
    rounds.run_rounds(one, tmp_path / "one", Listening(), quiet=True)
    (tmp_path / "one" / "records.jsonl").unlink()
    (tmp_path / "one" / "checkpoint.npz").unlink()
    rounds.run_rounds(one, tmp_path / "one", Listening(), quiet=True, resume=True)
    rounds.run_rounds(one, tmp_path / "two", Listening(), quiet=True)
    assert told[0] == told[1] != told[2] != ""
