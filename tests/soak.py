"""Runs killed at random moments and gone on with, compared byte for byte with the same runs undisturbed.

    python tests/soak.py [--kills 200 | --short] [--seed 1] [--only direct|ray|flower|sweep|deployed]… [--keep DIR]

A kill is SIGKILL, at a moment drawn from the seed, to the command itself or to a process that it started; a command
that is killed is given again with --resume until the run has ended. What a client releases is written down by the
client (`Witness`): after each kill the ledger is held against what has left, not against what the server remembers.
Exit code 1 where anything was lost, differs, was released and not charged, or was left running: whatever this process
has started, at however many removes, is its own, and orphans become its children.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
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
from functools import cached_property
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import numpy as np  # noqa: E402

import simulations.runs.direct  # noqa: E402, F401  – and with it torch
from fedpriv.studies import file as study_file  # noqa: E402
from fedpriv.wire import frames  # noqa: E402
from server import rounds  # noqa: E402, F401
from simulations import command_line  # noqa: E402
from simulations.flower.surroundings import descendants_of, process_began  # noqa: E402

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
COMMAND = "command"
SAME = ("records.jsonl", "ledger.jsonl", "study.toml")  # of two runs of a study, byte for byte
PATIENCE = 600.0  # seconds after which a command that has not ended hangs (other work may keep the machine busy)
START = "FEDPRIV_SOAK"  # in the environment: which start of a command it is
SHORT = (
    ["--only", "direct", "--only", "flower"],
    ["--only", "ray", "--only", "sweep"],
    ["--only", "deployed", "--kind", "server", "--kind", "SuperLink"],
    ["--only", "deployed", "--kind", "executor", "--kind", "node"],
)
SUBREAPER = 36  # prctl's: whose parents have ended are children of this process, not of init
ORPHANS = 60.0  # seconds that what a killed command had started may take to notice


@dataclass(frozen=True, kw_only=True)
class Witness:
    """An honest client that writes down what leaves it: round, client, a checksum of the bytes, and who began it."""

    file: str

    def on_bytes(self, frame: bytes) -> bytes:
        round, client = frames._HEAD.unpack_from(frame)[4], int.from_bytes(frame[frames.FRONT :][:4], "little")
        with open(self.file, "ab", buffering=0) as file:
            file.write(f"{round} {client} {zlib.crc32(frame)} {os.environ.get(START, os.getpid())}\n".encode())
        return frame


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to run studies, and who may be killed: the command, or some of what it started (by their command)."""

    kills: int  # of 200
    options: tuple[str, ...]
    studies: tuple[str, ...] = (VOTES, SUMS, ADAPTING, FRESH)
    verb: str = "run"
    others: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Who may be killed; where that leaves the command at work, late."""
        return (COMMAND, *self.others)

    @property
    def short(self) -> int:
        """One of each kind; of the one that starts nothing as many as make it twenty."""
        return len(self.kinds) if self.others else 9

    def command(self, again: bool) -> list[str]:
        """As anybody would type it."""
        own = ["--resume", "out"] if again and self.verb == "run" else ["study.toml", "--out", "out"]
        return [sys.executable, "-m", "simulations.command_line", self.verb, *own, *self.options, "--quiet"]


WAYS = {
    "direct": Way(kills=150, options=("--driver", "direct")),
    "ray": Way(kills=15, options=("--driver", "direct", "--workers", "2"), others=("ray::",)),
    "flower": Way(kills=10, options=("--workers", "2"), others=("simulations.flower._simulation", "ray::")),
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

    def begin(self) -> Started:
        """The command, begun or gone on with."""
        self.starts += 1
        command = self.way.command(again=(self.out / "study.toml").exists())
        if not self.way.others:
            return Forked(command[3:], self.folder)
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        start = {START: f"{self.folder.name}.{self.starts}"}
        surroundings = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **start}
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(command, cwd=self.folder, env=surroundings, stdout=said, stderr=said)

    def undisturbed(self) -> float:
        """Run to the end; the seconds from the first thing it writes to the end."""
        since, process = time.time(), self.begin()
        first = self._first_written(process, since)
        if process.wait(PATIENCE):
            raise RuntimeError(f"{self.folder}: {(self.folder / 'said').read_text()[-2000:]}")
        self._nobody_left()
        return time.time() - first

    def _first_written(self, process: Started, since: float) -> float:
        """Wait until the run itself is at work (or over): what it writes, not what it was given."""
        while process.poll() is None:
            with suppress(OSError):
                if any(path.stat().st_mtime > since for path in self.out.rglob("ledger.jsonl")):
                    break
            time.sleep(0.005)
        return time.time()

    def killed(self, kind: str, rng: Random, span: float) -> bool:
        """Begin, and kill one of a kind at some moment; whether there was one to be killed."""
        since, process = time.time(), self.begin()
        if rng.random() < 0.1:
            time.sleep(rng.uniform(0, 3 if self.way.others else 0.2))  # while it loads
        else:
            self._first_written(process, since)
            time.sleep(rng.uniform(0, span))
        while process.poll() is None and not (found := self._victims(process, kind)):
            time.sleep(0.02)
        if process.poll() is not None:
            return False
        with suppress(ProcessLookupError):
            os.kill(rng.choice(found), signal.SIGKILL)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.faults.append("hangs")
            process.kill()
        self._nobody_left()
        self._check_ledgers()
        return True

    def _victims(self, process: Started, kind: str) -> list[int]:
        """Ray's own agents are not among them: a machine of Ray's goes with its agent."""
        if kind == COMMAND:
            return [process.pid]
        return sorted(pid for pid, command in running().items() if kind in command and "Agent" not in command)

    def _nobody_left(self) -> None:
        for pid, command in left_running().items():
            self.faults.append(f"left running: {command[:80]}")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ended(self) -> bool:
        """Go on until the end; whether it came."""
        for _ in range(3):
            process = self.begin()
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(PATIENCE)
                self._nobody_left()
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
    study, found = study_file.read_study(str(run / "study.toml")), Counter[int]()
    for line in map(json.loads, lines[1:]):
        asked = study.clients.schedule.asked(study.clients.count, study.run.seed, line["round"]).tolist()
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


def adopt(orphans: bool = True) -> None:
    """Be the parent of whatever loses its own, of all that is started here: so nothing is lost sight of."""
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, int(orphans), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def left_running() -> dict[int, str]:
    """What still runs when whatever was ending has had its time."""
    until = time.monotonic() + ORPHANS
    while (left := running()) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def running() -> dict[int, str]:
    """All that was started here and has not ended, by its command; what only waits to be asked how it ended has."""
    found = {}
    for pid in descendants_of(os.getpid()):
        with suppress(OSError):  # it has ended meanwhile
            if process_began(pid):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    return found


@dataclass
class Tally:
    """What has come of one way."""

    kills: int = 0
    runs: int = 0
    starts: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # who was killed, where that is told apart
    faults: list[str] = field(default_factory=list)


def soak(way: Way, kills: int, rng: Random, folder: Path, short: bool) -> Iterator[Tally]:
    """Kill, go on, compare, until there were so many kills; after each of them, what has come of it.

    Each kind has its turn before any has another: in any order, or, to be short, in one run if it lasts.
    """
    wanted, spans, tally, bag = dict[str, Trial](), dict[str, float](), Tally(), list[str]()
    while tally.kills < kills and len(tally.faults) < 20:
        text = way.studies[tally.runs % len(way.studies)]
        if text not in wanted:
            quickest = WAYS["direct"] if short and way.verb == "run" else way  # whose bits are the same
            wanted[text] = Trial(quickest, text, folder / f"whole-{len(wanted)}")
            spans[text] = wanted[text].undisturbed()
        trial = Trial(way, text, folder / f"killed-{tally.runs}")
        planned = min(3 if short else rng.randint(1, 5), kills - tally.kills)
        for _ in range(planned):
            bag = bag or (list(way.kinds[::-1]) if short else rng.sample(way.kinds, len(way.kinds)))
            if not trial.killed(bag[-1], rng, spans[text] / planned):
                break
            tally.kills += 1
            tally.kinds[bag.pop()] += 1
            yield tally
        if trial.ended():
            trial.compare(wanted[text])
        tally.runs, tally.starts = tally.runs + 1, tally.starts + trial.starts
        tally.faults += [f"{trial.folder}: {fault}" for fault in trial.faults]
    yield tally


def _deployed(options: argparse.Namespace, kills: int, rng: Random, folder: Path) -> Iterator[Tally]:
    """The same in a deployment, which is another module's: what it imports takes its time."""
    from soak_deployed import KINDS, soak

    kinds = options.kind or list(KINDS)
    return soak(len(kinds) if options.short else kills, rng, folder, kinds, options.short)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--short", action="store_true", help="20 kills, each kind once and direct ones, side by side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=list(WAYS), default=[])
    parser.add_argument("--kind", action="append", default=[], help="of a deployment's processes, these alone, once")
    parser.add_argument("--keep", type=Path, help="a new directory in which all runs stay")
    options = parser.parse_args(arguments)
    adopt()
    with tempfile.TemporaryDirectory(prefix="fedpriv-soak-") as scratch:
        folder = options.keep or Path(scratch)
        return _side_by_side(options, folder) if options.short and not options.only else _soaked(options, folder, print)


def _side_by_side(options: argparse.Namespace, folder: Path) -> int:
    """All of `SHORT`, each in a process of its own, for a deployment mostly waits; what they have to say, in order."""
    begun, command = time.monotonic(), [sys.executable, __file__, "--short", "--seed", str(options.seed)]
    parts = [
        subprocess.Popen([*command, "--keep", str(folder / str(number)), *words], stdout=subprocess.PIPE, text=True)
        for number, words in enumerate(SHORT)
    ]
    said = [part.communicate()[0] for part in parts]
    kills = faults = 0
    for lines in said:
        *own, last = lines.splitlines() or [""]
        found = re.fullmatch(r"(\d+) kills, (\d+) faults", last)
        kills, faults = kills + int(found[1] if found else 0), faults + int(found[2] if found else 1)
        print("\n".join(own if found else [*own, last]))
    print(f"{kills} kills, {faults} faults, {time.monotonic() - begun:.0f} s")
    return 1 if faults else 0


def _soaked(options: argparse.Namespace, folder: Path, say: Callable[[str], None]) -> int:
    chosen = {name: way for name, way in WAYS.items() if name in (options.only or WAYS)}
    parts, found = sum(way.kills for way in chosen.values()), dict[str, Tally]()
    for name, way in chosen.items():
        begun, shown = time.monotonic(), 0.0
        kills = len(options.kind) or way.short if options.short else -(-options.kills * way.kills // parts)
        rng = Random(f"{options.seed} {name}")
        if name == "deployed":
            tallies = _deployed(options, kills, rng, folder / name)
        else:
            tallies = soak(way, kills, rng, folder / name, options.short)
        for tally in tallies:
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
