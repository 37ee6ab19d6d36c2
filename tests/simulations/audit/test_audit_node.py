"""Audits of deployed nodes: on a copy, through the client's app, beside a neighbour; and what mutants show."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from clients.node.guard import NOTHING, Node
from clients.node.own_records import in_order
from clients.node.policy import Refused
from clients.training.cohort import Cohort
from fedpriv.auditing.laws import log_ratio
from fedpriv.mechanisms import Mechanism
from fedpriv.node import own_ledger
from fedpriv.node.own_ledger import OwnLedger
from fedpriv.studies import file as study_file
from simulations.audit._node_home import MEMORY
from simulations.audit._node_neighbours import turned
from simulations.audit._node_ratio import of_messages, of_releases
from simulations.audit.node import Examined, examined_node
from simulations.command_line import main
from tests.clients.node.test_neighbours import (
    BARE,
    CLIENTS,
    RECORDS,
    TERMS,
    asked,
    directory,
    more,
    nobody,
    replaced,
    same,
)
from tests.fedpriv.mechanisms.test_mechanisms import ALL

SHORT = RECORDS.replace("run.rounds = 4", "run.rounds = 2")
SURE = ("--confidence", "0.999999")  # a node's noise is the operating system's: at .99 one run in 200 would fail
Change = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def node(folder: Path, change: Change = same, terms: str = TERMS, **about: Any) -> Path:
    """A node's directory, with a ledger in which nothing is charged yet."""
    found = directory(folder, change, terms, **about)
    with own_ledger.opened_ledger(found / "ledger", (0, 1)):
        return found


def study(folder: Path, text: str = SHORT) -> str:
    file = folder / "study.toml"
    file.write_text(text)
    return str(file)


def looked_at(
    one: Path, text: str = SHORT, two: Path | None = None, then: Callable[[Examined], Any] = lambda own: own
) -> Any:
    """What is found of a node before its trials; `then` while its copy is there."""
    folder = one.parent
    with examined_node(one, two, study(folder, text), [], folder / "out", lambda _: None) as own:
        return then(own)


def faults(own: Examined) -> dict[str, str]:
    return {fault.about: fault.words for fault in own.seen.faults}


def everything(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every byte, mode and time of change below a directory, and of it."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in [folder, *folder.rglob("*")]
    }


# the command


@pytest.mark.slow
def test_nothing_of_an_audited_node_is_touched_and_nothing_of_its_copy_is_left(here: Path, capsys: Any) -> None:
    own = node(here / "own")
    with looked():
        assert isinstance(asked(own, SHORT), bytes)  # it has answered before: a ledger, an answer
    before = everything(own)
    out = here / "found"
    words = ["--study", study(here), "--canaries", "40", *SURE, "--json", "--quiet", "--out", str(out)]
    assert main(["audit", "--node", str(own), *words]) == 0
    assert everything(own) == before
    found = json.loads(capsys.readouterr().out)
    assert sorted(path.name for path in out.iterdir()) == ["audit.json", "audit.png"]
    kept = json.loads((out / "audit.json").read_text())
    assert kept.pop("curves")["alpha"][0] == 0
    assert kept == found
    assert set(found) >= {"canaries", "confidence", "mu", "epsilon", "delta", "proof", "stands", "seen", "dealing"}
    assert (found["kind"], found["canaries"], found["stands"], found["faults"]) == ("node", 40, True, [])
    assert found["seen"]["answers"] > 20
    assert found["dealing"]["differ"] == 1
    assert found["epsilon"]["upper"] == pytest.approx(1.3545, abs=0.01)  # two rounds of noise 4, one client


def looked() -> Any:
    from simulations.audit._node_asks import in_flower

    return in_flower()


@pytest.mark.slow
def test_a_node_without_data_of_its_own_is_audited_with_those_of_the_study(here: Path, capsys: Any) -> None:
    own = here / "node-0"
    own.mkdir()
    terms = TERMS.replace("classes = 3", "reruns = true")
    (own / "policy.toml").write_text(terms)
    with own_ledger.opened_ledger(own / "ledger", (0, 2)):
        pass
    words = ["--study", study(here, CLIENTS), "--canaries", "30", *SURE, "--quiet"]
    assert main(["audit", "--node", str(own), *words]) == 0
    said = capsys.readouterr().out
    assert "replaced" in said
    assert "what was seen of them is the same" in said
    assert len(list((here / "audits").glob("node-0-????????/audit.json"))) == 1


@pytest.mark.slow
def test_an_audit_of_a_node_that_is_killed_goes_on_with_the_blocks_it_has(here: Path, monkeypatch: Any) -> None:
    from simulations.audit import trials
    from simulations.audit._node_trials import NodeTrials

    own, counted, real, keep = node(here / "own"), [0], NodeTrials.scored, trials._Journal.keep

    def counting(self: NodeTrials, held: Any, numbers: Any) -> Any:
        counted[0] += len(numbers)
        return real(self, held, numbers)

    def killed(self: Any, start: int, *block: Any) -> None:
        keep(self, start, *block)
        if start >= 8:
            raise KeyboardInterrupt

    words = ["audit", "--node", str(own), "--study", study(here), "--canaries", "20", "--quiet", "--out", "found"]
    monkeypatch.setattr(NodeTrials, "scored", counting)
    with monkeypatch.context() as dying:
        dying.setattr(trials._Journal, "keep", killed)
        assert main(words) == 130
    assert not list((here / "found").glob("fedpriv-audit-*"))
    assert main(words) == 0
    assert counted[0] == 20


@pytest.mark.slow
def test_a_copy_of_a_killed_audit_goes_with_the_next_one_wherever_that_writes(here: Path) -> None:
    """The key too: it stands in memory, and is found there though the killed one's own place is gone."""
    own = node(here / "own")
    words = ["--node", str(own), "--study", study(here), "--canaries", "100000", "--quiet", "--out", str(here / "out")]
    audit = subprocess.Popen(
        [sys.executable, "-m", "simulations.command_line", "audit", *words], cwd=here, env=ELSEWHERE
    )
    try:
        while not (left := copies_of(audit.pid)) or not list(left.copy().pop().rglob("dealing.key")):
            assert audit.poll() is None
            time.sleep(0.05)
    finally:
        audit.kill()
        audit.wait()
    shutil.rmtree(here / "out")
    looked_at(own)  # or another test's audit, which is at work now
    assert not any(each.exists() for each in left)


ELSEWHERE = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}


def copies_of(pid: int) -> set[Path]:
    """The copies of nodes that this process holds, in memory or where it writes; other tests have theirs."""
    found = set[Path]()
    for each in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):
            found.add(each.readlink())
    return {each for each in found if each.name.startswith("fedpriv-audit-") and each.parent == MEMORY}


def test_what_is_called_copy_where_an_audit_writes_is_left_alone(here: Path) -> None:
    own, mine = node(here / "own"), here / "out" / "copy" / "mine"
    mine.parent.mkdir(parents=True)
    mine.write_text("own")
    looked_at(own)
    assert mine.read_text() == "own"


def test_half_a_last_line_is_mended_as_the_node_does_and_a_damaged_one_is_named(here: Path, capsys: Any) -> None:
    own = node(here / "own")
    with looked():
        assert isinstance(asked(own, SHORT), bytes)
    file = own / "ledger" / "ledger.jsonl"
    content = file.read_text()
    file.write_text(content + '{"study": "ha')
    assert not looked_at(own).seen.faults
    file.write_text(content.replace('"round"', '"round', 1))
    assert "ledger.jsonl: damaged ledger (line 2: " in refused(capsys, "--node", str(own), "--study", study(here))
    file.write_text(content.replace("[0, 1]", "[5, 3]").replace("[0,1]", "[5,3]", 1))
    said = refused(capsys, "--node", str(own), "--study", study(here))
    assert "ledger.jsonl: damaged ledger (place [5, 3]" in said


def test_what_is_wrong_with_a_node_is_named_by_the_nodes_own_files(here: Path, capsys: Any) -> None:
    own = node(here / "own")
    (own / "ledger" / "dealing.key").write_bytes(b"short")
    said = refused(capsys, "--node", str(own), "--study", study(here))
    assert f"{own}/ledger/dealing.key: is no key of 32 bytes" in said
    (own / "ledger" / "dealing.key").write_bytes(bytes(32))
    (own / "data" / "y.npy").unlink()
    said = refused(capsys, "--node", str(own), "--study", study(here))
    assert str(own / "data") in said
    assert "fedpriv-audit" not in said
    said = refused(capsys, "--node", str(own), "--study", study(here), "--set", "foo")
    assert "--study names its file" not in said
    said = refused(capsys, "--node", str(own), "--set", "foo")
    assert "--study names its file" not in said


# what mutants of a node show


@pytest.mark.slow
def test_an_audit_catches_records_dealt_by_number(here: Path, monkeypatch: Any, capsys: Any) -> None:
    def by_number(pool: Any, key: bytes, clients: int, first: int, last: int) -> Any:
        return in_order(pool, clients, first, last)

    monkeypatch.setattr("clients.node.guard.dealt_records", by_number)
    own, other = node(here / "own"), node(here / "other", more(0))
    words = ["--study", study(here), "--canaries", "30", "--json", "--quiet"]
    assert main(["audit", "--node", str(own), "--neighbour", str(other), *words]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["mu"]["audited"] > 3 * found["mu"]["certified"]  # by what leaves alone
    assert "the data of 50 clients are others (0, 1, 2, …), where a ledger counts one" in found["faults"][0]["words"]


@pytest.mark.slow
def test_an_audit_catches_a_retry_that_is_drawn_anew_and_not_charged(here: Path, monkeypatch: Any) -> None:
    real = OwnLedger.charge

    def free(self: OwnLedger, new: Any) -> None:
        if not any(was.ask.overlaps(new.ask) for was in self._charges):
            real(self, new)

    monkeypatch.setattr(OwnLedger, "charge", free)
    own = node(here / "own")
    assert not looked_at(own).seen.faults  # while a round asked again has the answer it had
    monkeypatch.setattr(OwnLedger, "stored", lambda self, ask: None)
    found = faults(looked_at(own))
    assert "different messages of client" in found["the ledger"]


@pytest.mark.slow
def test_an_audit_catches_another_run_that_is_not_charged(here: Path, monkeypatch: Any) -> None:
    real = OwnLedger.charge

    def free(self: OwnLedger, new: Any) -> None:
        if all(was.ask.round != new.ask.round for was in self._charges):
            real(self, new)

    monkeypatch.setattr(OwnLedger, "charge", free)
    found = faults(looked_at(node(here / "own", terms=TERMS + "reruns = true\n")))
    assert "left, and" in found["the ledger"]


@pytest.mark.slow
def test_an_audit_catches_a_refusal_that_tells(here: Path, monkeypatch: Any) -> None:
    real = Node._drawn

    def telling(self: Node, asked: Any, *about: Any) -> bytes:
        held = self._data(asked)
        assert held is not None
        if asked.clients.records > len(held[0]):
            raise Refused(f"{asked.clients.records} records are asked for, of {len(held[0])} here")
        return real(self, asked, *about)

    monkeypatch.setattr(Node, "_drawn", telling)
    found = faults(looked_at(node(here / "own")))
    words = found["more records of each client than there are"]
    assert "the node: it refuses: refused: 1000000 records are asked for, of 200 here" in words
    assert "left out: it refuses: refused: 1000000 records are asked for, of 199 here" in words


@pytest.mark.slow
def test_an_audit_catches_an_answer_that_only_some_data_allow(here: Path, monkeypatch: Any) -> None:
    real = Node._drawn

    def choosy(self: Node, asked: Any, *about: Any) -> bytes:
        held = self._data(asked)
        assert held is not None
        return NOTHING if len(held[0]) % 2 else real(self, asked, *about)

    monkeypatch.setattr(Node, "_drawn", choosy)
    words = faults(looked_at(node(here / "own")))["round 1"]
    assert "the node: it answers" in words
    assert "left out: it refuses: refused: this node's data allow no answer" in words


def test_data_that_only_the_neighbours_node_answers_with_are_a_fault_and_no_bad_input(
    here: Path, monkeypatch: Any
) -> None:
    real = Node._drawn

    def choosy(self: Node, asked: Any, *about: Any) -> bytes:
        held = self._data(asked)
        assert held is not None
        return real(self, asked, *about) if len(held[0]) % 2 else NOTHING

    monkeypatch.setattr(Node, "_drawn", choosy)
    assert "round 1" in faults(looked_at(node(here / "own")))


@pytest.mark.slow
def test_an_audit_catches_a_client_whose_absence_tells(here: Path, monkeypatch: Any) -> None:
    """Whose gradient overflows, and who is silent then where a deployed client answers as one whose update is 0."""
    real = Cohort.__init__

    def silent(self: Any, *about: Any, answers: bool = False, **rest: Any) -> None:
        real(self, *about, answers=False, **rest)

    own, other = node(here / "own", more(3, 3e38)), node(here / "other")
    text = CLIENTS.replace("run.rounds = 10", "run.rounds = 1")
    assert not looked_at(own, text, other).seen.faults
    monkeypatch.setattr(Cohort, "__init__", silent)
    assert any("not finite" in words or "no frame" in words for words in faults(looked_at(own, text, other)).values())


@pytest.mark.slow
def test_an_audit_catches_bytes_that_no_symbol_accounts_for(here: Path, monkeypatch: Any) -> None:
    real = Cohort.reply

    def talkative(self: Cohort, *about: Any) -> bytes:
        reply = bytearray(real(self, *about))
        reply[4] = 1  # one failure
        return bytes(reply) + (7).to_bytes(4, "little") + bytes([3]) + str(len(self.pool)).encode()

    monkeypatch.setattr(Cohort, "reply", talkative)
    words = faults(looked_at(node(here / "own")))["round 1"]
    assert "failed: {7: '200'}" in words
    assert "failed: {7: '199'}" in words


# what is asked


def tried(own: Examined) -> tuple[Examined, np.ndarray]:
    """Four trials with the node's own data, then four with its neighbour's."""
    return own, own.audit.source.scored(np.arange(8) < 4, np.arange(8)).scores


TOLD: dict[str, tuple[str, str, str]] = {
    "messages": ("privacy.mechanism={kind='Binomial', clip=1.0, scale=1.01, trials=64}", "", "client's app"),
    "masked sums": (
        "privacy={trust='secure-aggregation', mechanism={kind='Skellam', clip=1.0, levels=64, noise=0.001}}",
        "trust = 'secure-aggregation'\ncontributors = 1000\n",
        "masks off, each in a sum with 49 others drawn anew",
    ),
    "a release": ("privacy.release={kind='DpSgd', clip=1.0, noise=0.05, sampling=1.0}", "", "client's app"),
    "one that adapts": (
        "privacy.release={kind='AdaptiveDpSgd', clip=0.5, noise=0.05, sampling=1.0, count_noise=2.0}", "", "app",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TOLD)
def test_with_hardly_any_noise_every_coin_is_told_so_that_scores_mean_something(name: str, here: Path) -> None:
    override, terms, words = TOLD[name]
    text = study_file.study_text(study_file.parsed_study(BARE, overrides=["run.rounds=2", override]))
    own, scores = looked_at(node(here / "own", terms=TERMS.replace("1e6", "1e9") + terms), text, then=tried)
    assert not own.seen.faults
    assert words in own.audit.source.words
    assert (scores[:4] > scores[4:].max()).all()


# neighbours


@pytest.mark.slow
@pytest.mark.parametrize("text", [SHORT, CLIENTS.replace("run.rounds = 10", "run.rounds = 2")])
@pytest.mark.parametrize("change", [more(0), more(50)])
def test_neighbours_that_somebody_names_are_alike_in_all_but_messages(here: Path, text: str, change: Change) -> None:
    one, two = node(here / "one"), node(here / "two", change)
    own = looked_at(one, text, two)
    assert not own.seen.faults
    assert own.dealing["differ"] == 1


NOT_NEIGHBOURS: dict[str, tuple[Change, str, str]] = {
    "the same records": (same, TERMS, "holds the same records as"),
    "in another order": (lambda x, y: (x[::-1].copy(), y[::-1].copy()), TERMS, "holds the same records as"),
    "two more": (lambda x, y: more(3)(*more(17, 0.25)(x, y)), TERMS, "differ in 2 records, and neighbours in one: rec"),
    "one replaced": (replaced(3), TERMS, "this node's certificate is of one record more or less"),
    "another shape": (lambda x, y: (x[:, :3], y), TERMS, "records of shape (3,), where the node's have (5,)"),
    "another policy": (more(3), TERMS.replace("1e6", "2e6"), "neighbours differ in data alone"),
    "a value that is nan": (more(3, np.nan), TERMS, "record 3 holds nan"),
    "no labels": (lambda x, y: (x, y.astype(str)), TERMS, "labels must be whole numbers"),
}


def test_a_record_that_another_clients_takes_the_place_of_is_no_neighbour_of_a_clients_message(
    here: Path, capsys: Any
) -> None:
    one, two = node(here / "one"), node(here / "two", replaced(3))
    text = study(here, CLIENTS.replace("run.rounds = 10", "run.rounds = 1"))
    said = refused(capsys, "--node", str(one), "--neighbour", str(two), "--study", text)
    assert "the one is dealt to client" in said
    assert "replaced by its record 3" in said


@pytest.mark.parametrize("name", NOT_NEIGHBOURS)
def test_what_are_no_neighbours_is_one_line(name: str, here: Path, capsys: Any) -> None:
    change, terms, line = NOT_NEIGHBOURS[name]
    one, two = node(here / "one"), node(here / "two", change, terms)
    said = refused(capsys, "--node", str(one), "--neighbour", str(two), "--study", study(here))
    assert line in said


def refused(capsys: Any, *words: str) -> str:
    assert main(["audit", *words, "--quiet"]) == 2
    said: str = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


WRONG: dict[str, tuple[Change, str]] = {
    "a value that is nan": (more(17, np.nan), "record 17 holds nan"),
    "a label past the classes": (more(17, label=3), "record 17 has label 3"),
    "labels that are no numbers": (lambda x, y: (x, y.astype(str)), "labels must be whole numbers"),
    "fewer labels than records": (lambda x, y: (x, y[:-1]), "holds 200 records, but"),
    "no records": (nobody, "this node holds no records, so there is none to leave out"),
}


@pytest.mark.parametrize("name", WRONG)
def test_data_that_allow_no_answer_are_one_line(name: str, here: Path, capsys: Any) -> None:
    change, line = WRONG[name]
    own = node(here / "own", change)
    before = everything(own)
    assert line in refused(capsys, "--node", str(own), "--study", study(here))
    assert everything(own) == before
    assert not (here / "audits").exists()


CENTRAL = """
name = "central"
data = { kind = "Synthetic", records = 3000, features = 5, classes = 3, held_out = 20 }
clients.count = 20
privacy = { trust = "central", mechanism = { kind = "Plain", clip = 1.0 } }
aggregation = { kind = "PrivateMean", epsilon = 1.0, delta = 1e-6 }
run.rounds = 2
"""


def test_what_is_no_node_or_promises_nothing_is_one_line(here: Path, capsys: Any) -> None:
    own, text = node(here / "own"), study(here)
    (here / "central.toml").write_text(CENTRAL)
    for words, line in (
        ([], "name what is audited: a study, the directory of a run, or --node DIR"),
        (["digits", "--study", text], "--neighbour and --study are of --node DIR"),
        (["digits", "--node", str(own)], "--node names what is audited, and --study"),
        (["--node", str(here / "nowhere")], "there is no policy.toml in it"),
        (["--node", str(own), "--study", str(here / "central.toml")], "trust 'central' shows the server each update"),
        (["--node", str(own), "--study", text, "--set", "privacy={trust='local'}"], "promise nothing"),
        (["--node", str(own), "--study", text, "--out", str(own / "found")], "lies in the node's directory"),
        (["--node", str(own), "--study", text, "--confidence", "1"], "confidence must be between 0 and 1"),
        (["--node", str(own), "--study", text, "--neighbour", str(own)], "holds the same records"),
    ):
        assert line in refused(capsys, *words)
    for change, line in (
        (("budget = { epsilon = 1e6", "budget = { epsilon = 0.5"), "answers no round of"),
        (('studies = "any"', 'studies = ["one", "two"]'), "takes 2 studies (one, two): --study says which"),
        (('studies = "any"', 'noise = "seeded"\nstudies = "any"'), "who knows the study's seed can subtract it"),
        (('studies = "any"', 'studies = "any'), "policy.toml"),
    ):
        (own / "policy.toml").write_text(
            TERMS.replace(*change) + f'data = {{ kind = "Arrays", path = "{own / "data"}" }}\n'
        )
        about = [] if "two" in change[1] else ["--study", text]
        assert line in refused(capsys, "--node", str(own), *about)
    shutil.rmtree(own / "ledger")
    (own / "policy.toml").write_text(TERMS)
    assert "this node has no ledger yet" in refused(capsys, "--node", str(own), "--study", text)


def test_one_record_alone_and_values_as_large_as_there_are_can_be_audited(here: Path) -> None:
    few = looked_at(node(here / "few", count=1))
    huge = looked_at(node(here / "huge", lambda x, y: (x * np.float32(3e38), y)))
    for own in (few, huge):
        assert not own.seen.faults
        assert own.dealing["differ"] == 1


def test_what_takes_a_records_place_is_in_its_range() -> None:
    for record in (np.array([1, 2, 9], np.uint8), np.float32([3e38, -3e38]), np.array([2**63 - 1, -(2**63)])):
        assert (turned(turned(record)) == record).all()
        assert (turned(record) != record).all()


# likelihoods


@pytest.mark.parametrize("mechanism", ALL, ids=lambda own: type(own).__name__)
def test_a_likelihood_of_rows_is_the_sum_of_those_of_their_coordinates(mechanism: Mechanism) -> None:
    rng = np.random.default_rng(1)
    peak = float(getattr(mechanism, "peak", mechanism.clip))
    x, y = (rng.uniform(-peak, peak, (1, 6)) for _ in range(2))
    seen = np.asarray(mechanism.encode(x[0], rng))[None]
    alone = [
        float(log_ratio(mechanism, float(a), float(b))(symbol[None])[0])
        for a, b, symbol in zip(x[0], y[0], seen[0], strict=True)
    ]
    assert of_messages(mechanism, x, y)(seen) == pytest.approx(sum(alone), rel=1e-6, abs=1e-9)


def test_a_likelihood_of_releases_is_that_of_the_mixture_over_who_was_drawn() -> None:
    from scipy.stats import norm

    total, base, way = np.array([0.7, -0.2]), np.array([0.1, 0.3]), np.array([0.6, 0.8])
    sampling, steps, spread = 0.3, 2, 1.7
    along = float((total - base) @ way)
    chances = [0.49, 0.42, 0.09]
    mixed = logsumexp([np.log(q) + norm.logpdf(along, j, spread**0.5) for j, q in enumerate(chances)])
    expected = mixed - norm.logpdf(along, 0, spread**0.5)
    assert of_releases(total, base, way, spread, sampling, steps) == pytest.approx(expected)
