"""What is said of bytes is what is sent: of ternary messages too, whose length depends on how rarely they speak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from tried import TRIED

from clients.training.cohort import Cohort
from fedpriv import records, wire
from fedpriv.mechanisms import Binomial, Ternarize, Ternary
from fedpriv.packed import sparse
from fedpriv.packed.forms import Trits
from fedpriv.packed.symbols import packing_of
from fedpriv.studies import file as study_file
from fedpriv.wire.replies import Rejected, frames_of
from server import rounds
from server.rounds import planned, size_of
from simulations.command_line import main
from simulations.report.run.runs import read_run
from simulations.report.sweep.cells import _ran as ran_of
from simulations.runs.direct import Here

RARE = "privacy.mechanism={kind='Ternary', clip=1.0, peak=0.2, spread=0.5, scale=20.0}"
OFTEN = "privacy.mechanism={kind='Ternary', clip=1.0, peak=0.2, spread=0.9, scale=1.5}"
NEAR = "privacy.mechanism={kind='Ternary', clip=1.0, peak=0.2, spread=0.5, scale=3.1}"  # in the balance
SIGNS = "privacy.mechanism={kind='Ternarize', clip=1.0, peak=0.2, scale=0.5}"
COUNTS = "privacy.mechanism={kind='Binomial', clip=1.0, peak=0.2, scale=0.9, trials=4}"
BASE = ["clients.count=80", "privacy.trust=local", "run.rounds=2"]


def study(*overrides: str) -> Any:
    text = study_file.study_text(study_file.read_study("digits")).replace("epsilon = 4.0\n", "")
    return study_file.parsed_study(text, overrides=[*BASE, *overrides])


def packed(symbols: np.ndarray) -> np.ndarray:
    return Trits().pack(symbols.astype(np.int8))


def spoken(rows: int, dimension: int, share: float, seed: int = 1) -> np.ndarray:
    rng = default_rng(seed)
    signs = rng.choice([-1, 1], (rows, dimension))
    return packed(np.where(rng.random((rows, dimension)) < share, signs, 0))


def length_alone(row: np.ndarray, dimension: int) -> int:
    short = sparse.sparse_form(row[None], dimension)
    return len(row) if short is None else len(short)


@given(
    dimension=st.integers(1, 3000), share=st.sampled_from([0.0, 0.0005, 0.004, 0.02, 0.1, 0.155, 0.16, 0.2, 1.0]),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_the_size_of_each_message_is_that_of_its_frame(dimension, share, seed):
    payload = spoken(4, dimension, share, seed)
    assert sparse.sparse_sizes(payload, dimension).tolist() == [length_alone(row, dimension) for row in payload]


@given(places=st.lists(st.integers(0, 2999), max_size=9, unique=True), dimension=st.sampled_from([1276, 1500, 3000]))
def test_gaps_of_few_votes_are_counted_wherever_they_lie(places, dimension):
    symbols = np.zeros((1, dimension))
    symbols[0, [place for place in places if place < dimension]] = 1
    payload = packed(symbols)
    assert sparse.sparse_sizes(payload, dimension).tolist() == [length_alone(payload[0], dimension)]


@pytest.mark.parametrize("dimension", [1, 7, 31, 300, 650, 5000])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.15, 0.16, 0.165, 0.4, 1.0])
def test_the_expected_size_is_the_mean_of_sizes(dimension: int, share: float) -> None:
    found = sparse.sparse_sizes(spoken(1000, dimension, share), dimension)
    assert abs(found.mean() - sparse.expected_size(dimension, share)) <= 4 * found.std() / 1000**0.5 + 0.02


@pytest.mark.parametrize("dimension", [7, 300, 650, 5000])
@pytest.mark.parametrize("where", ["alike", "at the end", "apart"])
@pytest.mark.parametrize("mean", [0.0, 0.003, 0.05, 0.14, 0.5])
def test_no_mean_is_larger_than_the_largest_that_is_expected(dimension: int, where: str, mean: float) -> None:
    chance = np.full(dimension, mean)
    if where == "at the end":
        chance = (np.arange(dimension) >= dimension * (1 - mean)).astype(float)
    if where == "apart":
        chance = (np.arange(dimension) % max(1, round(1 / mean) if mean else dimension + 1) == 1).astype(float)
    symbols = default_rng(1).random((300, dimension)) < chance
    found = sparse.sparse_sizes(packed(symbols), dimension).mean()
    assert found <= sparse.largest_expected_size(dimension, float(chance.mean())) + 0.3


@pytest.mark.parametrize("mechanism", [RARE, OFTEN, NEAR, SIGNS, COUNTS])
@pytest.mark.parametrize("rule", ["Mean", "Median"])
def test_records_count_the_bytes_of_each_client_alone_whoever_shares_its_frame(
    mechanism: str, rule: str, tmp_path: Path
) -> None:
    chosen = [mechanism, f"aggregation.kind={rule}"]
    found = [rounds.run_rounds(study(*chosen), tmp_path / str(n), Here(n), quiet=True)["bytes_up"] for n in (1, 4, 80)]
    records_of = [(tmp_path / str(n) / "records.jsonl").read_bytes() for n in (1, 4, 80)]
    assert len(set(found)) == len(set(records_of)) == 1
    plan = planned(study(*chosen))
    cohort, weights = Cohort(plan), plan.net.initial()
    first = 0
    for client in range(80):
        frames, _ = frames_of(cohort.reply(weights, 1, np.array([client])))
        first += sum(len(frame) for frame in frames)
    assert records.read_records(tmp_path / "1" / "records.jsonl").rounds[0]["bytes_up"] == first


@pytest.mark.parametrize("mechanism", [RARE, OFTEN, NEAR, COUNTS])
def test_a_dry_run_expects_what_is_sent(mechanism: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = study_file.study_text(study(mechanism))
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    assert main(["run", str(tmp_path / "mine.toml"), "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    result = rounds.run_rounds(study(mechanism), tmp_path / "run", Here(4), quiet=True)
    assert said["client_bytes_are"] == ("exact" if mechanism == COUNTS else "expected")
    assert said["bytes_up"] == pytest.approx(result["bytes_up"], rel=0 if mechanism == COUNTS else 0.02)
    assert said["client_bytes"] == result["client_bytes"]
    assert result.get("client_bytes_are", "exact") == said["client_bytes_are"]


def test_a_report_and_a_sweep_have_the_bytes_that_were_sent(tmp_path: Path) -> None:
    """Not those of messages in full: what of them is on an axis of costs is counted."""
    result = rounds.run_rounds(study(RARE), tmp_path, Here(4), quiet=True)
    run = read_run(tmp_path)
    assert run.client_bytes == ran_of(run).client_bytes == round(result["bytes_up"] / 160)
    assert run.client_bytes < wire.HEADER + 60  # in full 130 bytes, header aside


@pytest.mark.parametrize("norm", ["normalise", "coordinates"])
def test_what_depends_on_the_update_is_bounded(norm: str, tmp_path: Path) -> None:
    own = study(SIGNS, f"privacy.norm={norm}")
    size = size_of(planned(own).plan)
    result = rounds.run_rounds(own, tmp_path, Here(4), quiet=True)
    assert size.word == result["client_bytes_are"] == "at most"
    assert result["bytes_up"] / 160 <= size.bytes
    assert size.bytes < 44 + 130 or norm == "coordinates"


def test_under_secure_aggregation_a_ternary_message_takes_the_masked_width(tmp_path: Path) -> None:
    own = study(RARE, "privacy.trust=secure-aggregation", "clients.byzantine=0")
    result = rounds.run_rounds(own, tmp_path, Here(4), quiet=True)
    assert "client_bytes_are" not in result
    bits = records.read_records(tmp_path / "records.jsonl").header["bits"]["masked"]
    assert result["bytes_up"] == 160 * (wire.HEADER + -(-650 * bits // 8))


def test_a_node_that_counts_its_clients_bytes_wrongly_is_rejected() -> None:
    mechanism, clients, total = Ternary(clip=1, spread=2, scale=4), np.arange(5), np.zeros(650, np.int64)
    wanted = wire.Expected(b"eightful", 1, clients, 650, mechanism)
    honest = wire.alone(mechanism, 650, spoken(5, 650, 0.02))
    found = wire.opened_frame(wire.sum_frame(b"eightful", 1, clients, total, honest), wanted)
    assert isinstance(found, wire.Sum)
    assert found.alone == honest
    for wrong in (0, 5 * wire.HEADER - 1, 5 * (wire.HEADER + 130) + 1, 2**63, None):
        with pytest.raises(Rejected, match="shape"):
            wire.opened_frame(wire.sum_frame(b"eightful", 1, clients, total, wrong), wanted)


@pytest.mark.parametrize("mechanism", [own for own in TRIED if not isinstance(own, Ternary | Ternarize)], ids=str)
def test_all_other_mechanisms_take_the_bytes_they_always_took(mechanism: Any) -> None:
    assert wire.client_bytes(mechanism, 650, None) == (wire.HEADER + packing_of(mechanism).size(650), "exact")
    assert wire.packed_bits(mechanism, 650) == (mechanism.bits, "exact")


def test_account_says_how_many_bits_are_sent_and_whether_that_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for mechanism in ("Ternary clip=1 peak=0.1 spread=1 scale=10", "Ternary clip=1 peak=0.1 spread=1 scale=1.5",
                      "Ternarize clip=1 peak=0.1 scale=5", "Binomial clip=1 scale=2 trials=4"):  # fmt: skip
        setting = ["--dimension", "100000", "--geometry", "l2", "--delta", "1e-5", "--json"]
        command = ["account", *mechanism.split(), *setting]
        assert main(command) == 0
        bits = json.loads(capsys.readouterr().out)["bits"]
        found[mechanism] = (round(bits["packed"], 3), bits["packed_is"])
    assert list(found.values()) == [(0.900, "expected"), (1.6, "exact"), (0.042, "at most"), (3.0, "exact")]
    assert (
        main(
            [
                "account",
                "Ternary",
                "clip=1",
                "peak=0.1",
                "spread=1",
                "scale=10",
                "--dimension",
                "100000",
                "--geometry",
                "l2",
            ]
        )
        == 0
    )
    assert "0.9004 packed, expected, 0.569 of entropy" in capsys.readouterr().out


def test_at_the_papers_rates_messages_take_what_was_measured() -> None:
    for rate, bits in ((0.1, 0.904), (0.05, 0.454), (0.01, 0.101)):  # of 100,000 coordinates, headers included
        mechanism = Ternary(clip=1, peak=0.05, spread=0.5, scale=0.5 / rate)
        assert 8 * wire.client_bytes(mechanism, 100_000, None).bytes / 100_000 == pytest.approx(bits, abs=0.001)
    assert wire.client_bytes(Ternarize(clip=1, scale=2), 650, None).word == "at most"
    assert wire.client_bytes(Binomial(clip=1, scale=2, trials=4), 650, None).word == "exact"
