"""Stand-in by the lead until helper A's version is here: helper A, please overwrite."""
from __future__ import annotations
from dataclasses import dataclass
from typing import ClassVar, Any, Protocol
import numpy as np
from fedpriv.kinds import made
class Rule(Protocol):
    needs_rows: ClassVar[bool]
@dataclass(frozen=True)
class Mean:
    """mean"""
    needs_rows: ClassVar[bool]=False
    def __call__(self,m): return m.mean(0)
@dataclass(frozen=True)
class MajorityVote:
    """vote"""
    ties: str="zero"
    needs_rows: ClassVar[bool]=False
    def of_sum(self,t,rng): return np.sign(t)
    def __call__(self,m): return np.sign(np.sign(m).sum(0))
@dataclass(frozen=True)
class Median:
    """median"""
    needs_rows: ClassVar[bool]=True
    def __call__(self,m): return np.median(m,axis=0)
@dataclass(frozen=True)
class TrimmedMean:
    """tm"""
    dropped:int
    needs_rows: ClassVar[bool]=True
    def __call__(self,m): s=np.sort(m,axis=0); return s[self.dropped:len(m)-self.dropped].mean(0)
@dataclass(frozen=True)
class NormTrimmedSum:
    """nts"""
    dropped:int
    needs_rows: ClassVar[bool]=True
    def __call__(self,m): return m.sum(0)
RULES={c.__name__:c for c in (Mean,MajorityVote,Median,TrimmedMean,NormTrimmedSum)}
def make_rule(k,s): return made("rule",RULES,k,s)
