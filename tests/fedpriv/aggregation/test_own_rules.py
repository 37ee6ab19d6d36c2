"""Rules of one's own, `module:Class`: called, or refused in one line before anybody is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from server import rounds
from simulations.command_line import main
from simulations.runs.direct import Here

STUDY = """
data = { kind = "Synthetic", records = 200, features = 6, classes = 3 }
clients = { count = 20, byzantine = 2, records = 5 }
attack.kind = "SignFlip"
aggregation.kind = "WHICH"
[privacy.mechanism]
kind = "Binomial"
clip = 1.0
scale = 2.0
trials = 4
[run]
rounds = 2
"""
MODULE = '''
import numpy as np

CALLS = []

class Plain:
    """Says nothing of itself."""
    def __call__(self, matrix, aid):
        CALLS.append(matrix.shape)
        return matrix.mean(axis=0)

class Votes(Plain):
    votes = True
    least = 5
    def __call__(self, matrix, aid):
        return np.sign(super().__call__(matrix, aid))

class Weighs(Plain):
    weights = [1.0, 2.0]  # its own affair

class AsksTheServer(Plain):
    needs_reference, root = True, 7
    def __call__(self, matrix, aid):
        CALLS.append(aid.reference.shape)
        return matrix.mean(axis=0)

class Draws(Plain):
    def __call__(self, matrix, aid):
        CALLS.append(matrix.shape)
        return matrix[aid.rng.integers(len(matrix))]

class Assumes(Plain):
    assumes = "bad"
    def __init__(self, bad):
        self.bad = bad
    def __call__(self, matrix, aid):
        CALLS.append(self.bad)
        return matrix.mean(axis=0)

class Sums(Plain):
    needs_rows = False
    def __call__(self, matrix, aid=None):
        raise RuntimeError("I was called")

class NotCallable:
    needs_rows = True

class LeastWord(Plain):
    least = "x"

class LeastNone(Plain):
    least = 0

class LeastRaises(Plain):
    @property
    def least(self):
        raise KeyError("n")

class NeedsWord(Plain):
    needs_rows = "yes"

class VotesWord(Plain):
    votes = 1

class TooMany(Plain):
    least = 21

class OneArgument:
    def __call__(self, rows):
        return rows.mean(axis=0)

class Shape(Plain):
    def __call__(self, matrix, aid):
        return matrix.mean(axis=1)

class Nan(Plain):
    def __call__(self, matrix, aid):
        return matrix.mean(axis=0) * np.nan

class Words(Plain):
    def __call__(self, matrix, aid):
        return "the mean"

class Raises(Plain):
    def __call__(self, matrix, aid):
        raise SystemExit(3)

class Halves:
    """A step: the first half of the rows."""
    keeps_symbols = True
    def left(self, rows):
        return -(-rows // 2)
    def __call__(self, matrix, aid):
        return matrix[: -(-len(matrix) // 2)]

class Vanishes(Halves):
    def left(self, rows):
        return 0

class StepOfVectors(Halves):
    def __call__(self, matrix, aid):
        return matrix[0]
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "ownrules.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import sys

    sys.modules.pop("ownrules", None)
    import ownrules  # type: ignore[import-not-found]

    yield ownrules
    sys.modules.pop("ownrules", None)


def run(directory: Path, rule: str, *overrides: str) -> dict[str, Any]:
    study = study_file.parsed_study(STUDY.replace("WHICH", rule), overrides=overrides)
    return rounds.run_rounds(study, directory, Here(1), quiet=True)


@pytest.mark.parametrize("name", ["Plain", "Votes", "Weighs", "AsksTheServer", "Draws", "Assumes"])
def test_a_rule_of_ones_own_is_called_in_every_round(name: str, own: Any, tmp_path: Path) -> None:
    result = run(tmp_path / "run", f"ownrules:{name}", *["data.aside=7"] * (name == "AsksTheServer"))
    assert result["skipped"] == 0
    assert len(own.CALLS) == 3  # a rehearsal and two rounds
    if name == "Assumes":
        assert own.CALLS == [2, 2, 2]


def test_behind_nnm_it_is_called_too_whatever_it_has_by_the_name_of_weights(own: Any, tmp_path: Path) -> None:
    result = run(tmp_path / "run", "Mean", "aggregation={kind='ownrules:Weighs', before=[{kind='Nnm'}]}")
    assert (result["skipped"], len(own.CALLS)) == (0, 3)


REFUSED_WHEN_READ = {
    "Sums": r"aggregation ownrules:Sums: needs_rows must be true or left out: only rules that ship work on sums",
    "NotCallable": r"aggregation ownrules:NotCallable has no __call__: it is called with \(matrix, aid\)",
    "LeastWord": r"aggregation ownrules:LeastWord: least must be a whole number, got 'x'",
    "LeastNone": r"least must be at least 1, got 0",
    "LeastRaises": r"aggregation ownrules:LeastRaises: least: KeyError: 'n'",
    "NeedsWord": r"needs_rows must be True or False, got 'yes'",
    "VotesWord": r"votes must be True or False, got 1",
    "TooMany": r"needs 21 clients, but a round asks 20 at most",
    "Absent": r"'ownrules:Absent' cannot be imported",
}
REFUSED_WHEN_TRIED = {
    "OneArgument": r"TypeError: .*3 were given; it is called with \(matrix, aid\), a row a client",
    "Shape": r"aggregation ownrules:Shape must give 21 finite numbers, got an array of shape \(4,\)",
    "Nan": r"must give 21 finite numbers, got some that are not finite",
    "Words": r"aggregation ownrules:Words: ValueError",
    "Raises": r"aggregation ownrules:Raises: SystemExit: 3",
}


@pytest.mark.parametrize("name", REFUSED_WHEN_READ)
def test_what_a_rule_says_of_itself_is_checked_when_the_study_is_read(name: str, own: Any) -> None:
    with pytest.raises(FedprivError, match=REFUSED_WHEN_READ[name]):
        study_file.parsed_study(STUDY.replace("WHICH", f"ownrules:{name}"))
    assert not own.CALLS


@pytest.mark.parametrize("how", ["run", "dry-run", "sweep"])
@pytest.mark.parametrize("name", [*REFUSED_WHEN_READ, *REFUSED_WHEN_TRIED])
def test_every_command_refuses_it_in_one_line_before_anybody_is_asked(
    name: str, how: str, own: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "mine.toml", tmp_path / "out"
    file.write_text(STUDY.replace("WHICH", f"ownrules:{name}"), encoding="utf-8")
    command = ["run", str(file), "--driver", "direct", "--out", str(out)]
    if how == "dry-run":
        command.append("--dry-run")
    if how == "sweep":
        if name == "Raises":
            return  # one of the tried is enough for Ray
        file.write_text(file.read_text(encoding="utf-8") + '[sweep]\n"run.seed" = [1]\n', encoding="utf-8")
        command = ["sweep", str(file), "--dry-run"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "ownrules:" in said
    assert not out.exists()


STEPS = {
    "ownrules:Vanishes": "too few rows behind",
    "ownrules:StepOfVectors": r"must give rows of 21 finite numbers, got an array of shape \(21,\)",
    "ownrules:Plain": r"must give rows of 21 finite numbers, got an array of shape \(21,\)",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_ones_own_is_checked_like_a_rule(step: str, own: Any, tmp_path: Path) -> None:
    del own
    with pytest.raises(FedprivError, match=STEPS[step]):
        run(tmp_path / "run", "Mean", f"aggregation={{kind='Median', before=[{{kind='{step}'}}]}}")


def test_a_step_of_ones_own_precedes_any_rule(own: Any, tmp_path: Path) -> None:
    del own
    for rule in ("Median", "MajorityVote"):
        chosen = f"aggregation={{kind='{rule}', before=[{{kind='ownrules:Halves'}}]}}"
        assert run(tmp_path / rule, "Mean", chosen)["skipped"] == 0
    assert np.isfinite(run(tmp_path / "again", "Mean")["accuracy"])


def test_the_example_of_the_page_is_called_with_its_settings(tmp_path: Path, monkeypatch: Any) -> None:
    page = (Path(__file__).parents[3] / "docs" / "studies.md").read_text(encoding="utf-8")
    source = page.partition("## Rules of your own")[2].partition("```python\n")[2].partition("```")[0]
    (tmp_path / "pagerules.py").write_text("import numpy as np\n\n" + source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    rule, found = "aggregation={{kind='pagerules:Closest', kept={}}}", {}
    for kept in ("0.2", "1.0"):
        found[kept] = run(tmp_path / kept, "Mean", rule.format(kept), "run.rounds=4")
    mean = run(tmp_path / "mean", "Mean", "run.rounds=4")
    one, all_, other = (np.load(tmp_path / name / "checkpoint.npz")["weights"] for name in ("0.2", "1.0", "mean"))
    assert found["1.0"]["skipped"] == mean["skipped"] == 0
    assert all_ == pytest.approx(other, abs=1e-5)
    assert one != pytest.approx(other, abs=1e-2)
