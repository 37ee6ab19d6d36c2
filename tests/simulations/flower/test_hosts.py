"""Hosts of their own, made of namespaces: late and lost frames, nodes cut off, a server's host that is started again.

The long ones are run by `make hosts`; all of them are skipped where namespaces cannot be made.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import LINK, NAMES, NODES, Hosts, noted
from soak import SHARED
from soak_deployed import CLIENTS, alone, differing
from wire import Wire, impossible

from fedpriv.population.participation import byzantine_clients
from fedpriv.studies import file as study_file

BYZANTINE = 8  # who write down what they send, and are honest
TIMEOUT = 75.0  # seconds a round waits for a node that is cut off, and for nodes on a busy machine
VOTES = (
    SHARED.replace("Mean", "MajorityVote").replace("rounds = 60", "rounds = 9").replace("every = 3", "every = 1")
    + f"""
clients = {{ count = {CLIENTS}, records = 6, byzantine = {BYZANTINE} }}
privacy.mechanism = {{ kind = "Ternary", clip = 1.0, peak = 0.5, spread = 0.6, scale = 1.4 }}
server = {{ step = 0.02, timeout = {TIMEOUT}, retries = 0 }}
"""
)
SUMS = (
    SHARED.replace("rounds = 60", "rounds = 5")
    .replace("every = 3", "every = 1")
    .replace("soak:Witness", "hosts:Trained")
    + f"""
clients = {{ count = {CLIENTS}, records = 6, byzantine = {BYZANTINE} }}
privacy = {{ trust = "secure-aggregation", mechanism = {{ kind = "Binomial", clip = 1.0, trials = 4, scale = 1.2 }} }}
masking.threshold = 0.7
server = {{ step = 0.05, timeout = {TIMEOUT}, retries = 0 }}
"""
)
EACH = CLIENTS // NODES


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    if why := impossible():
        pytest.skip(why)


SERVE = """
import socket
server = socket.create_server(("{address}", 8000))
print("there", flush=True)
while True:
    connection, _ = server.accept()
    while content := connection.recv(65536):
        connection.sendall(content)
"""
SEND = """
import os, socket, threading, time
begun = time.monotonic()
connection = socket.create_connection(("{address}", 8000), timeout={patience})
print(time.monotonic() - begun)
content, back = os.urandom(300_000), b""
connection.settimeout(30)
threading.Thread(target=connection.sendall, args=(content,)).start()
while len(back) < len(content):
    back += connection.recv(65536)
print(back == content)
"""


def sent(wire: Wire, patience: float) -> tuple[float, bool]:
    """How long a connection from one host to the other takes, and whether all that is sent comes back."""
    words = SEND.format(address=wire.address("there"), patience=patience)
    done = subprocess.run([*wire.on("here"), sys.executable, "-c", words], capture_output=True, text=True)
    if done.returncode:
        raise TimeoutError(done.stderr)
    took, whole = done.stdout.split()
    return float(took), whole == "True"


def test_hosts_reach_each_other_late_and_not_at_all_while_one_is_cut_off() -> None:
    with Wire(["there", "here"], delay=0.05, loss=0.01) as wire:
        words = [*wire.on("there"), sys.executable, "-c", SERVE.format(address=wire.address("there"))]
        server = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert server.stdout is not None
        assert server.stdout.readline() == b"there\n"
        took, whole = sent(wire, 20)
        assert took >= 0.1  # there and back
        assert whole
        wire.cut("here")
        with pytest.raises(TimeoutError):
            sent(wire, 0.5)
        wire.mend("here")
        assert sent(wire, 20)[1]
        assert not set(namespaces()).isdisjoint(wire.on("here"))
    assert server.wait(10) == -9
    server.stdout.close()
    assert set(namespaces()).isdisjoint(wire.on("here"))


def namespaces() -> list[str]:
    return subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """One deployment for all tests."""
    with Hosts(tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts


@pytest.mark.hosts
def test_a_node_cut_off_for_a_round_costs_that_round_and_a_server_whose_host_is_restarted_goes_on_to_the_same_bits(
    hosts: Hosts, tmp_path: Path
) -> None:
    study = VOTES.replace('"witness"', '"votes.witness"')
    run = hosts.run(study, "votes")
    hosts.until(lambda: bool(hosts.lines("votes")), run)
    hosts.wire.cut("node-2")
    hosts.until(lambda: hosts.lines("votes")[-1]["answered"] == CLIENTS - EACH, run)
    hosts.wire.mend("node-2")
    hosts.until(lambda: hosts.lines("votes")[-1]["answered"] == CLIENTS, run)
    before = hosts.lines("votes")
    assert len(before) < 8  # there is something left to go on with
    time.sleep(2)  # within a round
    hosts.wire.stop(LINK)
    hosts.wire.cut(LINK)
    time.sleep(3)
    hosts.wire.mend(LINK)
    hosts.start_link()
    again = hosts.run(study, "votes", resume=True)
    assert again.wait(300) == 0
    assert hosts.lines("votes")[: len(before) - 1] == before[:-1]  # the last may not have been checkpointed
    compare(hosts, study, "votes", "node-2", tmp_path)


@pytest.mark.hosts
def test_a_node_cut_off_between_the_phases_of_a_masked_sum_drops_out_of_it_and_comes_back(
    hosts: Hosts, tmp_path: Path
) -> None:
    study = SUMS.replace('"witness"', '"sums.witness"')
    run = hosts.run(study, "sums")
    hosts.until(lambda: bool(hosts.lines("sums")), run)
    gone = ""
    while not gone:  # one that has given its shares, and not yet its vector: the sum counts on it
        stages = {name: hosts.stage(name) for name in NAMES}
        if max(stages.values()) == 2 and min(stages.values()) == 1:
            gone = min(NAMES, key=stages.__getitem__)
            hosts.wire.cut(gone)
        assert run.poll() is None
        time.sleep(0.05)
    round = len(hosts.lines("sums"))
    hosts.until(lambda: len(hosts.lines("sums")) > round, run)
    assert hosts.lines("sums")[round]["answered"] == CLIENTS - EACH
    hosts.wire.mend(gone)
    assert run.wait(300) == 0
    assert hosts.lines("sums")[-1]["answered"] == CLIENTS
    compare(hosts, study, "sums", gone, tmp_path)


def compare(hosts: Hosts, study: str, out: str, cut: str, folder: Path) -> None:
    """Against the run in this process in which the clients of the node that was cut off are absent as often."""
    lines, number = hosts.lines(out), NAMES.index(cut)
    assert {line["answered"] for line in lines} == {CLIENTS, CLIENTS - EACH}
    absent = {line["round"]: frozenset({number}) for line in lines if line["answered"] < CLIENTS}
    alone(folder / out, absent, study, NODES)
    assert not differing(hosts.place(LINK) / out, folder / out)
    wanted, seed = set(noted(folder / f"{out}.witness")), study_file.parsed_study(study).run.seed
    witnesses = set(byzantine_clients(CLIENTS, BYZANTINE, seed).tolist())
    for place, name in enumerate(NAMES):
        own = range(place * EACH, (place + 1) * EACH)
        charged, released = hosts.charged(name), noted(hosts.place(name) / f"{out}.witness")
        assert set(charged.values()) == {1}
        assert len(released) == len(set(released))  # nothing was drawn twice
        assert set(released) <= wanted
        answered = {(line["round"], client) for line in lines for client in own
                    if name != cut or line["round"] not in absent}  # fmt: skip
        assert answered <= set(charged)
        of_witnesses = [len([each for each in held if each[1] in witnesses]) for held in (answered, charged)]
        assert of_witnesses[0] <= len(released) <= of_witnesses[1]
