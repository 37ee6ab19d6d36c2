"""The command as people use it: what it prints, where, and how it says no."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest import approx

from simulations.command_line import main

ACCEPTED = [
    ("account Ternary clip=0.1 spread=0.25 scale=0.5 --epsilon 0.6931471805599453", "delta", 0.05, 1e-12),
    (
        "account Table levels=[-0.1,0.1] chances=[[0.35,0.5,0.15],[0.15,0.5,0.35]] --epsilon 0.6931471805599453",
        "delta", 0.05, 1e-12,
    ),
    (
        "account StochasticSign clip=0.1 scale=10 --dimension 100000 --geometry l2 --rounds 100 --delta 1e-5",
        "epsilon", 0.79438, 1e-4,
    ),
    ("account Binomial clip=0.1 scale=1 trials=16 --rounds 1000 --delta 1e-5", "epsilon", 427.740752948407, 1e-9),
    ("account Gaussian clip=1 noise=1 --delta 1e-5", "epsilon", 4.377178, 1e-6),
    ("account Gaussian clip=1 noise=1 --delta 1e-5 --adjacency replace", "epsilon", 9.997256, 1e-6),
    (
        "account Binomial clip=1 peak=0.2 scale=0.911 trials=4 --dimension 650 --geometry l2 "
        "--trust secure-aggregation --clients 1294 --rounds 40 --delta 1e-5",
        "epsilon", 3.95, 0.015,
    ),
    (
        "calibrate Ternary clip=1 spread=4 --epsilon 2 --delta 1e-5 --rounds 100 --dimension 10000 --geometry l2",
        "epsilon", 1.995, 0.0026,
    ),
]  # fmt: skip
KEYS = {
    "kind", "settings", "unit", "trust", "adjacency", "geometry", "dimension", "rounds", "mu", "proof", "published",
}  # fmt: skip
SIGN = "account StochasticSign clip=0.1 scale=1"
HALVES = "account Table levels=[-1,1]"
REFUSED = [
    (f"{HALVES} chances=[[0.5,0.5],[0.5,0.4]]", "Table: chances: row 2 adds up to 0.9, not to 1"),
    (f"{HALVES} chances=[[0.5,0.5]", "chances must be a list such as [0.5, 0.5], got '[[0.5,0.5]'"),
    (f"{HALVES} chances=[[0.6,0.4],[0.4,0.6]] file=t.csv", "give a file, or levels and chances, not both"),
    ("account Table file=nowhere.csv", "nowhere.csv: cannot be read"),
    (
        f"calibrate{HALVES[7:]} chances=[[0.6,0.4],[0.4,0.6]] --epsilon 1 --delta 1e-5",
        "Table has no setting to calibrate",
    ),
    (f"{HALVES} chances=[[0.6,0.4],[0.4,0.6]] --trust secure-aggregation --clients 9", "no certificate under secure"),
    ("account nowhere:Mine clip=1", "mechanism 'nowhere:Mine' cannot be imported"),
    ("account StochasticSign clip=0.1 scale=0.05", "scale must be larger than peak = 0.1, got 0.05"),
    ("account StochasticSign clip=0.1 peak=0.2 scale=1", "peak must be at most clip = 0.1"),
    ("account Ternary clip=1 spread=4 scale=2", "scale must be larger than spread = 4"),
    ("account Ternary clip=1 spread=0.5 scale=2", "spread must be larger than peak"),
    ("account StochasticSign clip=nan scale=1", "clip must be finite, got nan"),
    ("account StochasticSign clip=1 scale=inf", "scale must be finite"),
    ("account StochasticSign clip=1 scale=wide", "scale must be a number, got 'wide'"),
    ("account StochasticSign clip=1 scale=", "scale must be a number"),
    ("account StochasticSign clip=1 scale", "settings are written name=value, got 'scale'"),
    ("account StochasticSign clip=1 scale=2 clip=3", "clip is given twice"),
    ("account StochasticSign clip=1 scle=2", "did you mean 'scale'"),
    ("account StochasticSign clip=1", "StochasticSign needs scale"),
    ("account Stochasticsign clip=1 scale=2", "did you mean 'StochasticSign'"),
    ("account Tërnary clip=1", "did you mean 'Ternary'"),
    ("account Binomial clip=1 scale=4 trials=2.5", "trials must be a whole number, got 2.5"),
    (f"{SIGN} --delta -1", "delta must be between 0 and 1"),
    (f"{SIGN} --delta=-1e-5", "delta must be between 0 and 1"),
    (f"{SIGN} --delta nan", "delta must be between 0 and 1"),
    (f"{SIGN} --delta small", "--delta: must be a number"),
    (f"{SIGN} --epsilon -1", "epsilon must be at least 0"),
    (f"{SIGN} --epsilon nan", "epsilon must be"),
    (f"{SIGN} --delta 1e-5 --epsilon 1", "not both"),
    (f"{SIGN} --dimension 0", "dimension must be at least 1"),
    (f"{SIGN} --dimension 2.5", "--dimension: must be a whole number"),
    (f"{SIGN} --dimension 1e400", "--dimension: must be a whole number"),
    (f"{SIGN} --dimension 2", "geometry must be given"),
    (f"{SIGN} --dimension 2 --geometry l3", "did you mean 'l2'"),
    (f"{SIGN} --rounds -1", "rounds must be at least 0"),
    (f"{SIGN} --sampling 1.5", "sampling must be between 0 and 1"),
    (f"{SIGN} --sampling 0.1 --unit client", "amplifies nothing under local trust"),
    (f"{SIGN} --sampling 0.1 --unit client --trust secure-aggregation --clients 5", "under secure-aggregation trust"),
    (f"{SIGN} --unit user", "unit 'user' is unknown"),
    (f"{SIGN} --trust locl", "did you mean 'local'"),
    (f"{SIGN} --adjacency ad-remove", "did you mean 'add-remove'"),
    (f"{SIGN} --clients 5", "clients counts only under secure-aggregation"),
    (f"{SIGN} --trust secure-aggregation", "needs clients"),
    (f"{SIGN} --trust secure-aggregation --clients 0", "clients must be at least 1"),
    (f"{SIGN} --bogus", "--bogus"),
    (f"{SIGN} --compare Gausian clip=1 noise=2", "did you mean 'Gaussian'"),
    (f"{SIGN} --compare Gaussian clip=1 noize=2", "did you mean 'noise'"),
    (f"{SIGN} --plot curve.bmp", "must end in .png, .svg or .pdf"),
    ("account", "KIND"),
    ("acount Gaussian clip=1", "did you mean 'account'"),
    ("calibrat Gaussian clip=1", "did you mean 'calibrate'"),
    ("frobnicate", "unknown command 'frobnicate'; commands: "),
    ("list extra", "extra"),
    ("calibrate StochasticSign clip=1", "--epsilon and --delta"),
    ("calibrate StochasticSign clip=1 --epsilon 0 --delta 1e-5", "epsilon must be positive"),
    ("calibrate StochasticSign clip=1 scale=3 --epsilon 1 --delta 1e-5", "leave out the one to calibrate"),
    ("calibrate StochasticSign --epsilon 1 --delta 1e-5", "clip, scale are missing"),
    ("calibrate StochasticSign clip=1 --epsilon 1 --delta 1e-5 --free scal", "did you mean 'scale'"),
    ("calibrate StochasticSign clip=1 --epsilon 1 --delta 1e-5 --dimension 5", "geometry must be given"),
    ("calibrate StochasticSign clip=-1 --epsilon 1 --delta 1e-5", "clip must be positive"),
    ("calibrate StochasticSign clip=1 spred=2 --epsilon 1 --delta 1e-5", "has no setting 'spred'"),
    ("calibrate Binomial clip=1 scale=2 --epsilon 0.01 --delta 1e-5 --rounds 1000", "the best that trials = 1 gives"),
]


def parsed(text: str) -> Any:
    def never(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=never)


@pytest.mark.parametrize(("line", "asked", "value", "rel"), ACCEPTED, ids=lambda value: str(value)[:60])
def test_accepted_commands_answer_in_json_alone(
    line: str, asked: str, value: float, rel: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*shlex.split(line), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    answer = parsed(out)
    assert set(answer) >= KEYS | {asked}
    assert set(answer["proof"]) == {"upper", "lower"}
    assert answer[asked]["lower"] <= answer[asked]["upper"] == approx(value, rel=rel)


@pytest.mark.parametrize(("line", "asked", "value", "rel"), ACCEPTED, ids=lambda value: str(value)[:60])
def test_accepted_commands_answer_people(
    line: str, asked: str, value: float, rel: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(line)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "at most" in out
    assert "at least" in out
    assert "proof, upper" in out
    assert all(len(own) < 200 for own in out.splitlines())


@pytest.mark.parametrize(("line", "said"), REFUSED, ids=lambda value: str(value)[:70])
def test_what_cannot_be_is_refused_in_one_line(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err
    assert "Traceback" not in err


def test_a_negative_delta_in_scientific_notation_is_named_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(f"{SIGN} --delta -1e-5")) == 2
    assert "delta must be between 0 and 1" in capsys.readouterr().err


def test_infinity_is_a_word_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split("account Gaussian clip=1 noise=1 --delta 0 --json")) == 0
    assert parsed(capsys.readouterr().out)["epsilon"] == {"lower": "inf", "upper": "inf"}


def test_what_has_no_mu_says_null(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split("account Ternarize clip=0.1 scale=1 --epsilon 3 --json")) == 0
    answer = parsed(capsys.readouterr().out)
    assert answer["mu"] is None
    assert answer["delta"]["upper"] == approx(0.1)


def test_without_delta_or_epsilon_there_is_mu_and_five_points(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(f"{SIGN} --json")) == 0
    answer = parsed(capsys.readouterr().out)
    assert len(answer["points"]) == 5
    assert answer["mu"] == approx(0.2513227, abs=1e-6)
    uppers = [point["epsilon"]["upper"] for point in sorted(answer["points"], key=lambda p: p["delta"])]
    assert uppers == sorted(uppers, reverse=True)


def test_no_rounds_cost_nothing_and_many_have_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(f"{SIGN} --rounds 0 --delta 0 --json")) == 0
    assert parsed(capsys.readouterr().out)["epsilon"] == {"lower": 0.0, "upper": 0.0}
    assert main(shlex.split(f"{SIGN} --rounds 1e9 --delta 1e-5 --json")) == 0
    bounds = parsed(capsys.readouterr().out)["epsilon"]
    assert 0 < bounds["lower"] <= bounds["upper"] < 1.01 * bounds["lower"]


def test_several_are_compared_in_the_same_setting(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"{SIGN} --delta 1e-5 --rounds 9 --compare Gaussian clip=1 noise=9 --compare Cldp clip=1 epsilon=0.1"
    assert main([*shlex.split(line), "--json"]) == 0
    answer = parsed(capsys.readouterr().out)
    assert [own["kind"] for own in answer["compared"]] == ["Gaussian", "Cldp"]
    assert {own["rounds"] for own in answer["compared"]} == {9}
    assert main(shlex.split(line)) == 0
    assert capsys.readouterr().out.count("proof, upper") == 3


@pytest.mark.parametrize("before", [True, False])
def test_settings_may_stand_on_either_side_of_options(before: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """The usual place of options is a matter of taste; both orders mean the same."""
    settings, options = "clip=1 noise=5", "--rounds 5 --delta 1e-5"
    line = f"account Gaussian {settings} {options}" if before else f"account {options} Gaussian {settings}"
    assert main([*shlex.split(line), "--json"]) == 0
    assert parsed(capsys.readouterr().out)["rounds"] == 5


def test_whole_settings_stay_whole_and_integers_are_welcome_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split("account StochasticSign clip=2 peak=1 scale=4 --delta 1e-5 --json")) == 0
    assert parsed(capsys.readouterr().out)["settings"]["peak"] == 1
    assert main(shlex.split("account Ternary clip=2 peak=1 spread=2 scale=4 --delta 1e-5 --json")) == 0


# --- pictures -----------------------------------------------------------------------------------------------------


def test_a_plot_is_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "curve.png"
    line = f"{SIGN} --rounds 9 --delta 1e-5 --compare Gaussian clip=1 noise=9 --json --plot"
    assert main([*shlex.split(line), str(file)]) == 0
    content = file.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert width >= 600
    assert height >= 500
    assert len(content) > 10_000
    out, err = capsys.readouterr()
    assert parsed(out)["kind"] == "StochasticSign"
    assert err == ""


def test_a_plot_into_a_missing_directory_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*shlex.split(f"{SIGN} --delta 1e-5 --plot"), str(tmp_path / "no" / "curve.svg")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "curve.svg" in err


# --- help and list ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["account", "calibrate", "list"])
def test_every_command_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert f"  fedpriv {command}" in out
    assert "example" in out


def examples(capsys: pytest.CaptureFixture[str]) -> list[str]:
    found = []
    for command in ("account", "calibrate", "list"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        found += [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  fedpriv ")]
    return found


def test_the_examples_of_the_help_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = examples(capsys)
    assert len(lines) >= 4
    for line in lines:
        assert main(shlex.split(line)[1:]) == 0, line
        assert capsys.readouterr().err == ""


def test_list_names_every_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    from fedpriv.studies.kinds import CARRIERS

    assert main(["list"]) == 0
    text = capsys.readouterr().out
    assert main(["list", "--json"]) == 0
    kinds = [entry["kind"] for entry in parsed(capsys.readouterr().out)["mechanisms"]]
    assert set(kinds) == set(CARRIERS)
    assert all(kind in text for kind in CARRIERS)


def test_no_command_at_all_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "calibrate" in capsys.readouterr().out


# --- the real process ---------------------------------------------------------------------------------------------


def fedpriv(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "simulations.command_line", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_process_answers_on_standard_output() -> None:
    done = fedpriv(*shlex.split(ACCEPTED[0][0]), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert parsed(done.stdout)["delta"]["upper"] == approx(0.05)


@pytest.mark.parametrize("line", [REFUSED[0][0], "frobnicate", "calibrate Gaussian clip=1 --epsilon 0 --delta 1e-5"])
def test_the_process_refuses_with_code_two_and_one_line(line: str) -> None:
    done = fedpriv(*shlex.split(line))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("fedpriv: ")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{shlex.quote(sys.executable)} -m simulations.command_line list | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""


def test_bounds_that_floating_point_cannot_bring_together_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split("account Binomial clip=1 scale=10 trials=4 --delta 1e-5 --rounds 1000000000000")) == 0
    assert "(loose: floating point follows 1e+10 rounds at most)" in capsys.readouterr().out
    assert main(shlex.split("account Binomial clip=1 scale=10 trials=4 --delta 1e-5 --rounds 1000")) == 0
    assert "loose" not in capsys.readouterr().out


def test_account_tells_errors_at_the_rates_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    sign = "account StochasticSign clip=0.1 scale=1 --rounds 100 --alpha 0.01,0.05"
    assert main(shlex.split(f"{sign} --json")) == 0
    answer = parsed(capsys.readouterr().out)
    assert answer["beta"]["0.01"]["lower"] == approx(0.6267098, abs=1e-7)
    assert answer["beta"]["0.05"]["upper"] == approx(0.3607909, abs=1e-7)
    assert answer["mu_between"] == {"lower": approx(2.0100336), "upper": approx(2.0100336), "up_to": 0.0}
    assert main(shlex.split(sign)) == 0
    assert "β at α = 0.01              at least 0.6267098, at most 0.6267099" in capsys.readouterr().out


@pytest.mark.parametrize("rates", ["0", "1", "0.1,1.5", "nan", "-0.1", "", "0.1,,0.2", "a"])
def test_a_rate_of_errors_that_is_none_is_refused(rates: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["account", "StochasticSign", "clip=0.1", "scale=1", f"--alpha={rates}"]) == 2
    assert "--alpha" in capsys.readouterr().err


def test_a_plot_has_its_numbers_beside_it(tmp_path: Path) -> None:
    assert main(shlex.split(f"account StochasticSign clip=1 scale=2 --plot {tmp_path / 'curve.svg'}")) == 0
    head, *rows = (tmp_path / "curve.csv").read_text().splitlines()
    assert head == 'alpha,"StochasticSign clip=1 scale=2 peak=1, lower","StochasticSign clip=1 scale=2 peak=1, upper"'
    alpha, low, high = map(float, rows[300].split(","))
    assert 0 < low <= high < 1 - alpha


def test_a_plot_at_a_large_epsilon_has_a_logarithmic_axis_and_names_adjacencies_that_differ(tmp_path: Path) -> None:
    pictures = {}
    for name, noise in (("large", 0.1), ("small", 5)):
        file = tmp_path / f"{name}.svg"
        given = f"account Gaussian clip=1 noise={noise} --compare Binomial clip=1 scale=5 trials=2 --plot {file}"
        assert main(shlex.split(given)) == 0
        pictures[name] = file.read_text(encoding="utf-8")
    assert all(f"<!-- {words}" in pictures["large"] for words in ("Gaussian clip=1 noise=0.1, add-remove", "Binomial"))
    assert r"\mathdefault{10^{" in pictures["large"]
    assert r"\mathdefault{10^{" not in pictures["small"]
    rows = [(tmp_path / f"{name}.csv").read_text().splitlines() for name in pictures]
    assert [row.partition(",")[0] for row in rows[0]] == [row.partition(",")[0] for row in rows[1]]


def test_a_plot_of_tolerance_draws_every_mechanism_that_is_compared(tmp_path: Path) -> None:
    vote = "tolerance Binomial clip=0.1 scale=0.5 trials=4 --honest 50 --mean 0.1"
    file = tmp_path / "both.svg"
    assert main(shlex.split(f"{vote} --compare Ternary clip=0.1 spread=0.25 scale=0.5 --plot {file}")) == 0
    drawn = file.read_text(encoding="utf-8")
    assert all(f"<!-- {words} -->" in drawn for words in ("Binomial", "Ternary", "Binomial, N = 50", "Ternary, N = 50"))
