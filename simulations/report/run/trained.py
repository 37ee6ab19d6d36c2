"""What a run has learnt, as a torch module and as a file of weights for programs that know nothing of fedpriv."""

from __future__ import annotations

import io
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedpriv._base.files import path_given
from fedpriv._base.own_modules import look_for_modules
from fedpriv.errors import FedprivError, one_of
from fedpriv.given import bare_name, held_objects
from fedpriv.records import Line
from server.directory import modules_of
from server.directory.checkpoint import FILE

if TYPE_CHECKING:
    from torch import nn

SUFFIXES = (".pt", ".safetensors", ".npz")


def trained_module(directory: Path, study: str, header: Line, given: Mapping[str, Any]) -> nn.Module:
    """A run's model with the weights it saved last, from records as its study scales them to logits, in use.

    `study` is its study.toml and `header` that of its records; `given` is what makes the model, where fp.run was given
    that in Python.
    """
    from torch import nn  # only where a model is asked for

    from clients.models import MODELS

    weights = _saved_weights(directory, header)
    data = header.get("data")
    try:
        tables = tomllib.loads(study)
        model, seed = dict(tables["training"]["model"]), tables["run"]["seed"]
    except (ValueError, KeyError, TypeError) as error:
        raise FedprivError(f"{directory}: its study.toml does not say what was trained ({error})") from None
    if data is None:
        raise FedprivError(
            f"{directory}: an earlier version made this run, which did not say for records of what shape"
        )
    named = str(model.get("path", model["kind"]))
    if given and bare_name(named) not in given:
        raise FedprivError(
            f"{directory}: was begun with model {named}, and this is {', '.join(given)}: another's weights"
        )
    look_for_modules(modules_of(directory))
    with held_objects(given):
        net = MODELS.made(model.pop("kind"), model).build(tuple(data["shape"]), data["classes"] or 1, seed)
        if net.dimension != len(weights):
            raise FedprivError(f"{directory}: holds {len(weights)} weights, its model has {net.dimension} now")
        module = net.module(weights.astype(np.float32))
    for own in module.parameters():
        own.data = own.detach().clone()  # apart from the vector that they were views of
    if isinstance(net.prepare, nn.Module):
        module = nn.Sequential(net.prepare, *(module if isinstance(module, nn.Sequential) else [module]))
    return module.eval()


def _saved_weights(directory: Path, header: Line) -> Any:
    """The weights in a run's checkpoint, refused where there are none or they are another run's."""
    path = directory / FILE
    try:
        with np.load(path, allow_pickle=False) as file:
            weights, study = file["weights"], file["study"].tobytes().hex()
    except FileNotFoundError:
        raise FedprivError(f"{directory}: no round has been saved, so that there is no model yet") from None
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise FedprivError(f"{path}: damaged checkpoint ({error})") from None
    if study != header["study"]:
        raise FedprivError(f"{path}: is the checkpoint of another study")
    return weights


def export_weights(module: nn.Module, path: str | os.PathLike[str]) -> Path:
    """Write a torch module's weights to a new file, by its ending a state_dict, safetensors or arrays by name."""
    place = path_given(path)
    one_of(SUFFIXES, **{f"{place}: ending": place.suffix})
    state = {name: own.detach().clone().contiguous() for name, own in module.state_dict().items()}
    content = io.BytesIO()
    match place.suffix:
        case ".pt":
            import torch

            torch.save(state, content)
        case ".npz":
            np.savez(content, **{name: own.numpy() for name, own in state.items()})
        case _:
            from safetensors.torch import save

            content.write(save(state, {"format": "pt"}))
    try:
        with open(place, "xb") as file:
            file.write(content.getbuffer())
    except FileExistsError:
        raise FedprivError(f"{place}: is there already: name another file, or remove it") from None
    except OSError as error:
        raise FedprivError(f"{place}: cannot be written ({error.strerror or error})") from None
    return place
