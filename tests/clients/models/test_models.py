"""A model is chosen by name, has the size and the start it should, and what is wrong with it is said in one line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from torch import Tensor, nn

from clients.models import MODELS, Cnn, Logistic, Mlp, Model, Module
from clients.models._shapes import image, kaiming_uniform
from fedpriv.errors import FedprivError

ROOT = Path(__file__).resolve().parents[3]
HERE = __name__
BUILT: list[Model] = [
    Logistic(),
    Mlp(hidden=(5,)),
    Cnn(),
    Module(path="torch.nn:Linear", settings={"in_features": 64, "out_features": 10}),
]


class Wide(nn.Module):
    """A classifier that refuses widths, forgets one parameter and leaves one frozen."""

    def __init__(self, width: int) -> None:
        super().__init__()
        if width > 9:
            raise ValueError(f"width {width}\nis too wide")
        self.first, self.second = nn.LazyLinear(width), nn.Linear(width, 3)
        self.unused = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


class Pair(nn.Linear):
    """Gives two things."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(x), x


class Normed(nn.Module):
    """A norm before a dense layer; `held` keeps it in use while the rest is trained."""

    def __init__(self, kind: str, held: bool = False, **settings: Any) -> None:
        super().__init__()
        self.norm = getattr(nn, kind)(**settings)
        self.last, self.held = nn.Linear(4, 3), held

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        if self.held:
            self.norm.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(x[:, None])[:, 0] if "Instance" in type(self.norm).__name__ else self.norm(x))


class Gathers(nn.Linear):
    """Centres records by a mean that it gathers in training; `used` says whether it does so in use."""

    def __init__(self, used: bool = True) -> None:
        super().__init__(4, 3)
        self.used = used
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return super().forward(x - self.mean if self.used else x)


class Indexed(nn.Module):
    """Takes whole numbers alone, so that made-up records do not go through."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4) if norm else nn.Identity()
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if (x % 1).any():
            raise ValueError("whole numbers alone")
        return self.last(self.norm(x))


def frozen(classes: int) -> nn.Module:
    return nn.Linear(4, classes).requires_grad_(False)


def double(classes: int) -> nn.Module:
    return nn.Linear(4, classes).double()


def table(classes: int) -> dict[str, int]:
    return {"classes": classes}


@cache
def shared(classes: int) -> nn.Module:
    return nn.Linear(4, classes)


class Projected(nn.Linear):
    """Reads a random projection, drawn from a generator that nobody seeds."""

    def __init__(self, classes: int) -> None:
        super().__init__(2, classes)
        drawn = np.random.default_rng().normal(size=(4, 2)).astype(np.float32)
        self.register_buffer("seen_through", torch.from_numpy(drawn))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x @ self.seen_through)


NUMBER = 7


# --- sizes and starts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "shape", "classes", "dimension"),
    [
        (Logistic(), (64,), 10, 650),
        (Logistic(), (28, 28), 10, 7850),
        (Mlp(), (784,), 10, 101770),
        (Mlp(hidden=(3, 2)), (4,), 5, 4 * 3 + 3 + 3 * 2 + 2 + 2 * 5 + 5),
        (Cnn(), (8, 8), 10, 6090),
        (Cnn(), (32, 32, 3), 10, 25578),
        (Module(path="torch.nn:Linear", settings={"in_features": 4, "out_features": 3}), (4,), 3, 15),
        (Module(path=f"{HERE}:Wide", settings={"width": 5}), (4,), 3, 2 + 4 * 5 + 5 + 5 * 3 + 3),
    ],
    ids=str,
)
def test_the_dimension_is_the_number_of_trained_weights(
    model: Model, shape: tuple[int, ...], classes: int, dimension: int
) -> None:
    net = model.build(shape, classes, seed=1)
    assert net.dimension == dimension
    assert net.initial().shape == (dimension,)
    assert net.initial().dtype == np.float32
    assert (net.shape, net.classes) == (shape, classes)
    assert net.chunk >= 1


@pytest.mark.parametrize("model", BUILT[1:], ids=str)
def test_the_start_follows_the_seed_and_nothing_else(model: Model) -> None:
    first = model.build((64,), 10, seed=1).initial()
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002
    state = torch.get_rng_state()
    again = model.build((64,), 10, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    out = np.empty((1, again.dimension), np.float32)
    again.gradients(again.initial() + 1, np.ones((1, 2, 64), np.float32), np.zeros((1, 2), np.int64), out)
    assert_array_equal(again.initial(), first)
    assert (model.build((64,), 10, seed=2).initial() != first).mean() > 0.9


def test_a_start_cannot_be_changed_from_outside() -> None:
    net = Mlp(hidden=(5,)).build((4,), 3, seed=1)
    before = net.initial()
    net.initial()[:] = 7
    assert_array_equal(net.initial(), before)


def test_a_logistic_regression_starts_at_zero() -> None:
    assert_array_equal(Logistic().build((64,), 10, seed=1).initial(), np.zeros(650))


@given(inputs=st.integers(1, 200), outputs=st.integers(1, 50), seed=st.integers(0, 2**40))
def test_starts_fill_the_interval_that_torchs_layers_use(inputs: int, outputs: int, seed: int) -> None:
    weights = kaiming_uniform([(outputs, inputs), (outputs,)], seed)
    bound = inputs**-0.5
    assert weights.size == outputs * inputs + outputs
    assert np.abs(weights).max() <= np.float32(bound)
    deviation = bound / np.sqrt(3 * weights.size)  # of the mean of so many
    assert abs(weights.mean()) < 6 * deviation


def test_the_start_of_a_convolution_counts_its_whole_window() -> None:
    weights = kaiming_uniform([(16, 3, 3, 3), (16,), (10, 100), (10,)], seed=1)
    assert np.abs(weights[:448]).max() == pytest.approx(27**-0.5, rel=0.01)
    assert np.abs(weights[448:]).max() == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shared", "it gives away the same module twice: every net needs weights of its own"),
        ("Projected", "its seen_through is another whenever it is built: draw from torch's generator"),
    ],
)
def test_a_module_that_is_not_the_same_for_each_and_each_ones_own_is_refused(name: str, message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        Module(path=f"{HERE}:{name}", settings={"classes": 3}).build((4,), 3, seed=1)


def test_a_module_starts_where_its_own_code_says() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        expected = nn.Linear(4, 3)
    net = Module(path="torch.nn:Linear", settings={"in_features": 4, "out_features": 3}).build((4,), 3, seed=3)
    assert_array_equal(net.initial(), torch.cat([expected.weight.ravel(), expected.bias]).detach().numpy())


# --- images -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_is_the_same_however_it_is_laid_out(channels: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 3, channels, 8, 8)).astype(np.float32)
    y = rng.integers(5, size=(2, 3))
    layouts = [x, x.reshape(2, 3, -1), np.ascontiguousarray(np.moveaxis(x, 2, -1))]
    layouts += [x[:, :, 0]] if channels == 1 else []
    rows = []
    for each in layouts:
        net = Cnn().build(each.shape[2:], 5, seed=1)
        rows.append(np.empty((2, net.dimension), np.float32))
        net.gradients(net.initial(), np.ascontiguousarray(each), y, rows[-1])
    for row in rows:
        assert np.abs(row).max() > 0
        np.testing.assert_allclose(row, rows[0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("shape", [(10,), (2, 8, 8), (8, 9), (3, 3), (8, 8, 2), (1, 8, 8, 1), (9,)])
def test_a_cnn_refuses_what_is_no_square_image(shape: tuple[int, ...]) -> None:
    with pytest.raises(FedprivError, match="square images of 1 or 3 channels"):
        image(shape)
    with pytest.raises(FedprivError, match="Cnn needs square images"):
        Cnn().build(shape, 10, seed=1)


# --- choosing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings", "model"),
    [
        ("Logistic", {}, Logistic()),
        ("Mlp", {}, Mlp(hidden=(128,))),
        ("Mlp", {"hidden": [64, 32]}, Mlp(hidden=(64, 32))),
        ("Cnn", {}, Cnn()),
        ("Module", {"path": "a.b:C", "settings": {"width": 3}}, Module(path="a.b:C", settings={"width": 3})),
        ("Module", {"path": "a:C"}, Module(path="a:C")),
    ],
)
def test_a_model_is_made_by_name(kind: str, settings: Mapping[str, Any], model: Model) -> None:
    assert MODELS.made(kind, settings) == model
    assert kind in MODELS


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("Logistik", {}, r"unknown model 'Logistik' \(did you mean 'Logistic'\?\); models: Logistic, "),
        (["Mlp"], {}, "unknown model"),
        ("Logistic", {"hidden": [3]}, "Logistic has no setting 'hidden'; settings: none"),
        ("Mlp", {"hiden": [3]}, "did you mean 'hidden'"),
        ("Mlp", {"hidden": []}, "Mlp: hidden must be a list of at least one width, got \\[\\]; none is Logistic"),
        ("Mlp", {"hidden": 128}, "Mlp: hidden must be a list of at least one width, got 128"),
        ("Mlp", {"hidden": [128, 0]}, "Mlp: hidden must be at least 1, got 0"),
        ("Mlp", {"hidden": [1.5]}, "Mlp: hidden must be a whole number, got 1.5"),
        ("Module", {}, "Module needs path; settings: path, settings"),
        ("Module", {"path": "torch.nn.Linear"}, "path must look like 'package.module:Class', got 'torch.nn.Linear'"),
        ("Module", {"path": 7}, "path must look like"),
        ("Module", {"path": "a:b", "settings": [1]}, r"settings must be a table of the class's arguments, got \[1\]"),
        ("Module", {"path": "a:b", "setings": {}}, "did you mean 'settings'"),
    ],
)
def test_a_wrong_choice_is_refused_in_one_line(kind: str, settings: Mapping[str, Any], message: str) -> None:
    with pytest.raises(FedprivError, match=message) as error:
        MODELS.made(kind, settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("model", BUILT, ids=str)
@pytest.mark.parametrize(
    ("shape", "classes", "seed", "message"),
    [
        ((), 10, 1, "shape must be a tuple"),
        ([64], 10, 1, "shape must be a tuple"),
        ((64, 0), 10, 1, "shape must be at least 1, got 0"),
        ((64,), 0, 1, "classes must be at least 1, got 0"),
        ((64,), 2.5, 1, "classes must be a whole number"),
        ((64,), 10, -1, "seed must be at least 0, got -1"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(model: Model, shape: Any, classes: Any, seed: int, message: str) -> None:
    with pytest.raises(FedprivError, match=message):
        model.build(shape, classes, seed)


NORMS = {
    "BatchNorm1d": {"num_features": 4}, "SyncBatchNorm": {"num_features": 4},
    "LazyBatchNorm1d": {}, "InstanceNorm1d": {"num_features": 1, "track_running_stats": True},
}  # fmt: skip


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("nested", [False, True])
def test_a_model_that_keeps_statistics_of_batches_is_refused_under_any_study(kind: str, nested: bool) -> None:
    model: Model = Module(path=f"{HERE}:Normed", settings={"kind": kind, **NORMS[kind]})
    if nested:
        model = MODELS.made(
            "Randomised",
            {
                "network": {
                    "kind": "Module",
                    "path": f"{HERE}:Normed",
                    "settings": {"kind": kind, **NORMS[kind]},
                },
                "noise": 0.1,
            },
        )
    name = kind.removeprefix("Lazy")
    with pytest.raises(
        FedprivError, match=rf"layer norm \({name}\) keeps running statistics .* GroupNorm looks at one"
    ):
        model.build((4,), 3, seed=1)


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("Normed", {"kind": "GroupNorm", "num_groups": 2, "num_channels": 4}),
        ("Normed", {"kind": "LayerNorm", "normalized_shape": 4}),
        ("Normed", {"kind": "BatchNorm1d", "num_features": 4, "held": True}),
        ("Normed", {"kind": "InstanceNorm1d", "num_features": 1}),
        ("Gathers", {"used": False}),
        ("Indexed", {"norm": False}),
    ],
)
def test_a_model_that_gathers_nothing_it_needs_is_taken(path: str, settings: Mapping[str, Any]) -> None:
    assert Module(path=f"{HERE}:{path}", settings=settings).build((4,), 3, seed=1).dimension >= 15


def test_a_batch_norm_that_keeps_nothing_is_refused_for_it_norms_by_what_is_judged() -> None:
    settings = {"kind": "BatchNorm1d", "num_features": 4, "track_running_stats": False}
    with pytest.raises(
        FedprivError, match=r"layer norm \(BatchNorm1d\) takes its statistics from the batch in use too"
    ):
        Module(path=f"{HERE}:Normed", settings=settings).build((4,), 3, seed=1)


def test_a_buffer_of_ones_own_that_training_moves_and_use_needs_is_refused() -> None:
    with pytest.raises(FedprivError, match="its buffer mean moves in training and counts in use, and nobody sends it"):
        Module(path=f"{HERE}:Gathers").build((4,), 3, seed=1)
    with pytest.raises(FedprivError, match=r"layer norm \(BatchNorm1d\) keeps running statistics"):
        Module(path=f"{HERE}:Indexed", settings={"norm": True}).build((4,), 3, seed=1)


@pytest.mark.parametrize(
    ("path", "settings", "message"),
    [
        ("nowhere.at_all:Net", {}, "importing nowhere.at_all failed: ModuleNotFoundError.*installed or on PYTHONPATH"),
        ("torch.nn:Linaer", {}, r"torch.nn has no Linaer \(did you mean 'Linear'\?\)"),
        (f"{HERE}:NUMBER", {}, "it must be a torch.nn.Module, got a int"),
        (f"{HERE}:table", {"classes": 3}, "it must make a torch.nn.Module, got a dict"),
        (f"{HERE}:Wide", {"width": 10}, r"calling it with \(width=10\) failed: ValueError: width 10 is too wide"),
        (f"{HERE}:Wide", {"with": 3}, r"calling it with \(with=3\) failed: TypeError"),
        (f"{HERE}:Wide", {}, "missing 1 required positional argument: 'width'"),
        (
            "torch.nn:Linear",
            {"in_features": 5, "out_features": 3},
            r"records of shape \(4,\) do not go through: Runtime",
        ),
        ("torch.nn:Linear", {"in_features": 4, "out_features": 2}, r"outputs of shape \(2, 3\), got \(2, 2\)"),
        (f"{HERE}:Pair", {"in_features": 4, "out_features": 3}, r"outputs of shape \(2, 3\), got a tuple"),
        (f"{HERE}:frozen", {"classes": 3}, "no parameter that requires a gradient"),
        (f"{HERE}:double", {"classes": 3}, "do not go through|must be float32 on cpu, got torch.float64"),
    ],
)
def test_a_module_that_cannot_be_built_names_its_path_and_what_failed(
    path: str, settings: Mapping[str, Any], message: str
) -> None:
    model = Module(path=path, settings=settings)
    with pytest.raises(FedprivError, match=message) as error:
        model.build((4,), 3, seed=1)
    assert str(error.value).startswith(f"Module {path}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0", "importing broken_model failed: ZeroDivisionError: division by zero"),
        ("class Net(:", "importing broken_model failed: SyntaxError"),
        ("import sys; sys.exit(3)", "importing broken_model failed: SystemExit: 3"),
        (
            "import nowhere_at_all",
            "importing broken_model failed: ModuleNotFoundError: No module named 'nowhere_at_all'",
        ),
    ],
)
def test_a_module_that_fails_to_import_says_why(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_model.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FedprivError, match=message) as error:
        Module(path="broken_model:Net").build((4,), 3, seed=1)
    assert "\n" not in str(error.value)


def test_a_module_may_be_anywhere_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somebodys_model.py").write_text("import torch\nclass Net(torch.nn.Linear): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    model = Module(path="somebodys_model:Net", settings={"in_features": 4, "out_features": 3})
    assert model.build((4,), 3, seed=1).dimension == 15


def test_models_are_chosen_and_checked_without_loading_torch() -> None:
    script = """
import sys
from clients.models import MODELS
for kind, settings in [("Logistic", {}), ("Mlp", {}), ("Cnn", {}), ("Module", {"path": "torch.nn:Linear"})]:
    MODELS.made(kind, settings)
sys.exit("torch" in sys.modules)
"""
    outcome = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, outcome.stderr
