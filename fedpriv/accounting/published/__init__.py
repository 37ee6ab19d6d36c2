"""What papers print of privacy, and approximations: to look at beside a certificate, never in its place."""

from fedpriv.accounting.published._asymptotic import (
    Moments,
    clt_delta,
    clt_epsilon,
    clt_mu,
    edgeworth_delta,
    edgeworth_epsilon,
    edgeworth_tradeoff,
    moments,
    poisson_gaussian_mu,
    subsampled_mu,
)

__all__ = [
    "Moments", "clt_delta", "clt_epsilon", "clt_mu", "edgeworth_delta", "edgeworth_epsilon", "edgeworth_tradeoff",
    "moments", "poisson_gaussian_mu", "subsampled_mu",
]  # fmt: skip
