"""Seconds a round of pfl-research and of ByzFL, each run through its own API, without privacy and without attack.

One round is one gradient a client at batch 32 (FedSGD), their mean, one step of the server and the new model at the
clients: in one process, with one torch thread. The records are 60,000 random ones, divided over the clients beforehand.
Each project gets its fastest honest setting: pfl's users are views of the pool whose batch is cut once, so it gathers
nothing; ByzFL's loaders take a whole batch by one index where its own (a record at a time, then stacked) are slower.
Nothing is evaluated in a timed round. The time is the best of several rounds after one that warms up, in a process of
its own for each measurement, since both projects change settings of the whole process when they are imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

RECORDS, FEATURES, CLASSES = 60_000, 784, 10
ROUNDS = 7
MODELS: tuple[tuple[int, ...], ...] = ((), (128,))
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PFL_PYTORCH_DEVICE": "cpu"}


def pfl_round_seconds(hidden: tuple[int, ...], clients: int = 1_000, batch: int = 32) -> float:
    """The best of pfl's rounds: FederatedAveraging of one local step, in its SimulatedBackend."""
    return alone("pfl", hidden, clients, batch)


def byzfl_round_seconds(hidden: tuple[int, ...], clients: int = 1_000, batch: int = 32) -> float:
    """The best of ByzFL's rounds: the loop of its own benchmark (algorithm DSGD) with the aggregator Average."""
    return alone("byzfl", hidden, clients, batch)


def installed(project: str) -> bool:
    """Whether `pfl` or `byzfl` is here to be measured."""
    return find_spec(project) is not None


def alone(project: str, hidden: tuple[int, ...], clients: int, batch: int) -> float:
    """Measure in a new process of this interpreter."""
    command = [sys.executable, "-m", "benchmarks.peers", json.dumps([project, hidden, clients, batch])]
    answer = subprocess.run(
        command,
        cwd=Path(__file__).resolve().parent.parent,
        env={**os.environ, **ONE_THREAD},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(answer.stdout.splitlines()[-1])


def best(rounds: Iterator[float]) -> float:
    """The shortest round after the first."""
    next(rounds)
    return min(rounds)


def records() -> tuple[Any, Any]:
    """The pool: features and labels, as tensors."""
    import torch

    random = torch.Generator().manual_seed(1)
    features = torch.rand((RECORDS, FEATURES), generator=random)
    return features, torch.randint(CLASSES, (RECORDS,), generator=random)


def network(hidden: tuple[int, ...]) -> Any:
    """The model, as torch layers."""
    from torch import nn

    widths = (FEATURES, *hidden, CLASSES)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def pfl_rounds(hidden: tuple[int, ...], clients: int, batch: int) -> Iterator[float]:
    """Times between the ends of pfl's central iterations; only its first evaluates."""
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel

    class Model(torch.nn.Module):
        """What pfl asks of a model: its loss, and metrics for the iterations that evaluate."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = network(hidden)

        def loss(self, x: Any, y: Any) -> Any:
            return torch.nn.functional.cross_entropy(self.layers(x), y)

        def metrics(self, x: Any, y: Any) -> dict[str, Any]:
            with torch.no_grad():
                return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}

    class Clock(TrainingProcessCallback):
        """When each iteration ended."""

        def __init__(self) -> None:
            self.ends: list[float] = []

        def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
            self.ends.append(perf_counter())
            return False, Metrics()

    x, y = records()
    share = RECORDS // clients
    users = [PyTorchTensorDataset((x[i * share :][:share], y[i * share :][:share])) for i in range(clients)]
    data = FederatedDataset(users.__getitem__, get_user_sampler("minimize_reuse", range(clients)))
    module, clock = Model(), Clock()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=ROUNDS + 2,
            evaluation_frequency=ROUNDS + 2,
            train_cohort_size=clients,
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0)),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=None, local_num_steps=1, local_learning_rate=0.1, local_batch_size=batch
        ),
        callbacks=[clock],
        send_metrics_to_platform=False,
    )
    yield from (end - start for start, end in pairwise(clock.ends))


def byzfl_rounds(hidden: tuple[int, ...], clients: int, batch: int) -> Iterator[float]:
    """Times of the body of ByzFL's training loop (benchmark/train.py), where no client is Byzantine."""
    from torch.utils.data import DataLoader

    # Its benchmark package only downloads data and draws; it would bring torchvision, which binds to one torch build.
    sys.modules["byzfl.benchmark"] = ModuleType("byzfl.benchmark")
    import byzfl
    from byzfl.fed_framework import models

    setattr(models, "Measured", lambda: network(hidden))  # noqa: B010  # ByzFL looks its models up in this module by name
    x, y = records()
    settings: dict[str, Any] = {
        "model_name": "Measured",
        "device": "cpu",
        "optimizer_name": "SGD",
        "learning_rate": 0.1,
        "weight_decay": 0.0,
        "milestones": [],
        "learning_rate_decay": 1.0,
    }
    honest = [
        byzfl.Client(
            {
                **settings,
                "loss_name": "CrossEntropyLoss",
                "LabelFlipping": False,
                "training_dataloader": DataLoader(Pool(x, y), sampler=batches, batch_size=None),
                "momentum": 0.0,
                "nb_labels": CLASSES,
                "store_per_client_metrics": False,
            }
        )
        for batches in shares(clients, batch)
    ]
    aggregator = {"name": "Average", "parameters": {}}
    server = byzfl.Server(
        {**settings, "aggregator_info": aggregator, "pre_agg_list": [], "test_loader": DataLoader(Pool(x, y))}
    )
    attacker = byzfl.ByzantineClient({"name": "NoAttack", "f": 0, "parameters": {}})

    for _ in range(ROUNDS + 1):
        start = perf_counter()
        for client in honest:
            client.compute_gradients()
        gradients = [client.get_flat_gradients_with_momentum() for client in honest]
        server.update_model_with_gradients(gradients + attacker.apply_attack(gradients))
        model = server.get_dict_parameters()
        for client in honest:
            client.set_model_state(model)
        yield perf_counter() - start


class Pool:
    """A dataset of torch's protocol whose items are whole batches."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        return self.x[index], self.y[index]


def shares(clients: int, batch: int) -> Iterator[list[Any]]:
    """The batches of every client, one for each round: indices of its own records."""
    import torch

    share = RECORDS // clients
    for client in range(clients):
        yield [client * share + torch.randperm(share)[:batch] for _ in range(ROUNDS + 1)]


ROUNDS_OF: dict[str, Callable[[tuple[int, ...], int, int], Iterator[float]]] = {
    "pfl": pfl_rounds,
    "byzfl": byzfl_rounds,
}


def main() -> None:
    """Every project that is installed, on every model; with an argument, one measurement and nothing else."""
    if len(sys.argv) > 1:
        import torch

        project, hidden, clients, batch = json.loads(sys.argv[1])
        torch.set_num_threads(1)
        print(best(ROUNDS_OF[project](tuple(hidden), clients, batch)))
        return
    for project in ROUNDS_OF:
        for hidden in MODELS:
            title = f"{project:>6}  {'-'.join(map(str, (FEATURES, *hidden, CLASSES))):<12}"
            if not installed(project):
                print(f"{title}  not installed")
                continue
            seconds = alone(project, hidden, 1_000, 32)
            print(f"{title}  {seconds:.3f} s a round of 1,000 clients, {1_000 / seconds:,.0f} clients a second")


if __name__ == "__main__":
    main()
