"""What the directory of a run tells: its records, its seconds where they were kept, and what follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from clients.data.identity import short_identity
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import event_of
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import COSTED, MECHANISMS
from fedpriv.records import Line, Records, read_records, read_timings
from fedpriv.releases import SUMS
from server.directory import data_place
from server.directory.results import REACHED, STOPPED, WAITED
from server.progress.words import kind_alone, kind_with_settings, settings_beside, value_of

ENDS = {
    "finished": "finished",
    "budget": "stopped at its privacy budget",
    "interrupted": "interrupted; it can be resumed",
    STOPPED: "stopped by whoever ran it; it can be resumed",
    REACHED: "stopped: its accuracy reached run.stop.accuracy",
    WAITED: "stopped: no better accuracy in as many evaluated rounds as run.stop.patience says",
    "no round counted": "no round counted: none had enough answers to step by",
}
BARE = ("study", "release", "mechanism", "model")  # facts of a run whose value says by itself what it is of
COLUMNS = ("mechanism", "attack", "Byzantine", "clients", "trust", "rounds")  # of the table that compares runs


@dataclass(frozen=True, eq=False)
class Run:
    """One run: all that is shown of it comes from its records."""

    directory: Path
    records: Records
    timings: dict[int, Line]  # by round; {} where no seconds were kept
    study: str  # the resolved study.toml, "" where there is none
    where: str | None = None  # where its data lay when it began; None where that was not written down

    @property
    def header(self) -> Line:
        """The header of the run's records: what was run, on what, how privately."""
        return self.records.header

    @property
    def rounds(self) -> list[Line]:
        """The lines of the run's records, one a round: what happened in it."""
        return self.records.rounds

    @property
    def measured(self) -> dict[str, float | None]:
        """The last accuracy of the run, or R² where labels are numbers, by its name in the records."""
        name = "r2" if any("r2" in line for line in self.rounds) else "accuracy"
        return {name: self.last(name)}

    def last(self, name: str) -> Any:
        """The last value that the run's rounds have under a name, such as accuracy; None where there never was one."""
        return next((line[name] for line in reversed(self.rounds) if line.get(name) is not None), None)

    def total(self, name: str) -> dict[str, int]:
        """What all rounds of the run count under a name, such as rejected: how many for each reason."""
        counts: Counter[str] = Counter()
        for line in self.rounds:
            counts.update(line[name])
        return dict(counts)

    @property
    def skipped(self) -> dict[str, list[int]]:
        """The rounds of the run that did not count, by reason."""
        found: dict[str, list[int]] = {}
        for line in self.rounds:
            if line["skipped"]:
                found.setdefault(line["skipped"], []).append(line["round"])
        return found

    @property
    def bytes_up(self) -> int:
        """How many bytes all clients sent in all rounds of the run."""
        return sum(line["bytes_up"] for line in self.rounds)

    @property
    def client_bytes(self) -> int:
        """Bytes of one client in one round: the mean of what was sent, where that depends on what messages say."""
        answered = sum(line["answered"] for line in self.rounds)
        if "client_bytes_are" not in self.header or not answered:
            return int(self.header["client_bytes"])
        found: int = round(self.bytes_up / answered)
        return found

    @property
    def seconds(self) -> float | None:
        """How many seconds the rounds of the run took; None where no timings were kept."""
        return sum(line["seconds"] for line in self.timings.values()) if self.timings else None

    @property
    def ended(self) -> str:
        """How the run ended, in words for its report: finished, out of budget, interrupted, cut short."""
        end = self.records.end
        return ENDS.get(end["why"], str(end["why"])) if end else "cut short: its records have no end"

    @property
    def not_tried(self) -> str | None:
        """Why the attack was not tried: what it failed with at every Byzantine client; None where it was."""
        found: str | None = (self.records.end or {}).get("not_tried")
        return found

    @property
    def private(self) -> bool:
        """Whether the messages had noise at all, the mechanism's or a release's."""
        return self.header["release"] is not None

    @property
    def released(self) -> Line | None:
        """The release that made the run's messages private, as its header has it; None where the mechanism did."""
        found: Line | None = self.header.get("private_sum")
        return found

    @property
    def plain(self) -> bool:
        """Whether the messages travelled as they were, without a mechanism."""
        return kind_alone(self.header["mechanism"]) == "Plain"

    @cached_property
    def releases(self) -> int:
        """How many releases of its worst client the run is costed for: all that were planned where it ended early.

        Of a run that was cut short they are taken to be as many as rounds are recorded.
        """
        end = self.records.end
        name = "releases_possible" if end and "releases_possible" in end else "releases_of_worst"
        found = int(end[name]) if end else len(self.rounds)
        return min(found, 1) if self.kept else found

    @property
    def answers(self) -> int:
        """How many answers about the model the worst client of the run gave; where cut short, in all that were due."""
        end, every = self.records.end, self.header["evaluation"]["every"]
        if end:
            return int(end["answers_of_worst"])
        return sum(line["round"] % every == 0 or line["round"] == self.header["rounds"] for line in self.rounds)

    @cached_property
    def account(self) -> Account | None:
        """The account of the worst client; None where messages were not private or nothing was released."""
        if not self.private or not self.releases:
            return None
        try:
            events = [event_of(own) for own in self.header.get("releases") or [self.header["release"]]]
            # a message of several steps is as many releases
            given = [replace(event, rounds=self.releases * event.rounds) for event in events]
            if (asked := self.header.get("evaluation")) is not None:
                given.append(replace(event_of(asked["release"]), rounds=self.answers))
            return Account(tuple(given))
        except (KeyError, TypeError, FedprivError) as error:
            raise FedprivError(f"{self.directory / 'records.jsonl'}:1: release: {error}") from None

    @property
    def kept(self) -> bool:
        """Whether the run's clients noised their records once and used them in all rounds (kept noise)."""
        return "epsilons" in self.header

    @property
    def epsilon(self) -> dict[str, Any] | None:
        """The bounds of ε at the end of the run; where it was cut short, those that were last recorded."""
        return self.spent("epsilon")

    def spent(self, name: str) -> dict[str, Any] | None:
        """`epsilon`, `mu` or `beta` at the end of the run, or as last recorded; records of old hold ε alone."""
        end = self.records.end
        recorded: dict[str, Any] | None = end.get(name) if end else self.last(name)
        return recorded

    @property
    def who(self) -> str:
        """Whose guarantee the run's ε is, in words for its report: the worst client, on how many releases."""
        end = self.records.end
        if self.kept:
            return "a client that noised its records once, for all rounds"
        if end is None or end["worst_client"] is None:
            rounds = f"a client asked in all of the {self.releases} rounds recorded"
            return f"{rounds}, if nothing that was sent had a part in where they end"
        planned = f", with all rounds planned {self.releases}" if "releases_possible" in end else ""
        return (
            f"the worst client, number {end['worst_client']}, charged for {end['releases_of_worst']} releases{planned}"
        )


def read_run(directory: str | Path) -> Run:
    """Read the run of a directory, records and timings, for reports; an error in a line says what is wrong."""
    place = Path(directory)
    if not (place / "records.jsonl").is_file():
        raise FedprivError(f"{directory}: no records.jsonl there; give the directory that fedpriv run named at its end")
    timings = place / "timings.jsonl"
    seconds = read_timings(timings) if timings.is_file() else {}
    return Run(place, read_records(place / "records.jsonl"), seconds, study_text(place), data_place(place))


def study_text(directory: Path) -> str:
    """The text of study.toml in the directory of a run or a sweep, for its page; "" where none can be read."""
    try:
        return (directory / "study.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def run_labels(runs: Sequence[Run]) -> list[str]:
    """The names of runs that are compared: of each what sets it apart from the others, else its directory.

    What the table beside them has a column for is in a name only where names would be the same without; settings
    that only add noise come last: most often they were found for a target ε.
    """
    facts, noise, told = list[dict[str, str]](), set[str](), set(COLUMNS)
    if len({kind_alone(run.header["mechanism"]) for run in runs}) > 1:
        told |= {name for run in runs for name in settings_beside(run.header["mechanism"])}
    for run in runs:
        header = run.header
        own = {"study": str(header["name"])} | ({"data": short_identity(header["data"])} if "data" in header else {})
        own |= {"release": kind_alone(run.released), "mechanism": kind_alone(header["mechanism"])}
        own |= {name: value_of(value) for name, value in settings_beside(header["mechanism"]).items()}
        own |= {f"release {name}": value_of(value) for name, value in settings_beside(run.released).items()}
        own |= {"aggregation": kind_alone(header["aggregation"]), "attack": kind_alone(header["attack"])}
        for of in ("attack", "aggregation"):
            own |= {f"{of} {name}": value_of(value) for name, value in settings_beside(header[of]).items()}
        own |= {"corruption": kind_with_settings(header.get("corruption")), "Byzantine": str(header["byzantine"])}
        own |= {"clients": str(header["clients"]), "model": str(header["model"])}
        own |= {"trust": str((header["release"] or {}).get("trust", "none")), "rounds": str(header["rounds"])}
        facts.append({name: value if name in BARE else f"{name} {value}" for name, value in own.items()})
        effects = dict(getattr(MECHANISMS.get(kind_alone(run.header["mechanism"])), "effects", {}))
        if (cls := SUMS.get(kind_alone(run.released))) is not None:
            effects |= {f"release {name}": way for name, way in COSTED.named(cls.kind_of_cost).effects.items()}
        noise |= {name for name, way in effects.items() if way < 0}
    names = list(dict.fromkeys(name for own in facts for name in own))
    differing = [name for name in names if len({own.get(name) for own in facts}) > 1]
    chosen = {name for name in differing if name not in told | noise and not name.startswith("attack ")}
    for name in sorted(differing, key=noise.__contains__):
        more = chosen | {name}
        if len({tuple(map(own.get, more)) for own in facts}) > len({tuple(map(own.get, chosen)) for own in facts}):
            chosen = more
    found = [", ".join(own[name] for name in names if name in chosen and name in own) for own in facts]
    return found if len(set(found)) == len(runs) and all(found) else [str(run.directory) for run in runs]
