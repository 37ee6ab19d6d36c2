"""A study's id: of what is asked for, not of how it is written, which defaults there are, or which data."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpriv.studies import file as study_file
from fedpriv.studies.identity import differing_settings
from fedpriv.studies.study import Study

ROOT = Path(__file__).parents[3]
STUDY = """
name = "one"
data = { kind = "Digits", held_out = 360 }
clients = { count = 40, records = 5, byzantine = 3, participation = { kind = "Fixed", number = 30 } }
training.model = { kind = "Randomised", network = { kind = "Mlp", hidden = [4] }, noise = 0.5 }
privacy.mechanism = { kind = "Binomial", clip = 1.0, scale = 3.0, trials = 4 }
attack = { kind = "SignFlip", factor = 2.0 }
aggregation = { kind = "Krum", before = [{ kind = "Bucketing", size = 2 }, { kind = "Nnm" }] }
run.rounds = 2
"""
PINNED = {  # of format 1: who changes one of them gives it another number
    "digits": "d13dd79a2c448268",
    "fashion": "994a042cc5362d3d",
    "ptr": "9875f32a7ef74976",
    "stobatch": "14ea2c01c2d6373a",
}


def of(*overrides: str) -> Study:
    return study_file.parsed_study(STUDY, overrides=overrides)


@pytest.mark.parametrize("name", PINNED)
def test_ids_of_format_1_stay(name: str) -> None:
    assert study_file.read_study(name).id.hex() == PINNED[name]


@pytest.mark.parametrize(
    "written",
    [
        "about=''", "clients.split=iid", "clients.participation={number=30, kind='Fixed'}", "training.batch=0",
        "training={local_steps=1, batch=0, learning_rate=0.1, model={noise=0.5, kind='Randomised', "
        "network={hidden=[4], kind='Mlp'}}}",
        "privacy.delta=1e-5", "privacy.mechanism.scale=3", "attack.knowledge=own", "aggregation.byzantine=3",
        "aggregation.before=[{size=2, kind='Bucketing'}, {kind='Nnm', byzantine=3}]", "server.optimiser.kind=Sgd",
        "server={momentum=0.0, step=1, retries=1}", "run.seed=1",
    ],
)  # fmt: skip
def test_what_is_written_out_or_in_another_order_is_the_same_study(written: str) -> None:
    assert of(written).id == of().id


@pytest.mark.parametrize(
    "other",
    [
        "name=two", "about=else", "data.held_out=361", "clients.byzantine=2", "clients.participation.number=29",
        "training.model.network.hidden=[5]", "privacy.mechanism.trials=5", "attack.factor=1.0", "run.seed=2",
        "aggregation.before=[{kind='Nnm'}, {kind='Bucketing', size=2}]",
        "corruption={kind='LabelFlip', share=0.1}", "server.optimiser.kind=Adam",
    ],
)  # fmt: skip
def test_what_asks_for_something_else_is_another_study(other: str) -> None:
    assert of(other).id != of().id


@given(st.integers(1, 40), st.floats(1.01, 9.0), st.sampled_from([0.0, 0.5, 0.9]), st.integers(0, 2**62))
def test_a_study_reads_back_with_its_id(rounds: int, scale: float, momentum: float, seed: int) -> None:
    changes = [f"run.rounds={rounds}", f"run.seed={seed}", f"server.momentum={momentum}"]
    study = of(*changes, f"privacy.mechanism.scale={scale!r}")
    assert study_file.parsed_study(study_file.study_text(study)).id == study.id
    assert (study.id == of().id) == (differing_settings(study) == differing_settings(of()))


def test_a_class_of_ones_own_has_its_defaults_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "halves_of_ones_own.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Half:\n    share: float = 0.5\n\n"
        "    def on_updates(self, updates, view):\n        return updates * self.share\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = "attack={{kind='halves_of_ones_own:Half'{}}}"
    assert of(own.format("")).id == of(own.format(", share=0.5")).id != of(own.format(", share=0.25")).id


# A run begun before a setting was added


GROWN = {
    "fedpriv/studies/tables.py": ("    tolerance: Annotated[", "    brake: float = 0.5\n    tolerance: Annotated["),
    "fedpriv/attacks/_updates.py": ("    factor: Annotated[", "    limit: float = 9.0\n    factor: Annotated["),
    "fedpriv/mechanisms/votes.py": ("    trials: Annotated[", "    shade: float = 0.25\n    trials: Annotated["),
}


def grown(place: Path) -> Path:
    """The package with a setting more in a table, in an attack and in a mechanism."""
    for room in ("fedpriv", "clients", "server", "simulations"):
        shutil.copytree(ROOT / room, place / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name, (was, now) in GROWN.items():
        text = (place / name).read_text(encoding="utf-8")
        assert was in text
        (place / name).write_text(text.replace(was, now, 1), encoding="utf-8")
    return place


PROGRAM = """
import sys
from pathlib import Path
from fedpriv.studies import file
from server import rounds
from simulations.runs.direct import Here

place, last = Path(sys.argv[1]), int(sys.argv[2])
own = place / "study.toml"
study = file.read_study(str(own if own.exists() else sys.argv[3]))
rounds.run_rounds(study, place, Here(), resume=own.exists(), quiet=True, on_round=lambda line: line["round"] == last)
"""


def ran(package: Path, place: Path, last: int, study: Path) -> None:
    """The study in `place`, begun or gone on with, and stopped after round `last`."""
    command = [sys.executable, "-P", "-c", PROGRAM, str(place), str(last), str(study)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(package)}, capture_output=True, text=True, cwd=package
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_run_goes_on_after_settings_with_defaults_are_added(tmp_path: Path) -> None:
    """In a table, in the attack and in the mechanism, whose settings are all written in the run's own file."""
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("rounds = 2", "rounds = 3"))
    ran(ROOT, tmp_path / "whole", 3, study)
    ran(ROOT, tmp_path / "run", 2, study)
    assert "shade" not in (tmp_path / "run" / "study.toml").read_text()
    ran(grown(tmp_path / "later"), tmp_path / "run", 3, study)
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == (tmp_path / "whole" / "records.jsonl").read_bytes()
