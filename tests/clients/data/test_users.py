"""Data that say whose each record is, and studies whose clients are those users: each has its own, the rest is said."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedpriv as fp
from clients.data import Arrays, Leaf
from clients.data.identity import data_digest
from clients.data.splits import divided_records, records_of
from clients.data.users import numbered_users, users_left_out
from fedpriv.errors import FedprivError
from fedpriv.population.dealing import Users
from fedpriv.studies import file as study_file
from simulations.command_line import main

RNG = np.random.default_rng(5)
Y = RNG.integers(0, 3, 240)
X = (RNG.normal(size=(240, 4)) + 3 * np.eye(3, 4)[Y]).astype(np.float32)
NAMES = np.array([f"user {number}" for number in RNG.geometric(0.1, 240)])


SPLITS = {"users": '{kind="Users"}', "shuffled": '{kind="Users", shuffled=true}', "iid": "iid"}


def write(folder: Path, users: Any = NAMES, **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for name, values in {"x": X, "y": Y, "users": users, **more}.items():
        np.save(folder / f"{name}.npy", values)
    return folder


def write_leaf(folder: Path, halves: dict[str, list[dict[str, Any]]]) -> Path:
    """LEAF's directory: of each half one file of users and what they have, as many as there are tables."""
    for half, files in halves.items():
        (folder / half).mkdir(parents=True, exist_ok=True)
        for number, own in enumerate(files):
            counts = [len(each["y"]) for each in own.values()]
            content = {"users": list(own), "num_samples": counts, "user_data": own}
            (folder / half / f"all_data_{number}_{half}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


TRAIN: list[dict[str, Any]] = [
    {"f01": {"x": [[0.0, 1.0], [0.5, 0.5]], "y": [0, 1]}, "f02": {"x": [[1.0, 0.0]], "y": [2]}},
    {"f00": {"x": [[0.25, 0.25], [0.0, 0.0]], "y": [1, 0]}, "f03": {"x": [], "y": []}},
]
TEST: list[dict[str, Any]] = [{"f01": {"x": [[0.0, 0.75]], "y": [2]}}]


def study(folder: Path, *overrides: str) -> Any:
    text = f"""
name = "users"
data = {{ kind = "Arrays", path = "{folder}", held_out = 40 }}
clients = {{ count = 8, split = {{ kind = "Users", least = 3 }} }}
privacy.mechanism = {{ kind = "Binomial", clip = 1.0, scale = 2.0, trials = 4 }}
run = {{ rounds = 2, seed = 1 }}
"""
    return study_file.parsed_study(text, overrides=overrides)


# --- who says whose -----------------------------------------------------------------------------------------------


def test_users_are_read_beside_the_arrays_and_belong_to_the_data(tmp_path: Path) -> None:
    pool = Arrays(str(write(tmp_path / "a")), held_out=40).load()
    assert pool.owners is not None
    names, own = np.unique(NAMES[:200], return_inverse=True)
    assert pool.owners.tolist() == own.tolist()
    assert pool.owners.max() == len(names) - 1  # numbered anew: who has held-out records alone is nobody's client
    other = Arrays(str(write(tmp_path / "b", np.roll(NAMES, 1))), held_out=40).load()
    assert data_digest(pool) != data_digest(other)


def test_users_that_change_on_disk_are_read_anew(tmp_path: Path) -> None:
    first = Arrays(str(write(tmp_path / "a")), held_out=40).load()
    second = Arrays(str(write(tmp_path / "a", np.arange(240))), held_out=40).load()
    assert first.owners is not None
    assert second.owners is not None
    assert second.owners.tolist() == list(range(200)) != first.owners.tolist()
    (tmp_path / "a" / "users.npy").unlink()
    assert Arrays(str(tmp_path / "a"), held_out=40).load().owners is None


def test_where_there_are_test_files_users_are_those_of_the_training_records(tmp_path: Path) -> None:
    pool = Arrays(str(write(tmp_path / "a", np.arange(240) // 5, x_test=X[:9], y_test=Y[:9]))).load()
    assert pool.owners is not None
    assert pool.owners.tolist() == (np.arange(240) // 5).tolist()


@pytest.mark.parametrize(
    ("users", "words"),
    [
        (
            NAMES[:200],
            "users.npy: ids are whole numbers or words, one for each of 240 records, got <U7 of shape (200,)",
        ),
        (np.arange(240) / 2, "got float64 of shape (240,)"),
        (np.arange(240)[:, None], "got int64 of shape (240, 1)"),
        (np.array([None] * 240), "users.npy: not an array in .npy format"),
    ],
    ids=["too few", "floats", "a column", "objects"],
)
def test_users_that_are_no_ids_are_refused_by_name_in_one_line(users: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match=re.escape(words)) as error:
        Arrays(str(write(tmp_path / "a", users)), held_out=40).load()
    assert "\n" not in str(error.value)


# --- LEAF ---------------------------------------------------------------------------------------------------------


def test_leafs_files_are_read_user_after_user_and_its_test_files_are_held_out(tmp_path: Path) -> None:
    pool = Leaf(str(write_leaf(tmp_path, {"train": TRAIN, "test": TEST}))).load()
    assert pool.x.tolist() == [[0, 1], [0.5, 0.5], [1, 0], [0.25, 0.25], [0, 0]]
    assert (pool.y.tolist(), pool.y_test.tolist(), pool.x_test.tolist()) == ([0, 1, 2, 1, 0], [2], [[0, 0.75]])
    assert pool.owners is not None
    assert pool.owners.tolist() == [1, 1, 2, 0, 0]  # f00, f01, f02; who has no record is no user
    assert pool.classes == 3


def test_a_user_in_two_of_leafs_files_is_one(tmp_path: Path) -> None:
    pool = Leaf(str(write_leaf(tmp_path, {"train": [*TRAIN, TRAIN[0]], "test": TEST}))).load()
    assert pool.owners is not None
    assert np.bincount(pool.owners).tolist() == [2, 4, 2]


def one_user(x: Any, y: Any) -> list[dict[str, Any]]:
    return [{"eve": {"x": x, "y": y}}]


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (
            one_user(["to be or", "not to b"], ["n", "e"]),
            "Leaf reads numbers, as FEMNIST's: make numbers of words",
        ),
        (one_user([[1.0], [1.0, 2.0]], [0, 1]), "user 'eve': x and y are no arrays of records"),
        (one_user(3, [0]), "user 'eve': x and y are no arrays of records"),
        (one_user([[1.0]], [0, 1]), "user 'eve': x has 1 records, and y 2 labels"),
        (one_user([[1.0], [float("nan")]], [0, 1]), "train, x: record 1 holds nan"),
        (one_user([[1.0], [1e60]], [0, 1]), "train, x: record 1 holds inf"),
        (one_user([[1.0, 2.0]] * 2, [0, 1.5]), "train, y: label 1 is 1.5"),
        (
            [*one_user([[1.0]], [0]), *one_user([[1.0, 2.0]], [0])],
            "x has records of shape (2,), where others have (1,)",
        ),
        (one_user([], []), "its 1 file(s) hold no record"),
        ([], "holds no .json file; LEAF's data are DIRECTORY/train/*.json"),
    ],
)
def test_what_is_not_of_leafs_form_is_refused_with_its_file_in_one_line(
    train: list[dict[str, Any]], words: str, tmp_path: Path
) -> None:
    with pytest.raises(FedprivError, match=re.escape(words)) as error:
        Leaf(str(write_leaf(tmp_path, {"train": train, "test": TEST}))).load()
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1, 2]", "not of LEAF's form"),
        (b'{"users": ["eve"], "user_data": {}}', "not of LEAF's form"),
        (b'{"users": 3, "user_data": {}}', "not of LEAF's form"),
        (b'{"users": [["eve"]], "user_data": {}}', "not of LEAF's form"),
    ],
)
def test_a_file_that_is_none_of_leafs_is_refused_by_name(content: bytes, words: str, tmp_path: Path) -> None:
    write_leaf(tmp_path, {"train": TRAIN, "test": TEST})
    (tmp_path / "train" / "all_data_0_train.json").write_bytes(content)
    with pytest.raises(FedprivError, match=re.escape(words)) as error:
        Leaf(str(tmp_path)).load()
    assert "all_data_0_train.json" in str(error.value)


def test_a_study_of_leafs_users_runs(tmp_path: Path) -> None:
    write_leaf(tmp_path / "leaf", {"train": TRAIN, "test": TEST})
    changes = {"data": {"kind": "Leaf", "path": str(tmp_path / "leaf")}, "clients": {"count": 3, "split": "natural"}}
    run = fp.run(
        {"name": "leaf", "privacy.mechanism.kind": "Plain", "run": {"rounds": 1, "seed": 1}, **changes},
        tmp_path / "run", quiet=True,
    )  # fmt: skip
    assert run.header["clients"] == 3
    assert run.header["data"]["kind"] == "Leaf"


# --- each user a client -------------------------------------------------------------------------------------------


@given(
    owners=st.lists(st.integers(0, 9), min_size=1, max_size=80).map(np.array),
    least=st.integers(1, 4), clients=st.integers(1, 10), seed=st.integers(0, 2**63), shuffled=st.booleans(),
)  # fmt: skip
def test_each_client_has_one_users_records_or_as_many_at_random(
    owners: Any, least: int, clients: int, seed: int, shuffled: bool
) -> None:
    sizes = np.bincount(owners)
    enough = np.flatnonzero(sizes >= least)
    split = Users(least=least, shuffled=shuffled)
    if clients > len(enough):
        with pytest.raises(FedprivError, match=f"count = {clients}, but the data name {len(enough)} users"):
            divided_records(split, owners, clients, 1, seed, owners)
        return
    found = divided_records(split, owners, clients, 1, seed, owners)
    hands = [records_of(found, client) for client in range(clients)]
    whose = [set(owners[hand].tolist()) for hand in hands]
    assert found.disjoint
    plain = divided_records(Users(least=least), owners, clients, 1, seed, owners)
    assert [len(hand) for hand in hands] == [len(records_of(plain, client)) for client in range(clients)]
    assert sorted(np.concatenate(hands)) == sorted(np.concatenate([records_of(plain, own) for own in range(clients)]))
    if not shuffled:
        assert all(len(own) == 1 for own in whose)
        assert len(set.union(*whose)) == clients
        assert all(len(hand) == sizes[min(own)] >= least for hand, own in zip(hands, whose, strict=True))


def test_of_more_users_than_clients_the_seed_draws_some() -> None:
    owners = np.repeat(np.arange(100), 3)
    drawn = []
    for seed in (1, 1, 2):
        found = divided_records(Users(), owners, 30, 1, seed, owners)
        drawn.append([int(owners[records_of(found, client)[0]]) for client in range(30)])
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] == sorted(drawn[0])
    everybody = divided_records("natural", owners, 100, 1, 7, owners)
    assert [int(owners[records_of(everybody, client)[0]]) for client in range(100)] == list(range(100))


def test_a_shuffled_client_has_records_of_many() -> None:
    owners = np.repeat(np.arange(50), 20)
    found = divided_records(Users(shuffled=True), owners, 50, 1, 3, owners)
    kinds = [len(set(owners[records_of(found, client)].tolist())) for client in range(50)]
    assert np.mean(kinds) > 14  # 50 · (1 − (1 − 1/50)²⁰) = 16.6


def test_who_is_left_out_is_said_before_a_run_in_its_records_and_its_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = study(write(tmp_path / "data"))
    file = tmp_path / "study.toml"
    file.write_text(study_file.study_text(own), encoding="utf-8")
    sizes = np.unique(NAMES[:200], return_counts=True)[1]
    few, enough = int((sizes < 3).sum()), int((sizes >= 3).sum())
    words = f"{few} of {few + enough} users, with fewer than 3 records; {enough - 8} of the {enough} others, by lot"
    assert main(["run", str(file), "--dry-run"]) == 0
    assert f"  left out          {words}\n" in capsys.readouterr().out
    run = fp.run(str(file), tmp_path / "run", quiet=True)
    result = json.loads((run.directory / "result.json").read_text(encoding="utf-8"))
    assert run.header["left_out"] == result["left_out"] == words
    everybody = fp.run(str(file), tmp_path / "all", overrides={"clients.split": "iid"}, quiet=True)
    assert "left_out" not in everybody.header
    assert everybody.header["data"]["sha256"] == run.header["data"]["sha256"]


def test_epsilon_is_of_a_client_whatever_users_have(tmp_path: Path) -> None:
    folder = write(tmp_path / "data")
    runs = [
        fp.run(study(folder, f"clients.split={split}").table(), tmp_path / name, quiet=True)
        for name, split in {
            "users": '{kind="Users"}',
            "shuffled": '{kind="Users", shuffled=true}',
            "iid": "iid",
        }.items()
    ]
    assert len({json.dumps(run.rounds[-1]["epsilon"]) for run in runs}) == 1
    assert {run.header["release"]["unit"] for run in runs} == {"client"}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "clients.count=90",
            r"clients: count = 90, but the data name \d+ users with at least 3 records: ask for fewer",
        ),
        (
            'data={kind="Digits"}',
            "clients.split: Digits data do not say here whose each record is: Arrays by users.npy",
        ),
        ('clients.split={kind="Users", least=0}', "least must be at least 1, got 0"),
        ('clients.split={kind="Users", least=2.5}', "least must be a whole number, got 2.5"),
        ('clients.split={kind="Users", shuffled=1}', "shuffled must be true or false, got 1"),
        ('clients.split={kind="Users", most=3}', "Users has no setting 'most'"),
        ("evaluation={held_out=2, release={kind='RandomizedResponse', epsilon=1.0}}", "evaluation"),
    ],
)
def test_users_that_cannot_be_clients_are_refused_in_one_line(override: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match=words) as error:
        fp.run(study(write(tmp_path / "data"), override).table(), tmp_path / "run", quiet=True)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_arrays_without_users_are_told_which_file_would_do(tmp_path: Path) -> None:
    folder = write(tmp_path / "data")
    (folder / "users.npy").unlink()
    with pytest.raises(FedprivError, match=r"Arrays data do not say .* is: Arrays by users\.npy beside x\.npy$"):
        fp.run(study(folder).table(), tmp_path / "run", quiet=True)


def test_records_set_aside_leave_users_with_fewer(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", np.arange(240))  # one record each
    run = fp.run(
        study(folder, "data.aside=50", "clients.split.least=1", "clients.count=150").table(), tmp_path / "run",
        quiet=True,
    )  # fmt: skip
    assert run.header["clients"] == 150
    assert "left_out" not in run.header
    with pytest.raises(FedprivError, match="count = 151, but the data name 150 users"):
        fp.run(study(folder, "data.aside=50", "clients.split.least=1", "clients.count=151").table(), quiet=True)


def test_nobody_left_out_is_not_said() -> None:
    owners = numbered_users(np.array(["b", "a", "b"]), 3, "users")
    assert users_left_out(owners, 1, 2) is None
    assert users_left_out(owners, 2, 1) == "1 of 2 users, with fewer than 2 records"
    assert users_left_out(owners, 1, 1) == "1 of 2 users, by lot"


def test_users_are_drawn_and_shuffled_as_they_always_were() -> None:
    owners = np.array([3, 0, 2, 0, 1, 2, 2, 3, 3, 1])
    drawn, shuffled = Users(least=2).dealt(owners, 2, 1), Users(shuffled=True).dealt(owners, 4, 1)
    assert [each.tolist() for each in drawn] == [[1, 3, 2, 5, 6], [2, 3]]
    assert [each.tolist() for each in shuffled] == [[3, 2, 5, 9, 8, 6, 0, 4, 1, 7], [2, 2, 3, 3]]
