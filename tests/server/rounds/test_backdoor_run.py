"""Backdoors in whole runs: that they open, what is recorded of them, and what is refused before anybody is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spies
from pytest import approx

from clients.training.byzantine import check_records, tried_records
from clients.training.prepared import pool_of
from fedpriv.errors import FedprivError
from fedpriv.records import read_records
from fedpriv.studies import file as study_file
from server import rounds
from simulations.runs.direct import Here

STUDY = """
data = { kind = "Digits", divide = 16.0, subtract = 0.3, held_out = 200 }
clients = { count = 40, byzantine = 10, records = 20 }
attack.kind = "Backdoor"
server.step = 1.0
[run]
rounds = 30
evaluate_every = 10
"""
VOTES = ["privacy.mechanism.kind=StochasticSign", "privacy.mechanism.clip=1.0", "privacy.mechanism.scale=2.0"]


def run(directory: Path, *overrides: str, cohorts: int = 1, text: str = STUDY) -> dict[str, Any]:
    study = study_file.parsed_study(text, overrides=overrides)
    return rounds.run_rounds(study, directory, Here(cohorts), quiet=True)


def test_a_backdoor_opens_while_the_model_learns_and_does_not_without_attackers(tmp_path: Path) -> None:
    attacked, honest = run(tmp_path / "attacked"), run(tmp_path / "honest", "clients.byzantine=0")
    assert attacked["backdoor"] > 0.5 > 0.1 > honest["backdoor"]
    assert attacked["accuracy"] > 0.75
    assert attacked["not_tried"] is None


def test_records_hold_success_and_the_accuracy_of_each_class_where_accuracy_is_measured(tmp_path: Path) -> None:
    result = run(tmp_path / "run")
    lines = read_records(tmp_path / "run" / "records.jsonl").rounds
    looked = [line for line in lines if line["accuracy"] is not None]
    assert [line["round"] for line in looked] == [10, 20, 30]
    assert all(("backdoor" in line) == ("accuracy_by_class" in line) == (line in looked) for line in lines)
    labels = pool_of(study_file.parsed_study(STUDY)).y_test
    for line in looked:
        right = sum(share * (labels == int(each)).sum() for each, share in line["accuracy_by_class"].items())
        assert right / len(labels) == approx(line["accuracy"], abs=1e-12)
    written = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    for name in ("backdoor", "accuracy_by_class"):
        assert written[name] == result[name] == looked[-1][name]


def test_success_is_the_share_of_stamped_records_of_other_classes_that_the_model_gives_the_target(
    tmp_path: Path,
) -> None:
    study = study_file.parsed_study(STUDY)
    pool = pool_of(study)
    found = tried_records(study, pool)
    assert found is not None
    x, wanted = found
    assert len(x) == (pool.y_test != 0).sum()
    assert set(wanted) == {0}
    assert (x.reshape(len(x), 8, 8)[:, :2, :2] == np.float32(0.7)).all()
    result = run(tmp_path / "run")
    assert result["backdoor"] * len(x) == approx(round(result["backdoor"] * len(x)))


@pytest.mark.parametrize("trust", ["local", "secure-aggregation"])
@pytest.mark.parametrize("skips", ["false", "true"])
def test_the_bytes_do_not_depend_on_how_clients_are_divided(trust: str, skips: str, tmp_path: Path) -> None:
    own = [*VOTES, "run.rounds=2", "attack.parts=2", f"attack.skips={skips}", f"privacy.trust={trust}"]
    for cohorts in (1, 5):
        run(tmp_path / str(cohorts), *own, cohorts=cohorts)
    one, five = ((tmp_path / str(cohorts) / "records.jsonl").read_bytes() for cohorts in (1, 5))
    assert one == five


def test_who_skips_the_mechanism_opens_it_wider_than_who_goes_through_it(tmp_path: Path) -> None:
    own = [*VOTES, "privacy.norm=normalise", "clients.byzantine=2", "server.step=0.5", "privacy.mechanism.peak=0.2"]
    through = run(tmp_path / "through", *own)["backdoor"]
    past = run(tmp_path / "past", *own, "attack.skips=true", "attack.boost=1000.0")["backdoor"]
    assert past > through + 0.3


@pytest.mark.parametrize("trigger", ["stamp", "bright", "rare"])
def test_backdoors_of_a_source_class_are_tried_on_its_records_alone(trigger: str, tmp_path: Path) -> None:
    own = ["attack.source=3", f"attack.trigger={trigger}", "attack.rare=0.3", "attack.row=3", "attack.column=3",
           "attack.value=-0.2", "run.rounds=3"]  # fmt: skip
    study = study_file.parsed_study(STUDY, overrides=own)
    found = tried_records(study, pool_of(study))
    assert found is not None
    assert 0 < len(found[0]) <= (pool_of(study).y_test == 3).sum()
    assert 0 <= run(tmp_path / "run", *own)["backdoor"] <= 1


def test_where_clients_answers_alone_are_looked_at_nothing_is_said_of_held_out_records(tmp_path: Path) -> None:
    own = ["evaluation.mechanism.kind=StochasticSign", "evaluation.mechanism.scale=2.0", "evaluation.every=10",
           "evaluation.mechanism.clip=1.0", "evaluation.public=false"]  # fmt: skip
    result = run(tmp_path / "run", *own, *VOTES)
    assert result["accuracy"] is None
    assert not {"backdoor", "accuracy_by_class"} & set(result)
    assert 'backdoor":' not in (tmp_path / "run" / "records.jsonl").read_text(encoding="utf-8")


def test_attackers_know_how_far_the_server_goes_for_what_they_went(tmp_path: Path) -> None:
    spies.NOTES.clear()
    own = ['attack={kind="spies:NotesTheStep"}', "run.rounds=2", "server.step=3.0", "clients.byzantine=1"]
    run(tmp_path / "one", *own)
    run(tmp_path / "some", *own, "training.local_steps=2", "training.batch=5", "training.learning_rate=0.5",
        "server.schedule=linear", "server.to=0.5")  # fmt: skip
    assert spies.NOTES == [1.0, 1.0, 6.0, 3.0]


BAD = {
    "attack.target=10": "attack: target = 10: there are 10 classes, 0 to 9",
    "attack.source=11": "attack: source = 11: there are 10 classes, 0 to 9",
    "attack.row=7": "attack: the trigger is outside the image: 2 × 2 from row 7 and column 0, of an image of 8 × 8",
    "attack.features=[64]": "attack: features: there is no feature 64: a record has 64, from 0",
    'data={kind="Synthetic", records=300, features=6, classes=3}': "attack: records of the shape (6,) are no images",
    'data={kind="Synthetic", records=900, features=9, classes=12, held_out=9}': None,  # nine features may be 3 × 3
    'attack={kind="Backdoor", source=1, trigger="bright", value=9.0}': "no record of class 1 to train on is as bright",
}


@pytest.mark.parametrize("override", BAD)
def test_a_backdoor_that_no_record_could_open_is_refused_before_the_run(override: str, tmp_path: Path) -> None:
    why = BAD[override]
    if why is None:
        rounds.planned(study_file.parsed_study(STUDY, overrides=[override, "clients.records=2"]))
        return
    with pytest.raises(FedprivError) as caught:
        run(tmp_path / "run", override, "clients.records=2")
    assert why in str(caught.value)
    assert not (tmp_path / "run" / "records.jsonl").exists()


def test_a_backdoor_into_numbers_and_one_that_nothing_held_out_could_open_are_refused() -> None:
    study = study_file.parsed_study(STUDY)
    pool = pool_of(study)
    numbers = replace(pool, y=pool.y.astype(np.float32), classes=0)
    with pytest.raises(FedprivError, match="attack: Backdoor is of classes, and labels here are numbers"):
        check_records(study, numbers)
    with pytest.raises(FedprivError, match="attack: no held-out record has what the backdoor's trigger asks for"):
        check_records(study, replace(pool, y_test=np.zeros_like(pool.y_test)))
    source = study_file.parsed_study(STUDY, overrides=["attack.source=3"])
    with pytest.raises(FedprivError, match="source = 3: there is no record of that class to train on"):
        check_records(source, replace(pool, y=np.where(pool.y == 3, 4, pool.y)))
