"""Privacy for anybody's Flower app: what it gives away, accounted and certified."""

from fedpriv.flower._accountant import Accountant

__all__ = ["Accountant"]
