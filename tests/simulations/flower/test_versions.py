"""The range of flwr that pyproject.toml allows: the installed one lies in it, others are tried where they install."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent.parent
WANTED = next(
    word
    for word in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    if word.startswith("flwr[")
)
LEAST, MOST = (tuple(map(int, found.split("."))) for found in re.findall(r"\d+\.\d+", WANTED))  # MOST is not allowed
MINORS = [f"{LEAST[0]}.{minor}" for minor in range(LEAST[1], MOST[1])]
INSTALLED = ".".join(version("flwr").split(".")[:2])
RELIED_ON = [  # what of Flower the project stands on, met by functions and by real processes
    "tests/server/test_nodes.py",
    "tests/clients/flower/test_masking_flower.py",
    "tests/simulations/flower/test_flower.py",
]


def pip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=900)


def test_the_installed_version_is_one_that_is_allowed() -> None:
    assert INSTALLED in MINORS


@pytest.mark.slow
@pytest.mark.flower
@pytest.mark.parametrize("minor", [minor for minor in MINORS if minor != INSTALLED])
def test_what_stands_on_flower_stands_on_its_other_versions(minor: str, tmp_path: Path) -> None:
    """Skipped, saying why, where pip finds no such version or not all that it needs."""
    if pip("--version").returncode:
        pytest.skip("no pip here")
    found = pip("install", "--quiet", "--dry-run", f"flwr[simulation]=={minor}.*")
    if found.returncode:
        pytest.skip(f"flwr {minor} does not install here: {found.stderr.strip().splitlines()[-1]}")
    other = tmp_path / "flwr"
    assert pip("install", "--quiet", "--no-deps", "--target", str(other), f"flwr=={minor}.*").returncode == 0
    paths = os.pathsep.join([str(other), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "PATH": f"{other / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-c", "import flwr; print(flwr.__file__)"]
    seen = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60).stdout
    assert Path(seen.strip()).is_relative_to(other)
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *RELIED_ON],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stdout[-3000:]
