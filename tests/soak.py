"""Runs killed at random moments and gone on with, compared byte for byte with the same runs undisturbed.

    python tests/soak.py [--kills 200] [--seed 1] [--only direct|ray|flower|sweep|deployed]… [--keep DIR]

A kill is SIGKILL, at a moment drawn from the seed, to the command itself or to a process that it started; a command
that is killed is given again with --resume until the run has ended. What a client releases is written down by the
client (`Witness`): after each kill the ledger is held against what has left, not against what the server remembers.
Exit code 1 where anything was lost, differs, was released and not charged, or was left running.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import numpy as np  # noqa: E402

import simulations.direct  # noqa: E402, F401  – and with it torch
from fedpriv import frames, study_file  # noqa: E402
from server import rounds  # noqa: E402, F401
from simulations import command_line  # noqa: E402

SHARED = """
name = "soak"
data = { kind = "Synthetic", records = 460, features = 12, classes = 4, held_out = 100 }
attack = { kind = "soak:Witness", file = "witness" }
aggregation.kind = "Mean"
run = { rounds = 60, checkpoint_every = 3, evaluate_every = 4 }
"""
VOTES = (
    SHARED.replace("Mean", "MajorityVote")
    + """
clients = { count = 60, records = 6, byzantine = 20, participation = { kind = "Fixed", number = 40 } }
privacy.mechanism = { kind = "Ternary", clip = 1.0, peak = 0.5, spread = 0.6, scale = 1.4 }
server.step = 0.02
"""
)
SUMS = (
    SHARED
    + """
clients = { count = 50, records = 6, byzantine = 10 }
privacy = { trust = "secure-aggregation", mechanism = { kind = "Binomial", clip = 1.0, trials = 4, scale = 1.2 } }
server = { optimiser = { kind = "Adam" }, step = 0.05 }
"""
)
ADAPTING = (
    SHARED
    + """
clients = { count = 30, records = 12, byzantine = 6 }
privacy.release = { kind = "AdaptiveDpSgd", clip = 1.0, sampling = 0.5, noise = 2.0, count_noise = 2.0 }
server.step = 0.5
"""
)
FRESH = VOTES.replace("clients =", 'privacy.noise = "cryptographic"\nclients =')
GRID = VOTES + 'sweep = { "run.seed" = [1, 2, 3], "server.step" = [0.02, 0.01] }\n'
SAME = ("records.jsonl", "ledger.jsonl", "study.toml")  # of two runs of a study, byte for byte
PATIENCE = 600.0  # seconds after which a command that has not ended hangs (other work may keep the machine busy)
MARK = "FEDPRIV_SOAK"  # in the environment: by which command a process was started
ORPHANS = 60.0  # seconds that what a killed command had started may take to notice


@dataclass(frozen=True, kw_only=True)
class Witness:
    """An honest client that writes down what leaves it: round, client, a checksum of the bytes, and who began it."""

    file: str

    def on_bytes(self, frame: bytes) -> bytes:
        round, client = frames._HEAD.unpack_from(frame)[4], int.from_bytes(frame[frames.FRONT :][:4], "little")
        with open(self.file, "ab", buffering=0) as file:
            file.write(f"{round} {client} {zlib.crc32(frame)} {os.environ.get(MARK, os.getpid())}\n".encode())
        return frame


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to run studies, and who may be killed: the command, or some of what it started (by their command)."""

    kills: int  # of 200
    options: tuple[str, ...]
    studies: tuple[str, ...] = (VOTES, SUMS, ADAPTING, FRESH)
    verb: str = "run"
    others: tuple[str, ...] = ()

    def command(self, again: bool) -> list[str]:
        """As anybody would type it."""
        own = ["--resume", "out"] if again and self.verb == "run" else ["study.toml", "--out", "out"]
        return [sys.executable, "-m", "simulations.command_line", self.verb, *own, *self.options, "--quiet"]


WAYS = {
    "direct": Way(kills=150, options=("--driver", "direct")),
    "ray": Way(kills=15, options=("--driver", "direct", "--workers", "2"), others=("ray::",)),
    "flower": Way(kills=10, options=("--workers", "2"), others=("ray::", "simulations.simulation")),
    "sweep": Way(kills=15, options=("--workers", "2"), studies=(GRID,), verb="sweep", others=("ray::Hand",)),
    "deployed": Way(kills=10, options=()),  # by tests/soak_deployed.py
}


class Forked:
    """A command that starts nothing, in a fork of this process, which has loaded what takes seconds to load."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self._code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            said = os.open(folder / "said", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(said, 1)
            os.dup2(said, 2)
            os.chdir(folder)
            try:
                os._exit(command_line.main(arguments))
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(3)

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, seconds: float) -> int:
        until = time.monotonic() + seconds
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("fork", seconds)
            time.sleep(0.002)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


Started = subprocess.Popen[bytes] | Forked


@dataclass
class Trial:
    """One run in a directory of its own, however often it is begun."""

    way: Way
    text: str
    folder: Path
    faults: list[str] = field(default_factory=list)
    starts: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "study.toml").write_text(self.text)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @cached_property
    def fresh(self) -> bool:
        """Whether noise is never drawn twice."""
        return "cryptographic" in self.text

    def begin(self) -> tuple[Started, str]:
        """The command, begun or gone on with; and what marks all that it starts."""
        self.starts += 1
        command = self.way.command(again=(self.out / "study.toml").exists())
        if not self.way.others:
            return Forked(command[3:], self.folder), "nobody"
        mark = f"{MARK}={os.getpid()}.{self.folder.name}.{self.starts}"
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        surroundings = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **dict([mark.split("=")])}
        with (self.folder / "said").open("ab") as said:
            process = subprocess.Popen(command, cwd=self.folder, env=surroundings, stdout=said, stderr=said)
        return process, mark

    def undisturbed(self) -> float:
        """Run to the end; the seconds from the first thing it writes to the end."""
        since, (process, mark) = time.time(), self.begin()
        first = self._first_written(process, since)
        if process.wait(PATIENCE):
            raise RuntimeError(f"{self.folder}: {(self.folder / 'said').read_text()[-2000:]}")
        self._nobody_left(mark)
        return time.time() - first

    def _first_written(self, process: Started, since: float) -> float:
        """Wait until the run itself is at work (or over): what it writes, not what it was given."""
        while process.poll() is None:
            with suppress(OSError):
                if any(path.stat().st_mtime > since for path in self.out.rglob("ledger.jsonl")):
                    break
            time.sleep(0.005)
        return time.time()

    def killed(self, rng: Random, span: float) -> bool:
        """Begin, and kill something at some moment; whether it was still there to be killed."""
        since, (process, mark) = time.time(), self.begin()
        if rng.random() < 0.1:
            time.sleep(rng.uniform(0, 3 if self.way.others else 0.2))  # while it loads
        else:
            self._first_written(process, since)
            time.sleep(rng.uniform(0, span))
        victim = self._victim(process, mark, rng)
        if process.poll() is not None:
            return False
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.faults.append("hangs")
            process.kill()
        self._nobody_left(mark)
        self._check_ledgers()
        return True

    def _victim(self, process: Started, mark: str, rng: Random) -> int:
        if self.way.others and rng.random() < 0.5:
            for kind in rng.sample(self.way.others, len(self.way.others)):
                if found := sorted(pid for pid, command in running(mark).items() if kind in command):
                    return rng.choice(found)
        return process.pid

    def _nobody_left(self, mark: str) -> None:
        until = time.monotonic() + ORPHANS
        while (left := running(mark)) and time.monotonic() < until:
            time.sleep(0.05)
        for pid, command in left.items():
            self.faults.append(f"left running: {command[:80]}")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ended(self) -> bool:
        """Go on until the end; whether it came."""
        for _ in range(3):
            process, mark = self.begin()
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(PATIENCE)
                self._nobody_left(mark)
                if code == 0:
                    return True
            process.kill()
        self.faults.append(f"does not end: {(self.folder / 'said').read_text()[-300:]}")
        return False

    def _runs(self) -> list[Path]:
        return sorted(path.parent for path in self.out.rglob("ledger.jsonl"))

    def _check_ledgers(self) -> None:
        """Every release that has left a client is in a ledger (a sweep's clients are those of its cells together)."""
        released, charged = Counter[int](), Counter[int]()
        if (self.folder / "witness").exists():
            released = releases((self.folder / "witness").read_text().splitlines())
        for run in self._runs():
            charged.update(charges(run))
        if below := [client for client in released if released[client] > charged[client]]:
            self.faults.append(f"client {below[0]}: {released[below[0]]} releases, {charged[below[0]]} charged")

    def compare(self, wanted: Trial) -> None:
        """Note what differs from the undisturbed run."""
        self._check_ledgers()
        names = [sorted(path.name for path in run.iterdir()) for each in (self, wanted) for run in each._runs()]
        if names[: len(names) // 2] != names[len(names) // 2 :]:
            self.faults.append(f"other files: {names}")
        for mine, theirs in zip(self._runs(), wanted._runs(), strict=False):
            self.faults += [f"{name} differs" for name in differing(mine, theirs, self.fresh)]


def releases(lines: Iterable[str]) -> Counter[int]:
    """How many messages have left each client, by what it wrote down.

    The same bytes are one message. So are those that one command had made for one round: a worker of Ray's that was
    killed takes with it the message that it had not handed over, and Ray asks the next for one.
    """
    contents, starts = defaultdict[tuple[str, str], set[str]](set), defaultdict[tuple[str, str], set[str]](set)
    for round, client, content, start in map(str.split, lines):
        contents[round, client].add(content)
        starts[round, client].add(start)
    found = Counter[int]()
    for place in contents:
        found[int(place[1])] += min(len(contents[place]), len(starts[place]))
    return found


def charges(run: Path) -> Counter[int]:
    """How often a ledger says that each client was asked; half a line at its end counts for nothing."""
    *lines, _ = (run / "ledger.jsonl").read_text().split("\n")
    study, found = study_file.read(str(run / "study.toml")), Counter[int]()
    for line in map(json.loads, lines[1:]):
        asked = study.clients.chosen.asked(study.clients.count, study.run.seed, line["round"]).tolist()
        found.update(asked if line["clients"] is None else line["clients"])
    return found


def differing(mine: Path, theirs: Path, fresh: bool) -> list[str]:
    """The files of two runs of a study that say different things; with fresh noise, those that cannot."""
    names = ("study.toml",) if fresh else SAME
    found = [name for name in names if (mine / name).read_bytes() != (theirs / name).read_bytes()]
    one, two = (json.loads((run / "result.json").read_text()) for run in (mine, theirs))
    varying = ("directory", "seconds", "bytes_transport") + (("accuracy", "epsilon", "worst_client") if fresh else ())
    if {**one, **dict.fromkeys(varying)} != {**two, **dict.fromkeys(varying)}:
        found.append("result.json")
    with np.load(mine / "checkpoint.npz") as a, np.load(theirs / "checkpoint.npz") as b:
        if not fresh and not all(np.array_equal(a[name], b[name]) for name in b):
            found.append("checkpoint.npz")
    return found


def running(mark: str) -> dict[int, str]:
    """The processes with that in their environment, and their commands."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if mark.encode() in (place / "environ").read_bytes().split(b"\0"):
                found[int(place.name)] = (place / "cmdline").read_text(errors="replace").replace("\0", " ")
    return found


@dataclass
class Tally:
    """What has come of one way."""

    kills: int = 0
    runs: int = 0
    starts: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # who was killed, where that is told apart
    faults: list[str] = field(default_factory=list)


def soak(way: Way, kills: int, rng: Random, folder: Path) -> Iterator[Tally]:
    """Kill, go on, compare, until there were so many kills; after each of them, what has come of it."""
    wanted, spans, tally = dict[str, Trial](), dict[str, float](), Tally()
    while tally.kills < kills and len(tally.faults) < 20:
        text = way.studies[tally.runs % len(way.studies)]
        if text not in wanted:
            wanted[text] = Trial(way, text, folder / f"whole-{len(wanted)}")
            spans[text] = wanted[text].undisturbed()
        trial = Trial(way, text, folder / f"killed-{tally.runs}")
        planned = min(rng.randint(1, 5), kills - tally.kills)
        for _ in range(planned):
            if not trial.killed(rng, spans[text] / planned):
                break
            tally.kills += 1
            yield tally
        if trial.ended():
            trial.compare(wanted[text])
        tally.runs, tally.starts = tally.runs + 1, tally.starts + trial.starts
        tally.faults += [f"{trial.folder}: {fault}" for fault in trial.faults]
    yield tally


def _deployed(kills: int, rng: Random, folder: Path) -> Iterator[Tally]:
    """The same in a deployment, which is another module's: what it imports takes its time."""
    from soak_deployed import soak

    return soak(kills, rng, folder)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=list(WAYS), default=[])
    parser.add_argument("--keep", type=Path, help="a new directory in which all runs stay")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="fedpriv-soak-") as scratch:
        return _soaked(options, options.keep or Path(scratch), print)


def _soaked(options: argparse.Namespace, folder: Path, say: Callable[[str], None]) -> int:
    chosen = {name: way for name, way in WAYS.items() if name in (options.only or WAYS)}
    parts, found = sum(way.kills for way in chosen.values()), dict[str, Tally]()
    for name, way in chosen.items():
        begun, shown = time.monotonic(), 0.0
        kills = -(-options.kills * way.kills // parts)
        rng = Random(f"{options.seed} {name}")
        for tally in (_deployed if name == "deployed" else partial(soak, way))(kills, rng, folder / name):
            found[name] = tally
            if time.monotonic() - shown > 20:
                shown = time.monotonic()
                print(f"{name}: {tally.kills}/{kills} kills, {len(tally.faults)} faults", file=sys.stderr, flush=True)
        seconds = time.monotonic() - begun
        kinds = "".join(f", {count} {kind}" for kind, count in sorted(tally.kinds.items()))
        say(f"{name}: {tally.kills} kills{kinds} in {tally.runs} runs, {tally.starts} starts, {seconds:.0f} s, "
            f"{len(tally.faults)} faults")  # fmt: skip
        for fault in tally.faults:
            say(f"  {fault}")
    faults = sum(len(tally.faults) for tally in found.values())
    say(f"{sum(tally.kills for tally in found.values())} kills, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
