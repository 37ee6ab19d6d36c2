"""Accuracy under attack: what a network, randomised or not, takes attacked inputs for.

A randomised network is attacked through the mean score of a few fresh draws and its gradient, and then judged as
`certifying` judges any input: by the votes of many other draws. As those are draws, an attack's success is counted two
ways. `best` is what most of them are for. `surely` says that they prove it to be ahead: only an image that is surely
taken for something else can speak against a certificate, and does so with probability 1 − confidence at the most.
Each image has streams of its own, so what becomes of it does not depend on the others, or on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from clients.models.arrays import Floats
from clients.models.randomised import Noised, check_network
from clients.robustness.certifying import Terms, averaged_score, check_inputs, each_image, estimated_scores
from clients.robustness.input_attacks import Fgsm, IFgsm, InputAttack, Mim, Pgd
from fedpriv._base.arrays import Numbers
from fedpriv.randomness.streams import stream

SEEN = 8  # draws behind each gradient
STEPS = 10  # T_μ of [S]
WORST = "all"  # attacks together: the worst of them for each image


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """One image after one attack."""

    image: int
    attack: str  # its name in `attacks_of`
    size: float  # how far it may move the image
    best: int  # the class that the network takes it for
    surely: bool  # whether the draws prove that class to be ahead


def attacks_of(size: float, steps: int = STEPS) -> dict[str, InputAttack]:
    """The four attacks on inputs of [S], of that size in ℓ∞, by its names: under them accuracy is measured."""
    return {
        "FGSM": Fgsm(size=size), "I-FGSM": IFgsm(size=size, steps=steps), "MIM": Mim(size=size, steps=steps),
        "PGD": Pgd(size=size, steps=steps),
    }  # fmt: skip


def attacked_images(
    network: nn.Module, x: Floats, y: Numbers, terms: Terms, size: float, images: Iterable[int] | None = None,
    workers: int = 1, attacks: Mapping[str, InputAttack] | None = None,
) -> Iterator[list[Attacked]]:  # fmt: skip
    """Every image under every attack on inputs of that size, and the class it is then taken for, in order, as found.

    `network` is in evaluation mode, from records (rows, *shape) to logits; where it has `Noised` layers it is judged by
    `terms.draws` draws, else as it is.
    """
    check_network(network)
    check_inputs(x)
    chosen = attacks_of(size) if attacks is None else attacks
    fixed = deepcopy(network)
    for parameter in fixed.parameters():  # gradients are of inputs alone
        parameter.requires_grad_(False)
    work = partial(_attacked, x, y, terms, size, chosen)
    yield from each_image(fixed, x, work, range(len(x)) if images is None else list(images), workers)


def _attacked(
    x: Floats, y: Numbers, terms: Terms, size: float, attacks: Mapping[str, InputAttack], network: nn.Module, image: int
) -> list[Attacked]:
    """One image under each attack on inputs: the class it is then taken for, by many draws of a noisy network."""
    rng, found = stream(terms.seed, "attack", client=image), []
    random = any(isinstance(layer, Noised) for layer in network.modules())
    seen = averaged_score(network, SEEN, rng) if random else network
    record, label = torch.tensor(x[image : image + 1], dtype=torch.float32), torch.tensor(y[image : image + 1])
    for name, attack in attacks.items():
        moved = attack(seen, record, label, torch.Generator().manual_seed(int(rng.integers(2**62))))
        if random:
            best, lower, upper = estimated_scores(network, moved[0].numpy(), terms.draws, rng).leader(terms)
            surely = lower > upper
        else:
            with torch.inference_mode():
                best, surely = int(network(moved).argmax(1)), True
        found.append(Attacked(image=image, attack=name, size=size, best=best, surely=surely))
    return found


def accuracies_under(found: Sequence[Attacked], y: Numbers) -> dict[str, tuple[float, float]]:
    """By attack, and under the worst for each image: two shares of the images for which the network stays accurate.

    The first is taken for what it is, the second is not surely taken for something else. `found` has every image under
    all attacks, one after the other.

    >>> one = dict(attack="FGSM", size=0.1)
    >>> found = [Attacked(image=0, best=3, surely=True, **one), Attacked(image=1, best=4, surely=False, **one)]
    >>> accuracies_under(found, np.array([3, 5]))
    {'FGSM': (0.5, 1.0), 'all': (0.5, 1.0)}
    """
    names = list(dict.fromkeys(each.attack for each in found))
    right = np.array([each.best == y[each.image] for each in found]).reshape(-1, len(names))
    unsure = right | ~np.array([each.surely for each in found]).reshape(right.shape)
    columns = {name: (right[:, place], unsure[:, place]) for place, name in enumerate(names)}
    columns[WORST] = np.all(right, axis=1), np.all(unsure, axis=1)
    return {name: (float(own.mean()), float(other.mean())) for name, (own, other) in columns.items()}
