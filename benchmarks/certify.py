"""Certifying with the MNIST network of [S], and what the certificates are worth beside each other at equal draws.

    python -m benchmarks.certify [images]

1,000 images at 2,000 draws are to take under 90 seconds on two cores. The network has its shape and no training, for
neither matters to the time; the images are uniform. The table of radii is a function of the lead alone, so it is one
for every network: a class ahead by so much under each noise, all of the same standard deviation.
"""

from __future__ import annotations

import sys
from math import sqrt
from time import perf_counter, process_time

import numpy as np
import torch
from torch import nn

from clients.models.randomised import noised_network
from clients.robustness.certifying import Terms, verdicts_of
from fedpriv.certified import GaussianSmoothing, LaplaceSmoothing, StoBatchSmoothing
from fedpriv.certified.confidence import clopper_pearson, hoeffding_interval, leading_bounds
from fedpriv.certified.smoothing import in_linf

DRAWS, SPREAD, CONFIDENCE = 2000, 0.5, 0.999
PIXELS, HIDDEN, MAPS = 784, 6272, 32


def mnist_network() -> nn.Module:
    """Convolutions of 32 and 64 channels, 5 × 5 in steps of 2, means of 2 × 2 between them; 256 units; 10 classes."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first = [nn.Conv2d(1, 32, 5, 2, 2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(32, 64, 5, 2, 2), nn.ReLU()]
        return nn.Sequential(*first, nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 10)).eval()


def timed(images: int, workers: int = 2) -> list[tuple[str, float, float]]:
    """Seconds, and seconds of a core, for each law of noise."""
    x = np.random.default_rng(1).uniform(-1, 1, (images, 1, 28, 28)).astype(np.float32)
    kinds = (GaussianSmoothing(noise=SPREAD), LaplaceSmoothing(noise=SPREAD / sqrt(2), dimension=PIXELS))
    rows, network = [], mnist_network()
    for kind in kinds:
        begun, used = perf_counter(), process_time()
        for _ in verdicts_of(noised_network(network, kind), x, Terms(smoothing=kind, draws=DRAWS), workers=workers):
            pass
        rows.append((type(kind).__name__, perf_counter() - begun, process_time() - used))
    return rows


def radii() -> list[tuple[int, float, float, float, float]]:
    """ℓ∞ radii of a class with so many of the draws: Gaussian, Laplace, StoBatch with ψ = 2, and as [S] prints that."""
    scale = SPREAD / sqrt(2)
    gaussian, laplace = GaussianSmoothing(noise=SPREAD), LaplaceSmoothing(noise=scale, dimension=PIXELS)
    stobatch = StoBatchSmoothing(noise=scale, divided=2, dimension=PIXELS, hidden=HIDDEN, maps=MAPS, row=2.0)
    rows = []
    for votes in (1100, 1500, 1900, 1990, 2000):
        counts = np.array([votes, DRAWS - votes] + [0] * 8)
        own = leading_bounds(clopper_pearson(counts, DRAWS, 1 - CONFIDENCE), 0)
        theirs = leading_bounds(hoeffding_interval(counts / DRAWS, DRAWS, 1 - CONFIDENCE), 0)
        rows.append((
            votes, in_linf(gaussian.radius(*own), "l2", PIXELS), laplace.radius(*own), stobatch.radius(*own),
            stobatch.published(*theirs),
        ))  # fmt: skip
    return rows


def main() -> None:
    images = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{images:,} images at {DRAWS:,} draws, two threads")
    for name, seconds, used in timed(images):
        print(f"  {name:<18} {seconds:7.1f} s   {used:7.1f} s of cores")
    print(f"\nℓ∞ radius at {DRAWS:,} draws, 784 pixels, noise of standard deviation {SPREAD}, confidence {CONFIDENCE}")
    print("  votes   Gaussian  Laplace   StoBatch, ψ = 2  as [S] prints it")
    for votes, *row in radii():
        print(f"  {votes:>5,}   " + "  ".join(f"{value:<8.2g}" for value in row))


if __name__ == "__main__":
    main()
