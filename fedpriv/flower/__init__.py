"""Privacy for anybody's Flower app: `private` among a ClientApp's mods, `Private` around a ServerApp's strategy.

What each client returns leaves as the message of a channel, charged to the node's own ledger before; the strategy
checks what arrives, aggregates by any rule of `fedpriv.aggregation`, and says what it has cost (docs/flower.md).
"""

from __future__ import annotations

from fedpriv.flower._accountant import Accountant
from fedpriv.flower._evaluating import PrivateEvaluation, PrivateLabels
from fedpriv.flower._ledger import read_ledgers
from fedpriv.flower._masks import SumsOnly
from fedpriv.flower._mod import private
from fedpriv.flower._strategy import Private

__all__ = ["Accountant", "Private", "PrivateEvaluation", "PrivateLabels", "SumsOnly", "private", "read_ledgers"]
