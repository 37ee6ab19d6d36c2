"""What a rule costs on one core: ByzFL, the work that no form of the rule can leave out, and ours.

CPU seconds (`process_time`) in one process on one thread, the best of several turns one after the other; float32 rows
about a common point, f the number of attackers assumed. ByzFL gets its own tensors. The bare work is what remains of a
rule's best known form without its checks: the products of all pairs of rows and one weighted sum of them (Krum,
MultiKrum, the geometric median to its end, CAF), those and one product of matrices (NNM), the norms and a weighted sum
(centred clipping), a sort of each column in cache (median, trimmed mean, Meamed), one sum of bytes (a majority of
signs). ByzFL takes three steps to its geometric median; of NNM it gathers all neighbours of all rows at once, 32 GB at
1,000 × 10,000, which is left out; its ARC writes to what it is given, and finds nothing to clip a second time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from time import process_time
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from fedpriv import aggregation
from fedpriv._base.one_thread import one_thread
from fedpriv.aggregation import Aid

TURNS = 5
SIZES = ((100, 100_000, 20), (1000, 10_000, 200))

Act = Callable[[], object]


class Case(NamedTuple):
    """One rule: ByzFL's, where it has it and memory allows it; the bare work, where that is known; ours."""

    title: str
    byzfl: Act | None
    bare: Act | None
    ours: Act


def rows() -> list[dict[str, str]]:
    """One row a rule and size: milliseconds of each, and ours as a share of theirs."""
    with one_thread():
        return [row(case) for rows, columns, f in SIZES for case in cases(rows, columns, f)]


def row(case: Case) -> dict[str, str]:
    acts = {"ByzFL": case.byzfl, "bare": case.bare, "fedpriv": case.ours}
    best = {name: None if act is None else min(seconds(act) for _ in range(TURNS)) for name, act in acts.items()}
    ours = best["fedpriv"]
    assert ours is not None

    def over(theirs: float | None) -> str:
        return "–" if theirs is None else f"{ours / theirs:.2f}"

    shown = {f"{name}, ms": "–" if own is None else f"{own * 1e3:.3g}" for name, own in best.items()}
    return {"rule": case.title, **shown, "of ByzFL": over(best["ByzFL"]), "of bare": over(best["bare"])}


def seconds(act: Act) -> float:
    start = process_time()
    act()
    return process_time() - start


def cases(count: int, columns: int, f: int) -> Iterator[Case]:
    rng = np.random.default_rng(1)
    matrix = (rng.normal(size=columns) + rng.normal(size=(count, columns))).astype(np.float32)
    size, theirs, bare = f"{count:,} × {columns:,}, f = {f}", peers(matrix, f), Bare(matrix)
    radius = float(np.median(np.linalg.norm(matrix, axis=1)))
    ours: list[tuple[str, str | None, Act | None, Any]] = [
        ("median", "Median", bare.sort, aggregation.Median()),
        ("trimmed mean", "TrMean", bare.sort, aggregation.TrimmedMean(dropped=f)),
        ("Meamed", "Meamed", bare.sort, aggregation.Meamed(byzantine=f)),
        ("Krum", "Krum", bare.pairs, aggregation.Krum(byzantine=f)),
        ("MultiKrum", "MultiKrum", bare.pairs, aggregation.MultiKrum(byzantine=f)),
        ("Bulyan", None, None, aggregation.Bulyan(byzantine=f)),
        ("geometric median", "GeometricMedian", bare.pairs, aggregation.GeometricMedian()),
        ("CAF", "CAF", bare.pairs, aggregation.Caf(byzantine=f)),
        ("DnC", None, None, aggregation.Dnc(byzantine=f)),
        ("SignGuard", None, None, aggregation.SignGuard()),
        ("MDA within twice the least", None, bare.pairs, aggregation.Mda(byzantine=f, search="ball")),
        ("MoNNA", None, bare.norms, aggregation.MoNna(byzantine=f, root=1)),
        ("clipped clustering", None, bare.pairs, aggregation.ClippedClustering()),
        ("FLAME", None, bare.pairs, aggregation.Flame()),
        ("FLTrust", None, None, aggregation.FlTrust(root=1)),
        ("centred clipping", "CenteredClipping", bare.norms, aggregation.CenteredClipping(radius=radius)),
        ("NNM", "NNM" if count < 1000 else None, bare.mixing, aggregation.Nnm(byzantine=f)),
        ("NNM, then Krum", None, bare.pairs, nnm_then_krum(f)),
        ("ARC", "ARC", None, aggregation.Arc(byzantine=f)),
        ("bucketing by twos", "Bucketing", None, aggregation.Bucketing(size=2)),
    ]
    reference = matrix[0].astype(np.float64)
    for title, name, work, rule in ours:
        act = partial(call, rule, matrix, reference)
        yield Case(f"{title}, {size}", theirs.get(name or ""), work, act)
    yield votes(matrix, size)


def call(rule: aggregation.Rule, matrix: np.ndarray, reference: np.ndarray) -> object:
    return rule(matrix, Aid(np.random.default_rng(1), reference))


def nnm_then_krum(f: int) -> aggregation.Rule:
    return aggregation.Chain((aggregation.Nnm(byzantine=f),), aggregation.Krum(byzantine=f))


def votes(matrix: np.ndarray, size: str) -> Case:
    signs = np.sign(matrix).astype(np.int8)
    theirs = None
    if find_spec("torch") is not None:
        import torch

        tensor = torch.from_numpy(signs)
        theirs = lambda: torch.sign(tensor.sum(0))  # noqa: E731  # it has no vote of its own
    rule = aggregation.ClientVote()
    title = f"majority of int8 signs (torch for ByzFL), {size.split(', f')[0]}"
    return Case(title, theirs, lambda: np.sign(signs.sum(axis=0, dtype=np.int16)), lambda: rule(signs))


def peers(matrix: np.ndarray, f: int) -> dict[str, Act]:
    """ByzFL's rules by name, each on tensors of its own; ARC writes to what it is given."""
    if find_spec("byzfl") is None:
        return {}
    import torch

    torch.set_num_threads(1)
    sys.modules["byzfl.benchmark"] = ModuleType("byzfl.benchmark")  # only downloads, by torchvision
    import byzfl

    tensor = torch.from_numpy(matrix.copy())
    settings: dict[str, dict[str, Any]] = {name: {} for name in ("Median", "GeometricMedian", "CenteredClipping")}
    settings |= {name: {"f": f} for name in ("TrMean", "Meamed", "Krum", "MultiKrum", "CAF", "NNM", "ARC")}
    settings |= {"Bucketing": {"s": 2}}
    return {
        name: lambda name=name, own=own: getattr(byzfl, name)(**own)(tensor) for name, own in settings.items()
    }  # a new one each time: centred clipping remembers


class Bare:
    """The work that no form of a rule can leave out."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix
        self.weights = np.full((len(matrix), len(matrix)), 1 / len(matrix), np.float32)

    def sort(self) -> None:
        step = 4096 * 100 // len(self.matrix)
        for start in range(0, self.matrix.shape[1], step):
            np.array(self.matrix[:, start : start + step].T, order="C").sort(axis=1)

    def pairs(self) -> object:
        return self.matrix @ self.matrix.T, self.weights[0] @ self.matrix

    def norms(self) -> object:
        return np.vecdot(self.matrix, self.matrix), self.weights[0] @ self.matrix

    def mixing(self) -> object:
        return self.matrix @ self.matrix.T, self.weights @ self.matrix


if __name__ == "__main__":
    for line in rows():
        print(
            " | ".join(f"{value:<58}" if key == "rule" else f"{value:>11}" for key, value in line.items()), flush=True
        )
