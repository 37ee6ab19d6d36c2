"""The server's optimisers: their steps, what they remember over a stop, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedpriv.aggregation.optimisers import Adam, Optimiser, Sgd
from fedpriv.errors import FedprivError
from fedpriv.studies import file as study_file
from server import rounds
from simulations.runs.direct import Here

STUDY = """
data.kind = "Digits"
clients = { count = 20, records = 10 }
server = { step = 0.05, optimiser = { kind = "Adam", second = 0.99 } }
run.rounds = 6
"""


@pytest.mark.parametrize(
    ("own", "torchs"),
    [
        (Sgd(0.9), lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9)),
        (Adam(), lambda weights: torch.optim.Adam(weights, lr=0.1)),
        (Adam(first=0.5, second=0.9, floor=0.01), lambda w: torch.optim.Adam(w, lr=0.1, betas=(0.5, 0.9), eps=0.01)),
    ],
)
def test_steps_are_those_of_torchs_optimisers(own: Optimiser, torchs: object) -> None:
    weights, memory = np.ones(5), own.start(5)
    other = torch.ones(5, dtype=torch.float64, requires_grad=True)
    optimiser = torchs([other])  # type: ignore[operator]
    for direction in np.random.default_rng(1).normal(size=(20, 5)):
        memory, change = own.step(memory, direction)
        weights = weights - 0.1 * change
        other.grad = torch.tensor(direction)
        optimiser.step()
        assert weights == pytest.approx(other.detach().numpy(), rel=1e-9)


class Interrupted(Here):
    """Somebody presses Ctrl-C in round 4."""

    def ask(self, task):  # type: ignore[no-untyped-def]
        if task.round == 4:
            raise KeyboardInterrupt
        return super().ask(task)


def test_what_adam_remembers_survives_a_stop(tmp_path: Path) -> None:
    study = study_file.parsed_study(STUDY)
    result = rounds.run_rounds(study, tmp_path / "whole", Here(), quiet=True)
    with pytest.raises(KeyboardInterrupt):
        rounds.run_rounds(study, tmp_path / "cut", Interrupted(), quiet=True)
    rounds.run_rounds(study, tmp_path / "cut", Here(), resume=True, quiet=True)
    files = [tmp_path / name / "records.jsonl" for name in ("whole", "cut")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert result["accuracy"] > 0.7


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("server.momentum=0.9", "server: momentum is Sgd's, and Adam has its own"),
        ("server.optimiser.kind=Adma", "unknown optimiser 'Adma' (did you mean 'Adam'?)"),
        ("server.optimiser.second=1.0", "second must be in [0, 1), got 1.0"),
        ("server.optimiser.first=nan", "first must be finite, got nan"),
        ("server.optimiser.floor=0", "floor must be positive, got 0"),
        ("server.optimiser={kind='Sgd', momentum=0.9}", "its momentum is server.momentum"),
    ],
)
def test_what_no_optimiser_can_be_is_refused_in_one_line(override: str, message: str) -> None:
    with pytest.raises(FedprivError) as caught:
        study_file.parsed_study(STUDY, overrides=[override])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
