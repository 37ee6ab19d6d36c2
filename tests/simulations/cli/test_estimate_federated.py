"""`fedpriv estimate --mechanism` as people use it: one shot of all clients, and the table of peaks."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest import approx

from fedpriv.accounting.account import Account
from fedpriv.accounting.event import by_hand
from fedpriv.mechanisms import Binomial
from fedpriv.randomness.streams import stream
from simulations.command_line import main


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """2,000 clients' vectors of length 1, most of each in two coordinates."""
    data = stream(1, "clients").standard_normal((2000, 20))
    data[:, :2] += 6
    np.save(tmp_path / "sample.npy", data / np.linalg.norm(data, axis=1, keepdims=True))
    return tmp_path / "sample.npy"


def asked(sample: Path, words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["estimate", str(sample), *shlex.split(words), "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_mean_has_a_certified_epsilon_and_an_error_known_beforehand(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(sample, "--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5", capsys)
    own = Account((by_hand(Binomial(clip=1, scale=3, trials=4), dimension=20, geometry="l2"),)).epsilon(1e-5).bounds
    assert (found["epsilon"]["lower"], found["epsilon"]["upper"]) == own
    assert found["standard_error"]["coordinate"] == approx(1.5 / np.sqrt(2000))
    assert (found["unit"], found["adjacency"], found["trust"]) == ("client", "replace", "local")
    data = np.load(sample)
    assert np.abs(np.array(found["mean"]) - data.mean(axis=0)).max() < 5 * found["standard_error"]["coordinate"]


def test_a_setting_left_out_is_calibrated_and_never_over_the_target(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--mechanism Binomial clip=1 peak=0.4 trials=4 --epsilon 2 --delta 1e-5 --rotate 3"
    found = asked(sample, words, capsys)
    assert 1.9 < found["epsilon"]["upper"] <= 2
    assert found["rotation"] == {"seed": 3, "coordinates": 32}


def test_sums_hide_more_and_attackers_hide_nobody(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5"
    local, sums = (asked(sample, f"{words} --trust {trust}", capsys) for trust in ("local", "secure-aggregation"))
    fewer = asked(sample, f"{words} --trust secure-aggregation --byzantine 1500", capsys)
    upper = [each["epsilon"]["upper"] for each in (local, fewer, sums)]
    assert upper == sorted(upper, reverse=True)
    assert fewer["attackers_reach"] == approx(1.5)


def test_a_rule_assumes_the_attackers_there_are(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--mechanism Gaussian clip=1 noise=3 --delta 1e-5 --clients 300 --byzantine 30 --rule TrimmedMean"
    found = asked(sample, words, capsys)
    assert (found["clients"], found["byzantine"]) == (300, 30)
    assert found["rule"] == "TrimmedMean(dropped=30)"


def test_peaks_are_set_side_by_side_at_one_epsilon_and_say_that_they_are_not_private(
    sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--mechanism Binomial clip=1 trials=4 --epsilon 4 --delta 1e-5 --peaks 0.3,0.6,1"
    found = asked(sample, words, capsys)
    assert found["private"] is False
    small, middle, large = found["peaks"]
    for own in found["peaks"]:
        for way in ("plain", "rotated"):
            assert 3.8 < own[way]["epsilon"]["upper"] <= 4
            assert own[way]["error"] == approx(np.hypot(own[way]["bias"], own[way]["noise"]))
    assert small["plain"]["bias"] > 0.4 > 0.3 > small["rotated"]["bias"]
    assert large["plain"]["bias"] < 1e-9
    assert middle["rotated"]["bias"] < middle["plain"]["bias"]
    main(["estimate", str(sample), *shlex.split(words)])
    assert "without noise: for their holder alone" in capsys.readouterr().out


def test_the_table_names_who_sees_what_and_the_mean_is_written(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mean.npy"
    words = f"--mechanism Ternary clip=1 spread=4 scale=8 --delta 1e-5 --byzantine 5 --seed 4 --out {out}"
    assert main(["estimate", str(sample), *shlex.split(words)]) == 0
    text = capsys.readouterr().out
    assert "one client, all of whose data are replaced; for whoever sees its message" in text
    assert "5 of them Byzantine (blind)" in text
    assert "taken off" in text
    again = asked(sample, words, capsys)
    assert np.load(out).tolist() == again["mean"]


REFUSED = [
    ("--mechanism Binomial clip=1 scale=3 trials=4", "needs --delta"),
    ("--clients 5 --epsilon 1 --delta 1e-5", "--clients is of --mechanism"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --method prime", "--method is of a curator's methods"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --heavy-tailed", "--heavy-tailed is of --method prime"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --clients 3000", "has 2000 rows, one a client"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --clients 0", "clients must be"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --trust central", "trust 'central' is unknown"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --norm l2", "norm 'l2' is unknown"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --epsilon 1", "leave out the one to calibrate"),
    ("--mechanism Binomail clip=1 scale=3 trials=4 --delta 1e-5", "did you mean 'Binomial'"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta nan", "delta"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --byzantine 2000", "byzantine must be at most"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --rotate -1", "seed must be"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --peaks 0.1 --seed 3", "--peaks draws nothing"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --peaks 2", "peak must be at most clip"),
    ("--mechanism Binomial clip=1 scale=3 trials=4 --delta 1e-5 --peaks a", "must be a number"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=lambda text: text[-40:])
def test_what_cannot_be_asked_is_one_line(
    sample: Path, words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", str(sample), *shlex.split(words), "--quiet"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
