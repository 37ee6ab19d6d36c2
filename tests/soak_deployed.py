"""Kills in a real deployment: SuperNodes, what works for them, the server's process, the SuperLink (`tests/soak.py`).

One deployment carries all runs: three SuperNodes with TLS and keys, and policies that allow seeded noise. Whoever is
killed, what follows is what a user would do: `fedpriv deploy up`, which starts again what has ended, and, where the run
was lost with its server, `fedpriv run --resume`. Flower cannot go on with a run whose server process or SuperLink was
killed: it takes up to a minute to call it failed, and what goes on is another run of Flower's, from our checkpoint. Who
is short of time does not wait for that.

A run that came to its end is compared with one in one process, in which exactly those nodes' clients are absent from a
round that its records count as failed in it: model, ledger and records are the same bits.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from soak import PATIENCE, ROOT, SHARED, Tally, left_running, running

from fedpriv.studies import file as study_file
from server import rounds
from server.rounds.driver import Answer, Task
from simulations.cli.deploy import POLICY, WHY
from simulations.flower._deploy_parts import name_of
from simulations.flower.deploy_state import HOME
from simulations.flower.surroundings import end_all
from simulations.runs import direct

NODES, FEWER, CLIENTS = 3, 2, 20  # nodes; where there is little time; clients
STUDY = (
    SHARED.replace("Mean", "MajorityVote")
    .replace("rounds = 60", "rounds = 5")
    .replace("every = 3", "every = 1")
    .replace("every = 4", "every = 1")
    + f"""
clients = {{ count = {CLIENTS}, records = 6, byzantine = 8 }}
privacy.mechanism = {{ kind = "Ternary", clip = 1.0, peak = 0.5, spread = 0.6, scale = 1.4 }}
server = {{ step = 0.02, timeout = 150.0 }}
"""
)
KINDS = {  # who is killed, by their commands; of an executor's, any
    "node": ("flower-supernode",), "server": ("flwr-serverapp",), "SuperLink": ("flower-superlink",),
    "executor": ("flwr-clientapp", "flower-superexec", "clients.flower.warm"),
}  # fmt: skip
SPAN = 25.0  # seconds of a run in which something is killed
WAITS = PATIENCE  # seconds a command may take: Flower's own waits are of a minute


@dataclass
class Field:
    """The deployment that all runs share."""

    folder: Path
    nodes: int = NODES

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        policy = POLICY.format(noise="seeded", why=WHY) + 'imports = ["soak:Witness"]\n'
        policy = policy.replace("epsilon = 100.0", "epsilon = 1e6")  # of all runs together
        for number in range(self.nodes):
            place = self.folder / "d" / name_of(number)
            place.mkdir(parents=True)
            (place / "policy.toml").write_text(policy)

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "simulations.command_line", *words]

    @property
    def surroundings(self) -> dict[str, str]:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "FLWR_HOME": str(self.folder / "d" / HOME)}

    def deploy(self, verb: str, *words: str) -> str:
        """What it says; RuntimeError where it fails."""
        command = self.command("deploy", verb, "--directory", str(self.folder / "d"), *words)
        done = subprocess.run(
            command, cwd=self.folder, env=self.surroundings, capture_output=True, text=True, timeout=WAITS
        )
        if done.returncode:
            raise RuntimeError(f"deploy {verb}: {done.stderr[-300:]}")
        return done.stderr

    def up(self) -> str:
        return self.deploy("up", "--nodes", str(self.nodes), "--tls", "--seeded")

    def victims(self, kind: str) -> list[int]:
        return sorted(pid for pid, command in running().items() if any(word in command for word in KINDS[kind]))

    def charges(self) -> list[list[dict[str, Any]]]:
        """The lines of each node's ledger that are releases."""
        files = [self.folder / "d" / name_of(number) / "ledger" / "ledger.jsonl" for number in range(self.nodes)]
        lines = [map(json.loads, file.read_text().splitlines()) if file.exists() else [] for file in files]
        return [[line for line in each if "round" in line] for each in lines]


@dataclass
class Run:
    """One run in the deployment, however often it is begun."""

    place: Field
    out: Path
    faults: list[str] = field(default_factory=list)
    starts: int = 0
    begun: subprocess.Popen[bytes] | None = None

    def begin(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        study = self.place.folder / "study.toml"
        study.write_text(STUDY)
        there = (self.out / "study.toml").exists()
        own = ["--resume", str(self.out)] if there else [str(study), "--out", str(self.out)]
        command = self.place.command("run", *own, "--superlink", "local", "--quiet")
        with (self.place.folder / "said").open("ab") as said:
            self.begun = subprocess.Popen(command, cwd=self.place.folder, env=self.place.surroundings, stdout=said,
                                          stderr=said, start_new_session=True)  # fmt: skip
        return self.begun

    def at_work(self) -> bool:
        """Wait until there is a record more than there was; whether the run goes on."""
        before, until = len(self.lines()), time.monotonic() + WAITS
        while self.running and time.monotonic() < until:
            if len(self.lines()) > before:
                break
            time.sleep(0.2)
        return self.running

    @property
    def running(self) -> bool:
        return self.begun is not None and self.begun.poll() is None

    def lines(self) -> list[bytes]:
        file = self.out / "records.jsonl"
        return file.read_bytes().splitlines()[1:] if file.exists() else []

    def killed(self, kind: str, rng: Random, short: bool) -> bool:
        """Kill one of a kind, mend, and go on; whether there was one while the run was at work."""
        if not self.running:
            self.begin()
        if (short or rng.random() < 0.8) and not self.at_work():  # or while it begins
            return False
        time.sleep(rng.uniform(0, 1 if short else SPAN))
        while self.running and not (found := self.place.victims(kind)):
            time.sleep(0.05)
        if not self.running:
            return False
        before = self.lines()
        with suppress(ProcessLookupError):
            os.kill(rng.choice(found), signal.SIGKILL)
        time.sleep(rng.uniform(0, 1 if short else 5))
        if kind in ("server", "SuperLink") and short:
            self.ended(within=0)
        self.place.up()
        if kind in ("server", "SuperLink") and not short:
            self.ended()
        if self.lines()[: len(before) - 1] != before[:-1]:  # the last may not have been checkpointed
            self.faults.append("records were lost")
        return True

    def ended(self, within: float = WAITS) -> bool:
        """Wait for the command's end, or end it; whether the run has come to its own."""
        process = self.begun
        assert process is not None
        try:
            return process.wait(within) == 0
        except subprocess.TimeoutExpired:
            self.faults += ["hangs"] if within else []
            return False
        finally:
            end_all(process)

    def finished(self) -> bool:
        """Go on until the end; whether it came."""
        for _ in range(4):
            if self.begun is not None and self.ended():
                return True
            self.place.up()
            self.begin()
        self.faults.append(f"does not end: {(self.place.folder / 'said').read_text()[-300:]}")
        return False

    def absent(self) -> Iterator[dict[int, frozenset[int]]]:
        """By round, whose clients its records count as failed: every way to read them."""
        found: dict[int, list[frozenset[int]]] = {}
        for line in map(json.loads, self.lines()):
            if "budget" in (line.get("note") or ""):
                self.faults.append(f"round {line['round']}: {line['note']}")  # or nothing would be tried
            if line["kind"] == "round" and line["answered"] < line["asked"]:
                if sum(line["failed"].values()) != line["asked"] - line["answered"]:
                    self.faults.append(f"round {line['round']}: not every absent client is counted")
                found[line["round"]] = [
                    each for each in subsets(self.place.nodes) if _fits(each, line, self.place.nodes)
                ]
        for chosen in product(*found.values()):
            yield dict(zip(found, chosen, strict=True))

    def compare(self, wanted: Path) -> None:
        """Note what differs from every run in one process that could be the same."""
        names = []
        for number, gone in enumerate(self.absent()):
            place = wanted / f"{self.out.name}-{number}"
            alone(place, gone, nodes=self.place.nodes)
            if not (differs := differing(self.out, place)):
                return
            names.append(f"{gone}: {', '.join(differs)}")
        self.faults.append(f"is no run without some nodes in some rounds: {names}")


class Without(direct.Here):
    """The round in this process, without some nodes' clients."""

    def __init__(self, gone: Mapping[int, frozenset[int]], nodes: int) -> None:
        super().__init__(nodes)
        self._gone, self._nodes = gone, nodes

    def ask(self, task: Task) -> Iterator[Answer]:
        for answer in super().ask(task):
            gone = node_of(int(answer.asked[0]), self._nodes) in self._gone.get(task.round, ())
            yield Answer(answer.asked, None, "lost: killed") if gone else answer


def alone(place: Path, gone: Mapping[int, frozenset[int]], study: str = STUDY, nodes: int = NODES) -> None:
    """The run that this one should be, in this process; its witness writes elsewhere."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with chdir(place.parent):
        rounds.run_rounds(study_file.parsed_study(study), place, Without(gone, nodes), quiet=True)


def differing(mine: Path, theirs: Path) -> list[str]:
    """What two runs do not say alike; why somebody was absent, and whether sums were masked, each says for itself."""
    own = ("failed", "note", "masked")

    def said(place: Path) -> list[dict[str, Any]]:
        lines = map(json.loads, (place / "records.jsonl").read_text().splitlines())
        return [{name: value for name, value in line.items() if name not in own} for line in lines]

    found = [] if said(mine) == said(theirs) else ["records"]
    found += ["ledger"] * ((mine / "ledger.jsonl").read_bytes() != (theirs / "ledger.jsonl").read_bytes())
    with np.load(mine / "checkpoint.npz") as a, np.load(theirs / "checkpoint.npz") as b:
        return found + ["model"] * (not all(np.array_equal(a[name], b[name]) for name in b))


def node_of(client: int, nodes: int) -> int:
    return next(node for node in range(nodes) if client < (node + 1) * CLIENTS // nodes)


def subsets(nodes: int) -> list[frozenset[int]]:
    return [frozenset(each) for size in range(1, nodes + 1) for each in combinations(range(nodes), size)]


def _fits(gone: frozenset[int], line: Mapping[str, Any], nodes: int) -> bool:
    """Whether a record may be of a round without these: as many clients, the one its note speaks of among them."""
    clients = [client for client in range(CLIENTS) if node_of(client, nodes) in gone]
    noted = re.match(r"client (\d+):", line["note"] or "")
    return len(clients) == line["asked"] - line["answered"] and (noted is None or int(noted[1]) in clients)


def below(place: Field, answered: int) -> list[str]:
    """Clients' ledgers that hold less than what has left the clients, or than what the server has had of them."""
    lines, charged = place.charges(), Counter[int]()
    for first, last in (held for each in lines for line in each for held in line["clients"]):
        charged.update(range(first, last + 1))
    witness = place.folder / "witness"
    drawn = witness.read_text().splitlines() if witness.exists() else []
    released = Counter(int(line.split()[1]) for line in drawn)
    found = [f"client {each}: {released[each]} releases, {charged[each]} charged" for each in released
             if released[each] > charged[each]]  # fmt: skip
    if sum(charged.values()) < answered:
        found.append(f"{answered} answers have come, {sum(charged.values())} were charged")
    return found


def soak(kills: int, rng: Random, folder: Path, kinds: Sequence[str], short: bool) -> Iterator[Tally]:
    """Kill, mend, go on, compare, until there were so many kills; after each of them, what has come of it."""
    place, tally, answered, bag = Field(folder, FEWER if short else NODES), Tally(), 0, list[str]()
    try:
        place.up()
        while tally.kills < kills and len(tally.faults) < 5:
            run = Run(place, folder / f"killed-{tally.runs}")
            for _ in range(min(len(kinds) if short else rng.randint(1, 3), kills - tally.kills)):
                bag = bag or (list(kinds[::-1]) if short else rng.sample(kinds, len(kinds)))
                if not run.killed(kind := bag[-1], rng, short):
                    break
                bag.pop()
                tally.kills += 1
                tally.kinds[kind] += 1
                yield tally
            if run.finished():
                run.compare(folder / "alone")
                lines = map(json.loads, run.lines())
                answered += sum(line["answered"] for line in lines if line["kind"] == "round")
            tally.runs, tally.starts = tally.runs + 1, tally.starts + run.starts
            tally.faults += [f"{run.out}: {fault}" for fault in [*run.faults, *below(place, answered)]]
    finally:
        place.deploy("down")
        tally.faults += [f"left running: {command[:80]}" for command in left_running().values()]
    yield tally
