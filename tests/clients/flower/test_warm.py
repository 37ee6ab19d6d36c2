"""A node's worker: the same answers, under the same policy and ledger, whatever ends, hangs or comes at once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from clients import app as client
from clients.flower import answering, warm, warm_worker
from clients.flower.code import code_identity
from clients.node.policy import Policy
from fedpriv.studies import file as study_file

POLICY = """
studies = "any"
unit = "record"
budget = { epsilon = 1000.0, delta = 1e-5 }
attacks = true
reruns = true
imports = ["tests.faults:Hangs", "tests.faults:Dies"]
"""
STUDY = """
name = "asked"
data = { kind = "Synthetic", records = 60, features = 5, classes = 3, held_out = 20 }
clients = { count = 20, records = 2 }
privacy = { trust = "TRUST", mechanism = { kind = "Binomial", clip = 1.0, scale = 4.0, trials = 3 } }
run.rounds = 2
"""
SUM: dict[str, Any] = {"trust": "secure-aggregation", "action": "train.mask", "overrides": ("masking.threshold=0.7",)}
Frames = bytes | str  # an answer, or why there is none

pytestmark = [
    pytest.mark.flower,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="workers are Linux's alone"),
]


@pytest.fixture(autouse=True)
def executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as one that Flower starts for a message; messages are made inside its runtime only."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setattr(sys, "argv", [f"/somewhere/{answering.EXECUTOR}"])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A node with a worker, which one test after another asks."""
    yield from node(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A node of one's own."""
    yield from node(tmp_path)


def node(folder: Path) -> Iterator[Path]:
    (folder / "policy.toml").write_text(POLICY)
    yield folder
    for pid in processes(folder):
        os.kill(pid, signal.SIGKILL)


def processes(folder: Path) -> list[int]:
    """The worker of a node, and its forks."""
    found = []
    for own in Path("/proc").glob("[0-9]*"):
        try:
            words = (own / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"clients.flower.warm_worker" in words and str(folder / "ledger").encode() in words:
            found.append(int(own.name))
    return sorted(found)


def until(done: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)
    return found


def message(
    folder: Path, *, trust: str = "local", action: str = "train", overrides: tuple[str, ...] = (), **changes: Any
) -> tuple[Message, Context]:
    text = study_file.study_text(study_file.parsed_study(STUDY.replace("TRUST", trust), overrides=overrides))
    task: dict[str, Any] = {
        "study": text, "round": 1, "seconds": 60.0, "until": 0.0, "restarted": False, "code": code_identity(),
        "run": "first",
    }  # fmt: skip
    task |= {name: value for name, value in changes.items() if name != "body"}
    arrays = {"clients": Array(np.arange(10)), "weights": Array(np.zeros(18, np.float32))}
    if "body" in changes:
        arrays["body"] = Array("uint8", (len(changes["body"]),), answering.RAW, changes["body"])
    content = RecordDict({"task": ConfigRecord(task), "arrays": ArrayRecord(arrays)})
    config: Any = {"policy": str(folder / "policy.toml"), "partition-id": 0, "num-partitions": 2}
    context = Context(run_id=1, node_id=1, node_config=config, state=RecordDict(), run_config={})
    return Message(content, 1, action), context


def asked(folder: Path, **changes: Any) -> Frames:
    return opened(client.app(*message(folder, **changes)))


def opened(reply: Message) -> Frames:
    return str(reply.error.reason) if reply.has_error() else reply.content.array_records["answer"]["frames"].data


def nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked from now on is answered by a worker or not at all."""

    def answered(*_: Any) -> Any:
        raise AssertionError("it was answered in the process of the message")

    monkeypatch.setattr(answering, "answered_message", answered)


# --- the same answers ---------------------------------------------------------------------------------------------


def test_an_answer_is_the_same_bytes_as_without_a_worker(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shared / "policy.toml").write_text(POLICY + 'noise = "seeded"')
    (tmp_path / "policy.toml").write_text(POLICY + 'noise = "seeded"')
    with monkeypatch.context() as alone:
        alone.setattr(sys, "argv", ["a simulation's"])
        cold = [asked(tmp_path, round=round) for round in (1, 2)]
        refused = asked(tmp_path, code="another version")
    assert not processes(tmp_path)
    nowhere_else(monkeypatch)
    assert [asked(shared, round=round) for round in (1, 2)] == cold
    assert asked(shared, round=1) == cold[0]  # kept, and not drawn again
    assert asked(shared, code="another version") == refused
    ledgers = [(folder / "ledger/ledger.jsonl").read_bytes() for folder in (shared, tmp_path)]
    assert ledgers[0] == ledgers[1]


def test_answers_of_one_worker_share_no_noise_and_no_keys(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shared / "policy.toml").write_text(POLICY)
    nowhere_else(monkeypatch)
    assert len({asked(shared, run=run) for run in ("second", "third", "fourth")}) == 3
    assert len({asked(shared, phase="keys", body=b"", **SUM) for _ in range(3)}) == 3


def test_a_policy_that_is_edited_between_two_messages_holds_for_the_second(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere_else(monkeypatch)
    (shared / "policy.toml").write_text(POLICY)
    assert isinstance(asked(shared, run="before"), bytes)
    (shared / "policy.toml").write_text(POLICY + 'mechanisms = ["Skellam"]')
    assert asked(shared, run="after") == "refused: Binomial is not among this client's mechanisms: Skellam"


def test_two_messages_at_once_are_both_answered(shared: Path) -> None:
    (shared / "policy.toml").write_text(POLICY)
    both = [message(shared, run=run) for run in ("here", "there")]
    with ThreadPoolExecutor() as pool:
        found = list(
            pool.map(lambda each: warm.answered_by_worker(code_identity(), "", each[0].content, each[1]), both)
        )
    assert all(each and each[0] and not each[1] for each in found)


def test_what_a_node_keeps_between_the_phases_of_a_masked_sum_comes_back_and_is_used_once(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere_else(monkeypatch)
    (shared / "policy.toml").write_text(POLICY)
    keys, context = message(shared, phase="keys", body=b"", **SUM)
    assert isinstance(opened(client.app(keys, context)), bytes)
    assert context.state.config_records["masking"]["stage"] == "shares"
    shares, _ = message(shared, phase="shares", body=b"no roster", **SUM)
    assert isinstance(opened(client.app(shares, context)), str)
    assert "masking" not in context.state


# --- whatever ends or hangs ---------------------------------------------------------------------------------------


def test_who_dies_or_hangs_costs_one_message_and_is_replaced(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere_else(monkeypatch)
    (shared / "policy.toml").write_text(POLICY)
    dies, hangs = (
        {"overrides": (f"attack={{kind='tests.faults:{kind}', marker='{tmp_path / kind}'}}", "clients.byzantine=19")}
        for kind in ("Dies", "Hangs")
    )
    assert asked(shared, **dies) == warm.ENDED
    (worker,) = until(lambda: len(found := processes(shared)) == 1 and found)
    assert isinstance(asked(shared, **dies), bytes)
    (shared / "policy.toml").write_text(POLICY + "longest_round = 2.0")
    assert asked(shared, **hangs) == warm.ENDED
    assert (tmp_path / "Hangs").exists()
    (shared / "policy.toml").write_text(POLICY)
    assert isinstance(asked(shared, **hangs), bytes)
    assert worker in processes(shared)
    os.kill(worker, signal.SIGKILL)
    assert isinstance(asked(shared, round=2), bytes)
    assert worker not in processes(shared)


def test_a_worker_of_other_code_is_replaced_and_a_message_that_none_suits_is_answered_where_it_is(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, asking = processes(shared), message(shared, run="other code")
    assert before
    assert warm.answered_by_worker("f" * 16, "", asking[0].content, asking[1]) is None
    until(lambda: before[0] not in processes(shared))
    nowhere_else(monkeypatch)
    assert isinstance(asked(shared, run="other code"), bytes)


def test_a_worker_ends_with_its_node(place: Path) -> None:
    words = "import sys; from clients.flower import warm; warm.begin_worker({'policy': sys.argv[1]})"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {words!r}, sys.argv[1]]); input()"
    root = {"PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    command = [sys.executable, "-c", starts, str(place / "policy.toml")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=os.environ | root) as supernodes:
        until(lambda: processes(place))
        supernodes.kill()
    until(lambda: not processes(place))
    assert not (place / "ledger" / warm.NAME).exists()


@pytest.mark.parametrize("why", ["its node ends", "its name is another's", "nobody asks it"])
def test_a_worker_ends_when(why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_worker, "LOOKS", 0.01)
    name, (node, running) = tmp_path / warm.NAME, os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(name))
        listener.listen()
        own = warm_worker.Worker(tmp_path, name.stat().st_ino, listener, node)
        if why == "its node ends":
            os.close(running)
        elif why == "its name is another's":
            name.rename(tmp_path / "before")
            name.touch()
        own.serve(idle=0.0 if why == "nobody asks it" else 60.0)
    assert name.exists() == (why == "its name is another's")


# --- who may ask --------------------------------------------------------------------------------------------------


def test_the_socket_is_its_users_alone(shared: Path) -> None:
    about = (shared / "ledger" / warm.NAME).stat()
    assert about.st_mode & 0o777 == 0o600
    assert (shared / "ledger").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_worker_answers_nobody_elses_process(shared: Path) -> None:
    socket_file, opened = shared / "ledger" / warm.NAME, [shared, shared / "ledger"]
    script = (
        "import os, socket, sys; own = socket.socket(socket.AF_UNIX); os.chdir(sys.argv[1]); os.setuid(65534)\n"
        "own.connect(sys.argv[2]); print(own.recv(16))"
    )

    def tried() -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", script, str(shared / "ledger"), warm.NAME]
        return subprocess.run(words, capture_output=True, text=True, timeout=20)

    assert "PermissionError" in tried().stderr
    modes = {each: each.stat().st_mode & 0o777 for each in [*opened, socket_file]}
    try:
        for each in modes:
            each.chmod(0o777)
        assert tried().stdout == "b''\n"
    finally:
        for each, mode in modes.items():
            each.chmod(mode)


@pytest.mark.parametrize("wrong", ["mode", "file", "policy", "none"])
def test_where_a_worker_cannot_be_had_there_is_none(wrong: str, place: Path) -> None:
    asking, context = message(place)
    if wrong == "mode":
        (place / "ledger").mkdir(mode=0o755)
    elif wrong == "file":
        (place / "ledger").write_text("")
    elif wrong == "policy":
        (place / "policy.toml").write_text("[")
    else:
        (place / "policy.toml").unlink()
    assert warm.answered_by_worker(code_identity(), "", asking.content, context) is None
    assert not processes(place)


def test_a_stranger_at_the_workers_name_is_not_told_the_message(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "ledger").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(place / "ledger" / warm.NAME))
        stranger.listen()
        monkeypatch.setattr(warm, "is_own_process", lambda connection: False)
        asking, context = message(place)
        assert warm.answered_by_worker(code_identity(), "", asking.content, context) is None
        connection, _ = stranger.accept()
        assert connection.recv(1) == b""
        connection.close()


def test_the_process_of_a_message_loads_neither_torch_nor_numba_nor_scipy() -> None:
    words = "import sys; from clients import app; print({'torch', 'numba', 'scipy'} & set(sys.modules))"
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", words], cwd=root, capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_the_ledger_is_where_the_policy_has_it() -> None:
    assert Policy.ledger == warm.LEDGER
