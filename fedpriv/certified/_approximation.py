"""How far the polynomials of the functional mechanism are from the losses: [S] Appendix O, and the exact error.

Both losses are softplus log(1 + e^z) less a part that is linear in z and exact. Softplus is log 2 + z/2 + log
cosh(z/2), so all that is cut off is log cosh(z/2) after the first order, log cosh(z/2) − z²/8 after the second: the
first is between 0 and z²/8, the second between −z⁴/192 and 0. [S] bounds them for |z| ≤ 1 only, through the derivatives
at ±1, which are the smallest in that interval and not the largest as it says; its bounds hold with room to spare.
"""

from __future__ import annotations

from math import e

import numpy as np
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, positive, whole


def published_reconstruction_error(inputs: int) -> float:
    """[S]'s bound on how far a reconstruction loss is from its polynomial, mean of a batch: 4e·d/(1 + e)².

    Equation 35.
    """
    whole(inputs=inputs)
    return 4 * e * inputs / (1 + e) ** 2


def published_label_error(classes: int) -> float:
    """[S]'s bound on how far a label loss of K classes is from its polynomial: (e² + 2e − 1)·K/(e(1 + e)²).

    Equation 36.
    """
    whole(classes=classes)
    return (e * e + 2 * e - 1) * classes / (e * (1 + e) ** 2)


def polynomial_error(z: ArrayLike, order: int) -> Vector:
    """What a loss exceeds its polynomial by at z, exactly: log cosh(z/2), less z²/8 at the second order.

    >>> [round(float(polynomial_error(1.0, order)), 6) for order in (1, 2)]
    [0.120115, -0.004885]
    """
    if order not in (1, 2):
        raise FedprivError(f"order must be 1 (reconstruction) or 2 (labels), got {order}")
    half = np.abs(np.asarray(z, dtype=float)) / 2
    exact = half + np.log1p(np.exp(-2 * half)) - np.log(2)
    return np.asarray(exact if order == 1 else exact - half * half / 2)


def largest_polynomial_error(terms: int, order: int, reach: float = 1.0) -> float:
    """The most that `terms` losses, |z| ≤ reach, and their polynomial can differ by: exact, beside [S]'s bounds.

    >>> round(largest_polynomial_error(25, 1), 3), round(published_reconstruction_error(25), 3)
    (3.003, 19.661)
    """
    whole(terms=terms)
    positive(reach=reach)
    return terms * abs(float(polynomial_error(reach, order)))
