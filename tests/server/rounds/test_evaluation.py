"""Runs whose clients answer about the model: the same bits whoever asks, charged first, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.node.guard import Node
from clients.node.policy import Refused
from clients.training import cohort
from clients.training.prepared import prepared_study
from fedpriv import records
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import StochasticSign
from fedpriv.studies import file as study_file
from fedpriv.studies import promise
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.plan import Plan
from server import rounds
from server.progress import result_table
from server.rounds.driver import Answer, Task
from server.rounds.inbox import Inbox
from simulations.flower import launch
from simulations.report.run import facts, figures
from simulations.report.run.runs import read_run
from simulations.runs.direct import Here
from simulations.runs.forecast import run_forecast, run_forecast_table

STUDY = """
name = "asked"
data = { kind = "Synthetic", records = 200, features = 5, classes = 3, held_out = 50 }
clients = { count = 40, records = 3 }
privacy.mechanism = { kind = "StochasticSign", clip = 1.0, scale = 4.0 }
evaluation = { mechanism = { kind = "StochasticSign", scale = 2.0 }, every = 2 }
run.rounds = 5
"""
LABELS = "evaluation.labels={classes=3, epsilon=2.0}"


def text(*overrides: str) -> str:
    return study_file.study_text(calibrated_study(study_file.parsed_study(STUDY, overrides=overrides), 18))


def run(directory: Path, *overrides: str, driver: Any = None, resume: bool = False) -> dict[str, Any]:
    study = study_file.parsed_study(STUDY, overrides=overrides)
    return rounds.run_rounds(study, directory, driver or Here(), resume=resume, quiet=True)


def lines(directory: Path) -> list[dict[str, Any]]:
    return records.read_records(directory / "records.jsonl").rounds


def charges(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "ledger.jsonl").read_text().splitlines()][1:]


class Dies:
    """A driver that is killed when it is asked for the answers, or the labels, of one round."""

    def __init__(self, at: int, asks: str = "right") -> None:
        self.at, self.asks, self.directory = at, asks, Path()

    def ask(self, task: Task) -> Iterator[Answer]:
        if task.asks == self.asks and task.round == self.at:
            assert charges(self.directory)[-1]["model"], "asked before it was charged"
            raise RuntimeError("killed")
        yield from Here().ask(task)

    def close(self) -> None:
        pass


def test_records_are_the_same_bytes_for_any_division_and_after_a_kill_amid_an_evaluation(tmp_path: Path) -> None:
    run(tmp_path / "whole")
    run(tmp_path / "seven", driver=Here(7))
    killed = Dies(4)
    killed.directory = tmp_path / "killed"
    with pytest.raises(RuntimeError, match="killed"):
        run(killed.directory, driver=killed)
    run(killed.directory, resume=True)
    whole, *others = ((tmp_path / each / "records.jsonl").read_bytes() for each in ("whole", "seven", "killed"))
    assert others == [whole, whole]
    assert charges(tmp_path / "killed") == charges(tmp_path / "whole")  # the same model: one charge


def test_labels_are_asked_once_charged_first_and_the_same_bytes_whoever_asks_and_after_a_kill(tmp_path: Path) -> None:
    run(tmp_path / "whole", LABELS)
    run(tmp_path / "seven", LABELS, driver=Here(7))
    killed = Dies(2, "labels")
    killed.directory = tmp_path / "killed"
    with pytest.raises(RuntimeError, match="killed"):
        run(killed.directory, LABELS, driver=killed)
    assert charges(killed.directory)[-1]["model"] == "labels"
    result = run(killed.directory, LABELS, resume=True)
    whole, *others = ((tmp_path / each / "records.jsonl").read_bytes() for each in ("whole", "seven", "killed"))
    assert others == [whole, whole]
    assert charges(tmp_path / "killed") == charges(tmp_path / "whole")
    assert [line["model"] for line in charges(tmp_path / "whole") if "model" in line].count("labels") == 1
    assert [line["round"] for line in lines(tmp_path / "whole") if "labels" in line] == [2]
    study = study_file.parsed_study(text(LABELS))
    for line, given in zip(lines(tmp_path / "whole"), ((1,), (2, 1, 1), (3, 1, 1), (4, 2, 1), (5, 3, 1)), strict=True):
        assert line["epsilon"]["upper"] == promise.epsilon_after(study, 18, *given).upper
    shown = read_run(tmp_path / "whole")
    assert shown.account is not None
    assert shown.account.epsilon(1e-5).bounds.upper == pytest.approx(result["epsilon"]["upper"], rel=1e-6)
    assert facts.run_summary(shown)["labels"] == result["labels"] == lines(tmp_path / "whole")[1]["labels"]
    assert "class 2" in result_table(result)
    assert "class 2" in str(facts.outcome_facts(shown))
    drawn = figures.labels_figure(shown)
    assert drawn is not None
    assert "class 2: " in drawn[1]
    forecast = run_forecast(study_file.parsed_study(STUDY, overrides=[LABELS]))
    assert (forecast["bytes_up"], forecast["epsilon"]) == (result["bytes_up"], result["epsilon"])


def test_without_noise_the_labels_told_are_those_of_clients_records(tmp_path: Path) -> None:
    result = run(tmp_path / "run", "evaluation.labels={classes=3, epsilon=30.0}", "clients.records=1")
    own = prepared_study(study_file.read_study(str(tmp_path / "run" / "study.toml")))
    truth = np.bincount(own.pool.y[own.asked_about.of(np.arange(40)).reshape(-1)], minlength=3) / 40  # type: ignore[call-arg]
    found = result["labels"]["classes"]
    assert [each["share"] for each in found] == pytest.approx(truth.tolist())
    assert all(each["low"] <= share <= each["high"] for each, share in zip(found, truth, strict=True))


def test_labels_of_other_classes_than_the_data_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match="classes = 4, and the data have 3 classes"):
        run(tmp_path / "run", "evaluation.labels={classes=4, epsilon=1.0}")


def test_a_ledger_that_lost_the_labels_is_not_gone_on_with(tmp_path: Path) -> None:
    run(tmp_path / "run", LABELS)
    ledger = tmp_path / "run" / "ledger.jsonl"
    ledger.write_text("".join(line for line in ledger.read_text().splitlines(True) if '"labels"' not in line))
    with pytest.raises(FedprivError, match="lacks round 2, which was asked"):
        run(tmp_path / "run", LABELS, resume=True)


def test_a_budget_counts_the_label_and_stops_before_it(tmp_path: Path) -> None:
    study = study_file.parsed_study(text())
    told = study_file.parsed_study(text(LABELS))
    enough, less = promise.epsilon_after(told, 18, 2, 1, 1).upper, promise.epsilon_after(study, 18, 2, 1).upper
    assert run(tmp_path / "run", LABELS, f"privacy.budget={(enough + less) / 2}")["why"] == "budget"
    assert len(lines(tmp_path / "run")) == 1


def test_a_node_charges_a_label_and_all_its_clients_answer_those_without_records_too(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32))
    np.save(tmp_path / "y.npy", np.arange(12) % 3)
    terms = (
        'studies = "any"\nmechanisms = "any"\nclients = 20\nbudget = { epsilon = 1000.0, delta = 1e-5 }\n'
        f'classes = 3\ndata = {{ kind = "Arrays", path = "{tmp_path}", held_out = 2 }}\n'
    )

    def node() -> Node:
        return Node.of({"policy": str(tmp_path / "policy.toml"), "partition-id": 0, "num-partitions": 2})

    (tmp_path / "policy.toml").write_text(terms)
    model, held = np.zeros(18, np.float32), np.arange(20)
    reply = node().answer(text(LABELS), model, 1, held, asks="labels")
    assert node().answer(text(LABELS), model, 1, held, asks="labels") == reply
    own = study_file.parsed_study(text(LABELS))
    asking = Plan.of(own, 18).asking_labels
    assert asking is not None
    inbox = Inbox(asking.study, 1, 1, held)
    inbox.take(Answer(held, reply))
    assert inbox.symbols_told().sum() == inbox.answered == 20
    [charge] = charges(tmp_path / "ledger")
    [asked] = charge["events"]
    assert (asked["dimension"], asked["kind"], asked["settings"]["levels"]) == (1, "RandomisedResponse", 2)
    with pytest.raises(Refused, match=r"no \[evaluation\]"):
        node().answer(text(), model, 2, held, asks="labels")
    with pytest.raises(Refused, match="classes = 2, and this client's data have 3"):
        node().answer(text("evaluation.labels={classes=2, epsilon=2.0}"), model, 2, held, asks="labels")
    (tmp_path / "policy.toml").write_text(terms.replace('mechanisms = "any"', 'mechanisms = ["StochasticSign"]'))
    with pytest.raises(Refused, match="labels: RandomisedResponse is not among"):
        node().answer(text(LABELS), model, 2, held, asks="labels")
    assert len(charges(tmp_path / "ledger")) == 1


def test_a_ledger_that_lost_an_evaluation_is_not_gone_on_with(tmp_path: Path) -> None:
    run(tmp_path / "run")
    ledger = tmp_path / "run" / "ledger.jsonl"
    ledger.write_text("".join(line for line in ledger.read_text().splitlines(True) if "model" not in line))
    with pytest.raises(FedprivError, match="lacks round 2, which was asked"):
        run(tmp_path / "run", resume=True)


@pytest.mark.flower
def test_flowers_simulation_asks_for_the_same_answers_and_labels(tmp_path: Path) -> None:
    run(tmp_path / "here", LABELS)
    own = study_file.parsed_study(STUDY, overrides=[LABELS])
    launch.simulate_study(own, tmp_path / "flower", workers=1, cohorts=3, quiet=True)
    here, flower = ((tmp_path / each / "records.jsonl").read_bytes() for each in ("here", "flower"))
    assert flower == here


def test_each_rounds_epsilon_is_that_of_messages_and_answers_composed(tmp_path: Path) -> None:
    result = run(tmp_path / "run")
    study = study_file.parsed_study(text())
    assert [bool(line["evaluated"]) for line in lines(tmp_path / "run")] == [False, True, False, True, True]
    for line, answers in zip(lines(tmp_path / "run"), (0, 1, 1, 2, 3), strict=True):
        assert line["epsilon"]["upper"] == promise.epsilon_after(study, 18, line["round"], answers).upper
    assert result["epsilon"]["upper"] == promise.epsilon_in_all(study, 18).upper
    shown = read_run(tmp_path / "run")
    assert shown.account is not None
    assert shown.account.epsilon(1e-5).bounds.upper == pytest.approx(result["epsilon"]["upper"], rel=1e-6)


def test_the_accuracy_found_is_that_of_clients_records_within_its_interval(tmp_path: Path) -> None:
    loud = "evaluation.mechanism={kind='StochasticSign', scale=1.00000001}"  # hardly any noise but the coin of x
    run(tmp_path / "run", loud, "clients.count=60", "evaluation.held_out=0", "run.seed=3")
    found = lines(tmp_path / "run")[-1]["evaluated"]
    assert found["answered"] == 60
    own = prepared_study(study_file.read_study(str(tmp_path / "run" / "study.toml")))
    with np.load(tmp_path / "run" / "checkpoint.npz") as file:
        weights = np.array(file["weights"], np.float32)
    numbers = own.asked_about.of(np.arange(60)).reshape(-1)  # type: ignore[call-arg]
    x, y = own.pool.batch(numbers[None])
    truth = own.net.evaluate(weights, x[0], y[0])[0]
    assert found["low"] <= truth <= found["high"]
    assert abs(found["accuracy"] - truth) < 4 * found["error"]


def test_what_is_held_out_is_in_nobodys_training() -> None:
    own = prepared_study(study_file.parsed_study(text("evaluation.held_out=2")))
    clients = np.arange(40)
    trained, asked = own.division.of(clients), own.asked_about.of(clients)  # type: ignore[call-arg]
    assert (trained.shape, asked.shape) == ((40, 3), (40, 2))
    assert not set(trained.reshape(-1)) & set(asked.reshape(-1))


def test_two_models_of_one_round_are_asked_about_under_different_noise() -> None:
    own = cohort.Cohort(prepared_study(study_file.parsed_study(text())))
    who = np.arange(40)
    one, two = np.zeros(18, np.float32), np.full(18, 1e-30, np.float32)
    assert own.answers(one, 1, who) == own.answers(one, 1, who)
    assert own.answers(one, 1, who) != own.answers(two, 1, who)  # both get the same records right


def test_nothing_of_the_servers_records_is_told_where_only_answers_are_to_be(tmp_path: Path) -> None:
    result = run(tmp_path / "run", "evaluation.public=false")
    assert result["accuracy"] is None
    assert 0 < result["evaluated"]["answered"] == 40
    assert all(line["accuracy"] is None and line["loss"] is None for line in lines(tmp_path / "run"))
    assert "none is measured on records of the server's" in result_table(result)


def test_whose_records_accuracy_is_measured_on_is_said_everywhere(tmp_path: Path) -> None:
    said = "on the 50 records the server holds out, which are treated as public"
    result = run(tmp_path / "run")
    shown = read_run(tmp_path / "run")
    told = [result["accuracy_is"], result_table(result), " ".join(facts.promise_sentences(shown))]
    told += [str(facts.outcome_facts(shown)), facts.run_summary(shown)["accuracy_is"]]
    forecast = run_forecast(study_file.parsed_study(STUDY))
    assert all(said in each for each in [*told, run_forecast_table(forecast)])
    assert forecast["bytes_up"] == result["bytes_up"]
    assert forecast["epsilon"] == result["epsilon"]
    drawn = figures.answers_figure(shown)
    assert drawn is not None
    assert "19 times in 20" in drawn[1]


def test_a_budget_counts_answers_and_stops_before_them(tmp_path: Path) -> None:
    study = study_file.parsed_study(text())
    enough, less = (promise.epsilon_after(study, 18, 4, answers).upper for answers in (2, 1))
    assert run(tmp_path / "run", f"privacy.budget={(enough + less) / 2}")["why"] == "budget"
    assert len(lines(tmp_path / "run")) == 3  # round 4 has an evaluation, which is not paid for
    assert lines(tmp_path / "run")[-1]["epsilon"]["upper"] < enough


def test_a_budget_of_a_message_without_its_answer_is_refused(tmp_path: Path) -> None:
    message, both = (promise.epsilon_after(study_file.parsed_study(text()), 18, 1, each).upper for each in (0, 1))
    with pytest.raises(FedprivError, match="pays for a message and not for an answer"):
        run(tmp_path / "run", f"privacy.budget={(message + both) / 2}")


def test_a_run_goes_on_until_answers_prove_the_accuracy_that_is_enough(tmp_path: Path) -> None:
    result = run(tmp_path / "run", "evaluation.public=false", "evaluation.every=1", "run.stop.accuracy=0.5")
    found = [line["evaluated"] for line in lines(tmp_path / "run")]
    assert max(each["accuracy"] for each in found) > 0.5 > max(each["low"] for each in found)
    assert result["why"] == "finished"


def test_answers_that_are_too_few_are_charged_and_tell_nothing(tmp_path: Path) -> None:
    class Silent(Here):
        def ask(self, task: Task) -> Iterator[Answer]:
            return iter([Answer(task.clients, None, "away")]) if task.asks == "right" else super().ask(task)

    result = run(tmp_path / "run", driver=Silent())
    assert result["evaluated"] is None
    assert result["epsilon"]["upper"] == promise.epsilon_in_all(study_file.parsed_study(text()), 18).upper


def test_byzantine_clients_could_have_moved_it_by_so_much(tmp_path: Path) -> None:
    result = run(tmp_path / "run", "clients.byzantine=4", "attack.kind=SignFlip")
    assert result["evaluated"]["lied"] == pytest.approx(4 / 40 * 2.0)


def test_a_nodes_ledger_is_charged_for_answers_and_a_question_asked_again_gets_the_same_one(tmp_path: Path) -> None:
    terms = 'studies = "any"\nmechanisms = "any"\nbudget = { epsilon = 40.0, delta = 1e-5 }\n'
    (tmp_path / "policy.toml").write_text(terms)
    node = Node.of({"policy": str(tmp_path / "policy.toml"), "partition-id": 0, "num-partitions": 2})
    model, held = np.zeros(18, np.float32), np.arange(20)
    message = node.answer(text(), model, 1, held)
    first = node.answer(text(), model, 1, held, asks="right")
    assert first != message
    assert node.answer(text(), model, 1, held, asks="right") == first
    other = text("privacy.mechanism.scale=5.0")
    assert node.answer(other, model, 1, held, asks="right") != first  # another study's evaluation
    with pytest.raises(Refused, match="answered already, to another model"):
        node.answer(text(), model + 1, 1, held, asks="right")
    ledger = [json.loads(line) for line in (tmp_path / "ledger" / "ledger.jsonl").read_text().splitlines()][1:]
    [asked] = ledger[1]["events"]
    assert (len(ledger) - 1, asked["dimension"], asked["settings"]["scale"]) == (2, 1, 2.0)
    with pytest.raises(Refused, match=r"no \[evaluation\]"):
        node.answer(study_file.study_text(study_file.parsed_study(STUDY.replace("evaluation =", "# "))), model, 1, held,
                    asks="right")  # fmt: skip
    (tmp_path / "policy.toml").write_text(terms.replace('mechanisms = "any"', 'mechanisms = ["Binomial"]'))
    with pytest.raises(Refused, match="mechanisms"):
        Node.of({"policy": str(tmp_path / "policy.toml"), "partition-id": 0, "num-partitions": 2}).answer(
            text(), model, 2, held, asks="right"
        )


def test_a_node_whose_labels_are_numbers_refuses_an_evaluation_before_its_charge(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "policy.toml").write_text(
        'studies = "any"\nmechanisms = "any"\nbudget = { epsilon = 40.0, delta = 1e-5 }\n'
        f'data = {{ kind = "Arrays", path = "{tmp_path}", labels = "numbers", held_out = 2 }}\n'
    )
    node = Node.of({"policy": str(tmp_path / "policy.toml"), "partition-id": 0, "num-partitions": 2})
    said = set()
    for y in (np.arange(12.0), np.ones(12)):
        np.save(tmp_path / "y.npy", y.astype(np.float32))
        with pytest.raises(Refused, match="labels here are numbers") as caught:
            node.answer(text(), np.zeros(18, np.float32), 1, np.arange(20), asks="right")
        said.add(str(caught.value))
    assert len(said) == 1
    assert not (tmp_path / "ledger" / "ledger.jsonl").exists() or not charges(tmp_path / "ledger")


def test_an_answer_that_is_no_number_is_sent_as_nothing_right_or_wrong() -> None:
    own = cohort.Cohort(prepared_study(study_file.parsed_study(text())))
    model = np.zeros(18, np.float32)
    own._share_right = lambda *_: np.nan  # type: ignore[method-assign]
    nan = own.answers(model, 1, np.arange(20))
    own._share_right = lambda *_: 0.0  # type: ignore[method-assign]
    assert nan == own.answers(model, 1, np.arange(20))


def test_an_honest_answer_decodes_to_what_was_answered() -> None:
    study = study_file.parsed_study(text())
    asking = Plan.of(study, 18).asking
    assert asking is not None
    assert asking.mechanism == StochasticSign(clip=1.0, scale=2.0)
    assert (asking.dimension, asking.study.id) != (18, study.id)
