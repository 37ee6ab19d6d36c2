"""At deployed nodes a state is used once, whatever keeps it and whoever dies, and a vector is of all who were promised.

Messages go to the real client app, under a policy, with a ledger and keys on disk; the test is the server, and what
keeps the nodes' states between two messages: it writes old ones back.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, RecordDict

from clients.flower import answering
from clients.flower.code import code_identity
from clients.node.policy import Policy, Refused, read_policy
from fedpriv.accounting.ledger import Budget
from fedpriv.errors import FedprivError
from fedpriv.masking import once, vector
from fedpriv.masking.once import Marker
from fedpriv.masking.roster import hosted_clients, terms_of
from fedpriv.masking.session import Session
from fedpriv.masking.survivors import SIGNED, SPEAKS
from fedpriv.studies import file as study_file
from fedpriv.wire import Expected

NODES, OWN = 5, 8
STUDY = """
name = "tiny"
data = { kind = "Synthetic", records = 260, features = 5, classes = 3, held_out = 60 }
clients = { count = 40, records = 5 }
privacy = { trust = "secure-aggregation", mechanism = { kind = "Binomial", clip = 1.0, trials = 4, scale = 1.2 } }
masking = { threshold = 0.6 }
server = { step = 0.01, timeout = 60.0, retries = 0 }
run = { rounds = 3, seed = 3 }
"""
POLICY = """
studies = "any"
budget = { epsilon = 100.0, delta = 1e-5 }
trust = "secure-aggregation"
contributors = 24
"""
WEIGHTS = np.zeros(18, np.float32)


@dataclass
class Deployed:
    """Five nodes that know each other, each with a policy, a ledger and a key; `run` is what the server calls it."""

    folder: Path
    run: str = "first"
    policy: str = POLICY
    text: str = STUDY
    states: dict[int, RecordDict] = field(default_factory=dict)

    def __post_init__(self) -> None:
        keys = [Ed25519PrivateKey.generate() for _ in range(NODES)]
        lines = [each.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) for each in keys]
        for each, key in enumerate(keys):
            own = self.node(each)
            own.mkdir()
            pem = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
            (own / "identity").write_bytes(pem)
            (own / "peers").write_bytes(b"\n".join(lines))
            (own / "policy.toml").write_text(self.policy)
        study = study_file.parsed_study(self.text)
        spoken = hosted_clients(study, 1, NODES)
        self.expected = Expected(
            study.id, 1, np.arange(NODES * OWN), WEIGHTS.size, study.privacy.drawn_by, study.masked
        )
        width = vector.width_of(self.expected)
        self.session = Session(terms_of(study, self.text, 1, spoken), spoken, WEIGHTS.size, width, WEIGHTS.tobytes())

    def node(self, each: int) -> Path:
        return self.folder / f"node-{each}"

    def asked(self, each: int, phase: str, body: bytes = b"", clients: int = OWN) -> tuple[bytes, str]:
        """What a node answers, and why not; its state is kept as Flower does."""
        folder = self.node(each)
        config: Any = {"policy": str(folder / "policy.toml"), "identity": str(folder / "identity"),
                       "peers": str(folder / "peers"), "partition-id": each, "num-partitions": NODES}  # fmt: skip
        state = self.states.get(each, RecordDict())
        context = Context(run_id=1, node_id=each, node_config=config, state=state, run_config={})
        task = {"study": self.text, "round": 1, "seconds": 300.0, "until": 0.0, "restarted": False,
                "code": code_identity(), "run": self.run, "phase": phase}  # fmt: skip
        arrays = {"clients": Array(np.arange(OWN * each, OWN * each + clients)),
                  "body": Array("uint8", (len(body),), answering.RAW, body)}  # fmt: skip
        if phase == "vector":
            arrays["weights"] = Array(WEIGHTS)
        content = RecordDict({"task": ConfigRecord(task), "arrays": ArrayRecord(arrays)})  # type: ignore[arg-type]
        found = answering.answered_message("mask", content, context)
        self.states[each] = context.state
        return found

    def answer(self, each: int, phase: str, body: bytes = b"") -> bytes:
        content, why = self.asked(each, phase, body)
        assert not why
        return content

    def refusal(self, each: int, phase: str, body: bytes = b"", clients: int = OWN) -> str:
        content, why = self.asked(each, phase, body, clients)
        assert not content
        assert "\n" not in why
        return why

    def shared(self) -> None:
        for each in range(NODES):
            self.session.take_keys(each, self.answer(each, "keys"))
        for each in range(NODES):
            self.session.take_shares(each, self.answer(each, "shares", self.session.roster.content))

    def masked(self) -> None:
        self.shared()
        for each in range(NODES):
            content = self.answer(each, "vector", self.session.letters(each))
            own = replace(self.expected, clients=np.arange(OWN * each, OWN * (each + 1)))
            sent = vector.read_vector(content, own)
            self.session.take_masked(each, sent.residues, len(sent.clients))

    def kept(self) -> dict[int, RecordDict]:
        """The nodes' states as they are now, to be written back later."""
        return {each: RecordDict({name: ConfigRecord(dict(own)) for name, own in state.config_records.items()})
                for each, state in self.states.items()}  # fmt: skip

    def charged(self, each: int) -> int:
        file = self.node(each) / "ledger" / "ledger.jsonl"
        return len(file.read_text().splitlines()) - 1 if file.exists() else 0


def listing(*who: int) -> bytes:
    return np.array([(each, OWN) for each in who], SPEAKS).tobytes()


def told(listed: bytes, signatures: dict[int, bytes]) -> bytes:
    rows = np.array(sorted(signatures.items()), SIGNED).tobytes()
    return (len(listed) // SPEAKS.itemsize).to_bytes(4, "little") + listed + rows


def test_an_honest_round_is_charged_once_and_opens(tmp_path: Path) -> None:
    own = Deployed(tmp_path)
    own.masked()
    signatures = {each: own.answer(each, "survivors", listing(*range(NODES))) for each in range(NODES)}
    for each in range(NODES):
        own.session.take_opened(each, own.answer(each, "opening", told(listing(*range(NODES)), signatures)))
    assert own.session.total().shape == WEIGHTS.shape
    assert [own.charged(each) for each in range(NODES)] == [1] * NODES


def test_an_old_state_written_back_signs_no_second_list_and_opens_none(tmp_path: Path) -> None:
    own = Deployed(tmp_path)
    own.masked()
    before = own.kept()
    everyone, fewer = listing(*range(NODES)), listing(*range(1, NODES))
    first = {each: own.answer(each, "survivors", everyone) for each in range(NODES)}
    own.states = before  # as where a message that began before has ended after, or a process died before it was kept
    for each in range(1, NODES):
        before = own.kept()
        assert "has been through that phase" in own.refusal(each, "survivors", fewer)
        own.states = before
    assert "others than this node has signed" in own.refusal(1, "opening", told(fewer, first))
    again = own.kept()
    assert own.answer(2, "opening", told(everyone, first))
    own.states = again
    for listed in (everyone, fewer):
        own.states = {each: RecordDict(dict(state)) for each, state in again.items()}
        assert "has been through that phase" in own.refusal(2, "opening", told(listed, first))


def test_an_old_state_written_back_gives_no_second_vector_and_is_charged_nothing(tmp_path: Path) -> None:
    own = Deployed(tmp_path)
    own.shared()
    before = own.kept()
    own.answer(0, "vector", own.session.letters(0))
    own.states = before
    assert "has been through that phase" in own.refusal(0, "vector", own.session.letters(0))
    assert own.charged(0) == 1


def test_a_session_ends_where_another_of_the_same_run_begins(tmp_path: Path) -> None:
    own = Deployed(tmp_path)
    own.shared()
    before = own.kept()
    own.answer(0, "keys")
    own.states = before
    assert "a newer session has begun" in own.refusal(0, "vector", own.session.letters(0))
    assert own.charged(0) == 0


def test_a_vector_of_fewer_clients_than_the_roster_says_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    own = Deployed(tmp_path)
    own.shared()
    why = own.refusal(0, "vector", own.session.letters(0), clients=3)
    assert "a vector of 3 clients is asked for, where the roster says 8" in why
    assert own.charged(0) == 0


def test_a_mark_that_is_damaged_ends_the_sum_in_one_line(tmp_path: Path) -> None:
    own = Deployed(tmp_path)
    own.shared()
    for content in (b"{", b"[]", b'{"a": 1}', b'{"a": {"session": 1, "stage": 0, "named": ""}}', b"\xff"):
        (own.node(0) / "ledger" / once.FOLDER / once.FILE).write_bytes(content)
        before = own.kept()
        assert "damaged" in own.refusal(0, "vector", own.session.letters(0))
        own.states = before


def test_of_any_number_that_go_on_at_once_one_does(tmp_path: Path) -> None:
    mark = Marker.of(tmp_path, "study", "run")
    for session in (b"one" * 5, b"two" * 5):
        mark.begin(session)
        with multiprocessing.get_context("fork").Pool(8) as pool:
            found = pool.starmap(advanced, [(mark, session)] * 24)
        assert sum(found) == 1


def advanced(mark: Marker, session: bytes) -> bool:
    try:
        mark.advance(session, 3)
    except FedprivError:
        return False
    return True


def test_marks_only_go_on_and_runs_do_not_meet(tmp_path: Path) -> None:
    one, two = Marker.of(tmp_path, "study", "one"), Marker.of(tmp_path, "study", "two")
    one.begin(b"1")
    two.begin(b"2")
    assert one.advance(b"1", 1) == b""
    assert two.advance(b"2", 3, named=b"list") == b""
    for session, stage in ((b"1", 1), (b"1", 0), (b"2", 2)):
        with pytest.raises(FedprivError, match="through that phase"):
            one.advance(session, stage)
    assert one.advance(b"1", 4) == b""
    assert two.advance(b"2", 4) == b"list"
    for each in range(once.KEPT):  # what is forgotten goes no further
        Marker.of(tmp_path, "study", f"{each}").begin(b"3")
    with pytest.raises(FedprivError, match="through that phase"):
        one.advance(b"1", 5)
    assert len(json.loads((tmp_path / once.FOLDER / once.FILE).read_text())) == once.KEPT


def test_a_mark_that_cannot_be_kept_is_one_line(tmp_path: Path) -> None:
    (tmp_path / once.FOLDER).write_text("a file")
    with pytest.raises(FedprivError, match="the session cannot be kept there"):
        Marker.of(tmp_path, "study", "run").begin(b"1")


# --- what is read before it is parsed -----------------------------------------------------------------------------


DEEP = {
    "a header of 14,000 parts": "[" + ".".join(["a"] * 14_000) + "]\n",
    "a header of long parts": "[" + ".".join(["abcdefghij"] * 14_000) + "]\n",
    "a key of 14,000 parts": "a" + ".a" * 14_000 + " = 1\n",
    "quoted parts": "[" + ".".join(['"="'] * 14_000) + "]\n",
    "numbers for parts": "1.1 . " * 14_000 + "1 = 1\n",
    "as much as is read of keys as deep as may be": "".join(f"a{each}{'.b' * 15} = 1\n" for each in range(124)),
    "more of them": "".join(f"a{each}{'.b' * 15} = 1\n" for each in range(3000)),
    "headers as deep as may be": "".join(f"[a{each}{'.b' * 15}]\n" for each in range(124)),
    "more headers": "".join(f"[a{each}{'.b' * 15}]\n" for each in range(3000)),
    "tables in tables": "".join(f"a{each} = {'{a = ' * 150}1{'}' * 150}\n" for each in range(140)),
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_a_study_that_takes_long_to_parse_is_refused_at_once(text: str, tmp_path: Path) -> None:
    own = Deployed(tmp_path)
    own.text = "[no study"
    assert own.refusal(0, "keys")  # with what is imported at the first
    own.text = text
    begun = time.process_time()
    assert own.refusal(0, "keys")
    assert time.process_time() - begun < 2.5  # .3 s at most on an idle machine, and 25 s where it was parsed


def test_the_studies_that_ship_are_read(tmp_path: Path) -> None:
    policy = Policy(budget=Budget(epsilon=1.0, delta=1e-5), studies=None)
    for name in study_file.shipped_studies():
        if "sweep" not in study_file.study_tables(study_file.content_of(name)[0]):
            assert policy.read_study(study_file.study_text(study_file.read_study(name)))


# --- what the owner says ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("terms", "words"), [
    ("colluding = -1", "colluding must be"), ("colluding = 0.5", "colluding must be"),
    ("neighbours = -1", "neighbours must be"), ('neighbours = "all"', "neighbours must be"),
])  # fmt: skip
def test_an_owners_words_about_masks_are_whole_numbers(terms: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY + terms)
    with pytest.raises(Refused, match=words):
        read_policy(tmp_path / "policy.toml")


def test_a_study_that_supposes_fewer_colluders_than_the_owner_gets_no_shares(tmp_path: Path) -> None:
    own = Deployed(tmp_path, policy=POLICY + "colluding = 2\n")
    for each in range(NODES):
        own.session.take_keys(each, own.answer(each, "keys"))
    why = own.refusal(0, "shares", own.session.roster.content)
    assert "colluding = 0, at least 2 in this client's policy" in why
