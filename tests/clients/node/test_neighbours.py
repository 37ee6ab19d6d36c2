"""Neighbours as files: two directories of data that differ in one record, asked by a server through the real node.

What the server hears and what the ledger holds must not tell the two apart beyond what is charged: one client's data
differ, the charges are the same bytes, and whatever the matter with data is, it is said in the same words.
"""

from __future__ import annotations

import json
import stat
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from scipy.stats import norm

from clients import app as client
from clients.data.splits import records_of
from clients.flower.answering import RAW
from clients.flower.code import code_identity
from clients.node.guard import UNUSABLE, Node
from clients.node.own_key import DEALING
from clients.node.own_records import pool_of_policy, wrong_with_data
from clients.node.policy import Policy, total_epsilon
from clients.training.cohort import Cohort
from clients.training.prepared import prepared_study
from fedpriv import wire
from fedpriv._base.tables import inline_toml
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event, by_hand
from fedpriv.accounting.ledger import Budget
from fedpriv.mechanisms import Gaussian, Mechanism, settings_of
from fedpriv.node import own_ledger
from fedpriv.releases import SUMS
from fedpriv.releases.kept import KEPT
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Kind
from fedpriv.trust import Local, Sums
from server.rounds import planned
from tests.fedpriv.masking.test_masking_once import Deployed
from tests.fedpriv.mechanisms.test_mechanisms import ALL

REFUSAL = f"refused: {UNUSABLE}"
TERMS = """
studies = "any"
mechanisms = "any"
unit = "record"
budget = { epsilon = 1e6, delta = 1e-5 }
classes = 3
"""
OF_CLIENTS = TERMS.replace('unit = "record"', "clients = 5")
RECORDS = """
name = "asked"
data = { kind = "Synthetic", records = 3000, features = 5, classes = 3, held_out = 20 }
clients = { count = 50, records = 4 }
privacy.release = { kind = "DpSgd", clip = 1.0, noise = 4.0, sampling = 1.0 }
run.rounds = 4
"""
CLIENTS = """
name = "asked"
data = { kind = "Synthetic", records = 3000, features = 5, classes = 3, held_out = 20 }
clients = { count = 50, records = 4 }
privacy.mechanism = { kind = "Gaussian", clip = 1.0, noise = 8.0 }
run.rounds = 10
"""
BARE = CLIENTS.replace('privacy.mechanism = { kind = "Gaussian", clip = 1.0, noise = 8.0 }\n', "")
MODEL = np.zeros(18, np.float32)
Change = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages inside its runtime only."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def records(count: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return rng.uniform(-1, 1, (count, 5)).astype(np.float32), rng.integers(0, 3, count)


def more(place: int, value: float = 0.5, label: int = 1) -> Change:
    """One record more."""
    return lambda x, y: (np.insert(x, place, np.float32(value), axis=0), np.insert(y, place, label))


def replaced(place: int, value: float = 0.5, label: int = 1) -> Change:
    """One record in the place of another."""

    def change(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = x.copy(), y.copy()
        x[place], y[place] = np.float32(value), label
        return x, y

    return change


def same(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x, y


def nobody(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x[:0], y[:0]


def directory(
    folder: Path, change: Change = same, terms: str = TERMS, count: int = 200, key: bytes = bytes(32)
) -> Path:
    """A node's directory: its data, its policy, and the key by which it deals."""
    (folder / "data").mkdir(parents=True)
    (folder / "ledger").mkdir(mode=0o700)
    (folder / "ledger" / DEALING).write_bytes(key)
    x, y = change(*records(count))
    np.save(folder / "data" / "x.npy", x)
    np.save(folder / "data" / "y.npy", y)
    np.save(folder / "data" / "x_test.npy", x[:2] * 0)  # which a node has no use for
    np.save(folder / "data" / "y_test.npy", np.zeros(2, int))
    own = f'\ndata = {{ kind = "Arrays", path = "{folder / "data"}" }}\n'
    (folder / "policy.toml").write_text(terms + own)
    return folder


def pair(folder: Path, change: Change, **about: Any) -> tuple[Path, Path]:
    """Two directories that differ in one record."""
    return directory(folder / "one", **about), directory(folder / "two", change, **about)


def asked(
    folder: Path, text: str = RECORDS, *overrides: str, round: int = 1, model: Any = MODEL, who: Any = None
) -> str | bytes:
    """What a server hears."""
    study = study_file.parsed_study(text, overrides=overrides)
    task = {"study": study_file.study_text(study), "round": round, "seconds": 300.0, "until": 0.0, "restarted": False,
            "code": code_identity(), "run": "first"}  # fmt: skip
    clients = np.arange(study.clients.count) if who is None else np.asarray(who)
    arrays = {"weights": Array(model), "clients": Array(clients)}
    if study.first_settings:
        arrays["settings"] = Array(np.tile(np.array(study.first_settings), (len(clients), 1)))
    content = RecordDict({"task": ConfigRecord(task), "arrays": ArrayRecord(arrays)})  # type: ignore[arg-type]
    place: Any = {"policy": str(folder / "policy.toml"), "partition-id": 0, "num-partitions": 1}
    context = Context(run_id=1, node_id=1, node_config=place, state=RecordDict(), run_config={})
    message = Message(content, 1, "train")
    reply = client.app(message, context)
    check_plain(message, reply)
    return str(reply.error.reason) if reply.has_error() else frames_alone(reply.content)


def frames_alone(content: RecordDict) -> bytes:
    """The frames of an answer, beside which nothing stands, and which say of themselves how long they are."""
    assert list(content) == ["answer"]
    assert list(content.array_records["answer"]) == ["frames"]
    array = content.array_records["answer"]["frames"]
    assert (array.dtype, tuple(array.shape), array.stype) == ("uint8", (len(array.data),), RAW)
    return array.data


def check_plain(message: Message, reply: Message) -> None:
    """Nothing in the metadata but what those of any reply to it say."""
    own, plain = (dict(vars(each.metadata)) for each in (reply, Message(RecordDict(), reply_to=message)))
    times = [each.pop("_created_at") + each.pop("_ttl") for each in (own, plain)]
    assert own == plain
    assert times[0] == pytest.approx(times[1], abs=1e-3)


def charged(folder: Path) -> list[str]:
    """The ledger's lines, but for the name of what is kept, which is a keyed hash."""
    file = folder / "ledger" / "ledger.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [json.dumps({**line, "kept": "kept"} if "kept" in line else line) for line in lines]


def released(folder: Path, unit: Any = "record") -> tuple[Event, ...]:
    with own_ledger.opened_ledger(folder / "ledger", (0, 1)) as ledger:
        return ledger.events(unit=unit)


def node(folder: Path) -> Node:
    return Node.of({"policy": str(folder / "policy.toml"), "partition-id": 0, "num-partitions": 1})


def held(folder: Path, text: str = RECORDS, *overrides: str) -> list[list[bytes]]:
    """What each client has, record by record."""
    pool, division = node(folder)._data(study_file.parsed_study(text, overrides=overrides)) or (None, None)
    assert pool is not None
    assert division is not None
    rows = [records_of(division, number) for number in range(division.clients)]
    return [[pool.x[one].tobytes() + pool.y[one].tobytes() for one in own] for own in rows]


# --- whose a record is --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, 97, 200])
@pytest.mark.parametrize("clients", [1, 7, 50, 1000])
def test_one_record_more_wherever_it_stands_changes_the_data_of_one_client_by_that_record(
    place: int, clients: int, tmp_path: Path
) -> None:
    before, after = (held(each, RECORDS, f"clients.count={clients}") for each in pair(tmp_path, more(place)))
    differ = [(was, now) for was, now in zip(before, after, strict=True) if was != now]
    ((was, now),) = differ
    (new,) = [at for at in range(len(now)) if now[:at] + now[at + 1 :] == was]
    assert len(now) == len(was) + 1
    assert sum(map(len, after)) == 201
    assert new >= 0


def test_a_record_in_the_place_of_another_changes_one_client_by_one_record_less_and_one_by_one_more(
    tmp_path: Path,
) -> None:
    before, after = map(held, pair(tmp_path, replaced(3)))
    moved = sorted(len(now) - len(was) for was, now in zip(before, after, strict=True) if was != now)
    assert moved in ([-1, 1], [0])


def test_the_order_of_a_file_moves_no_record_and_equal_ones_are_one_clients(tmp_path: Path) -> None:
    one, two = pair(tmp_path, lambda x, y: (x[::-1].copy(), y[::-1].copy()))
    assert [sorted(own) for own in held(one)] == [sorted(own) for own in held(two)]
    twice = directory(tmp_path / "twice", lambda x, y: (np.concatenate([x, x]), np.concatenate([y, y])))
    assert [sorted(own * 2) for own in held(one)] == [sorted(own) for own in held(twice)]


def test_a_node_deals_by_a_secret_of_its_own_made_once_that_nobody_else_reads(tmp_path: Path) -> None:
    one, two = (directory(tmp_path / name) for name in ("one", "two"))
    for folder in (one, two):
        (folder / "ledger" / DEALING).unlink()
        assert wrong_with_data(folder / "policy.toml") is None
        assert stat.S_IMODE((folder / "ledger" / DEALING).stat().st_mode) == 0o600
    assert held(one) == held(one) != held(two)
    sizes = np.array([len(own) for own in held(one, RECORDS, "clients.count=4")])
    assert sizes.sum() == 200
    assert (abs(sizes - 50) < 5 * np.sqrt(200 * 0.25 * 0.75)).all()


def test_a_client_without_records_answers_as_one_whose_update_is_zero(tmp_path: Path) -> None:
    few = directory(tmp_path / "few", count=1)
    assert sum(map(bool, held(few))) == 1
    for text in (RECORDS, CLIENTS):
        answers = {len(asked(each, text)) for each in (few, directory(tmp_path / f"many{len(text)}"))}
        assert len(answers) == 1
    study = study_file.parsed_study(CLIENTS, overrides=["privacy.mechanism.noise=1e-9"])
    cohort = Cohort(prepared_study(study, node(few)._data(study)), answers=True)
    out = np.full((50, 18), np.nan, np.float32)
    assert cohort._train(MODEL, 1, np.arange(50), out) == {}
    assert [bool(row.any()) for row in out] == [bool(own) for own in held(few)]


def test_a_node_may_have_no_record_at_all(tmp_path: Path) -> None:
    one, two = directory(tmp_path / "none", nobody), directory(tmp_path / "one", count=1)
    for text in (RECORDS, CLIENTS):
        assert len(asked(one, text)) == len(asked(two, text))
    assert charged(one) == charged(two)


def test_the_releases_of_a_whole_node_are_no_further_apart_than_one_records_is_certified_for(tmp_path: Path) -> None:
    """Of a server that makes 50 clients of one node: the sums themselves, the noise taken away."""
    study = study_file.parsed_study(RECORDS, overrides=["privacy.release.noise=1e-9"])
    sums = []
    for folder in pair(tmp_path, more(0)):
        own = Cohort(prepared_study(study, node(folder)._data(study)), "seeded", answers=True)
        out = np.zeros((50, 18), np.float32)
        assert own.releasing is not None
        own.releasing.updates(MODEL, 1, np.arange(50), out)
        sums.append(out.astype(np.float64) * study.clients.records)
        assert isinstance(asked(folder), bytes)
    distance = float(np.linalg.norm(sums[0] - sums[1]))
    assert 0 < distance <= 1 + 1e-4  # 10.2 where records were dealt by their numbers
    certified = total_epsilon(released(tmp_path / "two"), 1e-5)
    assert certified == pytest.approx(0.926341504)
    assert gaussian_epsilon(distance / 4, 1e-5) <= certified + 1e-4
    assert charged(tmp_path / "one") == charged(tmp_path / "two")


def gaussian_epsilon(mu: float, delta: float) -> float:
    """ε of N(0, 1) against N(μ, 1), by bisection."""
    low, high = 0.0, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        found = norm.cdf(mu / 2 - middle / mu) - np.exp(middle) * norm.cdf(-mu / 2 - middle / mu)
        low, high = (middle, high) if found > delta else (low, middle)
    return high


@pytest.mark.parametrize("kind", SUMS)
def test_no_rate_and_no_divisor_of_a_release_is_a_clients_own_number_of_records(kind: str, tmp_path: Path) -> None:
    """Equal records, all of them drawn: the sum grows with their number, and nothing else does."""
    release = study_file.parsed_study(RECORDS, overrides=[f"privacy.release={settings(kind)}", "clients.count=1"])
    private = release.privacy.private_sum
    assert private is not None
    found = {}
    for count in (8, 16):
        folder = directory(tmp_path / str(count), lambda x, y: (np.full_like(x, 0.1), np.zeros_like(y)), count=count)
        cohort = Cohort(prepared_study(release, node(folder)._data(release)), "seeded", answers=True)
        out = np.zeros((1, 18), np.float32)
        assert cohort.releasing is not None
        cohort.releasing.updates(MODEL, 1, np.array([0]), out)
        found[count] = float(np.linalg.norm(out)) * private.sampling * release.clients.records
    trimmed = 2 if kind == "TrimmedGaussian" else 0  # gradients that are all alike pass no test of Ptr's
    assert found[16] / found[8] == pytest.approx((16 - trimmed) / (8 - trimmed), rel=1e-3)


SETTINGS: dict[str, dict[str, Any]] = {
    "DpSgd": {"clip": 0.5, "noise": 1e-6, "sampling": 1.0},
    "TrimmedGaussian": {"clip": 0.5, "noise": 1e-6, "sampling": 1.0, "trimmed": 2},
    "Ptr": {"clip": 0.5, "bound": 0.5, "noise": 1e-6, "test_noise": 0.01, "failure": 0.4, "sampling": 1.0,
            "trimmed": 2, "step": 0},
    "AdaptiveDpSgd": {"clip": 0.5, "noise": 1e-6, "sampling": 1.0, "count_noise": 2.0},
}  # fmt: skip


def settings(kind: str, **changed: Any) -> str:
    words = {"kind": kind} | SETTINGS[kind] | changed
    return "{" + ", ".join(f"{name}={value!r}" for name, value in words.items()) + "}"


# --- what is said where data are not in order ---------------------------------------------------------------------

KEPT_STUDY = """
name = "kept"
training = "KIND"
data = { kind = "Digits", divide = 8.0, subtract = 1.0 }
clients = { count = 1, records = 20 }
privacy.release = { epsilon = 2.0, epsilon_2 = 0.5 }
run.rounds = 2
"""


ENCODED = "training.model={kind='EncodedCnn', maps=[4], kernel=3, units=4}"


def images(count: int, value: float = 0.0) -> Change:
    """So many records of 8 × 8, the last of them of that value."""

    def change(_: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.random.default_rng(3).uniform(-0.9, 0.9, (count, 8, 8)).astype(np.float32)
        x[-1] += np.float32(value)
        return x, np.arange(count) % 10

    return change


def kept_study(batch: int = 12, clients: int = 1, kind: str = "AdLm") -> tuple[str, np.ndarray]:
    """As a server sends it: the sizes of its model written out."""
    overrides = [ENCODED, f"privacy.release.batch={batch}", f"clients.count={clients}"]
    each = batch * KEPT[kind].batches
    plan = planned(
        study_file.parsed_study(KEPT_STUDY.replace("KIND", kind), overrides=[*overrides, f"clients.records={each}"])
    )
    return study_file.study_text(plan.study), plan.net.initial()


def of_kept(folder: Path, *about: Any, round: int = 1) -> str | bytes:
    text, model = kept_study(*about)
    return asked(folder, text, round=round, model=model)


BAD: dict[str, tuple[Change, str]] = {
    "a label past the classes": (more(17, label=3), "record 17 has label 3, and this node's policy says classes = 3"),
    "a label below 0": (more(17, label=-1), "label 17 is -1"),
    "a label that is a canary's": (more(17, label=2**15), "record 17 has label 32768"),
    "a value that is nan": (more(17, value=np.nan), "record 17 holds nan"),
    "a value that is infinite": (replaced(17, value=np.inf), "record 17 holds inf"),
    "fewer labels than records": (lambda x, y: (x, y[:-1]), "holds 200 records, but"),
    "labels that are no numbers": (lambda x, y: (x, y.astype(str)), "labels must be whole numbers"),
    "records of another shape": (
        lambda x, y: (x[:, :3], y),
        "a model of 18 coordinates, where the study's has 12 here",
    ),
    "records that are complex": (lambda x, y: (x.astype(complex), y), "features must be real numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_whatever_is_the_matter_with_data_the_server_hears_one_sentence_and_it_is_charged_like_an_answer(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, why = BAD[name]
    good, bad = pair(tmp_path, change)
    for round in (1, 2):
        assert isinstance(asked(good, round=round), bytes)
        assert asked(bad, round=round) == asked(bad, round=round) == REFUSAL
        said = capsys.readouterr().err
        assert said.count("\n") == 1  # asked again, it is the stored refusal
        assert why in said
    assert charged(good) == charged(bad)
    assert len(charged(bad)) == 3


@pytest.mark.parametrize("broken", ["x.npy", "y.npy", "data"])
@pytest.mark.parametrize("how", ["missing", "cut", "no array"])
def test_files_that_cannot_be_read_are_said_in_the_same_words(broken: str, how: str, tmp_path: Path) -> None:
    good, bad = pair(tmp_path, same)
    for file in [bad / "data" / broken] if broken != "data" else [bad / "data" / name for name in ("x.npy", "y.npy")]:
        content = file.read_bytes()
        file.unlink()
        if how != "missing":
            file.write_bytes(content[:140] if how == "cut" else b"x" * 300)
    assert isinstance(asked(good), bytes)
    assert asked(bad) == REFUSAL
    assert charged(good) == charged(bad)


def test_one_record_decides_no_more_between_answers_than_it_is_charged_for(tmp_path: Path) -> None:
    """Labels of one class only, or of the last one: whose answers were refused, and whose model was larger."""
    one_class = directory(tmp_path / "one class", lambda x, y: (x, np.ones_like(y)))
    two = directory(tmp_path / "two", lambda x, y: (x, np.append(np.ones_like(y)[1:], 0)))
    canary = directory(tmp_path / "canary", lambda x, y: (x, np.append(np.ones_like(y)[1:], 2)))
    heard = [asked(each) for each in (one_class, two, canary)]
    assert len({len(each) for each in heard}) == 1
    assert all(isinstance(each, bytes) for each in heard)
    assert charged(one_class) == charged(two) == charged(canary)


def test_the_number_of_records_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terms = TERMS.replace("classes = 3", "classes = 10")
    for count in (37, 38):
        folder = directory(tmp_path / str(count), images(count), terms)
        assert of_kept(folder, 1000) == REFUSAL
        assert "of " + str(count) in capsys.readouterr().err  # in the node's own log
    assert charged(tmp_path / "37") == charged(tmp_path / "38")
    assert len(charged(tmp_path / "37")) == 2


def test_a_value_out_of_range_is_no_answer_and_its_refusal_is_charged_once_like_what_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = TERMS.replace("classes = 3", "classes = 10")
    good = directory(tmp_path / "good", images(40), terms)
    bad = directory(tmp_path / "bad", images(40, 8.375), terms)
    for round in (1, 2):
        assert isinstance(of_kept(good, round=round), bytes)
        assert of_kept(bad, round=round) == REFUSAL
        assert "record 39 reaches" in capsys.readouterr().err
    assert charged(good) == charged(bad)
    assert released(good) == released(bad)


def test_what_fails_within_training_is_said_in_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("record 17 of 38 is 8.375")

    good, bad = pair(tmp_path, same)
    assert isinstance(asked(good), bytes)
    monkeypatch.setattr("clients.training.cohort.Cohort.reply", fails)
    assert asked(bad) == REFUSAL
    assert charged(good) == charged(bad)


def test_in_a_masked_sum_too_and_no_vector_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = (directory(tmp_path / name, change) for name, change in (("good", same), ("bad", more(17, label=3))))
    sums = Deployed(tmp_path)
    for each, folder in enumerate((good, bad)):
        own = f'clients = 8\nclasses = 3\ndata = {{ kind = "Arrays", path = "{folder / "data"}" }}\n'
        (sums.node(each) / "policy.toml").write_text(sums.policy + own)
    sums.shared()
    assert sums.answer(0, "vector", sums.session.letters(0))
    assert sums.refusal(1, "vector", sums.session.letters(1)) == REFUSAL
    assert "record 17 has label 3" in capsys.readouterr().err
    assert sums.charged(0) == sums.charged(1) == 1


def test_a_nodes_data_are_checked_when_it_starts_and_its_log_names_the_record(tmp_path: Path) -> None:
    good, bad = pair(tmp_path, more(17, label=3))
    assert wrong_with_data(good / "policy.toml") is None
    assert "record 17 has label 3" in str(wrong_with_data(bad / "policy.toml"))
    (bad / "data" / "y.npy").unlink()
    assert "y.npy is missing" in str(wrong_with_data(bad / "policy.toml"))


REFUSED: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "a model of another shape": (RECORDS, [], {"model": np.zeros(12, np.float32)}),
    "a model that cannot be built": (RECORDS, ["training.model={kind='Cnn'}"], {}),
    "less noise than the budget pays for": (RECORDS, ["privacy.release.noise=0.001"], {}),
    "clients of others": (RECORDS, [], {"who": [50]}),
    "updates as they are": (BARE, [], {}),
    "batches of more than there are": (BARE, ["training=AdLm", "privacy.release.batch=201"], {}),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("change", [more(0), more(100), replaced(50)])
def test_neighbours_refuse_in_the_same_bytes_and_are_charged_the_same(
    name: str, change: Change, tmp_path: Path
) -> None:
    text, overrides, about = REFUSED[name]
    one, two = pair(tmp_path, change, terms=TERMS.replace("1e6", "200.0"))
    heard = [[asked(folder, text, *overrides, round=round, **about) for round in (1, 2)] for folder in (one, two)]
    assert heard[0] == heard[1]
    assert all(isinstance(each, str) for each in heard[0])
    assert charged(one) == charged(two)


@pytest.mark.parametrize(
    "asks", [["corruption={kind='LabelFlip', share=0.5}"], ["attack={kind='LabelFlip'}", "clients.byzantine=3"]]
)
def test_nobodys_own_data_are_corrupted_or_attackers_whatever_the_policy_lets_studies_try(
    asks: list[str], tmp_path: Path
) -> None:
    folder = directory(tmp_path / "node", terms=TERMS + "attacks = true\n")
    assert "no ε of this client's own data would hold" in str(asked(folder, RECORDS, *asks))
    assert not charged(folder)


# --- laws over all that can be asked ------------------------------------------------------------------------------


def written(mechanism: Mechanism) -> str:
    return inline_toml({"kind": type(mechanism).__name__} | settings_of(mechanism))


BY_CHANCE = ["privacy.unit=record", "training.sampling=0.3", "training.local_steps=2"]
CHANGES = {"one in front": more(0), "one in the middle": more(77), "another": replaced(9)}
STUDIES = {
    **{mechanism: [f"privacy.mechanism={mechanism}"] for mechanism in map(written, ALL)},
    **{f"{mechanism}, a record": [f"privacy.mechanism={mechanism}", *BY_CHANCE] for mechanism in map(written, ALL)},
    **{kind: [f"privacy.release={settings(kind, noise=4.0, sampling=0.5)}"] for kind in SUMS},
}


def shape(reply: str | bytes) -> Any:
    """What a server sees of an answer but for the symbols in it."""
    if isinstance(reply, str):
        return reply
    frames, failed = wire.frames_of(reply)
    return [len(frame) for frame in frames], failed


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", STUDIES)
def test_neighbours_are_charged_the_same_and_look_the_same_whatever_is_asked(
    name: str, change: str, tmp_path: Path
) -> None:
    text = study_file.study_text(study_file.parsed_study(BARE, overrides=STUDIES[name]))
    one, two = pair(tmp_path, CHANGES[change])
    for round in (1, 2):
        heard = [shape(asked(folder, text, round=round)) for folder in (one, two)]
        assert REFUSAL not in heard
        # of three symbols a frame is as long as these make it, which are noised
        if ("Ternar" in name or "Shaped" in name) and not isinstance(heard[0], str):
            heard = [(len(lengths), failed) for lengths, failed in heard]
        assert heard[0] == heard[1]
    assert charged(one) == charged(two)
    assert released(one) == released(two)


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("kind", KEPT)
def test_neighbours_of_what_is_kept_differ_in_one_clients_records_and_in_no_charge(
    kind: str, clients: int, tmp_path: Path
) -> None:
    terms = TERMS.replace("classes = 3", "classes = 10")

    def other(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = images(90)(x, y)
        x[40], y[40] = 0.25, 7
        return x, y

    one, two = directory(tmp_path / "one", images(90), terms), directory(tmp_path / "two", other, terms)
    text, _ = kept_study(12, clients, kind)
    before, after = held(one, text), held(two, text)
    ((was, now),) = [(was, now) for was, now in zip(before, after, strict=True) if was != now]
    assert sum(a != b for a, b in zip(was, now, strict=True)) == 1
    for folder in (one, two):
        assert all(isinstance(of_kept(folder, 12, clients, kind, round=round), bytes) for round in (1, 2))
    assert charged(one) == charged(two)
    assert released(one) == released(two)


# --- budgets of clients -------------------------------------------------------------------------------------------


def test_a_client_whose_records_are_at_several_clients_of_another_study_is_charged_for_all_their_messages(
    tmp_path: Path,
) -> None:
    """60 records at one client of the one study, at five of the other: six messages are about it, where two counted."""
    terms = TERMS.replace('unit = "record"', "clients = 5")
    folder = directory(tmp_path / "node", terms=terms, count=60)
    asked(folder, CLIENTS, "name=one", "clients.count=1")
    asked(folder, CLIENTS, "name=five", "clients.count=5")
    six = by_hand(Gaussian(clip=1.0, noise=8.0), rounds=6, dimension=18, geometry="l2", trust="local", unit="client")
    (each,) = released(folder, "client")
    assert each.rounds == 6
    assert total_epsilon((each,), 1e-5) == pytest.approx(2.50174, abs=1e-4)
    assert total_epsilon((each,), 1e-5) >= Account((six,)).epsilon(1e-5).bounds.lower
    strict = directory(tmp_path / "strict", terms=terms.replace("1e6", "2.4"), count=60)
    assert isinstance(asked(strict, CLIENTS, "name=one", "clients.count=1"), bytes)
    assert "past the budget" in str(asked(strict, CLIENTS, "name=five", "clients.count=5"))


def test_clients_of_studies_that_divide_alike_are_charged_each_for_itself(tmp_path: Path) -> None:
    folder = directory(tmp_path / "node", terms=TERMS.replace('unit = "record"', "clients = 5"), count=60)
    for name in ("one", "two"):
        asked(folder, CLIENTS, f"name={name}", "clients.count=5")
    assert [each.rounds for each in released(folder, "client")] == [2]


def test_others_noise_counts_for_no_client_whose_records_are_at_several_in_one_sum(tmp_path: Path) -> None:
    """Five messages that change in one sum are one change five times as large: they count as if each were seen."""
    terms = TERMS.replace('unit = "record"', 'clients = 5\ntrust = "simulated"\ncontributors = 50')
    folder = directory(tmp_path / "node", terms=terms, count=60)
    summed = CLIENTS.replace("noise = 8.0 }", 'noise = 8.0 }\nprivacy.trust = "secure-aggregation"').replace(
        'kind = "Gaussian", clip = 1.0, noise = 8.0', 'kind = "Binomial", clip = 1.0, scale = 8.0, trials = 4'
    )
    assert isinstance(asked(folder, summed, "name=five", "clients.count=5"), bytes)
    assert all(isinstance(each.trust, Sums) for each in released(folder, "client"))
    assert isinstance(asked(folder, CLIENTS, "name=one", "clients.count=1"), bytes)
    assert {each.trust for each in released(folder, "client")} == {Local()}
    assert sorted(each.rounds for each in released(folder, "client")) == [1, 5]


def test_a_record_that_is_kept_in_anothers_place_is_charged_where_the_other_was_too(tmp_path: Path) -> None:
    """Neighbours of what is kept have one record for another, and dealt by content the two are at two clients."""
    folder = directory(tmp_path / "node", images(90), TERMS.replace("classes = 3", "classes = 10"))
    cohort = ["clients.count=5", "data={kind='Digits'}", "clients.records=4"]
    model = np.zeros(650, np.float32)
    assert isinstance(asked(folder, CLIENTS, *cohort, model=model), bytes)
    assert [each.rounds for each in released(folder)] == [1]
    assert isinstance(of_kept(folder), bytes)
    assert [each.rounds for each in released(folder) if each.unit == "client"] == [2]


def test_a_message_of_records_is_charged_to_whichever_unit_the_budget_is_of(tmp_path: Path) -> None:
    by_record, by_client = directory(tmp_path / "one"), directory(tmp_path / "two", terms=OF_CLIENTS, count=60)
    own = "clients.count=5"
    assert isinstance(asked(by_record, CLIENTS, *BY_CHANCE, own), bytes)
    assert isinstance(asked(by_client, CLIENTS, *BY_CHANCE, own), bytes)
    (of_record,), (of_client,) = released(by_record), released(by_client, "client")
    assert (of_record.unit, of_record.sampling) == ("record", pytest.approx(1 - 0.7**2))
    assert (of_client.unit, of_client.sampling) == ("client", 1.0)
    # another record in its place is at another client: both messages are about it
    assert (of_record.rounds, of_client.rounds) == (2, 1)
    assert Account((of_record,)).upper_epsilon(1e-5) < Account((of_client,)).upper_epsilon(1e-5)


def test_a_record_there_or_not_is_about_one_client_until_something_else_replaces_records(tmp_path: Path) -> None:
    folder = directory(tmp_path / "node")
    votes = "privacy.mechanism={kind='StochasticSign', clip=1.0, scale=4.0}"
    assert isinstance(asked(folder, CLIENTS, *BY_CHANCE, votes, "privacy.adjacency=add-remove"), bytes)
    assert [each.rounds for each in released(folder)] == [1]
    assert isinstance(asked(folder, CLIENTS, *BY_CHANCE, votes, "name=other"), bytes)
    assert [each.rounds for each in released(folder)] == [2, 2]
    assert total_epsilon(released(folder), 1e-5) > 0


def test_a_ledger_of_before_there_were_ways_of_dealing_is_read_and_each_study_is_a_way_of_its_own(
    tmp_path: Path,
) -> None:
    folder = directory(tmp_path / "node", terms=TERMS.replace('unit = "record"', "clients = 5"), count=60)
    asked(folder, CLIENTS, "name=one", "clients.count=5")
    file = folder / "ledger" / "ledger.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    del lines[1]["shares"]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [each.rounds for each in released(folder, "client")] == [1]
    asked(folder, CLIENTS, "name=two", "clients.count=5")
    assert [each.rounds for each in released(folder, "client")] == [10]
    assert [each.rounds for each in released(folder, "record")] == [2]


class Hubs:
    """What Flower Datasets gives of a set: columns of each split."""

    def __init__(self, dataset: str, **_: Any) -> None:
        self._x, self._y = np.load(f"{dataset}/x.npy"), np.load(f"{dataset}/y.npy")

    def load_split(self, split: str) -> Any:
        assert split == "train", "a node reads its training records and nothing else"
        return Columns({"image": self._x, "label": self._y})


class Columns(dict[str, Any]):
    """A split."""

    @property
    def column_names(self) -> list[str]:
        return list(self)

    def with_format(self, _: str) -> Columns:
        return self


@pytest.mark.parametrize("labels", [[1, 1, 1], [1, 1, 1, 0], []], ids=str)
def test_which_labels_occur_in_a_set_of_the_hub_tells_nothing(
    labels: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flower = types.ModuleType("flwr_datasets")
    flower.FederatedDataset = Hubs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flwr_datasets", flower)
    np.save(tmp_path / "x.npy", np.random.default_rng(1).random((len(labels), 4)).astype(np.float32))
    np.save(tmp_path / "y.npy", np.array(labels, np.int64))
    policy = Policy(budget=Budget(1.0, 1e-5), studies=None, data=Kind("Hub", {"name": str(tmp_path)}), classes=3)
    pool = pool_of_policy(policy)
    assert pool is not None
    assert (len(pool), pool.classes, pool.y.tolist()) == (len(labels), 3, labels)
