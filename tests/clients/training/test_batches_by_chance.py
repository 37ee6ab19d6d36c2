"""Batches that a record is in by chance: what a message is a function of, what it costs a record, and whole runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from torch import Tensor, nn

from clients.data.pool import Pool
from clients.data.splits import Division, Uneven, records_of
from clients.training.chance import Drawn, Step, drawn_by_chance
from clients.training.cohort import Cohort, cohort_reply
from clients.training.prepared import Prepared, prepared_study
from fedpriv import wire
from fedpriv.accounting.account import Account
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.studies.plan import Plan
from fedpriv.studies.study import Study
from fedpriv.trust import Local
from server.rounds import planned
from simulations.audit.sources import source_of
from simulations.audit.trials import Source

STUDY = """
data.kind = "Digits"
clients = { count = 14, records = 100 }
training.sampling = 0.01
privacy = { unit = "record", mechanism = { kind = "Binomial", clip = 1.0, peak = 0.2, scale = 2.0, trials = 4 } }
run.rounds = 16
"""
UNSAMPLED = STUDY.replace("training.sampling = 0.01\n", "")
OFTEN = "training.sampling=0.3"
WEIGHTS = np.random.default_rng(3).normal(0, 0.1, 650).astype(np.float32)
MEETS = "tests.clients.training.test_release_in_client:normed"
SPLITS = ["iid", "by-label", '{kind="Dirichlet", alpha=0.5}']


def study(*overrides: str, text: str = STUDY) -> Study:
    return study_file.parsed_study(text, overrides=overrides)


def costs(*overrides: str) -> dict[str, tuple[float, float]]:
    """ε of a run's rounds for each unit, from below and from above."""
    own = calibrated_study(study(*overrides), 650)
    found = Plan.of(own, 650).epsilons(own.run.rounds)
    return {unit: (each["epsilon"]["lower"], each["epsilon"]["upper"]) for unit, each in found.items()}


def messages(own: Study, prepared: Prepared | None = None, asked: Any = None, factor: float = 1.0) -> bytes:
    cohort, weights = Cohort(prepared or prepared_study(own)), (factor * WEIGHTS).astype(np.float32)
    return cohort.reply(weights, 1, np.arange(own.clients.count) if asked is None else np.asarray(asked))


def with_pool(own: Study, change: Any) -> Prepared:
    """A study's preparation, its records changed."""
    before = prepared_study(own)
    x, y = before.pool.x.astype(np.float32), before.pool.y.copy()
    change(x, y)
    kept = before.pool
    pool = Pool(x, y, kept.x_test, kept.y_test, kept.classes, kept.divide, kept.subtract)
    return Prepared(before.plan, pool, before.net, before.division)


def absent(own: Study, division: Division) -> np.ndarray:
    """The numbers of the records that nobody has drawn in any step of round 1."""
    clients = np.arange(own.clients.count)
    drawn = drawn_by_chance(own, division, "seeded", 1, clients)
    held = [records_of(division, client) for client in clients.tolist()]
    missed = [~drawn.drew(place) for place in range(max(map(len, held)))]
    return np.array(
        [own[place] for client, own in enumerate(held) for place in range(len(own)) if missed[place][client]]
    )


@pytest.mark.parametrize(
    ("overrides", "epsilon"),
    [
        ([], 5.493048), (["privacy.adjacency=add-remove"], 5.462158),
        (["training.local_steps=2"], 7.23409), (["training.local_steps=5"], 11.28590),
    ],
)  # fmt: skip
def test_a_record_costs_what_theory_says_and_the_client_beside_it(overrides: list[str], epsilon: float) -> None:
    found = costs(*overrides)
    assert list(found) == ["record", "client"]
    assert epsilon <= found["record"][1] * (1 + 1e-9) <= epsilon * 1.00001
    assert found["record"][0] < found["record"][1] < found["client"][0]
    assert found["client"][1] == pytest.approx(69.12848, rel=1e-5)


@pytest.mark.parametrize("name", ["fashion-records", "examples/fashion_curator.toml"])
def test_the_studies_that_show_what_locality_costs_promise_a_record_the_same(name: str) -> None:
    own = calibrated_study(study_file.read_study(name), 7850)
    plan = Plan.of(own, 7850)
    assert plan.event().unit == "record"
    assert 7.9 < plan.epsilon(plan.releases_of_worst).upper <= own.privacy.epsilon == 8.0


def test_a_clients_promise_says_nothing_of_records_which_nobody_has_checked() -> None:
    by_record = costs()
    assert costs("privacy.unit=client") == {}
    assert costs("privacy.trust=secure-aggregation")["record"][1] < by_record["record"][1] / 2


@given(q=st.floats(1e-6, 1.0), steps=st.integers(1, 50))
def test_the_chance_of_a_part_in_a_message_is_rounded_up_and_no_further(q: float, steps: int) -> None:
    from fractions import Fraction

    met = study(f"training.sampling={q!r}", f"training.local_steps={steps}").training.met
    exact = 1 - (1 - Fraction(q)) ** steps
    assert exact <= Fraction(met) <= exact * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("more", [[], ["training.local_steps=3"], ['training.divisor="expected"']])
def test_what_was_not_drawn_changes_no_bit_of_any_message(split: str, more: list[str]) -> None:
    """The theorem's premise: a record that is not drawn leaves the message as it was, whatever the record is."""
    own = planned(study(OFTEN, f"clients.split={split}", "clients.records=60", *more)).study
    others = absent(own, prepared_study(own).division)
    assert len(others) > 100

    def spoil(x: np.ndarray, y: np.ndarray) -> None:
        x[others], y[others] = 3e38, 9 - y[others]

    assert messages(own, with_pool(own, spoil)) == messages(own)
    drawn = np.setdiff1d(np.arange(len(prepared_study(own).pool)), others)

    def move(x: np.ndarray, y: np.ndarray) -> None:
        x[drawn] = 16 - x[drawn]

    assert messages(own, with_pool(own, move)) != messages(own)


@pytest.mark.parametrize("more", [1, 2, 5])
def test_how_many_records_were_not_drawn_changes_no_bit(more: int) -> None:
    """A product as wide as what a client has would round otherwise: its width is that of the batch alone."""
    own = planned(study("training.sampling=0.9", "clients.count=1", "clients.records=100")).study
    prepared = prepared_study(own)
    found = []
    for count in (15, 15 + more):
        division = Uneven(np.arange(count), np.array([0, count]))
        drawn = Drawn(np.zeros(1, np.int64), (Step(np.zeros(15, np.int64), np.arange(15)),), np.array([[15]]))
        (numbers,) = drawn.records(division, int(drawn.widths[0]))
        (x, y), *_ = drawn.alone(iter([prepared.pool.batch(numbers)]))
        out = np.empty((1, 650), np.float32)
        prepared.net.updates(WEIGHTS, [(x, y)], 0.1, out, None, drawn.counts)
        found.append((x.shape, out))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])


class Keeps(nn.Linear):
    """Adds to a client's scores what it has seen of the client before."""

    def __init__(self) -> None:
        super().__init__(64, 10)
        self.last = None

    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x.flatten(1))
        out, self.last = out if self.last is None else out + self.last, x.detach().sum()
        return out


@pytest.mark.parametrize("unit", ["client", "record"])
def test_a_model_that_remembers_the_clients_before_is_refused(unit: str) -> None:
    path = "tests.clients.training.test_batches_by_chance:Keeps"
    with pytest.raises(FedprivError, match="depends on the clients before it: no ε would hold"):
        planned(study(f"training.model={{kind='Module', path='{path}'}}", f"privacy.unit={unit}"))


def test_attackers_foresee_what_clients_without_a_gradient_send() -> None:
    own = planned(study(OFTEN, "clients.byzantine=2", "attack={kind='Ipm', knowledge='everything'}")).study

    def spoil(x: np.ndarray, y: np.ndarray) -> None:
        x[:] = 3e38

    cohort = Cohort(with_pool(own, spoil))
    frames, failed = wire.frames_of(cohort.reply((1e6 * WEIGHTS).astype(np.float32), 1, np.arange(14)))
    assert frames
    assert set(failed) == set(cohort.byzantine.clients.tolist())  # an attacker's own silence tells of nobody else
    assert len(cohort._insight.known) == 12  # type: ignore[union-attr]


@pytest.mark.parametrize("q", [1e-300, 1e-12, 1e-9, 0.9999999999999999])
@pytest.mark.parametrize("kind", ["Binomial", "DiscreteGaussian"])
def test_a_record_never_costs_more_than_its_client(kind: str, q: float) -> None:
    other = "privacy.mechanism={kind='DiscreteGaussian', clip=1.0, levels=4, noise=20.0}"
    found = costs(f"training.sampling={q}", *([other] if kind == "DiscreteGaussian" else []))
    assert found["record"][0] <= found["record"][1] <= found["client"][1] * (1 + 1e-9)


def test_a_record_that_breaks_a_gradient_is_not_told_by_silence() -> None:
    own = planned(study(OFTEN)).study

    def spoil(x: np.ndarray, y: np.ndarray) -> None:
        x[:] = 3e38

    frames, failed = wire.frames_of(messages(own, with_pool(own, spoil), factor=1e6))
    assert not failed
    frames_of_zero, _ = wire.frames_of(Cohort(prepared_study(own)).reply(WEIGHTS * 0, 1, np.arange(14)))
    assert len(frames[0]) == len(frames_of_zero[0])
    by_client = planned(study(OFTEN, "privacy.unit=client")).study
    assert wire.frames_of(messages(by_client, with_pool(by_client, spoil), factor=1e6))[
        1
    ]  # whose silence costs no more than it


@pytest.mark.parametrize("split", SPLITS)
def test_a_message_is_the_same_bits_whoever_else_is_asked(split: str) -> None:
    own = planned(study(OFTEN, f"clients.split={split}", "training.local_steps=2", "aggregation.kind=Median")).study
    shape = wire.Expected(own.id, 1, np.arange(14), 650, own.privacy.drawn_by, own.masked)
    (whole,) = (wire.opened_frame(frame, shape) for frame in wire.frames_of(messages(own))[0])
    assert isinstance(whole, wire.Messages)
    for client in (0, 5, 13):
        alone = wire.Expected(own.id, 1, np.array([client]), 650, own.privacy.drawn_by, own.masked)
        (one,) = (wire.opened_frame(frame, alone) for frame in wire.frames_of(messages(own, asked=[client]))[0])
        assert isinstance(one, wire.Messages)
        np.testing.assert_array_equal(one.payload[0], whole.payload[client])


@pytest.mark.parametrize("source", ["seeded", "cryptographic"])
@pytest.mark.parametrize("q", [0.07, 0.5, 1.0])
def test_each_record_is_drawn_with_its_chance_and_by_itself(source: Any, q: float) -> None:
    own = study(f"training.sampling={q}", "training.local_steps=5")
    division = prepared_study(planned(own).study).division
    counts = np.concatenate([
        drawn_by_chance(own, division, source, round, np.arange(14)).counts.ravel() for round in range(1, 31)
    ])  # 2,100 batches of 100 records  # fmt: skip
    if q == 1:
        assert (counts == 100).all()
        return
    mean, variance = counts.mean(), counts.var()
    assert abs(mean - 100 * q) < 5 * np.sqrt(100 * q * (1 - q) / counts.size)
    assert variance == pytest.approx(100 * q * (1 - q), rel=0.2)
    assert binom(100, q).sf(counts.max()) > 1e-9


def test_private_draws_cannot_be_made_again_and_seeded_ones_can() -> None:
    own = study(OFTEN)
    division = prepared_study(planned(own).study).division
    same = [drawn_by_chance(own, division, "seeded", 1, np.arange(14)).steps[0].places for _ in range(2)]
    other = [drawn_by_chance(own, division, "cryptographic", 1, np.arange(14)).counts for _ in range(2)]
    np.testing.assert_array_equal(*same)
    assert (other[0] != other[1]).any()


def test_a_batch_is_divided_by_its_number_or_by_what_is_expected() -> None:
    """Two routes: the sum of the drawn records' gradients, one by one."""
    own, alike = (study(OFTEN, f"training.divisor={word}", "privacy.unit=client") for word in ("drawn", "expected"))
    found = {}
    for each in (own, alike):
        prepared = prepared_study(planned(each).study)
        out = np.empty((14, 650), np.float32)
        assert not Cohort(prepared)._train(WEIGHTS, 1, np.arange(14), out)
        found[each.training.divisor] = out
    drawn = drawn_by_chance(own, prepared.division, "seeded", 1, np.arange(14))
    for client in range(14):
        step = drawn.steps[0]
        numbers = records_of(prepared.division, client)[step.places[step.rows == client]]
        x, y = prepared.pool.batch(numbers[None])
        rows = np.empty((len(numbers), 650), np.float32)
        prepared.net.each(WEIGHTS, x[0], y[0], rows)
        np.testing.assert_allclose(found["drawn"][client], rows.mean(axis=0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found["expected"][client], rows.sum(axis=0) / 30, rtol=1e-4, atol=1e-5)


def test_an_empty_batch_is_a_message_like_any_other() -> None:
    own = planned(study("training.sampling=1e-9")).study
    frames, failed = wire.frames_of(cohort_reply(study_file.study_text(own), WEIGHTS, 1, np.arange(14)))
    assert not failed
    assert len(frames) == 1


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (["drop"], "needs training.sampling"),
        (["drop", "training.batch=10"], "training.batch = 10 is drawn from the seed"),
        (["training.batch=10"], "batch = 10 and sampling = 0.01: give one of them"),
        (["training.sampling=0.0"], "sampling"),
        (["training.sampling=1.5"], "sampling"),
        (["training.sampling=nan"], "sampling"),
        (["training.divisor=mean"], "divisor"),
        (["drop", "training.divisor=expected", "privacy.unit=client"], "divisor"),
        (["privacy.unit=person"], "unit"),
        (["privacy.unit=client", "privacy.adjacency=add-remove"], "adjacency 'add-remove' is not that of a client's"),
        (["privacy.mechanism={kind='Plain'}"], "a Plain message promises nothing to any record"),
        (["privacy.trust=central", "privacy.mechanism={kind='Plain', clip=1.0}",
          "aggregation={kind='PrivateMean', epsilon=1.0}"], "hides clients"),
        (["privacy.release={kind='DpSgd', clip=1.0, noise=1.0, sampling=0.1}"], "a release draws its own batch"),
        (["privacy.release={kind='DpSgd', clip=1.0, noise=1.0, sampling=0.1}", "privacy.unit=client",
          "drop"], "DpSgd protects records, not clients"),
    ],
)  # fmt: skip
def test_what_promises_a_record_nothing_is_refused_in_one_line(overrides: list[str], why: str) -> None:
    text = UNSAMPLED if "drop" in overrides else STUDY
    with pytest.raises(FedprivError, match=why) as error:
        study(*(each for each in overrides if each != "drop"), text=text)
    assert "\n" not in str(error.value)


def test_a_record_at_several_clients_and_models_in_which_records_meet_are_refused() -> None:
    with pytest.raises(FedprivError, match="a record may be at several clients"):
        planned(study("clients.split=pool"))
    with pytest.raises(FedprivError, match="takes its statistics from the batch"):
        planned(study(f"training.model={{kind='Module', path='{MEETS}', settings={{kept=false}}}}"))


@pytest.mark.parametrize("kind", ["Gaussian", "Laplace"])
def test_real_noise_is_costed_by_replacement_which_covers_a_record_that_is_there_or_not(kind: str) -> None:
    """A message without a record may be any other one, where a sum of records without it lacks that record alone."""
    norm = "coordinates" if kind == "Laplace" else "clip"
    table = f"privacy.mechanism={{kind='{kind}', clip=1.0, noise=2.0}}"
    about = table, f"privacy.norm={norm}"
    with pytest.raises(FedprivError, match="costed by replacement, which covers a record added or removed"):
        study(*about, "privacy.adjacency=add-remove")
    event = study(*about).privacy.channel
    with pytest.raises(FedprivError, match="costed by replacement"):
        event.event(650, Local(), unit="record", adjacency="add-remove", sampling=0.1)


def test_canary_records_stay_within_the_certificate_and_see_a_client_that_draws_everybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = planned(study("privacy.mechanism.scale=4.0", "training.sampling=0.1", "run.rounds=8")).study
    audit = source_of(own)
    assert audit.kind == "messages"
    assert audit.source.event.unit == "record"

    def told(source: Source) -> float:
        held = np.arange(4000) % 2 == 0
        scores = source.scored(held, audit.first + np.arange(4000)).scores
        return float(np.mean(scores[held] > 0) - np.mean(scores[~held] > 0))

    advantage = Account((audit.source.event,)).delta(0.0).bounds.upper
    honest = told(audit.source)
    assert 0 < honest < advantage + 4 / np.sqrt(4000)
    monkeypatch.setattr(
        "clients.training.chance._seeded", lambda q, key, clients, places: np.ones((len(clients), places), bool)
    )
    assert told(audit.source) > advantage + 0.1
