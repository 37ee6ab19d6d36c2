"""The parts of a local deployment, each started as a process of its own: the SuperLink and the SuperNodes."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from clients.node.own_records import told_at_start
from clients.node.policy import read_policy
from fedpriv.errors import FedprivError
from fedpriv.node.own_ledger import opened_ledger
from simulations.flower._deploy_certificates import AUTHORITY, CERTIFICATE, KEY, write_identity
from simulations.flower._own_superlink import HOST, STARTS, healthy, port_of
from simulations.flower.deploy_state import HOME, MARK, NAME, PART, Deployment, Process
from simulations.flower.surroundings import flower_environment, process_began, started_process, wait_until

LINK = "superlink"  # what the SuperLink is called, and its directory
POLICY = "policy.toml"  # in a node's directory: what its owner allows
NODE_KEY = "node.key"  # in a node's directory: what the SuperLink knows it by
IDENTITY = "identity"  # in a node's directory: what other nodes know it by
PEERS = "peers"  # in a node's directory: everybody's identity
DATABASE = "superlink.db"  # of runs and registered nodes: a SuperLink that is started again knows them
FORGETS = 90.0  # seconds: Flower takes up to 60 to find that a node has ended, and takes it back no sooner
ASKS_AGAIN = 3.0  # seconds between two tries
STILL_THERE = "[code: 2004]"  # how a SuperLink says that a node which has ended is still known


def start_link(directory: Path, deployment: Deployment) -> None:
    """Start the SuperLink process of a local deployment, with its certificates if any; wait until it answers."""
    words = ["--isolation", "subprocess", "--host", HOST, "--port", str(deployment.port)]
    words += ["--disable-runtime-dependency-installation", "--database", str(directory / DATABASE)]
    if deployment.tls:
        for option, file in (("--ssl-ca-certfile", AUTHORITY), ("--ssl-certfile", CERTIFICATE), ("--ssl-keyfile", KEY)):
            words += [option, str(directory / file)]
    words += ["--enable-supernode-auth"] if deployment.tls else ["--insecure"]
    place = folder(directory, LINK)
    process = _launched(deployment, directory, place, ["flower-superlink", *words], deployment.port)
    authority = directory / AUTHORITY if deployment.tls else None
    _wait_for(process, directory, lambda _: healthy(deployment.port, authority))


def start_nodes(directory: Path, deployment: Deployment, numbers: Sequence[int]) -> None:
    """Start the SuperNodes of these numbers in a local deployment, and wait until they have joined the SuperLink."""
    for number in numbers:
        start_node(directory, deployment, number)
    for process in [each for each in deployment.processes if each.name in map(name_of, numbers)]:
        _wait_for(process, directory, _has_joined)


def start_again(directory: Path, deployment: Deployment, name: str) -> None:
    """Start a deployment's SuperLink or node anew, for `deploy up`; wait until it answers, or is taken back."""
    if name == LINK:
        return start_link(directory, deployment)
    until = time.monotonic() + FORGETS
    while True:
        process = start_node(directory, deployment, int(name.rpartition("-")[2]))
        try:
            return _wait_for(process, directory, _has_joined)
        except FedprivError:
            if time.monotonic() > until or STILL_THERE not in _log(directory, process.name).read_text(errors="replace"):
                raise
        time.sleep(ASKS_AGAIN)


def start_node(directory: Path, deployment: Deployment, number: int) -> Process:
    """Start a deployment's SuperNode as a process, on its partition, with its policy, ledger and keys."""
    place, port = folder(directory, name_of(number)), port_of(0)
    told: dict[str, int | str] = {"partition-id": number, "num-partitions": deployment.nodes}
    files = {"policy": POLICY} | ({IDENTITY: IDENTITY, PEERS: PEERS} if deployment.tls else {})
    told |= {name: str(place / file) for name, file in files.items()}
    config = " ".join(f"{name}={json.dumps(value)}" for name, value in told.items())
    words = ["--superlink", f"{HOST}:{deployment.port}", "--isolation", "subprocess", "--host", HOST]
    words += ["--port", str(port), "--node-config", config]
    if deployment.tls:
        words += ["--root-certificates", str(directory / AUTHORITY)]
        words += ["--auth-supernode-private-key", str(place / NODE_KEY)]
    else:
        words += ["--insecure"]
    return _launched(deployment, directory, place, ["flower-supernode", *words], port, told_at_start(place / POLICY))


def begin_ledger(policy: Path, number: int, nodes: int) -> None:
    """Make the ledger of a deployed node in which nothing is charged yet, where it has none."""
    with opened_ledger(policy.parent / read_policy(policy).ledger, (number, nodes)):
        pass


def write_peers(places: Sequence[Path]) -> None:
    """Give each node of a deployment a key of its own, by which the others know it, and a list of everybody's."""
    peers = b"".join(write_identity(place / IDENTITY).read_bytes() for place in places)
    for place in places:
        (place / PEERS).write_bytes(peers)


def register(keys: Sequence[Path], directory: Path) -> None:
    """Tell a deployment's SuperLink the public keys of its nodes, for it lets no other node in."""
    env = flower_environment(folder(directory, LINK)) | {"FLWR_HOME": str(directory / HOME)}

    def told(key: Path) -> None:
        """Register one node's public key by Flower's own command."""
        command = ["flwr", "supernode", "register", str(key), NAME, "--name", key.parent.name]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=STARTS)
        if done.returncode:
            raise FedprivError(f"{key} was not registered: {' '.join((done.stderr or done.stdout).split())[-300:]}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(told, keys))


def write_connection(directory: Path, deployment: Deployment) -> None:
    """Write the Flower configuration of a deployment, whose one connection, `local`, is to its SuperLink."""
    home = folder(directory, HOME)
    proof = f"root-certificates = {json.dumps(str(directory / AUTHORITY))}" if deployment.tls else "insecure = true"
    text = f'[superlink]\ndefault = "{NAME}"\n\n[superlink.{NAME}]\naddress = "{HOST}:{deployment.port}"\n{proof}\n'
    (home / "config.toml").write_text(text, encoding="utf-8")


def folder(directory: Path, name: str) -> Path:
    """The directory of a part of a deployment, by the part's name, made readable by its owner alone."""
    place = directory / name
    place.mkdir(exist_ok=True, mode=0o700)
    return place


def name_of(number: int) -> str:
    """What the SuperNode of a partition is called in a deployment, and its directory: node-0, node-1, …"""
    return f"node-{number}"


def _launched(
    deployment: Deployment, directory: Path, place: Path, words: Sequence[str], port: int, first: str = ""
) -> Process:
    """Start one part of a deployment as a process of its own group, and note it in the deployment; old log kept.

    `first` is what its new log begins with.
    """
    env = flower_environment(place) | {MARK: deployment.mark, PART: place.name}
    log = _log(directory, place.name)
    if log.exists():
        log.replace(log.with_suffix(".before.log"))
    try:
        with log.open("w") as file:
            print(first, end="\n" if first else "", file=file, flush=True)
            pid = started_process(words, place, env, file).pid
    except FileNotFoundError:
        raise FedprivError(f"{words[0]} is not there: Flower is not installed beside fedpriv") from None
    process = Process(place.name, pid, process_began(pid), port)
    deployment.take(process)
    deployment.save(directory)
    return process


def _wait_for(process: Process, directory: Path, ready: Callable[[str], bool]) -> None:
    """Wait until a deployment's process is `ready`, as its log shows; its own last words where it ends instead."""
    log = _log(directory, process.name)

    def told() -> str:
        """All that the deployment's process has written into its log so far."""
        return log.read_text(errors="replace")

    in_time = wait_until(lambda: not process.runs or ready(told()), STARTS)
    if not in_time or not process.runs:
        last = next((line.strip() for line in reversed(told().splitlines()) if line.strip()), "it said nothing")
        raise FedprivError(f"{process.name} did not start: {last} (in {log})")


def _has_joined(log: str) -> bool:
    """Whether a SuperNode's log says that the SuperLink has taken it."""
    return "SuperNode ID" in log


def _log(directory: Path, name: str) -> Path:
    """The log file of a deployment's part, beside its directory."""
    return directory / f"{name}.log"
