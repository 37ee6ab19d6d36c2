"""What clients' own optimisers make of the gradients along their local steps, each client's from the beginning."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from torch import Tensor

from fedpriv.aggregation.optimisers import Memory, Optimiser, Sgd
from fedpriv.errors import FAULTS, reason

PLAIN = Sgd()


class LocalSteps:
    """The optimisers of a cohort's clients in one round; a client's bits do not depend on who else is there."""

    def __init__(self, optimiser: Optimiser, pull: float) -> None:
        """`pull` is how much of the way come so far, in units of the learning rate, is taken off every gradient."""
        self.is_plain = optimiser == PLAIN and not pull  # gradients are added up as they are
        self._optimiser, self._pull = optimiser, pull
        self._own = dict[int, tuple[Optimiser, Memory]]()  # a copy for each client: none may keep anything of another

    def add(self, first: int, gradients: Tensor, total: Tensor) -> dict[int, str]:
        """Add what the clients from number `first` on make of their gradients to the rows of `total`; who failed, why.

        `total` is how far each has come, (start − weights now) / learning rate.
        """
        if self.is_plain:
            total += gradients
            return {}
        failures: dict[int, str] = {}
        for row, (gradient, way) in enumerate(zip(gradients.numpy(), total.numpy(), strict=True), first):
            try:
                if row not in self._own:
                    own = deepcopy(self._optimiser)
                    self._own[row] = own, own.start(len(way))
                own, memory = self._own[row]
                memory, change = own.step(memory, gradient.astype(np.float64) - self._pull * way)
                self._own[row] = own, memory
                if np.shape(change) != way.shape:
                    raise ValueError(f"a change of shape {np.shape(change)} of {len(way)} weights")
                way += np.asarray(change)
            except FAULTS as error:
                failures[row], way[:] = f"optimiser: {reason(error)}", np.nan
        return failures
