"""What attackers know is what their study says, worked out once a round, the same for any division into cohorts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest import approx
from spies import NOTES, STUDY, Counts

from fedpriv import wire
from fedpriv.mechanisms import StochasticSign
from fedpriv.packed.symbols import packing_of
from fedpriv.population.participation import byzantine_clients
from fedpriv.studies import file as study_file
from server import rounds
from server.rounds.driver import Answer, Task
from simulations.runs.direct import Here

PLAIN = "privacy.mechanism={kind='Plain', clip=1.0}"
SECURE = ["privacy.trust=secure-aggregation", "aggregation={kind='Mean'}"]


def study(*overrides: str) -> study_file.Study:
    return study_file.parsed_study(STUDY, name="attacked.toml", overrides=overrides)


def run(directory: Path, *overrides: str, cohorts: int = 1, driver: Any = None) -> dict[str, Any]:
    return rounds.run_rounds(study(*overrides), directory, driver or Here(cohorts), quiet=True)


def content(directory: Path) -> bytes:
    return (directory / "records.jsonl").read_bytes()


def weights(directory: Path) -> np.ndarray:
    with np.load(directory / "checkpoint.npz") as file:
        return np.array(file["weights"])


DIVIDED = {
    "own records": ["attack.kind=LabelFlip", "training={batch=3, local_steps=2}"],
    "own, noisy records of uneven clients": ["attack.kind=FeatureNoise", "clients.split={kind='Dirichlet', alpha=0.5}"],
    "byzantine": ["attack.kind=Alie"],
    "everything": ["attack={kind='MinMax', knowledge='everything'}"],
    "everything, every attacker its own": ["attack={kind='FangTrim', knowledge='everything'}"],
    "messages": ["attack.kind=OmniscientVote", "aggregation.kind=MajorityVote", "server.step=0.01"],
    "the chain": ["attack.kind=OptAlie", "clients.participation={kind='Fixed', number=40}"],
    "floats": ["attack.kind=OptIpm", PLAIN],
    "residues": ["attack.kind=Residue", *SECURE],
    "a guess": ["attack={kind='VoteAgainst', knowledge='byzantine', probability=0.7}"],
}


@pytest.mark.parametrize("name", DIVIDED)
def test_records_are_the_same_bytes_for_any_division_into_cohorts(name: str, tmp_path: Path) -> None:
    for cohorts in (1, 2, 5):
        result = run(tmp_path / str(cohorts), *DIVIDED[name], cohorts=cohorts)
    assert content(tmp_path / "1") == content(tmp_path / "2") == content(tmp_path / "5")
    assert (weights(tmp_path / "1") == weights(tmp_path / "5")).all()
    assert result["failed"] == result["rejected"] == {}
    assert result["skipped"] == 0
    run(tmp_path / "none", *[each for each in DIVIDED[name] if "attack" not in each], "clients.byzantine=0")
    assert (weights(tmp_path / "none") != weights(tmp_path / "1")).any()


@pytest.fixture(autouse=True)
def _nothing_noted() -> Iterator[None]:
    NOTES.clear()
    Counts.trained = 0
    yield
    NOTES.clear()


def attacked_by(spy: str, knowledge: str) -> list[str]:
    return [f"attack={{kind='spies:{spy}', knowledge='{knowledge}'}}", "run.rounds=1", "server.step=1"]


@pytest.mark.parametrize(("knowledge", "rows"), [("own", 1), ("byzantine", 12), ("everything", 48)])
def test_an_attacker_sees_as_many_updates_as_it_may_know(knowledge: str, rows: int, tmp_path: Path) -> None:
    run(tmp_path, *attacked_by("Looks", knowledge))
    assert len(NOTES) == 12
    for asked, byzantine, known, progress in NOTES:
        assert (asked, byzantine, known.shape) == (60, 12, (rows, 650))
        assert (np.linalg.norm(known, axis=1) <= 1).all()
        assert not progress.any()
    same = all(known.tobytes() == NOTES[0][2].tobytes() for _, _, known, _ in NOTES)
    assert same == (knowledge != "own")


@pytest.mark.parametrize("knowledge", ["own", "byzantine"])
@pytest.mark.parametrize("spy", ["Foresees", "LooksAtMessages"])
def test_what_the_study_does_not_allow_cannot_be_seen(spy: str, knowledge: str, tmp_path: Path) -> None:
    result = run(tmp_path, *attacked_by(spy, knowledge))
    assert result["failed"] == {"attack": 12}
    assert f"knowledge = '{knowledge}' does not reach" in content(tmp_path).decode()
    assert result["skipped"] == 0
    assert not NOTES


CHAINS = {
    "trimmed mean": [],
    "sums": ["aggregation={kind='Mean'}"],
    "votes": ["aggregation={kind='MajorityVote', ties='random'}"],
    "a chain that draws": ["aggregation={kind='Median', before=[{kind='Bucketing', size=2}]}"],
    "a norm-trimmed sum": ["aggregation={kind='NormTrimmedSum', dropped=12}"],
    "the server's own update": ["aggregation={kind='FlTrust', root=30}", "data.aside=30"],
    "floats": [PLAIN],
    "signs without a decoder": [
        "privacy.mechanism={kind='NoisySign', clip=1.0, noise=0.2}", "aggregation.kind=MajorityVote"
    ],
    "a grid without end": [
        "privacy.mechanism={kind='Skellam', clip=1.0, levels=40, noise=0.3}", "aggregation.kind=MajorityVote"
    ],
    "some of the clients": ["clients.participation={kind='Fixed', number=35}"],
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_what_is_foreseen_is_what_the_server_does(name: str, tmp_path: Path) -> None:
    chosen = [*CHAINS[name], *attacked_by("Foresees", "everything")]
    run(tmp_path, *chosen, cohorts=3)
    assert all((each == NOTES[0]).all() for each in NOTES)
    start = weights_before(tmp_path / "before", *chosen)
    assert NOTES[0].any()
    assert start - weights(tmp_path) == approx(NOTES[0], abs=1e-12)


def weights_before(directory: Path, *overrides: str) -> np.ndarray:
    """Where the model starts: nobody answers, so nothing moves."""

    class Deaf(Here):
        def ask(self, task: Task) -> Iterator[Answer]:
            return iter(())

    run(directory, *overrides, driver=Deaf())
    return weights(directory)


class Listens(Here):
    """Two cohorts, and what each client has sent."""

    def __init__(self) -> None:
        super().__init__(2)
        self.heard: dict[int, bytes] = {}

    def ask(self, task: Task) -> Iterator[Answer]:
        for answer in super().ask(task):
            chosen = study_file.parsed_study(task.study)
            expected = wire.Expected(chosen.id, task.round, answer.asked, task.weights.size, chosen.privacy.drawn_by)
            for frame in wire.frames_of(answer.content or b"")[0]:
                found = wire.opened_frame(frame, expected)
                assert isinstance(found, wire.Messages)
                self.heard |= {int(c): row.tobytes() for c, row in zip(found.clients, found.payload, strict=True)}
            yield answer


def test_the_messages_foreseen_are_exactly_those_sent(tmp_path: Path) -> None:
    driver = Listens()
    run(tmp_path, *attacked_by("LooksAtMessages", "everything"), driver=driver)
    foreseen = [row.tobytes() for row in packing_of(study().privacy.drawn_by).pack(NOTES[0])]
    byzantine = byzantine_clients(60, 12, seed=1)
    assert foreseen == [driver.heard[client] for client in range(60) if client not in byzantine]


def test_honest_clients_send_the_same_whatever_the_attackers_know_and_do(tmp_path: Path) -> None:
    heard = []
    for kind in ("SignFlip", "OptAlie", "OmniscientVote", "LabelFlip"):
        driver = Listens()
        run(tmp_path / kind, f"attack.kind={kind}", "run.rounds=1", driver=driver)
        heard.append(driver.heard)
    differ = [client for client in range(60) if len({each[client] for each in heard}) > 1]
    assert differ == byzantine_clients(60, 12, seed=1).tolist()


@pytest.mark.parametrize("cohorts", [1, 4])
@pytest.mark.parametrize(("attack", "more"), [("SignFlip", 0), ("Alie", 12), ("OmniscientVote", 48)])
def test_what_is_known_is_worked_out_once_a_round(attack: str, more: int, cohorts: int, tmp_path: Path) -> None:
    model = "training.model={kind='Module', path='spies:Counts'}"
    run(tmp_path, model, f"attack.kind={attack}", "run.evaluate_every=9", cohorts=cohorts)
    assert Counts.trained == 3 * (60 + more) + 3  # of which three are the check that clients are apart


def test_on_a_retry_attackers_think_of_all_who_were_asked_at_first(tmp_path: Path) -> None:
    class Flaky(Here):
        """Every second time, the second half is lost."""

        calls = 0

        def ask(self, task: Task) -> Iterator[Answer]:
            for place, answer in enumerate(super().ask(task)):
                lost = self.calls % 2 == 0 and place == 1
                yield Answer(answer.asked, None, "lost: the network") if lost else answer
            self.calls += 1

    chosen = ["attack.kind=OptAlie", "server.fewest=60"]
    run(tmp_path / "well", *chosen)
    run(tmp_path / "flaky", *chosen, driver=Flaky(2))
    assert (weights(tmp_path / "well") == weights(tmp_path / "flaky")).all()


@pytest.mark.parametrize(
    "attack", ["kind='Alie'", "kind='MinMax', knowledge='everything'", "kind='OptIpm'", "kind='Mimic'"]
)
def test_rounds_without_an_attacker_or_with_one_are_rounds_like_others(attack: str, tmp_path: Path) -> None:
    few = [
        "clients.byzantine=6",
        "clients.participation={kind='Fixed', number=8}",
        "run.rounds=12",
        "aggregation.kind=Mean",
    ]
    result = run(tmp_path, f"attack={{{attack}}}", *few)
    assert result["failed"] == {}
    assert result["skipped"] == 0


def test_a_round_that_asks_attackers_alone_teaches_them_nothing(tmp_path: Path) -> None:
    few = [
        "clients.byzantine=59",
        "clients.participation={kind='Fixed', number=2}",
        "run.rounds=3",
        "aggregation.kind=Mean",
    ]
    result = run(tmp_path, "attack={kind='Ipm', knowledge='everything'}", *few)
    assert result["skipped"] > 0
    assert "knowledge = 'everything' shows no update in this round" in content(tmp_path).decode()


@pytest.mark.parametrize("spy", ["NoSymbols", "Breaks"])
def test_symbols_outside_the_alphabet_and_records_that_break_fail_their_attacker(spy: str, tmp_path: Path) -> None:
    result = run(tmp_path, f"attack.kind=spies:{spy}", "training={batch=2, local_steps=2}")
    assert result["failed"] == {"attack": 36}
    assert result["skipped"] == 0


@pytest.mark.parametrize("spy", ["TurnsTheMean", "TurnsTheKnown"])
def test_an_attacker_cannot_change_what_others_see(spy: str, tmp_path: Path) -> None:
    result = run(tmp_path, f"attack={{kind='spies:{spy}', knowledge='byzantine'}}")
    assert result["failed"] == {"attack": 36}
    assert "read-only" in content(tmp_path).decode()


# --- rules of others ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("number", " must give 650 finite numbers, got an array of shape ()"),
        ("nan", " must give 650 finite numbers, got some that are not finite"),
        ("raises", ": ZeroDivisionError: integer division or modulo by zero"),
    ],
)
def test_a_rule_whose_answer_is_no_direction_only_later_costs_its_rounds(answer: str, why: str, tmp_path: Path) -> None:
    result = run(tmp_path, f"aggregation={{kind='spies:Rule', answer='{answer}'}}")
    assert result["skipped"] == 3
    assert f"aggregation spies:Rule{why}" in content(tmp_path).decode()


# --- what it does to a model --------------------------------------------------------------------------------------


MODELS = ["{kind='Logistic'}", "{kind='Mlp', hidden=[8]}", "{kind='Cnn'}", "{kind='Module', path='spies:Counts'}"]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "attack", ["kind='LabelFlip'", "kind='FeatureNoise'", "kind='TargetedFlip', source=0, target=1"]
)
@pytest.mark.parametrize("model", MODELS)
def test_changed_records_change_what_attackers_send_and_nobody_else(
    model: str, attack: str, plain: bool, tmp_path: Path
) -> None:
    chosen = [f"training.model={model}", *([PLAIN] if plain else []), "run.rounds=1"]
    heard = []
    for own in (attack, "kind='SignFlip', factor=1e-30"):
        driver = Listens()
        run(tmp_path / str(len(heard)), f"attack={{{own}}}", *chosen, driver=driver)
        heard.append(driver.heard)
    differ = {client for client in range(60) if heard[0][client] != heard[1][client]}
    assert differ
    assert differ <= set(byzantine_clients(60, 12, seed=1).tolist())


def test_a_single_client_beyond_the_alphabet_does_what_many_within_it_cannot(tmp_path: Path) -> None:
    one = ["clients.byzantine=1", "run.rounds=10", "server.step=4", *SECURE]
    residue = run(tmp_path / "residue", "attack.kind=Residue", *one)
    symbols = run(tmp_path / "symbols", "attack.kind=OutputPoisoning", *one)
    assert residue["rejected"] == residue["failed"] == {}
    assert symbols["accuracy"] > residue["accuracy"] + 0.2


def test_a_sum_is_any_residue_under_secure_aggregation_alone() -> None:
    sign, clients = StochasticSign(clip=1, scale=2), np.arange(3)
    frame = wire.sum_frame(b"eightful", 1, clients, np.array([3, 1, 3]))
    beyond = wire.sum_frame(b"eightful", 1, np.arange(2), np.array([4, 4, 4]))
    for masked, frames in ((None, [frame]), (3, [frame, beyond])):
        for each in frames:
            wire.opened_frame(each, wire.Expected(b"eightful", 1, clients, 3, sign, masked))
    with pytest.raises(wire.Rejected, match="alphabet"):
        wire.opened_frame(beyond, wire.Expected(b"eightful", 1, clients, 3, sign))
    too_far = wire.sum_frame(b"eightful", 1, np.arange(2), np.array([4, 4, 6]))
    with pytest.raises(wire.Rejected, match="alphabet"):
        wire.opened_frame(too_far, wire.Expected(b"eightful", 1, clients, 3, sign, 3))
    symbols = wire.messages_frame(b"eightful", 1, clients[:1], np.full((1, 1), 255, np.uint8), 3, sign)
    with pytest.raises(wire.Rejected, match="alphabet"):
        wire.opened_frame(symbols, wire.Expected(b"eightful", 1, clients, 3, sign, 3))
