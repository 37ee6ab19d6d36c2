"""Where a model computes: the CPU, or a GPU by torch's own kernels. Bits hold on one kind of device, not across."""

from __future__ import annotations

import os

import torch

from fedpriv.errors import FedprivError
from fedpriv.studies.clients import Device


def device_named(word: Device) -> torch.device:
    """The device that a study's `training.device` names; refused where it is not here. `auto`: a GPU, if there is one.

    On a GPU torch must take kernels that give the same bits again: a round that is asked twice answers with one noise.

    >>> device_named("cpu")
    device(type='cpu')
    """
    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    found = next(name for name, there in here.items() if there) if word == "auto" else word
    if not here[found]:
        raise FedprivError(
            f"training.device = '{word}', but torch {torch.__version__} finds none here: 'cpu', or 'auto' for what is"
        )
    if found != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    return torch.device(found)


def gpus_each(word: Device, workers: int) -> float:
    """The share of this machine's GPUs that each of so many of Ray's workers is given: all it has, by equal parts."""
    return torch.cuda.device_count() / workers if word in ("cuda", "auto") else 0.0
