"""The package as others get it: an sdist that all is in, and a wheel that works in an empty directory."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import fedpriv

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.slow


def ran(*command: str, at: Path, **environment: str) -> str:
    """What a command printed on standard output, having ended well; nothing is asked of a network."""
    done = subprocess.run(command, cwd=at, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the sdist of this repository."""
    place = tmp_path_factory.mktemp("dist")
    ran(sys.executable, "-m", "hatchling", "build", "-d", str(place), at=ROOT)
    return place


@pytest.fixture(scope="module")
def metadata(built: Path) -> Message:
    """What the wheel says of itself."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        name = next(each for each in wheel.namelist() if each.endswith("dist-info/METADATA"))
        return message_from_bytes(wheel.read(name))


def test_the_sdist_has_all_that_the_readme_speaks_of(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    tops = ["Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "LICENSE",
            "constraints.txt", "mkdocs.yml", "pyproject.toml", ".ci/run"]  # fmt: skip
    assert {*tops, "docs/studies.md", "examples/own_rule.py", "tests/conftest.py", "tools/tables.py"} <= names
    tracked = ran("git", "ls-files", "fedpriv", "clients", "server", "simulations", at=ROOT).split()
    assert set(tracked) <= names


def test_the_wheel_has_every_module_the_studies_and_its_types(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    packages = ("fedpriv", "clients", "server", "simulations")
    assert {
        path for path in ran("git", "ls-files", *packages, at=ROOT).split() if path.endswith((".py", ".toml"))
    } <= names
    assert {f"{package}/py.typed" for package in packages} <= names
    assert {name.partition("/")[0] for name in names} == {*packages, f"fedpriv-{fedpriv.__version__}.dist-info"}


def test_the_metadata_name_no_host_and_every_extra(metadata: Message) -> None:
    assert metadata["Version"] == fedpriv.__version__
    assert metadata.get_all("Provides-Extra") == ["dev", "docs", "hub", "parquet", "track"]
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert metadata.get_all("Project-URL") is None
    assert f"version: {fedpriv.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_wheel_runs_a_study_from_an_empty_directory(built: Path, tmp_path: Path) -> None:
    target, empty = tmp_path / "target", tmp_path / "empty"
    empty.mkdir()
    wheel = str(next(built.glob("*.whl")))
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target))
    ran(*pip, wheel, at=empty)
    few = ("--driver", "direct", "--set", "clients.count=60", "--set", "run.rounds=1", "--out", "run")
    ran(str(target / "bin" / "fedpriv"), "run", "digits", *few, at=empty, PYTHONPATH=str(target))
    assert (empty / "run" / "records.jsonl").is_file()
    where = ran(
        sys.executable, "-c", "import simulations; print(simulations.__file__)", at=empty, PYTHONPATH=str(target)
    )
    assert Path(where.strip()).is_relative_to(target)
