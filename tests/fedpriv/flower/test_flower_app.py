"""The example app as its README starts it: on Flower's simulation, and on a SuperLink with SuperNodes."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fedpriv.flower import read_ledgers
from simulations.flower._own_superlink import HOST, healthy, own_superlink, port_of
from simulations.flower.surroundings import end_all, flower_environment, scratch_directory, started_process, wait_until

APP = Path(__file__).parents[3] / "examples" / "flower-app"
pytestmark = [pytest.mark.flower, pytest.mark.slow]


def ran(env: dict[str, str], ledger: Path, nodes: int, *words: str) -> dict[str, float]:
    """What the app prints at its end, on the SuperLink that `env` names."""
    config = f'num-nodes={nodes} num-server-rounds=2 fedpriv.ledger="{ledger}"'
    done = subprocess.run(
        ["flwr", "run", str(APP), "here", "--stream", "--run-config", config, *words],
        env=env, capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    found = re.search(r"accuracy ([\d.]+), \{(.*)\}", done.stdout + done.stderr)
    assert found, (done.stdout + done.stderr)[-3000:]
    told = {name: float(value) for name, value in re.findall(r"'([\w-]+)': ([\d.e-]+)", found[2])}
    return {"accuracy": float(found[1]), **told}


def check_ledgers(ledger: Path, nodes: int, told: dict[str, float]) -> None:
    """Every node has a ledger, and it agrees with the metrics."""
    assert (told["answered"], told["rejected"]) == (nodes, 0)
    ledgers = read_ledgers(ledger)
    assert sorted(ledgers) == sorted(f"node-{each}" for each in range(nodes))
    for own in ledgers.values():
        assert own.epsilon(1e-5) == pytest.approx((told["epsilon-lower"], told["epsilon"]), rel=1e-6)


def test_the_example_app_runs_in_private_on_flowers_simulation(tmp_path: Path) -> None:
    with scratch_directory() as scratch, own_superlink(scratch) as env:
        told = ran(env, tmp_path, 4, "--federation-config", "num-supernodes=4")
    check_ledgers(tmp_path, 4, told)


@contextmanager
def deployed(scratch: Path, nodes: int) -> Iterator[dict[str, str]]:
    """A SuperLink and SuperNodes as processes of this machine; the environment in which `here` names the link."""
    env, port = flower_environment(scratch), port_of(0)
    (scratch / "flwr").mkdir()
    (scratch / "flwr" / "config.toml").write_text(f'[superlink.here]\naddress = "{HOST}:{port}"\ninsecure = true\n')
    usual = ["--insecure", "--isolation", "subprocess", "--host", HOST]
    with ExitStack() as stack:
        log = stack.enter_context((scratch / "log").open("w"))
        link = ["flower-superlink", *usual, "--port", str(port), "--disable-runtime-dependency-installation"]
        stack.callback(end_all, started_process(link, scratch, env, log))
        assert wait_until(lambda: healthy(port), 60)
        for own in range(nodes):
            place = f"partition-id={own} num-partitions={nodes}"
            words = ["--superlink", f"{HOST}:{port}", "--port", str(port_of(0)), "--node-config", place]
            stack.callback(end_all, started_process(["flower-supernode", *usual, *words], scratch, env, log))
        yield env


def test_the_example_app_runs_in_private_on_a_superlink_with_supernodes() -> None:
    with scratch_directory() as scratch, tempfile.TemporaryDirectory() as ledger, deployed(scratch, 2) as env:
        told = ran(env, Path(ledger), 2)
        check_ledgers(Path(ledger), 2, told)
