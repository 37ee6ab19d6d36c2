"""A real deployment: SuperLink and SuperNodes in processes of their own, with certificates, keys, policies, ledgers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from clients.node.guard import UNUSABLE
from fedpriv.masking.identity import Identity
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from server import rounds
from simulations.cli import deploy as deploy_commands
from simulations.command_line import main
from simulations.flower._deploy_certificates import write_certificates, write_node_key
from simulations.flower._deploy_parts import IDENTITY, PEERS, write_peers
from simulations.flower.deploy_state import EXECUTOR, MARK, STATE, Deployment, Process
from simulations.flower.surroundings import process_began
from simulations.runs import direct

NO_FLOWER = "fedpriv: flower-superlink is not there: Flower is not installed beside fedpriv"
TINY = """
name = "tiny"
data = { kind = "Synthetic", records = 60, features = 5, classes = 3, held_out = 20 }
clients = { count = 21, records = 2 }
privacy.mechanism = { kind = "Binomial", clip = 1.0, scale = 4.0, trials = 3 }
privacy.budget = 8.0
server.timeout = 300.0
run.rounds = 2
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A deployment's directory, which nothing outlives."""
    yield tmp_path / "deployment"
    main(["deploy", "down", "--directory", str(tmp_path / "deployment")])


def deploy(capsys: pytest.CaptureFixture[str], place: Path, *words: str) -> tuple[int, Any, str]:
    """What `fedpriv deploy` answers: its exit code, its JSON, and what it says beside."""
    code = main(["deploy", words[0], "--directory", str(place), "--json", *words[1:]])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, err


def lines(directory: Path, name: str = "records.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / name).read_text().splitlines()]


def tiny() -> Study:
    return study_file.parsed_study(TINY)


@pytest.mark.slow
@pytest.mark.flower
def test_a_deployment_that_was_mended_runs_to_the_simulations_bits_and_every_client_charged_its_own_ledger(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, told, _ = deploy(capsys, place, "up", "--nodes", "2", "--tls", "--seeded")
    assert (code, told["runs"], len(told["processes"])) == (0, True, 3)
    assert place.stat().st_mode & 0o777 == 0o700
    homes = [Path(each["directory"]) for each in told["processes"][1:]]
    assert [lines(home / "ledger", "ledger.jsonl")[0]["place"] for home in homes] == [[0, 2], [1, 2]]
    mark = f"{MARK}={json.loads((place / STATE).read_text())['mark']}"
    executor = [
        pid for pid in marked(mark) if EXECUTOR in command(pid) and str(told["processes"][2]["port"]) in command(pid)
    ]
    kill(executor[0], told["processes"][0]["pid"])
    code, broken, _ = deploy(capsys, place, "status")
    assert (code, [each["runs"] for each in broken["processes"]]) == (1, [False, True, False])
    code, _, said = deploy(capsys, place, "up", "--nodes", "2", "--tls")
    assert (code, said.count("\n")) == (2, 1)
    assert "policies of node-0, node-1 say noise = 'seeded', and this asks for 'cryptographic': add --seeded" in said
    with (place / "node-1" / "policy.toml").open("a") as file:
        file.write("# its owner's\n")
    code, mended, said = deploy(capsys, place, "up", "--nodes", "2", "--tls", "--seeded")
    assert (code, mended["runs"], mended["port"]) == (0, True, told["port"])
    assert said.splitlines() == [
        "superlink: has ended: starting it again", "node-1: its executor has ended: starting it again",
        "another policy.toml was there and stays as it is: node-1",
    ]  # fmt: skip
    kept = [was["pid"] == now["pid"] for was, now in zip(told["processes"], mended["processes"], strict=True)]
    assert kept == [False, True, False]
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.setenv("FLWR_HOME", told["flwr_home"])
    run = ["run", str(tmp_path / "tiny.toml"), "--superlink", "local", "--quiet", "--json"]
    assert main([*run, "--out", str(tmp_path / "deployed")]) == 0
    assert json.loads(capsys.readouterr().out)["why"] == "finished"
    rounds.run_rounds(tiny(), tmp_path / "direct", direct.Here(), quiet=True)
    assert (tmp_path / "deployed" / "records.jsonl").read_bytes() == (tmp_path / "direct/records.jsonl").read_bytes()
    for number, held in enumerate(([[0, 9]], [[10, 20]])):
        charges = lines(place / f"node-{number}" / "ledger", "ledger.jsonl")[1:]
        assert [(line["round"], line["clients"]) for line in charges] == [(1, held), (2, held)]
    kill(mended["processes"][2]["pid"])
    assert len(marked(mark)) >= 3  # the node's executor may have outlived it
    assert deploy(capsys, place, "down")[:2] == (0, {"directory": str(place), "ended": 2})
    assert not marked(mark)
    assert deploy(capsys, place, "status")[0] == 1
    assert deploy(capsys, place, "down")[:2] == (0, {"directory": str(place), "ended": 0})


@pytest.mark.flower
@pytest.mark.slow
def test_nodes_of_a_deployment_answer_and_tell_labels_as_the_simulation_does_and_charge_their_ledgers_for_it(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, told, _ = deploy(capsys, place, "up", "--nodes", "2", "--seeded")
    assert code == 0
    asked = "evaluation.mechanism = { kind = 'StochasticSign', scale = 3.0 }\n"
    asked += "evaluation.labels = { classes = 3, epsilon = 1.0 }\n"
    text = TINY.replace("privacy.budget = 8.0\n", "").replace("run.rounds = 2", "run.rounds = 1") + asked
    (tmp_path / "tiny.toml").write_text(text)
    monkeypatch.setenv("FLWR_HOME", told["flwr_home"])
    run = ["run", str(tmp_path / "tiny.toml"), "--superlink", "local", "--quiet", "--json"]
    assert main([*run, "--out", str(tmp_path / "deployed")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["evaluated"]["answered"], result["labels"]["answered"]) == (21, 21)
    rounds.run_rounds(study_file.parsed_study(text), tmp_path / "direct", direct.Here(), quiet=True)
    assert (tmp_path / "deployed" / "records.jsonl").read_bytes() == (tmp_path / "direct/records.jsonl").read_bytes()
    for number in (0, 1):
        charges = lines(place / f"node-{number}" / "ledger", "ledger.jsonl")[1:]
        kinds = [event["kind"] for line in charges for event in line["events"]]
        assert kinds == ["Binomial", "StochasticSign", "RandomisedResponse"]


@pytest.mark.flower
@pytest.mark.slow
def test_a_node_whose_data_fail_the_check_says_which_record_in_its_own_log_and_one_sentence_to_the_server(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = node_with_data(place, label=3)
    code, told, said = deploy(capsys, place, "up", "--nodes", "2")
    assert code == 0
    assert "node-1: its data allow no answer: " in said
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.setenv("FLWR_HOME", told["flwr_home"])
    run = ["run", str(tmp_path / "tiny.toml"), "--superlink", "local", "--quiet", "--json", "--set", "run.rounds=1"]
    assert main([*run, "--out", str(tmp_path / "deployed")]) == 0
    capsys.readouterr()
    line = lines(tmp_path / "deployed")[1]
    assert (line["answered"], line["failed"]) == (10, {"refused": 11})
    assert line["note"] == f"client 10: refused: {UNUSABLE}"
    assert len(lines(policy.parent / "ledger", "ledger.jsonl")) == 2  # charged like an answer
    log = (place / "node-1.log").read_text()
    found = [words for words in log.splitlines() if "record 5 has label 3" in words]
    assert found[0] == log.splitlines()[0]  # before Flower's own first word
    assert len(found) == 3  # of its worker, when it starts, and of the round
    homes = [each["directory"] for each in told["processes"][1:]]
    audit = [
        "--study",
        str(tmp_path / "tiny.toml"),
        "--canaries",
        "10",
        "--confidence",
        "0.999999",
        "--quiet",
        "--json",
    ]
    assert main(["audit", "--node", homes[0], *audit, "--out", str(tmp_path / "audit")]) == 0  # while it runs
    about = json.loads(capsys.readouterr().out)
    assert (about["dealing"]["differ"], about["faults"]) == (1, [])
    assert main(["audit", "--node", homes[1], *audit, "--out", str(tmp_path / "audit")]) == 2
    assert "record 5 has label 3" in capsys.readouterr().err
    assert len(lines(policy.parent / "ledger", "ledger.jsonl")) == 2
    assert deploy(capsys, place, "down")[0] == 0


def node_with_data(place: Path, label: int = 1, classes: str = "classes = 3\n") -> Path:
    """The second node's policy, which names data of its own."""
    folder = place / "node-1"
    folder.mkdir(parents=True, mode=0o700)
    np.save(folder / "x.npy", np.random.default_rng(1).random((9, 5), np.float32))
    np.save(folder / "y.npy", np.array([0, 1, 2, 0, 1, label, 0, 1, 2]))
    data = f'data = {{ kind = "Arrays", path = "{folder}" }}\n{classes}'
    text = deploy_commands.POLICY.format(noise="cryptographic", why="") + data
    (folder / "policy.toml").write_text(text)
    return folder / "policy.toml"


def test_data_without_classes_and_data_that_fail_the_check_are_one_line_of_a_command(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = node_with_data(place, classes="")
    line = f"fedpriv: {policy}: policy: data needs classes, how many there are, whichever of them occur here: add a "
    for words in (["up", "--nodes", "2", "--directory", str(place)], ["check", str(policy)]):
        assert main(["deploy", *words]) == 2
        assert capsys.readouterr().err == f"{line}line such as classes = 10\n"
    assert not (place / STATE).exists()
    policy.write_text(policy.read_text() + "classes = 2\n")
    assert main(["deploy", "check", str(policy)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "y.npy: record 2 has label 2, and this node's policy says classes = 2: labels are 0 to 1" in said
    policy.write_text(policy.read_text().replace("classes = 2", "classes = 3"))
    assert main(["deploy", "check", str(policy)]) == 0
    assert capsys.readouterr().out == f"{policy}: the policy and its data are in order\n"


@pytest.mark.parametrize("there", ["seeded", "cryptographic"])
def test_policies_of_other_noise_than_is_asked_for_are_named_with_the_remedy(
    there: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "node-0").mkdir(parents=True)
    (place / "node-0" / "policy.toml").write_text(deploy_commands.POLICY.format(noise=there, why=""))
    code, _, said = deploy(capsys, place, "up", *(["--seeded"] if there == "cryptographic" else []))
    assert (code, said.count("\n")) == (2, 1)
    assert f"the policies of node-0 say noise = '{there}'" in said
    assert ("add --seeded" if there == "seeded" else "leave out --seeded") in said
    assert not (place / STATE).exists()


def marked(mark: str) -> list[int]:
    """The processes that bear a mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_text(errors="replace").split("\0"):
                found.append(int(process.name))
    return found


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def kill(*pids: int) -> None:
    """Kill these, and wait until they are gone."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    while any(process_began(pid) for pid in pids):
        time.sleep(0.01)


@pytest.fixture
def sleeper() -> Iterator[Process]:
    """A process that could be a SuperNode, as `up` writes it down."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield Process("node-0", started.pid, process_began(started.pid), 1)
        started.kill()


@pytest.mark.parametrize("words", [("--nodes", "2"), ("--nodes", "1", "--tls"), ("--nodes", "1", "--port", "2")])
def test_another_deployment_than_the_one_that_stands_is_refused_in_one_line(
    words: tuple[str, ...], place: Path, sleeper: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    place.mkdir()
    Deployment(1, False, 1, "nobody's mark", True, [sleeper]).save(place)
    code, _, said = deploy(capsys, place, "up", *words)
    assert (code, said.count("\n")) == (2, 1)
    assert "1 nodes without --tls at port 1 are up there, and this asks for " in said
    assert "ask for the same, or fedpriv deploy down ends them" in said
    assert sleeper.runs


@pytest.mark.flower
def test_what_never_came_up_is_ended_and_begun_anew(
    place: Path, sleeper: Process, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.mkdir()
    Deployment(1, False, 1, "nobody's mark", False, [sleeper]).save(place)
    without_flower(monkeypatch, place)
    code, _, said = deploy(capsys, place, "up", "--nodes", "2", "--tls")
    assert (code, said.splitlines()[-1]) == (2, NO_FLOWER)
    assert not sleeper.runs


@pytest.mark.flower
def test_a_port_that_is_taken_is_one_clear_line_and_nothing_is_left(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, _, said = deploy(capsys, place, "up", "--port", port)
    assert (code, said.count("\n")) == (2, 1)
    assert f"port {port} cannot be had" in said
    assert not (place / STATE).exists()


@pytest.mark.flower
def test_no_process_is_ended_that_only_bears_the_pid_of_one_that_was_started(place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        place.mkdir()
        mine = Process("node-0", stranger.pid, process_began(stranger.pid), 1)
        assert mine.runs
        other = Process("node-0", stranger.pid, "before", 1)
        Deployment(1, False, 1, "nobody's mark", True, [other]).save(place)
        assert main(["deploy", "down", "--directory", str(place)]) == 0
        assert stranger.poll() is None
        stranger.communicate(b"\n")
    assert not mine.runs


@pytest.mark.flower
def test_what_an_earlier_machine_left_behind_is_not_in_the_way(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.mkdir()
    Deployment(1, False, 1, "nobody's mark", True, [Process("superlink", 2**22 + 1, "1", 1)]).save(place)
    without_flower(monkeypatch, place)
    code, _, said = deploy(capsys, place, "up")
    assert (code, said.splitlines()[-1]) == (2, NO_FLOWER)


def without_flower(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """It comes as far as the first process of Flower's."""
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr("simulations.flower.surroundings.sys.executable", str(place / "python"))


def test_a_damaged_state_and_a_number_of_nodes_that_is_none_are_one_line(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, said = deploy(capsys, place, "up", "--nodes", "0")
    assert (code, said) == (2, "fedpriv: nodes must be at least 1, got 0\n")
    place.mkdir()
    (place / STATE).write_text("{")
    code, _, said = deploy(capsys, place, "status")
    assert (code, said.count("\n")) == (2, 1)
    assert "is damaged" in said
    (place / STATE).unlink()


def test_certificates_are_signed_by_the_authority_alone_and_keys_are_their_owners(tmp_path: Path) -> None:
    write_certificates(tmp_path, ["localhost", "127.0.0.1"])
    authority, own = (
        x509.load_pem_x509_certificate((tmp_path / name).read_bytes()) for name in ("ca.crt", "server.crt")
    )
    own.verify_directly_issued_by(authority)
    names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert not list(tmp_path.glob("ca.key"))
    public = write_node_key(tmp_path / "node.key")
    key = load_ssh_private_key((tmp_path / "node.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == load_ssh_public_key(public.read_bytes())
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("node.key", "server.key")} == {0o600}


def test_every_node_knows_all_the_others_by_keys_that_it_was_given_and_no_server_passes_on(tmp_path: Path) -> None:
    places = [tmp_path / f"node-{number}" for number in range(3)]
    for each in places:
        each.mkdir()
    write_peers(places)
    nodes = [Identity.of({name: str(each / name) for name in (IDENTITY, PEERS)}) for each in places]
    for number, own in enumerate(nodes):
        signature = own.signed(b"words")
        assert [other.knows(number, b"words", signature) for other in nodes] == [True] * 3
        assert not nodes[0].knows((number + 1) % 3, b"words", signature)
    assert (places[0] / IDENTITY).stat().st_mode & 0o777 == 0o600
