"""Starting, mending and ending a local deployment: a SuperLink and SuperNodes, as separate processes on loopback."""

from __future__ import annotations

import secrets
import signal
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from clients.node.own_records import wrong_with_data
from clients.node.policy import read_policy
from fedpriv.errors import FedprivError
from simulations.flower import _deploy_parts as parts
from simulations.flower._deploy_certificates import write_certificates, write_node_key
from simulations.flower._own_superlink import HOST, port_of
from simulations.flower.deploy_state import STATE, Deployment, Process, held_deployment
from simulations.flower.surroundings import kill_what_it_started, send_signal, wait_until

ENDS = 15.0  # seconds the processes may take to end by themselves
Say = Callable[[str], None]  # what is told of what goes on


def start_deployment(
    directory: Path,
    nodes: int,  # SuperNodes
    tls: bool,  # whether all prove who they are
    port: int,  # the SuperLink's; 0 for the one it has, or any
    policy: str,  # what is written for a node that has no policy
    say: Say,
) -> Deployment:
    """For `fedpriv deploy up`: start a SuperLink and so many SuperNodes, or what has ended of those there.

    Where a first start goes wrong, nothing is left.
    """
    with held_deployment(directory):
        standing = Deployment.load(directory)
        if standing is not None and standing.ready and (standing.alive or standing.left_over()):
            if (standing.nodes, standing.tls) != (nodes, tls) or port not in (0, standing.port):
                own, asked = _in_words(standing.nodes, standing.tls, standing.port), _in_words(nodes, tls, port)
                raise FedprivError(
                    f"{directory}: {own} are up there, and this asks for {asked}: ask for the same, or fedpriv deploy "
                    "down ends them"
                )
            _check_policies(directory, nodes, policy)
            for process in standing.broken:
                say(f"{process.name}: {process.fault}: starting it again")
                if process.runs:  # first as it would end by itself, which tells the SuperLink that a node leaves
                    send_signal(process.pid, signal.SIGTERM)
                    _wait_for_end([process])
                _kill(standing, process.name)
                parts.start_again(directory, standing, process.name)
            _name_others(directory, nodes, policy, say)
            return standing
        _check_policies(directory, nodes, policy)
        if standing is not None:  # it never came up, or all of it has ended
            _end(directory, standing)
        deployment = Deployment(nodes, tls, port_of(port), secrets.token_hex(16))
        deployment.save(directory)
        try:
            _begin(directory, deployment, policy, say)
        except BaseException:
            _end(directory, deployment)
            raise
        _name_others(directory, nodes, policy, say)
    return deployment


def _name_others(directory: Path, nodes: int, policy: str, say: Say) -> None:
    """Tell which nodes of a deployment keep a policy other than `policy`, for those there stay their owners'."""
    files = _policies(directory, nodes)
    if others := [name for name, file in files.items() if file.read_bytes() != policy.encode()]:
        say(f"another {parts.POLICY} was there and stays as it is: {', '.join(others)}")


def _check_policies(directory: Path, nodes: int, policy: str) -> None:
    """Refuse a start where nodes' policies cannot be read, or say another `noise` than `policy` does."""
    asked = tomllib.loads(policy)["noise"]
    there = {name: read_policy(file) for name, file in _policies(directory, nodes).items() if file.exists()}
    if others := {name: own.noise for name, own in there.items() if own.noise != asked}:
        noise = next(iter(others.values()))
        remedy = "leave out --seeded" if asked == "seeded" else "add --seeded"
        raise FedprivError(
            f"{directory}: the policies of {', '.join(others)} say noise = {noise!r}, and this asks for {asked!r}: "
            f"{remedy}, or change or remove each {parts.POLICY}"
        )


def _policies(directory: Path, nodes: int) -> dict[str, Path]:
    """The file of each deployed node's policy, there already or to be written, by the node's name."""
    names = map(parts.name_of, range(nodes))
    return {name: directory / name / parts.POLICY for name in names}


def end_deployment(directory: Path) -> int:
    """For `fedpriv deploy down`: end all processes of the deployment in a directory; how many there were."""
    if not (directory / STATE).exists():
        return 0
    with held_deployment(directory):
        deployment = Deployment.load(directory)
        return 0 if deployment is None else _end(directory, deployment)


def _in_words(nodes: int, tls: bool, port: int) -> str:
    """What a deployment is asked for or has, in words for an error: nodes, --tls and port."""
    return f"{nodes} nodes {'with' if tls else 'without'} --tls at {f'port {port}' if port else 'any port'}"


def _begin(directory: Path, deployment: Deployment, policy: str, say: Say) -> None:
    """Start a deployment of which nothing runs: SuperLink, keys, policies, ledgers and nodes, in that order."""
    say("starting the SuperLink")
    for file in directory.glob(f"{parts.DATABASE}*"):  # of nodes that are no more
        file.unlink()
    if deployment.tls:
        write_certificates(directory, ["localhost", HOST, "::1"])
    parts.write_connection(directory, deployment)
    parts.start_link(directory, deployment)
    places = [parts.folder(directory, parts.name_of(number)) for number in range(deployment.nodes)]
    if deployment.tls:
        parts.register([write_node_key(place / parts.NODE_KEY) for place in places], directory)
        parts.write_peers(places)
    for place in places:
        if not (place / parts.POLICY).exists():  # one that is there is its owner's; so is the ledger beside it
            (place / parts.POLICY).write_text(policy, encoding="utf-8")
    for place in places:
        if wrong := wrong_with_data(place / parts.POLICY):
            say(f"{place.name}: its data allow no answer: {wrong}")
    for number, place in enumerate(places):
        parts.begin_ledger(place / parts.POLICY, number, deployment.nodes)
    say(f"starting {deployment.nodes} SuperNodes")
    parts.start_nodes(directory, deployment, range(deployment.nodes))
    deployment.ready = True
    deployment.save(directory)


def _end(directory: Path, deployment: Deployment) -> int:
    """End a deployment's nodes, then its SuperLink, then what they leave behind; how many processes there were."""
    found = deployment.alive
    for group in ([each for each in found if each.name != parts.LINK], found):
        for process in group:
            send_signal(process.pid, signal.SIGTERM)
        _wait_for_end(group)
    for process in deployment.alive:
        kill_what_it_started(process.pid)
        send_signal(process.pid, signal.SIGKILL)
    if left := _kill(deployment):
        raise FedprivError(f"{directory}: processes {', '.join(map(str, left))} do not end")
    (directory / STATE).unlink(missing_ok=True)
    return len(found)


def _wait_for_end(processes: Sequence[Process]) -> None:
    """Wait until these processes of a deployment have ended by themselves, for some seconds at most."""
    wait_until(lambda: not any(each.runs for each in processes), ENDS)


def _kill(deployment: Deployment, part: str | None = None) -> list[int]:
    """Kill whatever bears a deployment's mark in its environment (of one part); those that still do not end."""
    until = time.monotonic() + ENDS
    while (left := deployment.left_over(part)) and time.monotonic() < until:
        for pid in left:
            send_signal(pid, signal.SIGKILL)
        time.sleep(0.1)
    return left
