"""The notebooks of examples/ run from beginning to end, and first_run.py prints what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
NEEDS = {"private_flower_app": "fedpriv.flower"}


def test_there_are_three_notebooks_without_outputs_and_of_short_cells() -> None:
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
        assert max(len(cell["source"]) for cell in cells) <= 20


@pytest.mark.slow
@pytest.mark.flower
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_to_its_end(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec(NEEDS.get(path.stem, "fedpriv")) is None:
        pytest.skip(f"{NEEDS[path.stem]} is not here")
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    nbclient.NotebookClient(nbformat.read(path, 4), timeout=300, kernel_name="python3").execute()


@pytest.mark.slow
def test_the_first_run_prints_accuracy_and_both_bounds(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "first_run.py")]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"accuracy (.*), ε at most (.*) and at least (.*)\n", done.stdout)
    assert found
    accuracy, most, least = map(float, found.groups())
    assert accuracy > 0.85
    assert least <= most <= 4
