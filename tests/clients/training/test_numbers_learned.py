"""Studies whose labels are numbers, or whose loss is another: what they promise, learn, write down and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from clients.data.identity import data_identity, in_words
from clients.data.pool import Pool
from clients.node.own_records import owners_of, pool_of_policy
from clients.node.policy import read_policy
from clients.training.cohort import Cohort
from clients.training.prepared import prepared_study
from fedpriv import records
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.plan import Plan
from fedpriv.studies.study import Study
from server.rounds import planned, run_rounds
from simulations.command_line import main
from simulations.runs.direct import Here

NUMBERS = """
data = { kind = "Linear", records = 300, features = 8 }
clients = { count = 30, records = 10 }
training = { loss = { kind = "SquaredError" } }
privacy.trust = "secure-aggregation"
privacy.mechanism = { kind = "Binomial", clip = 1.0, peak = 0.5, scale = 1.0, trials = 4 }
server = { step = 0.5 }
run = { rounds = 8 }
"""
CLASSES = """
data = { kind = "Synthetic", records = 300, features = 8 }
clients = { count = 30, records = 10 }
privacy = { mechanism = { kind = "Binomial", clip = 1.0, peak = 0.5, scale = 1.0, trials = 4 } }
run = { rounds = 8 }
"""
SAMPLED = ["training.sampling=0.2", "privacy.unit=record"]
RELEASED = ["privacy.trust=local", "privacy.mechanism={kind='Plain'}",
            "privacy.release={kind='DpSgd', clip=1.0, noise=2.0, sampling=0.3}"]  # fmt: skip


def study(*overrides: str, text: str = NUMBERS) -> Study:
    return study_file.parsed_study(text, overrides=overrides)


def own_numbers(folder: Path, **parts: np.ndarray) -> Path:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    y = x @ [1.0, -2.0, 0.5] + 0.25
    for name, array in ({"x": x[:50], "y": y[:50], "x_test": x[50:], "y_test": y[50:]} | parts).items():
        np.save(folder / f"{name}.npy", array)
    return folder


def test_a_run_of_numbers_says_r2_everywhere_and_accuracy_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "numbers.toml", tmp_path / "run"
    file.write_text(NUMBERS)
    main(["run", str(file), "--driver", "direct", "--out", str(out)])
    shown = "".join(capsys.readouterr())
    found = records.read_records(out / "records.jsonl")
    last = found.rounds[-1]
    assert last["accuracy"] is None
    assert last["r2"] > 0.5
    assert found.header["loss"] == {"kind": "SquaredError"}
    assert found.header["data"]["classes"] == 0
    result = json.loads((out / "result.json").read_text())
    assert (result["accuracy"], result["r2"]) == (None, last["r2"])
    assert f"R²         {last['r2']:.3f}" in shown
    assert "accuracy" not in shown
    main(["report", str(out), "--json"])
    summary = json.loads(capsys.readouterr().out)
    assert "r2" in json.dumps(summary)
    page = (out / "report" / "index.html").read_text()
    assert "R² on 200 examples" in page
    assert "labels that are numbers" in page
    assert main(["certify", str(out)]) == 2
    assert "its labels are numbers, and what is certified is a class" in capsys.readouterr().err


@pytest.mark.parametrize("unit", [[], SAMPLED, RELEASED], ids=["client", "record in messages", "record released"])
def test_records_are_the_same_file_for_any_division_into_cohorts(tmp_path: Path, unit: list[str]) -> None:
    files = []
    for cohorts in (1, 7):
        run_rounds(
            study("clients.split={kind='PowerSizes', exponent=1.0}", *unit),
            tmp_path / str(cohorts),
            Here(cohorts),
            quiet=True,
        )
        files.append((tmp_path / str(cohorts) / "records.jsonl").read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        (CLASSES, "{kind='CrossEntropy', smoothing=0.1}"), (CLASSES, "{kind='Hinge'}"),
        (CLASSES, "{kind='tests.clients.models.test_losses:Focal'}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("unit", [[], SAMPLED, RELEASED], ids=["client", "record in messages", "record released"])
def test_what_is_promised_does_not_depend_on_the_loss(text: str, loss: str, unit: list[str]) -> None:
    def promised(*overrides: str) -> tuple[object, ...]:
        own = calibrated_study(study(*unit, *overrides, text=text), 36)
        return tuple(Plan.of(own, 36).epsilon(own.run.rounds))

    assert promised(f"training.loss={loss}") == promised()


def test_a_default_loss_changes_no_id_and_another_one_does() -> None:
    plain = study(text=CLASSES)
    assert study("training.loss={kind='CrossEntropy'}", text=CLASSES).id == plain.id
    assert study("training.loss={kind='Hinge'}", text=CLASSES).id != plain.id


REFUSED: list[tuple[str, list[str], str]] = [
    (NUMBERS, ["training.loss={kind='CrossEntropy'}"], "training.loss: CrossEntropy is of labels that are classes"),
    (CLASSES, ["training.loss={kind='SquaredError'}"], "training.loss: SquaredError is of labels that are numbers"),
    (NUMBERS, ["training.loss={kind='fractions:Fraction'}"], "training.loss: fractions:Fraction: TypeError"),
    (NUMBERS, ["clients.split=by-label"], "clients.split: by-label is by classes, and labels here are numbers"),
    (NUMBERS, ["clients.split={kind='Dirichlet', alpha=1.0}"], "clients.split: Dirichlet is by classes"),
    (NUMBERS, ["clients.split={kind='Shards', each=2}"], "clients.split: Shards is by classes"),
    (NUMBERS, ["attack={kind='LabelFlip'}", "clients.byzantine=3"], "attack: LabelFlip is of classes"),
    (NUMBERS, ["attack={kind='TargetedFlip', source=0, target=1}", "clients.byzantine=3"], "TargetedFlip is of class"),
    (NUMBERS, ["corruption={kind='RandomLabel', share=0.1}"], "corruption: RandomLabel is of classes"),
    (CLASSES, ["training.loss={kind='Hinge'}", "training.model={kind='EncodedCnn'}",
               "privacy={release={kind='AdLm', epsilon=1.0}}"], "training.loss must be CrossEntropy with AdLm"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "overrides", "message"), REFUSED)
def test_what_does_not_go_with_a_loss_is_refused_in_one_line(text: str, overrides: list[str], message: str) -> None:
    with pytest.raises(FedprivError, match=message) as error:
        planned(study(*overrides, text=text))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["PowerSizes', exponent=1.0", "LogNormalSizes', deviation=1.0"])
def test_numbers_are_divided_by_sizes_and_attacked_on_their_features(kind: str) -> None:
    attack = ["attack={kind='FeatureNoise'}", "clients.byzantine=3"]
    prepared = planned(study(f"clients.split={{kind='{kind}}}", *attack))
    reply = Cohort(prepared).reply(prepared.net.initial(), 1, np.arange(30))
    assert reply


def test_own_arrays_of_numbers_are_read_as_they_are(tmp_path: Path) -> None:
    data = f"data={{kind='Arrays', path='{own_numbers(tmp_path)}', labels='numbers'}}"
    prepared = planned(study(data, "clients={count=5, records=10}"))
    assert prepared.pool.y.dtype == np.float32
    assert (prepared.net.dimension, prepared.pool.outputs) == (4, 1)
    assert "labels that are numbers" in in_words(data_identity("Arrays", prepared.pool))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"y": np.full(50, np.nan)}, "label 0 is nan, and float32 must hold it, finite"),
        ({"y": np.full(50, 1e300)}, r"label 0 is 1e\+300, and float32 must hold it, finite"),
        ({"y": np.array(["a"] * 50)}, "labels must be numbers, got <U1"),
    ],
)
def test_labels_that_are_no_finite_numbers_are_refused(tmp_path: Path, parts: dict[str, np.ndarray], said: str) -> None:
    data = f"data={{kind='Arrays', path='{own_numbers(tmp_path, **parts)}', labels='numbers'}}"
    with pytest.raises(FedprivError, match=said):
        planned(study(data))


def test_numbers_taken_for_classes_are_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match='unless the data set says labels = "numbers"'):
        planned(study(f"data={{kind='Arrays', path='{own_numbers(tmp_path)}'}}"))
    with pytest.raises(FedprivError, match='classes = 3 and labels = "numbers": give one of them'):
        planned(study(f"data={{kind='Arrays', path='{tmp_path}', labels='numbers', classes=3}}"))


def test_a_node_may_hold_numbers(tmp_path: Path) -> None:
    own_numbers(tmp_path)
    terms = 'studies = "any"\nimports = []\nbudget = { epsilon = 1.0, delta = 1e-5 }\n'
    data = f'data = {{ kind = "Arrays", path = "{tmp_path}", labels = "numbers" }}\n'
    (tmp_path / "policy.toml").write_text(terms + data)
    pool = pool_of_policy(read_policy(tmp_path / "policy.toml"))
    assert pool is not None
    assert (pool.classes, pool.y.dtype, len(pool)) == (0, np.float32, 50)
    moved = Pool(np.array(pool.x), pool.y + np.float32(0.25), pool.x_test, pool.y_test, 0, 1.0, 0.0)
    owners = [owners_of(each, bytes(32), 5) for each in (pool, moved)]
    assert (owners[0] != owners[1]).any()  # a label is content too
    (tmp_path / "policy.toml").write_text(terms + data + "classes = 3\n")
    with pytest.raises(FedprivError, match='classes = 3, where data has labels = "numbers": leave classes out'):
        read_policy(tmp_path / "policy.toml")
    prepared = prepared_study(calibrated_study(study(), 9), (pool, prepared_study(study()).division))
    assert prepared.net.numbers
