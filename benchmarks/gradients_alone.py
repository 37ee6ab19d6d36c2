"""The gradients of every client and nothing else, by hand, as fast as this machine was found to give them.

What is inside: for each client the gradient of its mean cross-entropy over one batch, at common weights, written as a
row (weights and bias of each layer in turn) of a matrix that was there before. Clients go through in chunks; a layer's
forward product is shared by the chunk, and each client's gradient is its own product in a `bmm`. A worker's matrix has
rows for up to 1,000 clients; further clients write over them.

What is not: clipping, encoding, packing, sending, summing, a step, or drawing who takes part and which records.

"without gathering" reads a client's records where they stand, one after another in the pool of 60,000 × 784 float32:
these are the gradients alone. "with gathering" first takes each client's batch, scattered over the pool, into a buffer
of the chunk's size, which any study whose batches change has to do. Workers are processes started before the clock,
each with one torch thread and its share of the clients; a round lasts from the first to start until the last to end,
and the best of several rounds is shown. Each worker first checks a row against autograd.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise, product
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
import torch.multiprocessing  # teaches processes to share tensors
from torch import Tensor

RECORDS, FEATURES, CLASSES = 60_000, 784, 10
KEPT = 1_000
ROUNDS = 15
PATIENCE = 300.0  # seconds that workers wait for each other
MODELS: tuple[tuple[int, ...], ...] = ((), (128,))
CHUNKS = {(): 32, (128,): 16}  # clients at once, the fastest found

Span = tuple[float, float, float]  # when a worker's part of a round began and ended, and its processor time
Chunks = Callable[[int, int], tuple[Tensor, Tensor]]  # the records and labels of so many clients from one on
_start: dict[str, Any] = {}  # what a worker was started with


def seconds(hidden: tuple[int, ...], clients: int, batch: int, workers: int, *, gathering: bool = False) -> float:
    """The best round of `clients` gradients on this many workers."""
    return measured(hidden, clients, batch, workers, gathering=gathering)[0]


def measured(
    hidden: tuple[int, ...], clients: int, batch: int, workers: int, *, gathering: bool = False
) -> tuple[float, float]:
    """The shortest round, and the least processor time of all workers together, which a busy machine disturbs less."""
    x = torch.rand((RECORDS, FEATURES), generator=torch.Generator().manual_seed(1)).share_memory_()
    y = torch.randint(CLASSES, (RECORDS,), generator=torch.Generator().manual_seed(2)).share_memory_()
    context = multiprocessing.get_context("spawn")
    shares = [clients // workers + (worker < clients % workers) for worker in range(workers)]
    with ProcessPoolExecutor(workers, context, started, (context.Barrier(workers), x, y)) as pool:
        tasks = [pool.submit(rounds, hidden, share, batch, gathering, seed) for seed, share in enumerate(shares)]
        spans = [task.result() for task in tasks]
    together = list(zip(*spans, strict=True))
    shortest = min(max(end for _, end, _ in parts) - min(start for start, _, _ in parts) for parts in together)
    return shortest, min(sum(processor for _, _, processor in parts) for parts in together)


def started(barrier: Any, x: Tensor, y: Tensor) -> None:
    """A worker begins: one thread, and the shared pool."""
    torch.set_num_threads(1)
    _start.update(barrier=barrier, x=x, y=y)


def rounds(hidden: tuple[int, ...], clients: int, batch: int, gathering: bool, seed: int) -> list[Span]:
    """A worker's part of each round; all workers begin a round together."""
    barrier, x, y = _start["barrier"], _start["x"], _start["y"]
    gradients = Gradients.of(hidden, CHUNKS.get(hidden, 16), batch)
    chunks = (gathered if gathering else standing)(x, y, clients, batch, gradients.chunk, seed)
    whole_chunks = -(-min(clients, KEPT) // gradients.chunk) * gradients.chunk
    matrix = torch.zeros(whole_chunks, gradients.dimension).fill_(0)  # filled: its pages exist before the clock
    gradients.check(*chunks(0, 1))
    spans = []
    for _ in range(ROUNDS + 1):
        barrier.wait(PATIENCE)
        start, processor = perf_counter(), process_time()
        for first in range(0, clients, gradients.chunk):
            size = min(gradients.chunk, clients - first)
            place = first % len(matrix)
            gradients(*chunks(first, size), matrix[place : place + size])
        spans.append((start, perf_counter(), process_time() - processor))
    return spans[1:]


def standing(x: Tensor, y: Tensor, clients: int, batch: int, chunk: int, seed: int) -> Chunks:
    """Records as they stand in the pool, each client's after the one before; workers begin at different places."""
    ring = RECORDS // batch - chunk + 1

    def records(first: int, size: int) -> tuple[Tensor, Tensor]:
        start = (first + seed * clients) % ring * batch
        return x[start : start + size * batch], y[start : start + size * batch]

    return records


def gathered(x: Tensor, y: Tensor, clients: int, batch: int, chunk: int, seed: int) -> Chunks:
    """Records from all over the pool, copied into a buffer; which ones was drawn before."""
    index = np.random.default_rng(seed).integers(RECORDS, size=(clients, batch))
    pool, buffer = x.numpy(), torch.zeros(chunk * batch, FEATURES)

    def records(first: int, size: int) -> tuple[Tensor, Tensor]:
        wanted = index[first : first + size].reshape(-1)
        np.take(pool, wanted, axis=0, out=buffer[: size * batch].numpy(), mode="clip")  # clip: no copy in between
        return buffer[: size * batch], y[torch.from_numpy(wanted)]

    return records


@dataclass
class Gradients:
    """The gradients of a chunk of clients, for no hidden layer or one. Activations are (units, records of all clients):
    with few classes that is 1.7 times faster than records as rows. A product goes to scratch first and is copied into
    the rows: a tenth faster than writing there directly for 784-10, and no slower for 784-128-10."""

    weights: list[Tensor]
    biases: list[Tensor]
    chunk: int
    batch: int
    scratch: list[Tensor]

    @classmethod
    def of(cls, hidden: tuple[int, ...], chunk: int, batch: int) -> Gradients:
        """Random weights, and scratch for every layer."""
        if len(hidden) > 1:
            raise ValueError(f"hidden must be () or one width, got {hidden}")
        random = torch.Generator().manual_seed(3)
        sizes = list(pairwise((FEATURES, *hidden, CLASSES)))
        weights = [0.05 * torch.randn((units, inputs), generator=random) for inputs, units in sizes]
        biases = [0.05 * torch.randn((units, 1), generator=random) for _, units in sizes]
        return cls(weights, biases, chunk, batch, [torch.zeros(chunk, *matrix.shape) for matrix in weights])

    @property
    def dimension(self) -> int:
        """The length of a row."""
        return sum(part.numel() for part in (*self.weights, *self.biases))

    def __call__(self, x: Tensor, y: Tensor, out: Tensor) -> None:
        """Write one row a client, for records (clients · batch, features) in the clients' order."""
        seen = [x.t()]
        for layer, (matrix, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            outputs = torch.mm(matrix, seen[-1]).add_(bias)
            seen.append(outputs.relu_() if layer < len(self.weights) - 1 else outputs)
        errors = torch.softmax(seen.pop(), 0)
        errors.scatter_add_(0, y[None], torch.full((1, len(y)), -1.0)).mul_(1 / self.batch)
        end = out.shape[1]
        for layer in reversed(range(len(self.weights))):
            end = self._write(layer, errors, seen[layer], out, end)
            if layer:
                back = torch.mm(self.weights[layer].t(), errors)
                errors = torch.ops.aten.threshold_backward(back, seen[layer], 0)  # nothing where the ReLU was closed

    def _write(self, layer: int, errors: Tensor, seen: Tensor, out: Tensor, end: int) -> int:
        """One layer's part of the rows, which ends at `end`; where it begins."""
        clients, (units, inputs) = len(out), self.weights[layer].shape
        own = errors.view(units, clients, self.batch).transpose(0, 1)
        records = seen.t().view(clients, self.batch, inputs) if layer == 0 else each_own(seen, clients)
        product = torch.bmm(own, records, out=self.scratch[layer][:clients])
        begin = end - units * (inputs + 1)
        out[:, begin : end - units].view(clients, units, inputs).copy_(product)
        torch.sum(own, 2, out=out[:, end - units : end])
        return begin

    def check(self, x: Tensor, y: Tensor) -> None:
        """One client's row is what autograd says."""
        parts = [part.clone().requires_grad_() for pair in zip(self.weights, self.biases, strict=True) for part in pair]
        outputs = x.t()
        for layer in range(0, len(parts), 2):
            outputs = parts[layer] @ (outputs.relu() if layer else outputs) + parts[layer + 1]
        torch.nn.functional.cross_entropy(outputs.t(), y).backward()
        row = torch.zeros(1, self.dimension)
        self(x, y, row)
        torch.testing.assert_close(row[0], torch.cat([part.grad.flatten() for part in parts if part.grad is not None]))


def each_own(seen: Tensor, clients: int) -> Tensor:
    """(units, records of all) as (clients, records of one, units), without a copy."""
    return seen.view(len(seen), clients, -1).permute(1, 2, 0)


def main() -> None:
    """Both models on one worker and two, without and with gathering."""
    for hidden, workers, gathering in product(MODELS, (1, 2), (False, True)):
        shortest, processor = measured(hidden, 1_000, 32, workers, gathering=gathering)
        model = "-".join(map(str, (FEATURES, *hidden, CLASSES)))
        print(
            f"{model:<12} workers {workers}, {'with' if gathering else 'without':>7} gathering: "
            f"{1000 * shortest:6.1f} ms for 1,000 clients, {1_000 / processor:7,.0f} a CPU-second",
            flush=True,
        )


if __name__ == "__main__":
    main()
