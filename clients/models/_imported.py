"""A model somebody wrote, by its import path; what goes wrong is said in one line that names the path."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from clients.models._autograd import Autograd, buffers_of
from clients.models._running_statistics import check_running
from clients.models.gradients import Net
from fedpriv.errors import FAULTS, FedprivError, nearest, reason
from fedpriv.registry import WHERE


def imported_net(path: str, settings: Mapping[str, Any], shape: tuple[int, ...], classes: int, seed: int) -> Net:
    """The network of the class at `package.module:Class`, built and tried once under torch's generator with that seed.

    >>> imported_net("torch.nn:Linear", {"in_features": 64, "out_features": 10}, (64,), 10, seed=1).dimension
    650
    """
    try:
        module, again = (_built(path, settings, shape, classes, seed) for _ in range(2))
        _check_same(module, again)
        engine = Autograd(module)
        with torch.random.fork_rng(devices=[]):
            check_running(module, buffers_of(module), shape)
    except FedprivError as error:
        raise FedprivError(f"Module {path}: {error}") from error.__cause__
    return Net(shape, classes, engine.start(), engine)


def _built(path: str, settings: Mapping[str, Any], shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    """The module, tried."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % 2**63)
        module = _called(_found(path), settings)
        _try(module, shape, classes)
    return module


def _check_same(module: nn.Module, again: nn.Module) -> None:
    """Refuse one module for several nets, and what each process would build in another way: trained weights travel."""
    if {id(own) for own in module.parameters()} & {id(own) for own in again.parameters()}:
        raise FedprivError("it gives away the same module twice: every net needs weights of its own")
    one, other = _bits(module), _bits(again)
    for name in one.keys() | other.keys():
        if one.get(name) != other.get(name):
            raise FedprivError(
                f"its {name} is another whenever it is built: draw from torch's generator, which is seeded"
            )


def _bits(module: nn.Module) -> dict[str, bytes]:
    """Of weights and buffers, those aside that have no size yet."""
    every = [*module.named_parameters(), *module.named_buffers()]
    known = [(name, own.detach().reshape(-1)) for name, own in every if not is_lazy(own)]
    return {name: own.view(torch.uint8).numpy().tobytes() for name, own in known}


def _found(path: str) -> Any:
    """What the path names."""
    module, name = path.split(":")
    try:
        source = import_module(module)
    except FAULTS as error:
        where = f"; {WHERE}" if isinstance(error, ModuleNotFoundError) else ""
        raise FedprivError(f"importing {module} failed: {reason(error)}{where}") from error
    if not hasattr(source, name):
        raise FedprivError(f"{module} has no {name}{nearest(name, vars(source))}")
    return getattr(source, name)


def _called(made_by: Any, settings: Mapping[str, Any]) -> nn.Module:
    """The module that a class, or a function, makes of the settings."""
    if not callable(made_by):
        raise FedprivError(f"it must be a torch.nn.Module, got a {type(made_by).__name__}")
    arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    try:
        module = made_by(**settings)
    except FAULTS as error:
        raise FedprivError(f"calling it with ({arguments}) failed: {reason(error)}") from error
    if not isinstance(module, nn.Module):
        raise FedprivError(f"it must make a torch.nn.Module, got a {type(module).__name__}")
    return module


def _try(module: nn.Module, shape: tuple[int, ...], classes: int) -> None:
    """Two records of zeros through the module; this also gives lazy layers their sizes."""
    module.eval()
    try:
        with torch.no_grad():
            outputs = module(torch.zeros(2, *shape))
    except FAULTS as error:
        raise FedprivError(f"records of shape {shape} do not go through: {reason(error)}") from error
    if not isinstance(outputs, torch.Tensor) or outputs.shape != (2, classes):
        got = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else f"a {type(outputs).__name__}"
        raise FedprivError(f"2 records must give outputs of shape (2, {classes}), got {got}")
