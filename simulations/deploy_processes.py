"""Starting and ending a local deployment: a SuperLink and SuperNodes, as separate processes on loopback."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedpriv.errors import FedprivError
from simulations.deploy_certificates import AUTHORITY, CERTIFICATE, KEY, write_certificates, write_node_key
from simulations.deploy_state import HOME, MARK, NAME, STATE, Deployment, Process, began, held, send
from simulations.own_superlink import HOST, STARTS, healthy, port_of
from simulations.surroundings import environment, kill_what_it_started, wait_until

POLICY = "policy.toml"
ENDS = 15.0  # seconds the processes may take to end by themselves


def up(directory: Path, nodes: int, tls: bool, port: int, policy: str, say: Callable[[str], None]) -> Deployment:
    """Start a SuperLink and so many SuperNodes, each with a policy of its own; whatever goes wrong, nothing is left."""
    with held(directory):
        _check_free(directory)
        deployment = Deployment(nodes, tls, port_of(port), secrets.token_hex(16))
        deployment.save(directory)
        try:
            _start(directory, deployment, policy, say)
        except BaseException:
            _end(directory, deployment)
            raise
    return deployment


def down(directory: Path) -> int:
    """End all that was started there; how many processes that were."""
    if not (directory / STATE).exists():
        return 0
    with held(directory):
        deployment = Deployment.load(directory)
        return 0 if deployment is None else _end(directory, deployment)


def _check_free(directory: Path) -> None:
    """Refuse to start a second one beside one that runs, or over what a crash left."""
    was = Deployment.load(directory)
    if was is None:
        return
    if was.ready and len(was.alive) == len(was.processes):
        raise FedprivError(
            f"{directory}: {was.nodes} nodes run there already, at port {was.port}: fedpriv deploy down ends them"
        )
    if was.alive or was.left_over():
        raise FedprivError(f"{directory}: part of a deployment that broke is left there: fedpriv deploy down ends it")


def _start(directory: Path, deployment: Deployment, policy: str, say: Callable[[str], None]) -> None:
    say("starting the SuperLink")
    if deployment.tls:
        write_certificates(directory, ["localhost", HOST, "::1"])
    _write_connection(directory, deployment)
    _superlink(directory, deployment)
    places = [_folder(directory, f"node-{number}") for number in range(deployment.nodes)]
    if deployment.tls:
        _register([write_node_key(place / "node.key") for place in places], _own(directory))
    for place in places:
        if not (place / POLICY).exists():  # one that is there is its owner's; so is the ledger beside it
            (place / POLICY).write_text(policy, encoding="utf-8")
    say(f"starting {deployment.nodes} SuperNodes")
    for number, place in enumerate(places):
        _supernode(directory, deployment, number, place)
    for process in deployment.processes[1:]:
        _wait_for(process, directory, lambda log: "SuperNode ID" in log)
    deployment.ready = True
    deployment.save(directory)


def _superlink(directory: Path, deployment: Deployment) -> None:
    words = ["--isolation", "subprocess", "--host", HOST, "--port", str(deployment.port)]
    words += ["--disable-runtime-dependency-installation"]
    if deployment.tls:
        for option, file in (("--ssl-ca-certfile", AUTHORITY), ("--ssl-certfile", CERTIFICATE), ("--ssl-keyfile", KEY)):
            words += [option, str(directory / file)]
    words += ["--enable-supernode-auth"] if deployment.tls else ["--insecure"]
    place = _folder(directory, "superlink")
    process = _launched(deployment, directory, place, ["flower-superlink", *words], deployment.port)
    authority = directory / AUTHORITY if deployment.tls else None
    _wait_for(process, directory, lambda _: healthy(deployment.port, authority))


def _supernode(directory: Path, deployment: Deployment, number: int, place: Path) -> None:
    port = port_of(0)
    config = f"partition-id={number} num-partitions={deployment.nodes} policy={json.dumps(str(place / POLICY))}"
    words = ["--superlink", f"{HOST}:{deployment.port}", "--isolation", "subprocess", "--host", HOST]
    words += ["--port", str(port), "--node-config", config]
    if deployment.tls:
        words += ["--root-certificates", str(directory / AUTHORITY)]
        words += ["--auth-supernode-private-key", str(place / "node.key")]
    else:
        words += ["--insecure"]
    _launched(deployment, directory, place, ["flower-supernode", *words], port)


def _launched(deployment: Deployment, directory: Path, place: Path, words: Sequence[str], port: int) -> Process:
    """Start one process in its own surroundings and group, and write down which it is."""
    env = environment(place) | {MARK: deployment.mark}
    log = directory / f"{place.name}.log"
    try:
        with log.open("w") as file:
            started = subprocess.Popen(
                words, cwd=place / "empty", env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True,
            )  # fmt: skip
    except FileNotFoundError:
        raise FedprivError(f"{words[0]} is not there: Flower is not installed beside fedpriv") from None
    process = Process(place.name, started.pid, began(started.pid), port)
    deployment.processes.append(process)
    deployment.save(directory)
    return process


def _wait_for(process: Process, directory: Path, ready: Callable[[str], bool]) -> None:
    """Wait until a process does its work; its own last words where it ends instead."""
    log = directory / f"{process.name}.log"

    def told() -> str:
        return log.read_text(errors="replace")

    in_time = wait_until(lambda: not process.runs or ready(told()), STARTS)
    if not in_time or not process.runs:
        last = next((line.strip() for line in reversed(told().splitlines()) if line.strip()), "it said nothing")
        raise FedprivError(f"{process.name} did not start: {last} (in {log})")


def _register(keys: Sequence[Path], env: dict[str, str]) -> None:
    """Tell the SuperLink the nodes' public keys: it lets no other node in."""

    def register(key: Path) -> None:
        command = ["flwr", "supernode", "register", str(key), NAME, "--name", key.parent.name]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=STARTS)
        if done.returncode:
            raise FedprivError(f"{key} was not registered: {' '.join((done.stderr or done.stdout).split())[-300:]}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(register, keys))


def _write_connection(directory: Path, deployment: Deployment) -> None:
    """Flower's configuration, with the one connection."""
    home = _folder(directory, HOME)
    proof = f"root-certificates = {json.dumps(str(directory / AUTHORITY))}" if deployment.tls else "insecure = true"
    text = f'[superlink]\ndefault = "{NAME}"\n\n[superlink.{NAME}]\naddress = "{HOST}:{deployment.port}"\n{proof}\n'
    (home / "config.toml").write_text(text, encoding="utf-8")


def _own(directory: Path) -> dict[str, str]:
    """The environment in which Flower's commands mean this deployment."""
    return environment(_folder(directory, "superlink")) | {"FLWR_HOME": str(directory / HOME)}


def _end(directory: Path, deployment: Deployment) -> int:
    """Nodes first, then the SuperLink, then what they leave behind, each by its pid."""
    found = deployment.alive
    for group in (found[1:], found[:1]) if found and found[0].port == deployment.port else (found, []):
        for process in group:
            send(process.pid, signal.SIGTERM)
        wait_until(lambda own=group: not any(each.runs for each in own), ENDS)  # type: ignore[misc]
    for process in deployment.alive:
        kill_what_it_started(process.pid)
        send(process.pid, signal.SIGKILL)
    until = time.monotonic() + ENDS
    while (left := deployment.left_over()) and time.monotonic() < until:
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(0.1)
    if left:
        raise FedprivError(f"{directory}: processes {', '.join(map(str, left))} do not end")
    (directory / STATE).unlink(missing_ok=True)
    return len(found)


def _folder(directory: Path, name: str) -> Path:
    place = directory / name
    place.mkdir(exist_ok=True, mode=0o700)
    return place
