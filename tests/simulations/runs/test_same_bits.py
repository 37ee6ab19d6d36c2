"""What a study trains, to the bit, as it was before votes had a centre of their own: literals of commit 59bc879.

The directions of these studies are votes or medians of symbols, so that a machine whose products round otherwise gives
the same weights unless a symbol falls within 1e-7 of its threshold.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from fedpriv.studies import file as study_file
from server import rounds
from simulations.runs.direct import Here

NOISE = "privacy.mechanism={{kind='BinomialNoise', clip=1.0, levels={}, trials={}}}"
SIGN = "privacy.mechanism={kind='StochasticSign', clip=1.0, peak=0.2, scale=0.9}"
TERNARY = "privacy.mechanism={kind='Ternary', clip=1.0, peak=0.2, spread=0.9, scale=1.5}"
VOTE = ["aggregation.kind=MajorityVote", "server.step=0.01"]
OMNISCIENT = "attack.kind=OmniscientVote"
STUDIES = {
    "sums": ["privacy.trust=secure-aggregation"],
    "votes on sums": ["privacy.trust=secure-aggregation", *VOTE],
    "signs": [SIGN, *VOTE],
    "odd trials, all-knowing": ["privacy.mechanism.trials=3", *VOTE, OMNISCIENT],
    "even trials, stealthy": [*VOTE, OMNISCIENT, "attack.stealthy=true"],
    "votes against": [*VOTE, "attack={kind='VoteAgainst', probability=0.7}"],
    "binomial noise": [NOISE.format(8, 20), *VOTE, OMNISCIENT],
    "binomial noise of an odd grid": [NOISE.format(7, 20), *VOTE, "attack.kind=VoteAgainst"],
    "a decoder that votes": ["server.decoder=vote", "server.step=0.01", "privacy.trust=secure-aggregation"],
    "a grid without end": ["privacy.mechanism={kind='Skellam', clip=1.0, levels=41, noise=0.3}", *VOTE, OMNISCIENT],
    "discrete noise": ["privacy.mechanism={kind='DiscreteGaussian', clip=1.0, levels=40, noise=0.3}", *VOTE],
    "no decoder, ties by lot": [
        "privacy.mechanism={kind='NoisySign', clip=1.0, noise=0.2}", *VOTE, "aggregation.ties=random", OMNISCIENT
    ],
    "three symbols": [TERNARY, *VOTE, OMNISCIENT],
    "three symbols in rows": [TERNARY, "aggregation={kind='Median'}"],
    "a mean of rows": ["aggregation={kind='TrimmedMean'}"],
    "clients that vote behind Nnm": ["aggregation={kind='ClientVote', before=[{kind='Nnm'}]}", "server.step=0.01"],
    "clients that vote by twos": [
        "aggregation={kind='ClientVote', before=[{kind='Bucketing', size=2}]}", "server.step=0.01", "attack.kind=Alie"
    ],
    "a weighted vote of mixed rows": ["aggregation={kind='WeightedVote', before=[{kind='Nnm'}]}", "server.step=0.01"],
}  # fmt: skip
BASE = [
    "clients.count=60", "clients.byzantine=6", "privacy.trust=local", "run.rounds=3",
    "privacy.mechanism={kind='Binomial', clip=1.0, peak=0.2, scale=0.9, trials=4}",
]  # fmt: skip
WERE = {
    "clients that vote behind Nnm": "1a84f208366eb9c7",  # there called a MajorityVote
    "clients that vote by twos": "85e7f9212902b15e",
    "sums": "3502fb8a27aa61b1",
    "votes on sums": "de0e6fd4b2e898ca",
    "signs": "b4973fae3af16b0c",
    "odd trials, all-knowing": "a1bfce579babf949",
    "even trials, stealthy": "03b9162a5035e2d8",
    "votes against": "561e47cf125f0a6b",
    "binomial noise": "8d47a186b20ae0a6",
    "binomial noise of an odd grid": "a6c543365d20446f",
    "a decoder that votes": "de0e6fd4b2e898ca",
    "a grid without end": "f9cedbdd2c000ec8",
    "discrete noise": "0eab79a40d245c11",
    "no decoder, ties by lot": "f758b3e95937835b",
    "three symbols": "b60f69aebbb1eba4",
    "three symbols in rows": "c913a90e88148479",
    "a mean of rows": "21c6f2a954972445",
    "a weighted vote of mixed rows": "da516a3022ebef00",
}


def trained(directory: Path, *overrides: str) -> str:
    """A hash of the weights and of what the records say that is no float: but for what a message of 3 symbols takes."""
    text = study_file.study_text(study_file.read_study("digits")).replace("epsilon = 4.0\n", "")
    rounds.run_rounds(study_file.parsed_study(text, overrides=[*BASE, *overrides]), directory, Here(1), quiet=True)
    lines = [json.loads(line) for line in (directory / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    names = ["round", "asked", "answered", "rejected", "failed", "skipped", "accuracy"]
    names += ["bytes_up"] * (TERNARY not in overrides)
    told = [{name: line[name] for name in names} for line in lines if line["kind"] == "round"]
    with np.load(directory / "checkpoint.npz") as file:
        weights = np.array(file["weights"]).round(9) + 0.0
    return hashlib.sha256(json.dumps(told).encode() + weights.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("name", STUDIES)
def test_what_votes_alike_trains_to_the_bits_it_always_did(name: str, tmp_path: Path) -> None:
    assert trained(tmp_path / "run", *STUDIES[name]) == WERE[name]
