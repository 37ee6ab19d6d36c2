"""Apps written as Flower's public quickstarts are, each with two lines added."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdam, FedAvg

from fedpriv.flower import Private, private, read_ledgers
from fedpriv.mechanisms import StochasticSign
from tests.flower_apps import Nodes, digits_of, flower_identity, softmax_app, softmax_model

__all__ = ["flower_identity"]
ROOT = Path(__file__).parents[3]
SIGN = StochasticSign(clip=1, peak=0.25, scale=1)


def test_scikit_learn_whose_models_are_of_doubles(tmp_path: Path) -> None:
    from sklearn.linear_model import SGDClassifier

    app = ClientApp(mods=[private(SIGN, ledger=tmp_path)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        x, y = digits_of(int(context.node_config["partition-id"]), 6)
        model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.01, random_state=1)
        model.partial_fit(x[:1], y[:1], classes=np.arange(10))
        model.coef_, model.intercept_ = message.content["arrays"].to_numpy_ndarrays()
        model.partial_fit(x, y)
        metrics = MetricRecord({"num-examples": len(x), "train_logloss": 0.1})
        arrays = ArrayRecord([model.coef_, model.intercept_])
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    first = ArrayRecord([np.zeros((10, 64)), np.zeros(10)])
    result = Private(FedAvg(), SIGN).start(Nodes(app, 6), first, num_rounds=3)
    assert [each.dtype for each in result.arrays.values()] == ["float64", "float64"]
    assert result.train_metrics_clientapp[3]["answered"] == 6
    assert result.arrays["0"].numpy().any()


class Net(torch.nn.Module):
    """A network with what quickstarts have: a convolution, batch norm, two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.out = torch.nn.Linear(4 * 36, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.relu(self.norm(self.conv(x))).flatten(1))


def torch_app(ledger: Path) -> ClientApp:
    app = ClientApp(mods=[private(SIGN, ledger=ledger, frozen=["conv.bias"])])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        x, y = digits_of(int(context.node_config["partition-id"]), 5)
        net = Net()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(torch.tensor(x.reshape(-1, 1, 8, 8))), torch.tensor(y))
            loss.backward()
            optimiser.step()
        buffers = ArrayRecord({"seen": Array(np.array(y[:3]))})
        metrics = MetricRecord({"train_loss": loss.item(), "num-examples": len(x)})
        own: Any = {"arrays": ArrayRecord(net.state_dict()), "buffers": buffers, "metrics": metrics}
        return Message(RecordDict(own), reply_to=message)

    return app


@pytest.mark.parametrize("inner", [FedAvg(), FedAdam(eta=0.01)], ids=lambda own: type(own).__name__)
def test_torch_with_batch_norm_a_second_record_and_metrics(
    tmp_path: Path, inner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    first = ArrayRecord(Net().state_dict())
    # an odd number of signs never adds up to zero: no array can come back as it was
    grid = Nodes(torch_app(tmp_path), 5)
    result = Private(inner, SIGN, frozen=["conv.bias"]).start(grid, first, num_rounds=3)
    assert result.train_metrics_clientapp[3]["answered"] == 5
    at_home = ["conv.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    assert list(result.arrays) == list(first)
    for name, array in result.arrays.items():
        assert (array.dtype, array.shape) == (first[name].dtype, first[name].shape)
        assert (array.data == first[name].data) == (name in at_home), name
    Net().load_state_dict(result.arrays.to_torch_state_dict())
    trained = sum(array.numpy().size for name, array in first.items() if name not in at_home)
    assert next(iter(read_ledgers(tmp_path).values())).events[0].dimension == trained
    assert all(sorted(each.content) == ["fedpriv", "fedpriv.told"] for each in grid.replies)


def test_what_stays_with_the_server_and_what_stays_at_home_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from fedpriv.flower._mod import tell_once

    tell_once.cache_clear()
    Private(FedAvg(), SIGN, frozen=["conv.bias"]).start(
        Nodes(torch_app(tmp_path), 4), ArrayRecord(Net().state_dict()), num_rounds=2
    )
    told = [each.message for each in caplog.records if each.name == "fedpriv" and each.levelname == "WARNING"]
    assert told == [
        "clients are not asked to evaluate: evaluate=PrivateEvaluation(…) on both sides asks, charged",
        "these arrays stay as the server sends them: conv.bias, norm.running_mean, norm.running_var, "
        "norm.num_batches_tracked",
        "these records of the app's answers stay on the node: buffers, metrics",
    ]


def test_it_works_and_loads_no_torch_in_a_directory_with_somebodys_clients_and_server(tmp_path: Path) -> None:
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "__init__.py").write_text("")
    (tmp_path / "clients" / "train.py").write_text("def step(w):\n    return w + 1\n")
    (tmp_path / "server.py").write_text("raise RuntimeError('imported by name alone')\n")
    program = f"""
import sys
sys.path[:0] = ["", {str(ROOT)!r}]
import numpy as np
from clients.train import step
import fedpriv as fp
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
found = {{"torch", "ray", "matplotlib", "sklearn", "scipy.stats"}} & set(sys.modules)
assert not found, found
mod = fp.flower.private("StochasticSign clip=1 scale=2", ledger={str(tmp_path / "led")!r})
app = ClientApp(mods=[mod])

@app.train()
def train(message, context):
    w = step(message.content["arrays"]["w"].numpy())
    return Message(RecordDict({{"arrays": ArrayRecord({{"w": Array(w)}})}}), reply_to=message)

from tests.flower_apps import Nodes, TaskIdentity
TaskIdentity._task_id = TaskIdentity._run_id = TaskIdentity._node_id = 1
strategy = fp.flower.Private(FedAvg(), "StochasticSign clip=1 scale=2")
result = strategy.start(Nodes(app, 3), ArrayRecord({{"w": Array(np.zeros(7))}}), num_rounds=2)
print(result.train_metrics_clientapp[2]["answered"], *fp.flower.read_ledgers({str(tmp_path / "led")!r}))
assert not any(name in sys.modules for name in ("torch", "ray"))
"""
    done = subprocess.run([sys.executable, "-"], input=program, cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": ""}, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", "node-0", "node-1", "node-2"]


@pytest.mark.slow
def test_an_app_learns_as_a_study_of_the_same_channel_and_training_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means of ten seeds: one run's accuracy varies by .07, and so the difference of the means by .03."""
    import fedpriv as fp
    from fedpriv.flower import _answering
    from tests.flower_apps import held_out_accuracy

    random.seed(7)  # by which Flower orders the nodes
    rng = np.random.default_rng(7)
    monkeypatch.setattr(_answering, "cryptographic_generator", lambda: rng)
    file = tmp_path / "app.toml"
    file.write_text("""
data = { kind = "Digits", divide = 16.0, subtract = 0.0 }
clients = { count = 20, records = 71 }
training = { model = { kind = "Logistic" }, local_steps = 4, learning_rate = 1.0 }
privacy.mechanism = { kind = "StochasticSign", clip = 1.0, peak = 0.25, scale = 1.0 }
privacy.norm = "clip"
privacy.trust = "local"
aggregation = { kind = "Mean" }
server = { step = 1.0, momentum = 0.0 }
run = { rounds = 12 }
""")
    app, study = [], []
    for seed in range(1, 11):
        nodes = Nodes(softmax_app([private(SIGN, ledger=tmp_path / f"led-{seed}")], rate=1.0))
        result = Private(FedAvg(), SIGN).start(nodes, softmax_model(), num_rounds=12)
        app.append(held_out_accuracy(result.arrays))
        run = fp.run(fp.read_study(str(file), [f"run.seed={seed}"]), str(tmp_path / f"run-{seed}"), quiet=True)
        study.append(run.last("accuracy"))
        assert run.epsilon["upper"] == pytest.approx(result.train_metrics_clientapp[12]["epsilon"], rel=1e-9)
    assert np.mean(app) == pytest.approx(np.mean(study), abs=0.03)
