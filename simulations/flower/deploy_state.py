"""A local deployment's directory: which processes were started, and whether each of them is still that process.

A process is known by its pid and the time it began, as a pid alone is given to others later. What processes leave
behind (Flower's executors) is known by a mark in its environment, where /proc shows that.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fedpriv._base.files import replace_file
from fedpriv.errors import FedprivError
from simulations.flower.surroundings import proc_file, process_began

STATE = "deployment.json"  # what was started
FORMAT = 1  # of that file
MARK = "FEDPRIV_DEPLOYMENT"  # in the environment: of which deployment a process is
PART = "FEDPRIV_PART"  # in the environment: of which of its parts
EXECUTOR = "flower-superexec"  # what each part starts to start the processes of its tasks; Flower does not watch it
NAME = "local"  # the connection
HOME = "flwr"  # the directory of Flower's configuration that holds it


@dataclass(frozen=True)
class Process:
    """A process that was started."""

    name: str  # of the part: superlink, or node-0, node-1, …
    pid: int
    began: str  # when, in its system's own words; nothing where it had ended at once
    port: int  # that it listens at

    @property
    def runs(self) -> bool:
        """Whether this part of a deployment still runs: its pid is there, and began when the part did."""
        return self.began != "" and process_began(self.pid) == self.began

    @property
    def fault(self) -> str:
        """What `fedpriv deploy status` says of a broken part: it has ended, or its executor has."""
        return "its executor has ended" if self.runs else "has ended"


@dataclass
class Deployment:
    """What `fedpriv deploy up` has started."""

    nodes: int  # SuperNodes
    tls: bool  # whether all prove who they are
    port: int  # the SuperLink's
    mark: str  # that all its processes bear in their environment
    ready: bool = False  # whether `up` came to its end
    processes: list[Process] = field(default_factory=list)

    def save(self, directory: Path) -> None:
        """Write what was started to deployment.json in the deployment's directory, durably."""
        replace_file(directory / STATE, (json.dumps({"format": FORMAT} | asdict(self), indent=1) + "\n").encode())

    def take(self, process: Process) -> None:
        """Add a process just started to the deployment, in the place of an earlier one of its name."""
        names = [each.name for each in self.processes]
        place = names.index(process.name) if process.name in names else len(names)
        self.processes[place : place + 1] = [process]

    @staticmethod
    def load(directory: Path) -> Deployment | None:
        """The deployment that deployment.json of a directory describes; None where there is none."""
        file = directory / STATE
        try:
            told = json.loads(file.read_text(encoding="utf-8"))
            if told.pop("format") != FORMAT:
                raise ValueError("another format")
            return Deployment(**told | {"processes": [Process(**each) for each in told["processes"]]})
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FedprivError(f"{file}: is damaged ({error}): end its processes by hand, then remove it") from None

    @property
    def alive(self) -> list[Process]:
        """The deployment's processes that still run, whether or not they do their work."""
        return [each for each in self.processes if each.runs]

    @property
    def broken(self) -> list[Process]:
        """The deployment's processes that have ended, or whose executor has: those take tasks and do nothing."""
        found = _environments() if Path("/proc/self/stat").exists() else None
        broken = list[Process]()
        for each in self.processes:
            pids = [] if found is None else self._among(found, each.name)
            executes = found is None or any(EXECUTOR in proc_file(pid, "cmdline") for pid in pids)
            if not (each.runs and executes):
                broken.append(each)
        return broken

    def left_over(self, part: str | None = None) -> list[int]:
        """The pids of every process with this deployment's mark, Flower's executors too (of one part)."""
        return self._among(_environments(), part)

    def _among(self, found: list[tuple[int, list[bytes]]], part: str | None) -> list[int]:
        """The pids, among processes and their environments, that bear this deployment's mark (and part's name)."""
        words = {f"{MARK}={self.mark}".encode()} | ({f"{PART}={part}".encode()} if part else set())
        return [pid for pid, environment in found if words <= set(environment)]


def default_directory() -> Path:
    """The directory of a user's local deployment where --directory names none, below XDG_STATE_HOME."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "fedpriv" / "deployment"


def home_of(connection: str) -> str | None:
    """The FLWR_HOME of the local deployment, if that connection's name means it and it is there; else None."""
    directory = default_directory()
    return str(directory / HOME) if connection == NAME and (directory / STATE).exists() else None


@contextmanager
def held_deployment(directory: Path) -> Iterator[None]:
    """While it lasts, nobody else starts or ends a deployment in the directory, which is made if need be."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    directory.chmod(0o700)
    file = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise FedprivError(f"{directory}: another fedpriv deploy is at work there: wait until it has ended") from None
    finally:
        os.close(file)


def _environments() -> list[tuple[int, list[bytes]]]:
    """The pid and environment of every other process that this one may look at: to find a deployment's by."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            words = (place / "environ").read_bytes().split(b"\0")
            if process_began(int(place.name)) and int(place.name) != os.getpid():
                found.append((int(place.name), words))
    return found
