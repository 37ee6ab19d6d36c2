"""Gradients of any `torch.nn.Module`, one client after the other: nothing of one client can reach another.

Before each client the module gets its weights, its buffers as they were built, and torch's generator a seed; state that
a module keeps elsewhere, or randomness it draws elsewhere, is its own affair.
Inputs are copied to one aligned place and torch aligns what it allocates, so the bits do not depend on the caller.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from clients.models import per_record
from clients.models._training_noise import keys_of, noisy_layers
from clients.models.arrays import Counts, Floats, Keys, Labels
from clients.models.gradients import Engine, Failures, Losses, Prepare
from clients.models.losses import CrossEntropy, Loss, is_shipped, record_losses
from clients.models.memory import Scratch, aligned_zeros
from fedpriv.errors import FAULTS, FedprivError, reason


class Autograd:
    """A module whose trainable parameters are views of one vector. See `clients.models.gradients.Engine`."""

    chunk = 32  # clients at once; here it changes nothing
    loss: Loss = CrossEntropy()

    def __init__(self, module: nn.Module, prepare: Prepare = lambda x: x) -> None:
        """`prepare` brings records (records, *shape) into the form the module takes.

        The parameters move into a vector of ours, in the order of `module.parameters()`; those that do not require a
        gradient stay as they are.
        """
        self._module, self.prepare = module, prepare
        for name, own in module.named_parameters():
            if own.dtype != torch.float32 or own.device.type != "cpu":
                raise FedprivError(f"its parameter {name} must be float32 on cpu, got {own.dtype} on {own.device}")
        trained = sum(own.numel() for own in module.parameters() if own.requires_grad)
        if not trained:
            raise FedprivError("it has no parameter that requires a gradient")
        self._scratch = Scratch()
        self._place(torch.from_numpy(aligned_zeros((trained,))))
        self._weights = self._flat[None].clone()

    def _place(self, flat: Tensor) -> None:
        """Move the module to where `flat` is, its trained parameters into it; engines begin on the CPU."""
        self._flat, self._module = flat, self._module.to(flat.device)
        self._parameters = [own for own in self._module.parameters() if own.requires_grad]  # each once
        sizes = [own.numel() for own in self._parameters]
        for own, part in zip(self._parameters, torch.split(flat, sizes), strict=True):
            part.copy_(own.detach().reshape(-1))
            own.data = part.view(own.shape)
        self._buffers = buffers_of(self._module)
        self._seed = torch.default_generator.manual_seed if flat.device.type == "cpu" else torch.manual_seed

    def on(self, device: torch.device) -> Engine:
        """The engine itself, which computes on that device from now on; what it is given and gives stays on the CPU."""
        self._place(torch.zeros(self._flat.numel(), device=device))
        return self

    def start(self) -> Floats:
        """The weights (d,) the module was built with: where training of an imported model begins."""
        return np.array(self._weights[0].numpy())

    def load(self, weights: Tensor) -> None:
        """Take the weights under which gradients or logits come next, one vector for all clients or one for each."""
        self._weights = weights

    def rows(
        self, x: Floats, y: Labels, out: Tensor, keys: Keys | None, counts: Counts | None
    ) -> tuple[Losses, Failures]:
        """Clients' gradients into the rows of `out`, one after the other; losses, and why rows failed, each alone."""
        losses, failures = np.full(len(x), np.nan), Failures()
        weights = self._weights.expand(len(x), -1)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            for row in range(len(x)):
                self._seed(0 if keys is None else int(keys[row]) % 2**63)
                own = slice(None if counts is None else int(counts[row]))
                if counts is not None and not counts[row]:  # of no records there is no mean, and no gradient
                    losses[row], out[row] = 0.0, 0.0
                    continue
                try:
                    self._reset(weights[row], train=True)
                    outputs = self._module(self._inputs(x[row, own]))
                    labels = torch.from_numpy(y[row, own]).to(self._flat.device)
                    loss = record_losses(self.loss, outputs, labels).mean()
                    found = torch.autograd.grad(loss, self._parameters, materialize_grads=True)
                    torch.cat([gradient.reshape(-1).cpu() for gradient in found], out=out[row])
                    losses[row] = loss.item()
                except FAULTS as error:
                    failures[row] = reason(error)
                    out[row] = torch.nan
        return losses, failures

    def each(self, x: Floats, y: Labels, out: Tensor) -> None:
        """Every record's own gradient into `out` (records, d), for releases: layers in a row in blocks, else singly."""
        noisy = noisy_layers(self._module)
        together = is_shipped(self.loss) and per_record.has_record_gradients(self._module)
        keys = np.zeros(len(x), np.int64) if together and not noisy else keys_of(self._weights[0], x)
        if not together:
            self.rows(x[:, None], y[:, None], out, keys, None)
            return
        self._reset(self._weights[0], train=True)
        size = per_record.block_size(out.shape[1])
        inputs, rows = self._scratch("records", size, *x.shape[1:]), self._scratch("rows", size, out.shape[1])
        labels = self._scratch("labels", size, dtype=y.dtype)
        for start in range(0, len(x), size):
            count = len(x[start : start + size])
            inputs[:count], labels[:count] = (
                torch.tensor(x[start : start + size]),
                torch.tensor(y[start : start + size]),
            )
            for layer in noisy:
                layer.keys = np.resize(keys[start : start + count], size).tolist()
            device = self._flat.device
            whole = out[start : start + size] if count == size and device.type == "cpu" else rows.to(device)
            own = self.prepare(inputs).to(device), labels.to(device)
            per_record.record_gradients(self._module, self.loss, *own, whole)
            if whole.data_ptr() != out[start:].data_ptr():
                out[start : start + count] = whole[:count].cpu()
        for layer in noisy:
            layer.keys = None

    def logits(self, x: Floats) -> Tensor:
        """The module's outputs in evaluation mode, for accuracy; buffers, which nobody sends, are a new module's."""
        self._reset(self._weights[0], train=False)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            self._seed(0)
            outputs: Tensor = self._module(self._inputs(x)).cpu()
        return outputs

    def module(self, weights: Tensor) -> nn.Module:
        """A copy of the module with these weights and a new module's buffers, to be certified or attacked."""
        self._reset(weights, train=False)
        return deepcopy(self._module).cpu()

    def where_records_meet(self) -> str:
        """The first layer with statistics of a batch, in words, for which a release is refused; "" if none."""
        return per_record.where_records_meet(self._module)

    def _reset(self, weights: Tensor, *, train: bool) -> None:
        """Put weights, mode and buffers as built into the module: before each client, so that none reaches another."""
        self._module.train(train)
        self._flat.copy_(weights)
        for owner, name, built in self._buffers:
            setattr(owner, name, None if built is None else built.clone())

    def _inputs(self, x: Floats) -> Tensor:
        """Records as the module takes them, copied to one aligned place, so that bits do not depend on the caller."""
        return self.prepare(self._scratch.copy_of("inputs", x[None])[0]).to(self._flat.device)


def buffers_of(module: nn.Module) -> list[tuple[nn.Module, str, Tensor | None]]:
    """A module's buffers with owner, name and value, None too, to put back before each client: a pass may move them."""
    return [
        (owner, name, None if buffer is None else buffer.detach().clone())
        for owner in module.modules()
        for name, buffer in owner._buffers.items()
    ]
