"""What the directory of a run tells: its records, its seconds where they were kept, and what follows from them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from fedpriv._base.files import path_given
from fedpriv._base.loading import loaded_object
from fedpriv._base.spelling import rounded_up, short_number
from fedpriv.accounting.account import Account
from fedpriv.accounting.course import first_events
from fedpriv.accounting.event import event_of
from fedpriv.curves.compose import FINE
from fedpriv.curves.pair import error_rates
from fedpriv.errors import FedprivError
from fedpriv.records import Line, Records, read_records, read_timings
from server.directory import data_place
from server.directory.results import REACHED, STOPPED, TARGETED, WAITED, covered_line, draws_secretly
from server.progress.words import kind_alone, measured_words
from simulations.report.frames import data_frame

if TYPE_CHECKING:
    from torch import nn

    from fedpriv.curves.compose import Band
    from simulations.figures.style import Picture

ENDS = {
    "finished": "finished",
    "budget": "stopped at its privacy budget",
    "interrupted": "interrupted; it can be resumed",
    STOPPED: "stopped by whoever ran it; it can be resumed",
    REACHED: "stopped: its accuracy reached run.stop.accuracy",
    WAITED: "stopped: no better accuracy in as many evaluated rounds as run.stop.patience says",
    "no round counted": "no round counted: none had enough answers to step by",
}


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """One run: all that is shown of it comes from its records."""

    directory: Path
    records: Records
    timings: dict[int, Line]  # by round; {} where no seconds were kept
    study: str  # the resolved study.toml, "" where there is none
    where: str | None = None  # where its data lay when it began; None where that was not written down
    given: Mapping[str, Any] = field(default_factory=dict)  # what made the model, where fp.run was given that

    def __repr__(self) -> str:
        """A run in a line: its study, how it ended, what it learnt and gave away, where it lies."""
        cost = self.epsilon if self.private else None
        learnt = "" if None in self.measured.values() else f", {' '.join(measured_words(self.measured))}"
        given = f", ε ≤ {rounded_up(cost['upper'])} at δ = {short_number(self.header['delta'])}" if cost else ""
        return f"<Run {self.header['name']}: {self.ended}{learnt}{given}, {self.directory}>"

    def _repr_html_(self) -> str:
        """The run's card, as a notebook shows it."""
        return str(loaded_object("simulations.report.run.card:run_card")(self))  # which is about what stands here

    @property
    def header(self) -> Line:
        """The header of the run's records: what was run, on what, how privately."""
        return self.records.header

    @cached_property
    def rounds(self) -> list[Line]:
        """The lines of the run's records, one a round, without what its ε does not cover: what happened in it."""
        return [covered_line(line, self.header["release"]) for line in self.records.rounds]

    @property
    def measured(self) -> dict[str, float | None]:
        """The last accuracy of the run, or R² where labels are numbers, by its name in the records."""
        name = "r2" if any("r2" in line for line in self.rounds) else "accuracy"
        return {name: self.last(name)}

    @property
    def targeted(self) -> dict[str, Any]:
        """What the run last measured beside its accuracy, by its name: that of each class, a backdoor's success."""
        return {name: own for name in TARGETED if (own := self.last(name)) is not None}

    def last(self, name: str) -> Any:
        """The last value that the run's rounds have under a name, such as accuracy; None where there never was one."""
        return next((line[name] for line in reversed(self.rounds) if line.get(name) is not None), None)

    @property
    def accuracy(self) -> float | None:
        """The accuracy on the records held out that the run measured last; None where it never did."""
        found: float | None = self.last("accuracy")
        return found

    @property
    def mu(self) -> dict[str, Any] | None:
        """μ of Gaussian differential privacy at the end of the run, from both sides, as recorded; None of old ones."""
        return self.spent("mu")

    def tradeoff(self, alpha: ArrayLike, tolerance: float = FINE) -> Band:
        """How often an attacker who is wrong as often as `alpha` must miss the run's worst client, from both sides.

        Of a run that ended early the upper side is 1 − α: what it gives away at least depends on how that came about.
        """
        if not self.private:
            raise FedprivError(f"{self.directory}: its updates were sent as they are, so no attacker need ever miss")
        if self.records.end is None:
            raise FedprivError(
                f"{self.directory}: its records have no end, and what was released stands in its ledger: "
                f"fedpriv run --resume {self.directory} goes on with it"
            )
        found = (self.account or Account(())).tradeoff(alpha, tolerance)
        return found._replace(upper=1 - error_rates(alpha)) if self.early else found

    def frame(self) -> Any:
        """The run's rounds as a pandas DataFrame, a dict of columns where there is no pandas; "epsilon.upper", ….

        Where seconds were kept they stand beside: "seconds", "parts.clients". What no round has is no column.
        """
        lines = [{**each, **self.timings.get(each["round"], {})} for each in self.rounds]
        return data_frame(
            [{key: own for key, own in line.items() if key != "kind" and own is not None} for line in lines]
        )

    def model(self, given: object = None) -> nn.Module:
        """What the run has learnt, a torch module in evaluation mode: from records as the study scales them to logits.

        `given` is the module, or what makes it, where `fp.run` was given one and another session asks.
        """
        from clients.training.given import given_model
        from simulations.report.run.trained import trained_module

        own = self.given if given is None else dict([given_model(given)])
        return trained_module(self.directory, self.study, self.header, own)

    def export(self, path: str | os.PathLike[str], given: object = None) -> Path:
        """Write the weights of `model` to a new file, model.pt, .safetensors or .npz by its ending: the file's path."""
        from simulations.report.run.trained import export_weights

        return export_weights(self.model(given), path)

    @cached_property
    def figures(self) -> dict[str, Picture]:
        """The figures of the run's report by their names, drawn when first asked for; a notebook shows each."""
        drawn = loaded_object("simulations.report.run.figures:run_pictures")  # matplotlib, only where it is asked for
        return {each.name: each for each in drawn(self)}

    def total(self, name: str) -> dict[str, int]:
        """What all rounds of the run count under a name, such as rejected: how many for each reason."""
        counts: Counter[str] = Counter()
        for line in self.rounds:
            counts.update(line.get(name, {}))
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
    def bytes_up(self) -> int | None:
        """How many bytes all clients sent in all rounds of the run; None where who was drawn is secret."""
        return None if draws_secretly(self.header["release"]) else sum(line["bytes_up"] for line in self.rounds)

    @property
    def client_bytes(self) -> int:
        """Bytes of one client in one round: the mean of what was sent, where that depends on what messages say."""
        answered: int = sum(line.get("answered", 0) for line in self.rounds)
        if "client_bytes_are" not in self.header or not answered or (sent := self.bytes_up) is None:
            return int(self.header["client_bytes"])
        return round(sent / answered)

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

        Of a run that was cut short nothing is known here: its ledger may hold more than its records.
        """
        end: Line = self.records.end or {"releases_of_worst": 0}
        found = int(end.get("releases_possible") or end["releases_of_worst"])
        return min(found, 1) if self.kept else found

    @property
    def early(self) -> bool:
        """Whether the run ended before all its rounds, when what was sent may have had a part in: ε is of all then."""
        return "releases_possible" in (self.records.end or {})

    @property
    def answers(self) -> int:
        """How many answers about the model the worst client of the run is costed for, as `releases`."""
        end: Line = self.records.end or {"answers_of_worst": 0}
        return int(end.get("answers_possible") or end["answers_of_worst"])

    @cached_property
    def account(self) -> Account | None:
        """The account of the worst client; None where messages were not private or nothing was released."""
        if not self.private or not self.releases:
            return None
        try:
            events = [event_of(own) for own in self.header.get("releases") or [self.header["release"]]]
            # a message of several steps is as many releases
            given = [replace(event, rounds=self.releases * event.rounds) for event in events]
            if turns := self.header.get("in_turn"):  # of noise that changes from round to round
                given = list(first_events([event_of(own) for own in turns], given[0].rounds))
            if (asked := self.header.get("evaluation")) is not None:
                given.append(replace(event_of(asked["release"]), rounds=self.answers))
                end: Line = self.records.end or {}
                if labels := int(end.get("labels_possible") or end.get("labels_of_worst") or 0):
                    given.append(replace(event_of(asked["labels"]), rounds=labels))
            return Account(tuple(given))
        except (KeyError, TypeError, FedprivError) as error:
            raise FedprivError(f"{self.directory / 'records.jsonl'}:1: release: {error}") from None

    @property
    def kept(self) -> bool:
        """Whether the run's clients noised their records once and used them in all rounds (kept noise)."""
        return "epsilons" in self.header

    @property
    def epsilon(self) -> dict[str, Any] | None:
        """The bounds of ε at the end of the run; None where it was cut short, or nothing was costed."""
        return self.spent("epsilon")

    def spent(self, name: str) -> dict[str, Any] | None:
        """`epsilon`, `mu` or `beta` at the end of the run, None where it was cut short; records of old hold ε alone.

        A run that was killed may have asked for more than its records say, again under new noise: its ledger knows.
        """
        recorded: dict[str, Any] | None = (self.records.end or {}).get(name)
        return recorded


def read_run(directory: str | os.PathLike[str]) -> Run:
    """Read the run of a directory, records and timings, for reports; an error in a line says what is wrong."""
    place = path_given(directory)
    if not (place / "records.jsonl").is_file():
        raise FedprivError(f"{directory}: no records.jsonl there; give the directory that fedpriv run named at its end")
    timings = place / "timings.jsonl"
    records = read_records(place / "records.jsonl")
    shown = timings.is_file() and not draws_secretly(records.header["release"])  # a round of more clients takes longer
    seconds = read_timings(timings) if shown else {}
    return Run(place, records, seconds, study_text(place), data_place(place))


def study_text(directory: Path) -> str:
    """The text of study.toml in the directory of a run or a sweep, for its page; "" where none can be read."""
    try:
        return (directory / "study.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
