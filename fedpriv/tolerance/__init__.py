"""How many attackers the vote on one coordinate survives: the papers' bounds, a certificate, and the exact number.

N honest clients have the mean x̄ > 0 on a coordinate (for a negative mean turn all signs round). K attackers vote beside
them. The vote is *right* when the sum of all votes has the sign of x̄, and K attackers are *tolerated* when that is more
probable than not: P(right) > ½, as in [F] section 5. A tie is not right.
"""

from fedpriv.tolerance.shares import check_mirrored, covered_share, expected_wrong, is_mirrored, least_mean
from fedpriv.tolerance.vote import Vote

__all__ = ["Vote", "check_mirrored", "covered_share", "expected_wrong", "is_mirrored", "least_mean"]
