"""What a model is to everybody else: a vector of weights, and the gradient of each client's records as a row.

A client's row is the same bits whoever shares its block, wherever it stands in it, and whichever process computes it
(of one machine, one torch, one thread): its products are its own, in a batched `bmm` or a loop, on aligned memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import nan
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from clients.models._local_steps import PLAIN, LocalSteps
from clients.models.arrays import Counts, Floats, Keys, Labels, check_arrays, check_records
from clients.models.losses import Loss, record_losses
from clients.models.memory import Scratch
from fedpriv.aggregation.optimisers import Optimiser
from fedpriv.errors import FAULTS, FedprivError, positive, reason

Losses = NDArray[np.float64]
Failures = dict[int, str]
Batch = tuple[Floats, Labels]
Prepare = Callable[[Tensor], Tensor]

NOT_FINITE = "its gradient is not finite"
_NEXT_STEP = np.int64(0x9E3779B97F4A7C15 - 2**64)  # the golden ratio in 64 bits: keys of steps stay apart
_EVALUATED = 512  # records at once


class Engine(Protocol):
    """How one kind of model computes."""

    chunk: int  # clients at once that were found fastest
    prepare: Prepare  # brings records (records, *shape) into the form that its module takes
    loss: Loss  # of a record; the plain cross entropy until a study says otherwise

    def load(self, weights: Tensor) -> None:
        """Take the weights under which gradients or logits come next: (1, d) for all clients, or (clients, d)."""

    def rows(
        self, x: Floats, y: Labels, out: Tensor, keys: Keys | None, counts: Counts | None
    ) -> tuple[Losses, Failures]:
        """Clients' gradients into `out` (clients, d), for a net; the mean losses, and why rows are missing."""

    def each(self, x: Floats, y: Labels, out: Tensor) -> None:
        """Every record's own gradient into `out` (records, d), for a release to clip; nan where it cannot be had."""

    def logits(self, x: Floats) -> Tensor:
        """A model's outputs (records, classes) for x (records, *shape), as in use, by which accuracy is measured."""

    def module(self, weights: Tensor) -> nn.Module:
        """A torch module with the weights (d,), in evaluation mode, on prepared records: to certify or attack."""

    def on(self, device: torch.device) -> Engine:
        """The engine that computes the same on that device, for a net; arrays come and go on the CPU."""

    def where_records_meet(self) -> str:
        """The first layer with statistics of a batch, in words, for which a release is refused; "" if none."""


class Judged(NamedTuple):
    """What a model makes of held-out records."""

    figure: float  # accuracy, of numbers R²
    loss: float  # the mean one
    by_class: dict[int, float]  # accuracy among the records of each class that there are; of numbers none


class Net:
    """A model for inputs of one shape. It owns scratch memory: build it where it is used, one thread at a time."""

    def __init__(self, shape: tuple[int, ...], classes: int, start: Floats, engine: Engine) -> None:
        """`start` is the vector of initial weights (d,)."""
        self.shape, self.classes, self.dimension = shape, classes, start.size
        self.label_type: np.dtype[Any] = np.dtype(np.int64)  # of classes; float32 where labels are numbers
        self.failures: Failures = {}  # why a row of the last call is nan
        self._start, self._engine, self._scratch = start, engine, Scratch()

    @property
    def chunk(self) -> int:
        """How many clients of a cohort at once were found fastest; any number gives the same bits."""
        return self._engine.chunk

    @property
    def prepare(self) -> Prepare:
        """What brings a study's records (records, *shape) into the form that `module` takes."""
        return self._engine.prepare

    def module(self, weights: Floats) -> nn.Module:
        """The net with these weights as a torch module in evaluation mode, on prepared records: to certify, attack."""
        return self._engine.module(_tensor(weights))

    def where_records_meet(self) -> str:
        """The first layer with statistics of a batch, in words, for which a release is refused; "" if none."""
        return self._engine.where_records_meet()

    @property
    def numbers(self) -> bool:
        """Whether the labels that the net learns are numbers, not those of classes."""
        return self.label_type == np.float32

    def on(self, device: torch.device) -> Net:
        """The net itself, which computes a study's gradients on that device from now on; the CPU is where it begins."""
        if device.type != "cpu":
            self._engine = self._engine.on(device)
        return self

    def learning(self, loss: Loss, numbers: bool = False) -> Net:
        """The net itself, which makes a study's loss small from now on, of labels that are numbers or classes'."""
        self.label_type, self._engine.loss = np.dtype(np.float32 if numbers else np.int64), loss
        return self

    def initial(self) -> Floats:
        """The weights (d,) that a study's run starts from, the same in every process."""
        return self._start.copy()

    def gradients(
        self,
        weights: Floats,
        x: Floats,
        y: Labels,
        out: Floats,
        keys: Keys | None = None,
        counts: Counts | None = None,
        divisor: float | None = None,
    ) -> Losses:
        """A cohort's updates of one step: clients' mean gradients into `out` (clients, d); mean losses.

        x is (clients, records, *shape) and y (clients, records). A client whose gradient cannot be had gets a row and a
        loss of nan, and a reason in `failures`. Where a model draws randomness, `keys` (clients,) seeds it for each
        client; without, all clients draw the same. Where clients are uneven, `counts` (clients,) says how many records
        are each one's: those that come first, and the rest only fill the array (with anything finite). Of none the
        gradient is 0. With a `divisor` the sum of a client's gradients is divided by it, not by their number.
        """
        check_arrays(self, weights, x, y, out, keys, counts)
        self.failures = {}
        self._engine.load(_tensor(weights)[None])
        losses = np.empty(len(x))
        for part in block_slices(len(x), self.chunk):
            losses[part] = self._block(part, x, y, torch.from_numpy(out[part]), keys, counts, divisor=divisor)
        return losses

    def each(self, weights: Floats, x: Floats, y: Labels, out: Floats) -> None:
        """Every record's own gradient into `out` (records, d), for a release to clip, from x (records, *shape) and y.

        Its bits depend on the record alone, not on the batch it is in: else one record more could change others', and
        with them what is released, by more than a gradient's norm. What cannot be had is a row of nan.
        """
        check_arrays(self, weights, x[:, None], y[:, None], out, None, None)
        self._engine.load(_tensor(weights)[None])
        wrong = self._wrong(y)
        self._engine.each(x, np.where(wrong, y.dtype.type(0), y), torch.from_numpy(out))
        out[wrong] = np.nan

    def updates(
        self,
        weights: Floats,
        batches: Iterable[Batch],
        learning_rate: float,
        out: Floats,
        keys: Keys | None = None,
        counts: Counts | None = None,
        divisor: float | None = None,
        *,
        optimiser: Optimiser = PLAIN,
        proximal: float = 0.0,
    ) -> Losses:
        """A cohort's updates of local steps, one a batch, each client's (start − end) / learning rate, into `out`.

        That is the sum of a client's gradients along its way, or of what its optimiser makes of them: each client's own
        begins here. Returns the mean of its losses. `counts` (steps, clients) are of each step; they and `divisor` are
        as in `gradients`. `proximal` times (weights now − start) is added to every gradient.
        """
        positive(learning_rate=learning_rate)
        losses, steps, failures = np.zeros(1), 0, Failures()
        along = LocalSteps(optimiser, proximal * learning_rate)
        for x, y in batches:
            now_own = None if counts is None else counts[steps]
            if not steps:
                found = self.gradients(weights, x, y, out, keys, now_own, divisor)
                if not along.is_plain:
                    gradients, total = torch.from_numpy(out.copy()), torch.from_numpy(out).zero_()
                    self.failures = along.add(0, gradients, total) | self.failures
            else:  # what was summed up in `out` says where each client's weights are now
                check_arrays(self, weights, x, y, out, keys, now_own)
                self.failures = {}
                found, start = np.empty(len(x)), _tensor(weights)
                for part in block_slices(len(x), self.chunk):
                    total = torch.from_numpy(out[part])
                    now, step = (self._scratch(name, *total.shape) for name in ("now", "step"))
                    torch.mul(total, learning_rate, out=now)
                    torch.sub(start, now, out=now)  # not fused with the product: a fused tail rounds apart
                    self._engine.load(now)
                    found[part] = self._block(part, x, y, step, keys, now_own, divisor=divisor)
                    self.failures = along.add(part.start, step, total) | self.failures
            losses = losses + found
            failures = self.failures | failures  # the first reason stays
            steps += 1
            keys = None if keys is None else keys + _NEXT_STEP
        if not steps:
            raise FedprivError("batches must hold at least one batch, got none")
        self.failures = failures
        return losses / steps

    def _block(
        self, part: slice, x: Floats, y: Labels, out: Tensor, keys: Keys | None, counts: Counts | None,
        *, divisor: float | None,
    ) -> Losses:  # fmt: skip
        """The gradients and losses of one block of a cohort; whatever is wrong with one client stays with it."""
        labels = y[part]
        wrong = self._wrong(labels)
        some, own = (None if each is None else each[part] for each in (keys, counts))
        losses, failures = self._engine.rows(x[part], np.where(wrong, labels.dtype.type(0), labels), out, some, own)
        if divisor is not None:  # from a mean to a sum that is divided by what everybody knows
            number = np.full(len(labels), y.shape[1]) if own is None else own
            out.mul_(torch.from_numpy((number / divisor).astype(np.float32))[:, None])
        for row in map(int, np.flatnonzero(wrong.any(axis=1))):
            kinds = "finite" if self.numbers else f"one of the classes 0 to {self.classes - 1}"
            failures[row] = f"its label {labels[row][wrong[row]][0]} is not {kinds}"
        finite = np.isfinite(losses) & torch.isfinite(out.sum(1)).numpy()  # one pass over memory still in cache
        for row in map(int, np.flatnonzero(~finite)):
            failures.setdefault(row, NOT_FINITE)
        for failed, why in failures.items():
            losses[failed] = np.nan
            out[failed] = torch.nan
            self.failures[part.start + failed] = why
        return losses

    def _wrong(self, labels: Labels) -> NDArray[np.bool_]:
        """Which labels are none that the net can learn: numbers that are not finite, or no class's."""
        return ~np.isfinite(labels) if self.numbers else (labels < 0) | (labels >= self.classes)

    def evaluate(self, weights: Floats, x: Floats, y: Labels) -> tuple[float, float]:
        """A model's accuracy, of numbers R², and mean loss on x (records, *shape) and y (records,), the server's own.

        R² is 1 − Σ(y − ŷ)²/Σ(y − ȳ)²: 1 of a model that is always right, 0 of one that always says the mean.
        """
        found = self.judged(weights, x, y)
        return found.figure, found.loss

    def judged(self, weights: Floats, x: Floats, y: Labels) -> Judged:
        """What a model makes of held-out x (records, *shape) and y (records,): accuracy or R², loss, and by class."""
        check_records(self, weights, x, y)
        self._engine.load(_tensor(weights)[None])
        right, loss = 0.0, 0.0  # of numbers the squared errors are counted
        hit = np.zeros(len(x))
        for part in block_slices(len(x), _EVALUATED):
            labels = torch.tensor(y[part])
            try:
                logits = self._engine.logits(x[part])
                if logits.shape != (len(labels), self.classes):
                    raise FedprivError(f"it gives outputs of shape {tuple(logits.shape)} for {len(labels)} records")
                losses = record_losses(self._engine.loss, logits.float(), labels)
            except FAULTS as error:
                why = str(error) if isinstance(error, FedprivError) else reason(error)
                raise FedprivError(f"the model cannot be evaluated: {why}") from error
            hits = (logits[:, 0].double() - labels) ** 2 if self.numbers else logits.argmax(1) == labels
            right += float(hits.sum())
            loss += float(losses.double().sum())
            hit[part] = hits.numpy()
        if self.numbers:
            spread = float(((y - y.mean(dtype=np.float64)) ** 2).sum(dtype=np.float64))
            return Judged(1 - right / spread if spread else nan, loss / len(x), {})
        by_class = {each: float(hit[y == each].mean()) for each in np.unique(y).tolist()}
        return Judged(right / len(x), loss / len(x), by_class)


def torch_on_one_thread() -> None:
    """Have torch use one thread, as every worker does first: more than free cores made a round up to 76 times slower.

    Bits too are promised for one thread only: oneDNN chooses another convolution for more.
    """
    torch.set_num_threads(1)


def block_slices(count: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` over `count` rows: clients, records or draws that are computed at once.

    >>> list(block_slices(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _tensor(weights: Floats) -> Tensor:
    """A net's weights as a tensor, copied: arrays from elsewhere may be read-only, which torch does not know."""
    return torch.tensor(weights)
