"""The live line and the last table of a run, by what a person would see."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.progress import Progress, result_table
from server.progress.live_line import REPEATED


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and knows what is on its last line."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        line: list[str] = []
        for piece in self.getvalue().split("\n")[-1].split("\r"):
            line[: len(piece)] = piece
        return "".join(line).rstrip()


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def width(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    monkeypatch.setenv("COLUMNS", "120")
    return monkeypatch  # type: ignore[return-value]


def line(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "round": number, "answered": 1000, "rejected": {}, "failed": {}, "skipped": None, "accuracy": None,
        "epsilon": None,
    } | changes  # fmt: skip


TIMING = {"seconds": 0.5, "parts": {}, "bytes_transport": 0}
SPENT = {"lower": 1.0, "upper": 1.23456, "clt": 1.1}


def after(stream: Any, *lines: dict[str, Any], total: int = 40, quiet: bool = False, pause: float = 1.0) -> Progress:
    clock = Clock()
    progress = Progress(total, 1000, quiet, stream, clock)
    progress.__enter__()
    for each in lines:
        clock.now += pause
        progress.update(each, TIMING)
    return progress


@pytest.mark.usefixtures("width")
def test_the_line_holds_round_accuracy_epsilon_pace_rejections_and_time_left() -> None:
    screen = Terminal()
    after(screen, line(10, accuracy=0.8912, epsilon=SPENT, rejected={"checksum": 2, "round": 1}, failed={"raised": 1}))
    for words in ("round 10/40", "━", "accuracy 0.891", "ε ≤ 1.235", "15.0 s left", "3 rejected", "1 failed",
                  "2,000 clients/s"):  # fmt: skip
        assert words in screen.shown


@pytest.mark.usefixtures("width")
def test_accuracy_and_epsilon_stay_on_the_line_through_rounds_that_are_not_evaluated() -> None:
    screen = Terminal()
    after(screen, line(1, accuracy=0.5, epsilon=SPENT, rejected={"round": 2}), line(2, rejected={"round": 1}))
    assert "round  2/40" in screen.shown
    assert "accuracy 0.500" in screen.shown
    assert "ε ≤ 1.235" in screen.shown
    assert "3 rejected" in screen.shown


@pytest.mark.usefixtures("width")
def test_a_slow_first_round_does_not_spoil_the_time_left() -> None:
    screen = Terminal()
    progress = Progress(20, 1000, False, screen, (clock := Clock()))
    for number, seconds in enumerate([30.0, 0.5, 0.5, 0.5], 1):
        clock.now += seconds
        progress.update(line(number), TIMING | {"seconds": seconds})
    assert "8.0 s left" in screen.shown


@given(columns=st.integers(1, 200), accuracy=st.none() | st.floats(0, 1), failed=st.integers(0, 10**6))
def test_the_line_never_leaves_the_terminal_it_is_on(columns: int, accuracy: float | None, failed: int) -> None:
    screen = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        progress = after(screen, line(3, accuracy=accuracy, epsilon=SPENT), line(4, failed={"raised": failed}))
        assert all(len(piece) < max(columns, 2) for piece in screen.getvalue().split("\r"))
        assert "\n" not in screen.getvalue()
        assert "round  4/40"[: columns - 1].rstrip() in screen.shown
        progress.__exit__()
    assert screen.shown == ""


@pytest.mark.usefixtures("width")
def test_the_bar_is_full_at_the_end_and_half_full_half_way() -> None:
    half, full = Terminal(), Terminal()
    after(half, line(20))
    after(full, line(40))
    assert half.shown.count("━") == half.shown.count("─") > 0
    assert full.shown.count("─") == 0 < full.shown.count("━")


@pytest.mark.usefixtures("width")
def test_a_skipped_round_leaves_a_line_that_stays() -> None:
    screen = Terminal()
    after(screen, line(1), line(2, skipped="3 answers, 1294 needed"))
    above, below = screen.getvalue().split("\n")
    assert above.split("\r")[-1] == "round 2 skipped: 3 answers, 1294 needed"
    assert "round  2/40" in below


@pytest.mark.usefixtures("width")
def test_a_terminal_is_not_flooded() -> None:
    screen = Terminal()
    after(screen, *(line(number) for number in range(1, 1001)), total=1000, pause=0.001)
    assert screen.getvalue().count("\r") < 20
    assert "round 1000/1000" in screen.shown


def test_where_there_is_no_terminal_there_is_a_plain_line_now_and_then_and_at_the_last_round() -> None:
    file = io.StringIO()
    after(file, *(line(number, accuracy=0.5) for number in range(1, 41)), pause=REPEATED / 8)
    lines = file.getvalue().splitlines()
    assert [each[:11] for each in lines] == [f"round {n:2}/40" for n in (8, 16, 24, 32, 40)]
    assert "accuracy 0.500" in lines[0]
    assert not {"\r", "\x1b", "━"} & set(file.getvalue())


RESULT: dict[str, Any] = {
    "directory": "runs/my digits", "accuracy": 0.9132, "rounds": 40, "clients": 1437, "seconds": 83.2,
    "epsilon": {"lower": 3.3446, "upper": 3.9522, "clt": 3.7}, "delta": 1e-5, "unit": "client",
    "trust": "secure-aggregation", "adjacency": "replace", "bytes_up": 1437 * 40 * 1105, "bytes_transport": 9,
    "rejected": {"checksum": 2}, "failed": {}, "why": "finished",
}  # fmt: skip


def test_the_last_table_says_what_was_reached_what_it_cost_and_what_to_do_next() -> None:
    for words in ("0.913", "40, finished", "at most 3.953, at least 3.344", "δ = 1e-5", "client level",
                  "replace adjacency", "secure-aggregation trust", "assumes", "44.2 KB a client, 63.5 MB in all",
                  "2 (2 checksum)", "1 min 23 s", "fedpriv report 'runs/my digits'"):  # fmt: skip
        assert words in result_table(RESULT)


def test_under_local_trust_the_last_table_assumes_nothing_and_without_noise_it_promises_nothing() -> None:
    assert "assumes" not in result_table(RESULT | {"trust": "local"})
    endless = {"lower": float("inf"), "upper": float("inf"), "clt": None}
    plain = result_table(RESULT | {"epsilon": endless, "adjacency": None, "accuracy": None})
    assert "none: updates were sent as they are" in plain
    assert "ε" not in plain


def test_the_last_table_of_a_run_that_ended_early_has_the_epsilon_of_all_its_rounds_and_of_those_done_alone() -> None:
    done = {"epsilon": {"lower": 1.04, "upper": 1.0432, "clt": 1.0}}
    table = result_table(RESULT | {"why": "stopped", "of_rounds_done": done})
    assert "ε at most 3.953" in table
    assert "of all rounds planned: when it ended may tell of what was sent" in table
    assert "of those done ε at most 1.044, at least 1.04, if nothing that was sent had a part in when it ended" in table


@pytest.mark.usefixtures("width")
def test_the_live_line_is_gone_at_the_end() -> None:
    screen = Terminal()
    with Progress(40, 1437, False, screen):
        assert "round  0/40" in screen.shown
    assert screen.shown == ""


def test_quiet_is_quiet() -> None:
    for stream in (Terminal(), io.StringIO()):
        after(stream, line(1), line(40, skipped="why"), quiet=True)
        assert stream.getvalue() == ""


@pytest.mark.usefixtures("width")
def test_a_terminal_without_greek_letters_gets_plain_ones() -> None:
    class Ascii(Terminal):
        encoding = "ascii"  # type: ignore[assignment]

    screen = Ascii()
    after(screen, line(20, epsilon=SPENT))
    screen.getvalue().encode("ascii")
    assert "eps <= 1.235" in screen.getvalue()
    assert "#" in screen.getvalue()


def test_the_width_is_that_of_the_terminal_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Elsewhere(Terminal):
        def fileno(self) -> int:
            return 77

    def size(number: int) -> os.terminal_size:
        asked.append(number)
        return os.terminal_size((33, 10))

    monkeypatch.setattr(os, "get_terminal_size", size)
    screen = Elsewhere()
    after(screen, line(20, accuracy=0.5, epsilon=SPENT))
    assert set(asked) == {77}
    assert 20 < len(screen.shown) < 33
