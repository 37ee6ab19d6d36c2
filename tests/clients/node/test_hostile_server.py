"""A malicious server against the real client: outside its policy nothing leaves, and the process survives.

Each request goes the client's own way: Flower's message, `clients.app`, the node's policy and ledger on disk.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from clients import app as client
from clients.flower.code import code_identity
from clients.node.policy import total_epsilon
from fedpriv.node import own_ledger
from fedpriv.studies import file as study_file

POLICY = """
studies = "any"
mechanisms = ["StochasticSign", "Binomial", "DpSgd", "AdaptiveDpSgd", "Gaussian", "Skellam"]
budget = { epsilon = 12.0, delta = 1e-5 }
round = { epsilon = 6.0, delta = 1e-5 }
clip = 1.0
largest_model = 1000000
longest_round = 300.0
"""
STUDY = """
name = "asked"
data = { kind = "Synthetic", records = 60, features = 5, classes = 3, held_out = 20 }
clients = { count = 20, records = 2 }
privacy.mechanism = { kind = "StochasticSign", clip = 1.0, scale = 40.0 }
aggregation.kind = "MajorityVote"
run.rounds = 2
"""
ADAPTING = """
name = "adapting"
data = { kind = "Synthetic", records = 60, features = 5, classes = 3, held_out = 20 }
clients = { count = 20, records = 2 }
privacy.release = { kind = "AdaptiveDpSgd", clip = 1.0, sampling = 0.5, noise = 4.0, count_noise = 4.0 }
run.rounds = 2
"""
GIANT = (
    b"\x93NUMPY\x01\x00v\x00"
    + b"%-117s\n" % b"{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,), }"
)
GIGABYTES = 3  # that a client may take beside what Python and torch map


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages inside its runtime only."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def asked(folder: Path, study: str | None = STUDY, **changes: Any) -> Message:
    """The client's reply to a server that asks for this; None leaves a part out."""
    task = {"study": study, "round": 1, "seconds": 300.0, "until": 0.0, "restarted": False, "code": code_identity(),
            "run": "first"}  # fmt: skip
    arrays = {"weights": np.zeros(18, np.float32), "clients": np.arange(10), "settings": None}
    task |= {name: value for name, value in changes.items() if name in task}
    arrays |= {name: value for name, value in changes.items() if name in arrays}
    held = {name: value if isinstance(value, Array) else Array(value)
            for name, value in arrays.items() if value is not None}  # fmt: skip
    content = RecordDict({
        "task": ConfigRecord({name: value for name, value in task.items() if value is not None}),
        "arrays": ArrayRecord(held),
    })  # fmt: skip
    policy = POLICY.replace("mechanisms", "# mechanisms") if changes.get("mechanisms") == "any" else POLICY
    (folder / "policy.toml").write_text(policy + 'unit = "record"' * (study == ADAPTING))
    place: Any = {"policy": str(folder / "policy.toml"), "partition-id": 0, "num-partitions": 2}
    context = Context(run_id=1, node_id=1, node_config=place, state=RecordDict(), run_config={})
    return client.app(Message(content, 1, "train"), context)


def released(folder: Path) -> float:
    """The ε of all that the client has on its own disk."""
    with own_ledger.opened_ledger(folder / "ledger", (0, 2)) as ledger:
        return total_epsilon(ledger.events(), 1e-5)


def refused(reply: Message) -> str:
    """The one line that says why nothing was released."""
    assert reply.has_error(), "it was answered"
    why = reply.error.reason
    assert why
    assert "\n" not in why
    assert len(why) < 2000
    return why


def changed(*overrides: str) -> str:
    return study_file.study_text(study_file.parsed_study(STUDY, overrides=overrides))


def test_an_honest_request_is_answered_so_that_the_refusals_below_mean_something(tmp_path: Path) -> None:
    assert asked(tmp_path).has_content()
    assert 0 < released(tmp_path) <= 6
    (tmp_path / "adapting").mkdir()
    assert asked(tmp_path / "adapting", ADAPTING, settings=np.full((10, 1), 0.5)).has_content()


WRONG: dict[str, dict[str, Any]] = {
    "a smaller noise": {"study": changed("privacy.mechanism.scale=1.001")},
    "a larger clip": {"study": changed("privacy.mechanism.clip=2.0")},
    "no noise": {"study": changed("privacy.mechanism={kind='Plain'}", "aggregation.kind=Mean")},
    "updates as they are, for a server that is trusted": {"study": changed(
        "privacy.trust=central", "privacy.mechanism={kind='Plain', clip=1.0}",
        "aggregation={kind='PrivateMean', epsilon=0.01, delta=1e-6}"), "mechanisms": "any"},
    "another mechanism": {"study": changed("privacy.mechanism={kind='Cldp', clip=1.0, epsilon=0.1}")},
    "a model of nan": {"weights": np.full(18, np.nan, np.float32)},
    "a model of infinities": {"weights": np.full(18, np.inf, np.float32)},
    "a giant model": {"weights": np.zeros(5_000_000, np.float32)},
    "a model of another shape": {"weights": np.zeros((6, 3), np.float32)},
    "a model of doubles": {"weights": np.zeros(18)},
    "a model of objects": {"weights": Array("object", (1,), "numpy.ndarray", b"\x80\x04N.")},
    "a model that says it is 2^60 numbers": {
        "weights": Array("float32", (2**60,), "numpy.ndarray", GIANT)},
    "no model": {"weights": None},
    "a negative round": {"round": -1},
    "round 0": {"round": 0},
    "a round of 2^40": {"round": 2**40},
    "a round that is text": {"round": "1"},
    "no round": {"round": None},
    "clients of others": {"clients": np.arange(10, 20)},
    "clients twice": {"clients": np.array([1, 1, 2])},
    "clients as floats": {"clients": np.arange(10.0)},
    "nobody": {"clients": np.empty(0, np.int64)},
    "no study": {"study": None},
    "a study that is no TOML": {"study": "[[[["},
    "a study of a million brackets": {"study": "a = " + "[" * 1_000_000},
    "a study of 100,000 brackets": {"study": "a = " + "[" * 100_000},
    "another version": {"code": "0123456789abcdef"},
    "no version": {"code": None},
    "a clip norm of nan": {"study": ADAPTING, "settings": np.full((10, 1), np.nan)},
    "a clip norm of 1e300": {"study": ADAPTING, "settings": np.full((10, 1), 1e300)},
    "a clip norm past the policy's": {"study": ADAPTING, "settings": np.full((10, 1), 50.0)},
    "clip norms of fewer clients": {"study": ADAPTING, "settings": np.full((9, 1), 0.5)},
    "clip norms that are no matrix": {"study": ADAPTING, "settings": np.full(10, 0.5)},
    "clip norms where nothing adapts": {"settings": np.full((10, 1), 0.5)},
    "a time-out that has passed": {"until": 1.0},
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_an_honest_server_would_not_ask_is_refused_in_one_line_and_costs_nothing(
    name: str, tmp_path: Path
) -> None:
    refused(asked(tmp_path, **WRONG[name]))
    assert not list(tmp_path.glob("ledger/answers/*"))
    assert released(tmp_path) == 0


def test_more_rounds_than_the_budget_pays_for_are_refused_from_there_on(tmp_path: Path) -> None:
    told = [asked(tmp_path, study=changed("privacy.mechanism.scale=2.0"), round=round) for round in range(1, 16)]
    answered = sum(reply.has_content() for reply in told)
    assert 1 <= answered < 15
    assert all("past the budget" in refused(reply) for reply in told[answered:])
    assert released(tmp_path) <= 12


def test_a_replay_draws_nothing_new_and_another_model_for_the_same_round_gets_nothing(tmp_path: Path) -> None:
    first = asked(tmp_path).content.array_records["answer"]["frames"].data
    assert asked(tmp_path).content.array_records["answer"]["frames"].data == first
    refused(asked(tmp_path, weights=np.ones(18, np.float32)))
    refused(asked(tmp_path, clients=np.arange(5)))
    assert len((tmp_path / "ledger" / "ledger.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "where",
    ["attack={kind='PLANTED', x=1}", "training.model={kind='Module', path='PLANTED'}", "training.model.kind='PLANTED'",
     "aggregation.kind='PLANTED'", "aggregation={kind='Mean', before=[{kind='PLANTED'}]}", "data.kind='PLANTED'",
     "privacy.mechanism.kind='PLANTED'", "privacy.release={kind='PLANTED'}", "corruption={kind='PLANTED'}",
     "clients.split={kind='PLANTED'}", "clients.participation={kind='PLANTED'}", "server.optimiser={kind='PLANTED'}"],
)  # fmt: skip
def test_no_import_path_of_a_server_is_ever_imported(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Any:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    path, _, value = where.replace("PLANTED", "planted:Any").partition("=")
    words = [line for line in STUDY.splitlines() if not line.startswith(path.split(".")[0])]
    refused(asked(tmp_path, study="\n".join([f"{path} = {value.replace(chr(39), chr(34))}", *words])))
    assert not (tmp_path / "ran").exists()


ABSURD = [
    "clients.count=1000000000000", "clients.count=100000000", "clients.records=1000000000000",
    "training.batch=10000000000",
    "training.model={kind='Mlp', hidden=[1000000000]}",
    "training.model={kind='Mlp', hidden=[100000, 100000]}",
    "training.model={kind='EncodedCnn', maps=[100000, 100000]}",
    "training.model={kind='EncodedCnn', maps=[16, 1000000], units=1000000}",
    "training.model={kind='Randomised', noise=1.0, network={kind='Mlp', hidden=[100000, 100000]}}",
    "privacy.mechanism={kind='Binomial', clip=1.0, scale=2.0, trials=1000000000000}",
    "privacy.mechanism={kind='Binomial', clip=1.0, scale=2.0, trials=100000000}",
    "privacy.mechanism={kind='Skellam', clip=1.0, levels=1000000000000, noise=2.0}",
    "privacy.mechanism={kind='Skellam', clip=1.0, levels=1000, noise=1e100}",
    "privacy.mechanism={kind='StochasticSign', clip=1e-300, scale=1e140}",
    "privacy.mechanism={kind='StochasticSign', clip=1.0, scale=1e140}",
    "data.features=1000000000", "data.records=1000000000000", "data.classes=100000000", "data.held_out=1000000000000",
    "run.seed=1000000000000000000", "run.rounds=1000000000000000", "privacy.delta=0.999999", "privacy.delta=1e-300",
    "clients.participation={kind='Fixed', number=20}", "clients.participation={kind='Poisson', rate=1e-9}",
    "clients.split={kind='Dirichlet', alpha=1e-12}", "clients.split={kind='PowerSizes', exponent=1000.0}",
    "clients.split='pool'",
]  # fmt: skip


def absurd(folder: Path) -> Iterator[dict[str, Any]]:
    """What becomes of each, and what it took."""
    for number, override in enumerate(ABSURD):
        try:
            text = study_file.study_text(study_file.parsed_study(STUDY, overrides=[override]))
        except ValueError:
            text = study_file.toml_text(study_file.study_tables(STUDY, overrides=[override]))
        place, begun = folder / str(number), time.monotonic()
        place.mkdir()
        reply = asked(place, study=text)
        why = refused(reply) if reply.has_error() else None
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        yield {"override": override, "why": why, "seconds": time.monotonic() - begun, "MB": most}
        assert released(place) <= 12


def limited(folder: Path) -> None:
    """In a process of its own, which may not take all of the machine's memory."""
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    asked(folder)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + GIGABYTES * 2**30,) * 2)
    for line in absurd(folder):
        print(json.dumps(line), flush=True)


def test_absurd_settings_are_refused_or_harmless_and_take_no_memory_to_speak_of(tmp_path: Path) -> None:
    command = [sys.executable, __file__, str(tmp_path)]
    root = {"PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    done = subprocess.run(command, env={**os.environ, **root}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["override"] for line in lines] == ABSURD
    assert lines[-1]["MB"] - lines[0]["MB"] < 100


if __name__ == "__main__":
    limited(Path(sys.argv[1]))
