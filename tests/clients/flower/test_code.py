"""What a server and its nodes compare: the syntax of what decides bytes, and nothing that only people read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clients.flower import code as compared
from fedpriv._base import syntax

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages that nodes have."""
    place = tmp_path_factory.mktemp("copy")
    for room in ("fedpriv", "clients"):
        shutil.copytree(ROOT / room, place / room, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def code_of(place: Path) -> str:
    program = "from clients.flower.code import code_identity; print(code_identity())"
    environment = os.environ | {"PYTHONPATH": str(place), "XDG_CACHE_HOME": str(place / "cache")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=place, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def with_change(copy: Path, name: str, was: str, now: str) -> str:
    """The code of the copy while a file of it says something else."""
    file = copy / name
    text = file.read_text(encoding="utf-8")
    assert was in text
    file.write_text(text.replace(was, now, 1), encoding="utf-8")
    try:
        return code_of(copy)
    finally:
        file.write_text(text, encoding="utf-8")


def test_a_comment_and_a_docstring_anywhere_change_nothing(copy: Path) -> None:
    before, kept = code_of(copy), {}
    for file in sorted(copy.rglob("*.py")):
        kept[file] = text = file.read_text(encoding="utf-8")
        _, future, rest = text.partition("from __future__ import annotations\n")
        said = f'"""Otherwise."""\n\n# a remark\n{future}{rest}' if future else text
        file.write_text(said.replace('    """The ', '    """Indeed the ') + "\n# another\n", encoding="utf-8")
    assert code_of(copy) == before == compared.code_identity()
    for file, text in kept.items():
        file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "was", "now"),
    [
        ("fedpriv/channel/_votes.py", "_TIES = 1 / 256", "_TIES = 1 / 255"),
        ("fedpriv/errors.py", "LARGEST = 1e150", "LARGEST = 1e151"),
        ("clients/training/cohort.py", "annotations\n", "annotations\nimport os\n"),
    ],
)
def test_a_constant_or_a_statement_does(copy: Path, file: str, was: str, now: str) -> None:
    assert with_change(copy, file, was, now) != code_of(copy)


def test_what_an_audit_makes_of_messages_is_no_matter_of_a_nodes(copy: Path) -> None:
    assert with_change(copy, "fedpriv/auditing/ranks.py", "annotations\n", "annotations\nimport os\n") == code_of(copy)


def test_what_was_found_is_kept_for_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syntax, "_caches", lambda: (tmp_path / "cache",))
    (module := tmp_path / "room" / "one.py").parent.mkdir()
    module.write_text("LIMIT = 1\n")
    first = syntax.code_digest([module.parent])
    (kept,) = (tmp_path / "cache").iterdir()
    monkeypatch.setattr(syntax, "syntax_text", lambda _: pytest.fail("parsed again"))
    assert syntax.code_digest([module.parent]) == first == kept.read_text()
    monkeypatch.undo()
    monkeypatch.setattr(syntax, "_caches", lambda: (tmp_path / "cache",))
    kept.write_text("damaged")
    assert syntax.code_digest([module.parent]) == first == kept.read_text()
    module.write_text("LIMIT = 2\n")
    assert syntax.code_digest([module.parent]) != first
    module.write_text("LIMIT = 1  # again\n")
    assert syntax.code_digest([module.parent]) == first


def test_where_nothing_can_be_kept_it_is_found_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "one.py").write_text("LIMIT = 1\n")
    monkeypatch.setattr(syntax, "_caches", lambda: (tmp_path / "file" / "none",))
    assert syntax.code_digest([tmp_path / "room"]) == syntax.code_digest([tmp_path / "room"])
