"""What training makes small, by its kind: a loss of each record, of what the model gives for it and its label.

Labels are class numbers, or they are numbers: a model then has one output, and what is measured is R². Nothing here
loads torch until a loss is worked out.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol

from fedpriv.errors import FedprivError, limited, positive, real
from fedpriv.registry import Kind, Registry
from fedpriv.settings import check_fields

if TYPE_CHECKING:
    from torch import Tensor

CLASSES, NUMBERS = "classes", "numbers"


class Loss(Protocol):
    """What every loss can do. It may say in `labels` which it is of, "classes" or "numbers"; else it is tried."""

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Each record's loss (records,), of outputs (records, classes), or of (records,) where labels are numbers."""


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """−log of the label's share after the softmax; smoothed, a part of the label is spread over all classes."""

    smoothing: Annotated[
        float, real, limited("must be in [0, 1)", least=0, below=1), "the part of a label that all classes share"
    ] = 0.0

    labels: ClassVar = CLASSES

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Each record's cross entropy (records,) of a model's outputs (records, classes) and class numbers."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(outputs, labels, reduction="none", label_smoothing=self.smoothing)


@dataclass(frozen=True, kw_only=True)
class Hinge:
    """Σ max(0, margin − s_y + s_j)/L over the other classes j: no record counts that is right by the margin."""

    margin: Annotated[float, positive, "by how much the label's output must be above each other one"] = 1.0

    labels: ClassVar = CLASSES

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Each record's multi-class hinge loss (records,) of a model's outputs (records, classes) and class numbers."""
        short = (outputs - outputs.gather(1, labels[:, None]) + self.margin).clamp(min=0)
        return (short.sum(1) - self.margin) / outputs.shape[1]


@dataclass(frozen=True, kw_only=True)
class SquaredError:
    """(ŷ − y)²: of labels that are numbers. With `Logistic`, which is one dense layer, a linear regression."""

    labels: ClassVar = NUMBERS

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Each record's squared error (records,) of a model's outputs (records,) and numbers."""
        away = outputs - labels
        return away * away


@dataclass(frozen=True, kw_only=True)
class Huber:
    """½(ŷ − y)² up to a distance δ, a line beyond: of labels that are numbers, some far from all others."""

    delta: Annotated[float, positive, "δ, the distance from which on it is a line"] = 1.0

    labels: ClassVar = NUMBERS

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Each record's Huber loss (records,) of a model's outputs (records,) and numbers."""
        away = outputs - labels
        near = away.clamp(-self.delta, self.delta)
        return near * (away - near / 2)


LOSSES = Registry("loss", Loss, (CrossEntropy, Hinge, SquaredError, Huber))


def is_shipped(loss: Loss) -> bool:
    """Whether a study's loss is one of ours, whose records have nothing in common and may be worked out in blocks."""
    return type(loss) in LOSSES.values()


def record_losses(loss: Loss, outputs: Tensor, labels: Tensor) -> Tensor:
    """Each record's loss (records,) of a model's outputs (records, width), for an engine; anything else is refused.

    A loss of one's own is copied for every call: what one keeps of a client's records must not reach another client.
    """
    if outputs.ndim != 2 or len(outputs) != len(labels):
        raise FedprivError(f"the model gives outputs of shape {tuple(outputs.shape)} for {len(labels)} records")
    own = loss if is_shipped(loss) else deepcopy(loss)
    found = own(outputs[:, 0] if labels.is_floating_point() else outputs, labels)
    if (shape := getattr(found, "shape", None)) != labels.shape:
        got = f"a {type(found).__name__}" if shape is None else f"shape {tuple(shape)}"
        raise FedprivError(
            f"a loss must give each of {len(labels)} records a number, got {got}: of torch's own, reduction = 'none'"
        )
    return found


def fitting_loss(table: Kind, classes: int) -> Loss:
    """The loss of a study's table for labels as its data have them: `classes`, 0 for numbers; one's own is tried."""
    loss, has = LOSSES.of(table), CLASSES if classes else NUMBERS
    of = getattr(loss, "labels", None)
    if of not in (None, has):
        fitting = ", ".join(name for name, own in LOSSES.items() if own.labels == has)
        raise FedprivError(f"{table.kind} is of labels that are {of}, and those of the data are {has}: {fitting}")
    if is_shipped(loss):
        return loss
    import torch

    outputs = torch.zeros(2, classes or 1, requires_grad=True)
    labels = torch.zeros(2, dtype=torch.int64 if classes else torch.float32)
    with torch.enable_grad():
        torch.autograd.grad(record_losses(loss, outputs, labels).sum(), outputs)
    return loss
