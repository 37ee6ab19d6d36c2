"""A real deployment: SuperLink and SuperNodes in processes of their own, with certificates, keys, policies, ledgers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from fedpriv import study_file
from fedpriv.study import Study
from server import rounds
from simulations import direct
from simulations.command_line import main
from simulations.deploy_certificates import write_certificates, write_node_key
from simulations.deploy_state import MARK, STATE, Deployment, Process, began

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
    return study_file.parsed(TINY)


def test_a_deployed_run_is_the_simulations_and_every_client_charged_its_own_ledger(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, told, _ = deploy(capsys, place, "up", "--nodes", "2", "--tls", "--seeded")
    assert (code, told["runs"], len(told["processes"])) == (0, True, 3)
    assert place.stat().st_mode & 0o777 == 0o700
    again, _, said = deploy(capsys, place, "up", "--nodes", "2")
    assert (again, said.count("\n")) == (2, 1)
    assert "2 nodes run there already" in said
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.setenv("FLWR_HOME", told["flwr_home"])
    run = ["run", str(tmp_path / "tiny.toml"), "--superlink", "local", "--quiet", "--json"]
    assert main([*run, "--out", str(tmp_path / "deployed")]) == 0
    assert json.loads(capsys.readouterr().out)["why"] == "finished"
    rounds.run(tiny(), tmp_path / "direct", direct.Here(), quiet=True)
    assert (tmp_path / "deployed" / "records.jsonl").read_bytes() == (tmp_path / "direct/records.jsonl").read_bytes()
    for number, held in enumerate(([[0, 9]], [[10, 20]])):
        charges = lines(place / f"node-{number}" / "ledger", "ledger.jsonl")[1:]
        assert [(line["round"], line["clients"]) for line in charges] == [(1, held), (2, held)]
    node = Process(**{name: value for name, value in told["processes"][2].items() if name != "runs"})
    os.kill(node.pid, signal.SIGKILL)
    while node.runs:
        pass
    code, told, _ = deploy(capsys, place, "status")
    assert (code, [each["runs"] for each in told["processes"]]) == (1, [True, True, False])
    broken, _, said = deploy(capsys, place, "up")
    assert (broken, said.count("\n")) == (2, 1)
    assert "fedpriv deploy down ends it" in said
    mark = f"{MARK}={json.loads((place / STATE).read_text())['mark']}"
    assert running(mark) >= 3  # the node's executor has outlived it
    assert deploy(capsys, place, "down")[:2] == (0, {"directory": str(place), "ended": 2})
    assert running(mark) == 0
    assert deploy(capsys, place, "status")[0] == 1
    assert deploy(capsys, place, "down")[:2] == (0, {"directory": str(place), "ended": 0})


def running(mark: str) -> int:
    """How many processes bear a mark in their environment."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += mark in (process / "environ").read_text(errors="replace").split("\0")
        except OSError:
            continue
    return found


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


def test_no_process_is_ended_that_only_bears_the_pid_of_one_that_was_started(place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        place.mkdir()
        mine = Process("node-0", stranger.pid, began(stranger.pid), 1)
        assert mine.runs
        other = Process("node-0", stranger.pid, "before", 1)
        Deployment(1, False, 1, "nobody's mark", True, [other]).save(place)
        assert main(["deploy", "down", "--directory", str(place)]) == 0
        assert stranger.poll() is None
        stranger.communicate(b"\n")
    assert not mine.runs


def test_what_an_earlier_machine_left_behind_is_not_in_the_way(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.mkdir()
    Deployment(1, False, 1, "nobody's mark", True, [Process("superlink", 2**22 + 1, "1", 1)]).save(place)
    monkeypatch.setenv("PATH", str(place))  # no Flower: it comes as far as that
    monkeypatch.setattr("simulations.surroundings.sys.executable", str(place / "python"))
    code, _, said = deploy(capsys, place, "up")
    assert code == 2
    assert said.splitlines()[-1] == "fedpriv: flower-superlink is not there: Flower is not installed beside fedpriv"


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
