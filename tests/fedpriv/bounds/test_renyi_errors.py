"""What Rényi divergences leave an attacker: never more than there is, and not much less."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from fedpriv.bounds.renyi_errors import renyi_type_two
from fedpriv.curves.tilting import log_moment
from fedpriv.curves.tradeoff import Tradeoff

ALPHA = np.array([0.0, 1e-6, 0.001, 0.01, 0.05, 0.1, 0.5, 0.99, 1.0])


@given(mu=st.floats(0.01, 2))
def test_a_gaussian_leaves_more_errors_than_its_divergences_say(mu: float) -> None:
    found, truth = renyi_type_two(lambda order: order * mu**2 / 2, ALPHA), ndtr(-ndtri(ALPHA) - mu)
    assert (found <= truth + 1e-12).all()
    assert (found >= truth - 0.25).all()


@given(p=st.floats(0.01, 0.99), q=st.floats(0.01, 0.99))
def test_two_coins_leave_more_errors_than_their_divergences_say(p: float, q: float) -> None:
    curve = Tradeoff.between([p, 1 - p], [q, 1 - q])
    sides = [curve.above, curve.inverse.above]

    def divergence(order: float) -> float:
        return max(log_moment(side.loss, side.log_q, order - 1) for side in sides) / (order - 1)

    found = renyi_type_two(divergence, ALPHA)
    assert (found <= curve(ALPHA) + 1e-9).all()
    assert (found <= curve.inverse(ALPHA) + 1e-9).all()


def test_no_divergence_leaves_every_error_and_an_endless_one_none() -> None:
    assert np.allclose(renyi_type_two(lambda _: 0.0, ALPHA), 1 - ALPHA, atol=1e-5)
    assert not renyi_type_two(lambda _: np.inf, ALPHA[1:]).any()
