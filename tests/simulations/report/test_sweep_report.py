"""The report of a sweep: tables, worst attacks, what is said of what is missing; all of it from the records alone."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpriv._base.spelling import rounded_up
from fedpriv.errors import FedprivError
from fedpriv.records import Writer
from fedpriv.studies import file as study_file
from server import rounds
from simulations.command_line import main
from simulations.report.sweep.cells import read_sweep
from simulations.report.sweep.grid import Grid
from simulations.runs.direct import Here

Place = Mapping[str, str]
Told = Callable[[Place, int], Any]  # of a place and a seed: an accuracy, settings of a cell, or a word for its state

RULES, ATTACKS = ["Mean", "Median"], ["SignFlip", "Ipm factor=2.0"]
WHY = "aggregation: Krum needs 2f + 3 rows"


def write_sweep(
    directory: Path, axes: Mapping[str, Sequence[str]], tell: Told, seeds: Sequence[int] = (1,), name: str = "duel"
) -> Path:
    """A directory such as `fedpriv sweep` leaves, its cells told one by one."""
    cells = []
    for seed in seeds:
        for values in itertools.product(*axes.values()):
            place = dict(zip(axes, values, strict=True))
            cells.append({"id": f"{len(cells):016x}", "place": place, "seed": seed})
            write_cell(directory / "cells" / cells[-1]["id"], tell(place, seed))
    listed = [{"path": path, "values": list(values)} for path, values in axes.items()]
    index = {"format": 1, "name": name, "about": "", "axes": listed, "seeds": list(seeds), "cells": cells}
    directory.mkdir(exist_ok=True)
    (directory / "sweep.json").write_text(json.dumps(index))
    (directory / "study.toml").write_text(f'name = "{name}"\n[sweep]\n')
    return directory


def write_cell(directory: Path, told: Any) -> None:
    """One cell of three rounds: done with an accuracy, or failed, cut short, damaged, or not there at all."""
    if told == "missing":
        return
    directory.mkdir(parents=True)
    if told in ("failed", "crashed"):
        story = {"kind": "MemoryError", "message": WHY, "asked_wrongly": told == "failed", "trace": "…"}
        (directory / "error.json").write_text(json.dumps(story))
        return
    facts = {"accuracy": 0.8, "byzantine": 3, "epsilon": 4.0, "bytes": 100, "trust": "local"}
    facts |= {"accuracy": told} if isinstance(told, float) else {} if isinstance(told, str) else told
    private = facts["epsilon"] < inf
    release = {"unit": "client", "trust": facts["trust"], "adjacency": "replace"} if private else None
    header = {
        "format": 1, "kind": "run", "study": directory.name, "name": "duel", "clients": 30,
        "byzantine": facts["byzantine"], "dimension": 8, "aggregation": {"kind": "Mean"}, "release": release,
        "mechanism": {"kind": "Binomial" if private else "Plain", "settings": {}}, "trust": facts["trust"],
        "attack": {"kind": "SignFlip"} if facts["byzantine"] else None, "delta": 1e-5, "rounds": 3,
        "client_bytes": facts["bytes"], "bits": {"packed": 1.0, "entropy": None, "masked": None}, "model": "Logistic",
        "test_examples": 100,
    }  # fmt: skip
    cost = {"lower": 0.5 * facts["epsilon"], "upper": facts["epsilon"], "clt": None}
    with Writer(directory / "records.jsonl") as records:
        records.append(header)
        for number in range(1, 2 if told == "unfinished" else 4):
            reached = facts["accuracy"]
            records.append(
                {
                    "kind": "round", "round": number, "asked": 30, "answered": 30, "rejected": {"checksum": 2},
                    "failed": {}, "skipped": None, "loss": None, "epsilon": cost, "bytes_up": 30 * facts["bytes"],
                    "accuracy": None if reached is None else reached * (number / 3),
                    **{name: facts[name] for name in ("backdoor",) if name in facts},
                }
            )  # fmt: skip
        if told != "unfinished":
            records.append({"kind": "end", "why": "finished", "rounds": 3, "worst_client": 0, "releases_of_worst": 3,
                            "epsilon": cost})  # fmt: skip
    if told == "damaged":
        (directory / "records.jsonl").write_text("{}\n")


def report(*words: object) -> str:
    """What the command prints, having done what it was asked."""
    printed, complaint = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(complaint):
        assert main(["report", *map(str, words)]) == 0, complaint.getvalue()
    return printed.getvalue()


def refusal(*words: object) -> str:
    """The one line with which the command refuses."""
    complaint = io.StringIO()
    with redirect_stderr(complaint):
        assert main(["report", *map(str, words)]) == 2
    assert complaint.getvalue().count("\n") == 1
    return complaint.getvalue()


def rows(sweep: Path, table: str) -> list[dict[str, str]]:
    """A table of a report."""
    return list(csv.DictReader(io.StringIO((sweep / "report" / f"{table}.csv").read_text(encoding="utf-8"))))


def page(sweep: Path) -> str:
    """The page of a report."""
    return (sweep / "report" / "index.html").read_text(encoding="utf-8")


class Reader(HTMLParser):
    """Words outside drawings, every field of a heat-map with its row and column, and whether each tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.open, self.row, self.column = "", [], "", None
        self.fields: dict[tuple[str, str], list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "tr":
            self.row = ""
        if tag == "td":
            self.column = found["data-name"]
            self.fields.setdefault((self.row, self.column or ""), [])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "td":
            self.column = None

    def handle_data(self, words: str) -> None:
        if {"svg", "style"} & set(self.open) or not words.strip():
            return
        self.text += words
        if "th" in self.open:
            self.row = words
        elif self.column is not None:
            self.fields[self.row, self.column].append(words)


# Numbers

DUEL = {
    ("Mean", "SignFlip"): [0.81, 0.84, 0.90],
    ("Mean", "Ipm factor=2.0"): [0.31, 0.29, 0.45],
    ("Median", "SignFlip"): [0.70, 0.73, 0.71],
    ("Median", "Ipm factor=2.0"): [0.74, 0.75, 0.79],
}


def half_width(values: Sequence[float]) -> float:
    """Half of a 95% interval over three seeds: t of 2 degrees of freedom is √(2·0.95² / (1 − 0.95²))."""
    return (2 * 0.95**2 / (1 - 0.95**2)) ** 0.5 * statistics.stdev(values) / 3**0.5


@pytest.fixture(scope="module")
def duel(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Two rules, two attacks, three seeds, and what the report of them printed."""
    sweep = write_sweep(
        tmp_path_factory.mktemp("duel") / "out", {"attack": ATTACKS, "aggregation": RULES},
        lambda place, seed: DUEL[place["aggregation"], place["attack"]][seed - 1], seeds=[1, 2, 3],
    )  # fmt: skip
    return sweep, report(sweep)


def test_the_summary_holds_means_and_intervals_over_seeds(duel: tuple[Path, str]) -> None:
    found = {(row["aggregation"], row["attack"]): row for row in rows(duel[0], "summary")}
    assert set(found) == set(DUEL)
    for place, values in DUEL.items():
        row = found[place]
        assert float(row["accuracy"]) == pytest.approx(sum(values) / 3, abs=1e-15)
        assert float(row["half_width"]) == pytest.approx(half_width(values), abs=1e-15)
        assert (float(row["low"]), float(row["high"])) == (min(values), max(values))
        assert (row["seeds"], row["of"]) == ("3", "3")


def test_the_worst_attack_of_each_rule_is_the_one_with_the_least_mean(duel: tuple[Path, str]) -> None:
    worst = {(row["aggregation"], row["attack"]) for row in rows(duel[0], "summary") if row["worst_attack"] == "yes"}
    assert worst == {("Mean", "Ipm factor=2.0"), ("Median", "SignFlip")}
    fields = Reader(page(duel[0])).fields
    assert fields["Mean", ""][:3] == ["0.35", "± 0.22", "Ipm factor=2"]
    assert fields["Median", ""][:3] == ["0.71", "± 0.04", "SignFlip"]


def test_every_cell_is_in_the_table_with_the_numbers_of_its_records(duel: tuple[Path, str]) -> None:
    found = rows(duel[0], "cells")
    assert len(found) == 12
    for row in found:
        assert float(row["accuracy"]) == DUEL[row["aggregation"], row["attack"]][int(row["seed"]) - 1]
        assert (row["epsilon_lower"], row["epsilon_upper"]) == ("2.0", "4.0")
        assert (row["client_bytes"], row["bytes_up"], row["rejected"]) == ("100", "9000", "6")
        assert (row["state"], row["why"]) == ("done", "finished")


OPENED = {("Mean", "stamp"): 0.9, ("Mean", "parts"): 0.3, ("Median", "stamp"): 0.02, ("Median", "parts"): 0.08}


def test_a_backdoor_s_success_stands_beside_accuracy_and_who_lets_it_in_does_not_survive(tmp_path: Path) -> None:
    def told(place: Place, seed: int) -> dict[str, float]:
        """Alike in accuracy; success moves a little with the seed."""
        return {"accuracy": 0.8, "backdoor": OPENED[place["aggregation"], place["attack"]] + 0.001 * seed}

    sweep = write_sweep(tmp_path / "out", {"attack": ["stamp", "parts"], "aggregation": RULES}, told, [1, 2, 3])
    said = " ".join(report(sweep).split())
    assert "takes for its target fewest with Median, 0.082 ± 0.002; most with Mean, 0.902 ± 0.002." in said
    assert "1 of 2 defences survive everything tried (Median)" in said
    assert "to take at most 10% of the records with a backdoor's trigger for its target" in said
    for row in rows(sweep, "cells"):
        opened = OPENED[row["aggregation"], row["attack"]] + 0.001 * int(row["seed"])
        assert float(row["backdoor"]) == pytest.approx(opened, abs=1e-15)
    found = {(row["aggregation"], row["attack"]): row for row in rows(sweep, "summary")}
    assert float(found["Mean", "stamp"]["backdoor"]) == pytest.approx(0.902, abs=1e-12)
    assert float(found["Mean", "stamp"]["backdoor_half_width"]) == pytest.approx(half_width([1e-3, 2e-3, 3e-3]))
    told_json = json.loads(report(sweep, "--json"))["defences"]
    assert {own["defence"]: round(own["backdoor"], 6) for own in told_json} == {"Mean": 0.902, "Median": 0.082}
    html = page(sweep)
    assert "<h2>Backdoors</h2>" in html
    assert "<b>0.90</b><span>± 0.00</span><span>stamp</span>" in html
    assert (sweep / "report" / "backdoor-map-1.png").is_file()


def test_a_sweep_without_backdoors_says_nothing_of_any(duel: tuple[Path, str]) -> None:
    assert "ackdoor" not in duel[1] + page(duel[0]) + "".join(rows(duel[0], "cells")[0])


def test_curves_are_means_round_by_round(duel: tuple[Path, str]) -> None:
    found = [row for row in rows(duel[0], "curves") if (row["aggregation"], row["attack"]) == ("Median", "SignFlip")]
    assert [int(row["round"]) for row in found] == [1, 2, 3]
    for row in found:
        values = [value * (int(row["round"]) / 3) for value in DUEL["Median", "SignFlip"]]
        assert float(row["accuracy"]) == pytest.approx(statistics.fmean(values), abs=1e-15)


def test_frames_of_a_sweep_have_means_half_widths_and_seeds(duel: tuple[Path, str]) -> None:
    sweep = read_sweep(duel[0])
    places = sweep.frame("summary")
    at = zip(places["aggregation"], places["attack"], places["half_width"], strict=True)
    found = {(rule, attack): float(half) for rule, attack, half in at}
    assert found == {place: pytest.approx(half_width(values)) for place, values in DUEL.items()}
    assert set(places["seeds"]) == {3}
    assert len(sweep.frame()["accuracy"]) == 12
    assert len(sweep.frame("curves")["half_width"]) == 12
    with pytest.raises(FedprivError, match="table must be one of cells, summary, curves, got 'rounds'"):
        sweep.frame("rounds")  # type: ignore[arg-type]


def test_the_tables_for_people_say_the_same(duel: tuple[Path, str]) -> None:
    lines = (duel[0] / "report" / "summary.md").read_text(encoding="utf-8").splitlines()
    assert len({len(line) for line in lines}) == 1
    [row] = [line for line in lines if "Median" in line and "SignFlip" in line]
    assert "0.713 ± 0.038" in row
    assert "3 of 3" in row
    assert "yes" in row
    assert len((duel[0] / "report" / "cells.md").read_text(encoding="utf-8").splitlines()) == 2 + 12


def test_the_answer_comes_first_and_names_the_best_the_worst_and_the_guarantee(duel: tuple[Path, str]) -> None:
    text = Reader(page(duel[0])).text
    for words in (
        "Under the worst of 2 attacks, Median holds best: accuracy 0.713 ± 0.038 (SignFlip), 0.363 ± 0.231 ahead of "
        "Mean by seed.",
        "Mean holds worst: 0.350 ± 0.217 (Ipm factor=2).",
        "Single cells go from 0.290 (Mean, Ipm factor=2, seed 2) to 0.900 (Mean, SignFlip, seed 3).",
        "± is half of the 95% interval over them (Student's t)",
        "ε ≤ 4 at δ = 1e-5 in 12 cells, certified: client level, replace adjacency, local trust.",
        "mean over 3 seeds (1–3)",
    ):
        assert words in text
        assert words in " ".join(duel[1].split())
    assert text.index("holds best") < text.index("Who survives what") < text.index("The worst attack")


@settings(max_examples=20)
@given(values=st.lists(st.lists(st.integers(0, 100), min_size=2, max_size=3), min_size=1, max_size=4))
def test_no_attack_leaves_less_than_the_worst(values: list[list[int]], tmp_path_factory: Any) -> None:
    place = tmp_path_factory.mktemp("any") / "sweep"
    seeds = range(min(map(len, values)))
    attacks = {f"A{at}": each for at, each in enumerate(values)}
    write_sweep(place, {"attack": list(attacks)}, lambda at, seed: attacks[at["attack"]][seed] / 100, seeds=seeds)
    [field] = Grid(read_sweep(place)).fields
    means = [statistics.fmean(each[seed] / 100 for seed in seeds) for each in values]
    assert field.mean == pytest.approx(min(means), abs=1e-12)
    assert field.worst is not None
    assert field.worst.attack == (min(range(len(means)), key=means.__getitem__),)
    shutil.rmtree(place)


# What is not there

STATES = {("Mean", "SignFlip", 1): "missing", ("Mean", "Ipm factor=2.0", 1): "failed",
          ("Median", "SignFlip", 2): "unfinished", ("Median", "Ipm factor=2.0", 2): "damaged"}  # fmt: skip


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A sweep of which two seeds are half there."""

    def told(place: Place, seed: int) -> Any:
        return STATES.get((place["aggregation"], place["attack"], seed), 0.5 + 0.1 * seed)

    axes = {"attack": ATTACKS, "aggregation": RULES}
    sweep = write_sweep(tmp_path_factory.mktemp("half") / "out", axes, told, seeds=[1, 2])
    return sweep, report(sweep)


def test_a_sweep_half_done_says_how_many_cells_count_and_names_the_others(half: tuple[Path, str]) -> None:
    text = Reader(page(half[0])).text
    assert "4 of 8 cells" in text
    assert "2 failed, 1 cut short or still running, 1 not run yet" in text
    for words in ("Mean, SignFlip, seed 1", "Mean, Ipm factor=2, seed 1", "Median, SignFlip, seed 2"):
        assert f"{words}: " in text
    assert WHY in text
    assert WHY in half[1]
    assert "after 1 of 3 rounds" in text
    assert "must describe the run" in text  # the damaged records, by what is wrong with them


def test_cells_that_do_not_count_have_no_part_in_a_mean(half: tuple[Path, str]) -> None:
    found = {(row["aggregation"], row["attack"]): row for row in rows(half[0], "summary")}
    assert found["Mean", "SignFlip"]["accuracy"] == "0.7"
    assert found["Median", "SignFlip"]["accuracy"] == "0.6"
    assert {row["seeds"] for row in found.values()} == {"1"}
    states = {(row["aggregation"], row["attack"], int(row["seed"])): row["state"] for row in rows(half[0], "cells")}
    assert {place: state for place, state in states.items() if state != "done"} == STATES | {
        ("Median", "Ipm factor=2.0", 2): "failed"
    }


def test_a_field_says_what_it_lacks(half: tuple[Path, str]) -> None:
    assert Reader(page(half[0])).fields["Mean", ""][:3] == ["0.70", "SignFlip", "2 of 4 cells"]


def test_where_an_attack_is_missing_the_worst_known_is_only_a_bound(tmp_path: Path) -> None:
    def told(place: Place, seed: int) -> Any:
        return "missing" if (place["aggregation"], place["attack"]) == ("Mean", "SignFlip") else 0.6

    sweep = write_sweep(tmp_path / "out", {"attack": ATTACKS, "aggregation": RULES}, told)
    said = report(sweep)
    fields = Reader(page(sweep)).fields
    assert fields["Mean", ""][:3] == ["≤ 0.60", "Ipm factor=2", "1 of 2 attacks"]
    assert fields["Median", ""][:2] == ["0.60", "SignFlip"]
    assert "So far, not under all of 2 attacks, in the order of the grid: Mean ≤ 0.600" in said
    assert re.search(r"Mean +≤ 0\.600 +≤ 0\.600 +all so far", said)
    assert re.search(r"Median +0\.600 +0\.600 +all\n", said)
    assert "1 of 2 defences survive everything tried (Median); 1 more survive what has been run so far" in said
    assert "≤ 0.600" in Reader(page(sweep)).text
    worst = {(row["aggregation"], row["attack"]): row["worst_attack"] for row in rows(sweep, "summary")}
    assert worst["Mean", "Ipm factor=2.0"] == "so far"
    assert worst["Median", "SignFlip"] == "yes"


def test_an_accident_is_told_from_a_study_that_asks_for_what_cannot_be(tmp_path: Path) -> None:
    told = report(write_sweep(tmp_path / "one", {"attack": ATTACKS}, lambda *_: "crashed"), "--no-html")
    assert f"MemoryError: {WHY}" in told
    told = report(write_sweep(tmp_path / "two", {"attack": ATTACKS}, lambda *_: "failed"), "--no-html")
    assert f": {WHY}" in told
    assert "MemoryError" not in told


def test_defences_are_compared_only_on_conditions_known_for_each(tmp_path: Path) -> None:
    def told(place: Place, seed: int) -> Any:
        hard = place["privacy.epsilon"] == "1.0"
        return ("missing" if hard else 0.80) if place["aggregation"] == "Mean" else (0.2 if hard else 0.85)

    sweep = write_sweep(
        tmp_path / "out", {"aggregation": RULES, "privacy.epsilon": ["1.0", "4.0"]}, told, seeds=range(3)
    )
    found = json.loads(report(sweep, "--json", "--no-html"))
    assert [(each["defence"], each["mean"]) for each in found["defences"]] == [
        ("Median", 0.85),
        ("Mean", pytest.approx(0.8)),
    ]
    assert "1 of 2 conditions known for each" in " ".join(found["said"])


# Who is ranked


def test_single_seeds_are_shown_in_the_order_of_the_grid_and_not_ranked(tmp_path: Path) -> None:
    kept = {"Mean": 0.5, "Median": 0.9, "Krum": 0.7}
    sweep = write_sweep(tmp_path / "out", {"aggregation": list(kept)}, lambda place, _: kept[place["aggregation"]])
    told, command = report(sweep), f"fedpriv sweep {sweep}/study.toml --set 'sweep.run.seed=[1, 2, 3]' --out {sweep}"
    assert "Under SignFlip, in the order of the grid: Mean 0.500; Median 0.900; Krum 0.700." in told
    assert "Not ranked: 1 seed; a ranking needs 3." in told
    assert f"to rank them: {command}\n" in told
    text = Reader(page(sweep)).text
    assert command in text
    assert "0.500 to 0.900" in text
    assert not re.search(r"\bbest (cell|defence)|holds|keeps most|behind", text + told)
    found = json.loads(report(sweep, "--json", "--no-html"))
    assert (found["ranked"], found["best"], found["to_rank"]) == (False, [], command)
    assert [(each["defence"], each["half_width"]) for each in found["defences"]] == [(each, None) for each in kept]


def test_what_seeds_cannot_tell_from_the_best_is_named_as_not_distinguishable(tmp_path: Path) -> None:
    kept = {"Mean": [0.30, 0.31, 0.29], "Median": [0.80, 0.82, 0.84], "Krum": [0.81, 0.79, 0.85]}
    sweep = write_sweep(
        tmp_path / "out", {"aggregation": list(kept)}, lambda place, seed: kept[place["aggregation"]][seed - 1],
        seeds=[1, 2, 3],
    )  # fmt: skip
    found = json.loads(report(sweep, "--json"))
    assert (found["ranked"], found["best"], found["to_rank"]) == (True, ["Median", "Krum"], None)
    assert [each["behind"] and each["behind"]["distinguishable"] for each in found["defences"]] == [None, False, True]
    said = " ".join(found["said"])
    assert "Median keeps most, accuracy 0.820 ± 0.050, but is not distinguishable from Krum." in said
    assert "Mean holds worst: 0.300 ± 0.025." in said
    assert "(Bonferroni)" in said
    told = report(sweep)
    assert re.search(r"Krum +0\.817 ± 0\.076 +0\.817 ± 0\.076 +0\.003 ± 0\.083, not distinguishable", told)
    assert "the first of 2 defences that are not distinguishable" in page(sweep)


def test_a_sweep_whose_seeds_are_not_all_done_is_not_ranked_yet(tmp_path: Path) -> None:
    def told(place: Place, seed: int) -> Any:
        return "missing" if (place["aggregation"], seed) == ("Mean", 3) else 0.5 + 0.1 * seed

    sweep = write_sweep(tmp_path / "out", {"aggregation": RULES}, told, seeds=[1, 2, 3])
    said = report(sweep)
    assert "Not ranked: 2 seeds done for every defence so far; a ranking needs 3." in said
    assert f"to rank them: fedpriv sweep {sweep}/study.toml --out {sweep}\n" in said


def test_survival_that_seeds_cannot_tell_is_open(tmp_path: Path) -> None:
    kept = {"Mean": [1.0, 1.0, 1.0], "Median": [0.95, 0.94, 0.95], "Krum": [0.95, 0.87, 0.90], "Dnc": [0.5, 0.5, 0.6]}
    sweep = write_sweep(
        tmp_path / "out", {"aggregation": list(kept)}, lambda place, seed: kept[place["aggregation"]][seed - 1],
        seeds=[1, 2, 3],
    )  # fmt: skip
    found = json.loads(report(sweep, "--json", "--no-html"))
    assert {each["defence"]: each["survives"] for each in found["defences"]} == {
        "Mean": "all", "Median": "all", "Krum": "0 of 1, 1 open", "Dnc": "none",
    }  # fmt: skip
    assert "2 of 4 defences survive everything tried (Mean, Median), 1 more may, which seeds cannot tell" in " ".join(
        found["said"]
    )


# Who survives what


def survival(tmp_path: Path, tell: Told, axes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    found = json.loads(report(write_sweep(tmp_path / "out", axes, tell), "--json", "--no-html"))
    return {each["defence"]: each["survives"] for each in found["defences"]}


def test_a_defence_survives_up_to_the_number_of_attackers_that_breaks_it(tmp_path: Path) -> None:
    breaks = {"Mean": 0.1, "Median": 0.3, "Krum": 9.0}

    def told(place: Place, seed: int) -> Any:
        share = float(place["clients.byzantine"])
        kept = 0.9 if share < breaks[place["aggregation"]] else 0.8
        return {"accuracy": kept, "byzantine": int(30 * share)}

    axes = {"aggregation": list(breaks), "clients.byzantine": ["0", "0.1", "0.2", "0.3"]}
    assert survival(tmp_path, told, axes) == {"Mean": "none", "Median": "up to 20%", "Krum": "all"}


def test_to_survive_is_to_keep_nine_tenths_of_the_best_at_the_same_privacy(tmp_path: Path) -> None:
    def told(place: Place, seed: int) -> Any:
        top = 0.5 if place["privacy.epsilon"] == "1.0" else 1.0
        return top * {"Mean": 1.0, "Median": 0.91, "Krum": 0.89}[place["aggregation"]]

    axes = {"aggregation": ["Mean", "Median", "Krum"], "privacy.epsilon": ["1.0", "4.0"]}
    assert survival(tmp_path, told, axes) == {"Mean": "all", "Median": "all", "Krum": "none"}


def test_where_nobody_attacks_nothing_is_survived(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "out", {"aggregation": RULES}, lambda *_: {"byzantine": 0})
    told = report(sweep)
    assert "With nobody attacking" in told
    assert "surviv" not in told + Reader(page(sweep)).text


# What axes mean


def test_rows_are_defences_columns_privacy_and_attackers_and_the_rest_has_maps_of_its_own(tmp_path: Path) -> None:
    axes = {"clients.split": ["iid", "by-label"], "privacy.mechanism.peak": ["0.1", "1.0"], "privacy.epsilon": ["4.0"],
            "clients.byzantine": ["3", "6"], "attack": ATTACKS}  # fmt: skip
    sweep = write_sweep(tmp_path / "out", axes, lambda *_: 0.7)
    report(sweep)
    reader = Reader(page(sweep))
    places = {("peak 0.1", "ε 4, 3 attackers"), ("peak 0.1", "ε 4, 6 attackers"), ("peak 1", "ε 4, 3 attackers"),
              ("peak 1", "ε 4, 6 attackers")}  # fmt: skip
    assert places == {place for place in reader.fields if "ε 4" in place[1]}
    assert all(len(reader.fields[place]) == 2 * (2 + 2) for place in places)  # each split: the worst, and each attack
    assert "<h3>iid</h3>" in page(sweep)
    assert "<h3>by-label</h3>" in page(sweep)


SHAPES: dict[str, tuple[Mapping[str, Sequence[str]], Told, str]] = {
    "no axis": ({}, lambda *_: 0.8, "accuracy is 0.800"),
    "attacks alone": ({"attack": ATTACKS}, lambda *_: 0.8, "Under the worst of 2 attacks"),
    "privacy alone": ({"privacy.epsilon": ["1.0", "4.0"]},
                      lambda place, _: {"epsilon": float(place["privacy.epsilon"])}, "ε ≤ 1 to 4"),
    "attackers alone": ({"clients.byzantine": ["0", "2", "9"]},
                        lambda place, _: {"byzantine": int(place["clients.byzantine"])}, "Under SignFlip"),
    "an axis of no such kind": ({"training.batch": ["1", "8"]}, lambda *_: 0.8, "batch 8"),
    "without noise": ({"privacy.mechanism": ["Plain", "Binomial"]},
                      lambda place, _: {"epsilon": inf if place["privacy.mechanism"] == "Plain" else 2.0},
                      "1 cell promises no privacy: ε = ∞."),
    "nothing measured": ({"attack": ATTACKS}, lambda *_: {"accuracy": None}, "no cell measured any"),
    "nothing run yet": ({"attack": ATTACKS}, lambda *_: "missing", "0 of 2 cells"),
    "all failed": ({"attack": ATTACKS}, lambda *_: "failed", "2 failed"),
    "secure aggregation": ({"attack": ATTACKS}, lambda *_: {"trust": "secure-aggregation"}, "ASSUMES secure aggreg"),
    "six axes": ({"attack": ATTACKS, "aggregation": ["Mean"], "privacy.norm": ["clip"], "privacy.epsilon": ["1.0"],
                  "clients.byzantine": ["3"], "clients.split": ["iid", "pool"]}, lambda *_: 0.8, "clip"),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sweep_of_any_shape_has_a_page(shape: str, tmp_path: Path) -> None:
    axes, tell, words = SHAPES[shape]
    sweep = write_sweep(tmp_path / "out", axes, tell)
    report(sweep)
    reader = Reader(page(sweep))
    assert words in reader.text
    assert not reader.open
    assert "nan" not in reader.text


def test_infinite_epsilon_stands_beside_the_finite_in_one_figure(tmp_path: Path) -> None:
    axes, tell, _ = SHAPES["without noise"]
    sweep = write_sweep(tmp_path / "out", axes, tell)
    report(sweep)
    assert (sweep / "report" / "epsilon-1.png").exists()
    assert [row["epsilon_upper"] for row in rows(sweep, "cells")] == ["inf", "2.0"]
    assert {row["epsilon_upper"] for row in rows(sweep, "summary")} == {"inf", "2.0"}


# The page and its files


def test_the_page_of_a_sweep_needs_nothing_from_anywhere(duel: tuple[Path, str]) -> None:
    content = page(duel[0])
    assert "http" not in content
    assert not re.search(r"@import|url\((?!#)|<(script|link|img|iframe)", content)
    assert not re.findall(r'(?:src|href|data)="(?!#)', content)
    assert "prefers-color-scheme: dark" in content


def test_every_id_on_the_page_is_there_once_and_every_figure_is_a_file(half: tuple[Path, str]) -> None:
    found = re.findall(r'<figure id="([^"]+)"', page(half[0]))
    assert found
    assert all((half[0] / "report" / f"{name}.png").exists() for name in found)
    ids = re.findall(r'\bid="([^"]+)"', page(half[0]))
    assert len(ids) == len(set(ids))


def test_figures_of_an_earlier_report_are_taken_away(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "out", {"attack": ATTACKS}, lambda *_: 0.8)
    (sweep / "report").mkdir()
    for name in ("rounds-9.png", "mine.png"):
        (sweep / "report" / name).write_bytes(b"old")
    report(sweep)
    assert not (sweep / "report" / "rounds-9.png").exists()
    assert (sweep / "report" / "mine.png").exists()


def test_the_same_records_make_the_same_page_of_a_sweep(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "out", {"attack": ATTACKS}, lambda *_: 0.8)
    report(sweep)
    first = (sweep / "report" / "index.html").read_bytes()
    report(sweep)
    assert (sweep / "report" / "index.html").read_bytes() == first


def test_names_of_values_never_become_markup_and_never_meet(tmp_path: Path) -> None:
    labels = ["<b>|&", "v1.0", "v1", "\\input{it}", "$a^$"]  # the last is no mathematics
    sweep = write_sweep(tmp_path / "out", {"aggregation": labels}, lambda *_: 0.8)
    report(sweep)
    assert "<b>|" not in page(sweep)
    assert {row for row, _ in Reader(page(sweep)).fields} >= {"v1.0", "v1"}
    table = (sweep / "report" / "summary.md").read_text(encoding="utf-8")
    assert "<b>\\|&" in table


def test_a_table_alone_of_a_sweep_writes_nothing(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "out", {"attack": ATTACKS}, lambda *_: 0.8)
    report(sweep, "--no-html")
    assert not (sweep / "report").exists()


def test_what_is_no_sweep_is_refused_in_one_line(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "out", {"attack": ATTACKS}, lambda *_: 0.8)
    assert "a sweep is reported by itself" in refusal(sweep, sweep)
    index = json.loads((sweep / "sweep.json").read_text())
    for change, words in (
        ({"format": 9}, "a sweep of format 9"),
        ({"cells": [{"id": "0"}]}, "damaged (KeyError: 'place')"),
        ({"axes": [{"path": "attack", "values": ["other"]}]}, "which no axis has"),
    ):
        (sweep / "sweep.json").write_text(json.dumps(index | change))
        assert words in refusal(sweep)
    (sweep / "sweep.json").write_text("[")
    assert "not a sweep" in refusal(sweep)


def test_real_runs_are_read_as_they_were_written(tmp_path: Path) -> None:
    chosen = ["clients.count=40", "clients.byzantine=0.2", "privacy.epsilon=20.0", "run.rounds=2"]
    results = {}
    cells = []
    for attack in ("SignFlip", "OutputPoisoning"):
        study = study_file.read_study("digits", [*chosen, f"attack.kind={attack}"])
        place = tmp_path / "cells" / study.id.hex()
        place.parent.mkdir(exist_ok=True)
        results[attack] = rounds.run_rounds(study, place, Here(), quiet=True)
        cells.append({"id": study.id.hex(), "place": {"attack": attack}, "seed": 1})
    axes = [{"path": "attack", "values": list(results)}]
    index = {"format": 1, "name": "real", "about": "", "axes": axes, "seeds": [1], "cells": cells}
    (tmp_path / "sweep.json").write_text(json.dumps(index))
    report(tmp_path)
    for row in rows(tmp_path, "cells"):
        result = results[row["attack"]]
        assert float(row["accuracy"]) == result["accuracy"]
        assert float(row["epsilon_upper"]) == result["epsilon"]["upper"]
        assert float(row["epsilon_lower"]) == result["epsilon"]["lower"]
        assert (int(row["bytes_up"]), int(row["byzantine"])) == (result["bytes_up"], 8)
    [together] = json.loads(report(tmp_path, "--no-html", "--json"))["added_up"]
    assert (together["cells"], together["unit"], together["delta"]) == (2, "client", 1e-5)
    one = results["SignFlip"]["epsilon"]["upper"]
    assert 1.3 * one < together["epsilon"] < 2 * one  # more than √2 of it or so, and less than both added
    assert f"2 cells come to ε ≤ {rounded_up(together['epsilon'])} at δ = 1e-5" in " ".join(report(tmp_path).split())
    told = tmp_path / "cells" / cells[0]["id"] / "records.jsonl"
    told.write_text("".join(told.read_text().splitlines(keepends=True)[:-1]))
    cut = json.loads(report(tmp_path, "--no-html", "--json"))
    assert [each["cells"] for each in cut["added_up"]] == [1]  # not two, of which the cut one were free
    assert cut["not_added"] == 1
