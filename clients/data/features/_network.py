"""What a network that was trained elsewhere makes of records, cut at one of its layers: the last one alone is trained.

Records go through it one at a time, so that what it gives for one does not depend on those beside it, to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from clients.data.features._images import images_of
from fedpriv._base.arrays import Rows
from fedpriv.errors import FAULTS, FedprivError, nearest_hint, reason
from fedpriv.registry import imported_class
from fedpriv.settings import check_fields

if TYPE_CHECKING:
    from torch import nn


def torch_weights(file: Path) -> Mapping[str, Any]:
    """The state dict of a .pt file, read as numbers alone: nothing in the file is run."""
    import torch

    found = torch.load(file, map_location="cpu", weights_only=True)
    return {name: value.numpy() for name, value in found.items()}


def safetensors_weights(file: Path) -> Mapping[str, Any]:
    """The state dict of a .safetensors file."""
    found: Mapping[str, Any] = import_module("safetensors.numpy").load_file(file)
    return found


def npz_weights(file: Path) -> Mapping[str, Any]:
    """The state dict of a .npz file, an array by name."""
    with np.load(file, allow_pickle=False) as found:
        return dict(found)


READERS = {".pt": torch_weights, ".safetensors": safetensors_weights, ".npz": npz_weights}


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """The activations of a torch module at a layer, with weights from a file that saw no records ε is to hold for."""

    network: Annotated[Mapping[str, Any], 'a table: kind = "module:Class", a torch.nn.Module, and what it is made with']
    weights: Annotated[str, "its state dict, as .pt, .safetensors or .npz"]
    layer: Annotated[str | None, "the module within whose output is taken; what it gives at its end if not given"] = (
        None
    )

    def __post_init__(self) -> None:
        check_fields(self)
        for name, value in {"weights": self.weights, **({} if self.layer is None else {"layer": self.layer})}.items():
            if not isinstance(value, str) or not value or "\0" in value:
                raise FedprivError(f"{name} must be a word, got {value!r}")
        kind = self.network.get("kind") if isinstance(self.network, Mapping) else None
        if not isinstance(kind, str) or ":" not in kind:
            raise FedprivError(f'network must be a table such as {{ kind = "module:Class" }}, got {self.network!r}')
        if Path(self.weights).suffix not in READERS:
            raise FedprivError(f"weights must name a file that ends in {', '.join(READERS)}, got {self.weights!r}")

    @property
    def files(self) -> tuple[Path, ...]:
        """The file of weights, which a run's data identity has the digest of."""
        return (Path(self.weights).expanduser().absolute(),)

    @cached_property
    def made_by(self) -> type[Any]:
        """The network's own class, imported: its code, too, decides what features are."""
        return imported_class("network", str(self.network["kind"]))

    @cached_property
    def _cut(self) -> nn.Module:
        """The network with the file's weights, in use, with all of the layers that the file has weights of."""
        import torch

        with torch.random.fork_rng(devices=[]):
            found = self.made_by(**{name: value for name, value in self.network.items() if name != "kind"})
        if not isinstance(found, torch.nn.Module):
            raise FedprivError(f"network: {self.network['kind']} is no torch.nn.Module")
        fill_network(found, self.files[0])
        layers = dict(found.named_modules())
        if self.layer is not None and self.layer not in layers:
            known = ", ".join(name for name in layers if name)
            raise FedprivError(f"layer {self.layer!r}{nearest_hint(self.layer, layers)}; the network's layers: {known}")
        return found.eval().requires_grad_(False)

    def __call__(self, records: Rows) -> Rows:
        """The layer's activations for a study's records, a row each; images have their channels first."""
        import torch

        torch.set_num_threads(1)
        given, network, found = images_of(records, "Pretrained") if records.ndim > 2 else records, self._cut, []
        kept = list[Rows]()  # copies: what comes behind the layer, and the next record, may write over what it gave
        layer = network.get_submodule(self.layer or "")
        handle = layer.register_forward_hook(
            lambda _, __, out: kept.append(np.array(out[0].numpy(), np.float32).ravel())
        )
        try:
            with torch.inference_mode():
                for record in given:
                    kept.clear()
                    network(torch.tensor(record)[None])
                    if not kept:
                        raise FedprivError(f"layer {self.layer!r} does not run for every record: take one that does")
                    found.append(kept[-1])
        finally:
            handle.remove()
        return np.stack(found)


def fill_network(network: nn.Module, file: Path) -> None:
    """Load a file's state dict into a network; refused where a layer is missing, too many, or of another shape."""
    import torch

    try:
        given = READERS[file.suffix](file)
    except FAULTS as error:
        raise FedprivError(f"{file}: no state dict can be read from it ({reason(error)})") from None
    name = type(network).__name__
    there, wanted = ({key: tuple(own.shape) for key, own in each.items()} for each in (given, network.state_dict()))
    for key in dict.fromkeys([*wanted, *there]):
        if there.get(key) != wanted.get(key):
            here, now = (f"has the shape {each[key]}" if key in each else "is missing" for each in (there, wanted))
            raise FedprivError(f"{file}: {key} {here}, and in {name} it {now}")
    network.load_state_dict({name: torch.as_tensor(np.asarray(value)) for name, value in given.items()})
