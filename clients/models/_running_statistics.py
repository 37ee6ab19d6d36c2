"""What a module takes from batches and needs in use, which no message holds: it is refused before anybody trains it.

Weights travel, buffers do not: each client's begin as they were built, and so do those of whoever evaluates the model.
A batch norm would be used with the mean 0 and the variance 1 of a new one, whatever it was trained on; one that keeps
none would norm each image by those that are judged beside it.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from fedpriv.errors import FAULTS, FedprivError

Buffer = tuple[nn.Module, str, Tensor | None]
Buffers = Iterable[Buffer]


def check_running(module: nn.Module, buffers: Buffers, shape: tuple[int, ...]) -> None:
    """Refuse an imported model with a buffer that training moves and that counts in use, or that norms by batches."""
    for path, layer in module.named_modules():
        if isinstance(layer, _BatchNorm) and layer.running_mean is None:
            raise FedprivError(
                f"layer {path or 'itself'} ({type(layer).__name__}) takes its statistics from the batch in use too, so "
                "that what is said of an image depends on those beside it; GroupNorm looks at one record"
            )
    found = _moved(module, list(buffers), torch.rand(2, *shape))
    if found is None:
        return
    owner, name = found
    layer = next(path for path, each in module.named_modules() if each is owner)
    if isinstance(owner, _NormBase):
        raise FedprivError(
            f"layer {layer or 'itself'} ({type(owner).__name__}) keeps running statistics of what it is trained on, "
            "and nobody sends them: in use it would have those of a new module; GroupNorm looks at one record"
        )
    raise FedprivError(
        f"its buffer {f'{layer}.{name}'.lstrip('.')} moves in training and counts in use, and nobody sends it: trained "
        "weights alone travel"
    )


def _alike(now: Tensor | None, was: Tensor | None) -> bool:
    """Whether a module's buffer still is as it was before a step of training: the same values, or None both times."""
    return now is was if now is None or was is None else now.shape == was.shape and torch.equal(now, was)


def _moved(module: nn.Module, buffers: list[Buffer], x: Tensor) -> tuple[nn.Module, str] | None:
    """An imported module's first buffer that training moves (owner, name), if outputs in use depend on it; else None.

    Where made-up records do not go through, a layer that keeps running statistics is taken to move them.
    """
    try:
        with torch.no_grad():
            _put_back(buffers)
            built = module.eval()(x)
            _put_back(buffers)
            module.train()(x)
            moved = [(owner, name) for owner, name, was in buffers if not _alike(owner._buffers[name], was)]
            trained = module.eval()(x)
            found = moved if moved and not torch.equal(built, trained) else []
    except FAULTS:
        found = [(owner, name) for owner, name, was in buffers if isinstance(owner, _NormBase) and was is not None]
    _put_back(buffers)
    module.eval()
    return found[0] if found else None


def _put_back(buffers: Buffers) -> None:
    """Give every buffer of a module that was tried the value it was built with."""
    for owner, name, was in buffers:
        setattr(owner, name, None if was is None else was.clone())
