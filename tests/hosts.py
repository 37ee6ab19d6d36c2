"""A deployment on hosts of its own, as docs/deploy.md has it: a SuperLink and SuperNodes, TLS, node keys, policies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soak import ROOT
from wire import Wire

from clients.flower.place import HOME as PLACE
from simulations.flower._deploy_certificates import AUTHORITY, CERTIFICATE, KEY, write_certificates, write_node_key
from simulations.flower._deploy_parts import IDENTITY, NODE_KEY, PEERS, POLICY, write_peers
from simulations.flower.surroundings import flower_environment, wait_until

LINK, NODES = "superlink", 4
NAMES = [f"node-{number}" for number in range(NODES)]
PORT, OWN_PORT, CONNECTION = 8000, 9094, "clinic"
DELAY, LOSS = 0.02, 0.01  # seconds each way, and of each frame
WAITS = 240.0  # seconds that anything may take here
OWNER = """
studies = "any"
budget = { epsilon = 1e6, delta = 1e-5 }
trust = "secure-aggregation"
contributors = 20
attacks = true
noise = "seeded"
imports = ["soak:Witness", "hosts:Trained"]
"""
READY = """
import sys
from pathlib import Path
from simulations.flower._own_superlink import healthy
from simulations.flower.surroundings import wait_until
sys.exit(not wait_until(lambda: healthy({port}, Path("{authority}")), {waits}))
"""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """An honest client that writes down what it has trained: in a masked sum no bytes are its own."""

    file: str

    def on_updates(self, updates: Any, view: Any) -> Any:
        with open(self.file, "ab", buffering=0) as file:
            file.write(f"{zlib.crc32(updates.tobytes())} {os.getpid()}\n".encode())
        return updates


def noted(witness: Path) -> list[str]:
    """What clients wrote down, but for which process they were."""
    lines = witness.read_text().splitlines() if witness.exists() else []
    return [line.rpartition(" ")[0] for line in lines]


class Hosts:
    """The hosts, and what runs on them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.wire = Wire([LINK, *NAMES], delay=DELAY, loss=LOSS)
        self._started: list[subprocess.Popen[bytes]] = []
        for name in (LINK, *NAMES):
            self.place(name).mkdir(mode=0o700)

    def __enter__(self) -> Hosts:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.__exit__()
        for process in self._started:
            process.wait(WAITS)

    def place(self, name: str) -> Path:
        """What is on a host's disk."""
        return self._folder / name

    def start_link(self) -> None:
        """Start the SuperLink, and wait until it answers."""
        own = self.place(LINK)
        words = f"--host 0.0.0.0 --port {PORT} --isolation subprocess --disable-runtime-dependency-installation"
        words += f" --ssl-ca-certfile {own / AUTHORITY} --ssl-certfile {own / CERTIFICATE} --ssl-keyfile {own / KEY}"
        words += f" --enable-supernode-auth --database {own / 'superlink.db'}"
        self._start(LINK, ["flower-superlink", *words.split()], "log")
        ready = READY.format(port=PORT, authority=own / AUTHORITY, waits=WAITS)
        subprocess.run(self._on(LINK, [sys.executable, "-c", ready]), env=self._environment(LINK), check=True)

    def run(self, study: str, out: str, *, resume: bool = False) -> subprocess.Popen[bytes]:
        """Run a study, or go on with it, as a person on the SuperLink's host would."""
        own = self.place(LINK)
        (own / f"{out}.toml").write_text(study)
        what = ["--resume", str(own / out)] if resume else [str(own / f"{out}.toml"), "--out", str(own / out)]
        words = [sys.executable, "-m", "simulations.command_line", "run", *what, "--superlink", CONNECTION, "--quiet"]
        return self._start(LINK, words, f"{out}.said")

    def lines(self, out: str) -> list[dict[str, Any]]:
        """The rounds of a run that are recorded."""
        file = self.place(LINK) / out / "records.jsonl"
        whole = file.read_text().split("\n")[:-1] if file.exists() else []
        return [line for line in map(json.loads, whole) if line["kind"] == "round"]

    def until(self, met: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
        """Wait until something is so, while a process is at work."""
        in_time = wait_until(lambda: met() or process.poll() is not None, WAITS)
        assert process.poll() is None, self._said()
        assert in_time, self._said()

    def stage(self, name: str) -> int:
        """How far a node has come in its latest masked sum; -1 where there was none."""
        file = self.place(name) / "ledger" / "sessions" / "sessions.json"
        marks = list(json.loads(file.read_text()).values()) if file.exists() else []
        return int(marks[-1]["stage"]) if marks else -1

    def charged(self, name: str) -> Counter[tuple[int, int]]:
        """How often a node's ledger has been charged for each round and client of the study it was asked for last."""
        found = Counter[tuple[int, int]]()
        file = self.place(name) / "ledger" / "ledger.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()[1:] if '"round"' in line]
        for line in lines:
            if line["study"] == lines[-1]["study"]:
                found.update(
                    (line["round"], each) for first, last in line["clients"] for each in range(first, last + 1)
                )
        return found

    def _begin(self) -> None:
        own = self.place(LINK)
        write_certificates(own, [self.wire.address(LINK), "127.0.0.1", "localhost"])
        (own / "flwr").mkdir()
        address, authority = f"{self.wire.address(LINK)}:{PORT}", json.dumps(str(own / AUTHORITY))
        connection = f'[superlink.{CONNECTION}]\naddress = "{address}"\nroot-certificates = {authority}\n'
        (own / "flwr" / "config.toml").write_text(connection)
        self.start_link()
        write_peers([self.place(name) for name in NAMES])
        for name in NAMES:
            key = write_node_key(self.place(name) / NODE_KEY)
            words = ["flwr", "supernode", "register", str(key), CONNECTION, "--name", name]
            subprocess.run(self._on(LINK, words), env=self._environment(LINK), check=True, capture_output=True)
        for number, name in enumerate(NAMES):
            self._start_node(number, name, address)
        for name in NAMES:
            assert wait_until(lambda: "SuperNode ID" in (self.place(name) / "log").read_text(), WAITS), self._said()  # noqa: B023

    def _start_node(self, number: int, name: str, address: str) -> None:
        own = self.place(name)
        (own / AUTHORITY).write_bytes((self.place(LINK) / AUTHORITY).read_bytes())
        (own / POLICY).write_text(OWNER)
        config = f"partition-id={number} num-partitions={NODES}"
        for what, file in (("policy", POLICY), (IDENTITY, IDENTITY), (PEERS, PEERS)):
            config += f" {what}={json.dumps(str(own / file))}"
        words = f"--superlink {address} --root-certificates {own / AUTHORITY}"
        words += f" --auth-supernode-private-key {own / NODE_KEY} --isolation subprocess"
        words += f" --host 127.0.0.1 --port {OWN_PORT} --node-config"
        self._start(name, ["flower-supernode", *words.split(), config], "log")

    def _on(self, name: str, words: Sequence[str]) -> list[str]:
        return [*self.wire.on(name), *words]

    def _environment(self, name: str) -> dict[str, str]:
        """A host's own: its clients write where its disk is, and nothing goes by way of a proxy."""
        own = self.place(name)
        told = flower_environment(own) | {
            "FLWR_HOME": str(own / "flwr"),
            PLACE: str(own),
            "NO_PROXY": "*",
            "no_proxy": "*",
        }
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), told["PYTHONPATH"]])
        return told | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}

    def _start(self, name: str, words: Sequence[str], log: str) -> subprocess.Popen[bytes]:
        env = self._environment(name)
        with (self.place(name) / log).open("ab") as file:
            process = subprocess.Popen(
                self._on(name, words), cwd=self.place(name) / "empty", env=env, stdin=subprocess.DEVNULL, stdout=file,
                stderr=file, start_new_session=True,
            )  # fmt: skip
        self._started.append(process)
        return process

    def _said(self) -> str:
        """The last words of all that runs, for whoever has to find out."""
        logs = sorted([*self._folder.glob("*/log"), *self._folder.glob("*/*.said")])
        return "\n".join(f"{log}: {log.read_text(errors='replace')[-600:]}" for log in logs)
