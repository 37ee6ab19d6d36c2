"""The report of a run: what the table, the figures and the page say, and that they say it from the records alone."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from itertools import pairwise
from math import exp, inf, sqrt
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpriv._base.spelling import rounded_down, rounded_up
from fedpriv.accounting.event import by_hand, event_as_data
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import COSTED, MECHANISMS
from fedpriv.records import Writer
from server.progress.words import ranges_words
from simulations.command_line import main

COST = {"lower": 3.34465, "upper": 3.95222, "clt": 3.71}  # of forty rounds
DIGITS: dict[str, Any] = {"clip": 1.0, "scale": 0.911, "trials": 4, "peak": 0.2}


def write_run(
    directory: Path,
    *,
    rounds: int = 40,
    done: int | None = None,
    settings: dict[str, Any] = DIGITS,
    attack: dict[str, Any] | None = None,
    trust: str = "secure-aggregation",
    best: float = 0.913,
    every: int = 1,
    end: str | None = "finished",
    timings: bool = True,
    **header: Any,
) -> Path:
    """A directory such as `fedpriv run` leaves: 1,437 clients of one digit each, a tenth of them Byzantine."""
    directory.mkdir(parents=True, exist_ok=True)
    done = rounds if done is None else done
    private = {"trust": trust, "clients": 1294 if trust == "secure-aggregation" else None}
    release = by_hand(mechanism=MECHANISMS.made("Binomial", settings), dimension=650, geometry="l2", **private)
    packed = release.mechanism.bits
    masked = (settings["trials"] * 1437).bit_length() if trust == "secure-aggregation" else None
    client_bytes = -(-650 * (masked or int(packed)) // 8) + 44
    first = {
        "format": 1, "kind": "run", "study": "0123456789abcdef", "name": "digits", "clients": 1437, "byzantine": 143,
        "dimension": 650, "mechanism": {"kind": "Binomial", "settings": settings}, "aggregation": {"kind": "Mean"},
        "attack": attack or {"kind": "SignFlip"}, "release": event_as_data(release), "trust": trust,
        "delta": 1e-5, "rounds": rounds, "client_bytes": client_bytes,
        "bits": {"packed": packed, "entropy": release.mechanism.entropy, "masked": masked}, "model": "Logistic",
        "test_examples": 360,
    } | header  # fmt: skip
    with Writer(directory / "records.jsonl") as records:
        records.append(first)
        for number in range(1, done + 1):
            seen = number % every == 0 or number == done
            learnt = best - (best - 0.1) * exp(-number / 6) + 0.006 * ((number * 7) % 5 - 2) / 2
            spent = {name: at * sqrt(number / 40) for name, at in COST.items()}
            lost = int(number % 9 == 4)
            records.append(
                {
                    "kind": "round", "round": number, "asked": 1437, "answered": 1437 - 3 * lost,
                    "rejected": {"checksum": 1} if lost else {}, "failed": {"raised": 2} if lost else {},
                    "skipped": None, "loss": 2.3 * exp(-number / 9) + 0.31 if seen else None,
                    "accuracy": round(360 * learnt) / 360 if seen else None,
                    "epsilon": spent if seen else None,
                    "bytes_up": (1437 - 3 * lost) * client_bytes,
                }
            )  # fmt: skip
        if end:
            records.append(
                {
                    "kind": "end", "why": end, "rounds": done, "worst_client": 17, "releases_of_worst": done,
                    "epsilon": {name: at * sqrt(done / 40) for name, at in COST.items()},
                }
            )  # fmt: skip
    if timings:
        with Writer(directory / "timings.jsonl") as seconds:
            for number in range(1, done + 1):
                parts = {"train": 0.021, "encode": 0.012, "wire": 0.004, "aggregate": 0.003, "ledger": 0.0004}
                total = sum(parts.values()) + 0.1 + 0.01 * (number % 3) + 0.6 * (number == 1)
                parts["flower"] = total - sum(parts.values()) - 0.01
                seconds.append({"round": number, "seconds": total, "parts": parts, "bytes_transport": 250_000})
    (directory / "study.toml").write_text('name = "digits"\n[clients]\ncount = 1437\nbyzantine = 0.1\n')
    (directory / "environment.json").write_text(json.dumps({"fedpriv": "0.1.0", "numpy": "2.4.0"}))
    return directory


ONE_BIT = {"clip": 1.0, "scale": 0.523, "trials": 1, "peak": 0.15}
PEAK_IS_CLIP = {"clip": 1.0, "scale": 4.38, "trials": 100, "peak": 1.0}
PLAIN = {"mechanism": {"kind": "Plain", "settings": {"clip": "inf"}}, "release": None}


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


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Three alphabets under three poisoners, and what the report of them printed."""
    place = tmp_path_factory.mktemp("poisoned")
    attack = {"attack": {"kind": "OutputPoisoning"}, "byzantine": 3}
    small = write_run(place / "small-peak", best=0.894, **attack)
    others = [
        write_run(place / "one-bit", settings=ONE_BIT, best=0.879, **attack),
        write_run(place / "peak-is-clip", settings=PEAK_IS_CLIP, best=0.233, **attack),
    ]
    return small / "report", report(small, *others)


@pytest.fixture(scope="module")
def page(poisoned: tuple[Path, str]) -> str:
    """The page of the first of them."""
    return (poisoned[0] / "index.html").read_text(encoding="utf-8")


class Reader(HTMLParser):
    """Words outside drawings, every id, and whether each tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.open, self.ids, self.attributes = "", [], Counter[str](), []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attributes)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.attributes.append((tag, found))
        self.ids.update([found["id"]] if "id" in found else [])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, words: str) -> None:
        if not {"svg", "style"} & set(self.open):
            self.text += words


def test_the_page_names_epsilon_delta_unit_trust_adjacency_and_whose_it_is(page: str) -> None:
    text = Reader(page).text
    for words in ("ε = 3.953", "δ = 1e-5", "client level", "secure-aggregation trust", "replace adjacency",
                  "the worst client, number 17, charged for 40 releases"):  # fmt: skip
        assert words in text


def test_the_page_says_that_secure_aggregation_is_assumed_and_was_simulated(page: str) -> None:
    text = Reader(page).text
    assert "ASSUMES secure aggregation" in text
    assert "simulated: the sum was taken directly" in text
    assert "1,294 contributors" in text


def test_wherever_the_central_limit_is_named_it_is_called_asymptotic(page: str) -> None:
    text = Reader(page).text
    named = [found.end() for found in re.finditer("central limit|CLT", text)]
    assert len(named) >= 3
    assert all("asymptotic" in text[end : end + 80] for end in named)


def test_the_page_needs_nothing_from_anywhere(page: str) -> None:
    assert "http" not in page
    assert not re.search(r"@import|url\((?!#)|<(script|link|img|iframe)", page)
    links = [found[name] for _, found in Reader(page).attributes for name in ("src", "href", "data") if name in found]
    assert links
    assert all(link.startswith("#") for link in links)


def test_every_tag_is_closed_and_every_id_that_is_used_is_there_once(page: str) -> None:
    reader = Reader(page)
    assert not reader.open
    assert set(reader.ids.values()) == {1}
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', page))
    assert used
    assert used <= set(reader.ids)


def test_every_figure_on_the_page_has_words_for_who_cannot_see_it(poisoned: tuple[Path, str], page: str) -> None:
    drawings = [found for tag, found in Reader(page).attributes if tag == "svg"]
    assert len(drawings) == len(list(poisoned[0].glob("*.png")))
    for found in drawings:
        assert found["role"] == "img"
        assert len(found["aria-label"]) > 30


def test_drawings_take_their_colours_from_the_page_and_their_size_from_the_window(page: str) -> None:
    drawings = "".join(re.findall("<svg.*?</svg>", page, flags=re.S))
    assert "var(--ink)" in drawings
    assert "var(--c0)" in drawings
    assert not re.findall(r"(?:fill|stroke): #(?!000000)\w+", drawings)
    assert not [found for tag, found in Reader(page).attributes if tag == "svg" and "width" in found]
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page


def test_every_figure_is_a_png_large_enough_for_a_talk(poisoned: tuple[Path, str]) -> None:
    pictures = list(poisoned[0].glob("*.png"))
    assert {picture.stem for picture in pictures} >= {
        "accuracy", "bytes", "bytes-and-accuracy", "comparison", "epsilon", "participation", "seconds", "tradeoff",
    }  # fmt: skip
    for picture in pictures:
        height, width, _ = matplotlib.image.imread(picture).shape
        assert width >= 1100
        assert height >= 350
        assert np.ptp(matplotlib.image.imread(picture)[..., :3]) > 0.5


def test_several_runs_are_compared_in_a_row_each_named_by_what_they_differ_in(
    poisoned: tuple[Path, str], page: str
) -> None:
    for text in (poisoned[1], Reader(page).text):
        assert "trials 4, peak 0.2" in text
        assert "trials 1, peak 0.15" in text
        assert "trials 100, peak 1" in text
        assert text.count("OutputPoisoning") >= 3
        assert "0.228" in text
    rows = [Reader(row).text for row in re.findall(r"<tr><th[^>]*><span.*?</tr>", page, flags=re.S)]
    assert len(rows) == 3
    assert all("ε" not in row and "3.953" in row for row in rows)


def test_only_the_first_of_several_directories_is_written_to(poisoned: tuple[Path, str]) -> None:
    assert [place.parent.name for place in poisoned[0].parent.parent.glob("*/report")] == ["small-peak"]
    assert poisoned[1].rstrip().endswith(str(poisoned[0] / "index.html"))


def test_the_same_records_make_the_same_page(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", done=3, **PLAIN)
    report(run)
    first = (run / "report" / "index.html").read_bytes()
    report(run)
    assert (run / "report" / "index.html").read_bytes() == first
    assert not list((run / "report").glob(".*"))


@pytest.mark.parametrize(
    ("end", "words"),
    [("finished", "finished"), ("budget", "privacy budget"), ("interrupted", "resumed"), (None, "cut short")],
)
def test_the_table_says_how_the_run_ended(end: str | None, words: str, tmp_path: Path) -> None:
    table = report(write_run(tmp_path / "run", done=7, end=end), "--no-html")
    assert words in re.search("ended (.*)", table)[1]  # type: ignore[index]
    assert "7 of 40" in table


def test_of_a_run_cut_short_no_epsilon_is_given_for_its_ledger_may_hold_more(tmp_path: Path) -> None:
    from simulations.report.run import facts
    from simulations.report.run.runs import read_run

    run = read_run(write_run(tmp_path / "run", done=10, end=None))
    said = " ".join(facts.promise_sentences(run))
    assert "cut short" in said
    assert "ledger" in said
    assert (run.epsilon, run.account, "ε" in repr(run), "ε" in said) == (None, None, False, False)
    with pytest.raises(FedprivError, match=r"its records have no end.*ledger: fedpriv run --resume"):
        run.tradeoff(0.1)


def test_epsilon_is_what_the_records_say_and_is_not_costed_anew(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", done=10)
    records = run / "records.jsonl"
    records.write_text(re.sub(r'"upper":[\d.]+', '"upper":2.5', records.read_text()))
    assert "at most 2.5," in report(run, "--no-html")


def test_counts_are_given_by_reason_and_rounds_skipped_with_why(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", done=14)
    records = run / "records.jsonl"
    lines = records.read_text().splitlines(keepends=True)
    for place in (5, 6, 9):
        lines[place] = lines[place].replace('"skipped":null', '"skipped":"3 answers, 1294 needed"')
    records.write_text("".join(lines))
    table = report(run, "--no-html")
    assert "2 (2 checksum)" in table
    assert "4 (4 raised)" in table
    assert "5–6, 9 (3 answers, 1294 needed)" in table


def test_under_local_trust_nothing_is_assumed(tmp_path: Path) -> None:
    table = report(write_run(tmp_path / "run", done=2, trust="local"), "--no-html")
    assert "local trust" in table
    assert "sums" not in table


def test_a_run_without_noise_promises_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", done=2, **PLAIN)
    assert "none: updates were sent as they are" in report(run)
    assert "promises no privacy" in Reader((run / "report" / "index.html").read_text()).text
    assert not (run / "report" / "tradeoff.png").exists()


def test_a_run_of_no_rounds_has_a_page_too(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", done=0, end=None, timings=False)
    report(run)
    assert "cut short" in Reader((run / "report" / "index.html").read_text()).text
    assert [picture.name for picture in (run / "report").glob("*.png")] == ["bytes.png"]


def test_one_round_and_a_loss_that_ran_away_can_be_drawn(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", done=1, **PLAIN)
    records = run / "records.jsonl"
    records.write_text(re.sub(r'"loss":[\d.]+', '"loss":"nan"', records.read_text()))
    report(run)
    assert (run / "report" / "accuracy.png").exists()


def test_json_is_one_object_with_the_records_own_numbers(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", every=3)
    found = json.loads(report(run, write_run(tmp_path / "other", **PLAIN), "--json", "--no-html"))
    assert found["epsilon"] == COST
    assert found["accuracy"] == 326 / 360
    assert found["rejected"] == {"checksum": 5}
    assert found["failed"] == {"raised": 10}
    assert (found["unit"], found["trust"], found["adjacency"]) == ("client", "secure-aggregation", "replace")
    assert found["bytes_up"] == (1437 * 40 - 15) * found["client_bytes"]
    assert found["ended"] == "finished"
    assert [other["mechanism"]["kind"] for other in found["compared"]] == ["Plain"]


def test_names_are_shown_as_they_are_and_never_become_markup(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", done=2, name="<b>&digits", **PLAIN)
    report(run)
    page = (run / "report" / "index.html").read_text()
    assert "<b>&" not in page
    assert "<b>&digits" in Reader(page).text


def test_runs_that_differ_in_nothing_are_named_by_their_directories(tmp_path: Path) -> None:
    one, two = write_run(tmp_path / "one", done=1), write_run(tmp_path / "two", done=1)
    table = report(one, two, "--no-html")
    assert f"\nA  {one} " in table
    assert f"\nB  {two} " in table


def test_a_table_alone_writes_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", done=1)
    report(run, "--no-html")
    assert not (run / "report").exists()


def test_the_command_is_known_without_loading_matplotlib() -> None:
    script = "import sys, simulations.cli.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0


def test_what_cannot_be_reported_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "no records.jsonl there" in refusal(tmp_path)
    run = write_run(tmp_path / "run", done=2, **PLAIN)
    (run / "report").write_text("in the way")
    assert "cannot be written" in refusal(run)
    (run / "records.jsonl").write_text("{}\n")
    assert "records.jsonl:1: the first line" in refusal(run)
    other = write_run(tmp_path / "other", done=2, release={"kind": "Binomial", "settings": {"clip": -1}})
    assert "records.jsonl:1: release: Binomial" in refusal(other)


@given(value=st.floats(1e-9, 1e9))
def test_upper_bounds_are_rounded_up_and_lower_bounds_down(value: float) -> None:
    assert value <= float(rounded_up(value)) <= value * 1.0011
    assert value * 0.9989 <= float(rounded_down(value)) <= value


def test_an_infinite_bound_is_shown_as_such() -> None:
    assert rounded_up(inf) == "∞"


@given(st.sets(st.integers(1, 40)))
def test_ranges_name_every_number_and_no_other(numbers: set[int]) -> None:
    ends = [part.split("–") for part in ranges_words(sorted(numbers)).split(", ") if part]
    assert {each for part in ends for each in range(int(part[0]), int(part[-1]) + 1)} == numbers


@given(
    st.lists(st.tuples(st.floats(-10, 110), st.floats(1, 20)), min_size=1, max_size=5),
)
def test_labels_beside_lines_keep_their_order_and_never_meet(labels: list[tuple[float, float]]) -> None:
    from simulations.figures.style import spaced_apart

    wanted, tall = zip(*labels, strict=True)
    places = spaced_apart(wanted, tall, 0.0, 100.0)
    order = sorted(range(len(labels)), key=lambda each: wanted[each])
    for below, above in pairwise(order):
        assert places[above] - places[below] >= (tall[above] + tall[below]) / 2 - 1e-6
    assert all(size / 2 - 1e-6 <= place <= 100 - size / 2 + 1e-6 for place, size in zip(places, tall, strict=True))


PTR = {"clip": 3.0, "bound": 0.5, "noise": 3.28, "test_noise": 3.0, "failure": 1e-8}


def released(directory: Path, **header: Any) -> Path:
    """A run of one client that releases its records by Ptr, carried as they are unless the header says otherwise."""
    release = by_hand(
        mechanism=COSTED.made("Ptr", PTR | {"clip": 1.0}), dimension=650, geometry="l2", trust="local",
        unit="record", adjacency="add-remove", sampling=0.25,
    )  # fmt: skip
    own = {"private_sum": {"kind": "Ptr", **PTR, "sampling": 0.25, "trimmed": 0.25}, "clients": 1, "byzantine": 0}
    return write_run(directory, trust="local", **({**PLAIN, **own, "release": event_as_data(release)} | header))


def test_a_release_that_plain_carries_is_named_with_its_epsilon_and_never_called_unprotected(tmp_path: Path) -> None:
    said = report(released(tmp_path))
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "release            Ptr clip=3" in said
    assert f"at most {rounded_up(COST['upper'])}" in said
    for words in ("trained by one client, each message a release of records by Ptr<", "ε ≤ 3.953", "of a record",
                  "records by Ptr, and private as it is: Plain carries it, which costs nothing",
                  "where a private test passes", "Carries the release as it is", "Adding or removing one"):  # fmt: skip
        assert words in page
    for words in ("promises no privacy", "updates sent as they are", "were sent as they are", "ε is infinite"):
        assert words not in said + page


def test_a_release_that_a_mechanism_carries_is_named_with_it(tmp_path: Path) -> None:
    mechanism = {"kind": "StochasticSign", "settings": {"clip": 1.0, "peak": 0.1, "scale": 0.5}}
    report(released(tmp_path, mechanism=mechanism))
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "each message a release of records by Ptr, by StochasticSign<" in page
    assert "Ptr, and private as it is: StochasticSign carries it, which costs nothing" in page


def test_runs_that_differ_in_their_release_are_named_by_it(tmp_path: Path) -> None:
    other = {"kind": "DpSgd", "clip": 3.0, "noise": 2.0, "sampling": 0.25, "norm": "clip"}
    said = report(released(tmp_path / "a"), released(tmp_path / "b", private_sum=other), "--no-html")
    assert [line.split()[1].rstrip(",") for line in said.splitlines()[-2:]] == ["Ptr", "DpSgd"]


@pytest.mark.filterwarnings("error::UserWarning")
def test_runs_that_differ_in_everything_have_short_names_and_figures_with_room(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", attack={"kind": "SignFlip", "factor": 1.0, "knowledge": "own"}, byzantine=143)
    plain = {**PLAIN, "attack": {"kind": "OutputPoisoning", "direction": "shared"}, "byzantine": 3, "rounds": 4}
    two = write_run(tmp_path / "two", done=4, name="a study of a name " + "so long " * 12, **plain)
    said = report(one, two)
    rows = [line for line in said.splitlines() if re.match("[AB]  ", line)]
    assert len(rows) == 2
    assert "trust None" not in said
    picture = matplotlib.image.imread(tmp_path / "one" / "report" / "comparison.png")
    ink = np.ptp(picture[..., :3], axis=2) > 0.3  # the coloured curves and their names
    assert np.flatnonzero(ink[: len(ink) // 2].any(axis=0)).size > 0.4 * ink.shape[1]
