"""A model somebody wrote, by its import path; what goes wrong is said in one line that names the path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from clients.models._autograd import Autograd, buffers_of
from clients.models._running_statistics import check_running
from clients.models.gradients import Net
from fedpriv.errors import FAULTS, FedprivError, nearest_hint, reason
from fedpriv.registry import WHERE


def _check_alike(module: nn.Module, again: nn.Module) -> None:
    """Refuse an imported class that makes one module twice, or two that differ: every process builds its own."""
    if {id(own) for own in module.parameters()} & {id(own) for own in again.parameters()}:
        raise FedprivError("it gives away the same module twice: every net needs weights of its own")
    one, other = _bits(module), _bits(again)
    for name in one.keys() | other.keys():
        if one.get(name) != other.get(name):  # trained weights travel, so every process must build the same
            raise FedprivError(
                f"its {name} is another whenever it is built: draw from torch's generator, which is seeded"
            )


def imported_net(path: str, settings: Mapping[str, Any], shape: tuple[int, ...], classes: int, seed: int) -> Net:
    """`Module`'s net: the class at `package.module:Class`, built and tried once under torch's generator with that seed.

    >>> imported_net("torch.nn:Linear", {"in_features": 64, "out_features": 10}, (64,), 10, seed=1).dimension
    650
    """
    try:
        module, again = (_built(path, settings, shape, classes, seed) for _ in range(2))
        _check_alike(module, again)
        engine = Autograd(module)
        with torch.random.fork_rng(devices=[]):
            check_running(module, buffers_of(module), shape)
    except FedprivError as error:
        raise FedprivError(f"Module {path}: {error}") from error.__cause__
    return Net(shape, classes, engine.start(), engine)


def _built(path: str, settings: Mapping[str, Any], shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    """The torch module that a study's class makes of its settings, tried on two records, which sizes lazy layers."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % 2**63)
        place, name = path.split(":")
        try:
            source = import_module(place)
        except FAULTS as error:
            where = f"; {WHERE}" if isinstance(error, ModuleNotFoundError) else ""
            raise FedprivError(f"importing {place} failed: {reason(error)}{where}") from error
        if not hasattr(source, name):
            raise FedprivError(f"{place} has no {name}{nearest_hint(name, vars(source))}")
        made_by = getattr(source, name)
        if not callable(made_by):
            raise FedprivError(f"it must be a torch.nn.Module, got a {type(made_by).__name__}")
        arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        with _told(f"calling it with ({arguments}) failed"):
            module = made_by(**settings)
        if not isinstance(module, nn.Module):
            raise FedprivError(f"it must make a torch.nn.Module, got a {type(module).__name__}")
        module.eval()
        with _told(f"records of shape {shape} do not go through"), torch.no_grad():
            outputs = module(torch.zeros(2, *shape))
        if not isinstance(outputs, torch.Tensor) or outputs.shape != (2, classes):
            got = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else f"a {type(outputs).__name__}"
            raise FedprivError(f"2 records must give outputs of shape (2, {classes}), got {got}")
    return module


@contextmanager
def _told(words: str) -> Iterator[None]:
    """A context in which whatever somebody's model raises is said in one line that begins with these words."""
    try:
        yield
    except FAULTS as error:
        raise FedprivError(f"{words}: {reason(error)}") from error


def _bits(module: nn.Module) -> dict[str, bytes]:
    """By name, the bytes of an imported module's weights and buffers that have a size, to compare two builds of it."""
    every = [*module.named_parameters(), *module.named_buffers()]
    known = [(name, own.detach().reshape(-1)) for name, own in every if not is_lazy(own)]
    return {name: own.view(torch.uint8).numpy().tobytes() for name, own in known}
