"""What a run has come to: counted as its rounds pass, so that its records are written and never read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedpriv import records
from fedpriv._base.files import replace_file
from fedpriv.studies.tables import Stop
from server.directory import data_place

NOTHING = "no round counted"  # why a run has ended whose every round was skipped
REACHED = "accuracy reached"  # or that its study's run.stop has ended
WAITED = "accuracy no better"  # likewise
STOPPED = "stopped"  # or that its caller's on_round has ended, and that can go on
DRAWN = ("asked", "answered", "rejected", "failed", "bytes_up", "bytes_transport", "note", "attack_failed", "not_tried")
TARGETED = ("accuracy_by_class", "backdoor")  # what is measured where accuracy is, beside it
EARLY = ("interrupted", STOPPED, REACHED, WAITED)  # what came out may have had a part in when
Line = Mapping[str, Any]


@dataclass
class Totals:
    """What all rounds so far add up to; a run that goes on begins with those in its files."""

    counted: int = 0  # rounds that were not skipped
    skipped: int = 0  # rounds that were not used
    still: int = 0  # of those used, whose direction was 0 in every coordinate
    accuracy: float | None = None  # when it was last looked at
    r2: float | None = None  # in its place where labels are numbers
    targeted: Line = field(default_factory=dict)  # the accuracy of each class, a backdoor's success, likewise
    evaluated: Line | None = None  # the accuracy by clients' answers, when they were last asked
    labels: Line | None = None  # of which classes clients' records are, by what each told once
    best: float | None = None  # of these, the first that the run has, so far; of answers what they prove at least
    since: int = 0  # evaluated rounds since then
    tolerance: float | None = None  # of attackers, when it was last looked at: the share of votes that survive
    bytes_up: int = 0  # of clients' messages
    bytes_transport: int = 0  # that travelled for them, both ways
    seconds: float = 0.0  # of wall-clock time
    rejected: Counter[str] = field(default_factory=Counter)  # messages by reason
    failed: Counter[str] = field(default_factory=Counter)  # clients without a message, by reason
    why_no_attack: str | None = None  # of the first round whose attack failed
    acted: bool = False  # whether any attacker did something in such a round
    others: list[int] = field(default_factory=list)  # rounds in which no attack failed

    @staticmethod
    def of(rounds: list[dict[str, Any]], timings: Mapping[int, Line]) -> Totals:
        """The totals of a run's rounds on disk, to go on from; a kill may have kept the last one's timing from it."""
        found = Totals()
        for line in rounds:
            found.add(line, timings.get(line["round"]))
        return found

    def add(self, line: Line, timing: Line | None) -> None:
        """Add one round to a run's totals: its line of the records, and of the timings where there is one."""
        self.counted += line["skipped"] is None
        self.skipped += line["skipped"] is not None
        self.still += line.get("still", False)
        self.accuracy = self.accuracy if line["accuracy"] is None else line["accuracy"]
        self.r2 = self.r2 if line.get("r2") is None else line["r2"]
        self.targeted = {name: line[name] for name in TARGETED if name in line} or self.targeted
        self.evaluated = line.get("evaluated") or self.evaluated
        self.labels = line.get("labels") or self.labels
        held_out = any(own is not None for own in (self.accuracy, self.r2))  # which go before answers
        low = None if held_out else (line.get("evaluated") or {}).get("low")
        figures = line["accuracy"], line.get("r2"), low
        if (figure := next((own for own in figures if own is not None), None)) is not None:
            better = self.best is None or figure > self.best
            self.best, self.since = (figure, 0) if better else (self.best, self.since + 1)
        self.tolerance = self.tolerance if line.get("tolerance") is None else line["tolerance"]
        self.bytes_up += line["bytes_up"]
        self.rejected.update(line["rejected"])
        self.failed.update(line["failed"])
        if "attack_failed" in line:
            self.why_no_attack = self.why_no_attack or line["attack_failed"]["why"]
            self.acted = self.acted or bool(line["attack_failed"]["acted"])
        else:
            self.others.append(line["round"])
        if timing is not None:
            self.seconds += timing["seconds"]
            self.bytes_transport += timing["bytes_transport"]

    def enough(self, stop: Stop | None) -> str | None:
        """Why a run's rounds so far are enough by its study's run.stop; None where it goes on."""
        if stop is None or self.best is None:
            return None
        if stop.accuracy is not None and self.best >= stop.accuracy:
            return REACHED
        return WAITED if stop.patience is not None and self.since >= stop.patience else None


def draws_secretly(release: Line | None) -> bool:
    """Whether a run's ε, by its header's release, holds for whoever does not learn how many clients a curator drew."""
    return release is not None and release.get("trust") == "central" and release.get("sampling", 1) < 1


def covered_line(line: Line, release: Line | None) -> dict[str, Any]:
    """A round's line as ε covers it being shown: without DRAWN, which tell of who was drawn, where that is secret."""
    return {name: own for name, own in line.items() if not (name in DRAWN and draws_secretly(release))}


def written_result(directory: Path, header: Line, end: Line, totals: Totals) -> dict[str, Any]:
    """Accuracy, cost and guarantee of all rounds so far, in result.json: what `fedpriv run --json` prints."""
    release = header["release"]
    found = {
        "directory": str(directory),
        "name": header["name"],
        "data": header["data"] | {"path": data_place(directory)},
        "accuracy": totals.accuracy,
        **({} if header["data"]["classes"] else {"r2": totals.r2}),
        **({"accuracy_is": header["accuracy_is"]} if "accuracy_is" in header else {}),
        **({"evaluated": totals.evaluated} if "evaluation" in header else {}),
        **({"labels": totals.labels} if "labels" in header.get("evaluation", {}) else {}),
        "rounds": end["rounds"],
        "clients": header["clients"],
        "byzantine": header["byzantine"],
        "seconds": totals.seconds,
        **{name: end[name] for name in ("epsilon", "mu", "beta", "of_rounds_done") if name in end},
        "delta": header["delta"],
        **{name: header[name] for name in ("epsilons", "left_out") if name in header},
        **({"by_word_of": release["kind"]} if release and ":" in release["kind"] else {}),
        "unit": release["unit"] if release else "client",
        **({"units": end["units"]} if "units" in end else {}),
        "trust": header["trust"],
        "masked": header["masked"],
        "adjacency": release["adjacency"] if release else None,
        "worst_client": end["worst_client"],
        "client_bytes": header["client_bytes"],
        **({"client_bytes_are": header["client_bytes_are"]} if "client_bytes_are" in header else {}),
        "bytes_up": totals.bytes_up,
        "bytes_transport": totals.bytes_transport,
        "rejected": dict(sorted(totals.rejected.items())),
        "failed": dict(sorted(totals.failed.items())),
        "skipped": totals.skipped,
        **({"still": totals.still} if totals.still else {}),
        "tolerance": totals.tolerance,
        **({"judged": header["judged"]} if "judged" in header else {}),
        "not_tried": end.get("not_tried"),
        "why": end["why"],
    }
    found = covered_line(found | dict(totals.targeted), release)
    replace_file(directory / "result.json", records.record_bytes(found), mode=0o644)
    return found
