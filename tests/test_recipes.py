"""CONTRIBUTING's recipes, performed in a copy of the repository: each is a whole commit, and what it says holds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^### Adding an? (.*?)\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL))
DIFF = re.compile(r"^```diff\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLACES = dict(re.findall(r"^\| `(\S+)` \| (.*) \|$", RECIPES["trust"], re.MULTILINE))

ROWS = ["privacy.trust=local", "clients.count=60", "aggregation.kind=Trimean"]
LAWS = {  # of each recipe tests that then try it, what they are called, and what its study says
    "mechanism": (
        ["tests/fedpriv/mechanisms/test_mechanisms.py", "tests/fedpriv/channel/test_channel_laws.py",
         "tests/fedpriv/accounting/test_calibration.py", "fedpriv/mechanisms/votes.py"],
        "LogisticSign",
        ["privacy.mechanism={kind='LogisticSign', clip=0.1}", "aggregation.kind=MajorityVote", "server.step=0.01",
         "privacy.trust=local", "privacy.epsilon=1000"],
    ),
    "rule": (
        ["tests/fedpriv/aggregation/test_rule_laws.py", "fedpriv/aggregation/_order_statistics.py"], "Trimean", ROWS,
    ),
    "attack": (["tests/fedpriv/attacks/test_attack_laws.py"], "Rotate", ["attack.kind=Rotate"]),
    "model": (
        ["tests/clients/models/test_models.py", "clients/models/__init__.py"], "Deep", ["training.model.kind=Deep"],
    ),
    "data set": (
        ["tests/clients/data/test_data.py", "clients/data/__init__.py"], "Rings or rings or list_says",
        ["data={kind='Rings'}", "clients.count=300"],
    ),
    "figure of a report": (
        ["tests/simulations/report/test_report.py"], "epsilon_that_it_took or every_figure", ["run.evaluate_every=1"],
    ),
}  # fmt: skip


@cache
def tracked() -> list[str]:
    """The files of the repository, as they are here."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("recipes are applied by git, to the files that it keeps")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def copied(place: Path) -> Path:
    """A copy of the repository, without its history."""
    for name in tracked():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place / name)
    return place


def follow(recipe: str, place: Path) -> list[str]:
    """Apply a recipe's diff there; the files that it opens."""
    diff = "".join(DIFF.findall(RECIPES[recipe]))
    git = ["git", "apply", "--whitespace=error", "-"]
    own = os.environ | {"GIT_CEILING_DIRECTORIES": str(place.parent)}  # a patch like any other, of no repository
    done = subprocess.run(git, cwd=place, env=own, input=diff, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the recipe for a {recipe} no longer applies: {done.stderr}"
    return re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE)


def there(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A module run by this Python in the copy."""
    own = os.environ | {"PYTHONPATH": str(place), "XDG_STATE_HOME": str(place / "state")}
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=place, env=own, capture_output=True, text=True, timeout=900, check=False
    )


def fedpriv(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return there(place, "simulations.command_line", *words)


def test_every_recipe_is_performed_here() -> None:
    assert RECIPES.keys() == LAWS.keys() | {"trust"}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_opens_three_files_at_most_and_names_them(recipe: str, tmp_path: Path) -> None:
    opened = follow(recipe, copied(tmp_path))
    assert 1 <= len(opened) <= 3
    for name in opened:
        assert f"`{name}`" in RECIPES[recipe] or f"`{name.rpartition('/')[0]}/`" in RECIPES[recipe], name


@pytest.mark.slow
@pytest.mark.parametrize("recipe", LAWS)
def test_what_a_recipe_adds_meets_the_laws_is_listed_and_runs(recipe: str, tmp_path: Path) -> None:
    files, words, settings = LAWS[recipe]
    copy = copied(tmp_path / "copy")
    before = fedpriv(copy, "list").stdout
    opened = follow(recipe, copy)
    tried = there(copy, "pytest", "-p", "no:cacheprovider", "-m", "not slow", "-k", words, *files)
    assert tried.returncode == 0, tried.stdout
    checked = there(copy, "ruff", "check", *opened)
    assert checked.returncode == 0, checked.stdout
    kind = words.partition(" ")[0]
    listed = fedpriv(copy, "list").stdout
    assert (kind in listed, kind in before) == (recipe != "figure of a report", False)
    assert there(copy, "tools.tables").returncode == 0
    named = there(copy, "pytest", "-p", "no:cacheprovider", "-k", "public_function", "tests/test_architecture.py")
    assert named.returncode == 0, named.stdout
    written = (copy / "docs" / "settings.md").read_text(encoding="utf-8")
    assert (f"{kind}" in written) == (recipe != "figure of a report")
    command = ["run", "digits", "--driver", "direct", "--quiet", "--out", str(tmp_path / "run")]
    chosen = [word for setting in ["run.rounds=2", *settings] for word in ("--set", setting)]
    ran = fedpriv(copy, *command, *chosen)
    assert ran.returncode == 0, ran.stderr
    shown = fedpriv(copy, "report", str(tmp_path / "run"))
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "run" / "report" / "worth.png").exists() == (recipe == "figure of a report")


# --- a trust ------------------------------------------------------------------------------------------------------

SILENT = re.compile(r"^(\S+\.py):(\d+): error: Argument 1 to \"assert_never\" has incompatible type \"(.*)\";", re.M)


def row(name: str) -> str:
    """The row of the recipe's table that a file belongs to."""
    found = [own for own in PLACES if name.startswith(own)]
    assert len(found) == 1, f"{name}: the recipe for a trust must say what stands there"
    return found[0]


def said(place: Path, name: str, line: int, kind: str, words: str) -> None:
    """Before the `case _` whose body is that line: a case that says which proof is missing."""
    path = place / name
    lines = path.read_text(encoding="utf-8").splitlines()
    indent = lines[line - 2].partition("case")[0]
    assert lines[line - 2] == f"{indent}case _ as never:"
    case = "Shuffle()" if kind == "Shuffle" else '"shuffle"'
    refusal = f"raise FedprivError(\"trust 'shuffle': no proof of {words}\")"
    lines[line - 2 : line - 2] = [f"{indent}case {case}:", f"{indent}    {refusal}"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def unproved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, str, str]]]:
    """A copy with all recipes, where each place says that a proof is missing; and what mypy said of the trust alone."""
    copy = copied(tmp_path_factory.mktemp("trust"))
    for recipe in RECIPES:
        follow(recipe, copy)
    checked = there(copy, "mypy", "--strict").stdout
    silent = SILENT.findall(checked)
    assert f"Found {len(silent)} errors" in checked, checked
    for name, line, kind in sorted(silent, key=lambda place: (place[0], -int(place[1]))):
        said(copy, name, int(line), kind, PLACES[row(name)])
    for name in {place[0] for place in silent}:
        text = (copy / name).read_text(encoding="utf-8")
        needed = "from fedpriv.errors import FedprivError\nfrom fedpriv.trust import Shuffle\n"
        head = "from __future__ import annotations\n"
        (copy / name).write_text(text.replace(head, f"{head}{needed}", 1), encoding="utf-8")
    return copy, silent


@pytest.mark.slow
def test_a_trust_does_not_pass_the_type_check_until_each_place_has_said_something(
    unproved: tuple[Path, list[tuple[str, str, str]]],
) -> None:
    copy, silent = unproved
    assert {row(name) for name, _, _ in silent} == set(PLACES)
    checked = there(copy, "mypy", "--strict")
    assert checked.returncode == 0, checked.stdout  # all recipes together


SHUFFLED = ["--set", "privacy.trust=shuffle", "--set", "run.rounds=1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["account", "StochasticSign", "clip=0.1", "scale=10", "--trust", "shuffle", "--delta", "1e-5"],
        ["calibrate", "StochasticSign", "clip=0.1", "--trust", "shuffle", "--epsilon", "1", "--delta", "1e-5"],
        ["run", "digits", "--dry-run", *SHUFFLED],
        ["run", "digits", "--driver", "direct", "--quiet", *SHUFFLED],
        ["sweep", "quick", "--dry-run", "--set", "privacy.trust=shuffle"],
        ["sweep", "quick", "--workers", "1", "--quiet", "--set", "privacy.trust=shuffle"],
        ["audit", "digits", *SHUFFLED],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_every_command_refuses_a_trust_and_says_which_proof_is_missing(
    command: list[str], unproved: tuple[Path, list[tuple[str, str, str]]], tmp_path: Path
) -> None:
    copy, _ = unproved
    done = fedpriv(copy, *command)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert any(f"trust 'shuffle': no proof of {words}" in done.stderr for words in PLACES.values()), done.stderr
    assert "at most" not in done.stdout


ASKED = """
from pathlib import Path

import numpy as np
from clients.node.guard import Node
from fedpriv.errors import FedprivError

study = '''
name = "tiny"
data = { kind = "Synthetic", records = 60, features = 5, classes = 3, held_out = 20 }
clients = { count = 20, records = 2 }
privacy.mechanism = { kind = "StochasticSign", clip = 1.0, scale = 4.0 }
privacy.trust = "shuffle"
aggregation.kind = "MajorityVote"
run.rounds = 2
'''
policy = str(Path("policy.toml").absolute())
node = Node.of({"policy": policy, "partition-id": 0, "num-partitions": 2})
try:
    node.answer(study, np.zeros(18, np.float32), 1, np.arange(10))
except FedprivError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_deployed_node_answers_nothing_under_a_trust_without_its_proofs(
    unproved: tuple[Path, list[tuple[str, str, str]]],
) -> None:
    copy, _ = unproved
    policy = 'studies = "any"\nmechanisms = "any"\nbudget = { epsilon = 8.0, delta = 1e-5 }\n'
    (copy / "policy.toml").write_text(policy, encoding="utf-8")
    (copy / "asked.py").write_text(ASKED, encoding="utf-8")
    refused = there(copy, "asked")
    assert "trust 'shuffle': no proof of " in refused.stdout, refused.stderr
    assert not [line for line in (copy / "ledger" / "ledger.jsonl").read_text().splitlines()[1:] if line]
    (copy / "policy.toml").write_text(policy + 'trust = "shuffle"\n', encoding="utf-8")
    checked = fedpriv(copy, "deploy", "check", "policy.toml")
    assert checked.returncode == 2
    assert "policy: trust 'shuffle' is unknown" in checked.stderr


@pytest.mark.slow
def test_a_trust_without_bounds_is_refused_though_everything_else_is_said(
    unproved: tuple[Path, list[tuple[str, str, str]]], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(unproved[0], copy)
    refusal = re.compile(r"raise FedprivError\(\"trust 'shuffle': no proof of (?!a lower|an upper).*\"\)")
    instead = {
        "fedpriv/accounting/event.py": ["pass"],
        "fedpriv/studies/observers.py": ["return 1", "return Shuffle()"],
        "fedpriv/studies/promise.py": [None],
    }
    for name, bodies in instead.items():
        text = (copy / name).read_text(encoding="utf-8")
        for body in bodies:
            body = body or "return study.privacy.channel.event(dimension, trust_in(study), rounds=rounds)"
            text = refusal.sub(body, text, count=1)
        (copy / name).write_text(text, encoding="utf-8")
    for command in (
        ["account", "StochasticSign", "clip=0.1", "scale=10", "--trust", "shuffle", "--delta", "1e-5"],
        ["run", "digits", "--driver", "direct", "--quiet", *SHUFFLED],
    ):
        done = fedpriv(copy, *command)
        assert done.returncode == 2, done.stdout + done.stderr
        assert re.search(r"trust 'shuffle': no proof of (an upper bound|a lower bound)", done.stderr), done.stderr
        assert "at most" not in done.stdout
