"""Where a model computes: as far as can be told without a GPU, all of a pass is on one device, and what is not here is
refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from clients.models import Cnn, Logistic, Mlp, Model, Module, Randomised
from clients.models._autograd import Autograd
from clients.models.devices import device_named, gpus_each
from clients.models.gradients import Net
from clients.models.losses import Huber
from clients.training.prepared import net_of, pool_of
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from simulations.command_line import main

NO_DATA = "NotImplementedError: Cannot copy out of meta tensor; no data!"
MODELS: dict[str, tuple[Model, tuple[int, ...]]] = {
    "Logistic": (Logistic(), (6,)),
    "Mlp": (Mlp(hidden=(8,)), (6,)),
    "Cnn": (Cnn(), (64,)),
    "Randomised": (Randomised(network={"kind": "Mlp", "hidden": [8]}, noise=0.5), (6,)),
    "Module": (Module(path="torch.nn:Linear", settings={"in_features": 6, "out_features": 3}), (6,)),
}
STUDY = """
data = { kind = "Synthetic", records = 60, features = 6 }
clients = { count = 6, records = 10 }
run.rounds = 2
"""


def inputs_for(net: Net) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    return net.initial(), rng.normal(size=(2, 3, *net.shape)).astype(np.float32), rng.integers(3, size=(2, 3))


@pytest.mark.parametrize("model", MODELS)
def test_all_of_a_pass_is_on_the_device_until_its_gradient_is_copied_out(model: str) -> None:
    """Torch's meta device has shapes and no values, and refuses to mix with the CPU: copying out is what fails."""
    made, shape = MODELS[model]
    net = made.build(shape, 3, seed=1).on(torch.device("meta"))
    weights, x, y = inputs_for(net)
    out = np.zeros((2, net.dimension), np.float32)
    net.gradients(weights, x, y, out)
    assert net.failures == {0: NO_DATA, 1: NO_DATA}
    with pytest.raises(FedprivError, match="Cannot copy out of meta tensor"):
        net.evaluate(weights, x[0], y[0])


def test_a_release_s_block_is_on_the_device_until_its_rows_are_copied_out() -> None:
    net = Cnn().build((64,), 3, seed=1).on(torch.device("meta"))
    weights, x, y = inputs_for(net)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        net.each(weights, x[0], y[0], np.zeros((3, net.dimension), np.float32))


@pytest.mark.parametrize("model", MODELS)
def test_to_name_the_cpu_changes_no_bit(model: str) -> None:
    made, shape = MODELS[model]
    rows = []
    for net in (made.build(shape, 3, seed=1), made.build(shape, 3, seed=1).on(device_named("cpu"))):
        weights, x, y = inputs_for(net)
        net.gradients(weights, x, y, out := np.empty((2, net.dimension), np.float32))
        rows.append(out)
    assert_array_equal(rows[0], rows[1])


@pytest.mark.parametrize("model", ["Logistic", "Mlp"])
def test_what_a_dense_net_is_elsewhere_has_its_gradients(model: str) -> None:
    """By autograd, on the CPU here: its weights stand in the same order."""
    made, shape = MODELS[model]
    net = made.build(shape, 3, seed=1)
    weights, x, y = inputs_for(net)
    again = Net(shape, 3, net.initial(), Autograd(net.module(weights).train()).on(torch.device("cpu")))
    rows = [np.empty((2, net.dimension), np.float32) for _ in range(2)]
    for own, out in zip((net, again), rows, strict=True):
        own.gradients(weights, x, y, out)
    assert_allclose(rows[0], rows[1], rtol=1e-5, atol=1e-6)


def test_a_loss_stays_with_a_net_that_is_moved() -> None:
    net = Logistic().build((6,), 1, seed=1).on(torch.device("meta")).learning(Huber(), True)
    _, x, _ = inputs_for(net)
    net.gradients(net.initial(), x, np.zeros((2, 3), np.float32), np.zeros((2, 7), np.float32))
    assert net.failures == {0: NO_DATA, 1: NO_DATA}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_is_not_here_is_refused_before_anything_begins(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cuda.toml"
    file.write_text(STUDY)
    out = tmp_path / "run"
    assert main(["run", str(file), "--driver", "direct", "--set", "training.device=cuda", "--out", str(out)]) == 2
    assert "training.device = 'cuda', but torch" in (said := capsys.readouterr().err)
    assert "finds none here: 'cpu', or 'auto'" in said
    assert not (out / "records.jsonl").exists()


def test_words_for_devices() -> None:
    assert device_named("cpu") == torch.device("cpu")
    assert gpus_each("cpu", 2) == 0
    assert gpus_each("auto", 2) == torch.cuda.device_count() / 2
    for word in ("gpu", "cuda:0", "CPU"):
        with pytest.raises(FedprivError, match="choices: cpu, cuda, mps, auto"):
            study_file.parsed_study(STUDY, overrides=[f"training.device='{word}'"])


def test_the_default_device_changes_no_id() -> None:
    plain, said = (study_file.parsed_study(STUDY, overrides=own) for own in ([], ["training.device=cpu"]))
    assert plain.id == said.id
    assert net_of(said, pool_of(said)).dimension == 28
