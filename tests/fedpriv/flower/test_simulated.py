"""Flower's own simulation, once: masked sums in an app, and Flower's private strategy with an accountant of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from flwr.serverapp import GaussianPrivacyEvent

from fedpriv.flower import Accountant
from fedpriv.trust import MOST

ROOT = Path(__file__).resolve().parents[3]
APP = """
import json, sys
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation

from fedpriv.flower import Accountant, Private, SumsOnly, private
from fedpriv.mechanisms import Binomial

here = Path(sys.argv[1])
mechanism, sums = Binomial(clip=1.0, peak=0.25, scale=0.9, trials=4), SumsOnly(fewest=3)
client, server = ClientApp(), ServerApp()


def trained(message, context):
    moved = message.content.array_records["arrays"]["w"].numpy() + np.float32(0.1)
    content = {"arrays": ArrayRecord({"w": Array(moved)}), "metrics": MetricRecord({"num-examples": 1})}
    return Message(RecordDict(content), reply_to=message)


client.train()(trained)
client.train("summed", mods=[private(mechanism, ledger=here / "ledgers", sums=sums)])(trained)


class Summed(FedAvg):
    def _construct_messages(self, record, node_ids, message_type):
        return super()._construct_messages(record, node_ids, "train.summed")


@server.main()
def main(grid, context):
    settings = dict(fraction_evaluate=0.0, min_available_nodes=4)
    model = ArrayRecord({"w": Array(np.zeros(20, np.float32))})
    found = Private(Summed(**settings), mechanism, sums=sums).start(grid=grid, initial_arrays=model, num_rounds=2)
    accountant = Accountant(epsilon=10, delta=1e-5, file=here / "server.json")
    flowers = DifferentialPrivacyServerSideFixedClipping(FedAvg(**settings), 1.5, 1.0, 4, accountant=accountant)
    flowers.start(grid=grid, initial_arrays=model, num_rounds=2)
    told = {"sums": dict(found.train_metrics_clientapp[2]), "moved": bool(found.arrays["w"].numpy().any()),
            "epsilon": accountant.get_epsilon(1e-5), "releases": accountant.num_releases}
    (here / "told.json").write_text(json.dumps(told))


run_simulation(server, client, num_supernodes=4, backend_config={"client_resources": {"num_cpus": 1}})
"""


@pytest.mark.flower
def test_sums_are_masked_and_releases_accounted_in_flowers_simulation(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLWR_HOME": str(tmp_path / "flwr")}
    outcome = subprocess.run(
        [sys.executable, "app.py", str(tmp_path)], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=240,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["sums"]["answered"] == 4
    assert told["moved"]
    assert sorted(path.name for path in (tmp_path / "ledgers").iterdir()) == [f"node-{own}" for own in range(4)]
    by_hand = Accountant(delta=1e-5)
    by_hand.compose(GaussianPrivacyEvent(noise_multiplier=1.5, sample_size=4, population_size=MOST), 2)
    assert (told["releases"], told["epsilon"]) == (2, by_hand.get_epsilon(1e-5))
