"""The model and the data: 64 pixels, ten digits, 650 weights."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord
from sklearn.datasets import load_digits

HELD_OUT = 360  # records that no client has


def load_records():
    """All digits in one fixed order: pixels from 0 to 1, and labels."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return (x[order] / 16).astype(np.float32), y[order]


def load_partition(partition, partitions):
    """The records of one client."""
    x, y = load_records()
    return np.array_split(x[:-HELD_OUT], partitions)[partition], np.array_split(y[:-HELD_OUT], partitions)[partition]


def first_model():
    """Weights to start from."""
    return to_arrays(np.zeros((64, 10), np.float32), np.zeros(10, np.float32))


def to_arrays(weights, bias):
    """A model as Flower sends it."""
    return ArrayRecord({"weights": Array(weights), "bias": Array(bias)})


def from_arrays(arrays):
    """A model from what Flower sent."""
    return arrays["weights"].numpy(), arrays["bias"].numpy()


def train(weights, bias, x, y, steps, rate):
    """Gradient steps of softmax regression on all of a client's records; the loss before the last."""
    for _ in range(steps):
        scores = x @ weights + bias
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        loss = -np.log(shares[np.arange(len(y)), y] + 1e-9).mean()
        shares[np.arange(len(y)), y] -= 1
        weights = weights - rate * (x.T @ shares) / len(y)
        bias = bias - rate * shares.mean(axis=0)
    return weights.astype(np.float32), bias.astype(np.float32), float(loss)


def accuracy(weights, bias, x, y):
    """The share of records that the model takes for what they are."""
    return float(((x @ weights + bias).argmax(axis=1) == y).mean())
