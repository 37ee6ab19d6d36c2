"""A study is read strictly, written back whole, and refused where it promises what it cannot keep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedpriv.errors import FedprivError
from fedpriv.population import participation
from fedpriv.population.participation import All, Fixed, Poisson, rounds_of_each
from fedpriv.studies import file as study_file
from fedpriv.studies import observers
from fedpriv.studies import promise as guarantee
from fedpriv.studies.calibrating import calibrated_study
from fedpriv.trust import Sums

SMALL = """
name = "small"
[data]
kind = "Digits"
[clients]
count = 100
[privacy.mechanism]
kind = "Binomial"
clip = 1.0
trials = 4
scale = 5.0
[run]
rounds = 3
"""


def small(*overrides: str) -> study_file.Study:
    return study_file.parsed_study(SMALL, name="small.toml", overrides=overrides)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("clients.cuont=3", r"small.toml: clients has no key 'cuont' \(did you mean 'count'\?\)"),
        ("runn.rounds=3", r"small.toml: the study has no table 'runn' \(did you mean 'run'\?\)"),
        ("run.rounds=three", "small.toml: run.rounds must be a whole number, got 'three'"),
        ("run.rounds=2.5", "run.rounds must be a whole number"),
        ("run.rounds=true", "run.rounds must be a whole number, got True"),
        ("run.rounds=0", "small.toml: run: rounds must be at least 1, got 0"),
        ("run.seed=-1", "small.toml: run: seed must be at least 0"),
        ("clients.count=0", "small.toml: clients: count must be at least 1"),
        ("clients.byzantine=100", "small.toml: clients: byzantine leaves no honest client: 100 of 100"),
        ("clients.byzantine=1.0", "byzantine leaves no honest client"),
        ("clients.byzantine=1.5", "byzantine must be between 0 and 1"),
        ("clients.byzantine=nan", "byzantine must be between 0 and 1"),
        ("clients.byzantine=0.1", r"clients.byzantine = 0.1 but there is no \[attack\]"),
        ("clients.split=idd", r"split 'idd' is unknown \(did you mean 'iid'\?\)"),
        ("clients.participation.kind=Sometimes", "unknown participation 'Sometimes'"),
        ('clients.participation={kind="Fixed", number=101}', "number must be at most count = 100"),
        ('clients.participation={kind="Poisson", rate=2}', "rate must be between 0 and 1"),
        ("privacy.trust=locl", r"trust 'locl' is unknown \(did you mean 'local'\?\)"),
        ("privacy.trust=central", "under privacy.trust = 'central' it must be a curator"),
        ("aggregation={kind='PrivateMean', epsilon=1.0, delta=1e-5}", "privacy.trust must be 'central', got 'local'"),
        ('clients.participation={kind="Poisson", rate=0}', "rate must be positive"),
        ("privacy.delta=2", "delta must be between 0 and 1"),
        ("privacy.mechanism.kind=binomial", r"unknown mechanism 'binomial' \(did you mean 'Binomial'\?\)"),
        ("privacy.epsilon=0", "epsilon must be positive"),
        ("privacy.mechanism=3", "privacy.mechanism must be a table"),
        ("privacy=3", "privacy must be a table"),
        ("server.momentum=1", "momentum must be below 1"),
        ("server.step=nan", "step must be finite"),
        ("aggregation.kind=Medain", r"unknown rule 'Medain' \(did you mean 'Median'\?\)"),
        ("aggregation={kind='TrimmedMean', dropped=50}", "needs 101 clients, but a round asks 100 at most"),
        ("aggregation={kind='NormTrimmedSum', dropped=100}", "needs 101 clients, but a round asks 100 at most"),
        ("aggregation={kind='Median', before=[{kind='Nmn'}]}", r"unknown pre-aggregator 'Nmn' \(did you mean 'Nnm'"),
        ("aggregation={kind='Median', before='Nnm'}", "before must be a list of tables"),
        ("aggregation={kind='Median', before=[{size=2}]}", "before: each must be a table with kind"),
        ("server.decoder=vot", r"decoder 'vot' is unknown"),
        ("run", "--set takes table.key=value, got 'run'"),
        ("run.=3", "--set takes table.key=value"),
        ("name=a/b", "name must be a word without slashes"),
    ],
)
def test_a_slip_is_named_with_its_place(override: str, message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        small(override)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(FedprivError, match=r"small.toml: the study needs a \[data\] table"):
        study_file.parsed_study("[run]\nrounds = 1\n[clients]\ncount = 1", name="small.toml")
    with pytest.raises(FedprivError, match=r"small\.toml: run needs rounds"):
        study_file.parsed_study('data.kind = "Digits"\nclients.count = 1\n[run]\n', name="small.toml")
    with pytest.raises(FedprivError, match="data needs kind"):
        study_file.parsed_study("[data]\nheld_out = 3\n[run]\nrounds = 1\n[clients]\ncount = 1")


@pytest.mark.parametrize("content", ["[run", "a = ", "\0", "[a]\n[a]", f"a = {'9' * 5000}"])
def test_what_is_not_toml_is_refused(content: str) -> None:
    with pytest.raises(FedprivError, match="not TOML"):
        study_file.parsed_study(content)


def test_a_rule_that_needs_rows_is_refused_under_secure_aggregation() -> None:
    with pytest.raises(FedprivError, match="Median needs each client's message, which secure aggregation hides"):
        small("privacy.trust=secure-aggregation", "aggregation.kind=Median")


def test_a_majority_vote_has_no_mean() -> None:
    assert small("aggregation.kind=MajorityVote").decoder == "vote"
    with pytest.raises(FedprivError, match=r"server\.decoder must be 'vote'"):
        small("aggregation.kind=MajorityVote", "server.decoder=mean")


def test_a_new_kind_drops_the_settings_of_the_old_one() -> None:
    study = small("privacy.mechanism.kind=StochasticSign", "privacy.mechanism.clip=1", "privacy.mechanism.scale=3")
    assert study.privacy.mechanism.settings == {"clip": 1, "scale": 3}


SHIPPED = sorted(
    name for name, file in study_file.shipped_studies().items() if "[sweep]" not in file.read_text("utf-8")
)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_study_that_ships_reads_back_the_same_from_its_text(name: str) -> None:
    study = study_file.read_study(name)
    again = study_file.parsed_study(study_file.study_text(study))
    assert again == study
    assert again.id == study.id
    assert study.about


@given(st.text(max_size=20), st.floats(0.01, 100), st.integers(0, 2**62))
def test_every_setting_survives_writing(about: str, scale: float, seed: int) -> None:
    study = small(f"privacy.mechanism.scale={1 + scale!r}", f"run.seed={seed}")
    study = replace(study, about=about)
    assert study_file.parsed_study(study_file.study_text(study)) == study


def test_two_studies_that_differ_have_different_ids() -> None:
    ids = {small(*change).id for change in ([], ["run.seed=2"], ["privacy.mechanism.scale=6.0"], ["server.step=2.0"])}
    assert len(ids) == 4


def test_an_unknown_study_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(FedprivError, match=r"no study 'digit' \(did you mean 'digits'\?\)"):
        study_file.read_study("digit")
    with pytest.raises(FedprivError, match="cannot be read"):
        study_file.read_study(str(tmp_path / "nothing.toml"))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(FedprivError, match="cannot be read"):
        study_file.read_study(str(binary))


def test_a_file_may_begin_with_the_mark_that_some_editors_write(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL, encoding="utf-8-sig")
    assert study_file.read_study(str(file)) == small()


# What is promised


def test_only_clients_certain_to_draw_noise_count_under_secure_aggregation() -> None:
    study = study_file.read_study("digits")
    assert observers.trust_in(study) == Sums(1437 - 143)
    fewer = study_file.read_study("digits", ["privacy.colluding=100", "privacy.dropouts=94"])
    assert observers.trust_in(fewer) == Sums(1100)
    assert observers.fewest_answers(fewer) == 1437 - 94
    sampled = study_file.read_study("digits", ["clients.participation={kind='Fixed', number=500}"])
    assert observers.trust_in(sampled) == Sums(500 - 143)


def test_more_attackers_dropouts_and_colluders_than_clients_are_refused() -> None:
    study = study_file.read_study("digits", ["privacy.colluding=1000", "privacy.dropouts=300"])
    with pytest.raises(FedprivError, match="which leaves none certain to have drawn noise"):
        calibrated_study(study, 650)


def test_poisson_participation_needs_a_least_number_under_secure_aggregation() -> None:
    poisson = "clients.participation={kind='Poisson', rate=0.9}"
    with pytest.raises(FedprivError, match=r"server.fewest must be given"):
        calibrated_study(study_file.read_study("digits", [poisson]), 650)
    assert observers.trust_in(study_file.read_study("digits", [poisson, "server.fewest=1200"])) == Sums(1200 - 143)


def test_numbers_that_count_for_nothing_or_cannot_be_are_refused() -> None:
    for change, message in (
        ("privacy.dropouts=3", "count only under secure-aggregation"),
        ("server.fewest=101", r"server.fewest = 101, but a round asks 100 clients at most"),
    ):
        with pytest.raises(FedprivError, match=message):
            calibrated_study(small(change), 650)
    with pytest.raises(FedprivError, match="dropouts = 1437 of 1437 clients leave none"):
        calibrated_study(study_file.read_study("digits", ["privacy.dropouts=1437"]), 650)


def test_neighbours_of_a_study_replace_a_client_whatever_the_mechanism() -> None:
    gaussian = small("privacy.mechanism.kind=Gaussian", "privacy.mechanism.clip=1", "privacy.mechanism.noise=1")
    assert guarantee.promised_event(gaussian, 650).adjacency == "replace"


def test_the_digits_are_calibrated_to_just_under_four() -> None:
    study = calibrated_study(study_file.read_study("digits"), 650)
    found = guarantee.epsilon_after(study, 650, 40)
    assert 3.99 < found.upper <= 4
    assert found.lower < found.upper
    assert calibrated_study(study, 650) == study


def test_a_peak_however_small_has_its_bounds() -> None:
    found = guarantee.epsilon_after(small("privacy.mechanism.peak=1e-300"), 650, 3)
    assert 0 <= found.lower <= found.upper < 100


def test_a_delta_that_promises_nothing_is_refused() -> None:
    with pytest.raises(FedprivError, match="delta must be below 1"):
        calibrated_study(small("privacy.delta=1"), 650)
    gaussian = ["privacy.mechanism={kind='Gaussian', clip=1.0, noise=1.0}", "privacy.delta=0"]
    with pytest.raises(FedprivError, match="privacy: delta = 0: no finite ε is certified"):
        calibrated_study(small(*gaussian), 650)
    assert guarantee.epsilon_after(small("privacy.delta=0", "privacy.norm=coordinates"), 3, 3).upper < 15
    calibrated_study(small("privacy.delta=0", "privacy.norm=coordinates"), 3)


def test_a_target_that_the_settings_miss_is_refused() -> None:
    with pytest.raises(FedprivError, match="epsilon = 1 is promised, but these settings give"):
        calibrated_study(small("privacy.epsilon=1"), 650)


def test_a_budget_too_small_for_one_round_is_refused() -> None:
    with pytest.raises(FedprivError, match="does not pay for one round"):
        calibrated_study(small("privacy.budget=0.001"), 650)


def test_a_budget_pays_for_the_most_rounds_that_fit() -> None:
    study = small("privacy.budget=4", "run.rounds=1000")
    rounds = guarantee.affordable_rounds(study, 650)
    assert (
        guarantee.epsilon_after(study, 650, rounds).upper <= 4 < guarantee.epsilon_after(study, 650, rounds + 1).upper
    )


def test_plain_updates_promise_nothing() -> None:
    plain = study_file.parsed_study(SMALL, overrides=["privacy.mechanism.kind=Plain"])
    assert guarantee.epsilon_after(plain, 650, 1).upper == float("inf")
    with pytest.raises(FedprivError, match="Plain promises nothing"):
        calibrated_study(
            study_file.parsed_study(SMALL, overrides=["privacy.mechanism.kind=Plain", "privacy.epsilon=1"]), 650
        )


# Who takes part


@given(st.integers(1, 50), st.integers(0, 2**40), st.integers(1, 5))
def test_a_fixed_number_is_drawn_without_replacement(count: int, seed: int, round: int) -> None:
    number = 1 + seed % count
    asked = Fixed(number=number).asked(count, seed, round)
    assert len(set(asked.tolist())) == number
    assert asked.tolist() == sorted(asked.tolist())
    assert 0 <= asked[0] <= asked[-1] < count


def test_rounds_differ_and_are_counted() -> None:
    fixed = Fixed(number=10)
    rounds = [fixed.asked(1000, 1, round) for round in (1, 2)]
    assert rounds[0].tolist() != rounds[1].tolist()
    counted = rounds_of_each(fixed, 1000, 1, 2)
    assert counted.sum() == 20
    assert (counted[rounds[0]] >= 1).all()
    assert (rounds_of_each(All(), 5, 1, 7) == 7).all()


def test_poisson_asks_about_its_share() -> None:
    asked = [len(Poisson(rate=0.1).asked(10_000, 1, round)) for round in range(1, 21)]
    assert abs(sum(asked) / 20 - 1000) < 4 * (900 / 20) ** 0.5
    assert len(set(asked)) > 5


def test_the_attackers_are_the_same_in_every_round_and_differ_by_seed() -> None:
    assert participation.byzantine_clients(100, 10, 1).tolist() == participation.byzantine_clients(100, 10, 1).tolist()
    assert participation.byzantine_clients(100, 10, 1).tolist() != participation.byzantine_clients(100, 10, 2).tolist()
    assert len(participation.byzantine_clients(100, 0, 1)) == 0


def test_settings_on_one_command_line_mean_the_same_in_any_order() -> None:
    words = ["attack.kind=Alie", "attack.factor=5.0", "clients.byzantine=2"]
    text = 'data.kind = "Digits"\nattack = { kind = "Ipm", factor = 2.0 }\nclients = { count = 20, byzantine = 1 }\n'
    text += "run.rounds = 2\n"
    found = [study_file.parsed_study(text, overrides=own) for own in (words, words[::-1])]
    assert found[0] == found[1]
    assert found[0].attack is not None
    assert found[0].attack.settings["factor"] == 5.0


KEEPS = 'data.kind = "Digits"\ntraining = "StoBatch"\nclients = { count = 2, records = 100 }\nrun.rounds = 2\n'


def test_training_by_a_word_takes_the_place_of_the_other_word_and_of_no_model() -> None:
    smaller = KEEPS.replace("training =", "privacy.release.batch = 40\ntraining =")
    own = ["training.model.maps=[8]", "training.model.units=16"]
    first = study_file.parsed_study(smaller, overrides=own)
    text = study_file.study_text(first)
    other = study_file.parsed_study(text, overrides=["privacy.release.batch=50", "training=AdLm"])
    assert other.privacy.release is not None
    assert (other.privacy.release.kind, other.privacy.release.settings["batch"]) == ("AdLm", 50)
    assert "attacks" not in other.privacy.release.settings
    assert other.training.model == first.training.model


def test_training_by_a_word_beside_another_release_is_refused() -> None:
    with pytest.raises(FedprivError, match=r"training = 'AdLm', and privacy.release.kind = 'StoBatch': give one"):
        study_file.parsed_study(KEEPS.replace("StoBatch", "AdLm") + '[privacy.release]\nkind = "StoBatch"\n')
