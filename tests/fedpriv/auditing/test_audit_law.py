"""The law of everything, audited: each row of the table that anything draws, through cohort and node, as what leaves.

A canary is a client with one record, whose label is a fair coin: where a model's weights are 0 its gradient is one
vector or minus that, and far longer than the bound. So nothing stands in for anything: data, model, clipping, noise,
packing, a node's policy and ledger, and frames are those that train.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from clients import app as client
from clients.data.pool import Records, own_pool
from clients.flower.code import code_identity
from clients.node.own_key import DEALING
from clients.node.own_records import dealt_records, owners_of, pool_of_policy
from clients.node.policy import read_policy
from clients.training.cohort import Cohort
from clients.training.prepared import forget_prepared, net_of, pool_of, prepared_study
from fedpriv import mechanisms, wire
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import Event, by_hand
from fedpriv.auditing.laws import law_of_sum, log_ratio, of_sums, symbol_law
from fedpriv.auditing.statistic import Trials, mu_of_share
from fedpriv.channel import Channel
from fedpriv.curves.compose import ROUGH, compose
from fedpriv.errors import FedprivError
from fedpriv.estimation.private_mean import PrivateMean
from fedpriv.mechanisms import settings_of
from fedpriv.packed.symbols import packing_of, sends_reals
from fedpriv.randomness.streams import stream
from fedpriv.releases import SUMS, event_of_sum
from fedpriv.releases.kept import AdLm, mechanism_of
from fedpriv.studies import file as study_file
from fedpriv.studies import observers
from fedpriv.studies import promise as guarantee
from fedpriv.trust import Central, Local, Sums
from tests.fedpriv.channel.test_channel_laws import EVERY, HOWS, bounds_of

SURE = 0.9999  # of each audit
CERTAIN = 3  # clients of a sum
LONG = 8.0  # a record's features: its gradient has at least norm 5.7
STUDY = """
name = "law"
data = {{ kind = "Arrays", path = "{data}", held_out = 2, classes = 2 }}
clients = {{ count = {count}, records = 1, split = "in-order" }}
aggregation.kind = "{rule}"
run = {{ rounds = {rounds}, seed = 11 }}
server = {{ fewest = {fewest} }}
[privacy]
norm = "{norm}"
trust = "{trust}"
delta = 0.99
{noise}
"""
CARRIED = 'release = { kind = "DpSgd", clip = 10.0, noise = 1e-4, sampling = 1.0 }'
POLICY = """
studies = "any"
mechanisms = "any"
noise = "seeded"
unit = "{unit}"
trust = "simulated"
contributors = 3
clients = 1000
classes = 2
budget = {{ epsilon = 1e12, delta = 0.99 }}
{data}
"""
Ask = Callable[[int, Any], bytes]  # of a round, and of clients


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages inside its runtime only."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def coins(count: int) -> Any:
    return stream(7, "law coins").integers(0, 2, count).astype(bool)


def written(kind: str, settings: dict[str, Any]) -> str:
    words = [f"{name} = {json.dumps(value)}" for name, value in ({"kind": kind} | settings).items()]
    return "{ " + ", ".join(words) + " }"


def kept_in(folder: Path, x: Any, y: Any) -> None:
    """Data of a directory; the last two are held out."""
    np.save(folder / "x.npy", np.concatenate([x, x[:2]]).astype(np.float32))
    np.save(folder / "y.npy", np.concatenate([y, [0, 1]]).astype(np.int64))
    forget_prepared()


@dataclass(frozen=True)
class Row:
    """A row of the table at a small size: whose messages, behind which bound, who sees them."""

    mechanism: Any
    norm: Any
    trust: str
    unit: str
    folder: Path
    count: int  # clients
    rounds: int = 1

    @property
    def summed(self) -> bool:
        return self.trust == "secure-aggregation"

    @cached_property
    def text(self) -> str:
        noise = f"mechanism = {written(type(self.mechanism).__name__, settings_of(self.mechanism))}"
        return STUDY.format(
            data=self.folder, count=self.count, rule="Mean" if self.summed else "Median", rounds=self.rounds,
            fewest=CERTAIN if self.summed else 1, norm=self.norm, trust=self.trust,
            noise=f"{noise}\n{CARRIED if self.unit == 'record' else ''}",
        )  # fmt: skip

    @cached_property
    def study(self) -> Any:
        return study_file.parsed_study(self.text)

    def gradients(self, x: Any, y: Any) -> Any:
        """Of single records, where all weights are 0."""
        net = net_of(self.study, pool_of(self.study))
        rows = np.empty((len(x), net.dimension), np.float32)
        net.gradients(np.zeros(net.dimension, np.float32), x.astype(np.float32)[:, None], y[:, None], rows)
        return rows

    def behind(self, x: Any, y: Any) -> Any:
        """What stands behind the messages of clients with one of these records each."""
        rows = self.study.privacy.channel.bounded(self.gradients(x, y)).applied
        return np.clip(rows, -self.mechanism.peak, self.mechanism.peak)

    def event(self, dimension: int) -> Event:
        facts: Any = {"unit": self.unit, "rounds": self.rounds}
        return Event(
            mechanism=self.mechanism, bound=self.study.privacy.channel.bound, dimension=dimension,
            trust=observers.trust_in(self.study), adjacency="replace", **facts,
        )  # fmt: skip

    def ratio(self, x: float, y: float, others: float) -> Any:
        """ln P(seen | x)/P(seen | y) of one coordinate; of sums beside clients who hold `others`."""
        own = self.mechanism
        if not self.summed:
            return log_ratio(own, x, y)
        if hasattr(own, "aggregated"):
            known = (CERTAIN - 1) * int(own.grid.index([others])[0])
            ratio = log_ratio(own.aggregated(CERTAIN), x, y)
            return lambda seen: ratio(seen - known)
        lowest, law = symbol_law(own, others)
        return of_sums(own, x, y, ((CERTAIN - 1) * lowest, law_of_sum(law, CERTAIN - 1)))

    def seen(self, reply: bytes, round: int, clients: Any, dimension: int) -> Any:
        """What a reply says: a row a message, or one for the sum."""
        (frame,), failed = wire.frames_of(reply)
        assert not failed
        masked = self.study.masked
        found = wire.opened_frame(
            frame, wire.Expected(self.study.id, round, clients, dimension, self.mechanism, masked)
        )
        assert isinstance(found, wire.Sum) == self.summed
        return found.total[None] if self.summed else packing_of(self.mechanism).unpack(found.payload, dimension)  # type: ignore[union-attr]


def of_cohort(text: str, dimension: int, own: Any = None) -> Ask:
    cohort = Cohort(prepared_study(study_file.parsed_study(text), own), answers=True)
    return lambda round, clients: cohort.reply(np.zeros(dimension, np.float32), round, clients)


def of_node(text: str, dimension: int, folder: Path, unit: str, data: str = "") -> Ask:
    """What a ClientApp answers: its policy is read, its ledger charged, its answer kept."""
    (folder / "policy.toml").write_text(POLICY.format(unit=unit, data=data))
    config: Any = {"policy": str(folder / "policy.toml"), "partition-id": 0, "num-partitions": 1}
    context = Context(run_id=1, node_id=1, node_config=config, state=RecordDict(), run_config={})

    def answered(round: int, clients: Any) -> bytes:
        task = {"study": text, "round": round, "seconds": 300.0, "until": 0.0, "restarted": False,
                "code": code_identity()}  # fmt: skip
        arrays = ArrayRecord({"clients": Array(clients), "weights": Array(np.zeros(dimension, np.float32))})
        content = RecordDict({"arrays": arrays, "task": ConfigRecord(task)})  # type: ignore[arg-type]
        reply = client.app(Message(content, 1, "train"), context)
        assert not reply.has_error(), reply.error.reason
        assert len((folder / "ledger" / "ledger.jsonl").read_text().splitlines()) >= 1 + round
        return reply.content.array_records["answer"]["frames"].data

    return answered


def of_each(row: Row, ask: Ask, held: Any) -> Trials:
    """Trials of local trust: a client each, whose label is its coin."""
    there, absent = row.behind(np.full((2, 1), LONG), np.array([1, 0]))
    clients, total = np.arange(row.count), np.zeros(row.count)
    for round in range(1, row.rounds + 1):
        seen = row.seen(ask(round, clients), round, clients, len(there))
        total += sum(row.ratio(x, y, y)(seen[:, j]) for j, (x, y) in enumerate(zip(there, absent, strict=True)))
    return Trials(held, total)


def of_groups(row: Row, ask: Ask, held: Any) -> Trials:
    """Trials of sums: of three clients each, the first of them the canary, the others without its label."""
    there, absent = row.behind(np.full((2, 1), LONG), np.array([1, 0]))
    groups = np.arange(row.count).reshape(-1, CERTAIN)
    seen = np.concatenate([row.seen(ask(1, own), 1, own, len(there)) for own in groups])
    return Trials(held, sum(row.ratio(x, y, y)(seen[:, j]) for j, (x, y) in enumerate(zip(there, absent, strict=True))))


def of_features(row: Row, ask: Ask, held: Any) -> Trials:
    """Trials of one sum: a feature each of one canary, its sign a coin; noises of coordinates are independent."""
    signs, count = np.where(held, 1.0, -1.0), len(held)
    numbers = np.stack([np.arange(2.0, count + 2)])
    place = np.rint(np.abs(row.gradients(numbers, np.array([1]))[0]) / 0.5).astype(int) - 2  # −1 of the bias
    canary, others = row.behind(LONG * np.stack([signs, np.ones(count)]), np.array([1, 0]))
    seen = row.seen(ask(1, np.arange(CERTAIN)), 1, np.arange(CERTAIN), len(canary))[0]
    total = np.zeros(count)
    for j in np.flatnonzero(place >= 0):
        x = canary[j] * signs[place[j]]
        total[place[j]] += row.ratio(x, -x, others[j])(seen[j : j + 1])[0]
    return Trials(held, total)


def told(row: Row) -> float:
    """The share of coins that the very levels of a canary tell, in all rounds."""
    levels = row.behind(np.full((1, 1), LONG), np.array([1]))[0]
    parts = [(row.mechanism.between(abs(float(own)), -abs(float(own))), row.rounds) for own in levels]
    return (1 + compose(parts).delta(0.0, ROUGH).lower) / 2


def stands(trials: Trials, event: Event) -> bool:
    """Whether no more is told than the certificate of an event allows."""
    allowed = Account((event,)).upper_delta(0.0, ROUGH)
    return trials.mu(SURE) <= mu_of_share((1 + min(allowed, 1.0)) / 2)


def legal(mechanism: Any, trust: str) -> bool:
    """Whether a study may draw it: sums are certified, or refused, and are of whole numbers."""
    if trust != "secure-aggregation":
        return True
    try:
        by_hand(mechanism, trust=trust, clients=CERTAIN)
    except FedprivError:
        return False
    return not sends_reals(type(mechanism))


ROWS = [
    pytest.param(mechanism, norm, trust, unit, id=f"{mechanism!r} {norm} {trust} {unit}")
    for mechanism, norm in product(EVERY, HOWS)
    for trust, unit in (("local", "client"), ("local", "record"), ("secure-aggregation", "client"))
    if legal(mechanism, trust) and not isinstance(mechanism, mechanisms.Sign)
]


@pytest.mark.parametrize(("mechanism", "norm", "trust", "unit"), ROWS)
def test_no_audit_of_messages_is_above_their_certificate(
    mechanism: Any, norm: Any, trust: str, unit: str, tmp_path: Path
) -> None:
    canaries = 120 if trust == "secure-aggregation" or unit == "record" else 300
    each, held = (CERTAIN if trust == "secure-aggregation" else 1), coins(canaries)
    row = Row(mechanism, norm, trust, unit, tmp_path, canaries * each, 1 if each > 1 else 2)
    labels = np.zeros(row.count, np.int64)
    labels[::each] = held
    kept_in(tmp_path, np.full((row.count, 1), LONG), labels)
    dimension = row.gradients(np.full((1, 1), LONG), np.array([0])).shape[1]
    event = row.event(dimension)
    if not row.summed:
        for ask in (of_cohort(row.text, dimension), of_node(row.text, dimension, tmp_path, unit)):
            trials = of_each(row, ask, held)
            assert stands(trials, event)
            assert trials.right / canaries > told(row) - 4 * 0.5 / np.sqrt(canaries)
        return
    assert stands(of_groups(row, of_cohort(row.text, dimension), held), event)
    sole = Row(mechanism, norm, trust, unit, tmp_path, CERTAIN)
    kept_in(
        tmp_path, LONG * np.stack([np.where(held, 1.0, -1.0), *np.ones((CERTAIN - 1, canaries))]), np.array([1, 0, 0])
    )
    wide = 2 * (canaries + 1)
    assert stands(of_features(sole, of_node(sole.text, wide, tmp_path, unit), held), sole.event(wide))


# releases of records: dealt by their content, one record there or not

CLIENTS, BESIDE = 100, 12  # records beside a canary, all longer and at right angles but for the bias
RELEASES = {
    "DpSgd": {"clip": 1.0, "noise": 1.0, "sampling": 1.0},
    "DpSgd, sampled": {"clip": 1.0, "noise": 0.5, "sampling": 0.5},
    "TrimmedGaussian": {"clip": 1.0, "noise": 1.0, "sampling": 1.0, "trimmed": 4},
    "AdaptiveDpSgd": {"clip": 1.0, "noise": 1.0, "sampling": 1.0, "count_noise": 5.0},
    "Ptr": {"clip": 1.0, "noise": 1.0, "sampling": 1.0, "bound": 0.5, "test_noise": 0.2, "failure": 0.05, "trimmed": 6},
    "Ptr, a coin": {"clip": 1.0, "noise": 1.0, "sampling": 1.0, "bound": 0.5, "failure": 0.05, "trimmed": 6},
}


def dealt_out(folder: Path, held: Any) -> tuple[Any, Any]:
    """Data of a directory in which every client has as many records, and the canary where it holds one."""
    key, own = bytes(32), []
    for feature, length, each in ((0, LONG, 1), (1, 10 * LONG, BESIDE)):
        x = np.zeros((8 * CLIENTS * each, 2), np.float32)
        x[:, feature] = length * (1 + 1e-6 * np.arange(len(x)))
        y = np.ones(len(x), np.int64)
        owners = owners_of(own_pool(Records(x, y, "x", "y"), 1.0, 0.0, 2), key, CLIENTS)
        for who in range(CLIENTS):
            chosen = np.flatnonzero(owners == who)[:each]
            assert len(chosen) == each
            own.append(x[chosen] if each > 1 or held[who] else x[:0])
    rows = np.concatenate(own)
    kept_in(folder, rows, np.ones(len(rows), np.int64))
    (folder / "ledger").mkdir(mode=0o700, exist_ok=True)
    (folder / "ledger" / DEALING).write_bytes(key)
    return key, rows


@pytest.mark.parametrize("name", RELEASES)
def test_no_audit_of_releases_of_records_is_above_their_certificate(name: str, tmp_path: Path) -> None:
    kind, held = name.split(",")[0], coins(CLIENTS)
    key, _ = dealt_out(tmp_path, held)
    noise = f'mechanism = {{ kind = "Plain" }}\nrelease = {written(kind, RELEASES[name])}'
    text = STUDY.format(data=tmp_path, count=CLIENTS, rule="Median", rounds=1, fewest=1, norm="clip", trust="local",
                        noise=noise).replace("records = 1", f"records = {BESIDE}")  # fmt: skip
    study = study_file.parsed_study(text)
    private = study.privacy.private_sum
    assert private is not None
    event = event_of_sum(private, 6, 1)
    data = f'data = {{ kind = "Arrays", path = "{tmp_path}", held_out = 2 }}'
    node = of_node(text, 6, tmp_path, "record", data)
    pool = pool_of_policy(read_policy(tmp_path / "policy.toml"))
    assert pool is not None
    cohort = of_cohort(text, 6, (pool, dealt_records(pool, key, CLIENTS, 0, CLIENTS)))
    for ask in (cohort, node):
        trials = Trials(held, along(study, ask(1, np.arange(CLIENTS))) - 0.5)
        assert stands(trials, event)
        assert trials.right > CLIENTS / 2 + 2 * 5  # four standard errors of guessing


def along(study: Any, reply: bytes) -> Any:
    """What a release holds of the canary's gradient: 1 where it is there and 0 where it is not, beside the noise."""
    net = net_of(study, pool_of(study))
    rows, x = np.empty((2, 6), np.float32), np.array([[[LONG, 0.0]], [[0.0, 10 * LONG]]], np.float32)
    net.gradients(np.zeros(6, np.float32), x, np.ones((2, 1), np.int64), rows)
    canary, beside = rows / np.linalg.norm(rows, axis=1)[:, None]
    across = canary - (canary @ beside) * beside
    frames, failed = wire.frames_of(reply)
    assert not failed
    expected = wire.Expected(study.id, 1, np.arange(CLIENTS), 6, study.privacy.drawn_by)
    found = wire.opened_frame(frames[0], expected)
    assert isinstance(found, wire.Messages)
    seen = packing_of(study.privacy.drawn_by).unpack(found.payload, 6)
    return seen @ across / (across @ across) * study.privacy.private_sum.sampling * BESIDE


# what nothing draws, and what is not audited: by name

BY_HAND = "no study draws it: fedpriv account costs it where it is written by hand"
BARE = "hides nothing, and a deployed node answers nothing of infinite ε"
REALS = "sends reals, which secure aggregation cannot add: a study is refused before its first round"


def legal_rows() -> set[str]:
    """Every row that is certified: mechanism, bound, trust, unit, adjacency, and whether records are sampled."""
    found = set()
    for mechanism, sampling in product(EVERY, (1.0, 0.1)):
        facts = (
            bounds_of(mechanism)[1:],
            (Local(), Sums(3), Central()),
            ("client", "record"),
            ("replace", "add-remove"),
        )
        for bound, trust, unit, adjacency in product(*facts):
            own: Any = {"bound": bound, "trust": trust, "unit": unit, "adjacency": adjacency, "sampling": sampling}
            try:
                found.add(named(Event(mechanism=mechanism, dimension=3, **own)))
            except FedprivError:
                continue
    return found


def named(event: Event) -> str:
    sampled = ", sampled" if event.sampling < 1 else ""
    kind, bound, trust = (type(own).__name__ for own in (event.mechanism, event.bound, event.trust))
    return f"{kind} {bound}, {trust} {event.unit}, {event.adjacency}{sampled}"


def audited_rows() -> set[str]:
    """Those of the tests of this file."""
    found = set()
    for own in ROWS:
        mechanism, norm, trust, unit = own.values
        channel = Channel.of(norm, mechanism)  # type: ignore[arg-type]
        seen = Sums(CERTAIN) if trust == "secure-aggregation" else Local()
        found.add(named(channel.event(3, seen, unit=unit, rounds=1)))  # type: ignore[arg-type]
    for name, settings in RELEASES.items():
        private = SUMS.made(name.split(",")[0], settings)
        if not isinstance(private.mechanism, mechanisms.Ptr):
            found.add(named(event_of_sum(private, 3, 1)))
    found.add(named(CENTRAL.event(3, 1)))
    found.add(named(KEPT.events[0]))
    return found


CENTRAL = PrivateMean(epsilon=1.0, delta=1e-5, bound=1.0)  # audited in tests/fedpriv/auditing/test_audit.py
KEPT = mechanism_of(AdLm(epsilon_1=1.0, batch=4, sizes=(16, 4, 4, 8)))


def unaudited(row: str) -> str | None:
    """Why a row is not audited; None where it is."""
    what, seen, rest = row.split(", ", 2)
    adjacency = rest.removesuffix(", sampled")
    if what.startswith("Sign "):
        return BARE
    match seen:
        case "Local client":
            return None
        case "Sums client":
            return REALS if what.startswith("Gaussian ") else None
        case "Central client":
            return None if (what, rest) == ("Gaussian Norm", "replace") else BY_HAND
        case "Local record":
            drawn = rest == "replace" or (what, adjacency) == ("Gaussian Norm", "add-remove")
            return None if drawn else BY_HAND
        case "Sums record" | "Central record":
            return BY_HAND
        case _:
            raise AssertionError(f"{row}: neither audited nor named")


def test_a_row_is_audited_or_named_with_the_reason_and_a_new_mechanism_is_neither() -> None:
    rows = legal_rows()
    assert {row for row in rows if unaudited(row) is None} == audited_rows()
    assert {unaudited(row) for row in rows} == {None, REALS, BY_HAND, BARE}


def test_what_studies_draw_is_audited() -> None:
    """Every event that a study's promise is made of, whatever its mechanism, bound, trust and release."""
    audited = audited_rows()
    assert set(RELEASES) >= set(SUMS)
    for mechanism, norm, trust in product(EVERY, HOWS, ("local", "secure-aggregation")):
        noise = f"mechanism = {written(type(mechanism).__name__, settings_of(mechanism))}"
        text = STUDY.format(data="none", count=9, rule="Mean", rounds=1, fewest=3, norm=norm, trust=trust, noise=noise)
        try:
            events = guarantee.promised_events(study_file.parsed_study(text), 3)
        except FedprivError:
            continue
        assert {named(own) for own in events} <= audited | {
            row for row in map(named, events) if unaudited(row) in (REALS, BARE)
        }
