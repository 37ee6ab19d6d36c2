"""A Ray cluster of two nodes that is there already: a run and a sweep on both, to the same bytes as here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulations.flower.surroundings import end_all, flower_environment, scratch_directory

ROOT = Path(__file__).resolve().parents[3]
STUDY = """
name = "spread"
data = { kind = "Synthetic", records = 260, features = 5, classes = 3, held_out = 60 }
clients = { count = 40, records = 5, byzantine = 39 }
privacy.mechanism = { kind = "StochasticSign", clip = 1.0, scale = 4.0 }
attack.kind = "where:Where"
aggregation.kind = "MajorityVote"
run = { rounds = 3, seed = 1 }
sweep = { "run.seed" = [1, 2, 3, 4] }
"""
WHERE = """
import os, sys
from pathlib import Path

class Where:
    def on_updates(self, updates, view):
        node = sys.modules["ray"].get_runtime_context().get_node_id() if "ray" in sys.modules else "here"
        Path("nodes").mkdir(exist_ok=True)
        Path("nodes", node).touch()
        return updates
"""
CLUSTER = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def told() -> Iterator[dict[str, str]]:
    """What the cluster's processes and ours are told; each machine has this code."""
    with scratch_directory() as scratch:
        told = flower_environment(scratch) | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        told.pop("FEDPRIV_DIRECTORY")
        yield {name: text for name, text in told.items() if name not in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}


@pytest.fixture
def address(told: dict[str, str]) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], env=told, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, start_new_session=True, cwd=told["RAY_TMPDIR"],
    )  # fmt: skip
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        yield next(line.strip() for line in lines if line.strip().rpartition(":")[2].isdigit())
    finally:
        end_all(process)


@pytest.mark.flower
@pytest.mark.slow
def test_a_run_and_a_sweep_on_two_nodes_leave_the_bytes_of_one_process(
    told: dict[str, str], address: str, tmp_path: Path
) -> None:
    (tmp_path / "spread.toml").write_text(STUDY.replace("sweep", "# sweep"))
    (tmp_path / "grid.toml").write_text(STUDY)
    (tmp_path / "where.py").write_text(WHERE)
    out = fedpriv(told, tmp_path, "run", "spread.toml", "--driver", "direct", "--out", "here")
    assert nodes(tmp_path) == {"here"}
    out = fedpriv(told, tmp_path, "run", "spread.toml", "--driver", "direct", "--ray", address, "--out", "spread")
    assert out["why"] == "finished"
    assert len(nodes(tmp_path)) == 2
    for name in ("records.jsonl", "ledger.jsonl"):
        assert (tmp_path / "spread" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    out = fedpriv(told, tmp_path, "sweep", "grid.toml", "--ray", address, "--out", "grid")
    assert (out["finished"], out["workers"]) == (4, 2)
    assert "here" not in nodes(tmp_path)  # one node may have done all, where the other was slow to begin
    cell = tmp_path / "grid" / "cells" / cell_of(tmp_path / "here") / "records.jsonl"
    assert cell.read_bytes() == (tmp_path / "here" / "records.jsonl").read_bytes()


@pytest.mark.flower
def test_an_address_where_no_cluster_is_and_a_driver_that_takes_none_are_one_line(
    told: dict[str, str], tmp_path: Path
) -> None:
    for words, why in (
        (
            ["--driver", "direct", "--ray", "127.0.0.1:1"],
            "Ray at 127.0.0.1:1 cannot be reached: ConnectionRefusedError",
        ),
        (["--ray", "127.0.0.1:1"], "--ray is for --driver direct"),
    ):
        done = fedpriv_process(told, tmp_path, "run", "digits", *words)
        assert done.returncode == 2
        assert done.stderr.startswith(f"fedpriv: {why}")
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def cell_of(run: Path) -> str:
    """The name of the sweep's cell that is this run."""
    return str(json.loads((run / "records.jsonl").read_text().splitlines()[0])["study"])


def nodes(folder: Path) -> set[str]:
    """Where attackers were since this was asked last."""
    found = set(os.listdir(folder / "nodes"))
    for name in found:
        (folder / "nodes" / name).unlink()
    return found


def fedpriv_process(told: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "simulations.command_line", *words, "--quiet", "--json"]
    return subprocess.run(command, cwd=folder, env=told, capture_output=True, text=True, timeout=300)


def fedpriv(told: dict[str, str], folder: Path, *words: str) -> dict[str, object]:
    done = fedpriv_process(told, folder, *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.flower
def test_workers_start_beside_somebody_elses_clients_folder(tmp_path: Path) -> None:
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "__init__.py").write_text("raise ImportError('of another project')")
    words = ["run", "digits", "--driver", "direct", "--workers", "2", "--quiet", "--set", "run.rounds=1"]
    command = "import sys; from simulations.command_line import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", command, *words, "--set", "clients.count=60"], cwd=tmp_path, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "finished" in done.stdout
